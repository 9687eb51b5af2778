//! Settings: one struct; defaults, then the file, then the environment, then flags. Unknown keys are errors.

mod check;
mod file;
mod github;
mod live;
mod pools;
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use live::{LiveSettings, Shown, is_changeable, read_change};

use crate::github::Secret;
use crate::secrets::MASTER_KEY_VARIABLE;

/// Everything that can be set. Every field is a key of the settings file and, in capitals after `BATON_`, a variable
/// of the environment.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Address and port to listen on.
    pub listen: String,
    /// Whether the server makes a certificate for itself: `self-signed`, or nothing.
    pub tls: Option<String>,
    /// The server's certificate and those between it and its authority (PEM). Read anew when it changes.
    pub tls_cert: Option<String>,
    /// The key that belongs to it (PEM).
    pub tls_key: Option<String>,
    /// Who vouches for the certificates of clients (PEM).
    pub tls_client_ca: Option<String>,
    /// Whether each client has to show a certificate: `optional` or `required`.
    pub tls_client_auth: String,
    /// API keys (their ids) that certificates of clients stand for, by a name in the certificate:
    /// its subject, or `dns:`, `uri:` or `email:` and another name.
    pub tls_client_keys: BTreeMap<String, String>,
    /// How long a TLS handshake may take.
    pub tls_handshake_timeout_ms: u64,
    /// Says that the network is safe: listening beyond this machine without TLS is no reason to warn.
    pub insecure_listen: bool,
    /// Where the server keeps its files: the SQLite database, the first admin key, its address.
    pub data: PathBuf,
    /// `postgres://...`, or a path (`sqlite:///...`); SQLite in `data` unless given.
    pub database_url: Option<String>,
    /// Where artifacts are kept: a path, `file:///...`, or `s3://bucket/prefix?endpoint=...&region=...`; in `data` unless given.
    pub storage_url: Option<String>,
    /// A second storage: every file is written to both before it is acknowledged, and read from
    /// here when the first lacks it.
    pub storage_mirror_url: Option<String>,
    /// Bytes to keep free on the disk of a storage directory: uploads that would take them are refused.
    pub storage_free_bytes_min: u64,
    /// Largest artifact.
    pub artifact_bytes_max: u64,
    /// Most that the content-addressed cache may hold; what was not used for the longest goes first.
    pub cache_bytes_max: u64,
    /// The namespace whose cache all others may read, too. None unless given.
    pub cache_shared_namespace: Option<String>,
    /// How long an upload that can be resumed is kept after its last piece.
    pub upload_expiry_ms: u64,
    /// How often files that nobody needs are looked for; left drafts and uploads ten times less often.
    pub collect_every_ms: u64,
    /// How long a file that no build has taken is kept.
    pub collect_age_ms: u64,
    /// How long a draft that nobody writes to is kept: a server that ended badly left it.
    pub draft_age_ms: u64,
    /// A direct PostgreSQL address for LISTEN, when `database_url` goes through a transaction pooler.
    pub listen_url: Option<String>,
    /// Connections to PostgreSQL.
    pub database_connections: usize,
    /// Hear of other servers' work through LISTEN. Without it a server looks once a second.
    pub database_listen: bool,
    /// Prepare the statements that run all the time. A pooler that forgets prepared statements is noticed either way.
    pub database_prepare: bool,
    /// An admin API key to accept, besides those in the store.
    pub api_key: Option<String>,

    /// A file that has the master key, or several, one a line: the first wraps, all of them can open.
    pub master_key_file: Option<String>,
    /// A command that prints the master key.
    pub master_key_command: Option<String>,
    /// The master key itself, which only the environment can give (`BATON_MASTER_KEY`).
    #[serde(skip)]
    pub master_key: Option<Secret>,

    /// How long a worker's leases live after its last sign of life.
    pub lease_ttl_ms: u64,
    /// How often workers are told to send heartbeats.
    pub heartbeat_interval_ms: u64,
    /// How long a worker has to stop after a request to cancel.
    pub cancel_grace_ms: u64,
    /// Runs in a second that a bulk operation acts on which asks for no rate of its own.
    pub bulk_rate: f64,
    /// The most that one may ask for.
    pub bulk_rate_max: f64,
    /// How long ended runs are kept.
    pub retention_runs_ms: u64,
    /// How long offline workers are kept.
    pub retention_workers_ms: u64,
    /// How long the audit log is kept.
    pub retention_audit_ms: u64,
    /// The least that `retention_audit_ms` can be changed to while the servers run, so that nobody
    /// can erase what they did.
    pub retention_audit_ms_min: u64,

    /// How long a session of the dashboard is good for that nobody uses.
    pub session_idle_ms: u64,
    /// How long one is good for at most.
    pub session_max_ms: u64,

    /// Most runs that may wait in a queue that has no limit of its own.
    pub backlog_max: u64,
    /// Most builds that may wait, where the queue `builds` has no limit of its own.
    pub build_backlog_max: u64,
    /// Largest input or output of a run, a step or a signal.
    pub payload_bytes_max: usize,
    /// How deep arrays and objects may be in each other in a payload that is JSON.
    pub payload_depth_max: usize,
    /// Payloads up to this size are kept in the database; larger ones go to the storage.
    pub payload_inline_bytes_max: usize,
    /// Most bytes that one workflow run may remember.
    pub journal_bytes_max: u64,
    /// Largest body of a call about one run.
    pub body_bytes_max: usize,
    /// Largest body of a batch.
    pub batch_bytes_max: usize,
    /// Large bodies in memory at once, in bytes; who comes when there are more waits for a few seconds.
    pub bodies_bytes_max: usize,
    /// Answers in memory at once, in bytes. One API key may have half of it; one connection, or one
    /// address without a key, an eighth.
    pub answers_bytes_max: usize,
    /// Requests a second that one API key may send; 0 is no limit.
    pub requests_per_second: u32,
    /// Refused credentials a second from one address before it is told to slow down.
    pub refusals_per_second: u32,
    /// Requests a second without any credential that one address may send; 0 is no limit.
    pub unauthenticated_per_second: u32,
    /// What `/metrics` wants to be shown (`Authorization: Bearer`). Without it, it is there for this
    /// machine, and for others with an API key that may read all namespaces.
    pub metrics_key: Option<String>,
    /// Where lines of the audit log go besides the database: `file:/path`, `syslog`, or `syslog://host:port`.
    pub audit_sink: Option<String>,
    /// A line of the log for each request.
    pub request_log: bool,
    /// Where spans are sent over OTLP: `http://collector:4317` (gRPC) or `http://collector:4318`. Nowhere unless given.
    pub otlp_endpoint: Option<String>,
    /// `grpc` or `http`; gRPC on port 4317 unless given, otherwise HTTP.
    pub otlp_protocol: Option<String>,
    /// Headers for the collector: `name=value,name=value`.
    pub otlp_headers: Option<String>,
    /// The share of runs that are traced where their submitters say nothing of it: 0 to 1.
    pub otlp_sample_ratio: f64,
    /// How long a call of the collector may take; ten seconds unless given.
    pub otlp_timeout_ms: Option<u64>,
    /// What the variables of OpenTelemetry say, which count where the settings say nothing.
    #[serde(skip)]
    pub otel: baton_otlp::Environment,
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once from one address. A new one takes the place of the oldest that is idle.
    pub connections_per_address_max: usize,
    /// Requests of one address that are being answered at once.
    pub requests_per_address_max: usize,
    /// Addresses and networks of proxies, with commas between them, that are believed when they say
    /// in `Forwarded` or `X-Forwarded-For` whom they speak for.
    pub trusted_proxies: String,
    /// Origins whose pages may call the API from a browser, with commas between them; `*` is all of them.
    pub cors_origins: String,
    /// How long a client may take to send a request's headers.
    pub header_timeout_ms: u64,
    /// How long a connection may be idle between requests.
    pub idle_timeout_ms: u64,
    /// How long a client may take to send a body.
    pub body_timeout_ms: u64,
    /// How long a client may take nothing of an answer that is being sent to it.
    pub write_timeout_ms: u64,
    /// How long calls in flight may take to finish when the server stops.
    pub shutdown_timeout_ms: u64,

    /// Platforms that builds may be for, with commas between them.
    pub build_platforms: String,
    /// Image of the machine to build on, for builds that name none.
    pub build_base_image: Option<String>,
    /// How long a builder may be silent before its builds go to others.
    pub build_heartbeat_timeout_ms: u64,
    /// How many builders a build may lose before it is given up.
    pub build_losses_max: u32,
    /// How long a build may take.
    pub build_timeout_ms: u64,
    /// How long a polling builder that sends no heartbeats may take for a build from a repository.
    pub build_git_lease_ms: u64,
    /// When builders are told to poll again.
    pub build_poll_after_ms: u64,
    /// Polls a second that bring a builder no work before it is told to slow down; 0 is no limit.
    pub build_polls_per_second: f64,
    /// Such polls that a builder may send at once.
    pub build_polls_burst: u32,
    /// How long a build may be silent before it is called stuck.
    pub build_stuck_ms: u64,
    /// Most bytes of one build's log.
    pub build_log_bytes_max: u64,
    /// Whether workers of Expo Free Agent may register, poll and report without any credential, by
    /// their id alone, in the default namespace.
    pub expo_legacy_auth: bool,
    /// Most bytes of artifacts that one namespace may keep.
    pub storage_bytes_max: Option<u64>,

    /// How often schedules are looked for that other servers have made or changed. Fires this server knows of are on time in any case.
    pub schedule_every_ms: u64,
    /// Schedules that are read at once.
    pub schedule_batch: usize,
    /// Most runs that schedules start in one pass; the rest has to wait for the next.
    pub schedule_runs_max: usize,

    /// Hosts, addresses and networks, with commas between them, that webhooks may call although they are not public.
    pub webhook_allow: String,
    /// How long a receiver of a webhook may take to answer.
    pub webhook_timeout_ms: u64,
    /// How long it takes from each attempt of a delivery to the next: spans, with commas between them.
    pub webhook_backoff: String,
    /// A webhook with nothing but failures for so long is disabled.
    pub webhook_disable_after_ms: u64,

    /// How often the agents of runner pools are told to send heartbeats.
    pub pool_heartbeat_ms: u64,
    /// How long a runner that a claim took may take to register for it.
    pub pool_register_ms: u64,
    /// How old the last heartbeat of a runner may be when it is handed over.
    pub pool_heartbeat_timeout_ms: u64,
    /// As `pool_register_ms`, for a machine that no claim has had before, counted from when it was ordered.
    pub pool_new_register_ms: u64,
    /// As `pool_heartbeat_timeout_ms`, for such a machine.
    pub pool_new_heartbeat_timeout_ms: u64,
    /// How long a new machine may take until its agent says that it is up.
    pub pool_create_ms: u64,
    /// How long a runner that was given back may take to deregister and clean up.
    pub pool_release_ms: u64,
    /// A runner that is not handed over is ended after this silence.
    pub pool_silent_ms: u64,
    /// An agent that has not reached a server for this long ends its machine. One that was handed over is given up a minute later.
    pub pool_abandon_ms: u64,
    /// How long a claim waits to be filled, unless it says so itself.
    pub pool_wait_ms: u64,
    /// Most claims that wait for machines of one pool; more are refused.
    pub pool_claims_waiting_max: u64,
    /// How often pools and claims are looked at without a reason. What this server knows of is done at once.
    pub pool_look_ms: u64,
    /// How often what providers list is compared with what the store knows.
    pub pool_sweep_ms: u64,
    /// How old a machine or a row must be before it counts that the other side does not know of it.
    pub pool_orphan_grace_ms: u64,
    /// How long one call of a provider may take.
    pub pool_provider_timeout_ms: u64,
    /// How long a pool waits after its provider has refused to create machines; doubles each time.
    pub pool_backoff_first_ms: u64,
    /// The longest such wait.
    pub pool_backoff_max_ms: u64,
    /// How long a pool that may do so has on-demand machines after spot machines were refused.
    pub pool_spot_retry_ms: u64,
    /// How long runners that are gone, and claims that have ended, are kept.
    pub pool_retention_ms: u64,
    /// The URL under which agents reach the servers, like http://10.0.0.10:7400; that of this
    /// server unless given.
    pub pool_url: Option<String>,
    /// Where the scripts of the provider `command` are. Without it there is no such provider.
    pub pool_command_directory: Option<String>,
    /// Most bytes that such a script may print.
    pub pool_command_output_bytes_max: usize,

    /// GitHub, for pools that register their runners there; an Enterprise server has its own address.
    pub github_url: String,
    /// The address of its API; that which goes with `github_url` unless given.
    pub github_api_url: Option<String>,
    /// A token that may administer the self-hosted runners of the repositories or organizations that pools name.
    pub github_token: Option<Secret>,
    /// A file that has this token, which is read anew every time it is needed.
    pub github_token_file: Option<String>,

    /// A worker whose processors are busier than this (0 to 1) gets no new work.
    pub health_cpu_max: Option<f64>,
    /// A worker whose memory is fuller than this (0 to 1) gets no new work.
    pub health_memory_max: Option<f64>,
    /// A worker with fewer bytes free on its disk gets no new work.
    pub health_disk_free_bytes_min: Option<u64>,

    /// Where settings come from that are not as they are built in.
    #[serde(skip)]
    pub origins: BTreeMap<String, Origin>,
}

