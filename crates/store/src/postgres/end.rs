//! The verbs that end leases one by one: read the rows under their lock, let the rules decide, write sets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use baton_core::machine::Expiry;
use baton_core::{LeaseEnd, Millis, RunId, State};
use futures_util::future::join_all;
use uuid::Uuid;

use super::PostgresStore;
use super::columns::{EndedColumns, ReturnedColumns};
use super::params::params;
use super::pool::{Outcome, Session};
use super::rows::{self, epoch, run_id};
use super::sql;
use crate::decide::{Act, Decision, LiveRow, Place, decide, refuse_ended};
use crate::memory::NO_LEASE;
use crate::{Changes, LaneId, LeaseRef, QueueId, Verdict, Woken};

/// Most runs of one key that become claimable when one of them ends and the key has no limit any more.
const UNBLOCK_MAX: i64 = 100;

/// What is known of some runs: their live rows, and how their past leases ended.
pub(super) struct Records {
    pub(super) now: Millis,
    pub(super) live: HashMap<RunId, LiveRow>,
    ended: HashMap<RunId, State>,
    past: HashMap<LeaseRef, LeaseEnd>,
}

impl Records {
    /// Reads with `statement`, and looks for the past of leases that are not the current ones.
    pub(super) async fn read(
        session: &Session<'_>,
        statement: &str,
        fixed: Option<Millis>,
        leases: &[LeaseRef],
    ) -> Outcome<Records> {
        let runs: BTreeSet<Uuid> = leases.iter().map(|lease| lease.run.0).collect();
        let runs: Vec<Uuid> = runs.into_iter().collect();
        let mut records = Records::of(&session.query(statement, params![fixed, runs]).await?)?;
        let has_past = |lease: &&LeaseRef| match records.live.get(&lease.run) {
            Some(row) => lease.epoch != NO_LEASE && !(row.rules.state.is_held() && row.rules.epoch == lease.epoch),
            None => true,
        };
        let others: Vec<LeaseRef> = leases.iter().filter(has_past).copied().collect();
        records.read_past(session, &others).await?;
        Ok(records)
    }

    /// The records of live rows that were read already.
    pub(super) fn of(read: &[tokio_postgres::Row]) -> Outcome<Records> {
        let mut records = Records { now: 0, live: HashMap::new(), ended: HashMap::new(), past: HashMap::new() };
        for row in read {
            records.now = row.try_get("now")?;
            let row = rows::live(row)?;
            records.live.insert(row.run, row);
        }
        Ok(records)
    }

    async fn read_past(&mut self, session: &Session<'_>, leases: &[LeaseRef]) -> Outcome<()> {
        if leases.is_empty() {
            return Ok(());
        }
        let runs: Vec<Uuid> = leases.iter().map(|lease| lease.run.0).collect();
        let epochs: Vec<i64> = leases.iter().map(|lease| lease.epoch.code()).collect();
        for row in session.query(sql::FIND_PAST, params![runs, epochs]).await? {
            let run = run_id(&row, "run_id")?;
            if let Some(code) = row.try_get("state")? {
                self.ended.insert(run, rows::state(code)?);
            }
            if let Some(code) = row.try_get("lease_end")? {
                self.past.insert(LeaseRef { run, epoch: epoch(&row, "epoch")? }, rows::lease_end(code)?);
            }
        }
        Ok(())
    }

    pub(super) fn past(&self, lease: LeaseRef) -> Option<LeaseEnd> {
        self.past.get(&lease).copied()
    }

    /// The answer for a run that is not among the live ones.
    pub(super) fn refuse(&self, lease: LeaseRef, act: &Act<'_>) -> Verdict {
        match self.ended.get(&lease.run) {
            Some(state) => Verdict::Refused(refuse_ended(act, *state, self.past(lease))),
            None => Verdict::Unknown,
        }
    }
}

