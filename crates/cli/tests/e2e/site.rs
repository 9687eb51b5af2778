//! A server with its store and its directory, for one test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton::Client;
use baton::proto::{SubmitBatch, SubmitRun};
use baton_testkit::{Baton, Database, Process};
use tempfile::TempDir;

/// The program under test.
pub const BATON: &str = env!("CARGO_BIN_EXE_baton");
/// The master key of servers whose test has no other.
pub const MASTER_KEY: &str = "bmk_0000000000000000000000000000000000000000000000000000";
/// The key of every server here.
pub const API_KEY: &str = "a-key-for-end-to-end-tests";
/// Queue and type of the runs, unless a test needs more than one.
pub const QUEUE: &str = "work";
pub const KIND: &str = "job";

/// Which store a test runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    Sqlite,
    Postgres,
}

/// How long leases live, and how often workers give a sign of life.
#[derive(Clone, Copy, Debug)]
pub struct Leases {
    pub ttl: Duration,
    pub heartbeat: Duration,
}

impl Leases {
    /// So short that a test can wait for one to run out.
    pub const SHORT: Leases = Leases::of_ms(2_000, 500);
    /// So long that none runs out, however slow the machine.
    pub const LONG: Leases = Leases::of_ms(30_000, 1_000);

    pub const fn of_ms(ttl: u64, heartbeat: u64) -> Leases {
        Leases { ttl: Duration::from_millis(ttl), heartbeat: Duration::from_millis(heartbeat) }
    }

    /// The settings of a server with these leases and the tests' key.
    pub fn settings(self) -> Vec<(String, String)> {
        let ms = |span: Duration| span.as_millis().to_string();
        vec![
            ("BATON_LEASE_TTL_MS".into(), ms(self.ttl)),
            ("BATON_HEARTBEAT_INTERVAL_MS".into(), ms(self.heartbeat)),
            ("BATON_API_KEY".into(), API_KEY.into()),
        ]
    }
}

/// A server with everything it needs. Dropping it ends the server before its database goes.
pub struct Site {
    pub server: Baton,
    pub home: TempDir,
    _database: Option<Database>,
}

impl Site {
    /// Starts a server on a fresh store.
    pub async fn start(store: Store, leases: Leases) -> Site {
        let database = match store {
            Store::Sqlite => None,
            Store::Postgres => Some(baton_testkit::database().await),
        };
        let home = tempfile::tempdir().expect("a temporary directory");
        let server = serve(home.path(), database.as_ref().map(Database::url), leases).await;
        Site { server, home, _database: database }
    }

    /// A client of the server.
    pub fn client(&self) -> Client {
        client(&self.server.url())
    }

    /// A real worker of this server, with `command` for each run.
    pub fn worker(&self, concurrency: u32, command: &str) -> Process {
        worker(&self.server.url(), concurrency, command)
    }

    /// A gate that the commands of workers wait at.
    pub fn gate(&self) -> Gate {
        Gate::in_directory(self.home.path())
    }
}

/// Starts a server with its files in `home` and, if given, a PostgreSQL database.
pub async fn serve(home: &Path, database: Option<&str>, leases: Leases) -> Baton {
    serve_with(home, database, leases, &[]).await
}

/// As [`serve`], with more settings.
pub async fn serve_with(home: &Path, database: Option<&str>, leases: Leases, more: &[(&str, &str)]) -> Baton {
    let data = home.join("data");
    let mut arguments = vec!["--data", data.to_str().expect("temporary paths are text")];
    if let Some(url) = database {
        arguments.extend(["--database", url]);
    }
    let settings = leases.settings();
    let settings = settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut settings: Vec<_> = settings.chain(more.iter().copied()).collect();
    if !settings.iter().any(|(name, _)| name.contains("MASTER_KEY")) {
        // Servers of one database need the same one, wherever their files are.
        settings.push(("BATON_MASTER_KEY", MASTER_KEY));
    }
    Baton::serve(&arguments, &settings).await
}

/// A client of the server at `url`.
pub fn client(url: &str) -> Client {
    Client::new(url, API_KEY).expect("a good address")
}

/// A real worker, with `command` for each run.
pub fn worker(url: &str, concurrency: u32, command: &str) -> Process {
    let concurrency = concurrency.to_string();
    let arguments = ["worker", "run", "--queue", QUEUE, "--type", KIND, "--concurrency", &concurrency];
    let environment = [("BATON_URL", url), ("BATON_API_KEY", API_KEY)];
    Process::spawn(BATON, arguments.into_iter().chain(["--exec", command]), environment)
}

/// A run of the usual kind.
pub fn job() -> SubmitRun {
    SubmitRun::new(QUEUE, KIND)
}

/// Submits runs in one call and returns their identifiers, in order.
pub async fn submit(client: &Client, runs: Vec<SubmitRun>) -> Vec<String> {
    let submitted = client.submit_batch(&SubmitBatch { runs }).await.expect("the server takes them");
    submitted.runs.into_iter().map(|run| run.id).collect()
}

/// A gate that commands wait at until the test opens it.
pub struct Gate(PathBuf);

impl Gate {
    pub fn in_directory(directory: &Path) -> Gate {
        Gate(directory.join("gate"))
    }

    /// A shell command that ends when the gate is open.
    pub fn command(&self) -> String {
        format!("while [ ! -e '{}' ]; do sleep 0.1; done", self.0.display())
    }

    pub fn open(&self) {
        std::fs::write(&self.0, "").expect("our own directory");
    }
}
