//! The verbs on runs that somebody holds, or wants cancelled: read the row, ask the rules, write what they say.

use std::collections::BTreeMap;

use baton_core::machine::Expiry;
use baton_core::{Epoch, Failure, LeaseEnd, Millis, Refused, RunId, State, WorkerId};
use rusqlite::params;

use super::connection::Sql;
use super::{rows, statements};
use crate::decide::{self, Act, Decision, LiveRow, Place};
use crate::{Changes, Due, LaneId, LeaseRef, QueueId, Settled, StoreResult, Verdict, Woken};

/// Blocked runs of a key that one lease end makes claimable when the key has no limit any more.
const UNBLOCKED_MAX: i64 = 100;

pub(super) fn start(sql: &Sql<'_>, leases: &[LeaseRef]) -> StoreResult<Vec<Verdict>> {
    let mut batch = Batch::new(sql, 0.0);
    leases.iter().map(|lease| batch.act(&Act::Start, *lease)).collect()
}

pub(super) fn fail(sql: &Sql<'_>, failed: &[(LeaseRef, Failure)], jitter: f64) -> StoreResult<Changes> {
    changes(sql, jitter, failed.iter().map(|(lease, failure)| (Act::Fail(failure), *lease)))
}

pub(super) fn give_back(sql: &Sql<'_>, leases: &[(LeaseRef, String)]) -> StoreResult<Changes> {
    changes(sql, 0.0, leases.iter().map(|(lease, why)| (Act::GiveBack(why), *lease)))
}

pub(super) fn sleep(sql: &Sql<'_>, leases: &[(LeaseRef, Due)]) -> StoreResult<Changes> {
    changes(sql, 0.0, leases.iter().map(|(lease, due)| (Act::Sleep(*due), *lease)))
}

pub(super) fn cancel(sql: &Sql<'_>, runs: &[RunId], grace_ms: Millis) -> StoreResult<Changes> {
    // A cancel is not made under a lease; no claim has epoch 0.
    let leases = runs.iter().map(|run| LeaseRef { run: *run, epoch: Epoch::new(0) });
    changes(sql, 0.0, leases.map(|lease| (Act::Cancel { grace_ms }, lease)))
}

pub(super) fn changes<'a>(
    sql: &Sql<'_>,
    jitter: f64,
    acts: impl Iterator<Item = (Act<'a>, LeaseRef)>,
) -> StoreResult<Changes> {
    let mut batch = Batch::new(sql, jitter);
    let verdicts = acts.map(|(act, lease)| batch.act(&act, lease)).collect::<StoreResult<_>>()?;
    Ok(Changes { verdicts, woken: batch.finish()? })
}

/// What several verbs of one call have in common: counters and keys are settled once, at the end.
pub(super) struct Batch<'a, 'c> {
    sql: &'a Sql<'c>,
    jitter: f64,
    counts: BTreeMap<WorkerId, Counts>,
    keys: Vec<(QueueId, String)>,
    woken: Woken,
}

/// Who is to hear of a run's end.
#[derive(Debug)]
pub(super) struct Relatives {
    parent: Option<RunId>,
    position: Option<u32>,
    has_children: bool,
}

impl Relatives {
    /// From three columns, the first of which has this index.
    pub(super) fn of(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Relatives> {
        Ok(Relatives {
            parent: rows::maybe(row, first, rows::run_id)?,
            position: row.get(first + 1)?,
            has_children: row.get(first + 2)?,
        })
    }
}

#[derive(Default)]
struct Counts {
    ended: u32,
    completed: u32,
    failed: u32,
}

impl<'a, 'c> Batch<'a, 'c> {
    pub(super) fn new(sql: &'a Sql<'c>, jitter: f64) -> Batch<'a, 'c> {
        Batch { sql, jitter, counts: BTreeMap::new(), keys: Vec::new(), woken: Woken::default() }
    }

    pub(super) fn act(&mut self, act: &Act<'_>, lease: LeaseRef) -> StoreResult<Verdict> {
        let Some(row) = rows::live(self.sql, lease.run)? else { return not_live(self.sql, act, lease) };
        Ok(match self.carry_out(&row, act, lease)? {
            Ok(decision) => decision.verdict(),
            Err(refused) => Verdict::Refused(explain(self.sql, &row, act, lease, refused)?),
        })
    }

