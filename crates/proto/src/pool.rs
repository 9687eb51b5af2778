//! Runner pools: what is said about pools, claims and runners, and what the agent of a runner says and hears.
//!
//! For people and their programs, with an API key; `namespace` is `default` unless given:
//!
//! | route | takes | answers | scope |
//! | --- | --- | --- | --- |
//! | `POST /api/v1/pools` | [`CreatePool`] | 201 [`PoolView`] | admin |
//! | `GET /api/v1/pools?namespace&limit&cursor` | | [`PoolPage`] | read |
//! | `GET /api/v1/pools/{pool}?namespace` | | [`PoolView`] | read |
//! | `PATCH /api/v1/pools/{pool}?namespace` | [`ChangePool`] | [`PoolView`] | admin |
//! | `DELETE /api/v1/pools/{pool}?namespace` | | [`PoolView`] | admin |
//! | `POST /api/v1/pools/{pool}/claims?namespace` | [`OpenClaim`] | 201 (200 when it is known) [`ClaimView`] | submit |
//! | `GET /api/v1/pools/{pool}/claims?namespace&state&limit&cursor` | | [`ClaimPage`] | read |
//! | `GET /api/v1/pools/{pool}/claims/{run_id}?namespace&wait_ms` | | [`ClaimView`] | read |
//! | `DELETE /api/v1/pools/{pool}/claims/{run_id}?namespace` | | [`ClaimView`] | submit |
//! | `GET /api/v1/pools/{pool}/runners?namespace&state&limit&cursor` | | [`RunnerPage`] | read |
//! | `GET /api/v1/pools/{pool}/runners/{id}?namespace` | | [`RunnerView`] | read |
//! | `DELETE /api/v1/pools/{pool}/runners/{id}?namespace` | | [`RunnerView`] | admin |
//!
//! For agents. The first call carries the join token, all others the token that it answers with, as `Authorization: Bearer`:
//!
//! | route | takes | answers |
//! | --- | --- | --- |
//! | `POST /api/v1/runners/join` | [`JoinRunner`] | [`JoinedRunner`] |
//! | `POST /api/v1/runners/{id}/heartbeat` | nothing | [`RunnerOrder`] |
//! | `GET /api/v1/runners/{id}/next?after&wait_ms` | | [`RunnerOrder`] |
//! | `POST /api/v1/runners/{id}/signals` | [`SignalRunner`] | [`SignalledRunner`] |
//! | `POST /api/v1/runners/{id}/registration` | [`RegisterRunner`] | [`RunnerRegistration`] |
//! | `DELETE /api/v1/runners/{id}/registration` | nothing | 204 |
//!
//! A provider that starts agents gives them, in their environment: `BATON_URL`, `BATON_JOIN_TOKEN`, `BATON_MACHINE_ID`, `BATON_NAMESPACE`,
//! `BATON_POOL`, and what the pool's options say with the prefix `agent.`: the option `agent.register_hook` becomes `BATON_AGENT_REGISTER_HOOK`. Those of a pool
//! that registers at GitHub get `BATON_AGENT_HOOK=github`.

use std::collections::BTreeMap;

use baton_core::pools::spec::MinIdleRule;
use baton_core::pools::{Cause, ClaimReason, ClaimState, RunnerState, Signal, Usage};
use serde::{Deserialize, Serialize};

use crate::{Time, namespace_default};

/// Longest time that one call may wait for a claim or for an agent's next order. Whoever wants to wait longer asks again.
pub const POOL_WAIT_MS_MAX: u64 = 60_000;

/// A pool to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreatePool {
    /// Its namespace; the API key must be good for it.
    #[serde(default = "namespace_default")]
    pub namespace: String,
    /// Chosen by whoever makes it; unique in its namespace.
    pub name: String,
    /// Who makes its machines: `local` (unless given), `command` or `ec2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What that provider needs to know, and with the prefix `agent.` what its agents need to know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Cores of each machine, exactly. 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory of each machine, at least. 1024 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Types of machines it may use, as patterns with `*` and `?`. None: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// How its machines are paid for: `on_demand` (unless given) or `spot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub usage: Option<Usage>,
    /// Whether it may have on-demand machines while there are no spot machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spot_fallback: bool,
    /// How many machines wait for claims, unless a rule says otherwise. 0 unless given.
    #[serde(default)]
    pub min_idle: u32,
    /// Other numbers at other times: `[{"cron": "0 8 * * 1-5", "zone": "Europe/Berlin", "min_idle": 10}]`. The rule that fired last counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub min_idle_rules: Vec<MinIdleRule>,
    /// Most machines, those included that are being ended. 10 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
    /// How long a machine that is not needed stays idle. Half an hour unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// How long a claim may keep machines. Six hours unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_ms: Option<u64>,
}

