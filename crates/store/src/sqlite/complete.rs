//! Completes held runs: the hot path. Reading the row and then deleting it is cheaper than `delete ... returning`, for which
//! SQLite makes a table of its own and keeps what would undo the statement.

use baton_core::{LeaseEnd, State, WorkerId};
use rusqlite::params;

use super::connection::Sql;
use super::end::{self, Batch, Relatives};
use super::{rows, statements};
use crate::decide::{self, Act};
use crate::{Changes, Completion, LaneId, QueueId, Settled, StoreError, StoreResult, Verdict};

pub(super) fn complete(sql: &Sql<'_>, done: &[Completion]) -> StoreResult<Changes> {
    let mut batch = Batch::new(sql, 0.0);
    let verdicts = done.iter().map(|completion| one(sql, &mut batch, completion)).collect::<StoreResult<_>>()?;
    Ok(Changes { verdicts, woken: batch.finish()? })
}

struct Completed {
    queue: QueueId,
    lane: LaneId,
    worker: Option<WorkerId>,
    failures: u32,
    losses: u32,
    claimed_at: Option<i64>,
    started_at: Option<i64>,
    key: Option<String>,
    affinity: Option<String>,
    relatives: Relatives,
}

pub(super) fn one(sql: &Sql<'_>, batch: &mut Batch<'_, '_>, completion: &Completion) -> StoreResult<Verdict> {
    let lease = completion.lease;
    let parameters = params![lease.run.0.as_bytes(), lease.epoch.code()];
    let completed = sql.row(statements::READ_COMPLETED, parameters, |row| {
        Ok(Completed {
            queue: row.get(0)?,
            worker: rows::maybe_worker_id(row, 1)?,
            failures: row.get(2)?,
            losses: row.get(3)?,
            claimed_at: row.get(4)?,
            started_at: row.get(5)?,
            key: row.get(6)?,
            affinity: row.get(7)?,
            relatives: Relatives::of(row, 8)?,
            lane: row.get(11)?,
        })
    })?;
    let Some(completed) = completed else { return refuse(sql, completion) };
    let worker = completed.worker.map(|worker| *worker.0.as_bytes());
    sql.execute(statements::DELETE_LIVE, params![lease.run.0.as_bytes()])?;
    sql.execute(
        statements::INSERT_ENDED,
        params![
            lease.run.0.as_bytes(),
            State::Completed.code(),
            None::<i16>,
            lease.epoch.code(),
            completed.failures,
            completed.losses,
            sql.now,
            completed.claimed_at,
            completed.started_at,
            LeaseEnd::Completed.code(),
            worker,
            None::<&str>,
            completion.output.as_deref(),
        ],
    )?;
    if let Some(affinity) = &completed.affinity {
        sql.execute(statements::REMEMBER_AFFINITY, params![completed.queue, affinity, worker, sql.now])?;
    }
    batch.tell(lease.run, &completed.relatives)?;
    batch.lease_ended(completed.worker, completed.queue, completed.key.as_deref(), &Act::Complete);
    let held_ms = completed.claimed_at.map(|claimed_at| sql.now - claimed_at);
    batch.settled(Settled::completed(completed.lane, held_ms));
    Ok(Verdict::Done { state: State::Completed, cancelling: false })
}

/// Finds out why there was nothing to complete.
fn refuse(sql: &Sql<'_>, completion: &Completion) -> StoreResult<Verdict> {
    let lease = completion.lease;
    let Some(row) = rows::live(sql, lease.run)? else { return end::not_live(sql, &Act::Complete, lease) };
    match decide::decide(&row, &Act::Complete, lease, None, sql.now, 0.0) {
        Err(refused) => Ok(Verdict::Refused(end::explain(sql, &row, &Act::Complete, lease, refused)?)),
        Ok(_) => Err(StoreError::Internal(format!("run {} is held but could not be completed", lease.run))),
    }
}
