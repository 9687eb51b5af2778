//! Runs: submitting, reading, cancelling.

use baton_core::{Reason, RetryPolicy, State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Time, namespace_default, queue_default};

/// A run to be submitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SubmitRun {
    /// Namespace; the API key must be good for it.
    #[serde(default = "namespace_default")]
    pub namespace: String,
    /// Queue.
    #[serde(default = "queue_default")]
    pub queue: String,
    /// What kind of work this is; workers say which types they can do.
    #[serde(rename = "type")]
    pub kind: String,
    /// Anything the worker needs, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<serde_json::Value>))]
    pub input: Option<Box<RawValue>>,
    /// 0 to 9; 9 goes first. 5 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Not before this long from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Not before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    /// Runs with the same key take turns with other keys, and the queue may limit how many are live at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Runs with the same affinity key prefer the worker that last finished one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The same key with the same body gives the same run. The `Idempotency-Key` header does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// What happens after a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::RetryPolicy>))]
    pub retry: Option<RetryPolicy>,
    /// How many workers may be lost before the run is called poison. 3 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_losses: Option<u32>,
    /// How long one attempt may take, counted from its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The trace that the run is part of (W3C Trace Context); that of the request's header `traceparent` unless given. A
    /// wrong one is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What other systems keep with the trace (`tracestate`); at most 512 bytes are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl SubmitRun {
    /// A run of this type on this queue, with everything else left at its default.
    pub fn new(queue: impl Into<String>, kind: impl Into<String>) -> SubmitRun {
        SubmitRun {
            namespace: namespace_default(),
            queue: queue.into(),
            kind: kind.into(),
            input: None,
            priority: None,
            delay_ms: None,
            due_at: None,
            key: None,
            affinity: None,
            idempotency_key: None,
            retry: None,
            max_losses: None,
            timeout_ms: None,
            traceparent: None,
            tracestate: None,
        }
    }
}

/// Many runs in one call: all of them, or none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SubmitBatch {
    /// At most 10,000.
    pub runs: Vec<SubmitRun>,
}

/// A run that was taken in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SubmittedRun {
    /// Its identifier.
    pub id: String,
    /// `pending`, unless it was submitted before under the same idempotency key and has moved on.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::State))]
    pub state: State,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When it is due.
    pub due_at: Time,
    /// False when an earlier call with the same idempotency key made it.
    pub created: bool,
    /// The run it repeats, when it was made by a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
}

/// The answer to a batch submit, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SubmittedBatch {
    /// One for each run of the request.
    pub runs: Vec<SubmittedRun>,
}

/// A run as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunView {
    /// Its identifier.
    pub id: String,
    /// Its namespace.
    pub namespace: String,
    /// Its queue.
    pub queue: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `pending`, `assigned`, `running`, `sleeping`, `completed`, `failed` or `cancelled`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::State))]
    pub state: State,
    /// Why it failed or was cancelled: `error`, `worker_lost`, `timeout`, `rejected`, `cancelled` or `poison`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::FailureReason>))]
    pub reason: Option<Reason>,
    /// The last error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The fence: grows by one with every claim.
    pub epoch: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Workers it lost.
    pub losses: u32,
    /// 0 to 9; 9 goes first.
    pub priority: u8,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its affinity key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The run it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Who holds it, or held it at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When it is or was due.
    pub due_at: Time,
    /// When its worker claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Time>,
    /// When its worker began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Somebody asked to cancel it; its worker has until then to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_by: Option<Time>,
    /// The trace that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// What was submitted (not in lists).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<serde_json::Value>))]
    pub input: Option<Box<RawValue>>,
    /// What came out (not in lists).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<serde_json::Value>))]
    pub output: Option<Box<RawValue>>,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many there are in all, when asked for with `total=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// One thing that happened to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryEvent {
    /// When. For `cancel_by`, which is still to come, until when the worker has to stop.
    pub at: Time,
    /// `submitted`, `claimed`, `started`, `cancel_by` (somebody asked to cancel it while it is held), `lease_ended`,
    /// `write_refused` (a write showed a lease that was over), or the state it ended in.
    pub event: String,
    /// The epoch, for what happened under a lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// Who held it, or sent what was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// How the lease ended, why the run did, or what a write that was refused wanted to do (`complete`, `step`, ...).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What happened to a run, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct History {
    /// The events.
    pub events: Vec<HistoryEvent>,
}

/// The state of a run after a verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunState {
    /// The run.
    pub id: String,
    /// Its state now.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::State))]
    pub state: State,
    /// True when somebody asked to cancel it and its worker has not stopped yet.
    #[serde(default)]
    pub cancelling: bool,
}

/// Why a run is where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The run.
    pub id: String,
    /// Its state.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::State))]
    pub state: State,
    /// One sentence.
    pub summary: String,
    /// Everything that keeps it from running, most important first; empty for one that runs or has ended.
    pub reasons: Vec<WaitReason>,
    /// Runs that will be claimed before it (counting stops at 10,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// One reason why nobody has a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WaitReason {
    /// `due_later`, `message`, `queue_paused`, `no_worker`, `all_busy`, `key_limit`, `rate_limit` or `position`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::WaitCode))]
    pub code: String,
    /// For people.
    pub message: String,
}

/// Who holds a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Holder {
    /// The worker.
    pub worker_id: String,
    /// Its name.
    pub worker_name: String,
    /// The epoch of its lease.
    pub epoch: u32,
    /// Until when the lease lives unless it is renewed.
    pub lease_until: Time,
}
