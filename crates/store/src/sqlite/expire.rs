//! What the reaper does: takes runs from workers that fell silent, and from those that took too long.

use baton_core::machine::Expiry;
use baton_core::{Millis, RunId, WorkerId};
use rusqlite::params;

use super::connection::Sql;
use super::end::{self, Batch};
use super::{rows, statements};
use crate::decide::{self, Act, LastSigns, LastStep};
use crate::{Expired, ExpiredRun, LeaseRef, QueueId, StoreResult, Woken};

pub(super) fn lose_workers(sql: &Sql<'_>, silent_since: Millis, limit: usize) -> StoreResult<Vec<WorkerId>> {
    let mut lost = sql
        .rows(statements::LOSE_WORKERS, params![silent_since, sql.now, limit as i64], |row| rows::worker_id(row, 0))?;
    lost.sort();
    Ok(lost)
}

pub(super) fn expire(sql: &Sql<'_>, jitter: f64, limit: usize) -> StoreResult<Expired> {
    let mut batch = Batch::new(sql, jitter);
    let mut runs = Vec::new();
    let orphans = sql.rows(statements::LIST_ORPHANS, params![limit as i64], |row| rows::run_id(row, 0))?;
    for run in orphans {
        runs.extend(take_back(sql, &mut batch, run, Expiry::Lease)?);
    }
    let left = limit.saturating_sub(runs.len());
    let overdue = sql.rows(statements::LIST_OVERDUE, params![sql.now, left as i64], |row| {
        let what = match row.get(1)? {
            0 => Expiry::CancelGrace,
            1 => Expiry::Timeout,
            _ => Expiry::Lease,
        };
        Ok((rows::run_id(row, 0)?, what))
    })?;
    for (run, what) in overdue {
        runs.extend(take_back(sql, &mut batch, run, what)?);
    }
    Ok(Expired { more: !runs.is_empty() && runs.len() >= limit, runs, woken: batch.finish()? })
}

fn take_back(sql: &Sql<'_>, batch: &mut Batch<'_, '_>, run: RunId, what: Expiry) -> StoreResult<Option<ExpiredRun>> {
    let Some(row) = rows::live(sql, run)? else { return Ok(None) };
    let epoch = row.rules.epoch;
    let signs = match decide::is_poisoned_by(&row, what, sql.now) {
        true => last_signs(sql, run)?,
        false => None,
    };
    let act = Act::Expire(what, signs.as_ref());
    let Ok(decision) = batch.carry_out(&row, &act, LeaseRef { run, epoch })? else { return Ok(None) };
    let end = decision.end.unwrap_or(what.lease_end());
    Ok(Some(ExpiredRun { run, worker: row.worker, epoch, end, state: decision.next.state }))
}

fn last_signs(sql: &Sql<'_>, run: RunId) -> StoreResult<Option<LastSigns>> {
    sql.row(statements::FIND_LAST_SIGNS, params![run.0.as_bytes()], |row| {
        let step = match row.get(2)? {
            Some(name) => Some(LastStep { name, position: row.get(3)?, is_begun: row.get(4)? }),
            None => None,
        };
        Ok(LastSigns { is_workflow: row.get(0)?, seen_at: row.get(1)?, step })
    })
}

/// The keys that have blocked runs. Read beside the writer: nearly always there are none, or they have no room.
pub(super) fn blocked_keys(sql: &Sql<'_>) -> StoreResult<Vec<(QueueId, String)>> {
    sql.rows(statements::LIST_BLOCKED_KEYS, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

pub(super) fn unblock(sql: &Sql<'_>, keys: &[(QueueId, String)], limit: usize) -> StoreResult<Woken> {
    let mut woken = Woken::default();
    let mut left = limit;
    for (queue, key) in keys {
        left -= end::unblock_key(sql, *queue, key, left as i64, left as i64, &mut woken)?;
        if left == 0 {
            break;
        }
    }
    Ok(woken)
}
