//! Looks at the store and the storages itself, where no server answers for them.

use std::time::Duration;

use baton_server::Settings;
use baton_server::artifacts::Storage;
use baton_server::secrets::MasterKeySource;
use baton_store::{Clock, StoreError};

use super::Check;

/// Longer than an SQLite store waits for somebody else's lock, so that it can say what it waited for.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// A clock that is off by more confuses people who compare logs; it breaks nothing.
const CLOCK_OFF_MS_WARN: i64 = 2_000;

/// Opens the store itself: no server answers for it, or its clock is another machine's.
pub(super) async fn check_store(settings: &Settings) -> Vec<Check> {
    let name = "store";
    if let Some(path) = settings.sqlite_path().filter(|path| !path.exists()) {
        return vec![Check::warn(name, format!("{} does not exist yet", path.display()), "`baton serve` makes it")];
    }
    let opened = async {
        let store = baton_server::open_store(settings, Clock::Real).await?;
        let before = Clock::Real.local();
        let now = store.now().await;
        let after = Clock::Real.local();
        let kind = store.kind();
        let master = MasterKeySource::of(settings);
        let key = match baton_server::secrets::check(&*store, &master).await {
            Ok(Some(id)) => Check::ok("master key", format!("{id} from {}", master.place())),
            Ok(None) => Check::ok("master key", "none is needed yet; `baton serve` makes one unless one is given"),
            Err(error) => Check::fail("master key", error, "docs/secrets.md says what to do"),
        };
        store.close().await;
        Ok::<_, StoreError>((kind, now? - (before + after) / 2, key))
    };
    let (kind, off, key) = match tokio::time::timeout(STORE_TIMEOUT, opened).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return vec![closed(settings, &error)],
        Err(_) => return vec![Check::fail(name, "no answer in time", "look at the database and its address")],
    };
    let clock = match off.abs() {
        0..CLOCK_OFF_MS_WARN => Check::ok("clock", format!("{} ms from the store's", off.abs())),
        _ => Check::warn(
            "clock",
            format!("{} ms from the store's", off.abs()),
            "nothing breaks (times come from the store), but set it right with NTP",
        ),
    };
    vec![Check::ok(name, format!("{kind}, reachable and migrated")), clock, key]
}

/// What is wrong with a store that cannot be opened. An SQLite store lets in one server and nobody else.
fn closed(settings: &Settings, error: &StoreError) -> Check {
    let (name, path) = ("store", settings.sqlite_path().unwrap_or_default());
    match error {
        StoreError::Unavailable(why) if why.starts_with("another process is using ") => Check::warn(
            name,
            format!("{} is in use by another process, so it cannot be looked into", path.display()),
            "fine if that is your server (say where it listens with --url); if not, stop that process before you start one",
        ),
        StoreError::Unavailable(why) if why.contains("database is locked") => Check::fail(
            name,
            format!("{} is locked by another process that is no server", path.display()),
            "close the tool or the backup that has it open",
        ),
        error => Check::fail(name, error.to_string(), "look at the database and its address"),
    }
}

/// Looks at the storages itself, where no server does.
pub(super) async fn check_storage(settings: &Settings) -> Vec<Check> {
    let urls = [("storage", Some(settings.storage())), ("mirror", settings.storage_mirror_url.clone())];
    let mut checks = Vec::new();
    for (name, url) in urls.into_iter().filter_map(|(name, url)| Some((name, url?))) {
        checks.push(match Storage::open_existing(&url, baton_server::text_variables(), 0) {
            Err(error) => Check::warn(name, error, "`baton serve` makes a directory that is not there yet"),
            Ok(storage) => match storage.health().await.remove(0).error {
                None => Check::ok(name, format!("{} can be used", storage.name())),
                Some(error) => Check::fail(name, error, "look at its disk, or its network and credentials"),
            },
        });
    }
    checks
}