impl CreatePool {
    /// A pool of the namespace `default` and the provider `local`, with everything else left at its default.
    pub fn new(name: impl Into<String>) -> CreatePool {
        CreatePool {
            namespace: namespace_default(),
            name: name.into(),
            provider: None,
            options: BTreeMap::new(),
            cpu: None,
            memory_mib: None,
            types: Vec::new(),
            usage: None,
            spot_fallback: false,
            min_idle: 0,
            min_idle_rules: Vec::new(),
            max_size: None,
            idle_ms: None,
            runtime_ms: None,
        }
    }
}

/// A change of a pool. What is left out stays as it is; what is there replaces what was, lists and `options` as a whole. Machines that are there already keep what they were made with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangePool {
    /// Refused with `conflict` unless the pool still has this revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// What the provider and the agents need to know; all of it: an option that is left out here is gone. Whoever means to change one reads the
    /// pool, and sends all options back with its `revision`; `***` stands for the value that a secret has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
    /// Types of machines it may use; all of the patterns. An empty list: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// How its machines are paid for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub usage: Option<Usage>,
    /// Whether it may have on-demand machines while there are no spot machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_fallback: Option<bool>,
    /// How many machines wait for claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_idle: Option<u32>,
    /// Other numbers at other times; all of the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<Object>>))]
    pub min_idle_rules: Option<Vec<MinIdleRule>>,
    /// Most machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
    /// How long a machine that is not needed stays idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// How long a claim may keep machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_ms: Option<u64>,
}

/// A pool as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PoolView {
    /// Unique in its namespace.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Who makes its machines.
    pub provider: String,
    /// What the provider and the agents need to know. Values of options whose name says that they are secret are shown as `***`.
    pub options: BTreeMap<String, String>,
    /// Cores of each machine.
    pub cpu: u32,
    /// Memory of each machine, at least.
    pub memory_mib: u64,
    /// Types of machines it may use; empty: any.
    pub types: Vec<String>,
    /// How its machines are paid for.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub usage: Usage,
    /// Whether it may have on-demand machines while there are no spot machines.
    pub spot_fallback: bool,
    /// How many machines wait for claims, unless a rule says otherwise.
    pub min_idle: u32,
    /// Other numbers at other times.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub min_idle_rules: Vec<MinIdleRule>,
    /// How many machines are to be idle now, by those rules.
    pub min_idle_now: u32,
    /// Most machines.
    pub max_size: u32,
    /// How long a machine that is not needed stays idle.
    pub idle_ms: u64,
    /// How long a claim may keep machines.
    pub runtime_ms: u64,
    /// Grows with every change.
    pub revision: i64,
    /// When it was made.
    pub created_at: Time,
    /// It is being deleted: it takes no claims, and goes when its last runner has.
    pub deleting: bool,
    /// Runners by state; states that no runner is in are there with 0, `gone` is not.
    pub runners: BTreeMap<String, u64>,
    /// Claims that wait.
    pub waiting_claims: u64,
    /// No machine is asked for before this moment, because the provider has refused, or because the last machines came to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_after: Option<Time>,
    /// What the provider said when it last refused, until it creates again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Numbers since it was made; only where one pool is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<PoolStatistics>,
}

/// Numbers about a pool since it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PoolStatistics {
    /// Runners handed over that were ordered before their claim was opened.
    pub warm_hits: u64,
    /// Runners handed over that were ordered after it.
    pub cold_hits: u64,
    /// Half of the last 1,000 filled claims waited at most so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<u64>,
    /// 99 of 100 waited at most so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p99_ms: Option<u64>,
    /// Runners that were ended, by cause.
    pub ended: BTreeMap<String, u64>,
    /// Claims that ended, by reason.
    pub claims_ended: BTreeMap<String, u64>,
    /// How long machines were idle, in all.
    pub idle_ms: u64,
    /// How long machines were handed over, in all.
    pub used_ms: u64,
    /// Machines that were asked for.
    pub ordered: u64,
    /// Orders that the provider refused.
    pub orders_failed: u64,
}

