//! claim: hands runs of one queue to waiting workers.
//!
//! The plain case takes two round trips: begin, open and pick travel together, and so do hand out and commit. What a
//! rate, a key limit or a worker that cannot take its share asks for comes on top. Locks are taken in one order
//! everywhere: rows of live, then a queue's key lock or row, then rows of workers by their identifiers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use baton_core::matching::{self, Candidate, Fate};
use baton_core::order::LEVELS;
use baton_core::rate::{self, Bucket};
use baton_core::{Millis, WorkerId};
use futures_util::future::join;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::cursor::{Reading, START};
use super::params::params;
use super::pool::{Outcome, Session, retried};
use super::{rows, sql};
use crate::{CLAIM_RUNS_MAX, ClaimAnswer, ClaimRequest, LaneId, QueueId, SlotRefused, WorkerStatus};

/// Most runs of each lane that one claim makes claimable because they have become due.
const PROMOTE_MAX: i64 = 1_000;
/// How often one claim reads on behind runs whose key is full.
const ROUNDS_MAX: u32 = 8;
/// How often a claim starts over because workers could not take their share.
const MATCHES_MAX: u32 = 32;

/// A run that was picked.
struct Picked {
    run: Uuid,
    lane: LaneId,
    level: i16,
    order_at: Millis,
    /// False when somebody else was faster.
    is_ours: bool,
    key: Option<String>,
    preferred: Option<String>,
}

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

/// A claim, with what has been found out about its workers.
struct Deal<'a> {
    request: &'a ClaimRequest,
    limit: usize,
    /// All lanes of the slots.
    lanes: Vec<LaneId>,
    /// Room of each slot, less what its worker was found unable to take.
    rooms: Vec<u32>,
    refused: BTreeMap<usize, SlotRefused>,
}

impl Deal<'_> {
    /// How many runs of each lane can be handed out at most; lanes that nobody has room for are left out.
    fn takes(&self) -> Vec<(LaneId, i64)> {
        let room_of = |lane: LaneId| {
            let slots = self.request.slots.iter().zip(&self.rooms);
            slots.filter(|(slot, _)| slot.lanes.binary_search(&lane).is_ok()).map(|(_, room)| i64::from(*room)).sum()
        };
        let most = self.limit as i64;
        self.lanes.iter().map(|lane| (*lane, most.min(room_of(*lane)))).filter(|(_, take)| *take > 0).collect()
    }

    fn slots(&self) -> Vec<matching::Slot<'_>> {
        let slots = self.request.slots.iter().zip(&self.rooms);
        slots.map(|(slot, room)| matching::Slot { name: &slot.name, lanes: &slot.lanes, room: *room }).collect()
    }

    fn rooms_left(&self, fates: &[Fate]) -> Vec<u32> {
        let mut rooms = self.rooms.clone();
        for fate in fates {
            if let Fate::Slot(slot) = fate {
                rooms[*slot] -= 1;
            }
        }
        rooms
    }

    fn has_room(&self, fates: &[Fate]) -> bool {
        self.rooms_left(fates).iter().any(|room| *room > 0)
    }

    /// True when a slot still has room for a lane of which more runs may be there than were read.
    fn wants_more(&self, fates: &[Fate], picked: &[Picked], takes: &[(LaneId, i64)]) -> bool {
        let rooms = self.rooms_left(fates);
        let is_cut = |lane: &LaneId| {
            let read = picked.iter().filter(|one| one.lane == *lane).count() as i64;
            takes.iter().any(|(other, take)| other == lane && read >= *take)
        };
        let mut slots = self.request.slots.iter().zip(rooms);
        slots.any(|(slot, room)| room > 0 && slot.lanes.iter().any(is_cut))
    }
}

impl PostgresStore {
    pub(super) async fn claim_runs(&self, request: &ClaimRequest) -> Outcome<ClaimAnswer> {
        let lanes: BTreeSet<LaneId> = request.slots.iter().flat_map(|slot| slot.lanes.iter().copied()).collect();
        let mut deal = Deal {
            request,
            limit: request.limit.min(CLAIM_RUNS_MAX),
            lanes: lanes.into_iter().collect(),
            rooms: request.slots.iter().map(|slot| slot.room).collect(),
            refused: BTreeMap::new(),
        };
        for _ in 0..MATCHES_MAX {
            match retried!(self.deal(&deal))? {
                Dealt::Done(answer) => {
                    return Ok(ClaimAnswer { refused: deal.refused.into_iter().collect(), ..answer });
                }
                Dealt::NotAllFit(shares) => self.find_unfit(&mut deal, &shares).await?,
            }
        }
        Ok(ClaimAnswer { refused: deal.refused.into_iter().collect(), more: true, ..ClaimAnswer::default() })
    }

