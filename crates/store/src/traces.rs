//! What the spans of runs are made of. docs/adr/0030 has the reasons.
//!
//! A run that is recorded has a row in `open_traces` from its submit until its spans were sent. So a server that dies
//! before it has sent them leaves a note to the others.

use async_trait::async_trait;
use baton_core::trace::RunTrace;
use baton_core::{Epoch, Millis, Reason, RunId, State, StepKind, StepState};

use crate::{Attempt, LaneId, StoreResult};

/// What the spans of a run say, but for its earlier leases and its steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceFacts {
    /// The run.
    pub run: RunId,
    /// Its trace.
    pub trace: RunTrace,
    /// Leases up to this number were sent.
    pub told: u32,
    /// Its lane.
    pub lane: LaneId,
    /// It is a workflow.
    pub is_workflow: bool,
    /// Its priority.
    pub priority: u8,
    /// When it was submitted.
    pub submitted_at: Millis,
    /// When it was due at first.
    pub due_at: Millis,
    /// The run it repeats, if any.
    pub retry_of: Option<RunId>,
    /// Where it stands.
    pub state: State,
    /// The epoch of its newest claim.
    pub epoch: Epoch,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Why it failed or was cancelled.
    pub reason: Option<Reason>,
    /// What was said at its end.
    pub error: Option<String>,
    /// The lease that it ended with, if somebody held it.
    pub last: Option<Attempt>,
}

/// What a workflow waited for: a sleep, a signal or a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Where.
    pub position: u32,
    /// What kind.
    pub kind: StepKind,
    /// How far it is.
    pub state: StepState,
    /// The name that was given.
    pub name: String,
    /// When it began.
    pub begun_at: Millis,
    /// When it was over.
    pub ended_at: Option<Millis>,
    /// The run of the child.
    pub child: Option<RunId>,
    /// What the child said when it failed.
    pub error: Option<String>,
}

/// A page of runs whose spans are still to be sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenTraces {
    /// Those that ended long enough ago.
    pub ended: Vec<RunId>,
    /// The last of the page, if there may be more.
    pub next: Option<RunId>,
}

/// The verbs of traces. Every [`crate::Store`] has them.
#[async_trait]
pub trait Traces: Send + Sync {
    /// What the spans of these runs say; nothing of runs whose spans are not to be sent.
    async fn trace_facts(&self, runs: &[RunId]) -> StoreResult<Vec<TraceFacts>>;
    /// What a workflow waited for, in order; at most `limit`.
    async fn pauses(&self, run: RunId, limit: usize) -> StoreResult<Vec<Pause>>;
    /// The spans of leases up to these numbers were sent.
    async fn tell_traces(&self, told: Vec<(RunId, u32)>) -> StoreResult<()>;
    /// All spans of these runs were sent, or never will be.
    async fn close_traces(&self, runs: Vec<RunId>) -> StoreResult<()>;
    /// Runs beyond `after` whose spans are still to be sent although they ended `age_ms` ago. Looks at `limit` runs.
    async fn open_traces(&self, after: Option<RunId>, age_ms: Millis, limit: usize) -> StoreResult<OpenTraces>;
    /// The trace that a run is part of.
    async fn run_trace(&self, run: RunId) -> StoreResult<Option<RunTrace>>;
}

/// The page that these runs make; `ended_by` is the moment that they must have ended by.
pub(crate) fn page(found: Vec<(RunId, Option<Millis>)>, ended_by: Millis, limit: usize) -> OpenTraces {
    let next = found.last().filter(|_| found.len() >= limit).map(|(run, _)| *run);
    let has_ended = |at: &Option<Millis>| at.is_some_and(|at| at <= ended_by);
    OpenTraces { ended: found.into_iter().filter(|(_, at)| has_ended(at)).map(|(run, _)| run).collect(), next }
}
