//! Runners, as people see them.

use baton_core::pools::{Cause, RunnerState, Usage};
use serde::{Deserialize, Serialize};

use crate::Time;

/// A runner as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunnerView {
    /// Its identifier.
    pub id: String,
    /// Its pool.
    pub pool: String,
    /// The namespace of that.
    pub namespace: String,
    /// `creating`, `idle`, `claimed`, `running`, `releasing`, `terminating` or `gone`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::RunnerState))]
    pub state: RunnerState,
    /// Since when.
    pub since: Time,
    /// Until when that may last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// The run that it is for, or was for when it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The provider's name for its machine, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The provider's word for its type; empty until there is a machine.
    #[serde(rename = "type")]
    pub kind: String,
    /// How it is paid for.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::MachineUsage))]
    pub usage: Usage,
    /// Its cores.
    pub cpu: u32,
    /// Its memory.
    pub memory_mib: u64,
    /// When its machine was asked for.
    pub ordered_at: Time,
    /// When its last heartbeat came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Time>,
    /// How many claims have taken it.
    pub uses: u32,
    /// Why it is ended, once it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::RunnerCause>))]
    pub cause: Option<Cause>,
    /// The rest, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Its moves, newest first; only where one runner is asked for, and at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<RunnerMove>,
}

/// A move of a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunnerMove {
    /// When.
    pub at: Time,
    /// From which state; none when it was ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::RunnerState>))]
    pub from: Option<RunnerState>,
    /// To which; the same when it registered.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::RunnerState))]
    pub to: RunnerState,
    /// Why it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::RunnerCause>))]
    pub cause: Option<Cause>,
    /// The rest, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A page of runners, by identifier. Those that are gone are listed only when asked for with `state=gone`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunnerPage {
    /// The runners.
    pub runners: Vec<RunnerView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
