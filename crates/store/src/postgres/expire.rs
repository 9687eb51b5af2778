//! What the reaper does: silent workers, the runs they held, deadlines, and keys with room.

use std::collections::HashMap;
use std::time::Instant;

use baton_core::machine::Expiry;
use baton_core::{LeaseEnd, Millis, RunId, WorkerId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::end::{Records, Writes};
use super::params::params;
use super::pool::{Outcome, Session};
use super::rows::run_id;
use super::sql;
use crate::decide::{self, Act, LastSigns, LastStep};
use crate::{Expired, ExpiredRun, LeaseRef, QueueId, Verdict, Woken};

impl PostgresStore {
    pub(super) async fn lose_silent_workers(&self, hold_off_ms: Millis, limit: usize) -> Outcome<Vec<WorkerId>> {
        let now = self.database.fixed_now();
        let called_at = self.called_at().await?;
        let rows = self.database.query(sql::LOSE_WORKERS, params![now, hold_off_ms, limit as i64, called_at]).await?;
        let mut lost = Vec::with_capacity(rows.len());
        for row in &rows {
            lost.push(WorkerId(row.try_get(0)?));
        }
        lost.sort();
        Ok(lost)
    }

    /// The time of this call on the database's clock, or a little before: however long the answer takes, it is not later.
    async fn called_at(&self) -> Outcome<Millis> {
        if let Some(fixed) = self.database.fixed_now() {
            return Ok(fixed);
        }
        let called = Instant::now();
        let answered_at = self.read_now().await?;
        Ok(answered_at.saturating_sub(called.elapsed().as_millis() as Millis))
    }

    pub(super) async fn expire_runs(&self, jitter: f64, limit: usize) -> Outcome<Expired> {
        let fixed = self.database.fixed_now();
        // Nearly always there is nothing: one statement says so, where a transaction takes four.
        let rows = self.database.query(sql::HAS_EXPIRED, params![fixed]).await?;
        if !rows.first().map_or(Ok(false), |row| row.try_get(0))? {
            return Ok(Expired::default());
        }
        let session = self.database.transaction().await?;
        let mut read = session.query(sql::HOLD_LOST_RUNS, params![fixed, limit as i64]).await?;
        let mut due = Vec::with_capacity(read.len());
        for row in &read {
            due.push((run_id(row, "run_id")?, Expiry::Lease));
        }
        if read.len() < limit {
            let room = (limit - read.len()) as i64;
            for row in session.query(sql::HOLD_OVERDUE_RUNS, params![fixed, room]).await? {
                let run = run_id(&row, "run_id")?;
                if !due.iter().any(|(other, _)| *other == run) {
                    due.push((run, what_passed(&row)?));
                }
                read.push(row);
            }
        }
        let more = due.len() >= limit && !due.is_empty();
        if due.is_empty() {
            session.commit().await?;
            return Ok(Expired::default());
        }
        let mut records = Records::of(&read)?;
        let (mut writes, mut expired) = (Writes::default(), Vec::with_capacity(due.len()));
        let signs = last_signs(&session, &records, &due).await?;
        for (run, what) in due {
            let act = Act::Expire(what, signs.get(&run));
            expired.extend(expire_one(&mut records, &mut writes, run, what, &act, jitter));
        }
        let woken = self.write(&session, writes, records.now).await?;
        Ok(Expired { runs: expired, woken, more })
    }

    pub(super) async fn unblock_all(&self, limit: usize) -> Outcome<Woken> {
        let mut keys: Vec<(QueueId, String)> = Vec::new();
        for row in self.database.query(sql::FIND_BLOCKED_KEYS, params![limit as i64]).await? {
            keys.push((row.try_get(0)?, row.try_get(1)?));
        }
        match keys.is_empty() {
            true => Ok(Woken::default()),
            false => self.unblock_keys(&keys).await,
        }
    }
}

/// Which deadline of a run has passed; a request to cancel comes before the others.
fn what_passed(row: &Row) -> Outcome<Expiry> {
    let now: Millis = row.try_get("now")?;
    let has_passed = |at: Option<Millis>| at.is_some_and(|at| at <= now);
    Ok(if has_passed(row.try_get("cancel_by")?) {
        Expiry::CancelGrace
    } else if has_passed(row.try_get("timeout_at")?) {
        Expiry::Timeout
    } else {
        Expiry::Lease
    })
}

/// The last signs of runs that are about to become poison. Nearly always there are none, and
/// nothing is asked.
async fn last_signs(
    session: &Session<'_>,
    records: &Records,
    due: &[(RunId, Expiry)],
) -> Outcome<HashMap<RunId, LastSigns>> {
    let is_poisoned = |run: &RunId, what: Expiry| {
        records.live.get(run).is_some_and(|row| decide::is_poisoned_by(row, what, records.now))
    };
    let poisoned: Vec<Uuid> = due.iter().filter(|(run, what)| is_poisoned(run, *what)).map(|(run, _)| run.0).collect();
    let mut signs = HashMap::with_capacity(poisoned.len());
    if poisoned.is_empty() {
        return Ok(signs);
    }
    for row in session.query(sql::FIND_LAST_SIGNS, params![poisoned]).await? {
        let step = match row.try_get("name")? {
            Some(name) => {
                let position = row.try_get::<_, i32>("position")? as u32;
                Some(LastStep { name, position, is_begun: row.try_get("is_begun")? })
            }
            None => None,
        };
        let (is_workflow, seen_at) = (row.try_get("is_workflow")?, row.try_get("seen_at")?);
        signs.insert(run_id(&row, "run_id")?, LastSigns { is_workflow, seen_at, step });
    }
    Ok(signs)
}

fn expire_one(
    records: &mut Records,
    writes: &mut Writes,
    run: RunId,
    what: Expiry,
    act: &Act<'_>,
    jitter: f64,
) -> Option<ExpiredRun> {
    let row = records.live.get(&run)?;
    let (worker, epoch) = (row.worker, row.rules.epoch);
    let lease = LeaseRef { run, epoch };
    match writes.act(records, lease, act, jitter) {
        Verdict::Done { state, .. } => {
            let end: LeaseEnd = records.past(lease).unwrap_or_else(|| what.lease_end());
            Some(ExpiredRun { run, worker, epoch, end, state })
        }
        Verdict::Refused(_) | Verdict::Unknown => None,
    }
}
