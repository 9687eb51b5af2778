//! The server that is measured: this executable, started on a fresh store.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use super::Store;
use super::database::Database;
use super::wire::Target;
use crate::child::{self, own_executable};
use crate::connection::url_left;
use crate::exit::Exit;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// Lines of the server's log that are shown when it does not start.
const LOG_LINES_SHOWN: usize = 10;

/// A `baton serve` with a store of its own. Dropping it kills it and removes its store.
pub struct Server {
    child: Child,
    directory: TempDir,
    settings: Vec<(String, String)>,
    /// Its database, if it is not SQLite.
    pub database: Option<Database>,
    /// Where it listens, and its key.
    pub target: Target,
}

/// Whether servers that are started speak TLS.
static SPEAK_TLS: AtomicBool = AtomicBool::new(false);

/// Has servers that are started from now on speak TLS, or not.
pub fn speak_tls(whether: bool) {
    SPEAK_TLS.store(whether, Ordering::Relaxed);
}

impl Server {
    /// Starts a server on a fresh store, with these variables of the environment besides the defaults.
    pub async fn start(store: &Store, settings: &[(&str, &str)]) -> Result<Server, Exit> {
        let directory = tempfile::Builder::new().prefix("baton-bench-").tempdir()?;
        let database = match store {
            Store::Sqlite => None,
            Store::Postgres { url } => Some(Database::create(url).await?),
        };
        let mut settings: Vec<_> = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        if SPEAK_TLS.load(Ordering::Relaxed) {
            settings.push(("BATON_TLS".into(), baton_server::tls::SELF_SIGNED.into()));
        }
        if let Some(database) = &database {
            settings.push(("BATON_DATABASE_URL".into(), database.url.clone()));
        }
        let (child, target) = launch(directory.path(), "127.0.0.1:0", &settings).await?;
        Ok(Server { child, directory, settings, database, target })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        // There is none only after it has been waited for, and then it is of no interest.
        self.child.id().unwrap_or_default()
    }

    /// The file of an SQLite store.
    pub fn sqlite_path(&self) -> PathBuf {
        self.directory.path().join("data/baton.db")
    }

    /// Ends it as `kill -9` does.
    pub async fn kill(&mut self) -> Result<(), Exit> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to stop, and waits for it.
    pub async fn stop(&mut self) {
        child::stop(&mut self.child, STOP_TIMEOUT).await;
    }

    /// Starts it again on the same store and port.
    pub async fn start_again(&mut self) -> Result<(), Exit> {
        let (child, target) = launch(self.directory.path(), &self.target.address, &self.settings).await?;
        (self.child, self.target) = (child, target);
        Ok(())
    }
}

async fn launch(directory: &Path, listen: &str, settings: &[(String, String)]) -> Result<(Child, Target), Exit> {
    let (data, log) = (directory.join("data"), directory.join("server.log"));
    // A server that was killed has left its address behind.
    let address_file = data.join("server.addr");
    let _ = std::fs::remove_file(&address_file);
    let mut command = own_executable()?;
    command.args(["serve", "--listen", listen, "--data"]).arg(&data).envs(settings.iter().cloned());
    command.stdout(Stdio::null()).stderr(File::create(&log)?);
    let mut child = command.spawn()?;
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let (Ok(address), Ok(api_key)) =
            (std::fs::read_to_string(&address_file), std::fs::read_to_string(data.join("admin.key")))
        {
            let target = url_left(&address).map(|url| Target::started(&url, api_key.trim(), &data));
            // A file that is only half written yet makes no sense, or nobody answers there.
            if let Some(Ok(target)) = target
                && target.once("GET", "/readyz", "").await.is_ok()
            {
                return Ok((child, target));
            }
        }
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() > deadline {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
            let what = ended.map_or("did not answer in time".to_owned(), |status| format!("ended ({status})"));
            return Err(Exit::failed(format!("the server to be measured {what}:\n{last}")));
        }
        sleep(LOOK).await;
    }
}

/// Starts this executable as a worker of the benchmark. Call it from the main thread: the child dies with the thread.
pub fn worker(target: &Target, arguments: &[&str]) -> Result<Child, Exit> {
    let mut command = own_executable()?;
    command.arg("bench-worker").args(arguments);
    command.env("BATON_URL", target.url()).env("BATON_API_KEY", &target.api_key);
    if let Some(path) = target.pin_file() {
        command.env("BATON_TLS_PIN_FILE", path);
    }
    Ok(command.stdout(Stdio::piped()).spawn()?)
}
