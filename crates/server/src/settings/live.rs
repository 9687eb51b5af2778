//! Settings that can be changed while the servers run. What is stored wins over what a server was started with.

use std::sync::{Arc, RwLock};

use baton_core::Millis;
use baton_store::{SettingChange, StoredSetting};
use serde_json::{Map, Value};

use super::Settings;

/// What is read anew wherever it is needed, and so may change at any time.
const CHANGEABLE: [&str; 52] = [
    "lease_ttl_ms",
    "heartbeat_interval_ms",
    "cancel_grace_ms",
    "bulk_rate",
    "bulk_rate_max",
    "retention_runs_ms",
    "retention_workers_ms",
    "retention_audit_ms",
    "session_idle_ms",
    "session_max_ms",
    "backlog_max",
    "journal_bytes_max",
    "requests_per_second",
    "refusals_per_second",
    "build_platforms",
    "build_base_image",
    "build_backlog_max",
    "build_heartbeat_timeout_ms",
    "build_timeout_ms",
    "build_git_lease_ms",
    "build_poll_after_ms",
    "build_polls_per_second",
    "build_polls_burst",
    "build_stuck_ms",
    "build_log_bytes_max",
    "expo_legacy_auth",
    "storage_bytes_max",
    "pool_heartbeat_ms",
    "pool_register_ms",
    "pool_heartbeat_timeout_ms",
    "pool_new_register_ms",
    "pool_new_heartbeat_timeout_ms",
    "pool_create_ms",
    "pool_release_ms",
    "pool_silent_ms",
    "pool_abandon_ms",
    "pool_wait_ms",
    "pool_claims_waiting_max",
    "pool_sweep_ms",
    "pool_orphan_grace_ms",
    "pool_provider_timeout_ms",
    "pool_backoff_first_ms",
    "pool_backoff_max_ms",
    "pool_spot_retry_ms",
    "pool_retention_ms",
    "webhook_allow",
    "webhook_timeout_ms",
    "webhook_backoff",
    "webhook_disable_after_ms",
    "health_cpu_max",
    "health_memory_max",
    "health_disk_free_bytes_min",
];

/// True when the setting with this name can be changed while the servers run.
pub fn is_changeable(name: &str) -> bool {
    CHANGEABLE.contains(&name)
}

/// A setting that can be changed, as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// Its name.
    pub name: &'static str,
    /// What holds now.
    pub value: Value,
    /// When it was changed, if it is a stored one that holds.
    pub changed_at: Option<Millis>,
    /// What this server was started with.
    pub default: Value,
    /// Where that comes from: `built in`, `file`, `environment` or `flag`.
    pub default_source: &'static str,
}

/// The settings of a running server.
#[derive(Debug)]
pub struct LiveSettings {
    started: Settings,
    now: RwLock<Now>,
}

#[derive(Debug)]
struct Now {
    settings: Arc<Settings>,
    stored: Vec<StoredSetting>,
}

impl LiveSettings {
    /// As the server was started.
    pub fn new(started: Settings) -> LiveSettings {
        let now = Now { settings: Arc::new(started.clone()), stored: Vec::new() };
        LiveSettings { started, now: RwLock::new(now) }
    }

    /// What holds now.
    pub fn get(&self) -> Arc<Settings> {
        self.now.read().expect("nobody panics while holding it").settings.clone()
    }

    /// Lets stored settings hold from now on. True when something changed.
    pub fn take(&self, stored: Vec<StoredSetting>) -> bool {
        let mut now = self.now.write().expect("nobody panics while holding it");
        if now.stored == stored {
            return false;
        }
        match self.together(&stored) {
            Ok(settings) => {
                tracing::info!(stored = stored.len(), "settings were changed while running");
                now.settings = Arc::new(settings);
            }
            // Another server, started with other settings, found no fault with them.
            Err(why) => {
                tracing::warn!(%why, "stored settings do not go with those of this server, which stay as they are")
            }
        }
        now.stored = stored;
        true
    }

    /// What would hold after changes to the stored settings, or why it must not.
    pub fn check(&self, stored: &[StoredSetting], changes: &[SettingChange]) -> Result<(), String> {
        let mut together: Vec<StoredSetting> = stored.to_vec();
        together.retain(|setting| changes.iter().all(|change| change.name != setting.name));
        together.extend(changes.iter().filter_map(|change| {
            Some(StoredSetting { name: change.name.clone(), value: change.value.clone()?, changed_at: 0 })
        }));
        self.together(&together).map(|_| ())
    }

