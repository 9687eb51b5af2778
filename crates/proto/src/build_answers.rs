//! What the protocols of builds answer besides builds. Names and shapes are given by programs that exist.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FollowedBuild, Time};

/// It was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Done {
    /// True: what was refused is answered with a problem.
    pub success: bool,
}

impl Done {
    /// The only answer there is.
    pub const YES: Done = Done { success: true };
}

/// A build was ended by its builder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EndedBuild {
    /// It is ended.
    pub success: bool,
    /// How: `success` or `failed`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BuildEnd))]
    pub status: String,
    /// In words.
    pub message: String,
}

/// Lines were added to a build's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AddedLogs {
    /// They are kept.
    pub success: bool,
    /// How many came.
    pub count: u64,
    /// The number of the log's last line.
    pub last: u64,
}

/// A sign of life was noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotedBuild {
    /// It is noted.
    pub success: bool,
    /// `ok`.
    pub status: String,
    /// When, in milliseconds since 1970, by the store's clock.
    pub timestamp: i64,
}

/// Builds that somebody has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ActiveBuilds {
    /// The builds.
    pub builds: Vec<FollowedBuild>,
}

/// How many builds stand where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildStatistics {
    /// Wait for a builder.
    pub pending: u64,
    /// A builder has them and has not begun.
    pub assigned: u64,
    /// A builder works on them.
    pub building: u64,
    /// Done.
    pub completed: u64,
    /// Did not work.
    pub failed: u64,
    /// Somebody stopped them.
    pub cancelled: u64,
    /// All of them.
    pub total: u64,
}

/// A machine has made itself known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MachineToken {
    /// Its token; dies with the lease of the build.
    pub vm_token: String,
    /// Until when the token is good if nothing is heard of the machine.
    pub expires_at: Time,
}

/// The machine of a build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MachineView {
    /// It has said that it is ready.
    pub vm_ready: bool,
    /// When.
    pub vm_ready_at: Option<Time>,
    /// When it made itself known.
    pub authenticated_at: Option<Time>,
    /// When it was heard of last.
    pub last_heartbeat_at: Option<Time>,
    /// A token with which whoever waits for the machine sends its heartbeats (`X-VM-Token`). It is
    /// good for nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_token: Option<String>,
}

/// The parts of a build's certificates, in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SigningParts {
    /// The certificate with its key.
    pub p12: String,
    /// The password of that file, as it is.
    pub p12_password: String,
    /// A password for a fresh keychain.
    pub keychain_password: String,
    /// Provisioning profiles.
    pub provisioning_profiles: Vec<String>,
}

/// What a builder reported of itself, one report for each day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DiagnosticReports {
    /// The builder.
    pub worker_id: String,
    /// Newest first.
    pub reports: Vec<Value>,
}

/// A report was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StoredReport {
    /// It is kept.
    pub success: bool,
    /// Its identifier.
    pub id: String,
    /// `stored`.
    pub status: String,
}

/// How the server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ServerHealth {
    /// `ok`, or `unavailable` when a storage cannot be used.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::StorageStatus))]
    pub status: String,
    /// What waits and what is worked on.
    pub queue: BuildQueue,
    /// `directory` or `s3`.
    pub storage: String,
    /// The storage, and its mirror if it has one.
    #[serde(default)]
    pub storages: Vec<StorageState>,
    /// What is wrong, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is wrong, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// How a storage of artifacts is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StorageState {
    /// `storage`, or `mirror` for the second one.
    pub role: String,
    /// `directory` or `s3`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::StorageKind))]
    pub kind: String,
    /// `ok` or `unavailable`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::StorageStatus))]
    pub status: String,
    /// Where it is; for administrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Why it cannot be used; for administrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Builds that wait and builds that somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildQueue {
    /// Builds that wait.
    pub pending: u64,
    /// Builds that somebody has.
    pub active: u64,
}

/// Numbers for everybody, a few seconds old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PublicStats {
    /// Workers that build and are online.
    pub nodes_online: u64,
    /// Builds that wait.
    pub builds_queued: u64,
    /// Builds that somebody has.
    pub active_builds: u64,
    /// Builds submitted since midnight, UTC.
    pub builds_today: u64,
    /// Builds ever.
    pub total_builds: u64,
}

/// A file is in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CachedFile {
    /// Its sha-256 in hexadecimal digits.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}
