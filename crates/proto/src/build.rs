//! Builds: what their submitters and builders say and hear. Two protocols that exist elsewhere, so names and shapes are given.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Time;

/// Header with the token of a builder; a new one comes with every answer to a poll.
pub const WORKER_TOKEN_HEADER: &str = "x-worker-token";
/// Header with the id of a builder, where its token is not at hand.
pub const WORKER_ID_HEADER: &str = "x-worker-id";
/// Header with the token of a build, which its submitter got.
pub const BUILD_TOKEN_HEADER: &str = "x-build-token";
/// Header with the token of a machine that builds.
pub const MACHINE_TOKEN_HEADER: &str = "x-vm-token";
/// Header that repeats the build's id where secrets are read.
pub const BUILD_ID_HEADER: &str = "x-build-id";
/// Header with a lease token, for workers of the native API.
pub const LEASE_HEADER: &str = "x-lease";

/// Where a build stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum BuildStatus {
    /// Waits for a builder.
    Pending,
    /// A builder has it and has not begun.
    Assigned,
    /// A builder works on it.
    Building,
    /// Done; the result can be downloaded.
    Completed,
    /// It did not work.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl BuildStatus {
    /// All of them.
    pub const ALL: [BuildStatus; 6] = [
        BuildStatus::Pending,
        BuildStatus::Assigned,
        BuildStatus::Building,
        BuildStatus::Completed,
        BuildStatus::Failed,
        BuildStatus::Cancelled,
    ];

    /// Its word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BuildStatus::Pending => "pending",
            BuildStatus::Assigned => "assigned",
            BuildStatus::Building => "building",
            BuildStatus::Completed => "completed",
            BuildStatus::Failed => "failed",
            BuildStatus::Cancelled => "cancelled",
        }
    }

    /// True when nothing changes any more.
    pub fn is_ended(self) -> bool {
        matches!(self, BuildStatus::Completed | BuildStatus::Failed | BuildStatus::Cancelled)
    }
}

/// A build that was taken in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SubmittedBuild {
    /// Its identifier.
    pub id: String,
    /// Where it stands.
    pub status: BuildStatus,
    /// What it is built for.
    pub platform: String,
    /// When it was submitted.
    pub submitted_at: Time,
    /// The token with which its submitter follows it.
    pub access_token: String,
    /// The build this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_build_id: Option<String>,
}

/// A build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildView {
    /// Its identifier.
    pub id: String,
    /// Where it stands.
    pub status: BuildStatus,
    /// What it is built for.
    pub platform: String,
    /// Its project, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// 0 to 9; 9 goes first.
    pub priority: u8,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When its builder began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// Who has it, or had it at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Builders that had it so far.
    pub attempts: u32,
    /// Its place among the builds that wait, from 1; only where one build is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<u64>,
    /// The build this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_build_id: Option<String>,
    /// Its files that can be read now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<BuildFile>,
}

/// A build as existing clients follow it: times in milliseconds since 1970, nothing left out, and
/// no state that they do not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FollowedBuild {
    /// Its identifier.
    pub id: String,
    /// Where it stands. One that was cancelled is shown as failed, and `error_message` says so.
    pub status: BuildStatus,
    /// What it is built for.
    pub platform: String,
    /// Who has it, or had it at its end.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub worker_id: Option<String>,
    /// When it was submitted.
    pub submitted_at: i64,
    /// When its builder began.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub started_at: Option<i64>,
    /// When it ended.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub completed_at: Option<i64>,
    /// Why it failed or was cancelled.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub error_message: Option<String>,
    /// How far its builder says it is, in per cent.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub progress: Option<f64>,
    /// Its place among the builds that wait, from 1.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub queue_position: Option<u64>,
}

/// A build in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ListedBuild {
    /// The build.
    #[serde(flatten)]
    pub build: BuildView,
    /// When it was submitted, under the name that existing clients know.
    #[serde(rename = "createdAt")]
    pub created_at: Time,
    /// When it ended, likewise.
    #[serde(default, rename = "completedAt", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
}

impl From<BuildView> for ListedBuild {
    fn from(build: BuildView) -> ListedBuild {
        ListedBuild { created_at: build.submitted_at, ended_at: build.completed_at, build }
    }
}

/// A file of a build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildFile {
    /// `source` or `result`.
    pub kind: String,
    /// What it is called.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its sha-256 in hexadecimal digits.
    pub sha256: String,
}

/// A page of builds, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildPage {
    /// The builds.
    pub builds: Vec<ListedBuild>,
    /// How many there are in all.
    pub total: u64,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// The answer to a request to cancel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CancelledBuild {
    /// It is cancelled, or its builder was asked to stop.
    pub success: bool,
    /// Where it stands now.
    pub status: BuildStatus,
}

/// One line of a build's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildLogLine {
    /// The build.
    #[serde(default)]
    pub build_id: String,
    /// Its number; grows by one.
    #[serde(default)]
    pub number: u64,
    /// `info`, `warn`, `error`, ...
    pub level: String,
    /// What was said.
    pub message: String,
    /// When.
    pub timestamp: Time,
}