/// What a batch of decisions has to write, and whom it wakes.
#[derive(Default)]
pub(super) struct Writes {
    ended: Vec<(LiveRow, Decision)>,
    returned: Vec<(LiveRow, Decision)>,
    cancelling: Vec<(Uuid, Option<Millis>)>,
    awake: Vec<(LiveRow, Decision)>,
    /// Ended leases of each worker, and how many of them failed.
    leases: BTreeMap<Uuid, (i32, i32)>,
    /// Keys of ended leases, whose other runs may wait for room.
    freed: BTreeSet<(QueueId, String)>,
    /// Places that become claimable.
    ready: Vec<(LaneId, i16, Millis)>,
    pub(super) woken: Woken,
}

impl Writes {
    /// Decides about one run, notes what is to be written, and keeps the records as they will be, so that a second
    /// act on the same run sees the effect of the first.
    pub(super) fn act(&mut self, records: &mut Records, lease: LeaseRef, act: &Act<'_>, jitter: f64) -> Verdict {
        let now = records.now;
        let Some(row) = records.live.get(&lease.run) else { return records.refuse(lease, act) };
        let decision = match decide(row, act, lease, records.past(lease), now, jitter) {
            Ok(decision) => decision,
            Err(refused) => return Verdict::Refused(refused),
        };
        let (row, verdict) = (row.clone(), decision.verdict());
        if let Some(end) = decision.end {
            records.past.insert(LeaseRef { run: row.run, epoch: row.rules.epoch }, end);
            let failed = matches!(act, Act::Fail(_) | Act::Expire(Expiry::Timeout, _));
            if let Some(worker) = row.worker {
                let (leases, failures) = self.leases.entry(worker.0).or_default();
                *leases += 1;
                *failures += i32::from(failed);
            }
            self.freed.extend(row.key.clone().map(|key| (row.queue, key)));
        }
        decision.wake(&row, now, &mut self.woken);
        if decision.next.state.is_ended() {
            records.live.remove(&row.run);
            records.ended.insert(row.run, decision.next.state);
            self.ended.push((row, decision));
        } else if decision.end.is_some() {
            let after = LiveRow {
                rules: decision.next,
                order_at: decision.order_at,
                worker: None,
                claimed_at: None,
                started_at: None,
                ..row.clone()
            };
            records.live.insert(row.run, after);
            if decision.next.due_at <= now {
                self.ready.push((row.lane, decision.level, decision.order_at));
            }
            self.returned.push((row, decision));
        } else if decision.place != Place::Held {
            records.live.insert(row.run, LiveRow { rules: decision.next, order_at: decision.order_at, ..row.clone() });
            self.ready.push((row.lane, decision.level, decision.order_at));
            self.awake.push((row, decision));
        } else {
            records.live.insert(row.run, LiveRow { rules: decision.next, ..row.clone() });
            self.cancelling.push((row.run.0, decision.next.cancel_by));
        }
        verdict
    }
}

