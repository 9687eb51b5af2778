//! Settings: one struct; defaults, then the file, then the environment, then flags. Unknown keys are errors.

mod check;
mod defaults;
mod file;
mod github;
mod live;
mod load;
mod pools;
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use defaults::data_default;
pub use live::{LiveSettings, Shown, is_changeable, read_change};
pub use load::SettingsFlags;

use crate::github::Secret;

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

impl Settings {
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
mod tests;