/// Lines of a build's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildLogs {
    /// The build.
    #[serde(default)]
    pub build_id: String,
    /// The lines, oldest first.
    pub logs: Vec<BuildLogLine>,
}

/// One line that a builder or its machine adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewLogLine {
    /// `info` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// What is said.
    pub message: String,
    /// When, if not now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
}

/// Lines to be added: one, or many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NewLogs {
    /// Many.
    Many {
        /// The lines, in order.
        logs: Vec<NewLogLine>,
        /// The number of the first of them among all lines that this lease adds, from 1. Lines that come again after a lost answer are
        /// known by it and not added twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_line: Option<u64>,
    },
    /// One.
    One(NewLogLine),
}

/// One measurement while a build was built.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildMeasurement {
    /// When.
    pub timestamp: Time,
    /// Share of the processors in use, as the builder said it.
    pub cpu: Option<f64>,
    /// Share of the memory in use, as the builder said it.
    pub memory: Option<f64>,
    /// Memory in use, in megabytes, where the builder said that instead.
    pub memory_mb: Option<f64>,
}

/// What was measured while a build was built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildTelemetry {
    /// Oldest first.
    pub telemetry: Vec<BuildMeasurement>,
}

/// What a builder can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// Platforms it builds for; all of them when it names none.
    #[serde(default)]
    pub platforms: Vec<String>,
    /// Builds at once; 1 unless given.
    #[serde(default, rename = "maxConcurrentBuilds", alias = "max_concurrent_builds")]
    pub max_concurrent_builds: Option<u32>,
    /// What else it says of itself; kept, not used.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub other: serde_json::Map<String, Value>,
}

/// A builder makes itself known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisterBuilder {
    /// The id it had before, or one that it chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What people call it. Required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(required = true, nullable = false))]
    pub name: Option<String>,
    /// What it can do. Required; it may be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(required = true, nullable = false))]
    pub capabilities: Option<Capabilities>,
    /// Builds it still works on, when it comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_build_count: Option<u32>,
}

/// A builder is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisteredBuilder {
    /// Its id.
    pub id: String,
    /// Its first token.
    pub access_token: String,
    /// `registered` or `re-registered`.
    pub status: String,
    /// The same in words.
    pub message: String,
    /// The image of the machines to build on, unless a build names another.
    #[serde(rename = "baseImageId")]
    pub base_image_id: Option<String>,
}

/// A build, as a builder gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildJob {
    /// Its identifier.
    pub id: String,
    /// What it is built for.
    pub platform: String,
    /// Where its source is.
    pub source_url: String,
    /// Where its certificates are, if it has any.
    pub certs_url: Option<String>,
    /// When it was submitted.
    pub submitted_at: Time,
    /// The image of the machine to build on.
    #[serde(rename = "baseImageId")]
    pub base_image_id: Option<String>,
    /// The password with which that machine makes itself known, once.
    pub otp: String,
}

/// The answer to a poll.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Polled {
    /// A build, if there is one for this builder.
    pub job: Option<BuildJob>,
    /// The token for the next call.
    pub access_token: String,
    /// What waits.
    pub queue: PolledQueue,
    /// When to ask again.
    pub poll_after_ms: u64,
}

/// What waits while a builder polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolledQueue {
    /// Builds that wait for a builder.
    pub pending: u64,
}

/// A builder says goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UnregisteredBuilder {
    /// It is gone.
    pub success: bool,
    /// Builds that went back.
    pub builds_reassigned: u64,
}

/// What a builder did so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuilderStats {
    /// Builds that ended with it.
    pub total_builds: u64,
    /// Those that worked.
    pub successful_builds: u64,
    /// Those that did not.
    pub failed_builds: u64,
    /// What people call it.
    pub worker_name: String,
    /// `idle`, `building` or `offline`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BuilderStatus))]
    pub status: String,
    /// How long ago it registered, for people: `2h 15m`; `0s` when it is offline.
    pub uptime: String,
}

/// A build from a repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SubmitGitBuild {
    /// The project.
    pub project_slug: String,
    /// The version that is built.
    pub version: String,
    /// Where the repository is.
    pub source_url: String,
    /// Branch, tag or commit.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The image to build in.
    pub docker_image: String,
    /// 0 to 9; 9 goes first. 5 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// A build from a repository, as a polling builder gets it. Every value is a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GitJob {
    /// Its identifier.
    pub id: String,
    /// The project.
    pub project_slug: String,
    /// The version that is built.
    pub version: String,
    /// Where the repository is.
    pub source_url: String,
    /// Branch, tag or commit.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The image to build in.
    pub docker_image: String,
}

/// How a build from a repository ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GitResult {
    /// The build's identifier, again. Required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(required = true, nullable = false))]
    pub job_id: Option<String>,
    /// `success` or `failed`. Required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BuildEnd, required = true, nullable = false))]
    pub status: Option<String>,
    /// How long it took: seconds, or a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<serde_json::Value>))]
    pub duration: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
}
