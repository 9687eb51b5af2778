//! Claims of runners.

use baton_core::pools::{Cause, ClaimReason, ClaimState, Usage};
use serde::{Deserialize, Serialize};

use crate::Time;

/// Machines that a run wants, all or none. The same run with the same words again is the same claim; with other words it is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenClaim {
    /// The caller's own name for its run, unique in the pool: 1 to 200 letters, digits, and `. _ : -`.
    pub run_id: String,
    /// How many machines. 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Types that will do, as patterns with `*` and `?`. None: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// `on_demand` takes no spot machines; `spot` takes both, spot machines first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::MachineUsage>))]
    pub usage: Option<Usage>,
    /// Cores, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// How long it may keep them: at most, and unless given, as long as the pool allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime_ms: Option<u64>,
    /// How long the claim waits to be filled before it fails; the server's setting unless given. The call itself answers at once:
    /// `GET .../claims/{run_id}?wait_ms` waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// 0 to 9; 9 goes first. 5 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

impl OpenClaim {
    /// So many machines for a run, with everything else left at its default.
    pub fn new(run_id: impl Into<String>, count: u32) -> OpenClaim {
        OpenClaim {
            run_id: run_id.into(),
            count: Some(count),
            types: Vec::new(),
            usage: None,
            cpu: None,
            memory_mib: None,
            max_runtime_ms: None,
            wait_ms: None,
            priority: None,
        }
    }
}

/// A claim as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimView {
    /// The caller's own name for its run.
    pub run_id: String,
    /// The pool.
    pub pool: String,
    /// Its namespace.
    pub namespace: String,
    /// `waiting`, `ready` (all machines are handed over), `released` or `failed`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::ClaimState))]
    pub state: ClaimState,
    /// How many machines it wants.
    pub count: u32,
    /// 9 goes first.
    pub priority: u8,
    /// When it was opened.
    pub opened_at: Time,
    /// Until when it waits, and once it is ready, until when it may keep its machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// When its machines were handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Why it ended: `done`, `cancelled`, `runtime_over`, `wait_over`, `impossible`, `pool_deleted` or `runners_lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::ClaimReason>))]
    pub reason: Option<ClaimReason>,
    /// The rest, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Runners that it has now, in the order of their identifiers. Fewer than `count` once it is ready: the others are lost.
    #[serde(default)]
    pub runners: Vec<ClaimRunner>,
    /// Runners that it had taken and that were discarded, newest first, and at most 100.
    #[serde(default)]
    pub failures: Vec<ClaimFailure>,
    /// How many were discarded in all.
    #[serde(default)]
    pub discarded: u64,
}

/// A runner of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimRunner {
    /// Its identifier.
    pub id: String,
    /// The provider's name for its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// `registering`, `registered` (the claim waits for others) or `running` (handed over).
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::ClaimPhase))]
    pub phase: ClaimPhase,
    /// The provider's word for its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How it is paid for.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::MachineUsage))]
    pub usage: Usage,
    /// Its cores.
    pub cpu: u32,
    /// Its memory.
    pub memory_mib: u64,
}

/// How far a runner of a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimPhase {
    /// Its agent registers it for the run.
    Registering,
    /// It is registered; the claim waits for others.
    Registered,
    /// Handed over.
    Running,
}

/// A runner that a claim had taken and that was discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimFailure {
    /// The runner.
    pub runner_id: String,
    /// When.
    pub at: Time,
    /// Why: `register_failed`, `register_timeout`, `silent`, `lost`, ...
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::RunnerCause))]
    pub cause: Cause,
    /// The rest, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A claim as it is listed: without its runners, those that it discarded, and how many these were. Where one claim is asked for they are
/// there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ListedClaim {
    /// The caller's own name for its run.
    pub run_id: String,
    /// The pool.
    pub pool: String,
    /// Its namespace.
    pub namespace: String,
    /// `waiting`, `ready` (all machines were handed over), `released` or `failed`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::ClaimState))]
    pub state: ClaimState,
    /// How many machines it wants.
    pub count: u32,
    /// How many it has now. Fewer than `count` once it is ready: the others are lost. Servers of before do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<u32>,
    /// 9 goes first.
    pub priority: u8,
    /// When it was opened.
    pub opened_at: Time,
    /// Until when it waits, and once it is ready, until when it may keep its machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// When its machines were handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Why it ended, as in [`ClaimView`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::ClaimReason>))]
    pub reason: Option<ClaimReason>,
    /// The rest, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl From<ClaimView> for ListedClaim {
    fn from(claim: ClaimView) -> ListedClaim {
        ListedClaim {
            run_id: claim.run_id,
            pool: claim.pool,
            namespace: claim.namespace,
            state: claim.state,
            count: claim.count,
            live: u32::try_from(claim.runners.len()).ok(),
            priority: claim.priority,
            opened_at: claim.opened_at,
            deadline: claim.deadline,
            ready_at: claim.ready_at,
            ended_at: claim.ended_at,
            reason: claim.reason,
            detail: claim.detail,
        }
    }
}

/// A page of claims, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimPage {
    /// The claims.
    pub claims: Vec<ListedClaim>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
