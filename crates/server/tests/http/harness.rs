//! A server in this process, on a store and a clock of its own, and words to talk to it briefly.

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use baton::proto::{
    API_KEY_HEADER, Claim, ClaimedRun, CompleteRun, CreateKey, FailRun, GiveBackRun, Problem, RegisterWorker, SubmitRun,
};
use baton::{Client, ClientError};
use baton_core::{Millis, State};
use baton_server::entropy::SeededEntropy;
use baton_server::{App, Settings, serve};
use baton_store::{Clock, Store};
use bytes::Bytes;
use http::{HeaderMap, Request, request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Makes one test on SQLite and one on PostgreSQL of each case.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::harness::On::Sqlite).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::harness::On::Postgres).await;
            })+
        }
    };
}
pub(crate) use on_both;

/// The admin key of every server here.
pub const KEY: &str = "an-admin-key-for-the-tests";
/// Where manual clocks begin.
pub const START: Millis = 1_700_000_000_000;
/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// A wait that no test sits through: whoever waits this long is woken by something else.
pub const LONG_MS: u64 = 50_000;

/// Which store a case runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    Sqlite,
    Postgres,
}

/// What a store lives in; removed when it is dropped.
type Home = Box<dyn Any + Send + Sync>;

/// A running server.
pub struct Server {
    pub app: App,
    /// With the admin key.
    pub client: Client,
    pub address: SocketAddr,
    pub clock: Clock,
    pub settings: Settings,
    stop: CancellationToken,
    served: Option<JoinHandle<()>>,
    raw: legacy::Client<HttpConnector, Full<Bytes>>,
    /// Dropped last: the server has to be done with it.
    _files: tempfile::TempDir,
    _home: Home,
}

/// Whatever a test asked for, the answer has a status that the document describes.
impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_documented(&self.app.metrics.text());
        }
    }
}

/// Fails unless every answer that these metrics count has a status that the document describes.
fn assert_documented(metrics: &str) {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::to_value(baton_server::http::openapi()).unwrap());
    let label = |line: &str, name: &str| {
        let value = line.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.unwrap_or_default().to_owned()
    };
    let is_described = |method: &str, route: &str, status: &str| {
        let of = |method: &str| DOCUMENT["paths"][route][method.to_lowercase()]["responses"].get(status).is_some();
        // Whatever can be got can be asked for its head alone.
        of(method) || (method == "HEAD" && of("GET"))
    };
    let counted = metrics.lines().filter(|line| line.starts_with("baton_http_requests_total{"));
    let seen = counted.map(|line| [label(line, "method"), label(line, "route"), label(line, "status")]);
    let missing: Vec<_> = seen
        .filter(|[_, route, status]| !["none", "/openapi.json"].contains(&route.as_str()) && status != "405")
        .filter(|[method, route, status]| !is_described(method, route, status))
        .collect();
    assert!(missing.is_empty(), "the document does not describe these answers: {missing:?}");
}

impl Server {
    /// On a clock that stands still until it is moved.
    pub async fn start(on: On) -> Server {
        Server::with(on, |_| {}).await
    }

    /// As `start`, with other settings.
    pub async fn with(on: On, change: impl FnOnce(&mut Settings)) -> Server {
        Server::launch(on, Clock::manual(START), change).await
    }