impl PostgresStore {
    /// One verb on several runs, in one transaction.
    pub(super) async fn act_all(&self, acts: &[(LeaseRef, Act<'_>)], jitter: f64) -> Outcome<Changes> {
        if acts.is_empty() {
            return Ok(Changes::default());
        }
        let session = self.database.transaction().await?;
        self.act_within(&session, acts, jitter).await
    }

    /// Carries out acts and commits.
    pub(super) async fn act_within(
        &self,
        session: &Session<'_>,
        acts: &[(LeaseRef, Act<'_>)],
        jitter: f64,
    ) -> Outcome<Changes> {
        let leases: Vec<LeaseRef> = acts.iter().map(|(lease, _)| *lease).collect();
        let mut records = Records::read(session, sql::HOLD_RUNS, self.database.fixed_now(), &leases).await?;
        let mut writes = Writes::default();
        let verdicts = acts.iter().map(|(lease, act)| writes.act(&mut records, *lease, act, jitter)).collect();
        let woken = self.write(session, writes, records.now).await?;
        Ok(Changes { verdicts, woken })
    }

    /// Writes, commits, and then does what follows from it.
    pub(super) async fn write(&self, session: &Session<'_>, writes: Writes, now: Millis) -> Outcome<Woken> {
        let ended = EndedColumns::of(&writes.ended);
        let returned = ReturnedColumns::of(&writes.returned);
        let (cancelling, cancel_by): (Vec<Uuid>, Vec<Option<Millis>>) = writes.cancelling.iter().copied().unzip();
        let workers: Vec<Uuid> = writes.leases.keys().copied().collect();
        let counts: Vec<i32> = writes.leases.values().map(|(ended, _)| *ended).collect();
        let failures: Vec<i32> = writes.leases.values().map(|(_, failed)| *failed).collect();
        let ended = ended.params(&now);
        let (waiting, attempts) = (returned.params(), returned.attempt_params(&now));
        let marks = params![cancelling, cancel_by];
        let awake: Vec<Uuid> = writes.awake.iter().map(|(row, _)| row.run.0).collect();
        let levels: Vec<i16> = writes.awake.iter().map(|(_, decision)| decision.level).collect();
        let order_at: Vec<Millis> = writes.awake.iter().map(|(_, decision)| decision.order_at).collect();
        let due_at: Vec<Millis> = writes.awake.iter().map(|(_, decision)| decision.next.due_at).collect();
        let woken = params![awake, levels, order_at, due_at];
        let counters = params![workers, counts, failures];
        // Rows of live before rows of workers: the order of locks that all verbs keep.
        let mut statements = Vec::new();
        if !writes.ended.is_empty() {
            statements.push(session.query(sql::END_RUNS, &ended));
        }
        if !writes.returned.is_empty() {
            statements.push(session.query(sql::RETURN_RUNS, &waiting));
            statements.push(session.query(sql::ADD_ATTEMPTS, &attempts));
        }
        if !writes.cancelling.is_empty() {
            statements.push(session.query(sql::CANCEL_HELD_RUNS, marks));
        }
        if !writes.awake.is_empty() {
            statements.push(session.query(sql::WAKE_RUNS, woken));
        }
        if !writes.leases.is_empty() {
            statements.push(session.query(sql::COUNT_LEASES, counters));
        }
        let (written, committed) = futures_util::future::join(join_all(statements), session.commit()).await;
        let written = written.into_iter().collect::<Outcome<Vec<_>>>()?;
        committed?;
        for (lane, level, place) in &writes.ready {
            self.cursor.lower(*lane, *level, *place);
        }
        let mut woken = writes.woken;
        // What ends goes first, and answers with those that have relatives.
        woken.relatives |= !writes.ended.is_empty() && written.first().is_some_and(|rows| !rows.is_empty());
        if !writes.freed.is_empty() {
            let freed: Vec<(QueueId, String)> = writes.freed.into_iter().collect();
            self.unblock_after(&freed).await.lanes.into_iter().for_each(|lane| woken.now(lane));
        }
        Ok(woken)
    }

    /// Makes runs claimable that wait for these keys. The verb before is done whatever becomes of this: what it
    /// misses is found by the pass over all blocked runs.
    pub(super) async fn unblock_after(&self, keys: &[(QueueId, String)]) -> Woken {
        match self.unblock_keys(keys).await {
            Ok(woken) => woken,
            Err(trouble) => {
                tracing::warn!(?trouble, "runs that wait for their key were not looked at; a later pass will");
                Woken::default()
            }
        }
    }

    pub(super) async fn unblock_keys(&self, keys: &[(QueueId, String)]) -> Outcome<Woken> {
        let queues: Vec<QueueId> = keys.iter().map(|(queue, _)| *queue).collect();
        let names: Vec<&str> = keys.iter().map(|(_, key)| key.as_str()).collect();
        let mut woken = Woken::default();
        for row in self.database.query(sql::UNBLOCK_KEYS, params![queues, names, UNBLOCK_MAX]).await? {
            let lane = row.try_get("lane_id")?;
            self.cursor.lower(lane, row.try_get("level")?, row.try_get("order_at")?);
            woken.now(lane);
        }
        Ok(woken)
    }
}