    /// Applies a verb to a row that has just been read.
    pub(super) fn carry_out(
        &mut self,
        row: &LiveRow,
        act: &Act<'_>,
        lease: LeaseRef,
    ) -> StoreResult<Result<Decision, Refused>> {
        let decision = match decide::decide(row, act, lease, None, self.sql.now, self.jitter) {
            Ok(decision) => decision,
            Err(refused) => return Ok(Err(refused)),
        };
        if decision.next.state.is_ended() {
            self.write_ended(row, &decision)?;
        } else if decision.place == Place::Held {
            self.write_held(row, &decision)?;
        } else if decision.end.is_some() {
            self.write_returned(row, &decision)?;
        } else {
            self.write_woken(row, &decision)?;
        }
        if decision.end.is_some() {
            self.lease_ended(row.worker, row.queue, row.key.as_deref(), act);
        }
        decision.wake(row, self.sql.now, &mut self.woken);
        Ok(Ok(decision))
    }

    /// Notes that a lease has ended, for the counters of its worker and for those who wait for its key.
    pub(super) fn lease_ended(&mut self, worker: Option<WorkerId>, queue: QueueId, key: Option<&str>, act: &Act<'_>) {
        if let Some(worker) = worker {
            let counts = self.counts.entry(worker).or_default();
            counts.ended += 1;
            match act {
                Act::Complete => counts.completed += 1,
                Act::Fail(_) | Act::Expire(Expiry::Timeout, _) => counts.failed += 1,
                Act::Start | Act::GiveBack(_) | Act::Sleep(_) | Act::Wake | Act::Cancelled(_) | Act::Cancel { .. } => {}
                Act::Expire(Expiry::Lease | Expiry::CancelGrace, _) | Act::TimeOut { .. } => {}
            }
        }
        if let Some(key) = key
            && !self.keys.iter().any(|(other_queue, other)| *other_queue == queue && other == key)
        {
            self.keys.push((queue, key.to_owned()));
        }
    }

    /// Notes a run that has ended.
    pub(super) fn settled(&mut self, settled: Settled) {
        self.woken.settled.push(settled);
    }

    /// Settles counters and keys. Returns who is to be woken.
    pub(super) fn finish(mut self) -> StoreResult<Woken> {
        for (worker, counts) in &self.counts {
            self.sql.execute(
                statements::COUNT_WORKER,
                params![worker.0.as_bytes(), -i64::from(counts.ended), counts.completed, counts.failed],
            )?;
        }
        for (queue, key) in &self.keys {
            unblock_key(self.sql, *queue, key, i64::MAX, UNBLOCKED_MAX, &mut self.woken)?;
        }
        Ok(self.woken)
    }

    fn write_ended(&mut self, row: &LiveRow, decision: &Decision) -> StoreResult<()> {
        let next = &decision.next;
        let run = params![row.run.0.as_bytes()];
        let relatives = self.sql.one(statements::READ_RELATIVES, run, |row| Relatives::of(row, 0))?;
        self.sql.execute(statements::DELETE_LIVE, run)?;
        self.tell(row.run, &relatives)?;
        self.sql.execute(
            statements::INSERT_ENDED,
            params![
                row.run.0.as_bytes(),
                next.state.code(),
                next.reason.map(|reason| reason.code()),
                next.epoch.code(),
                next.failures,
                next.losses,
                self.sql.now,
                row.claimed_at,
                row.started_at,
                decision.end.map(LeaseEnd::code),
                row.worker.map(|worker| *worker.0.as_bytes()),
                decision.error,
                None::<&[u8]>,
            ],
        )?;
        Ok(())
    }

    /// Notes that the relatives of a run are to hear of its end, if it has any.
    pub(super) fn tell(&mut self, run: RunId, relatives: &Relatives) -> StoreResult<()> {
        if relatives.parent.is_none() && !relatives.has_children {
            return Ok(());
        }
        let parent = relatives.parent.map(|parent| *parent.0.as_bytes());
        let parameters = params![run.0.as_bytes(), parent, relatives.position, relatives.has_children];
        self.sql.execute(statements::INSERT_OUTBOX, parameters)?;
        self.woken.relatives = true;
        Ok(())
    }