    /// What this server was started with, and the stored settings over it.
    fn together(&self, stored: &[StoredSetting]) -> Result<Settings, String> {
        let mut all = as_json(&self.started)?;
        for setting in stored {
            match serde_json::from_str(&setting.value) {
                Ok(value) if is_changeable(&setting.name) => all.insert(setting.name.clone(), value),
                // A newer version knows more settings than this one.
                Ok(_) | Err(_) => {
                    tracing::warn!(name = setting.name, "a stored setting is not known to this version");
                    continue;
                }
            };
        }
        let settings: Settings = serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())?;
        settings.check()?;
        let Settings { data, origins, .. } = self.started.clone();
        Ok(Settings { data, origins, ..settings })
    }

    /// Every setting that can be changed.
    pub fn shown(&self) -> Result<Vec<Shown>, String> {
        let started = as_json(&self.started)?;
        let (now, stored) = {
            let now = self.now.read().expect("nobody panics while holding it");
            (as_json(&now.settings)?, now.stored.clone())
        };
        let of = |all: &Map<String, Value>, name: &str| all.get(name).cloned().unwrap_or_default();
        Ok(CHANGEABLE
            .iter()
            .map(|name| Shown {
                name,
                value: of(&now, name),
                changed_at: stored.iter().find(|setting| setting.name == *name).map(|setting| setting.changed_at),
                default: of(&started, name),
                default_source: self.started.origins.get(*name).map_or("built in", |origin| origin.as_str()),
            })
            .collect())
    }
}

/// A setting that holds as long as the server runs, as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Fixed {
    /// Its name.
    pub name: String,
    /// What this server was started with; `***` for a secret.
    pub value: Value,
    /// What would hold if nothing had been said.
    pub default: Value,
    /// Where the value comes from: `built in`, `file`, `environment` or `flag`.
    pub source: &'static str,
    /// True when it may hold a secret.
    pub is_secret: bool,
}

impl LiveSettings {
    /// Every setting that cannot be changed while the server runs. What may be a secret is left out.
    pub fn fixed(&self) -> Result<Vec<Fixed>, String> {
        let default = as_json(&Settings::default())?;
        let mut started = as_json(&self.started)?;
        started.insert("data".into(), self.started.data.to_string_lossy().into());
        let names = as_json(&Settings::every_key())?.into_iter().map(|(name, _)| name);
        Ok(names
            .filter(|name| !is_changeable(name))
            .map(|name| {
                let is_secret = super::SECRETS.contains(&name.as_str());
                let of = |all: &Map<String, Value>| match all.get(&name).cloned().unwrap_or_default() {
                    value if is_secret && !value.is_null() => "***".into(),
                    value => value,
                };
                let source = self.started.origins.get(&name).map_or("built in", |origin| origin.as_str());
                Fixed { value: of(&started), default: of(&default), source, is_secret, name }
            })
            .collect())
    }
}