/// Where a setting comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The settings file.
    File,
    /// A variable of the environment.
    Environment,
    /// The command line.
    Flag,
}

impl Origin {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::File => "file",
            Origin::Environment => "environment",
            Origin::Flag => "flag",
        }
    }
}

/// What a call says besides its payload, at most.
const ENVELOPE_BYTES: usize = 64 << 10;
const DAY_MS: u64 = 24 * 3_600 * 1_000;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: "127.0.0.1:7400".into(),
            tls: None,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_client_auth: "optional".into(),
            tls_client_keys: BTreeMap::new(),
            tls_handshake_timeout_ms: 10_000,
            insecure_listen: false,
            data: data_default(),
            database_url: None,
            storage_url: None,
            storage_mirror_url: None,
            storage_free_bytes_min: 256 << 20,
            artifact_bytes_max: 8 << 30,
            cache_bytes_max: 20 << 30,
            cache_shared_namespace: None,
            upload_expiry_ms: DAY_MS,
            collect_every_ms: 60_000,
            collect_age_ms: 3_600_000,
            draft_age_ms: DAY_MS,
            listen_url: None,
            database_connections: 8,
            database_listen: true,
            database_prepare: true,
            api_key: None,
            master_key_file: None,
            master_key_command: None,
            master_key: None,
            lease_ttl_ms: 15_000,
            heartbeat_interval_ms: 5_000,
            cancel_grace_ms: 30_000,
            bulk_rate: 2_500.0,
            bulk_rate_max: 10_000.0,
            retention_runs_ms: 30 * DAY_MS,
            retention_workers_ms: 7 * DAY_MS,
            retention_audit_ms: 90 * DAY_MS,
            retention_audit_ms_min: 30 * DAY_MS,
            session_idle_ms: 7 * DAY_MS,
            session_max_ms: 30 * DAY_MS,
            backlog_max: 1_000_000,
            build_backlog_max: 1_000,
            payload_bytes_max: 32 << 20,
            payload_depth_max: 128,
            payload_inline_bytes_max: 2 << 20,
            journal_bytes_max: 64 << 20,
            body_bytes_max: 4 << 20,
            batch_bytes_max: 64 << 20,
            bodies_bytes_max: 256 << 20,
            answers_bytes_max: 128 << 20,
            requests_per_second: 0,
            refusals_per_second: 20,
            unauthenticated_per_second: 1_000,
            metrics_key: None,
            audit_sink: None,
            request_log: true,
            otlp_endpoint: None,
            otlp_protocol: None,
            otlp_headers: None,
            otlp_sample_ratio: 1.0,
            otlp_timeout_ms: None,
            otel: baton_otlp::Environment::default(),
            connections_max: 10_000,
            connections_per_address_max: 8_000,
            requests_per_address_max: 20_000,
            trusted_proxies: String::new(),
            cors_origins: String::new(),
            header_timeout_ms: 10_000,
            idle_timeout_ms: 120_000,
            body_timeout_ms: 60_000,
            write_timeout_ms: 30_000,
            shutdown_timeout_ms: 30_000,
            build_platforms: "android,ios,linux,macos,web,windows".into(),
            build_base_image: None,
            build_heartbeat_timeout_ms: 300_000,
            build_losses_max: baton_core::machine::LOSSES_DEFAULT,
            build_timeout_ms: 6 * 3_600_000,
            build_git_lease_ms: 3_600_000,
            build_poll_after_ms: 5_000,
            build_polls_per_second: 2.0,
            build_polls_burst: 10,
            build_stuck_ms: 1_800_000,
            build_log_bytes_max: 64 << 20,
            expo_legacy_auth: false,
            storage_bytes_max: None,
            schedule_every_ms: 1_000,
            schedule_batch: 50,
            schedule_runs_max: 1_000,
            webhook_allow: String::new(),
            webhook_timeout_ms: 15_000,
            // Three days in all.
            webhook_backoff: "5s,5m,30m,2h,5h,10h,14h,20h,24h".into(),
            webhook_disable_after_ms: 5 * DAY_MS,
            pool_heartbeat_ms: 5_000,
            pool_register_ms: 10_000,
            pool_heartbeat_timeout_ms: 15_000,
            pool_new_register_ms: 180_000,
            pool_new_heartbeat_timeout_ms: 15_000,
            pool_create_ms: 180_000,
            pool_release_ms: 60_000,
            pool_silent_ms: 60_000,
            pool_abandon_ms: 600_000,
            pool_wait_ms: 600_000,
            pool_claims_waiting_max: 1_000,
            pool_look_ms: 1_000,
            pool_sweep_ms: 30_000,
            pool_orphan_grace_ms: 120_000,
            pool_provider_timeout_ms: 60_000,
            pool_backoff_first_ms: 5_000,
            pool_backoff_max_ms: 300_000,
            pool_spot_retry_ms: 600_000,
            pool_retention_ms: 7 * DAY_MS,
            pool_url: None,
            pool_command_directory: None,
            pool_command_output_bytes_max: 1 << 20,
            github_url: "https://github.com".into(),
            github_api_url: None,
            github_token: None,
            github_token_file: None,
            health_cpu_max: None,
            health_memory_max: None,
            health_disk_free_bytes_min: None,
            origins: BTreeMap::new(),
        }
    }
}

