//! The worker's side: registering, claiming, reporting.

use std::collections::BTreeMap;

use baton_core::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Time, namespace_default};

/// What a worker says when it registers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisterWorker {
    /// Namespace it works in.
    #[serde(default = "namespace_default")]
    pub namespace: String,
    /// Its name; survives restarts. The host name unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Queues it serves; `default` unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Types it can do. Not empty.
    pub types: Vec<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Runs it can hold at once; 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// Chosen by the worker for this start of it: repeating the call with the same value gives the same worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// A registered worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisteredWorker {
    /// Names this incarnation in every further call.
    pub worker_id: String,
    /// Send a heartbeat this often.
    pub heartbeat_interval_ms: u64,
    /// Without one for this long the worker's runs are handed to others.
    pub lease_ttl_ms: u64,
    /// How long a heartbeat may wait for news (`wait_ms`); 0 when it may not.
    #[serde(default)]
    pub heartbeat_wait_ms: u64,
}

/// A lease on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeaseOf {
    /// The run.
    pub run_id: String,
    /// The lease, as the claim gave it.
    pub lease: String,
    /// The worker knows that it is lost or cancelled and is about to stop: no reason to answer a heartbeat that waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
}

/// What a worker measured on its machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HealthReport {
    /// Share of the processors in use, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Share of the memory in use, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// Bytes free on the disk it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
}

/// A sign of life. Renews all of the worker's leases.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Heartbeat {
    /// Leases the worker believes to hold; the answer says which it does not. Naming one also marks its run as started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<LeaseOf>,
    /// `leases` are all the worker knows of. What else it holds for longer than a lease lives is put back: the answer that
    /// brought it was lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// What it measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthReport>,
    /// Why the worker itself wants no new work for now. It is over when `health` comes without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// Wait up to this long for news of the leases before answering: that one is lost or to be cancelled, or that the worker should drain. The
    /// leases are renewed at once. At most what the registration allowed; 0 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HeartbeatAnswer {
    /// `ONLINE` or `DRAINING`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::WorkerStatus))]
    pub status: String,
    /// Take no new work, finish what you hold, then deregister.
    pub should_drain: bool,
    /// Until when the worker's leases live now.
    pub lease_until: Time,
    /// Runs among those named that are no longer the worker's: stop working on them.
    pub lost: Vec<String>,
    /// Runs the worker holds that somebody wants cancelled: stop, then fail or give them back.
    pub cancelling: Vec<String>,
    /// Why the worker gets no new work, if its health is under a floor or it wants none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
}

/// A request for work. Waits until there is some, or `wait_ms` have passed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Claim {
    /// One of the worker's queues; the first unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Some of the worker's types; all unless given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Most runs to take; 1 unless given, 1,000 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// How long to wait for work; 0 unless given, 60,000 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// The worker's own number for this claim, growing by one. Repeating a number after a lost answer gives the
    /// same runs again. Without it, runs that are assigned and not started come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_no: Option<u64>,
    /// Mark the runs as started at once. Needs `claim_no`.
    pub start: bool,
}

/// A run in the hands of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimedRun {
    /// The run.
    pub run_id: String,
    /// Proves the claim; every write for the run carries it.
    pub lease: String,
    /// Its epoch.
    pub epoch: u32,
    /// Its queue.
    pub queue: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Its priority.
    pub priority: u8,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When this attempt times out, if it has a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_at: Option<Time>,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where this attempt stands in the run's trace (W3C Trace Context): whatever the worker calls is a child of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What other systems keep with the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// What was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<serde_json::Value>))]
    pub input: Option<Box<RawValue>>,
}

/// The answer to a claim; no runs when the wait was over first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimedRuns {
    /// The runs.
    pub runs: Vec<ClaimedRun>,
}

/// The work has begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StartRun {
    /// The run: in batches only; otherwise it is in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The lease.
    pub lease: String,
}

/// The work is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CompleteRun {
    /// The run: in batches only; otherwise it is in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The lease.
    pub lease: String,
    /// What came out, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<serde_json::Value>))]
    pub output: Option<Box<RawValue>>,
}

/// The attempt failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FailRun {
    /// The run: in batches only; otherwise it is in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The lease.
    pub lease: String,
    /// What went wrong, for people.
    pub error: String,
    /// A short word for the kind of error; a retry policy may list it as not retryable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// False: do not try again, whatever the policy says. True unless given.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// True: the input is wrong and nobody should try.
    #[serde(default)]
    pub rejected: bool,
    /// Do not try again before this long from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The worker cannot go on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GiveBackRun {
    /// The run: in batches only; otherwise it is in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The lease.
    pub lease: String,
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
}

/// The run waits without a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SleepRun {
    /// The lease.
    pub lease: String,
    /// For this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Until this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

fn yes() -> bool {
    true
}

/// Several reports in one call. Each is carried out or refused on its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Batch<T> {
    /// At most 10,000, each with its `run_id`.
    pub runs: Vec<T>,
}

/// What became of one report of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Outcome {
    /// The run.
    pub run_id: String,
    /// Its state now, when the report was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::State>))]
    pub state: Option<State>,
    /// Why it was refused, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it was refused, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// What became of a batch, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Outcomes {
    /// One for each report.
    pub runs: Vec<Outcome>,
}

/// The answer to a deregistration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Deregistered {
    /// Runs that were given back.
    pub given_back: u64,
}