    /// As `start`, on a store that stands between the server and the real one.
    pub async fn over(on: On, between: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Server {
        let mut settings = Settings::default();
        let home = home(on, &mut settings).await;
        Server::serve(settings, Clock::manual(START), home, between).await
    }

    /// On the store's own clock.
    pub async fn real(on: On, change: impl FnOnce(&mut Settings)) -> Server {
        Server::launch(on, Clock::Real, change).await
    }

    async fn launch(on: On, clock: Clock, change: impl FnOnce(&mut Settings)) -> Server {
        let mut settings = Settings::default();
        let home = home(on, &mut settings).await;
        change(&mut settings);
        Server::serve(settings, clock, home, |store| store).await
    }

    /// A server on the PostgreSQL database at `url`, which may be shared with others.
    pub async fn on_database(url: &str, clock: Clock) -> Server {
        Server::on_database_with(url, clock, |_| {}).await
    }

    /// As `on_database`, with other settings.
    pub async fn on_database_with(url: &str, clock: Clock, change: impl FnOnce(&mut Settings)) -> Server {
        let mut settings = Settings { database_url: Some(url.to_owned()), ..Settings::default() };
        change(&mut settings);
        Server::serve(settings, clock, Box::new(()), |store| store).await
    }

    async fn serve(
        mut settings: Settings,
        clock: Clock,
        home: Home,
        between: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Server {
        settings.api_key = Some(KEY.into());
        settings.database_connections = 4;
        if settings.master_key_file.is_none() && settings.master_key_command.is_none() {
            settings.master_key.get_or_insert_with(|| baton_core::token::master_key([7; 32]).into());
        }
        let store = baton_server::open_store(&settings, clock.clone()).await.unwrap();
        let files = tempfile::tempdir().unwrap();
        settings.storage_url.get_or_insert_with(|| files.path().to_string_lossy().into_owned());
        settings.storage_free_bytes_min = 0;
        let storage = baton_server::open_storage(&settings).unwrap();
        let entropy = Arc::new(SeededEntropy::new(7));
        let app = App::build(between(store), storage, settings.clone(), entropy).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(app.clone(), listener, stop.clone().cancelled_owned()));
        let client = Client::new(&format!("http://{address}"), KEY).unwrap();
        let raw = legacy::Client::builder(TokioExecutor::new()).build_http();
        Server { app, client, address, clock, settings, stop, served: Some(served), raw, _home: home, _files: files }
    }

    /// Keeps what it needs for as long as the server is there.
    pub fn with_home(mut self, home: impl Send + Sync + 'static) -> Server {
        self._home = Box::new(home);
        self
    }

    /// Whether these bytes are anywhere in the database or in the storage.
    pub async fn holds(&self, needle: &str) -> bool {
        let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        let mut folders = vec![std::path::PathBuf::from(self.settings.storage())];
        match &self.settings.database_url {
            None => folders.push(self.settings.data.clone()),
            Some(url) => {
                let rows = baton_testkit::dump(url).await.unwrap();
                let hexadecimal: String = needle.bytes().map(|byte| format!("{byte:02x}")).collect();
                if rows.contains(needle) || rows.contains(&hexadecimal) {
                    return true;
                }
            }
        }
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if has(&std::fs::read(entry.path()).unwrap_or_default()) => return true,
                    false => {}
                }
            }
        }
        false
    }

    /// Seals payloads of a namespace from now on, or no longer.
    pub async fn seal(&self, namespace: &str, seal: bool) {
        let change = baton::proto::ChangeNamespace { seal_payloads: Some(seal), ..Default::default() };
        self.client.change_namespace(namespace, &change).await.unwrap();
    }

    /// Tells the server to stop, as SIGTERM does.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until it has stopped.
    pub async fn stopped(&mut self) {
        let served = self.served.take().expect("a server stops once");
        tokio::time::timeout(PATIENCE, served).await.expect("the server did not stop").unwrap();
    }

    // ---- calls

    /// A client with another key; an empty one is not sent.
    pub fn client_with(&self, key: &str) -> Client {
        Client::new(&format!("http://{}", self.address), key).unwrap()
    }

    /// Makes a key with these scopes, and a client that has it.
    pub async fn client_for(&self, scopes: &[&str], namespace: Option<&str>) -> Client {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let wanted =
            CreateKey { name: "a test's".into(), scopes, namespace: namespace.map(str::to_owned), expires_in_ms: None };
        self.client_with(&self.client.create_key(&wanted).await.unwrap().key)
    }

    /// A request without a key.
    pub fn request(&self, method: &str, path: &str) -> request::Builder {
        Request::builder().method(method).uri(format!("http://{}{path}", self.address))
    }

    /// Sends a request as it is.
    pub async fn send(&self, request: request::Builder, body: impl Into<Bytes>) -> Answer {
        let request = request.body(Full::new(body.into())).unwrap();
        let (head, body) = self.raw.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Sends a request with the admin key.
    pub async fn call(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(self.request(method, path).header(API_KEY_HEADER, KEY), body).await
    }

    /// A bare connection.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    // ---- runs and workers

    pub async fn submit(&self) -> String {
        self.submit_run(&run()).await
    }

    pub async fn submit_run(&self, run: &SubmitRun) -> String {
        self.client.submit(run).await.unwrap().id
    }

    pub async fn state(&self, run: &str) -> State {
        self.client.run(run).await.unwrap().state
    }

    /// Registers a worker for ten runs of the type `ios` on the queue `builds`.
    pub async fn worker(&self, name: &str) -> String {
        self.client.register(&worker(name)).await.unwrap().worker_id
    }

    pub async fn claims(&self, worker: &str, claim: &Claim) -> Vec<ClaimedRun> {
        self.client.claim(worker, claim).await.unwrap().runs
    }

    /// Claims one run, which must be there.
    pub async fn claim(&self, worker: &str) -> ClaimedRun {
        let claim = started_claim();
        self.claims(worker, &claim).await.pop().expect("nothing to claim")
    }

    /// Submits a run and gives it to a new worker.
    pub async fn held(&self) -> (String, ClaimedRun) {
        let run = self.submit().await;
        let worker = self.worker("holder").await;
        let claimed = self.claim(&worker).await;
        assert_eq!(claimed.run_id, run, "another run was in the way");
        (worker, claimed)
    }

    /// A claim that waits in the background.
    pub fn poll(&self, worker: &str) -> JoinHandle<Vec<ClaimedRun>> {
        let (client, worker) = (self.client.clone(), worker.to_owned());
        tokio::spawn(async move {
            let claim = Claim { wait_ms: Some(LONG_MS), ..started_claim() };
            client.claim(&worker, &claim).await.unwrap().runs
        })
    }

    /// As `poll`, and returns once it waits.
    pub async fn parked(&self, worker: &str) -> JoinHandle<Vec<ClaimedRun>> {
        let before = self.app.dispatcher.waiting();
        let poll = self.poll(worker);
        eventually("the poll waits", async || self.app.dispatcher.waiting() > before).await;
        poll
    }

    /// The value of a metric without labels.
    pub async fn metric(&self, name: &str) -> u64 {
        let text = self.client.metrics().await.unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no metric {name} in:\n{text}")).parse().unwrap()
    }
}