    /// Notes a lane that has a run due at this moment.
    pub(super) fn wake(&mut self, lane: LaneId, due_at: Millis) {
        match Place::waiting(due_at, self.sql.now) {
            Place::Later => self.woken.later(lane, due_at - self.sql.now),
            Place::Ready | Place::Blocked | Place::Held => self.woken.now(lane),
        }
    }

    fn write_woken(&self, row: &LiveRow, decision: &Decision) -> StoreResult<()> {
        let next = &decision.next;
        self.sql.execute(
            statements::WAKE_LIVE,
            params![
                row.run.0.as_bytes(),
                next.epoch.code(),
                decision.place.code(),
                decision.level,
                decision.order_at,
                next.due_at
            ],
        )?;
        Ok(())
    }

    /// The place in the line is left alone: a run that comes back later takes the one it had when it was claimed.
    fn write_held(&self, row: &LiveRow, decision: &Decision) -> StoreResult<()> {
        let next = &decision.next;
        let started_at = row.started_at.or((next.state == State::Running).then_some(self.sql.now));
        self.sql.execute(
            statements::KEEP_LIVE,
            params![row.run.0.as_bytes(), next.epoch.code(), next.state.code(), started_at, next.cancel_by],
        )?;
        Ok(())
    }

    fn write_returned(&self, row: &LiveRow, decision: &Decision) -> StoreResult<()> {
        let next = &decision.next;
        self.sql.execute(
            statements::INSERT_ATTEMPT,
            params![
                row.run.0.as_bytes(),
                next.epoch.code(),
                row.worker.map(|worker| *worker.0.as_bytes()),
                row.claimed_at,
                row.started_at,
                self.sql.now,
                decision.end.map(LeaseEnd::code),
                decision.error,
            ],
        )?;
        self.sql.execute(
            statements::RETURN_LIVE,
            params![
                row.run.0.as_bytes(),
                next.epoch.code(),
                next.state.code(),
                decision.place.code(),
                decision.level,
                decision.order_at,
                next.due_at,
                next.failures,
                next.losses,
            ],
        )?;
        Ok(())
    }
}

/// Makes blocked runs of a key claimable, as far as it has room. Returns how many.
pub(super) fn unblock_key(
    sql: &Sql<'_>,
    queue: QueueId,
    key: &str,
    most: i64,
    most_without_limit: i64,
    woken: &mut Woken,
) -> StoreResult<usize> {
    let parameters = params![queue, key, most, most_without_limit];
    let lanes = sql.rows(statements::UNBLOCK_KEY, parameters, |row| row.get(0))?;
    lanes.iter().for_each(|lane| woken.now(*lane));
    Ok(lanes.len())
}

/// Why the rules refuse, in the light of how the lease ended.
pub(super) fn explain(
    sql: &Sql<'_>,
    row: &LiveRow,
    act: &Act<'_>,
    lease: LeaseRef,
    refused: Refused,
) -> StoreResult<Refused> {
    let Some(past) = lease_end(sql, lease)? else { return Ok(refused) };
    // How a lease ended only ever turns one refusal into another: jitter does not matter.
    Ok(decide::decide(row, act, lease, Some(past), sql.now, 0.0).err().unwrap_or(refused))
}

/// The answer to a verb on a run that is not live.
pub(super) fn not_live(sql: &Sql<'_>, act: &Act<'_>, lease: LeaseRef) -> StoreResult<Verdict> {
    let parameters = params![lease.run.0.as_bytes()];
    let ended = sql.row(statements::READ_ENDED_STATE, parameters, |row| rows::state(row, 0))?;
    let Some(state) = ended else { return Ok(Verdict::Unknown) };
    let past = lease_end(sql, lease)?;
    Ok(Verdict::Refused(decide::refuse_ended(act, state, past)))
}

pub(super) fn lease_end(sql: &Sql<'_>, lease: LeaseRef) -> StoreResult<Option<LeaseEnd>> {
    let parameters = params![lease.run.0.as_bytes(), lease.epoch.code()];
    sql.one(statements::READ_LEASE_END, parameters, |row| rows::maybe(row, 0, rows::lease_end))
}