/// Keys whose values may hold a secret, or hold one where they are wrong. Never printed.
const SECRETS: [&str; 8] = [
    "database_url",
    "listen_url",
    "storage_url",
    "storage_mirror_url",
    "api_key",
    "metrics_key",
    "github_token",
    "otlp_headers",
];

/// Without what may be a secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = live::as_json(self).map_err(|_| fmt::Error)?;
        for (_, value) in all.iter_mut().filter(|(key, value)| SECRETS.contains(&key.as_str()) && !value.is_null()) {
            *value = "***".into();
        }
        f.debug_map().entry(&"data", &self.data).entries(&all).finish()
    }
}

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

/// The user's data directory for Baton: `$XDG_DATA_HOME/baton` or `~/.local/share/baton`.
pub fn data_default() -> PathBuf {
    let home = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    home("XDG_DATA_HOME")
        .or_else(|| home("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("baton")
}

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

    /// Settings in which every optional key has a value, to learn each key's type from.
    fn every_key() -> Settings {
        Settings {
            tls: Some(String::new()),
            tls_cert: Some(String::new()),
            tls_key: Some(String::new()),
            tls_client_ca: Some(String::new()),
            database_url: Some(String::new()),
            storage_url: Some(String::new()),
            storage_mirror_url: Some(String::new()),
            listen_url: Some(String::new()),
            cache_shared_namespace: Some(String::new()),
            metrics_key: Some(String::new()),
            otlp_endpoint: Some(String::new()),
            otlp_protocol: Some(String::new()),
            otlp_headers: Some(String::new()),
            otlp_timeout_ms: Some(0),
            audit_sink: Some(String::new()),
            api_key: Some(String::new()),
            master_key_file: Some(String::new()),
            master_key_command: Some(String::new()),
            build_base_image: Some(String::new()),
            storage_bytes_max: Some(0),
            pool_url: Some(String::new()),
            pool_command_directory: Some(String::new()),
            github_api_url: Some(String::new()),
            github_token: Some(Secret::default()),
            github_token_file: Some(String::new()),
            health_cpu_max: Some(1.0),
            health_memory_max: Some(1.0),
            health_disk_free_bytes_min: Some(0),
            ..Settings::default()
        }
    }

    /// Where the SQLite database is, or `None` for PostgreSQL.
    pub fn sqlite_path(&self) -> Option<PathBuf> {
        match self.database_url.as_deref() {
            None => Some(self.data.join("baton.db")),
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => None,
            Some(url) => Some(PathBuf::from(url.strip_prefix("sqlite://").unwrap_or(url))),
        }
    }

    /// How clients have to begin the address of this server.
    pub fn scheme(&self) -> &'static str {
        if self.has_tls() { "https" } else { "http" }
    }

    /// True when connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some() || self.tls_cert.is_some()
    }

    /// Where artifacts are kept: a URL or a path.
    pub fn storage(&self) -> String {
        let default = || self.data.join("artifacts").to_string_lossy().into_owned();
        self.storage_url.clone().unwrap_or_else(default)
    }

    /// Where spans are sent; `None` when tracing is off.
    pub(crate) fn otlp(&self) -> Result<Option<baton_otlp::Config>, baton_otlp::ConfigError> {
        baton_otlp::Config::new(
            self.otlp_endpoint.as_deref(),
            self.otlp_protocol.as_deref(),
            self.otlp_headers.as_deref(),
            self.otlp_timeout_ms,
            &self.otel,
        )
    }

    /// Largest body of a call that brings one payload: it has to fit.
    pub fn payload_body_bytes_max(&self) -> usize {
        self.body_bytes_max.max(self.payload_bytes_max.saturating_add(ENVELOPE_BYTES))
    }

    /// Largest body of a batch, or message of a stream: the largest payload has to fit here, too.
    pub fn payload_batch_bytes_max(&self) -> usize {
        self.batch_bytes_max.max(self.payload_body_bytes_max())
    }

    /// Where the first admin key is left for the command line of this machine.
    pub fn admin_key_path(&self) -> PathBuf {
        self.data.join("admin.key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, env: &[(&str, &str)], flags: SettingsFlags) -> Result<Settings, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("baton.toml");
        std::fs::write(&path, file).unwrap();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::load(Some(&path), env, flags)
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let flags = SettingsFlags { listen: Some("127.0.0.1:3".into()), ..SettingsFlags::default() };
        let file = "listen = '127.0.0.1:1'\nlease_ttl_ms = 20000\nbacklog_max = 7";
        let env =
            [("BATON_LISTEN", "127.0.0.1:2"), ("BATON_LEASE_TTL_MS", "30000"), ("HOME", "/x"), ("BATON_URL", "y")];
        let settings = load(file, &env, flags).unwrap();
        assert_eq!(settings.listen, "127.0.0.1:3");
        assert_eq!((settings.lease_ttl_ms, settings.backlog_max), (30_000, 7));
        assert_eq!(settings.heartbeat_interval_ms, Settings::default().heartbeat_interval_ms);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let none = SettingsFlags::default;
        assert!(load("lisen = 'x'", &[], none()).unwrap_err().contains("lisen"));
        assert!(load("listen = 3", &[], none()).unwrap_err().contains("listen"));
        assert!(load("listen = 'nowhere'", &[], none()).unwrap_err().contains("127.0.0.1:7400"));
        assert!(load("", &[("BATON_LISSEN", "x")], none()).unwrap_err().contains("BATON_LISSEN"));
        assert!(load("", &[("BATON_LEASE_TTL_MS", "soon")], none()).unwrap_err().contains("whole number"));
        assert!(load("lease_ttl_ms = 5000", &[], none()).unwrap_err().contains("heartbeat_interval_ms"));
        assert!(load("", &[("BATON_API_KEY", "short")], none()).unwrap_err().contains("16"));
        assert!(load("body_bytes_max = 0", &[], none()).unwrap_err().contains("body_bytes_max"));
    }

    #[test]
    fn a_misspelt_setting_is_named_with_its_line_and_what_may_be_meant() {
        let none = SettingsFlags::default;
        let said = load("# comment\nlisten = '127.0.0.1:1'\n\nlease_tll_ms = 5", &[], none()).unwrap_err();
        assert!(said.starts_with("unknown setting `lease_tll_ms` at "), "{said}");
        assert!(said.ends_with("baton.toml:4; did you mean lease_ttl_ms?"), "{said}");
        let said = load("data = '/x'\n[something.else]\na = 1", &[], none()).unwrap_err();
        assert!(said.contains("unknown setting `something` at ") && said.ends_with("baton.toml:2"), "{said}");
        let said = load("", &[("BATON_LEASE_TLL_MS", "5")], none()).unwrap_err();
        assert!(said.ends_with("did you mean BATON_LEASE_TTL_MS?"), "{said}");
        let said = load("\nbacklog_max = 'many'", &[], none()).unwrap_err();
        assert!(said.contains("backlog_max at ") && said.ends_with("baton.toml:2 must be a whole number"), "{said}");
    }

    #[test]
    fn spans_are_written_as_people_write_them() {
        let none = SettingsFlags::default;
        let env = [("BATON_CANCEL_GRACE_MS", "2m"), ("BATON_HEARTBEAT_INTERVAL_MS", "5000")];
        let settings = load("lease_ttl_ms = '1m30s'\nretention_audit_ms_min = '31d'", &env, none()).unwrap();
        assert_eq!((settings.lease_ttl_ms, settings.cancel_grace_ms), (90_000, 120_000));
        assert_eq!((settings.heartbeat_interval_ms, settings.retention_audit_ms_min), (5_000, 31 * DAY_MS));
        let said = load("\nlease_ttl_ms = 'soon'", &[], none()).unwrap_err();
        assert!(said.contains("baton.toml:2") && said.contains("is not a span of time"), "{said}");
        let said = load("lease_ttl_ms = true", &[], none()).unwrap_err();
        assert!(said.ends_with("must be a whole number or a span like \"5s\""), "{said}");
        let said = load("", &[("BATON_LEASE_TTL_MS", "soon")], none()).unwrap_err();
        assert!(said.contains("a span like 5s"), "{said}");
        assert!(load("backlog_max = '5s'", &[], none()).is_err(), "no span of time");
    }

    #[test]
    fn no_secret_is_echoed() {
        for url in [
            "mysql://me:CANARY@h/d",
            "postgres:/me:CANARY@h/d",
            "me:CANARY@h/d",
            "host=h password=CANARY",
            "sqlite://me:CANARY@h/d",
            "postgres://me:CANARY@h/d?sslmode=CANARY",
            "postgres://me:x@CANARY?CANARY=1@h/d",
        ] {
            for key in ["database_url", "listen_url"] {
                let said = load(&format!("{key} = '{url}'"), &[], SettingsFlags::default()).unwrap_err();
                assert!(said.contains(key) && !said.contains("CANARY"), "{key} {url}: {said}");
            }
        }
        let mysql = load("database_url = 'mysql://me:x@h/d'", &[], SettingsFlags::default()).unwrap_err();
        assert!(mysql.contains("mysql://") && mysql.contains("postgres://"), "{mysql}");
        for file in ["a = 1\ndatabase_url = postgres://me:CANARY@h/d", "api_key = 0x_CANARY", "api_key = 'CANARY"] {
            let said = load(file, &[], SettingsFlags::default()).unwrap_err();
            assert!(said.contains("line") && !said.contains("CANARY"), "{said}");
        }
        let number = load("api_key = 1234567812345678", &[], SettingsFlags::default()).unwrap_err();
        assert!(number.contains("api_key") && !number.contains("1234567812345678"), "{number}");
        let text = || Some("CANARY-CANARY-CANARY".to_owned());
        let settings = Settings {
            database_url: text(),
            listen_url: text(),
            storage_url: text(),
            storage_mirror_url: text(),
            api_key: text(),
            metrics_key: text(),
            github_token: Some(Secret::from("CANARY".to_owned())),
            ..Settings::default()
        };
        let flags = SettingsFlags { database: text(), storage: text(), api_key: text(), ..SettingsFlags::default() };
        let shown = format!("{settings:?} {settings:#?} {flags:?}");
        assert!(!shown.contains("CANARY") && shown.contains("lease_ttl_ms"), "{shown}");
    }

    #[test]
    fn paths_are_databases_whatever_is_in_them() {
        for path in ["/var/lib/a:b@c/baton.db", "./x@y.db", "baton.db", "sqlite:///x/a:b@c.db"] {
            let settings = load(&format!("database_url = '{path}'"), &[], SettingsFlags::default());
            assert!(settings.is_ok_and(|settings| settings.sqlite_path().is_some()), "{path}");
        }
    }

    #[test]
    fn the_master_key_comes_from_one_place_and_is_in_no_list() {
        let key = baton_core::token::master_key([7; 32]);
        let settings = load("", &[("BATON_MASTER_KEY", &key)], SettingsFlags::default()).unwrap();
        assert_eq!(settings.master_key.as_ref().map(Secret::reveal), Some(key.as_str()));
        let listed = toml::Table::try_from(&settings).unwrap().to_string();
        assert!(!format!("{settings:?}{listed}").contains(&key) && !listed.contains("master_key ="));
        let both = load("master_key_file = '/k'", &[("BATON_MASTER_KEY", &key)], SettingsFlags::default());
        let refused = both.unwrap_err();
        assert!(refused.contains("master_key_file") && refused.contains("BATON_MASTER_KEY"), "{refused}");
        assert!(!refused.contains(&key));
        assert!(load("master_key = 'x'", &[], SettingsFlags::default()).is_err(), "not from a file of settings");
        assert!(load("", &[("BATON_MASTER_KEY", "short")], SettingsFlags::default()).is_err());
    }

    #[test]
    fn every_setting_is_documented() {
        let page = include_str!("../../../../docs/settings.md");
        for key in toml::Table::try_from(Settings::every_key()).unwrap().keys() {
            assert!(page.contains(&format!("| `{key}` |")), "docs/settings.md lacks {key}");
        }
    }

    #[test]
    fn a_key_of_digits_is_still_text() {
        let settings = load("", &[("BATON_API_KEY", "12345678901234567890")], SettingsFlags::default()).unwrap();
        assert_eq!(settings.api_key.as_deref(), Some("12345678901234567890"));
    }

    #[test]
    fn artifacts_are_in_the_data_directory_unless_a_storage_is_named() {
        let flags = SettingsFlags { storage: Some("s3://a".into()), ..SettingsFlags::default() };
        assert_eq!(load("", &[("BATON_STORAGE_URL", "s3://b")], flags).unwrap().storage(), "s3://a");
        let settings = load("data = '/d'", &[], SettingsFlags::default()).unwrap();
        assert_eq!(settings.storage(), "/d/artifacts");
    }

    #[test]
    fn the_database_is_sqlite_unless_postgres_is_named() {
        let at = |url: Option<&str>| {
            Settings { database_url: url.map(str::to_owned), data: "/d".into(), ..Settings::default() }.sqlite_path()
        };
        assert_eq!(at(None), Some("/d/baton.db".into()));
        assert_eq!(at(Some("sqlite:///x/y.db")), Some("/x/y.db".into()));
        assert_eq!(at(Some("postgres://h/d")), None);
    }
}
