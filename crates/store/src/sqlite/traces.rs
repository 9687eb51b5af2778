//! What the spans of runs are made of.

use async_trait::async_trait;
use baton_core::trace::RunTrace;
use baton_core::{Millis, Reason, RunId, StepKind, StepState};
use rusqlite::{Row, params};

use super::{SqliteStore, rows, statements};
use crate::traces::page;
use crate::{Attempt, OpenTraces, Pause, StoreResult, TraceFacts, Traces};

#[async_trait]
impl Traces for SqliteStore {
    async fn trace_facts(&self, runs: &[RunId]) -> StoreResult<Vec<TraceFacts>> {
        let runs = runs.to_vec();
        self.read(move |sql| {
            let mut found = Vec::new();
            for run in &runs {
                found.extend(sql.row(statements::READ_TRACE_FACTS, params![run.0.as_bytes()], facts)?.flatten());
            }
            Ok(found)
        })
        .await
    }

    async fn pauses(&self, run: RunId, limit: usize) -> StoreResult<Vec<Pause>> {
        self.read(move |sql| {
            sql.rows(statements::LIST_PAUSES, params![run.0.as_bytes(), limit as i64], |row| {
                Ok(Pause {
                    position: row.get(0)?,
                    kind: rows::coded(row, 1, StepKind::from_code)?,
                    state: rows::coded(row, 2, StepState::from_code)?,
                    name: row.get(3)?,
                    begun_at: row.get(4)?,
                    ended_at: row.get(5)?,
                    child: rows::maybe(row, "child", rows::run_id)?,
                    error: row.get(7)?,
                })
            })
        })
        .await
    }

    async fn tell_traces(&self, told: Vec<(RunId, u32)>) -> StoreResult<()> {
        self.write(move |sql| {
            for (run, number) in &told {
                sql.execute(statements::TELL_TRACE, params![run.0.as_bytes(), number])?;
            }
            Ok(())
        })
        .await
    }

    async fn close_traces(&self, runs: Vec<RunId>) -> StoreResult<()> {
        self.write(move |sql| {
            for run in &runs {
                sql.execute(statements::CLOSE_TRACE, params![run.0.as_bytes()])?;
            }
            Ok(())
        })
        .await
    }

    async fn open_traces(&self, after: Option<RunId>, age_ms: Millis, limit: usize) -> StoreResult<OpenTraces> {
        self.read(move |sql| {
            let after = after.map(|run| *run.0.as_bytes());
            let found = sql.rows(statements::LIST_OPEN_TRACES, params![after, limit as i64], |row| {
                Ok((rows::run_id(row, 0)?, row.get(1)?))
            })?;
            Ok(page(found, sql.now.saturating_sub(age_ms), limit))
        })
        .await
    }

    async fn run_trace(&self, run: RunId) -> StoreResult<Option<RunTrace>> {
        self.read(move |sql| {
            let found = sql.row(statements::READ_RUN_TRACE, params![run.0.as_bytes()], |row| rows::trace(row, 0))?;
            Ok(found.flatten())
        })
        .await
    }
}

/// Nothing where the trace cannot be read.
fn facts(row: &Row<'_>) -> rusqlite::Result<Option<TraceFacts>> {
    let Some(trace) = rows::trace(row, "trace")? else { return Ok(None) };
    let (epoch, error) = (rows::epoch(row, "epoch")?, row.get::<_, Option<String>>("error")?);
    let ended_at: Option<Millis> = row.get("ended_at")?;
    let lease =
        (row.get::<_, Option<Millis>>("claimed_at")?, ended_at, rows::maybe(row, "lease_end", rows::lease_end)?);
    let last = match lease {
        (Some(claimed_at), Some(ended_at), Some(end)) => Some(Attempt {
            epoch,
            worker: rows::maybe_worker_id(row, "worker_id")?,
            claimed_at,
            started_at: row.get("started_at")?,
            ended_at,
            end,
            error: error.clone(),
        }),
        _ => None,
    };
    Ok(Some(TraceFacts {
        run: rows::run_id(row, "run_id")?,
        trace,
        told: row.get("told")?,
        lane: row.get("lane_id")?,
        is_workflow: row.get("is_workflow")?,
        priority: row.get("priority")?,
        submitted_at: row.get("submitted_at")?,
        due_at: row.get("due_at")?,
        retry_of: rows::maybe(row, "retry_of", rows::run_id)?,
        state: rows::state(row, "state")?,
        epoch,
        ended_at,
        reason: rows::maybe(row, "reason", |row, index| rows::coded(row, index, Reason::from_code))?,
        error,
        last,
    }))
}
