//! `baton doctor`: what is wrong here, and what to do about it.

mod tls;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::proto::{Attention, KeyView, PAGE_MAX, PoolView, SecretStatus, StorageState};
use baton::{Client, ClientError};
use baton_core::pools::RunnerState;
use baton_server::artifacts::Storage;
use baton_server::secrets::MasterKeySource;
use baton_server::{Settings, SettingsFlags};
use baton_store::{Clock, StoreError};
use clap::Args;
use serde::Serialize;

use super::pool::show;
use super::serve;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::os;
use crate::output::{Format, Table};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than an SQLite store waits for somebody else's lock, so that it can say what it waited for.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// A key that ends within a week is told of.
const EXPIRES_SOON_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// A secret that is older than this is to be rotated: a year and a month.
const ROTATION_DUE_MS: i64 = 396 * 24 * 60 * 60 * 1_000;
const DISK_FREE_WARN: u64 = 1 << 30;
const DISK_FREE_FAIL: u64 = 100 << 20;
/// A clock that is off by more confuses people who compare logs; it breaks nothing.
const CLOCK_OFF_MS_WARN: i64 = 2_000;

#[derive(Args)]
#[command(after_help = "Checks what `baton serve` and the other commands would use with the same options and
environment. Ends with 1 if anything fails, and with 0 if there are only warnings: --json has the \"status\" of each
check (ok, warn, fail), for those who want to stop at warnings.

Examples:
  baton doctor
  baton doctor --config /etc/baton.toml --json
  baton doctor --url http://baton.internal:7400")]
