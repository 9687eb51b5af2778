//! What workflows remember: written under a lease.

use std::collections::HashMap;

use baton_core::RunId;
use baton_core::step::{Remembered, Writer};
use bytes::Bytes;
use rusqlite::{Result, Row, params};

use super::super::connection::Sql;
use super::super::{end, rows, statements};
use crate::decide::{self, Act};
use crate::memory::{self, Besides, Holder, StepRow};
use crate::{LeaseRef, StepAnswer, StepAttempt, StepChange, StepKind, StepState, StepWrite, StoreResult, Verdict};

pub(super) fn write(sql: &Sql<'_>, writes: &[StepWrite]) -> StoreResult<Vec<StepAnswer>> {
    // No write ends a lease, so what was found of one holds for all writes under it.
    let mut holders: HashMap<LeaseRef, std::result::Result<Holder, Verdict>> = HashMap::new();
    let mut answers = Vec::with_capacity(writes.len());
    for write in writes {
        let holder = match holders.get(&write.lease) {
            Some(holder) => *holder,
            None => {
                let holder = hold(sql, write.lease)?;
                holders.insert(write.lease, holder);
                holder
            }
        };
        answers.push(match holder {
            Ok(holder) => one(sql, holder, write)?,
            Err(Verdict::Refused(refused)) => StepAnswer::Refused(refused),
            Err(Verdict::Unknown | Verdict::Done { .. }) => StepAnswer::Unknown,
        });
    }
    Ok(answers)
}

/// Checks a lease for a write under it, and starts the run with the first one.
pub(super) fn hold(sql: &Sql<'_>, lease: LeaseRef) -> StoreResult<std::result::Result<Holder, Verdict>> {
    let Some(row) = rows::live(sql, lease.run)? else { return Ok(Err(end::not_live(sql, &Act::Start, lease)?)) };
    match decide::holds(&row, lease) {
        Ok(true) => end::start(sql, &[lease])?,
        Ok(false) => Vec::new(),
        Err(refused) => return Ok(Err(Verdict::Refused(refused))),
    };
    Ok(Ok(Holder::of(&row)))
}

fn one(sql: &Sql<'_>, holder: Holder, write: &StepWrite) -> StoreResult<StepAnswer> {
    let known = known(sql, holder.run, write.position)?;
    let taken_at = match &write.what {
        StepChange::Complete { message: Some(message), .. } => {
            sql.row(statements::READ_TAKEN, params![holder.run.0.as_bytes(), message], |row| row.get(0))?
        }
        StepChange::Complete { .. } | StepChange::Begin | StepChange::Fail { .. } => None,
    };
    let bytes = match write.journal_bytes_max {
        Some(_) => {
            sql.one(statements::SUM_JOURNAL, params![holder.run.0.as_bytes()], |row| row.get::<_, i64>(0))? as u64
        }
        None => 0,
    };
    let written = match memory::write(known.as_ref(), holder, write, Besides { taken_at, bytes }, sql.now) {
        Ok(written) => written,
        Err(answer) => return Ok(*answer),
    };
    for attempt in &written.attempts {
        keep_attempt(sql, holder.run, attempt)?;
    }
    set(sql, &written.row)?;
    Ok(StepAnswer::Remembered { step: written.row.step(), existed: false })
}

pub(super) fn known(sql: &Sql<'_>, run: RunId, position: u32) -> StoreResult<Option<StepRow>> {
    sql.row(statements::READ_STEP, params![run.0.as_bytes(), position], step_row)
}

pub(super) fn set(sql: &Sql<'_>, row: &StepRow) -> StoreResult<()> {
    let rules = &row.rules;
    sql.execute(
        statements::SET_STEP,
        params![
            row.run.0.as_bytes(),
            row.position,
            rules.kind.code(),
            rules.state.code(),
            rules.attempts,
            row.earlier,
            rules.writer.epoch.code(),
            rules.writer.failures,
            rules.begun_at,
            rules.ended_at,
            rules.due_at,
            row.message,
            row.worker.map(|worker| *worker.0.as_bytes()),
            row.child.map(|child| *child.0.as_bytes()),
            rules.name,
            row.error,
            row.code,
            row.output.as_deref(),
        ],
    )?;
    Ok(())
}

fn keep_attempt(sql: &Sql<'_>, run: RunId, attempt: &StepAttempt) -> StoreResult<()> {
    sql.execute(
        statements::INSERT_STEP_ATTEMPT,
        params![
            run.0.as_bytes(),
            attempt.position,
            attempt.attempt,
            attempt.state.code(),
            attempt.epoch.code(),
            attempt.worker.map(|worker| *worker.0.as_bytes()),
            attempt.begun_at,
            attempt.ended_at,
            attempt.name,
            attempt.error,
            attempt.code,
        ],
    )?;
    Ok(())
}

pub(super) fn step_row(row: &Row<'_>) -> Result<StepRow> {
    Ok(StepRow {
        run: rows::run_id(row, "run_id")?,
        position: row.get("position")?,
        rules: Remembered {
            kind: rows::coded(row, "kind", StepKind::from_code)?,
            name: row.get("name")?,
            state: rows::coded(row, "state", StepState::from_code)?,
            attempts: row.get("attempts")?,
            begun_at: row.get("begun_at")?,
            ended_at: row.get("ended_at")?,
            due_at: row.get("due_at")?,
            writer: Writer { epoch: rows::epoch(row, "epoch")?, failures: row.get("failures")? },
        },
        earlier: row.get("earlier")?,
        worker: rows::maybe_worker_id(row, "worker_id")?,
        output: rows::maybe(row, "output", rows::bytes)?,
        error: row.get("error")?,
        code: row.get("code")?,
        message: row.get("message")?,
        child: rows::maybe(row, "child", rows::run_id)?,
    })
}

pub(super) fn publish(sql: &Sql<'_>, published: &[(LeaseRef, Bytes)]) -> StoreResult<Vec<Verdict>> {
    let one = |(lease, payload): &(LeaseRef, Bytes)| {
        let held = rows::live(sql, lease.run)?;
        Ok(match hold(sql, *lease)? {
            Ok(_) => {
                sql.execute(statements::SET_PUBLISHED, params![lease.run.0.as_bytes(), sql.now, payload.as_ref()])?;
                let cancelling = held.is_some_and(|row| row.rules.cancel_by.is_some());
                Verdict::Done { state: baton_core::State::Running, cancelling }
            }
            Err(verdict) => verdict,
        })
    };
    published.iter().map(one).collect()
}
