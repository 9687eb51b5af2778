//! What is wrong now, for people who look.

use serde::{Deserialize, Serialize};

use crate::Time;

/// What needs somebody, worst first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attention {
    /// The findings. None when everything is as it should be.
    pub findings: Vec<Finding>,
    /// How many more there are than are told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// When a run failed last, in the last day; told when there are no findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_at: Option<Time>,
}

/// Something that needs somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Finding {
    /// What it is, for programs: `type_unserved`, `queue_paused`, `queue_stuck`, `worker_silent`, `worker_unfit`, `pool_refused`,
    /// `pool_full`, `schedule_late`, `schedule_paused`, `webhook_failing`, `webhook_paused`, `disk_full`, `storage_failing`,
    /// `schema_newer`, `namespace_disabled`, and others that come later.
    pub code: String,
    /// `fail`: it stays so until somebody does something. `warn`: it may get worse.
    pub severity: String,
    /// What it is about: `Queue mail`.
    pub subject: String,
    /// What is wrong with it, in one sentence without its subject: `412 runs wait, and no worker serves the type digest`.
    pub message: String,
    /// The namespace, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Since when, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Where the dashboard shows it: a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
