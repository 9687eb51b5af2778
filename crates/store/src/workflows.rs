//! What workflows need besides their runs: a memory of positions, an inbox, relatives and deadlines. docs/adr/0012 has the reasons.
//!
//! A workflow is a run; its states, leases and order are the kernel's. Writes of a worker carry its lease and are refused when that
//! is not the live one.

use async_trait::async_trait;
use baton_core::{Millis, RunId};
use bytes::Bytes;

use crate::{
    Changes, ChildAnswer, ContinueAnswer, Delivered, Journal, LaneId, LeaseRef, Message, MessageAnswer, NewChild,
    NewMessage, NewRun, Page, Relations, RunRecord, Step, StepAnswer, StepAttempt, StepOutline, StepWrite, StoreResult,
    Submitted, SuspendAnswer, Suspension, Verdict, Waits, Woken,
};

/// The verbs of workflows. Every [`crate::Store`] has them.
#[async_trait]
pub trait Workflows: Send + Sync {
    // ---- under a lease

    /// Writes at positions, in order; several of one batch may be of one run. The first write of an attempt also starts the run.
    async fn write_steps(&self, writes: Vec<StepWrite>) -> StoreResult<Vec<StepAnswer>>;
    /// Lets runs sleep until something happens, unless it has happened already.
    async fn suspend(&self, suspensions: Vec<Suspension>) -> StoreResult<(Vec<SuspendAnswer>, Woken)>;
    /// Starts children. Whom to wake is the caller's to see, as with [`crate::Store::submit`].
    async fn start_children(&self, children: Vec<NewChild>) -> StoreResult<Vec<ChildAnswer>>;
    /// Keeps what a workflow shows to those who ask; the last one counts.
    async fn publish(&self, published: Vec<(LeaseRef, Bytes)>) -> StoreResult<Vec<Verdict>>;
    /// Ends runs whose workflows have heard that they are cancelled: cancelled, with these words.
    async fn cancelled(&self, leases: Vec<(LeaseRef, String)>) -> StoreResult<Changes>;
    /// Completes a run and submits the one that goes on in its place, with its parent, its deadline and the signals nobody has taken.
    async fn continue_as_new(&self, lease: LeaseRef, next: NewRun, die: u64) -> StoreResult<ContinueAnswer>;

    // ---- from outside

    /// Leaves messages, and wakes runs that sleep.
    async fn leave_messages(&self, messages: Vec<NewMessage>) -> StoreResult<(Vec<MessageAnswer>, Woken)>;
    /// Ends runs that have not ended `after_ms` from now: as cancelled, or as failed with the reason timeout. Of two deadlines of a run the
    /// earlier one counts.
    async fn set_deadlines(&self, deadlines: Vec<(RunId, Millis, bool)>) -> StoreResult<()>;
    /// Submits a run that goes on after what another has completed, in one transaction: nobody gets it without that. Its first lease has the
    /// epoch 2, as that of a run that was held before. With the same idempotency key, again gives the run that was made the first time.
    async fn retry_from(&self, from: RunId, run: NewRun, die: u64) -> StoreResult<Submitted>;
    /// Says that runs of these lanes are workflows; forever.
    async fn mark_workflow_lanes(&self, lanes: &[LaneId]) -> StoreResult<()>;

    // ---- passes

    /// Passes on the ends of children to their parents, and those of parents to their children (they are cancelled; who is held has
    /// `grace_ms`, as everywhere).
    async fn deliver(&self, grace_ms: Millis, limit: usize) -> StoreResult<Delivered>;
    /// Ends runs whose deadline has passed.
    async fn end_overdue(&self, limit: usize) -> StoreResult<Delivered>;

    // ---- reading

    /// The journals of runs, in the order asked for. Empty for those that have none. They end before the one with which their steps
    /// would have more than `bytes_max` bytes together, as that one's may be as large as nobody has memory for, or be more than
    /// [`crate::STEPS_AT_ONCE`].
    async fn journals(&self, runs: &[RunId], bytes_max: u64) -> StoreResult<Vec<Journal>>;
    /// Messages beyond `seen`, at most [`crate::MESSAGES_AT_ONCE`] and [`crate::MESSAGE_BYTES_AT_ONCE`].
    async fn messages(&self, run: RunId, seen: i64) -> StoreResult<Vec<Message>>;
    /// Everything remembered of a run, by position.
    async fn steps(&self, run: RunId, page: Page<u32>) -> StoreResult<Vec<Step>>;
    /// As [`Workflows::steps`], without what came out: cheap also where there are many.
    async fn step_outlines(&self, run: RunId, page: Page<u32>) -> StoreResult<Vec<StepOutline>>;
    /// Attempts of a run's steps (or of one step), by position and attempt.
    async fn step_attempts(
        &self,
        run: RunId,
        position: Option<u32>,
        page: Page<(u32, u32)>,
    ) -> StoreResult<Vec<StepAttempt>>;
    /// What a workflow waits for; of each kind at most `limit`.
    async fn waits(&self, run: RunId, limit: usize) -> StoreResult<Waits>;
    /// Whether somebody began to undo what the run did: it has steps whose names begin with `undo `.
    async fn is_undone(&self, run: RunId) -> StoreResult<bool>;
    /// What was published last, and when.
    async fn published(&self, run: RunId) -> StoreResult<Option<(Bytes, Millis)>>;
    /// Runs with their inputs, outputs and relatives, in the order asked for.
    async fn workflows(&self, runs: &[RunId]) -> StoreResult<Vec<Option<(RunRecord, Relations)>>>;
    /// The lanes whose runs are workflows.
    async fn workflow_lanes(&self) -> StoreResult<Vec<LaneId>>;
    /// Relatives of runs, in the order asked for.
    async fn relations(&self, runs: &[RunId]) -> StoreResult<Vec<Relations>>;
}
