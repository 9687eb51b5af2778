//! The verbs of workflows, each sent to the thread that does it.

mod children;
mod continued;
mod inbox;
mod pass;
mod read;
mod steps;
mod suspend;

use async_trait::async_trait;
use baton_core::{Millis, RunId};
use bytes::Bytes;
use rusqlite::params;

use super::connection::Sql;
use super::{SqliteStore, end, statements};
use crate::decide::Act;
use crate::{
    Changes, ChildAnswer, ContinueAnswer, Delivered, Journal, LaneId, LeaseRef, Message, MessageAnswer, NewChild,
    NewMessage, NewRun, Page, Relations, RunRecord, Step, StepAnswer, StepAttempt, StepOutline, StepWrite, StoreResult,
    Submitted, SuspendAnswer, Suspension, Verdict, Waits, Woken, Workflows,
};

/// Deletes what a workflow has besides its run.
pub(super) fn delete(sql: &Sql<'_>, run: RunId) -> StoreResult<()> {
    for text in [
        statements::DELETE_STEPS,
        statements::DELETE_STEP_ATTEMPTS,
        statements::DELETE_INBOX,
        statements::DELETE_PUBLISHED,
        statements::DELETE_OUTBOX,
        statements::DELETE_DEADLINE,
        statements::DELETE_CONTINUED,
        statements::DELETE_RELATIVES,
    ] {
        sql.execute(text, params![run.0.as_bytes()])?;
    }
    Ok(())
}

#[async_trait]
impl Workflows for SqliteStore {
    async fn write_steps(&self, writes: Vec<StepWrite>) -> StoreResult<Vec<StepAnswer>> {
        self.write(move |sql| steps::write(sql, &writes)).await
    }

    async fn suspend(&self, suspensions: Vec<Suspension>) -> StoreResult<(Vec<SuspendAnswer>, Woken)> {
        self.write(move |sql| suspend::suspend(sql, &suspensions)).await
    }

    async fn start_children(&self, children: Vec<NewChild>) -> StoreResult<Vec<ChildAnswer>> {
        self.write(move |sql| children::start(sql, children)).await
    }

    async fn publish(&self, published: Vec<(LeaseRef, Bytes)>) -> StoreResult<Vec<Verdict>> {
        self.write(move |sql| steps::publish(sql, &published)).await
    }

    async fn cancelled(&self, leases: Vec<(LeaseRef, String)>) -> StoreResult<Changes> {
        self.write(move |sql| {
            end::changes(sql, 0.0, leases.iter().map(|(lease, words)| (Act::Cancelled(words), *lease)))
        })
        .await
    }

    async fn continue_as_new(&self, lease: LeaseRef, next: NewRun, die: u64) -> StoreResult<ContinueAnswer> {
        self.write(move |sql| continued::continue_as_new(sql, lease, next, die)).await
    }

    async fn leave_messages(&self, messages: Vec<NewMessage>) -> StoreResult<(Vec<MessageAnswer>, Woken)> {
        self.write(move |sql| inbox::leave(sql, &messages)).await
    }

    async fn set_deadlines(&self, deadlines: Vec<(RunId, Millis, bool)>) -> StoreResult<()> {
        self.write(move |sql| {
            deadlines.iter().try_for_each(|(run, after_ms, cancels)| pass::set_deadline(sql, *run, *after_ms, *cancels))
        })
        .await
    }

    async fn retry_from(&self, from: RunId, run: NewRun, die: u64) -> StoreResult<Submitted> {
        self.write(move |sql| {
            let submitted = children::take_once(sql, run, die)?;
            if !submitted.is_new {
                return Ok(submitted);
            }
            let to = submitted.run.0.as_bytes();
            sql.execute(statements::COPY_STEPS, params![from.0.as_bytes(), to])?;
            sql.execute(statements::SET_REMEMBERS, params![to])?;
            Ok(submitted)
        })
        .await
    }

    async fn mark_workflow_lanes(&self, lanes: &[LaneId]) -> StoreResult<()> {
        let lanes = lanes.to_vec();
        self.write(move |sql| {
            lanes.iter().try_for_each(|lane| sql.execute(statements::MARK_WORKFLOW_LANE, params![lane]).map(drop))
        })
        .await
    }

    async fn workflow_lanes(&self) -> StoreResult<Vec<LaneId>> {
        self.read(|sql| sql.rows(statements::LIST_WORKFLOW_LANES, [], |row| row.get(0))).await
    }

    async fn deliver(&self, grace_ms: Millis, limit: usize) -> StoreResult<Delivered> {
        // Read beside the writer first: nearly always there is nothing to do.
        if self.read(|sql| pass::outbox(sql, 1)).await?.is_empty() {
            return Ok(Delivered::default());
        }
        self.write(move |sql| pass::deliver(sql, grace_ms, limit)).await
    }

    async fn end_overdue(&self, limit: usize) -> StoreResult<Delivered> {
        if self.read(|sql| pass::overdue(sql, 1)).await?.is_empty() {
            return Ok(Delivered::default());
        }
        self.write(move |sql| pass::end_overdue(sql, limit)).await
    }

    async fn journals(&self, runs: &[RunId], bytes_max: u64) -> StoreResult<Vec<Journal>> {
        let runs = runs.to_vec();
        self.read(move |sql| read::journals(sql, &runs, bytes_max)).await
    }

    async fn messages(&self, run: RunId, seen: i64) -> StoreResult<Vec<Message>> {
        self.read(move |sql| inbox::messages(sql, run, seen)).await
    }

    async fn steps(&self, run: RunId, page: Page<u32>) -> StoreResult<Vec<Step>> {
        self.read(move |sql| read::steps(sql, run, page)).await
    }

    async fn step_outlines(&self, run: RunId, page: Page<u32>) -> StoreResult<Vec<StepOutline>> {
        self.read(move |sql| read::outlines(sql, run, page)).await
    }

    async fn step_attempts(
        &self,
        run: RunId,
        position: Option<u32>,
        page: Page<(u32, u32)>,
    ) -> StoreResult<Vec<StepAttempt>> {
        self.read(move |sql| read::attempts(sql, run, position, page)).await
    }

    async fn waits(&self, run: RunId, limit: usize) -> StoreResult<Waits> {
        self.read(move |sql| read::waits(sql, run, limit)).await
    }

    async fn is_undone(&self, run: RunId) -> StoreResult<bool> {
        self.read(move |sql| sql.one(statements::READ_UNDONE, params![run.0.as_bytes()], |row| row.get(0))).await
    }

    async fn published(&self, run: RunId) -> StoreResult<Option<(Bytes, Millis)>> {
        self.read(move |sql| read::published(sql, run)).await
    }

    async fn workflows(&self, runs: &[RunId]) -> StoreResult<Vec<Option<(RunRecord, Relations)>>> {
        let runs = runs.to_vec();
        self.read(move |sql| runs.iter().map(|run| read::workflow(sql, *run)).collect()).await
    }

    async fn relations(&self, runs: &[RunId]) -> StoreResult<Vec<Relations>> {
        let runs = runs.to_vec();
        self.read(move |sql| runs.iter().map(|run| read::relations(sql, *run)).collect()).await
    }
}
