//! claim: hands runs of one queue to waiting workers.
//!
//! One waiting worker is served in one round trip where nothing special is asked for (`at_once`). Several take two: begin,
//! open and pick travel together, and so do hand out and commit. What a
//! rate, a key limit or a worker that cannot take its share asks for comes on top. Locks are taken in one order
//! everywhere: rows of live, then a queue's key lock or row, then rows of workers by their identifiers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use baton_core::matching::Fate;
use baton_core::order::LEVELS;
use baton_core::rate::{self, Bucket};
use baton_core::{Answered, Millis, WorkerId};
use futures_util::future::join;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::answered::answered_of;
use super::deal::{Deal, Picked, Place, raise, shares};
use super::params::params;
use super::pool::{Outcome, Session, retried};
use super::{rows, sql};
use crate::{
    CLAIM_BYTES_MAX, ClaimAnswer, ClaimRequest, ClaimSlot, Claimed, LaneId, QueueId, SlotRefused, WorkerStatus,
};

/// Most runs of each lane that one claim makes claimable because they have become due.
const PROMOTE_MAX: i64 = 1_000;
/// How often one claim reads on behind runs whose key is full.
const ROUNDS_MAX: u32 = 8;
/// How often a claim starts over because workers could not take their share.
const MATCHES_MAX: u32 = 32;

/// What a claim knows of its queue.
struct Opened {
    now: Millis,
    is_paused: bool,
    paused_until: Option<Millis>,
    rate_per_second: Option<f64>,
    key_limit: Option<i32>,
    next_due_at: Option<Millis>,
    promoted: i64,
}

/// How one attempt to hand out ended.
enum Dealt {
    Done(ClaimAnswer),
    /// Some of these slots' workers could not take so many runs; nothing was handed out.
    NotAllFit(BTreeMap<usize, u32>),
}

impl PostgresStore {
    pub(super) async fn claim_runs(&self, request: &ClaimRequest) -> Outcome<ClaimAnswer> {
        let mut deal = Deal::new(request);
        if let Some(answer) = retried!(self.claim_at_once(&deal))? {
            return Ok(answer);
        }
        // Without a number it cannot be compared later, when runs are handed out, so it is looked up first.
        self.repeat_answered(&mut deal, |_, slot| slot.claim_no <= 0).await?;
        for _ in 0..MATCHES_MAX {
            match retried!(self.deal(&deal))? {
                Dealt::Done(answer) => {
                    let given: HashSet<usize> = answer.claimed.iter().map(|one| one.slot).collect();
                    let is_open = |index, slot: &ClaimSlot| slot.claim_no > 0 && !given.contains(&index);
                    self.repeat_answered(&mut deal, is_open).await?;
                    return Ok(deal.finish(answer));
                }
                Dealt::NotAllFit(shares) => self.find_unfit(&mut deal, &shares).await?,
            }
        }
        Ok(deal.finish(ClaimAnswer { more: true, ..ClaimAnswer::default() }))
    }

