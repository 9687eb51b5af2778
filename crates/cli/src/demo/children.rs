//! The demo's processes: a server and workers, each the same executable as the demo itself.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use baton::Client;
use baton::runs::WorkerEvent;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Pace;
use crate::child::{self, own_executable};
use crate::exit::Exit;
use crate::os;

const START_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// Lines of the server's log that are shown when it does not start.
const LOG_LINES_SHOWN: usize = 10;

/// The server of the demo.
pub struct Server {
    child: Child,
    /// Its address.
    pub url: String,
    /// Its admin key.
    pub api_key: String,
    /// A client of it.
    pub client: Client,
}

impl Server {
    /// Starts a server with short leases on a free port and waits until it answers.
    pub async fn start(directory: &Path, pace: Pace) -> Result<Server, Exit> {
        let data = directory.join("data");
        let log = directory.join("server.log");
        let mut command = own_executable()?;
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .env("BATON_LEASE_TTL_MS", pace.lease_ttl_ms.to_string())
            .env("BATON_HEARTBEAT_INTERVAL_MS", pace.heartbeat_interval_ms.to_string())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let mut child = command.spawn()?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let (Ok(address), Ok(api_key)) =
                (std::fs::read_to_string(data.join("server.addr")), std::fs::read_to_string(data.join("admin.key")))
            {
                let url = format!("http://{}", address.trim());
                let api_key = api_key.trim().to_owned();
                // A file that is only half written yet makes no sense, or nobody answers there.
                if let Ok(client) = Client::new(&url, &api_key)
                    && client.readyz().await.is_ok()
                {
                    return Ok(Server { child, url, api_key, client });
                }
            }
            let ended = child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
                let what = ended.map_or("did not answer in time".to_owned(), |status| format!("ended ({status})"));
                return Err(Exit::failed(format!("the demo's server {what}:\n{last}")));
            }
            sleep(LOOK).await;
        }
    }

    /// Asks the server to stop, and waits for it.
    pub async fn stop(mut self) {
        child::stop(&mut self.child, STOP_TIMEOUT).await;
    }
}

/// A worker process of the demo.
pub struct WorkerProcess {
    child: Child,
    /// Its process.
    pub pid: u32,
}

impl WorkerProcess {
    /// Starts a worker that sends what happens to it, with its index, to `events`.
    pub fn start(
        server: &Server,
        index: usize,
        effects: &Path,
        events: mpsc::UnboundedSender<(usize, WorkerEvent)>,
    ) -> Result<WorkerProcess, Exit> {
        let mut command = own_executable()?;
        command
            .args(["demo-worker", "--name", super::WORKER_NAMES[index], "--effects"])
            .arg(effects)
            .env("BATON_URL", &server.url)
            .env("BATON_API_KEY", &server.api_key)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let gone = || Exit::failed("a worker of the demo ended at once");
        let pid = child.id().ok_or_else(gone)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(gone)?).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(event) = serde_json::from_str(&line) {
                    // Nobody listens any more when the demo ends.
                    let _ = events.send((index, event));
                }
            }
        });
        Ok(WorkerProcess { child, pid })
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) -> Result<(), Exit> {
        Ok(os::signal_process(self.pid, signal)?)
    }

    /// Asks it to stop, and waits for it.
    pub async fn stop(mut self) {
        child::stop(&mut self.child, STOP_TIMEOUT).await;
    }
}

/// A worker of the demo that builds: `baton worker build`, as anybody would start it.
pub struct BuilderProcess {
    child: Child,
    /// Its name.
    pub name: &'static str,
    /// Its process.
    pub pid: u32,
}

impl BuilderProcess {
    /// Starts a worker with everything it keeps in this directory. How a project is built is for the project to say.
    pub fn start(server: &Server, name: &'static str, directory: &Path) -> Result<BuilderProcess, Exit> {
        std::fs::create_dir_all(directory)?;
        let mut command = own_executable()?;
        command
            .args(["worker", "build", "--platform", super::build::PLATFORM, "--name", name])
            .arg("--work-dir")
            .arg(directory.join("work"))
            .arg("--cache-dir")
            .arg(directory.join("cache"))
            .env("BATON_URL", &server.url)
            .env("BATON_API_KEY", &server.api_key)
            .stdout(Stdio::null())
            .stderr(File::create(directory.join("log"))?);
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(|| Exit::failed("a worker of the demo ended at once"))?;
        Ok(BuilderProcess { child, name, pid })
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) -> Result<(), Exit> {
        Ok(os::signal_process(self.pid, libc::SIGKILL)?)
    }

    /// Asks it to stop, and waits for it.
    pub async fn stop(mut self) {
        child::stop(&mut self.child, STOP_TIMEOUT).await;
    }
}