pub struct DoctorArgs {
    /// Settings file (TOML).
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// What one look found.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, status: Status::Ok, found: found.into(), todo: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Check {
        Check { name, status: Status::Warn, found: found.into(), todo: Some(todo.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Check {
        Check { status: Status::Fail, ..Check::warn(name, found, todo) }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

/// Looks at everything and reports.
pub async fn doctor(connection: &Connection, args: DoctorArgs) -> Result<(), Exit> {
    let mut checks = Vec::new();
    let flags = SettingsFlags { data: connection.data.clone(), ..SettingsFlags::default() };
    let settings = serve::load(args.config.as_deref(), flags);
    let directory = settings.as_ref().map_or_else(|_| connection.data_directory(), |settings| settings.data.clone());
    checks.push(check_settings(args.config.as_deref(), &settings));
    checks.push(check_directory(&directory));
    checks.push(check_disk(&directory));
    let key = connection.find_api_key()?;
    let client = connection.client_with(key.as_deref().unwrap_or_default())?.with_timeout(CALL_TIMEOUT);
    let server = check_server(&client).await;
    let server_answers = server.status == Status::Ok;
    checks.push(server);
    if let Ok(settings) = &settings {
        checks.extend(tls::check_settings(settings));
    }
    checks.extend(tls::check_certificate(&client, connection).await);
    if server_answers {
        checks.push(check_store_behind(&client).await);
        checks.extend(check_storage_behind(&client).await);
        checks.push(check_key(&client, key.is_some(), connection).await);
        checks.extend(check_attention(&client).await);
        checks.extend(check_pools(&client).await);
        checks.extend(check_legacy_auth(&client).await);
        checks.extend(check_expiry(&client).await);
        checks.extend(check_master_key(&client).await);
    }
    if let Ok(settings) = &settings
        && (!server_answers || settings.sqlite_path().is_none())
    {
        checks.extend(check_store(settings).await);
    }
    if let Ok(settings) = &settings
        && !server_answers
    {
        checks.extend(check_storage(settings).await);
    }
    let report = Report { ok: checks.iter().all(|check| check.status != Status::Fail), checks };
    args.format.print(&report, table);
    if report.ok { Ok(()) } else { Err(Exit::failed_silently()) }
}

fn table(report: &Report) -> String {
    let mut table = Table::plain();
    for check in &report.checks {
        let status = match check.status {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        table.row([status, check.name, &check.found]);
        if let Some(todo) = &check.todo {
            table.row(["", "", &format!("-> {todo}")]);
        }
    }
    table.to_string()
}

fn check_settings(config: Option<&Path>, settings: &Result<Settings, String>) -> Check {
    let name = "settings";
    let from = config.map_or("defaults and environment".into(), |path| format!("{} and environment", path.display()));
    match settings {
        Ok(settings) => {
            let store = settings.sqlite_path().map_or("PostgreSQL".into(), |path| path.display().to_string());
            Check::ok(name, format!("{from}; listen on {}, store {store}", settings.listen))
        }
        Err(error) => Check::fail(name, error, "correct the file or the variable; `baton serve --help` names them"),
    }
}

fn check_directory(directory: &Path) -> Check {
    let name = "data directory";
    let shown = directory.display();
    if !directory.exists() {
        return Check::warn(name, format!("{shown} does not exist yet"), "`baton serve` makes it");
    }
    match tempfile::tempfile_in(directory) {
        Ok(_) => Check::ok(name, format!("{shown} can be written")),
        Err(error) => Check::fail(
            name,
            format!("{shown} cannot be written: {error}"),
            "give it to the user the server runs as, or choose another with --data",
        ),
    }
}

fn check_disk(directory: &Path) -> Check {
    let name = "disk";
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let (free, size) = match os::disk_space(existing) {
        Ok(space) => space,
        Err(error) => return Check::warn(name, format!("cannot be measured: {error}"), "look yourself with `df`"),
    };
    let found = format!("{} MiB of {} MiB free", free >> 20, size >> 20);
    let todo = "free some space: a full disk takes no new runs (and loses none)";
    match free {
        0..DISK_FREE_FAIL => Check::fail(name, found, todo),
        DISK_FREE_FAIL..DISK_FREE_WARN => Check::warn(name, found, todo),
        DISK_FREE_WARN.. => Check::ok(name, found),
    }
}

async fn check_server(client: &Client) -> Check {
    let name = "server";
    match client.healthz().await {
        Ok(()) => Check::ok(name, format!("{} answers", client.url())),
        Err(error @ ClientError::Untrusted(_)) => {
            Check::fail(name, error.to_string(), "docs/tls.md has what to do about certificates")
        }
        Err(error) => {
            Check::fail(name, error.to_string(), "start it with `baton serve`, or say where it is with --url")
        }
    }
}

async fn check_store_behind(client: &Client) -> Check {
    let name = "store of the server";
    match client.readyz().await {
        Ok(_) => Check::ok(name, "reachable and migrated"),
        Err(error) => Check::fail(name, error.to_string(), "the server's log says why; look at its database"),
    }
}

/// What the server says of its storages; nothing when it cannot even ask its store.
async fn check_storage_behind(client: &Client) -> Option<Check> {
    let name = "storage of the server";
    let todo =
        "look at that storage, at its disk or its network and credentials; docs/storage.md says what works without it";
    match client.health().await {
        Ok(health) => {
            let where_it_is = |storage: &StorageState| {
                let url = storage.url.as_deref().unwrap_or(&storage.kind);
                format!("{} {url}", storage.role)
            };
            let found: Vec<String> = health.storages.iter().map(where_it_is).collect();
            Some(Check::ok(name, format!("reachable: {}", found.join(", "))))
        }
        Err(ClientError::Refused { code, message, .. }) if code == "storage_unavailable" => {
            Some(Check::fail(name, message, todo))
        }
        Err(_) => None,
    }
}

/// Looks at the storages itself, where no server does.
async fn check_storage(settings: &Settings) -> Vec<Check> {
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

async fn check_key(client: &Client, has_key: bool, connection: &Connection) -> Check {
    let name = "API key";
    let place = connection.admin_key_path();
    let from = match (&connection.api_key, has_key) {
        (Some(_), _) => "--api-key or BATON_API_KEY".to_owned(),
        (None, true) => connection.key_place(),
        (None, false) => {
            let found = format!("none given, and none of this server in {}", place.display());
            return Check::fail(name, found, "set BATON_API_KEY, or give --api-key or --data");
        }
    };
    match client.queues(None).await {
        Ok(_) => Check::ok(name, format!("the one from {from} is good")),
        Err(ClientError::Refused { status: 403, ref code, .. }) if code == "forbidden" => {
            Check::ok(name, format!("the one from {from} is known, but may not read"))
        }
        Err(error) => Check::fail(
            name,
            format!("the one from {from} is refused: {error}"),
            "make one with `baton key create` and a good admin key; when there is none left, start the server with \
             BATON_API_KEY set to a key of your choice (docs/keys.md)",
        ),
    }
}

/// Pools that do not get the machines they should have. Nothing where there are none, or where they are nobody's business.
/// Warns when workers are let in without a credential. Only an administrator's key can see it.
async fn check_legacy_auth(client: &Client) -> Option<Check> {
    let settings = client.settings().await.ok()?.settings;
    let open = settings.iter().any(|setting| setting.name == "expo_legacy_auth" && setting.value == true);
    open.then(|| {
        Check::warn(
            "workers",
            "expo_legacy_auth is on: whoever reaches the server can register as a worker and be handed builds",
            "once every worker sends its token or an API key: baton settings set expo_legacy_auth=false",
        )
    })
}

/// Keys whose time is over soon. Only an administrator's key can see them.
async fn check_expiry(client: &Client) -> Option<Check> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis() as i64;
    ending(&client.keys().await.ok()?.keys, now)
}

fn ending(keys: &[KeyView], now: i64) -> Option<Check> {
    let ends_soon = |key: &KeyView| {
        let at = key.expires_at.filter(|at| key.good && at.0 - now < EXPIRES_SOON_MS)?;
        Some(format!("{} ({}) on {at}", key.id, key.name))
    };
    let soon: Vec<_> = keys.iter().filter_map(ends_soon).collect();
    let todo = "baton key rotate ID --expires-in 90d gives it another secret and more time";
    (!soon.is_empty()).then(|| Check::warn("keys that end", soon.join(", "), todo))
}

/// Where the master key is, and what that means. Only a key for all namespaces can see it.
async fn check_master_key(client: &Client) -> Option<Check> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis() as i64;
    Some(master_key(&client.secret_status().await.ok()?, now))
}

fn master_key(status: &SecretStatus, now: i64) -> Check {
    let (name, place) = ("master key", &status.place);
    let found = format!("{} from {place}", status.key_id);
    if let Some(trouble) = &status.trouble {
        return Check::fail(
            name,
            trouble,
            "docs/secrets.md, \"Several servers\", says how to hand a key to all of them",
        );
    }
    if let Some(mode) = &status.mode_too_wide {
        return Check::warn(
            name,
            format!("{found} has the mode {mode}: others can read it"),
            format!("chmod 600 {place}"),
        );
    }
    let made_at = status.generations.last().map_or(now, |newest| newest.made_at.0);
    if now - made_at > ROTATION_DUE_MS {
        let days = (now - made_at) / (24 * 60 * 60 * 1_000);
        return Check::warn(name, format!("{found}; the secret it wraps is {days} days old"), "baton secret rotate");
    }
    match status.source.as_str() {
        "data_directory" => Check::ok(
            name,
            format!(
                "{found}, beside what it protects: a copy of the whole directory has both. Keep a copy of the key elsewhere, \
                 and backups without it; master_key_file or master_key_command take it from another place (docs/secrets.md)"
            ),
        ),
        _ => Check::ok(name, found),
    }
}

/// What needs somebody, as the server sees it. Nothing from a server that does not say it. What stands in other checks is left out.
async fn check_attention(client: &Client) -> Vec<Check> {
    let Ok(attention) = client.attention(None).await else { return Vec::new() };
    attended(&attention)
}

fn attended(attention: &Attention) -> Vec<Check> {
    const ELSEWHERE: [&str; 5] = ["disk_full", "storage_failing", "schema_newer", "master_key", "pool_refused"];
    let name = "work";
    let told = attention.findings.iter().filter(|finding| !ELSEWHERE.contains(&finding.code.as_str()));
    let mut checks: Vec<Check> = told
        .map(|finding| {
            let since = finding.since.map_or_else(String::new, |at| format!(", since {at}"));
            Check::warn(name, format!("{}: {}{since}", finding.subject, finding.message), advice(&finding.code))
        })
        .collect();
    match attention.more {
        0 => {}
        more => checks.push(Check::warn(name, format!("{more} more of this kind"), "GET /api/v1/attention has them")),
    }
    if checks.is_empty() {
        checks.push(Check::ok(name, "nothing needs attention"));
    }
    checks
}

/// What helps against a finding.
fn advice(code: &str) -> &'static str {
    match code {
        "type_unserved" => "start a worker that serves it, or cancel what waits: `baton run list --state pending`",
        "queue_paused" => "`baton queue resume QUEUE` lets it hand out work again",
        "queue_stuck" => "start more workers, or let them hold more at once",
        "namespace_disabled" => "`baton namespace enable NAMESPACE`",
        "worker_silent" | "worker_unfit" => "`baton worker get ID` has what is known of it",
        "schedule_late" | "schedule_paused" => "`baton schedule get ID`",
        "webhook_failing" | "webhook_paused" => "`baton webhook get ID` says what its target answers",
        _ => "the dashboard shows it",
    }
}

async fn check_pools(client: &Client) -> Option<Check> {
    let (mut pools, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.pools(None, Some(PAGE_MAX), cursor.as_deref()).await.ok()?;
        pools.extend(page.pools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return wanting(&pools);
        }
    }
}

/// What is to be said of these pools.
fn wanting(pools: &[PoolView]) -> Option<Check> {
    let name = "runner pools";
    if pools.is_empty() {
        return None;
    }
    let idle = |pool: &PoolView| pool.runners.get(RunnerState::Idle.as_str()).copied().unwrap_or(0);
    let lacking = pools.iter().filter(|pool| !pool.deleting && idle(pool) < u64::from(pool.min_idle_now));
    let lacking = lacking.filter_map(|pool| {
        let note = show::note(pool)?;
        Some(format!("{}/{} has {} of {} idle: {note}", pool.namespace, pool.name, idle(pool), pool.min_idle_now))
    });
    let lacking: Vec<String> = lacking.collect();
    if lacking.is_empty() {
        return Some(Check::ok(name, format!("{} looked at", pools.len())));
    }
    let todo = "`baton pool get POOL`, and `baton pool runners POOL --state gone` for what became of its machines";
    Some(Check::warn(name, lacking.join("; "), todo))
}

/// Opens the store itself: no server answers for it, or its clock is another machine's.
async fn check_store(settings: &Settings) -> Vec<Check> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_end_within_a_week_are_named() {
        let key = |id: &str, expires_at: Option<&str>, good: bool| -> KeyView {
            let value = json!({"id": id, "name": "ci", "scopes": [], "created_at": "2026-01-01T00:00:00Z",
                "expires_at": expires_at, "good": good});
            serde_json::from_value(value).unwrap()
        };
        let now = 1_767_225_600_000; // 2026-01-01T00:00:00Z
        let quiet = [
            key("a", None, true),
            key("b", Some("2026-01-08T00:00:00Z"), true),
            key("c", Some("2026-01-02T00:00:00Z"), false),
        ];
        assert!(ending(&quiet, now).is_none());
        let found = ending(&[key("d", Some("2026-01-07T23:59:59Z"), true)], now).unwrap();
        assert!(found.status == Status::Warn && found.found == "d (ci) on 2026-01-07T23:59:59.000Z", "{}", found.found);
    }

    #[test]
    fn where_the_master_key_is_and_what_that_means_is_said() {
        let status = |more: serde_json::Value| -> SecretStatus {
            let mut value = json!({"key_id": "mk_1", "source": "file", "place": "/k", "key_ids": ["mk_1"],
                "makes_master_key": false, "generations": [{"generation": 1, "key_id": "mk_1",
                "made_at": "2026-01-01T00:00:00Z"}]});
            more.as_object().unwrap().iter().for_each(|(name, one)| value[name] = one.clone());
            serde_json::from_value(value).unwrap()
        };
        let now = 1_767_225_600_000; // 2026-01-01T00:00:00Z
        for (more, later_ms, expected, words) in [
            (json!({}), 0, Status::Ok, "mk_1 from /k"),
            (json!({"source": "data_directory"}), 0, Status::Ok, "a copy of the whole directory has both"),
            (json!({"mode_too_wide": "644"}), 0, Status::Warn, "others can read it"),
            (json!({"trouble": "the key mk_2 is not here"}), 0, Status::Fail, "mk_2 is not here"),
            (json!({}), ROTATION_DUE_MS + 1, Status::Warn, "396 days old"),
        ] {
            let check = master_key(&status(more), now + later_ms);
            assert!(check.status == expected && check.found.contains(words), "{}", check.found);
        }
    }

    #[test]
    fn pools_that_get_no_machines_are_named() {
        let found = |pools: &[PoolView]| wanting(pools).map(|check| (check.status == Status::Warn, check.found));
        assert_eq!(found(&[]), None);
        let whole = show::sample(json!({"runners": {"idle": 2}, "error": "an old one"}));
        let coming = show::sample(json!({"runners": {"creating": 2}}));
        let deleted = show::sample(json!({"deleting": true, "error": "quota"}));
        assert_eq!(found(&[whole.clone(), coming, deleted]), Some((false, "3 looked at".into())));
        let refused = show::sample(json!({"runners": {"idle": 1}, "error": "quota"}));
        let said = "default/linux has 1 of 2 idle: the provider refuses: quota";
        assert_eq!(found(&[whole, refused]), Some((true, said.into())));
        let held = show::sample(json!({"create_after": "2026-01-31T09:30:00Z"}));
        let (is_warned, said) = found(&[held]).unwrap();
        assert!(is_warned && said.contains("0 of 2 idle: its last machines came to nothing"), "{said}");
    }
}
