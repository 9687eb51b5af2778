//! Baton's server: service verbs on a store, with an HTTP and a gRPC face on one port.
//!
//! Store, clock, listener and randomness are handed in ([`App::build`], [`serve`]), so that the whole server can run inside a
//! simulator and tests can move time. [`run`] hands in the real ones.

pub mod address_file;
mod addresses;
mod allowance;
mod answers;
mod app;
pub mod artifacts;
pub mod audit;
mod auth;
mod backlog;
mod bell;
mod bodies;
mod bulk_turns;
mod coalesce;
mod connection;
pub mod crash;
mod disks;
mod dispatch;
pub mod entropy;
mod error;
mod events;
pub mod face;
mod framing;
mod github;
pub mod grpc;
mod hearing;
mod heartbeats;
pub mod http;
mod inboxes;
mod lanes;
mod log_queue;
mod loops;
mod metrics;
mod namespaces;
mod outgoing;
mod polls;
mod pool_metrics;
mod pool_names;
mod process_metrics;
pub mod providers;
mod proxies;
mod queue_metrics;
mod refusals;
mod request_log;
mod runner_pools;
pub mod secrets;
pub mod service;
mod settings;
mod stall;
mod statistics;
mod storage_owner;
mod store_time;
pub mod tls;
mod to_its_end;
mod traces;
mod verb_metrics;
mod watch;
pub mod webhooks;
mod workers;

