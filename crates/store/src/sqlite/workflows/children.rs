//! Starts children.

use baton_core::RunId;
use baton_core::step::Change;
use rusqlite::params;

use super::super::connection::Sql;
use super::super::{statements, submit};
use super::{pass, steps};
use crate::memory::{self, Refusal};
use crate::{ChildAnswer, NewChild, NewRun, StepKind, StoreError, StoreResult, Submission, Submitted, Verdict};

pub(super) fn start(sql: &Sql<'_>, children: Vec<NewChild>) -> StoreResult<Vec<ChildAnswer>> {
    children.into_iter().map(|child| one(sql, child)).collect()
}

fn one(sql: &Sql<'_>, child: NewChild) -> StoreResult<ChildAnswer> {
    let parent = child.lease.run;
    let holder = match steps::hold(sql, child.lease)? {
        Ok(holder) => holder,
        Err(Verdict::Refused(refused)) => return Ok(ChildAnswer::Refused(refused)),
        Err(Verdict::Unknown | Verdict::Done { .. }) => return Ok(ChildAnswer::Unknown),
    };
    let known = steps::known(sql, parent, child.position)?;
    let (kind, change) = (StepKind::Child, Change::Start);
    let mut row = match memory::place(known.as_ref(), holder, child.position, kind, &child.name, &change, sql.now) {
        Ok(row) => row,
        Err(Refusal::Same(step)) => {
            return match step.child {
                Some(run) => Ok(ChildAnswer::Started(submitted(sql, run)?)),
                None => Err(StoreError::Internal(format!("the child at {} of {parent} has no run", child.position))),
            };
        }
        Err(Refusal::Diverged { kind, name }) => return Ok(ChildAnswer::Diverged { kind, name }),
        Err(Refusal::TooMany) => return Ok(ChildAnswer::TooMany),
    };
    let submitted = take(sql, child.run, child.die)?;
    let (run, parent) = (submitted.run, parent.0.as_bytes());
    sql.execute(statements::SET_PARENT, params![run.0.as_bytes(), parent, child.position])?;
    sql.execute(statements::INSERT_RELATIVE, params![run.0.as_bytes(), parent])?;
    sql.execute(statements::SET_HAS_CHILDREN, params![parent])?;
    row.child = Some(run);
    steps::set(sql, &row)?;
    if let Some(after_ms) = child.timeout_ms {
        pass::set_deadline(sql, run, after_ms, false)?;
    }
    Ok(ChildAnswer::Started(submitted))
}

/// Takes a run in that nobody else can ask for: whoever asks again is known by what its relative remembers.
pub(super) fn take(sql: &Sql<'_>, run: NewRun, die: u64) -> StoreResult<Submitted> {
    take_once(sql, NewRun { idempotency: None, ..run }, die)
}

/// As [`take`], for a run with an idempotency key of the server's own: the same key gives the run that was made before.
pub(super) fn take_once(sql: &Sql<'_>, run: NewRun, die: u64) -> StoreResult<Submitted> {
    let answers = submit::submit(sql, &[Submission { runs: vec![run], dice: vec![die] }])?;
    match answers.into_iter().next() {
        Some(Ok(submitted)) => submitted.first().copied(),
        Some(Err(_)) | None => None,
    }
    .ok_or_else(|| StoreError::Internal("a run was submitted without an answer".into()))
}

/// What was answered when this run was submitted.
pub(super) fn submitted(sql: &Sql<'_>, run: RunId) -> StoreResult<Submitted> {
    let found = sql.row(statements::READ_SUBMITTED, params![run.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (submitted_at, due_at) = found.unwrap_or((run.submitted_at(), run.submitted_at()));
    Ok(Submitted { run, submitted_at, due_at, is_new: false })
}
