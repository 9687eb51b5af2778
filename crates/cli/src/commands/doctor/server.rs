//! What a server that answers says of itself, and of the key that asks.

use std::time::{SystemTime, UNIX_EPOCH};

use baton::proto::{Attention, KeyView, PAGE_MAX, PoolView, SecretStatus, StorageState};
use baton::{Client, ClientError};
use baton_core::pools::RunnerState;

use super::super::pool::show;
use super::Check;
use crate::connection::Connection;

/// A key that ends within a week is told of.
const EXPIRES_SOON_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// A secret that is older than this is to be rotated: a year and a month.
const ROTATION_DUE_MS: i64 = 396 * 24 * 60 * 60 * 1_000;

pub(super) async fn check_server(client: &Client) -> Check {
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

pub(super) async fn check_store_behind(client: &Client) -> Check {
    let name = "store of the server";
    match client.readyz().await {
        Ok(_) => Check::ok(name, "reachable and migrated"),
        Err(error) => Check::fail(name, error.to_string(), "the server's log says why; look at its database"),
    }
}

/// What the server says of its storages; nothing when it cannot even ask its store.
pub(super) async fn check_storage_behind(client: &Client) -> Option<Check> {
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

pub(super) async fn check_key(client: &Client, has_key: bool, connection: &Connection) -> Check {
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

/// Warns when workers are let in without a credential. Only an administrator's key can see it.
pub(super) async fn check_legacy_auth(client: &Client) -> Option<Check> {
    let settings = client.settings().await.ok()?.settings;
    let open = settings.iter().any(|setting| setting.name == "expo_legacy_auth" && setting.value == true);
    open.then(|| {
        Check::warn(
            "workers",
            "expo_legacy_auth is on: anyone who reaches the server can register as a worker and be handed builds",
            "once every worker sends its token or an API key: baton settings set expo_legacy_auth=false",
        )
    })
}

/// Keys whose time is over soon. Only an administrator's key can see them.
pub(super) async fn check_expiry(client: &Client) -> Option<Check> {
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
pub(super) async fn check_master_key(client: &Client) -> Option<Check> {
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
pub(super) async fn check_attention(client: &Client) -> Vec<Check> {
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

/// Pools that do not get the machines they should have. Nothing where there are none, or where they are nobody's business.
pub(super) async fn check_pools(client: &Client) -> Option<Check> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Status;
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
