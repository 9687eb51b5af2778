//! A server with runner pools whose machines are processes here, over many falls: what the operating system has is compared with what the store knows.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton::proto::{ChangePool, ClaimView, CreatePool, OpenClaim, RunnerView};
use baton::{Client, ClientError};
use baton_core::pools::{ClaimState, RunnerState};
use baton_testkit::{Database, Process, free_port};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::commands::{Said, baton};
use crate::site::{API_KEY, BATON, Leases, Store, client};
use crate::stored::entries;
use crate::wait::PATIENCE;

/// Pause between two looks, and before a call is repeated.
const PAUSE: Duration = Duration::from_millis(50);
const NAMESPACE: &str = "default";
/// Loops look often, so that what has fallen is found by what the provider lists; nobody is given up for being slow on a machine that has much to do.
const SETTINGS: [(&str, &str); 15] = [
    ("BATON_POOL_HEARTBEAT_MS", "500"),
    ("BATON_POOL_HEARTBEAT_TIMEOUT_MS", "20000"),
    ("BATON_POOL_NEW_HEARTBEAT_TIMEOUT_MS", "20000"),
    ("BATON_POOL_REGISTER_MS", "20000"),
    ("BATON_POOL_NEW_REGISTER_MS", "30000"),
    ("BATON_POOL_CREATE_MS", "20000"),
    ("BATON_POOL_RELEASE_MS", "20000"),
    ("BATON_POOL_SILENT_MS", "20000"),
    ("BATON_POOL_ABANDON_MS", "60000"),
    ("BATON_POOL_LOOK_MS", "200"),
    ("BATON_POOL_SWEEP_MS", "500"),
    ("BATON_POOL_ORPHAN_GRACE_MS", "1500"),
    ("BATON_POOL_PROVIDER_TIMEOUT_MS", "3000"),
    ("BATON_POOL_BACKOFF_FIRST_MS", "100"),
    ("BATON_POOL_BACKOFF_MAX_MS", "400"),
];

/// A server, its store, and the machines of its pools.
pub struct Ground {
    process: Option<Process>,
    port: u16,
    /// Where the server falls, while it still is to.
    point: Option<String>,
    fallen: bool,
    pub home: TempDir,
    database: Option<Database>,
}

impl Ground {
    /// Starts a server on a fresh store.
    pub async fn new(store: Store) -> Ground {
        let database = match store {
            Store::Sqlite => None,
            Store::Postgres => Some(baton_testkit::database().await),
        };
        let home = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(home.path().join("fleet/machines")).expect("our own directory");
        let mut ground = Ground { process: None, port: free_port(), point: None, fallen: false, home, database };
        ground.start().await;
        ground
    }

    // ---- the server

    /// Has a server that falls at this point, in the place of the one that is there.
    pub async fn serve(&mut self, point: Option<&str>) {
        if point.is_some() {
            self.fallen = false;
        }
        if point.is_some() || self.point.is_some() {
            self.point = point.map(str::to_owned);
            self.start().await;
        }
    }

    /// Whether the server has fallen where it was to.
    pub fn has_fallen(&self) -> bool {
        self.fallen
    }

    /// `kill -9`, and nobody in its place yet.
    pub fn stop_server(&mut self) {
        self.process = None;
    }

    /// `kill -9`, and a new server in its place.
    pub async fn kill_server(&mut self) {
        self.start().await;
    }

    /// Starts the server, in the same place since agents know that, and waits until it is ready or has fallen.
    async fn start(&mut self) {
        self.process = None;
        let data = self.home.path().join("data");
        let mut arguments = vec!["serve".into(), "--listen".into(), format!("127.0.0.1:{}", self.port)];
        arguments.extend(["--data".into(), data.display().to_string()]);
        if let Some(database) = &self.database {
            arguments.extend(["--database".into(), database.url().to_owned()]);
        }
        let mut settings = Leases::LONG.settings();
        settings.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
        settings.push(("BATON_POOL_COMMAND_DIRECTORY".into(), self.home.path().display().to_string()));
        settings.extend(self.point.iter().map(|point| ("BATON_CRASH_POINT".to_owned(), point.clone())));
        let mut process = Process::spawn(BATON, &arguments, settings);
        let until = Instant::now() + PATIENCE;
        while process.ended().is_none() && self.client().pools(None, Some(1), None).await.is_err() {
            assert!(Instant::now() < until, "the server is not ready; it printed:\n{}", process.output());
            sleep(PAUSE).await;
        }
        self.process = Some(process);
        self.look_after_once().await;
    }

