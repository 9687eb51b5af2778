//! PgBouncer in transaction mode before a database: a pooler that gives each transaction another connection.

use std::fmt::Write as _;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Config, NoTls, config::Host};

use crate::postgres::{output, unprivileged};
use crate::{Database, Process};

/// How long a start may take.
const START_PATIENCE: Duration = Duration::from_secs(30);
const MISSING: &str = "PgBouncer is needed for this test, and no pgbouncer was found in PATH or in /usr/sbin. Install it with \
     `apt-get install pgbouncer` (Debian, Ubuntu), `dnf install pgbouncer` (Fedora) or `brew install pgbouncer` (macOS); \
     scripts/test does it by itself where it may. None has to run: the tests start their own.";

/// A throw-away pooler. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    url: String,
    _home: TempDir,
}

impl PgBouncer {
    /// Starts one before the database, with this many connections to it for all of its clients.
    ///
    /// # Panics
    /// When there is no PgBouncer on this machine: a test that needs it must not pass without it.
    pub async fn before(database: &Database, connections: usize) -> PgBouncer {
        let program = find_program().unwrap_or_else(|| panic!("{MISSING}"));
        let home = tempfile::Builder::new().prefix("baton-pgbouncer-").tempdir().expect("no temporary directory");
        let target: Config = database.url().parse().expect("the URL of a database");
        let port = crate::free_port();
        let file = home.path().join("pgbouncer.ini");
        std::fs::write(&file, settings(&target, port, connections)).expect("our own directory");
        let mut arguments = vec![];
        if let Some((user, group)) = unprivileged() {
            // As root it refuses to run.
            chown(home.path(), Some(user), Some(group)).expect("root may give a directory away");
            chown(&file, Some(user), Some(group)).expect("root may give a file away");
            let name = output("id", &["-nu", &user.to_string()]).expect("a user has a name");
            arguments.push(format!("--user={name}"));
        }
        arguments.push(file.to_str().expect("temporary paths are text").to_owned());
        let process = Process::spawn(program, arguments, [("TZ", "UTC")]);
        let name = target.get_dbname().expect("a URL with a database");
        let url = format!("postgres://baton@127.0.0.1:{port}/{name}");
        let mut bouncer = PgBouncer { process, url, _home: home };
        let until = Instant::now() + START_PATIENCE;
        while tokio_postgres::connect(&bouncer.url, NoTls).await.is_err() {
            let ended = bouncer.process.ended();
            assert!(ended.is_none(), "pgbouncer ended with {ended:?}; it printed:\n{}", bouncer.process.output());
            assert!(Instant::now() < until, "pgbouncer is not ready; it printed:\n{}", bouncer.process.output());
            sleep(Duration::from_millis(10)).await;
        }
        bouncer
    }

    /// What to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn settings(target: &Config, port: u16, connections: usize) -> String {
    let host = target.get_hosts().iter().find_map(|host| match host {
        Host::Tcp(name) => Some(name.as_str()),
        Host::Unix(_) => None,
    });
    let mut to = format!("host={} port={}", host.unwrap_or("127.0.0.1"), target.get_ports().first().unwrap_or(&5432));
    let _ = write!(to, " user={}", target.get_user().unwrap_or("baton"));
    if let Some(password) = target.get_password() {
        let _ = write!(to, " password={}", String::from_utf8_lossy(password));
    }
    format!(
        "[databases]\n* = {to}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
         pool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 200\n"
    )
}

fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/opt/homebrew/bin"].map(PathBuf::from));
    places.map(|place| place.join("pgbouncer")).find(|program| program.is_file())
}