/// The settings by name. The data directory, which may be any bytes, is left out.
pub(super) fn as_json(settings: &Settings) -> Result<Map<String, Value>, String> {
    let settings = Settings { data: Default::default(), ..settings.clone() };
    match serde_json::to_value(settings) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err("settings are written as an object".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a new value of a setting: it must be one that can be changed, and the value of its type.
pub fn read_change(name: &str, value: &Value) -> Result<SettingChange, String> {
    let examples = as_json(&Settings::every_key())?;
    let Some(example) = examples.get(name) else {
        return Err(format!("there is no setting {name}; GET /api/v1/settings lists those that can be changed"));
    };
    if !is_changeable(name) {
        return Err(format!("{name} cannot be changed while the server runs: set it where the server is started"));
    }
    let may_be_none = as_json(&Settings::default())?.get(name).is_some_and(Value::is_null);
    let (fits, wanted) = match example {
        Value::Number(number) if number.is_f64() => (value.is_number(), "a number"),
        Value::Number(_) => (value.is_u64(), "a whole number, 0 or more"),
        Value::Bool(_) => (value.is_boolean(), "true or false"),
        _ => (value.is_string(), "a text"),
    };
    match fits || (may_be_none && value.is_null()) {
        true => Ok(SettingChange { name: name.into(), value: Some(value.to_string()) }),
        false if may_be_none => Err(format!("{name} must be {wanted}, or null for none, not {value}")),
        false => Err(format!("{name} must be {wanted}, not {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Origin;
    use serde_json::json;

    fn stored(name: &str, value: Value) -> StoredSetting {
        StoredSetting { name: name.into(), value: value.to_string(), changed_at: 7 }
    }

    #[test]
    fn what_is_stored_wins_and_what_is_forgotten_comes_back() {
        let origins = [("build_stuck_ms".to_owned(), Origin::File)].into();
        let live = LiveSettings::new(Settings { build_stuck_ms: 5, origins, ..Settings::default() });
        assert!(live.take(vec![stored("build_stuck_ms", json!(9)), stored("storage_bytes_max", json!(1))]));
        assert_eq!((live.get().build_stuck_ms, live.get().storage_bytes_max), (9, Some(1)));
        assert!(!live.take(vec![stored("build_stuck_ms", json!(9)), stored("storage_bytes_max", json!(1))]));
        let shown = live.shown().unwrap();
        let stuck = shown.iter().find(|shown| shown.name == "build_stuck_ms").unwrap();
        assert_eq!((&stuck.value, &stuck.default), (&json!(9), &json!(5)));
        assert_eq!((stuck.changed_at, stuck.default_source), (Some(7), "file"));
        assert!(live.take(vec![]));
        assert_eq!((live.get().build_stuck_ms, live.get().storage_bytes_max), (5, None));
    }

    #[test]
    fn stored_settings_that_do_not_go_with_this_server_change_nothing() {
        let live = LiveSettings::new(Settings { heartbeat_interval_ms: 5_000, ..Settings::default() });
        live.take(vec![stored("build_stuck_ms", json!(9))]);
        live.take(vec![stored("build_stuck_ms", json!(10)), stored("lease_ttl_ms", json!(6_000))]);
        assert_eq!((live.get().build_stuck_ms, live.get().lease_ttl_ms), (9, 15_000));
        // What a newer version has stored is left alone.
        live.take(vec![
            stored("build_stuck_ms", json!(11)),
            stored("of_tomorrow", json!(1)),
            stored("listen", json!(1)),
        ]);
        assert_eq!(live.get().build_stuck_ms, 11);
    }

    #[test]
    fn a_change_is_checked_with_all_others() {
        let live = LiveSettings::new(Settings::default());
        let change = |name: &str, value: Value| read_change(name, &value).unwrap();
        assert!(
            live.check(&[], &[change("lease_ttl_ms", json!(6_000))]).unwrap_err().contains("heartbeat_interval_ms")
        );
        let both = [change("lease_ttl_ms", json!(6_000)), change("heartbeat_interval_ms", json!(3_000))];
        assert_eq!(live.check(&[], &both), Ok(()));
        assert_eq!(live.check(&[stored("heartbeat_interval_ms", json!(1_000))], &both[..1]), Ok(()));
        let forget = SettingChange { name: "heartbeat_interval_ms".into(), value: None };
        let short = [stored("heartbeat_interval_ms", json!(1_000)), stored("lease_ttl_ms", json!(6_000))];
        assert!(live.check(&short, &[forget]).is_err(), "the default is too long for it");
        assert!(live.check(&[], &[change("requests_per_second", json!(5_000_000_000_u64))]).is_err());
    }

    #[test]
    fn a_value_is_of_its_type() {
        let wrong = |name: &str, value: Value| read_change(name, &value).unwrap_err();
        assert!(wrong("of_tomorrow", json!(1)).contains("no setting of_tomorrow"));
        assert!(wrong("listen", json!("127.0.0.1:1")).contains("where the server is started"));
        assert!(wrong("data", json!("/")).contains("where the server is started"));
        assert!(wrong("lease_ttl_ms", json!("soon")).contains("whole number"));
        assert!(wrong("lease_ttl_ms", json!(-1)).contains("whole number"));
        assert!(wrong("lease_ttl_ms", json!(1.5)).contains("whole number"));
        assert!(wrong("lease_ttl_ms", json!(null)).contains("whole number"));
        assert!(wrong("expo_legacy_auth", json!(1)).contains("true or false"));
        assert!(wrong("storage_bytes_max", json!("x")).contains("or null for none"));
        assert_eq!(read_change("storage_bytes_max", &json!(null)).unwrap().value.as_deref(), Some("null"));
        assert_eq!(read_change("build_polls_per_second", &json!(3)).unwrap().value.as_deref(), Some("3"));
    }

    #[test]
    fn what_can_be_changed_is_said_where_settings_are_documented() {
        let page = include_str!("../../../../docs/settings.md");
        for name in as_json(&Settings::every_key()).unwrap().keys() {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
            assert_eq!(row.ends_with("| yes |"), is_changeable(name), "{row}");
        }
        assert!(CHANGEABLE.iter().all(|name| as_json(&Settings::default()).unwrap().contains_key(*name)));
    }

    /// A part that keeps what the server was started with would not notice a change.
    #[test]
    fn what_can_be_changed_is_never_read_from_what_the_server_was_started_with() {
        let (mut folders, mut files) = (vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))], 0);
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                for name in CHANGEABLE {
                    assert!(!text.contains(&format!("app.settings.{name}")), "{} reads {name}", path.display());
                }
            }
        }
        assert!(files > 50, "the sources were looked at");
    }
}
