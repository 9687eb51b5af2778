//! The server of a test: the real one, on a store that nobody wants to find again and a clock that is moved by hand.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use baton::Client;
use baton_server::entropy::SeededEntropy;
use baton_server::{App, Settings, serve};
use baton_store::sqlite::{Outlook, SqliteStore};
use baton_store::{Clock, Store};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The admin key of every server here. It guards nothing: whoever reads it can only reach a server that lives as long as a test.
const KEY: &str = "the-admin-key-of-a-test";
/// A span that no test passes, and that can be added to every moment.
const FOREVER_MS: u64 = 100 * 365 * 24 * 3_600 * 1_000;

/// A server in this process. It stops when this is dropped.
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    store: Arc<SqliteStore>,
    app: App,
    _stop: DropGuard,
    _files: TempDir,
}

impl Site {
    pub(crate) async fn start(at: SystemTime) -> Site {
        let clock = Clock::manual(millis(at));
        let store = Arc::new(SqliteStore::open_in_memory(clock.clone()).expect("a temporary directory can be written"));
        let files = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = settings(&files);
        let storage = baton_server::open_storage(&settings).expect("a directory can be a storage");
        let shared: Arc<dyn Store> = store.clone();
        // The same dice in every test: pauses between attempts are as long today as they were yesterday.
        let entropy = Arc::new(SeededEntropy::new(7));
        let app = App::build(shared, storage, settings, entropy).await.expect("a new store can be served");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let stop = CancellationToken::new();
        tokio::spawn(serve(app.clone(), listener, stop.clone().cancelled_owned()));
        let client = Client::connect(&url).api_key(KEY).await.expect("the server listens");
        Site { url, client, clock, store, app, _stop: stop.drop_guard(), _files: files }
    }

    pub(crate) fn api_key(&self) -> &'static str {
        KEY
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.local()
    }

    /// Moves the clock to this moment, unless it has passed.
    pub(crate) fn move_to(&self, at: i64) {
        self.clock.advance((at - self.now()).max(0));
    }

    pub(crate) async fn outlook(&self) -> Outlook {
        self.store.outlook().await.expect("the store of a test can be read")
    }

    /// Has the server look for what is due. It notes how far away a moment is after it was written down, and a clock that has jumped in between makes that wrong.
    pub(crate) async fn nudge(&self) {
        let look = self.store.look(&self.app.dispatcher.waited_for()).await.expect("the store of a test can be read");
        self.app.dispatcher.looked(&look);
        self.app.deadlines.ring();
        self.app.schedules.ring();
        self.app.ends.ring();
    }
}

fn settings(files: &TempDir) -> Settings {
    Settings {
        data: files.path().to_owned(),
        storage_url: Some(files.path().to_string_lossy().into_owned()),
        storage_free_bytes_min: 0,
        api_key: Some(KEY.into()),
        // Workers send heartbeats by the real clock and cannot keep up with one that jumps. Those that fall are taken offline by hand.
        lease_ttl_ms: FOREVER_MS,
        // What has ended is there for the test to look at, however long ago it was.
        retention_runs_ms: FOREVER_MS,
        retention_workers_ms: FOREVER_MS,
        retention_audit_ms: FOREVER_MS,
        ..Settings::default()
    }
}

pub(crate) fn millis(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
