//! Reading what workflows have besides their runs.

use baton_core::{Millis, RunId};
use bytes::Bytes;
use rusqlite::{Row, params};

use super::super::connection::Sql;
use super::super::{rows, statements};
use super::{inbox, steps::step_row};
use crate::{
    Journal, OpenStep, Page, Relations, RunRecord, STEPS_AT_ONCE, Step, StepAttempt, StepKind, StepOutline, StepState,
    StoreResult, Waits,
};

pub(super) fn journals(sql: &Sql<'_>, runs: &[RunId], bytes_max: u64) -> StoreResult<Vec<Journal>> {
    let (mut journals, mut left, mut steps_left) = (Vec::with_capacity(runs.len()), Some(bytes_max), STEPS_AT_ONCE);
    for run in runs {
        // Once there is no room, rows are passed over without being kept.
        let steps: Option<Vec<Step>> = sql
            .rows(statements::LIST_JOURNAL, params![run.0.as_bytes()], |row| {
                left = match left {
                    Some(left) if steps_left > 0 => left.checked_sub(bytes(row, "output")? + bytes(row, "error")?),
                    Some(_) | None => None,
                };
                steps_left = steps_left.saturating_sub(1);
                left.map(|_| Ok(step_row(row)?.step())).transpose()
            })?
            .into_iter()
            .collect();
        let Some(steps) = steps else { break };
        journals.push(Journal { steps, messages: inbox::messages(sql, *run, 0)? });
    }
    Ok(journals)
}

/// How many bytes a column has.
fn bytes(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(row.get_ref(column)?.as_bytes_or_null()?.map_or(0, |bytes| bytes.len() as u64))
}

pub(super) fn steps(sql: &Sql<'_>, run: RunId, page: Page<u32>) -> StoreResult<Vec<Step>> {
    let after = page.after.map_or(-1, i64::from);
    let parameters = params![run.0.as_bytes(), after, page.limit as i64];
    sql.rows(statements::LIST_STEPS, parameters, |row| Ok(step_row(row)?.step()))
}

pub(super) fn outlines(sql: &Sql<'_>, run: RunId, page: Page<u32>) -> StoreResult<Vec<StepOutline>> {
    let after = page.after.map_or(-1, i64::from);
    let parameters = params![run.0.as_bytes(), after, page.limit as i64];
    sql.rows(statements::LIST_STEP_OUTLINES, parameters, |row| {
        Ok(StepOutline {
            position: row.get(0)?,
            kind: rows::coded(row, 1, StepKind::from_code)?,
            state: rows::coded(row, 2, StepState::from_code)?,
            attempts: row.get(3)?,
            epoch: rows::epoch(row, 4)?,
            begun_at: row.get(5)?,
            ended_at: row.get(6)?,
            due_at: row.get(7)?,
            child: rows::maybe(row, 8, rows::run_id)?,
            name: row.get(9)?,
            code: row.get(10)?,
        })
    })
}

pub(super) fn attempts(
    sql: &Sql<'_>,
    run: RunId,
    position: Option<u32>,
    page: Page<(u32, u32)>,
) -> StoreResult<Vec<StepAttempt>> {
    let (after, after_attempt) = page.after.map_or((-1, -1), |(after, attempt)| (i64::from(after), i64::from(attempt)));
    let parameters = params![run.0.as_bytes(), position, after, after_attempt, page.limit as i64];
    sql.rows(statements::LIST_STEP_ATTEMPTS, parameters, |row| {
        Ok(StepAttempt {
            position: row.get(0)?,
            attempt: row.get(1)?,
            name: row.get(2)?,
            epoch: rows::epoch(row, 3)?,
            worker: rows::maybe_worker_id(row, 4)?,
            state: rows::coded(row, 5, StepState::from_code)?,
            error: row.get(6)?,
            code: row.get(7)?,
            begun_at: row.get(8)?,
            ended_at: row.get(9)?,
        })
    })
}

pub(super) fn waits(sql: &Sql<'_>, run: RunId, limit: usize) -> StoreResult<Waits> {
    let limit = limit as i64;
    let open = sql.rows(statements::LIST_WAITS, params![run.0.as_bytes(), limit], |row| {
        Ok(OpenStep {
            kind: rows::coded(row, 0, StepKind::from_code)?,
            name: row.get(1)?,
            attempts: row.get(2)?,
            due_at: row.get(3)?,
            child: rows::maybe(row, 4, rows::run_id)?,
            error: row.get(5)?,
        })
    })?;
    let signals = sql.rows(statements::LIST_UNTAKEN_SIGNALS, params![run.0.as_bytes(), limit], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(Waits { open, signals })
}

pub(super) fn published(sql: &Sql<'_>, run: RunId) -> StoreResult<Option<(Bytes, Millis)>> {
    sql.row(statements::READ_PUBLISHED, params![run.0.as_bytes()], |row| Ok((rows::bytes(row, 0)?, row.get(1)?)))
}

pub(super) fn workflow(sql: &Sql<'_>, run: RunId) -> StoreResult<Option<(RunRecord, Relations)>> {
    let Some(record) = super::super::read::run(sql, run)? else { return Ok(None) };
    Ok(Some((record, relations(sql, run)?)))
}

pub(super) fn relations(sql: &Sql<'_>, run: RunId) -> StoreResult<Relations> {
    sql.one(statements::READ_RELATIONS, params![run.0.as_bytes()], |row| {
        Ok(Relations {
            parent: rows::maybe(row, 0, rows::run_id)?,
            continued_to: rows::maybe(row, 1, rows::run_id)?,
            cancel_requested: row.get(2)?,
        })
    })
}
