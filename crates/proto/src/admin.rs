//! Workers, queues, keys and the audit log, as administrators see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{HealthReport, Time};

/// A worker as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerView {
    /// Its identifier: one for each start.
    pub id: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `ONLINE`, `DRAINING` or `OFFLINE`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::WorkerStatus))]
    pub status: String,
    /// Why, if somebody or something changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// Queues it serves.
    pub queues: Vec<String>,
    /// Types it can do.
    pub types: Vec<String>,
    /// Where it runs.
    pub hostname: String,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its version.
    pub version: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Runs it can hold at once.
    pub max_concurrent: u32,
    /// Runs it holds.
    pub active: u32,
    /// Runs it has completed.
    pub completed: u64,
    /// Attempts of it that failed.
    pub failed: u64,
    /// When it registered.
    pub registered_at: Time,
    /// Its last sign of life.
    pub seen_at: Time,
    /// Until when its leases live.
    pub lease_until: Time,
    /// Its last measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthReport>,
    /// Why it gets no new work because of its health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
}

/// A page of workers, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerPage {
    /// The workers.
    pub workers: Vec<WorkerView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many there are in all, when asked for with `total=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// A queue as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Runs that could be claimed now.
    pub ready: u64,
    /// Runs due later.
    pub scheduled: u64,
    /// Runs that workers hold.
    pub held: u64,
    /// Runs that sleep.
    pub sleeping: u64,
    /// How long the oldest claimable run has been due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
    /// True while nothing is handed out.
    pub paused: bool,
    /// When the pause ends by itself; `never` when somebody has to resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(schema_with = crate::time::time_or_never, required = false))]
    pub paused_until: Option<Time>,
    /// Most runs that may wait.
    pub backlog_max: u64,
    /// Most runs handed out in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// Most runs of one key that may be held at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_limit: Option<u32>,
}

/// Queues, by namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Queues {
    /// The queues.
    pub queues: Vec<QueueView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Stops a queue from handing out runs; what is held goes on.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PauseQueue {
    /// Until this moment; otherwise until resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// For this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// Limits of a queue. A field that is not there is left as it is; `null` clears it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueLimits {
    /// Most runs that may wait.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub backlog_max: Option<Option<u64>>,
    /// Most runs handed out in a second.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>))]
    pub rate_per_second: Option<Option<f64>>,
    /// Most runs of one key that may be held at once.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u32>))]
    pub key_limit: Option<Option<u32>>,
}

/// Tells a field that is null from one that is not there.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// An API key to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateKey {
    /// What you call it.
    pub name: String,
    /// Some of `admin`, `submit`, `worker` and `read`.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<crate::words::KeyScope>))]
    pub scopes: Vec<String>,
    /// The only namespace it is good for; all unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How long it is good for; until somebody revokes it unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// Another secret for an API key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RotateKey {
    /// How long the secret that it has now stays good; a day unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_ms: Option<u64>,
    /// How long the key is good for from now on; as long as before unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// A new API key. The key itself is shown this once and never again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreatedKey {
    /// Names it when it is to be revoked.
    pub id: String,
    /// The key.
    pub key: String,
}

/// A link that signs in to the dashboard once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SigninLink {
    /// What comes after the address of the server. It is as good as the key until it is used: show it to nobody.
    pub path: String,
    /// Until when it can be used.
    pub expires_at: Time,
}

/// How many sessions have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EndedSessions {
    /// That many.
    pub ended: u64,
}

/// An API key as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KeyView {
    /// Names it when it is to be revoked.
    pub id: String,
    /// What somebody called it.
    pub name: String,
    /// What it may do.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<crate::words::KeyScope>))]
    pub scopes: Vec<String>,
    /// The only namespace it is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// When it was made.
    pub created_at: Time,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
    /// When it ends by itself, or has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it was last used, give or take a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Time>,
    /// Until when the secret before its last rotation is good, or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_until: Option<Time>,
    /// True when it can be used: neither revoked nor over.
    pub good: bool,
}

/// Who is calling: the API key that was shown, or the one that a client certificate stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Whoami {
    /// The key's identifier; `settings` for the one that is given in the server's settings.
    pub id: String,
    /// What somebody called it.
    pub name: String,
    /// What it may do.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<crate::words::KeyScope>))]
    pub scopes: Vec<String>,
    /// The only namespace it is good for; all of them where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// API keys, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Keys {
    /// The keys.
    pub keys: Vec<KeyView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditLine {
    /// Its number.
    pub id: i64,
    /// When.
    pub at: Time,
    /// Who.
    pub actor: String,
    /// What.
    pub action: String,
    /// On what.
    pub subject: String,
    /// The rest.
    pub detail: String,
    /// The namespace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Where the caller was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The request that it was part of, as its answer says in `x-request-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A page of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The lines.
    pub lines: Vec<AuditLine>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