    /// One transaction: everything that was matched is handed out, or nothing.
    async fn deal(&self, deal: &Deal<'_>) -> Outcome<Dealt> {
        let queue = deal.request.queue;
        let takes = deal.takes();
        let rows = takes.iter().map(|(_, take)| *take as usize).sum::<usize>().max(deal.lanes.len());
        let session = self.database.transaction_often(rows).await?;
        let reading = self.cursor.read(&deal.lanes);
        let open = open(self, &session, queue, &deal.lanes);
        let (opened, mut picked) = match takes.is_empty() {
            true => (open.await?, Vec::new()),
            false => {
                let (opened, picked) = join(open, pick(self, &session, sql::PICK_RUNS, queue, &takes)).await;
                (opened?, picked?)
            }
        };
        let Some(opened) = opened else {
            session.commit().await?;
            return Ok(Dealt::Done(ClaimAnswer::default()));
        };
        if opened.is_paused {
            session.commit().await?;
            let left = opened.paused_until.filter(|until| *until != Millis::MAX).map(|until| until - opened.now);
            return Ok(Dealt::Done(ClaimAnswer { next_in_ms: left, ..ClaimAnswer::default() }));
        }
        // Hints did not know of these runs yet when the pick was sent.
        if opened.promoted > 0 && !takes.is_empty() {
            picked = pick(self, &session, sql::PICK_RUNS, queue, &takes).await?;
        }
        let head: Vec<Place> = picked.iter().map(Picked::place).collect();
        // Another claim is at work on the same runs: this one takes those behind them.
        let contended = picked.iter().any(|one| !one.is_ours);
        if contended {
            picked = pick(self, &session, sql::PICK_FREE_RUNS, queue, &takes).await?;
        }
        let bucket = match opened.rate_per_second {
            Some(_) if !picked.is_empty() => lock_rate(&session, queue).await?,
            Some(_) | None => None,
        };
        let allowed = bucket.map_or(u32::MAX, |(bucket, rate)| rate::take(bucket, rate, opened.now, u32::MAX).0);
        if opened.key_limit.is_some() && picked.iter().any(|one| one.key.is_some()) {
            session.query(sql::LOCK_KEYS, params![queue]).await?;
        }
        let (mut round, mut blocked, mut gone) = (0, BTreeSet::new(), HashSet::new());
        let (mut fates, rate_cut) = loop {
            let room = key_room(&session, queue, opened.key_limit, &picked).await?;
            let (fates, rate_cut) = deal.assign(&picked, &room, allowed);
            let full: Vec<&Picked> =
                picked.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::KeyFull).map(|(one, _)| one).collect();
            if full.is_empty() {
                break (fates, rate_cut);
            }
            gone.extend(block(&session, &full).await?);
            blocked.extend(full.into_iter().filter_map(|one| one.key.clone()).map(|key| (queue, key)));
            if round == ROUNDS_MAX || rate_cut || !deal.wants_more(&fates, &picked, &takes) {
                break (fates, rate_cut);
            }
            round += 1;
            picked = pick(self, &session, sql::PICK_FREE_RUNS, queue, &takes).await?;
        };
        let others_wait = deal.keep_near_numbers(&mut fates);
        let shares = shares(&fates);
        let bucket_left =
            bucket.map(|(bucket, rate)| (rate::take(bucket, rate, opened.now, shares.values().sum()).1, rate));
        let claimed = match shares.is_empty() {
            true => Vec::new(),
            false => {
                let hand_out = hand_out(&session, deal, opened.now, &picked, &fates);
                if bucket.is_none() && blocked.is_empty() {
                    let (claimed, committed) = join(hand_out, session.commit()).await;
                    let claimed = claimed?;
                    committed?;
                    claimed
                } else {
                    hand_out.await?
                }
            }
        };
        if claimed.is_empty() && !shares.is_empty() {
            // Runs that were set aside for others of their key must not stay there when those are not handed out.
            session.roll_back().await?;
            return Ok(Dealt::NotAllFit(shares));
        }
        if let Some((left, _)) = bucket_left {
            session.query(sql::TAKE_RATE, params![queue, left.tokens, left.at]).await?;
        }
        session.commit().await?;
        gone.extend(claimed.iter().map(|one| one.run.0));
        raise(&reading, &head, &gone);
        drop(reading);
        if !blocked.is_empty() {
            // A run of such a key may have ended before it could see that others wait for it.
            self.unblock_after(&blocked.into_iter().collect::<Vec<_>>()).await;
        }
        let rate_wait = bucket_left.filter(|_| rate_cut).map(|(left, rate)| rate::wait_ms(left, rate, opened.now));
        let due_wait = opened.next_due_at.map(|due_at| due_at - opened.now);
        Ok(Dealt::Done(ClaimAnswer {
            claimed,
            again: Vec::new(),
            refused: Vec::new(),
            more: others_wait
                || opened.promoted >= PROMOTE_MAX
                || !rate_cut
                    && (deal.wants_more(&fates, &picked, &takes)
                        || (contended || Deal::is_heavy(&picked)) && deal.has_room(&fates)),
            next_in_ms: rate_wait.into_iter().chain(due_wait).min(),
        }))
    }

    /// Finds out who could not take their share, and lowers their slots' room to what they can.
    async fn find_unfit(&self, deal: &mut Deal<'_>, shares: &BTreeMap<usize, u32>) -> Outcome<()> {
        let slots = &deal.request.slots;
        let workers: Vec<Uuid> = shares.keys().map(|slot| slots[*slot].worker.0).collect();
        let mut found: HashMap<WorkerId, Result<u32, SlotRefused>> = HashMap::new();
        let mut answered: HashMap<WorkerId, Answered> = HashMap::new();
        for row in self.database.query(sql::READ_FITNESS, params![workers]).await? {
            let room = match rows::worker_status(row.try_get("status")?)? {
                WorkerStatus::Draining => Err(SlotRefused::Draining),
                WorkerStatus::Offline => Err(SlotRefused::Offline),
                WorkerStatus::Online if row.try_get("is_unfit")? => Err(SlotRefused::Unfit),
                WorkerStatus::Online => Ok(row.try_get::<_, i32>("room")?.max(0) as u32),
            };
            let worker = WorkerId(row.try_get("worker_id")?);
            found.insert(worker, room);
            answered.insert(worker, answered_of(&row)?);
        }
        let is_answered = |slot: &usize| {
            let slot = &slots[*slot];
            answered.get(&slot.worker).is_some_and(|answered| answered.has(slot.claim_no))
        };
        let again: Vec<usize> = shares.keys().copied().filter(is_answered).collect();
        let others = shares.iter().filter(|(slot, _)| !again.contains(slot)).map(|(slot, share)| (*slot, *share));
        deal.lower_rooms(&others.collect(), found);
        self.repeat(deal, again).await
    }
}