    /// One transaction: everything that was matched is handed out, or nothing.
    async fn deal(&self, deal: &Deal<'_>) -> Outcome<Dealt> {
        let queue = deal.request.queue;
        let session = self.database.transaction().await?;
        let reading = self.cursor.read(&deal.lanes);
        let takes = deal.takes();
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
        let head: Vec<(LaneId, i16, Millis, Uuid)> =
            picked.iter().map(|one| (one.lane, one.level, one.order_at, one.run)).collect();
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
        let (fates, rate_cut) = loop {
            let room = key_room(&session, queue, opened.key_limit, &picked).await?;
            let (fates, rate_cut) = assign(deal, &picked, &room, allowed);
            let full = keys_of(&picked, &fates);
            let go_on = !full.is_empty() && !rate_cut && deal.wants_more(&fates, &picked, &takes);
            if !full.is_empty() {
                gone.extend(block(&session, &picked, &fates).await?);
                blocked.extend(full);
            }
            if !go_on || round == ROUNDS_MAX {
                break (fates, rate_cut);
            }
            round += 1;
            picked = pick(self, &session, sql::PICK_FREE_RUNS, queue, &takes).await?;
        };
        let shares = shares(&fates);
        let bucket_left =
            bucket.map(|(bucket, rate)| (rate::take(bucket, rate, opened.now, shares.values().sum()).1, rate));
        let claimed = match shares.is_empty() {
            true => Vec::new(),
            false => hand_out(&session, deal, opened.now, &picked, &fates, bucket_left.map(|(left, _)| left)).await?,
        };
        session.commit().await?;
        if claimed.is_empty() && !shares.is_empty() {
            return Ok(Dealt::NotAllFit(shares));
        }
        gone.extend(claimed.iter().map(|one| one.run.0));
        raise(&reading, &head, &gone);
        drop(reading);
        if !blocked.is_empty() {
            // A run of such a key may have ended before it could see that others wait for it.
            let pairs: Vec<(QueueId, String)> = blocked.into_iter().map(|key| (queue, key)).collect();
            self.unblock_after(&pairs).await;
        }
        let rate_wait = bucket_left.filter(|_| rate_cut).map(|(left, rate)| rate::wait_ms(left, rate, opened.now));
        let due_wait = opened.next_due_at.map(|due_at| due_at - opened.now);
        Ok(Dealt::Done(ClaimAnswer {
            claimed,
            refused: Vec::new(),
            more: opened.promoted >= PROMOTE_MAX
                || !rate_cut && (deal.wants_more(&fates, &picked, &takes) || contended && deal.has_room(&fates)),
            next_in_ms: rate_wait.into_iter().chain(due_wait).min(),
        }))
    }

    /// Finds out who could not take their share, and lowers their slots' room to what they can.
    async fn find_unfit(&self, deal: &mut Deal<'_>, shares: &BTreeMap<usize, u32>) -> Outcome<()> {
        let slots = &deal.request.slots;
        let workers: Vec<Uuid> = shares.keys().map(|slot| slots[*slot].worker.0).collect();
        let mut found: HashMap<WorkerId, (Option<SlotRefused>, u32)> = HashMap::new();
        for row in self.database.query(sql::READ_FITNESS, params![workers]).await? {
            let refused = match rows::worker_status(row.try_get("status")?)? {
                WorkerStatus::Draining => Some(SlotRefused::Draining),
                WorkerStatus::Offline => Some(SlotRefused::Offline),
                WorkerStatus::Online if row.try_get("is_unfit")? => Some(SlotRefused::Unfit),
                WorkerStatus::Online => None,
            };
            let room = row.try_get::<_, i32>("room")?.max(0) as u32;
            found.insert(WorkerId(row.try_get("worker_id")?), (refused, room));
        }
        for (slot, share) in shares {
            let (room, refused) = match found.get_mut(&slots[*slot].worker) {
                None => (0, Some(SlotRefused::Unknown)),
                Some((Some(refused), _)) => (0, Some(*refused)),
                // A worker may wait in several slots; they share its room.
                Some((None, room)) => {
                    let given = (*room).min(*share);
                    *room -= given;
                    if given == *share { (deal.rooms[*slot], None) } else { (given, Some(SlotRefused::Full)) }
                }
            };
            deal.rooms[*slot] = room;
            if let Some(refused) = refused {
                deal.refused.insert(*slot, refused);
            }
        }
        Ok(())
    }
}

