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

mod agent;
mod claim;
mod runner;

use std::collections::BTreeMap;

use baton_core::pools::Usage;
use baton_core::pools::spec::MinIdleRule;
use serde::{Deserialize, Serialize};

use crate::{Time, namespace_default};

pub use agent::*;
pub use claim::*;
pub use runner::*;

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
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::MachineUsage>))]
    pub usage: Option<Usage>,
    /// Whether it may have on-demand machines while there are no spot machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spot_fallback: bool,
    /// How many machines wait for claims at any time, at least. 0 unless given.
    #[serde(default)]
    pub min_idle: u32,
    /// More at other times: `[{"cron": "0 8 * * 1-5", "zone": "Europe/Berlin", "min_idle": 10}]`.
    /// The rule that fired last counts; one that asks for fewer than `min_idle` is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<crate::words::MinIdleRule>))]
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
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::MachineUsage>))]
    pub usage: Option<Usage>,
    /// Whether it may have on-demand machines while there are no spot machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_fallback: Option<bool>,
    /// How many machines wait for claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_idle: Option<u32>,
    /// Other numbers at other times; all of the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<crate::words::MinIdleRule>>))]
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
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::MachineUsage))]
    pub usage: Usage,
    /// Whether it may have on-demand machines while there are no spot machines.
    pub spot_fallback: bool,
    /// How many machines wait for claims, unless a rule says otherwise.
    pub min_idle: u32,
    /// Other numbers at other times.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<crate::words::MinIdleRule>))]
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