async fn open(
    store: &PostgresStore,
    session: &Session<'_>,
    queue: QueueId,
    lanes: &[LaneId],
) -> Outcome<Option<Opened>> {
    let (now, lanes) = (store.database.fixed_now(), lanes.to_vec());
    let found = session.query_often(sql::OPEN_CLAIM, params![now, queue, lanes, PROMOTE_MAX], lanes.len()).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let now: Millis = row.try_get("now")?;
    let paused_until: Option<Millis> = row.try_get("paused_until")?;
    let promoted: i64 = row.try_get("promoted")?;
    if promoted > 0 {
        let (lanes, levels): (Vec<LaneId>, Vec<i16>) = (row.try_get("lanes")?, row.try_get("levels")?);
        for ((lane, level), place) in lanes.iter().zip(levels).zip(row.try_get::<_, Vec<Millis>>("places")?) {
            store.cursor.lower(*lane, level, place);
        }
    }
    Ok(Some(Opened {
        now,
        is_paused: paused_until.is_some_and(|until| until > now),
        paused_until,
        rate_per_second: row.try_get("rate_per_second")?,
        key_limit: row.try_get("key_limit")?,
        next_due_at: row.try_get("next_due_at")?,
        promoted,
    }))
}

async fn pick(
    store: &PostgresStore,
    session: &Session<'_>,
    statement: &str,
    queue: QueueId,
    takes: &[(LaneId, i64)],
) -> Outcome<Vec<Picked>> {
    let lanes: Vec<LaneId> = takes.iter().map(|(lane, _)| *lane).collect();
    let counts: Vec<i64> = takes.iter().map(|(_, take)| *take).collect();
    let from = store.cursor.starts(&lanes);
    let most: i64 = counts.iter().sum();
    let levels = i32::from(LEVELS);
    let bytes = CLAIM_BYTES_MAX as i64;
    let params = params![queue, lanes, counts, from, levels, most, bytes];
    let rows = match statement == sql::PICK_RUNS {
        true => session.query_often(statement, params, most as usize).await?,
        false => session.query(statement, params).await?,
    };
    rows.iter().map(read_picked).collect()
}

fn read_picked(row: &Row) -> Outcome<Picked> {
    Ok(Picked {
        run: row.try_get(0)?,
        lane: row.try_get(1)?,
        level: row.try_get(2)?,
        order_at: row.try_get(3)?,
        is_ours: row.try_get(4)?,
        key: row.try_get(5)?,
        preferred: row.try_get(6)?,
        spot: row.try_get(7)?,
        size: row.try_get(8)?,
    })
}