    async fn look_after_once(&mut self) {
        let process = self.process.as_mut().expect("a server was started");
        let Some(status) = process.ended() else { return };
        let is_meant = status.signal() == Some(9) && self.point.is_some();
        assert!(is_meant, "the server ended with {status}; it printed:\n{}", process.output());
        (self.fallen, self.point) = (true, None);
        Box::pin(self.start()).await;
    }

    pub fn client(&self) -> Client {
        client(&self.url()).with_timeout(Duration::from_secs(10))
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What the server has printed since it was started last.
    pub fn output(&self) -> String {
        self.process.as_ref().map(Process::output).unwrap_or_default()
    }

    /// Asks until there is an answer, as every client does.
    pub async fn ask<T>(&mut self, call: impl AsyncFn(&Client) -> Result<T, ClientError>) -> Result<T, ClientError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match call(&self.client()).await {
                Err(error) if error.is_transient() => {
                    assert!(Instant::now() < until, "no answer: {error}; the server printed:\n{}", self.output());
                }
                answer => return answer,
            }
            sleep(PAUSE).await;
            self.look_after_once().await;
        }
    }

    /// Looks until something is as it is to be; `look` says what is wrong until then.
    pub async fn until<T>(&mut self, what: &str, look: impl AsyncFn(&Client, &Path) -> Result<T, String>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            let wrong = match look(&self.client(), self.home.path()).await {
                Ok(found) => return found,
                Err(wrong) => wrong,
            };
            assert!(
                Instant::now() < until,
                "not within {PATIENCE:?}: {what}: {wrong}; the server printed:\n{}",
                self.output()
            );
            sleep(PAUSE).await;
            self.look_after_once().await;
        }
    }

    /// A command of the program, by a person who knows the server.
    pub async fn baton(&self, arguments: &[&str]) -> Said {
        let url = self.url();
        baton(self.home.path(), [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)], arguments, "").await
    }

    /// The same while others go on.
    pub fn spawn(&self, arguments: &[&str]) -> Process {
        let url = self.url();
        Process::spawn(BATON, arguments, [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)])
    }

    // ---- pools

    pub async fn create(&mut self, pool: &CreatePool) {
        match self.ask(async |client: &Client| client.create_pool(pool).await).await {
            // The answer of the first time was lost.
            Ok(_) | Err(ClientError::Refused { status: 409, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn change(&mut self, pool: &str, change: ChangePool) {
        let changed = self.ask(async |client: &Client| client.change_pool(NAMESPACE, pool, &change).await).await;
        changed.expect("a good change");
    }

    /// Opens a claim, and waits until it has ended or is filled.
    pub async fn claim(&mut self, pool: &str, claim: &OpenClaim) -> ClaimView {
        self.open(pool, claim).await;
        self.until_not_waiting(pool, &claim.run_id).await
    }

    pub async fn open(&mut self, pool: &str, claim: &OpenClaim) {
        let opened = self.ask(async |client: &Client| client.open_pool_claim(NAMESPACE, pool, claim).await).await;
        opened.expect("a good claim");
    }

    pub async fn until_not_waiting(&mut self, pool: &str, run_id: &str) -> ClaimView {
        let what = format!("the claim of {run_id}");
        self.until(&what, async |client: &Client, _: &Path| {
            let claim = client.pool_claim(NAMESPACE, pool, run_id).await.map_err(|error| error.to_string())?;
            if claim.state == ClaimState::Waiting { Err(format!("{claim:?}")) } else { Ok(claim) }
        })
        .await
    }

    /// Waits until a claim that was filled has ended.
    pub async fn until_ended(&mut self, pool: &str, run_id: &str) -> ClaimView {
        self.until(&format!("the end of {run_id}"), async |client: &Client, _: &Path| {
            let claim = client.pool_claim(NAMESPACE, pool, run_id).await.map_err(|error| error.to_string())?;
            if claim.ended_at.is_none() { Err(format!("{claim:?}")) } else { Ok(claim) }
        })
        .await
    }

    pub async fn release(&mut self, pool: &str, run_id: &str) -> ClaimView {
        let released = self.ask(async |client: &Client| client.release_pool_claim(NAMESPACE, pool, run_id).await).await;
        released.expect("it is there")
    }

    /// Waits until the pool has so many idle machines and nothing else, in the store and on this machine alike.
    pub async fn settled(&mut self, pool: &str, idle: usize) -> Vec<RunnerView> {
        self.until(&format!("{pool} settles at {idle}"), async |client: &Client, home: &Path| {
            let failed = |error: ClientError| error.to_string();
            let runners = client.pool_runners(NAMESPACE, pool, None, Some(100), None).await.map_err(failed)?.runners;
            let waiting = client.pool(NAMESPACE, pool).await.map_err(failed)?.waiting_claims;
            let is_idle = runners.iter().all(|runner| runner.state == RunnerState::Idle);
            if !is_idle || runners.len() != idle || waiting > 0 {
                return Err(format!("{waiting} waiting, rows {runners:?}"));
            }
            // There are many processes to look at, so this comes last.
            let known: BTreeSet<String> = runners.iter().filter_map(|runner| runner.machine_id.clone()).collect();
            let (agents, places) = (agents(home), places(home));
            match known == agents && known == places {
                true => Ok(runners),
                false => Err(format!("rows {runners:?}, agents {agents:?}, places {places:?}")),
            }
        })
        .await
    }

    /// Deletes a pool and waits until nothing is left of it.
    pub async fn delete(&mut self, pool: &str) {
        match self.ask(async |client: &Client| client.delete_pool(NAMESPACE, pool).await).await {
            Ok(_) | Err(ClientError::Refused { status: 404, .. }) => {}
            Err(error) => panic!("{error}"),
        }
        self.gone(pool).await;
    }

    /// Waits until nothing is left of a pool.
    pub async fn gone(&mut self, pool: &str) {
        self.until(&format!("the end of {pool}"), async |client: &Client, home: &Path| {
            let found = client.pool(NAMESPACE, pool).await;
            if !matches!(found, Err(ClientError::Refused { status: 404, .. })) {
                return Err(format!("{found:?}"));
            }
            let (agents, places) = (agents(home), places(home));
            match agents.is_empty() && places.is_empty() {
                true => Ok(()),
                false => Err(format!("agents {agents:?}, places {places:?}")),
            }
        })
        .await;
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.process = None;
        // Only after a test that failed is anybody left, and only then does it matter that groups are ended as well.
        for (pid, _) in processes(self.home.path()) {
            let _ =
                std::process::Command::new("kill").args(["-9", "--", &format!("-{pid}"), &pid.to_string()]).output();
        }
    }
}

/// Machines whose agents run, as the operating system has it.
pub fn agents(home: &Path) -> BTreeSet<String> {
    processes(home).into_iter().map(|(_, machine)| machine).collect()
}

/// `kill -9` of the agent of a machine.
pub fn kill_agent(home: &Path, machine: &str) {
    let (pid, _) = processes(home).into_iter().find(|(_, own)| own == machine).expect("its agent runs");
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.expect("kill is there").success());
}

/// Processes of agents, and the names of their machines. What has ended and was not yet waited for has an empty command line.
fn processes(home: &Path) -> Vec<(u32, String)> {
    let host = std::fs::read_to_string(home.join("data/pools/host")).unwrap_or_else(|_| "none".into());
    let (local, fleet) = (format!("baton-agent {host}-"), format!("{}/fleet/machines/", home.display()));
    let machine = |path: PathBuf| {
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let line = std::fs::read(path.join("cmdline")).ok()?;
        let arguments: Vec<String> =
            line.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        if let Some(rest) = arguments[0].strip_prefix(&local) {
            return Some((pid, format!("{host}-{rest}")));
        }
        // The agents of the script say where they work, and no script of a hook does.
        let is_agent = arguments.get(1).is_some_and(|verb| verb == "agent");
        let work = arguments.iter().find_map(|argument| argument.strip_prefix(&fleet)).filter(|_| is_agent)?;
        Some((pid, work.trim_end_matches("/work").to_owned()))
    };
    entries(Path::new("/proc")).into_iter().filter_map(machine).collect()
}

/// Machines that have a directory.
fn places(home: &Path) -> BTreeSet<String> {
    let folders = ["data/pools", "fleet/machines"].map(|folder| entries(&home.join(folder)));
    let folders = folders.into_iter().flatten().filter(|path| path.is_dir());
    folders.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}