/// A page of pools, by namespace and name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PoolPage {
    /// The pools.
    pub pools: Vec<PoolView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

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
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
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
    #[cfg_attr(feature = "schema", schema(value_type = String))]
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
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
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
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub phase: ClaimPhase,
    /// The provider's word for its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How it is paid for.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
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
    #[cfg_attr(feature = "schema", schema(value_type = String))]
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
    #[cfg_attr(feature = "schema", schema(value_type = String))]
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
    /// Why it ended, as in [`ClaimView`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
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
    #[cfg_attr(feature = "schema", schema(value_type = String))]
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
    #[cfg_attr(feature = "schema", schema(value_type = String))]
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
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
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
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub from: Option<RunnerState>,
    /// To which; the same when it registered.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub to: RunnerState,
    /// Why it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
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

/// An agent on a new machine makes itself known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JoinRunner {
    /// The provider's name for the machine.
    pub machine_id: String,
    /// 32 hexadecimal digits that the agent made up when it first started, and keeps. Whoever joins again with the same ones gets the same
    /// token; with other ones it is refused, because jobs may read the start data of their machine.
    pub nonce: String,
}

/// An agent is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JoinedRunner {
    /// The identifier of its runner.
    pub runner_id: String,
    /// The token for all further calls.
    pub token: String,
    /// The pool.
    pub pool: String,
    /// Its namespace.
    pub namespace: String,
    /// How often to send a heartbeat.
    pub heartbeat_ms: u64,
    /// An agent that has not reached a server for this long ends its machine.
    pub abandon_ms: u64,
    /// What to do now.
    pub order: RunnerOrder,
}

/// What an agent is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerAction {
    /// Signal `UD_OK` once the machine is ready for claims.
    Start,
    /// Nothing: wait for a claim.
    Idle,
    /// Register for the run by the deadline, and signal `UD_REG_OK` or `UD_REG_FAILED`.
    Register,
    /// Stay registered for the run. The deadline, once there is one, is when the machine has to end.
    Keep,
    /// Deregister from the run by the deadline, clean up, and signal `UD_REMOVE_REG_OK` or `UD_REMOVE_REG_FAILED`.
    Deregister,
    /// End the machine.
    End,
}

/// What an agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunnerOrder {
    /// Stands for this order: passed as `after`, the answer waits until there is another.
    pub serial: String,
    /// `start`, `idle`, `register`, `keep`, `deregister` or `end`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub action: RunnerAction,
    /// Goes with every signal about this order. It grows whenever the runner changes hands.
    pub epoch: u32,
    /// The run, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// By when, by the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// How much time is left until then, for agents whose clock is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
}

/// A signal of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignalRunner {
    /// `UD_OK`, `UD_REG_OK`, `UD_REG_FAILED`, `UD_REMOVE_REG_OK` or `UD_REMOVE_REG_FAILED`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub signal: Signal,
    /// The epoch of the order that it is about.
    pub epoch: u32,
    /// The run that it is about; not with `UD_OK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// For people: why a hook failed. The first 16 KiB are kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What became of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignalledRunner {
    /// It counts, now or since it first came. Otherwise nothing has changed.
    pub counts: bool,
    /// Why it does not count, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What to do now.
    pub order: RunnerOrder,
}

/// The agent of a claimed machine wants to register it at GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisterRunner {
    /// The run that has claimed it. It becomes the runner's only label.
    pub run_id: String,
    /// The epoch of the order to register.
    pub epoch: u32,
}

/// What it takes to be a runner at GitHub. It is good once, and kept nowhere.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum RunnerRegistration {
    /// For `run.sh --jitconfig`.
    Jit {
        /// The runner's name at GitHub.
        name: String,
        /// The configuration, which has its credentials in it.
        config: String,
    },
    /// For `config.sh`.
    Token {
        /// The runner's name at GitHub.
        name: String,
        /// The repository or the organization.
        url: String,
        /// The registration token.
        token: String,
    },
}

// Whoever writes down what came over the wire does not write down credentials.
impl std::fmt::Debug for RunnerRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunnerRegistration::Jit { name, .. } => f.debug_struct("Jit").field("name", name).finish_non_exhaustive(),
            RunnerRegistration::Token { name, url, .. } => {
                f.debug_struct("Token").field("name", name).field("url", url).finish_non_exhaustive()
            }
        }
    }
}