async fn open(
    store: &PostgresStore,
    session: &Session<'_>,
    queue: QueueId,
    lanes: &[LaneId],
) -> Outcome<Option<Opened>> {
    let (now, lanes) = (store.database.fixed_now(), lanes.to_vec());
    let found = session.query(sql::OPEN_CLAIM, params![now, queue, lanes, PROMOTE_MAX]).await?;
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
    let rows = session.query(statement, params![queue, lanes, counts, from, i32::from(LEVELS), most]).await?;
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

/// The fate of every picked run, and whether the queue's rate kept some from being handed out.
fn assign(deal: &Deal<'_>, picked: &[Picked], room: &HashMap<String, u32>, allowed: u32) -> (Vec<Fate>, bool) {
    let ours: Vec<&Picked> = picked.iter().filter(|one| one.is_ours).collect();
    let candidates: Vec<Candidate<'_>> = ours
        .iter()
        .map(|one| Candidate { lane: one.lane, key: one.key.as_deref(), preferred: one.preferred.as_deref() })
        .collect();
    let room: HashMap<&str, u32> = room.iter().map(|(key, room)| (key.as_str(), *room)).collect();
    let slots = deal.slots();
    let deal_out = |most: u32| matching::assign(&candidates, &slots, &room, most);
    let handed = |fates: &[Fate]| fates.iter().filter(|fate| matches!(fate, Fate::Slot(_))).count();
    let limit = deal.limit as u32;
    let found = deal_out(limit.min(allowed));
    let rate_cut = allowed < limit && handed(&deal_out(limit)) > handed(&found);
    let mut found = found.into_iter();
    let fates = picked.iter().map(|one| if one.is_ours { found.next() } else { None });
    (fates.map(|fate| fate.unwrap_or(Fate::NoRoom)).collect(), rate_cut)
}

fn keys_of(picked: &[Picked], fates: &[Fate]) -> BTreeSet<String> {
    let full = picked.iter().zip(fates).filter(|(_, fate)| **fate == Fate::KeyFull);
    full.filter_map(|(one, _)| one.key.clone()).collect()
}

async fn block(session: &Session<'_>, picked: &[Picked], fates: &[Fate]) -> Outcome<Vec<Uuid>> {
    let full = picked.iter().zip(fates).filter(|(_, fate)| **fate == Fate::KeyFull);
    let runs: Vec<Uuid> = full.map(|(one, _)| one.run).collect();
    session.query(sql::BLOCK_RUNS, params![runs]).await?;
    Ok(runs)
}

/// How many runs each slot gets.
fn shares(fates: &[Fate]) -> BTreeMap<usize, u32> {
    let mut shares = BTreeMap::new();
    for fate in fates {
        if let Fate::Slot(slot) = fate {
            *shares.entry(*slot).or_insert(0) += 1;
        }
    }
    shares
}

/// Hands out what was matched and commits; nothing comes back when a worker cannot take its share.
async fn hand_out(
    session: &Session<'_>,
    deal: &Deal<'_>,
    now: Millis,
    picked: &[Picked],
    fates: &[Fate],
    bucket_left: Option<Bucket>,
) -> Outcome<Vec<crate::Claimed>> {
    let mut by_worker: BTreeMap<Uuid, i32> = BTreeMap::new();
    let mut given = Vec::new();
    for (one, fate) in picked.iter().zip(fates) {
        if let Fate::Slot(slot) = fate {
            *by_worker.entry(deal.request.slots[*slot].worker.0).or_default() += 1;
            given.push((one.run, *slot));
        }
    }
    let (workers, counts): (Vec<Uuid>, Vec<i32>) = by_worker.into_iter().unzip();
    let slot_of = |(_, slot): &(Uuid, usize)| &deal.request.slots[*slot];
    let runs: Vec<Uuid> = given.iter().map(|(run, _)| *run).collect();
    let holders: Vec<Uuid> = given.iter().map(|one| slot_of(one).worker.0).collect();
    let claim_nos: Vec<i64> = given.iter().map(|one| slot_of(one).claim_no).collect();
    let starts: Vec<bool> = given.iter().map(|one| slot_of(one).start).collect();
    let leases: Vec<Option<Millis>> = given.iter().map(|one| slot_of(one).lease_ms).collect();
    let params = params![now, workers, counts, runs, holders, claim_nos, starts, leases];
    let write = session.query(sql::CLAIM_RUNS, params);
    let rows = match bucket_left {
        None => {
            let (rows, committed) = join(write, session.commit()).await;
            let rows = rows?;
            committed?;
            rows
        }
        Some(left) => {
            let rows = write.await?;
            if !rows.is_empty() {
                session.query(sql::TAKE_RATE, params![deal.request.queue, left.tokens, left.at]).await?;
            }
            rows
        }
    };
    let mut claimed = Vec::with_capacity(rows.len());
    for row in &rows {
        let ordinal = row.try_get::<_, i64>("ordinal")? as usize;
        claimed.push((ordinal, rows::claimed(row, given[ordinal - 1].1)?));
    }
    claimed.sort_by_key(|(ordinal, _)| *ordinal);
    Ok(claimed.into_iter().map(|(_, claimed)| claimed).collect())
}

/// Moves the hints up over what is gone from the head of each level without a gap.
fn raise(reading: &Reading<'_>, head: &[(LaneId, i16, Millis, Uuid)], gone: &HashSet<Uuid>) {
    let mut levels: HashMap<(LaneId, i16), (Millis, bool)> = HashMap::new();
    for (lane, level, order_at, run) in head {
        let (place, gap) = levels.entry((*lane, *level)).or_insert((START, false));
        *gap |= !gone.contains(run);
        if !*gap {
            *place = *order_at;
        }
    }
    for ((lane, level), (place, _)) in levels {
        reading.raise(lane, level, place);
    }
}
