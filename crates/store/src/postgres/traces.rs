//! What the spans of runs are made of.

use async_trait::async_trait;
use baton_core::trace::RunTrace;
use baton_core::{Millis, Reason, RunId, StepKind, StepState, WorkerId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, retried};
use super::{PostgresStore, rows, sql};
use crate::traces::page;
use crate::{Attempt, OpenTraces, Pause, Store, StoreResult, TraceFacts, Traces};

#[async_trait]
impl Traces for PostgresStore {
    async fn trace_facts(&self, runs: &[RunId]) -> StoreResult<Vec<TraceFacts>> {
        self.database.again(|| self.read_trace_facts(runs)).await
    }

    async fn pauses(&self, run: RunId, limit: usize) -> StoreResult<Vec<Pause>> {
        self.database.again(|| self.list_pauses(run, limit)).await
    }

    async fn tell_traces(&self, told: Vec<(RunId, u32)>) -> StoreResult<()> {
        let (runs, numbers): (Vec<Uuid>, Vec<i32>) = told.iter().map(|(run, number)| (run.0, *number as i32)).unzip();
        let params = params![runs, numbers];
        self.database.within(async { self.database.query(sql::TELL_TRACES, params).await.map(drop) }).await
    }

    async fn close_traces(&self, runs: Vec<RunId>) -> StoreResult<()> {
        let mut runs: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        runs.sort_unstable();
        let params = params![runs];
        self.database.within(async { self.database.query(sql::CLOSE_TRACES, params).await.map(drop) }).await
    }

    async fn open_traces(&self, after: Option<RunId>, age_ms: Millis, limit: usize) -> StoreResult<OpenTraces> {
        let now = Store::now(self).await?;
        self.database.again(|| self.list_open_traces(after, now.saturating_sub(age_ms), limit)).await
    }

    async fn run_trace(&self, run: RunId) -> StoreResult<Option<RunTrace>> {
        self.database.again(|| self.read_run_trace(run)).await
    }
}

impl PostgresStore {
    async fn read_trace_facts(&self, runs: &[RunId]) -> Outcome<Vec<TraceFacts>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let found = retried!(self.database.query_planned(sql::READ_TRACE_FACTS, params![ids], ids.len()))?;
        let mut all = Vec::with_capacity(found.len());
        for row in &found {
            all.extend(facts(row)?);
        }
        Ok(all)
    }

    async fn list_pauses(&self, run: RunId, limit: usize) -> Outcome<Vec<Pause>> {
        let limit = limit as i64;
        let mut pauses = Vec::new();
        for row in &self.database.query(sql::LIST_PAUSES, params![run.0, limit]).await? {
            let (kind, state) = (StepKind::from_code(row.try_get(1)?), StepState::from_code(row.try_get(2)?));
            pauses.push(Pause {
                position: row.try_get::<_, i32>(0)? as u32,
                kind: kind.ok_or_else(|| rows::corrupt("a kind of step"))?,
                state: state.ok_or_else(|| rows::corrupt("a state of a step"))?,
                name: row.try_get(3)?,
                begun_at: row.try_get(4)?,
                ended_at: row.try_get(5)?,
                child: row.try_get::<_, Option<Uuid>>(6)?.map(RunId),
                error: row.try_get(7)?,
            });
        }
        Ok(pauses)
    }

    async fn list_open_traces(&self, after: Option<RunId>, ended_by: Millis, limit: usize) -> Outcome<OpenTraces> {
        let (after, most) = (after.map(|run| run.0), limit as i64);
        let mut found = Vec::new();
        for row in &self.database.query(sql::LIST_OPEN_TRACES, params![after, most]).await? {
            found.push((rows::run_id(row, "run_id")?, row.try_get("ended_at")?));
        }
        Ok(page(found, ended_by, limit))
    }

    async fn read_run_trace(&self, run: RunId) -> Outcome<Option<RunTrace>> {
        let found = self.database.query(sql::READ_RUN_TRACE, params![run.0]).await?;
        Ok(found.first().map(rows::trace).transpose()?.flatten())
    }
}

/// Nothing where the trace cannot be read.
fn facts(row: &Row) -> Outcome<Option<TraceFacts>> {
    let Some(trace) = rows::trace(row)? else { return Ok(None) };
    let (epoch, error) = (rows::epoch(row, "epoch")?, row.try_get::<_, Option<String>>("error")?);
    let ended_at: Option<Millis> = row.try_get("ended_at")?;
    let end = row.try_get::<_, Option<i16>>("lease_end")?.map(rows::lease_end).transpose()?;
    let last = match (row.try_get::<_, Option<Millis>>("claimed_at")?, ended_at, end) {
        (Some(claimed_at), Some(ended_at), Some(end)) => Some(Attempt {
            epoch,
            worker: row.try_get::<_, Option<Uuid>>("worker_id")?.map(WorkerId),
            claimed_at,
            started_at: row.try_get("started_at")?,
            ended_at,
            end,
            error: error.clone(),
        }),
        _ => None,
    };
    let reason = row.try_get::<_, Option<i16>>("reason")?;
    Ok(Some(TraceFacts {
        run: rows::run_id(row, "run_id")?,
        trace,
        told: row.try_get::<_, i32>("told")? as u32,
        lane: row.try_get("lane_id")?,
        is_workflow: row.try_get("is_workflow")?,
        priority: row.try_get::<_, i16>("priority")? as u8,
        submitted_at: row.try_get("submitted_at")?,
        due_at: row.try_get("due_at")?,
        retry_of: row.try_get::<_, Option<Uuid>>("retry_of")?.map(RunId),
        state: rows::state(row.try_get("state")?)?,
        epoch,
        ended_at,
        reason: reason.map(|code| Reason::from_code(code).ok_or_else(|| rows::corrupt("a reason"))).transpose()?,
        error,
        last,
    }))
}
