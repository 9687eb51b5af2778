//! Reads settings: the file, the environment and the command line, each over the one before.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{Origin, SECRETS, Settings, file};
use crate::github::Secret;
use crate::secrets::MASTER_KEY_VARIABLE;

/// What the command line may set.
#[derive(Clone, PartialEq, Default)]
pub struct SettingsFlags {
    /// `--listen`.
    pub listen: Option<String>,
    /// `--tls`.
    pub tls: Option<String>,
    /// `--tls-cert`.
    pub tls_cert: Option<String>,
    /// `--tls-key`.
    pub tls_key: Option<String>,
    /// `--tls-client-ca`.
    pub tls_client_ca: Option<String>,
    /// `--tls-client-auth`.
    pub tls_client_auth: Option<String>,
    /// `--insecure-listen`.
    pub insecure_listen: bool,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--database`.
    pub database: Option<String>,
    /// `--storage`.
    pub storage: Option<String>,
    /// `--storage-mirror`.
    pub storage_mirror: Option<String>,
    /// `--api-key`.
    pub api_key: Option<String>,
    /// `--master-key-file`.
    pub master_key_file: Option<PathBuf>,
}

/// Without what may be a secret.
impl fmt::Debug for SettingsFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SettingsFlags");
        shown.field("listen", &self.listen).field("data", &self.data).finish_non_exhaustive()
    }
}

/// Variables of the environment that belong to other parts of the program.
const NOT_SETTINGS: [&str; 21] = [
    "url",
    "context",
    "log",
    "log_format",
    "config",
    "no_color",
    "run_id",
    "run_type",
    "attempt",
    "epoch",
    "deadline",
    "join_token",
    "machine_id",
    "namespace",
    "pool",
    "runner_id",
    "ca",
    "client_cert",
    "client_key",
    "tls_pin",
    "tls_pin_file",
];

impl Settings {
    /// Reads the settings: defaults, then `config`, then `env`, then `flags`.
    pub fn load(
        config: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
        flags: SettingsFlags,
    ) -> Result<Settings, String> {
        let known = toml::Table::try_from(Settings::every_key()).map_err(|error| error.to_string())?;
        let mut table = match config {
            None => toml::Table::new(),
            Some(path) => file::read(path, &known)?,
        };
        let mut origins: BTreeMap<String, Origin> = table.keys().map(|key| (key.clone(), Origin::File)).collect();
        let mut master_key = None;
        let mut opentelemetry = BTreeMap::new();
        for (name, value) in env {
            if name.starts_with("OTEL_") {
                opentelemetry.insert(name, value);
                continue;
            }
            if name == MASTER_KEY_VARIABLE {
                // Not in the table, which is shown to people.
                master_key = Some(Secret::from(value));
                continue;
            }
            let Some(key) = name.strip_prefix("BATON_").map(str::to_ascii_lowercase) else { continue };
            let foreign = ["test_", "demo_", "bench_", "agent_"].iter().any(|prefix| key.starts_with(prefix));
            let kills = cfg!(debug_assertions) && key == "crash_point";
            if foreign || kills || NOT_SETTINGS.contains(&key.as_str()) {
                continue;
            }
            let Some(example) = known.get(&key) else {
                return Err(file::unknown_variable(&name, &key, &known));
            };
            origins.insert(key.clone(), Origin::Environment);
            let value = file::from_text(&name, &key, &value, example)?;
            table.insert(key, value);
        }
        let mut set = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                origins.insert(key.into(), Origin::Flag);
                table.insert(key.into(), toml::Value::String(value));
            }
        };
        set("listen", flags.listen);
        set("tls", flags.tls);
        set("tls_cert", flags.tls_cert);
        set("tls_key", flags.tls_key);
        set("tls_client_ca", flags.tls_client_ca);
        set("tls_client_auth", flags.tls_client_auth);
        set("data", flags.data.map(|path| path.to_string_lossy().into_owned()));
        set("database_url", flags.database);
        set("storage_url", flags.storage);
        set("storage_mirror_url", flags.storage_mirror);
        set("api_key", flags.api_key);
        set("master_key_file", flags.master_key_file.map(|path| path.to_string_lossy().into_owned()));
        if flags.insecure_listen {
            origins.insert("insecure_listen".into(), Origin::Flag);
            table.insert("insecure_listen".into(), toml::Value::Boolean(true));
        }
        // What the decoder would say of these may hold what they are.
        if let Some(key) = SECRETS.iter().find(|key| table.get(**key).is_some_and(|value| !value.is_str())) {
            return Err(format!("the settings are wrong: {key} must be a text, in quotes"));
        }
        let settings: Settings = table.try_into().map_err(|error| format!("the settings are wrong: {error}"))?;
        let otel = baton_otlp::Environment::read(|name| opentelemetry.get(name).cloned());
        let settings = Settings { origins, master_key, otel, ..settings };
        settings.check()?;
        Ok(settings)
    }
}
