//! A PostgreSQL server of our own in a temporary directory, gone when the test process is.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_postgres::NoTls;

use crate::authority::Issued;
use crate::databases::{self, Database};
use crate::process::signal;
use crate::watchdog::Watchdog;

/// The oldest PostgreSQL that Baton works with.
const VERSION_MIN: u32 = 14;
/// How long a start may take before the test gives up, crash recovery included.
const START_PATIENCE: Duration = Duration::from_secs(60);
const MISSING: &str = "PostgreSQL 14 or newer is needed for this test, and no initdb was found in PATH, in \
     /usr/lib/postgresql/*/bin or by pg_config. Install it with `apt-get install postgresql` (Debian, Ubuntu), \
     `dnf install postgresql-server` (Fedora) or `brew install postgresql@17` (macOS); scripts/test does it by itself \
     where it may. No server has to run: the tests start their own.";

/// A throw-away server. Dropping it ends the server and removes its directory.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    home: TempDir,
    port: u16,
    durable: bool,
    tls: Option<ServerTls>,
    running: Mutex<Option<Running>>,
}

/// How a server speaks TLS, and to whom.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// What it shows.
    pub certificate: Issued,
    /// Whose client certificates it takes, as PEM.
    pub client_authority: Option<String>,
    /// How who comes over TLS proves who they are: the last word of a line of `pg_hba.conf`. Whoever comes
    /// without TLS is refused.
    pub method: &'static str,
}

#[derive(Debug)]
struct Running {
    server: Child,
    _watchdog: Watchdog,
}

/// A server that stands still. Dropping it lets the server go on.
#[derive(Debug)]
pub struct Frozen<'a> {
    processes: Vec<u32>,
    _postgres: &'a Postgres,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.processes.iter().for_each(|process| signal(*process, libc::SIGCONT));
    }
}

impl Postgres {
    /// Starts a server that does not wait for the disk: fast, and fine as long as the machine stays up.
    pub async fn start() -> Postgres {
        Postgres::launch(false, None).await
    }

    /// Starts one that takes connections over TLS only, or over its socket. As [`Postgres::start`] else.
    pub async fn start_tls(tls: ServerTls) -> Postgres {
        Postgres::launch(false, Some(tls)).await
    }

    /// Starts a server that keeps what it acknowledged, as in production.
    pub async fn durable() -> Postgres {
        Postgres::launch(true, None).await
    }

    /// URL of the server's own database, for a superuser; over its socket where it wants TLS else.
    pub fn url(&self) -> String {
        if self.tls.is_some() {
            let socket = self.home.path().to_str().expect("temporary paths are text").replace('/', "%2F");
            return format!("postgres://baton@{socket}:{}/postgres", self.port);
        }
        format!("postgres://baton@127.0.0.1:{}/postgres", self.port)
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// A fresh, empty database.
    pub async fn new_database(&self) -> Database {
        databases::create(&self.url()).await
    }

    /// Ends the server as `kill -9` does. Its data stays.
    pub fn kill9(&self) {
        if let Some(mut running) = self.running().take() {
            // An error means that it is gone already.
            let _ = running.server.kill();
            let _ = running.server.wait();
        }
    }

    /// Freezes the server with all of its processes until the answer is dropped: they are alive, and do nothing.
    pub fn freeze(&self) -> Frozen<'_> {
        let server = self.running().as_ref().map(|running| running.server.id()).expect("a server that runs");
        // The parent first, so that it starts no others meanwhile.
        signal(server, libc::SIGSTOP);
        // Each is the head of a group of its own, so that no signal reaches them all.
        let children = output("pgrep", &["-P", &server.to_string()]).unwrap_or_default();
        let children: Vec<u32> = children.lines().filter_map(|line| line.parse().ok()).collect();
        assert!(!children.is_empty(), "a PostgreSQL has processes");
        children.iter().for_each(|child| signal(*child, libc::SIGSTOP));
        Frozen { processes: children.into_iter().chain([server]).collect(), _postgres: self }
    }