/// Makes a place for a store, and names it in the settings.
async fn home(on: On, settings: &mut Settings) -> Home {
    match on {
        On::Sqlite => {
            let directory = tempfile::tempdir().unwrap();
            settings.data = directory.path().to_owned();
            Box::new(directory)
        }
        On::Postgres => {
            let database = baton_testkit::database().await;
            settings.database_url = Some(database.url().to_owned());
            Box::new(database)
        }
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Status and code of a refusal.
    pub fn refusal(&self) -> String {
        let problem: Problem =
            serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no problem: {error} in {self:?}"));
        assert!(!problem.error.is_empty());
        format!("{} {}", self.status, problem.code)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}")).to_str().unwrap()
    }
}

/// Status and code of a refused call.
pub fn refusal<T: Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Refused { status, code, .. }) => format!("{status} {code}"),
        other => panic!("not refused: {other:?}"),
    }
}

/// Looks until it is so.
///
/// # Panics
/// After `PATIENCE`.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The answer of something in the background.
pub async fn soon<T>(task: JoinHandle<T>) -> T {
    tokio::time::timeout(PATIENCE, task).await.expect("no answer came").unwrap()
}

/// Sends bytes and returns everything that comes back until the server closes the connection.
pub async fn talk(stream: &mut TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.unwrap();
    rest(stream).await
}

/// Everything that comes until the server closes the connection.
pub async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // A reset is an end, too: the server closed while we were still sending.
    assert!(ended.is_ok(), "not closed after {:?}", String::from_utf8_lossy(&answer));
    String::from_utf8_lossy(&answer).into_owned()
}

// ---- shapes

pub fn run() -> SubmitRun {
    SubmitRun::new("builds", "ios")
}

pub fn worker(name: &str) -> RegisterWorker {
    let value = json!({"name": name, "queues": ["builds"], "types": ["ios"], "max_concurrent": 10});
    serde_json::from_value(value).unwrap()
}

pub fn complete(lease: &str) -> CompleteRun {
    CompleteRun { run_id: None, lease: lease.into(), output: None }
}

pub fn fail(lease: &str) -> FailRun {
    serde_json::from_value(json!({"lease": lease, "error": "it broke"})).unwrap()
}

pub fn give_back(lease: &str) -> GiveBackRun {
    GiveBackRun { run_id: None, lease: lease.into(), reason: "no disk left".into() }
}

/// A claim of one run that starts it, with a number no other claim has.
pub fn started_claim() -> Claim {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    Claim { claim_no: Some(NUMBER.fetch_add(1, Ordering::Relaxed)), start: true, ..Claim::default() }
}