pub use app::{App, Dashboard, Parts};
pub use auth::Caller;
pub use baton_store::{Health, Page, Scope, WorkerFilter, WorkerStatus};
pub use connection::Listener;
pub use error::Error;
pub use events::Changes;
pub use heartbeats::Heard;
pub use log_queue::{LOG_BYTES_MAX, LogQueue, LogWriter, Weight};
pub use metrics::{Described, Metrics};
pub use request_log::{REQUEST_TARGET, current_request_id};
pub use settings::{Origin, Settings, SettingsFlags, data_default};
pub use storage_owner::adopt_storage;
pub use verb_metrics::VERBS;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::sqlite::SqliteStore;
use baton_store::{Clock, Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::address_file::AddressFile;
use crate::artifacts::Storage;
use crate::entropy::SystemEntropy;

/// Name of the file in the data directory that holds the server's address while it runs.
pub const ADDRESS_FILE: &str = "server.addr";
/// Pause between attempts to open a store again that has moved.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);
/// Pauses between attempts to reach a PostgreSQL that is not there yet when the server starts.
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_LONGEST: Duration = Duration::from_secs(2);
/// How often the log says that the server still waits.
const WAIT_SAY_EVERY: Duration = Duration::from_secs(10);

/// Opens the store that the settings name.
pub async fn open_store(settings: &Settings, clock: Clock) -> Result<Arc<dyn Store>, StoreError> {
    match settings.sqlite_path() {
        Some(path) => Ok(Arc::new(SqliteStore::open(&path, clock)?)),
        None => {
            let options = PostgresOptions {
                max_connections: settings.database_connections,
                listen: settings.database_listen,
                listen_url: settings.listen_url.clone(),
                prepare: settings.database_prepare,
                ..PostgresOptions::default()
            };
            let url = settings.database_url.as_deref().unwrap_or_default();
            Ok(Arc::new(PostgresStore::connect(url, clock, options).await?))
        }
    }
}

/// Opens the storage for artifacts that the settings name, with its mirror if they name one.
pub fn open_storage(settings: &Settings) -> Result<Storage, String> {
    let open = |url: &str| Storage::open(url, text_variables(), settings.storage_free_bytes_min);
    let first = open(&settings.storage())?;
    match &settings.storage_mirror_url {
        Some(url) => Storage::mirrored(first, open(url).map_err(|error| format!("storage_mirror_url: {error}"))?),
        None => Ok(first),
    }
}

/// The environment. Variables that are not text cannot be credentials.
pub fn text_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Removes files that nobody can read any more, as the loops do now and then.
pub async fn collect(app: &App) -> Result<(), Error> {
    loops::collect(app).await?;
    loops::sweep(app).await?;
    Ok(())
}

/// Serves until `shutdown`, then drains: waiting polls are answered empty, calls in flight finish, and the store is closed.
pub async fn serve(app: App, listener: impl Listener, shutdown: impl Future<Output = ()> + Send + 'static) {
    let stop = CancellationToken::new();
    let loops = CancellationToken::new();
    loops::start(&app, &loops);
    if let Some(tls) = app.tls.get().cloned() {
        tokio::spawn(loops.clone().run_until_cancelled_owned(async move { tls.watch().await }));
    }
    let router = http::router(app.clone()).merge(grpc::router(app.clone()).await);
    tokio::spawn({
        let (app, stop) = (app.clone(), stop.clone());
        async move {
            shutdown.await;
            tracing::info!("stopping: waiting polls are answered, calls in flight finish");
            app.dispatcher.close();
            app.workers.close();
            app.stopping.cancel();
            stop.cancel();
        }
    });
    connection::serve(&app, listener, router, stop).await;
    loops.cancel();
    app.refusals.stop().await;
    app.webhooks.stop().await;
    app.events.stop().await;
    app.traces.stop().await;
    app.statistics.stop().await;
    app.store.close().await;
}

/// Providers of machines, by name.
pub type Providers = Vec<(&'static str, Arc<dyn providers::Provider>)>;

/// What the program brings besides the server itself.
#[derive(Default)]
pub struct Extras {
    /// Providers of machines, besides those of the server.
    pub providers: Providers,
    /// The pages for people.
    pub dashboard: Option<Dashboard>,
}

/// Runs a server as the settings say, with these extras, until `shutdown`.
pub async fn run(
    settings: Settings,
    Extras { providers, dashboard }: Extras,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), String> {
    // The usual limit of open files is far below the usual number of connections; a process may
    // raise it to the hard one itself.
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: files.maximum, maximum: files.maximum };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    // Inputs and outputs are nobody else's business.
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .recursive(true)
        .create(&settings.data)
        .map_err(|error| format!("cannot make the data directory {}: {error}", settings.data.display()))?;
    if is_open_to_others(&settings.data) {
        tracing::warn!(directory = %settings.data.display(), "others on this machine can look into the data directory; chmod 700 closes it");
    }
    if let Some(sink) = &settings.audit_sink {
        sink.parse::<audit::Sink>()?.check()?;
    }
    let tls = tls::Tls::open(&settings)?;
    let stopping = CancellationToken::new();
    let stopped = stopping.clone();
    tokio::spawn(async move {
        shutdown.await;
        stopped.cancel();
    });
    let Some(mut app) = open_patiently(&settings, &providers, &stopping).await? else { return Ok(()) };
    let listener = tokio::net::TcpListener::bind(&settings.listen)
        .await
        .and_then(tokio::net::TcpListener::into_std)
        .map_err(|error| format!("cannot listen on {}: {error}", settings.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let first_key = service::keys::first(&app).await?;
    if let Some(key) = &first_key {
        let path = settings.admin_key_path();
        println!("The first admin API key, shown this once (and left in {}):\n\n    {key}\n", path.display());
    }
    let path = settings.data.join(ADDRESS_FILE);
    if let Some(tls) = &tls {
        tls.leave_pins(&settings.data)?;
    }
    let left = if tls.is_some() { format!("https://{address}") } else { address.to_string() };
    let _address_file =
        AddressFile::leave(path.clone(), left).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("Baton listens on {}://{address} (store: {})", settings.scheme(), app.store.kind());
    tell_of_tls(&settings, tls.as_deref(), address);
    if dashboard.is_some() {
        tell_of_dashboard(&app, address, first_key.is_some()).await;
    }
    tokio::spawn(report_storages(app.storage.clone()));
    loop {
        tracing::info!(%address, store = app.store.kind(), "listening");
        app.pools.listens_on(address);
        if let Some(tls) = &tls {
            app.use_tls(tls.clone());
        }
        if let Some(dashboard) = dashboard {
            app.use_dashboard(dashboard);
        }
        let own = listener.try_clone().and_then(tokio::net::TcpListener::from_std);
        let own = own.map_err(|error| format!("cannot listen on {address}: {error}"))?;
        let store = app.store.clone();
        let mut serving = tokio::spawn(serve(app, own, stopped_or_moved(stopping.clone(), store.clone())));
        // An idle server ends in the moment in which its database moves: whether it has moved is asked
        // first, or that would be taken for the end.
        tokio::select! {
            biased;
            () = store.moved() => {}
            _ = &mut serving => break,
        }
        // The database has moved to a standby. Everything in memory goes, and only the open port
        // stays. Calls that are under way end beside what follows: none of them can reach the store
        // any more.
        tokio::time::sleep(REOPEN_PAUSE).await;
        let Some(again) = open_again(&settings, &providers, &stopping).await else { break };
        app = again;
    }
    let _ = std::fs::remove_file(settings.data.join(tls::PIN_FILE));
    Ok(())
}

/// Says where the dashboard is. A person who starts the server at a terminal gets a link that signs in; what goes
/// to a log may be read by others, who get one only with the first key, which is as good.
async fn tell_of_dashboard(app: &App, address: std::net::SocketAddr, is_first_start: bool) {
    let origin = format!("{}://{address}", app.settings.scheme());
    let is_for_one = address.ip().is_loopback() && (is_first_start || std::io::stdout().is_terminal());
    let link = match is_for_one {
        true => service::sessions::operator_link(app).await,
        false => return println!("The dashboard is at {origin}/; baton open signs in"),
    };
    match link {
        Ok(link) => println!(
            "The dashboard, signed in, once and within ten minutes (later: baton open):\n\n    {origin}{}\n",
            link.path
        ),
        Err(error) => tracing::warn!(%error, "no link to the dashboard could be made; baton open makes one"),
    }
}

/// Says what clients have to know of the certificate, or that everything can be read on its way.
fn tell_of_tls(settings: &Settings, tls: Option<&tls::Tls>, address: std::net::SocketAddr) {
    match tls {
        Some(tls) if tls.is_self_signed() => println!(
            "Its certificate is self-signed ({}). Clients on other machines accept it with\n\n    --tls-pin {}\n",
            tls.certificate_path().display(),
            tls.about().fingerprint
        ),
        Some(_) => {}
        None if settings.insecure_listen || address.ip().is_loopback() => {}
        None => tracing::warn!(
            %address,
            "listening beyond this machine without TLS: keys and data can be read on their way. Start with --tls-cert and \
             --tls-key, or with --tls self-signed, or listen on 127.0.0.1 behind a proxy that speaks TLS; \
             --insecure-listen says that the network is safe (docs/tls.md)"
        ),
    }
}

/// Why a server cannot be put together.
enum OpenError {
    /// PostgreSQL cannot be reached now.
    Waits(String),
    /// Somebody has to change something.
    Fails(String),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (OpenError::Waits(why) | OpenError::Fails(why)) = self;
        f.write_str(why)
    }
}

/// Opens store and storage, and puts a server on them together.
async fn open(settings: &Settings, providers: &Providers) -> Result<App, OpenError> {
    let store = open_store(settings, Clock::Real).await.map_err(|error| match (settings.sqlite_path(), error) {
        (Some(path), error) => OpenError::Fails(format!("cannot open {}: {error}", path.display())),
        (None, StoreError::Unavailable(why)) => OpenError::Waits(why),
        (None, error) => OpenError::Fails(format!("cannot open the PostgreSQL database: {error}")),
    })?;
    let failed = |error: Error| {
        let text = format!("cannot start: {error}");
        match error {
            Error::Unavailable if settings.sqlite_path().is_none() => OpenError::Waits(text),
            _ => OpenError::Fails(text),
        }
    };
    let storage = open_storage(settings).map_err(OpenError::Fails)?;
    storage_owner::look(&*store, &storage).await.map_err(failed)?;
    let app = App::build(store, storage, settings.clone(), Arc::new(SystemEntropy)).await.map_err(failed)?;
    providers.iter().for_each(|(name, provider)| app.pools.providers.add(name, provider.clone()));
    Ok(app)
}

/// As [`open`], and waits for a PostgreSQL that cannot be reached: it may start after this server. What waiting does
/// not mend is an error at once. Nothing when the server is asked to stop first.
async fn open_patiently(
    settings: &Settings,
    providers: &Providers,
    stopping: &CancellationToken,
) -> Result<Option<App>, String> {
    let (began, mut said, mut pause) = (Instant::now(), None::<Instant>, WAIT_FIRST);
    loop {
        let opened = tokio::select! {
            () = stopping.cancelled() => return Ok(None),
            opened = open(settings, providers) => opened,
        };
        let error = match opened {
            Ok(app) => return Ok(Some(app)),
            Err(OpenError::Fails(error)) => return Err(error),
            Err(OpenError::Waits(error)) => error,
        };
        let url = settings.database_url.as_deref().unwrap_or_default();
        let hosts = baton_store::postgres::hosts(url).unwrap_or_default();
        match said {
            None => tracing::warn!(hosts, error, "waiting for PostgreSQL; the server listens once it is there"),
            Some(at) if at.elapsed() >= WAIT_SAY_EVERY => {
                tracing::warn!(hosts, error, waited_s = began.elapsed().as_secs(), "still waiting for PostgreSQL");
            }
            Some(_) => {}
        }
        said = said.filter(|at| at.elapsed() < WAIT_SAY_EVERY).or_else(|| Some(Instant::now()));
        tokio::select! {
            () = stopping.cancelled() => return Ok(None),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(WAIT_LONGEST);
    }
}

/// As [`open`], as often as it takes. Nothing when the server is asked to stop first.
async fn open_again(settings: &Settings, providers: &Providers, stopping: &CancellationToken) -> Option<App> {
    while !stopping.is_cancelled() {
        match open(settings, providers).await {
            Ok(app) => return Some(app),
            Err(error) => tracing::warn!(%error, "the store cannot be opened again yet"),
        }
        tokio::select! {
            () = stopping.cancelled() => {}
            () = tokio::time::sleep(REOPEN_PAUSE) => {}
        }
    }
    None
}

async fn stopped_or_moved(stopping: CancellationToken, store: Arc<dyn Store>) {
    tokio::select! {
        () = stopping.cancelled() => {}
        () = store.moved() => {}
    }
}

/// Says in the log where files are kept, and whether they can be.
async fn report_storages(storage: Storage) {
    for found in storage.health().await {
        match found.error {
            None => tracing::info!(role = found.role, url = %found.url, "a storage for artifacts"),
            Some(error) => tracing::warn!(role = found.role, %error, "a storage for artifacts cannot be used"),
        }
    }
}

/// Whether anybody but its owner can list or change a directory, or reach what is in it.
fn is_open_to_others(directory: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_for_its_owner_alone_is_not_open_to_others() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, open) in [(0o700, false), (0o701, true), (0o750, true), (0o755, true)] {
            std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(directory.path()), open, "{mode:o}");
        }
    }
}
