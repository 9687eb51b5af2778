//! Ends a run, and goes on as another.

use baton_core::Refused;
use rusqlite::params;

use super::super::connection::Sql;
use super::super::end::{self, Batch};
use super::super::{complete, rows, statements};
use super::{children, inbox};
use crate::decide::{self, Act};
use crate::{Completion, ContinueAnswer, LeaseRef, NewRun, StoreResult, Verdict, Woken};

pub(super) fn continue_as_new(sql: &Sql<'_>, lease: LeaseRef, next: NewRun, die: u64) -> StoreResult<ContinueAnswer> {
    let Some(row) = rows::live(sql, lease.run)? else {
        return refuse(sql, lease, end::not_live(sql, &Act::Complete, lease)?);
    };
    if let Err(refused) = decide::decide(&row, &Act::Complete, lease, None, sql.now, 0.0) {
        let refused = end::explain(sql, &row, &Act::Complete, lease, refused)?;
        return refuse(sql, lease, Verdict::Refused(refused));
    }
    let lane = next.lane.lane;
    let submitted = children::take(sql, next, die)?;
    let (from, to) = (lease.run.0.as_bytes(), submitted.run.0.as_bytes());
    sql.execute(statements::MOVE_PARENT, params![from, to])?;
    sql.execute(statements::MOVE_RELATIVE, params![from, to])?;
    sql.execute(statements::MOVE_CHILDREN, params![from, to])?;
    // The run has not ended for its relatives: they hear nothing of it.
    sql.execute(statements::FORGET_RELATIVES, params![from, false])?;
    sql.execute(statements::MOVE_DEADLINE, params![from, to])?;
    inbox::move_untaken(sql, lease.run, submitted.run)?;
    sql.execute(statements::INSERT_CONTINUED, params![from, to])?;
    let mut batch = Batch::new(sql, 0.0);
    let verdict = complete::one(sql, &mut batch, &Completion { lease, output: None })?;
    batch.wake(lane, submitted.due_at);
    Ok(ContinueAnswer { verdict, next: Some(submitted), woken: batch.finish()? })
}

/// The answer when the lease is not the live one: a repeated call gets the run that goes on.
fn refuse(sql: &Sql<'_>, lease: LeaseRef, verdict: Verdict) -> StoreResult<ContinueAnswer> {
    let next = match verdict {
        Verdict::Refused(Refused::AlreadyDone) => inbox::continued(sql, lease.run)?,
        Verdict::Refused(_) | Verdict::Unknown | Verdict::Done { .. } => None,
    };
    let next = next.map(|run| children::submitted(sql, run)).transpose()?;
    Ok(ContinueAnswer { verdict, next, woken: Woken::default() })
}