    /// Starts the server again on the same data and port, and waits until it has recovered.
    pub async fn start_again(&self) {
        self.kill9();
        let until = Instant::now() + START_PATIENCE;
        // The killed server's children may hold its shared memory for a moment longer, and the new one refuses to
        // start as long as they do.
        while let Err(log) = self.try_start(until).await {
            assert!(Instant::now() < until, "PostgreSQL did not start again:\n{log}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts a standby of this server, which follows it.
    pub async fn standby(&self) -> Postgres {
        self.standby_with(self.tls.clone()).await
    }

    /// As [`Postgres::standby`], with a certificate of its own.
    pub async fn standby_with(&self, tls: Option<ServerTls>) -> Postgres {
        let standby = Postgres::new(self.durable, tls);
        // The socket, where nobody asks for TLS.
        let host = self.home.path().to_str().expect("temporary paths are text");
        let port = self.port.to_string();
        let answer = standby
            .command("pg_basebackup")
            .args(["-h", host, "-p", &port, "-U", "baton", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"])
            .arg(standby.data())
            .output()
            .expect("pg_basebackup cannot be started");
        assert!(answer.status.success(), "pg_basebackup failed: {}", String::from_utf8_lossy(&answer.stderr));
        standby.started().await
    }

    /// Waits with every commit for its standby from now on.
    pub async fn wait_for_standby(&self) {
        self.administer("alter system set synchronous_standby_names = '*'").await;
        self.administer("select pg_reload_conf()").await;
        self.until("select 1 from pg_stat_replication where sync_state = 'sync'").await;
    }

    /// Waits until its standby has heard of everything it has done so far.
    pub async fn wait_until_followed(&self) {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("a server that runs");
        tokio::spawn(connection);
        let now = client.query_one("select pg_current_wal_lsn()::text", &[]).await.expect("a good query");
        let now: String = now.get(0);
        self.until(&format!("select 1 from pg_stat_replication where replay_lsn >= '{now}'::pg_lsn")).await;
    }

    /// Has this standby follow nobody any more. It stays a standby, and what its primary does from
    /// now on it never hears of.
    pub async fn stop_following(&self) {
        self.administer("alter system set primary_conninfo = ''").await;
        self.administer("select pg_reload_conf()").await;
        self.until("select 1 where not exists (select 1 from pg_stat_wal_receiver)").await;
    }

    /// Makes this standby a server of its own right.
    pub async fn promote(&self) {
        self.administer("select pg_promote()").await;
        self.until("select 1 where not pg_is_in_recovery()").await;
    }

    async fn administer(&self, sql: &str) {
        databases::administer(&self.url(), sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Waits until this query finds something.
    async fn until(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("a server that runs");
        tokio::spawn(connection);
        let until = Instant::now() + START_PATIENCE;
        while client.query(sql, &[]).await.expect("a good query").is_empty() {
            assert!(Instant::now() < until, "never true: {sql}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn new(durable: bool, tls: Option<ServerTls>) -> Postgres {
        let programs = find_programs().unwrap_or_else(|| panic!("{MISSING}"));
        let home = tempfile::Builder::new().prefix("baton-postgres-").tempdir().expect("no temporary directory");
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o700)).expect("our own directory");
        if let Some((user, group)) = unprivileged() {
            chown(home.path(), Some(user), Some(group)).expect("root may give a directory away");
        }
        let postgres = Postgres { programs, home, port: crate::free_port(), durable, tls, running: Mutex::new(None) };
        if let Some(tls) = &postgres.tls {
            postgres.write("server.crt", &tls.certificate.certificate);
            postgres.write("server.key", &tls.certificate.key);
            postgres.write("client_ca.crt", tls.client_authority.as_deref().unwrap_or_default());
        }
        postgres
    }

    /// A file that only the server can read: it takes no key that others can.
    fn write(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("our own directory");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("our own file");
        if let Some((user, group)) = unprivileged() {
            chown(&path, Some(user), Some(group)).expect("root may give a file away");
        }
    }

    async fn launch(durable: bool, tls: Option<ServerTls>) -> Postgres {
        let postgres = Postgres::new(durable, tls);
        postgres.init();
        if let Some(tls) = &postgres.tls {
            let rules = format!(
                "local all all trust\nlocal replication all trust\nhostssl all all 127.0.0.1/32 {}\n",
                tls.method
            );
            postgres.write("data/pg_hba.conf", &rules);
        }
        postgres.started().await
    }

    async fn started(mut self) -> Postgres {
        let until = Instant::now() + START_PATIENCE;
        // Somebody else may have taken the port between our look and the start.
        for _ in 0..5 {
            match self.try_start(until).await {
                Ok(()) => return self,
                Err(log) if log.contains("Address already in use") => self.port = crate::free_port(),
                Err(log) => panic!("PostgreSQL did not start:\n{log}"),
            }
        }
        panic!("no port for PostgreSQL on 127.0.0.1")
    }

    fn init(&self) {
        let answer = self
            .command("initdb")
            .args(["--username=baton", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(self.data())
            .output()
            .expect("initdb cannot be started");
        assert!(answer.status.success(), "initdb failed: {}", String::from_utf8_lossy(&answer.stderr));
    }

    async fn try_start(&self, until: Instant) -> Result<(), String> {
        let log = self.home.path().join("log");
        let file = File::create(&log).expect("our own directory");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.home.path()).args(["-h", "127.0.0.1"]);
        command.args(["-p", &self.port.to_string(), "-N", "300", "-B", "64MB", "-c", "max_wal_size=4GB"]);
        if let Some(tls) = &self.tls {
            let file = |name: &str| self.home.path().join(name).display().to_string();
            command.args(["-c", "ssl=on", "-c", &format!("ssl_cert_file={}", file("server.crt"))]);
            command.args(["-c", &format!("ssl_key_file={}", file("server.key"))]);
            if tls.client_authority.is_some() {
                command.args(["-c", &format!("ssl_ca_file={}", file("client_ca.crt"))]);
            }
        }
        if !self.durable {
            command.args(["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"]);
        }
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file can be shared")).stderr(file);
        let mut server = command.spawn().expect("postgres cannot be started");
        let watchdog = Watchdog::over(server.id(), "QUIT", Some(self.home.path()));
        loop {
            if server.try_wait().expect("a child can be asked").is_some() {
                return Err(std::fs::read_to_string(&log).unwrap_or_default());
            }
            match tokio_postgres::connect(&self.url(), NoTls).await {
                Ok(_) => break,
                Err(error) => assert!(Instant::now() < until, "PostgreSQL takes no connections: {error}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
        *self.running() = Some(Running { server, _watchdog: watchdog });
        Ok(())
    }

    /// A program of PostgreSQL, which refuses to run as root: then it runs as somebody else.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.home.path()).env("TZ", "UTC").env("LC_ALL", "C");
        // An interrupt in the terminal is for the tests; the server ends with them.
        command.process_group(0);
        if let Some((user, group)) = unprivileged() {
            command.uid(user).gid(group);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut running) = self.running().take() {
            // An immediate shutdown: no time lost on a clean one, but the shared memory is given back.
            signal(running.server.id(), libc::SIGQUIT);
            let _ = running.server.wait();
        }
    }
}

/// The newest installed PostgreSQL that is new enough.
fn find_programs() -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    for (parent, inner) in [("/usr/lib/postgresql", "bin"), ("/opt/homebrew/opt", "bin"), ("/usr/local/opt", "bin")] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        places.extend(entries.map(|entry| entry.path().join(inner)));
    }
    places.extend(output("pg_config", &["--bindir"]).map(PathBuf::from));
    let versions = places.into_iter().filter_map(|place| Some((version(&place)?, place)));
    versions.filter(|(version, _)| *version >= VERSION_MIN).max().map(|(_, place)| place)
}

/// The major version of the PostgreSQL in this directory, if there is a whole server.
fn version(place: &Path) -> Option<u32> {
    if ["initdb", "pg_basebackup"].iter().any(|program| !place.join(program).is_file()) {
        return None;
    }
    // "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)"
    let answer = output(place.join("postgres"), &["--version"])?;
    let number = answer.split("(PostgreSQL) ").nth(1)?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// User and group to run PostgreSQL as when we are root.
pub(crate) fn unprivileged() -> Option<(u32, u32)> {
    let id = |option: &str, user: &str| output("id", &[option, user])?.parse::<u32>().ok();
    if output("id", &["-u"])? != "0" {
        return None;
    }
    ["postgres", "nobody"].into_iter().find_map(|user| Some((id("-u", user)?, id("-g", user)?)))
}

pub(crate) fn output(program: impl Into<OsString>, arguments: &[&str]) -> Option<String> {
    let answer = Command::new(program.into()).args(arguments).stderr(Stdio::null()).output().ok()?;
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_durable_server_keeps_what_it_acknowledged_over_kill_9() {
        let postgres = Postgres::durable().await;
        let database = postgres.new_database().await;
        let run = |sql: &'static str| {
            let url = database.url().to_owned();
            async move {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                let rows = client.query(sql, &[]).await.unwrap();
                drop(client);
                connection.await.unwrap().unwrap();
                rows
            }
        };
        run("create table kept (number int)").await;
        run("insert into kept values (7)").await;
        postgres.kill9();
        assert!(tokio_postgres::connect(database.url(), NoTls).await.is_err());
        postgres.start_again().await;
        let rows = run("select number from kept").await;
        assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [7]);
    }
}
