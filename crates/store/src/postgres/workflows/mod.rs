//! The verbs of workflows. Whatever is not the usual case is decided under the lock of the run's live row, as with all other verbs;
//! live rows come first, and are locked in the order of their identifiers.

mod children;
mod continued;
mod inbox;
mod memory;
mod pass;
mod read;
mod steps;
mod suspend;

use async_trait::async_trait;
use baton_core::{Millis, RunId};
use bytes::Bytes;

use super::PostgresStore;
use super::pool::retried;
use crate::decide::Act;
use crate::{
    Changes, ChildAnswer, ContinueAnswer, Delivered, Journal, LaneId, LeaseRef, Message, MessageAnswer, NewChild,
    NewMessage, NewRun, Page, Relations, RunRecord, Step, StepAnswer, StepAttempt, StepOutline, StepWrite, StoreResult,
    Submitted, SuspendAnswer, Suspension, Verdict, Waits, Woken, Workflows,
};

#[async_trait]
impl Workflows for PostgresStore {
    async fn write_steps(&self, writes: Vec<StepWrite>) -> StoreResult<Vec<StepAnswer>> {
        self.database.within(self.remember_all(writes)).await
    }

    async fn suspend(&self, suspensions: Vec<Suspension>) -> StoreResult<(Vec<SuspendAnswer>, Woken)> {
        self.database.again(|| async { retried!(self.suspend_runs(&suspensions)) }).await
    }

    async fn start_children(&self, children: Vec<NewChild>) -> StoreResult<Vec<ChildAnswer>> {
        self.database.within(async { retried!(self.take_children(&children)) }).await
    }

    async fn publish(&self, published: Vec<(LeaseRef, Bytes)>) -> StoreResult<Vec<Verdict>> {
        self.database.again(|| async { retried!(self.write_published(&published)) }).await
    }

    async fn cancelled(&self, leases: Vec<(LeaseRef, String)>) -> StoreResult<Changes> {
        let acts: Vec<_> = leases.iter().map(|(lease, words)| (*lease, Act::Cancelled(words))).collect();
        self.database.again(|| async { retried!(self.act_all(&acts, 0.0)) }).await
    }

    async fn continue_as_new(&self, lease: LeaseRef, next: NewRun, die: u64) -> StoreResult<ContinueAnswer> {
        let next = NewRun { idempotency: None, ..next };
        self.database.within(async { retried!(self.go_on(lease, &next, die)) }).await
    }

    async fn leave_messages(&self, messages: Vec<NewMessage>) -> StoreResult<(Vec<MessageAnswer>, Woken)> {
        self.database.within(async { retried!(self.write_messages(&messages)) }).await
    }

    async fn set_deadlines(&self, deadlines: Vec<(RunId, Millis, bool)>) -> StoreResult<()> {
        self.database.within(async { retried!(self.write_deadlines(&deadlines)) }).await
    }

    async fn retry_from(&self, from: RunId, run: NewRun, die: u64) -> StoreResult<Submitted> {
        self.database.within(async { retried!(self.take_again(from, &run, die)) }).await
    }

    async fn mark_workflow_lanes(&self, lanes: &[LaneId]) -> StoreResult<()> {
        self.database.again(|| async { retried!(self.note_workflow_lanes(lanes)) }).await
    }

    async fn workflow_lanes(&self) -> StoreResult<Vec<LaneId>> {
        self.database.again(|| self.list_workflow_lanes()).await
    }

    async fn deliver(&self, grace_ms: Millis, limit: usize) -> StoreResult<Delivered> {
        self.database.within(async { retried!(self.deliver_ends(grace_ms, limit)) }).await
    }

    async fn end_overdue(&self, limit: usize) -> StoreResult<Delivered> {
        self.database.within(async { retried!(self.end_overdue_runs(limit)) }).await
    }

    async fn journals(&self, runs: &[RunId], bytes_max: u64) -> StoreResult<Vec<Journal>> {
        self.database.again(|| self.list_journals(runs, bytes_max)).await
    }

    async fn messages(&self, run: RunId, seen: i64) -> StoreResult<Vec<Message>> {
        self.database.again(|| self.list_messages(run, seen)).await
    }

    async fn steps(&self, run: RunId, page: Page<u32>) -> StoreResult<Vec<Step>> {
        self.database.again(|| self.list_steps(run, page)).await
    }

    async fn step_outlines(&self, run: RunId, page: Page<u32>) -> StoreResult<Vec<StepOutline>> {
        self.database.again(|| self.list_step_outlines(run, page)).await
    }

    async fn step_attempts(
        &self,
        run: RunId,
        position: Option<u32>,
        page: Page<(u32, u32)>,
    ) -> StoreResult<Vec<StepAttempt>> {
        self.database.again(|| self.list_step_attempts(run, position, page)).await
    }

    async fn waits(&self, run: RunId, limit: usize) -> StoreResult<Waits> {
        self.database.again(|| self.list_waits(run, limit)).await
    }

    async fn is_undone(&self, run: RunId) -> StoreResult<bool> {
        self.database.again(|| self.read_undone(run)).await
    }

    async fn published(&self, run: RunId) -> StoreResult<Option<(Bytes, Millis)>> {
        self.database.again(|| self.read_published(run)).await
    }

    async fn workflows(&self, runs: &[RunId]) -> StoreResult<Vec<Option<(RunRecord, Relations)>>> {
        self.database.again(|| self.read_workflows(runs)).await
    }

    async fn relations(&self, runs: &[RunId]) -> StoreResult<Vec<Relations>> {
        self.database.again(|| self.find_relations(runs)).await
    }
}