async fn lock_rate(session: &Session<'_>, queue: QueueId) -> Outcome<Option<(Bucket, f64)>> {
    let rows = session.query(sql::LOCK_RATE, params![queue]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let rate: Option<f64> = row.try_get("rate_per_second")?;
    let bucket = Bucket { tokens: row.try_get("rate_tokens")?, at: row.try_get("rate_at")? };
    Ok(rate.map(|rate| (bucket, rate)))
}

/// How many more runs of each picked key may be held.
async fn key_room(
    session: &Session<'_>,
    queue: QueueId,
    limit: Option<i32>,
    picked: &[Picked],
) -> Outcome<HashMap<String, u32>> {
    let keys: BTreeSet<&str> = picked.iter().filter_map(|one| one.key.as_deref()).collect();
    let Some(limit) = limit.filter(|_| !keys.is_empty()) else { return Ok(HashMap::new()) };
    let keys: Vec<&str> = keys.into_iter().collect();
    let counted = session.query(sql::COUNT_KEYS, params![queue, keys]).await?;
    let room = |row: &Row| Ok((row.try_get(0)?, (i64::from(limit) - row.try_get::<_, i64>(1)?).max(0) as u32));
    counted.iter().map(room).collect()
}

async fn block(session: &Session<'_>, full: &[&Picked]) -> Outcome<Vec<Uuid>> {
    let runs: Vec<Uuid> = full.iter().map(|one| one.run).collect();
    session.query(sql::BLOCK_RUNS, params![runs]).await?;
    Ok(runs)
}

/// Hands out what was matched; nothing comes back when a worker cannot take its share.
async fn hand_out(
    session: &Session<'_>,
    deal: &Deal<'_>,
    now: Millis,
    picked: &[Picked],
    fates: &[Fate],
) -> Outcome<Vec<Claimed>> {
    let mut by_worker: BTreeMap<Uuid, (i32, Answered)> = BTreeMap::new();
    let mut given = Vec::new();
    for (one, fate) in picked.iter().zip(fates) {
        if let Fate::Slot(slot) = fate {
            let slot_of = &deal.request.slots[*slot];
            let (runs, numbers) = by_worker.entry(slot_of.worker.0).or_default();
            *runs += 1;
            *numbers = numbers.with(slot_of.claim_no);
            given.push((one, *slot));
        }
    }
    let workers: Vec<Uuid> = by_worker.keys().copied().collect();
    let counts: Vec<i32> = by_worker.values().map(|(runs, _)| *runs).collect();
    let numbers: Vec<i64> = by_worker.values().map(|(_, numbers)| numbers.last).collect();
    let bits: Vec<i64> = by_worker.values().map(|(_, numbers)| numbers.bits).collect();
    let slot_of = |(_, slot): &(&Picked, usize)| &deal.request.slots[*slot];
    let runs: Vec<Uuid> = given.iter().map(|(one, _)| one.run).collect();
    let holders: Vec<Uuid> = given.iter().map(|one| slot_of(one).worker.0).collect();
    let claim_nos: Vec<i64> = given.iter().map(|one| slot_of(one).claim_no).collect();
    let starts: Vec<bool> = given.iter().map(|one| slot_of(one).start).collect();
    let spots: Vec<Option<&str>> = given.iter().map(|(one, _)| one.spot.as_deref()).collect();
    let leases: Vec<Option<Millis>> = given.iter().map(|one| slot_of(one).lease_ms).collect();
    let mark = deal.request.mark();
    let rows = session
        .query_often(
            sql::CLAIM_RUNS,
            params![now, workers, counts, runs, holders, claim_nos, starts, leases, spots, numbers, mark, bits],
            runs.len(),
        )
        .await?;
    let mut claimed = Vec::with_capacity(rows.len());
    for row in &rows {
        let ordinal = row.try_get::<_, i64>("ordinal")? as usize;
        claimed.push((ordinal, rows::claimed(row, given[ordinal - 1].1)?));
    }
    claimed.sort_by_key(|(ordinal, _)| *ordinal);
    Ok(claimed.into_iter().map(|(_, claimed)| claimed).collect())
}
