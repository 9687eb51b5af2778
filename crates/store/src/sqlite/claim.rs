//! Hands runs of one queue to waiting workers.

use std::collections::{BTreeSet, HashMap};

use baton_core::machine::Options;
use baton_core::matching::{self, Fate};
use baton_core::rate::{self, Bucket};
use baton_core::{Answered, Epoch, Millis, RunId, State, WorkerId, mark};
use rusqlite::params;

use super::connection::Sql;
use super::{rows, statements, workers};
use crate::decide::Place;
use crate::{
    CLAIM_BYTES_MAX, CLAIM_RUNS_MAX, ClaimAnswer, ClaimRequest, Claimed, LaneId, SlotRefused, StoreResult, WorkerStatus,
};

/// Most runs that one claim makes claimable because they have become due.
const PROMOTED_MAX: usize = 1_000;
/// How often one claim looks for further runs in place of those that it had to block.
const ROUNDS_MAX: usize = 8;

pub(super) fn claim(sql: &Sql<'_>, request: &ClaimRequest) -> StoreResult<ClaimAnswer> {
    let Some(queue) = read_queue(sql, request)? else { return Ok(ClaimAnswer::default()) };
    let paused_until = queue.paused_until.filter(|until| *until > sql.now);
    let lanes: BTreeSet<LaneId> = request.slots.iter().flat_map(|slot| slot.lanes.iter().copied()).collect();
    let mut claim = Claim {
        sql,
        request,
        queue,
        room: request.slots.iter().map(|slot| slot.room).collect(),
        left: request.limit.min(CLAIM_RUNS_MAX) as u32,
        bytes: 0,
        workers: HashMap::new(),
        answer: ClaimAnswer::default(),
    };
    claim.repeat_asked()?;
    if let Some(until) = paused_until {
        let next_in_ms = (until != Millis::MAX).then(|| until - sql.now);
        return Ok(ClaimAnswer { next_in_ms, ..claim.answer });
    }
    let promoted_all = promote(sql, &lanes)?;
    let mut stopped = Stopped::ForMore;
    for _ in 0..ROUNDS_MAX {
        stopped = claim.round(&lanes)?;
        if stopped != Stopped::ForMore {
            break;
        }
    }
    claim.keep_bucket()?;
    let mut answer = claim.answer;
    answer.more = match stopped {
        Stopped::ForMore | Stopped::AtLimit => true,
        Stopped::AtRate => false,
        Stopped::NothingLeft => !promoted_all && claim.room.iter().any(|room| *room > 0),
    };
    answer.next_in_ms = next_due_in(sql, &lanes)?;
    if let (Stopped::AtRate, Some((per_second, bucket))) = (stopped, claim.queue.rate) {
        // A rate of nothing never allows one, so there is no time to wait for.
        let wait = (per_second > 0.0).then(|| rate::wait_ms(bucket, per_second, sql.now));
        answer.next_in_ms = answer.next_in_ms.into_iter().chain(wait).min();
    }
    Ok(answer)
}

struct ClaimQueue {
    paused_until: Option<Millis>,
    rate: Option<(f64, Bucket)>,
    key_limit: Option<u32>,
}

fn read_queue(sql: &Sql<'_>, request: &ClaimRequest) -> StoreResult<Option<ClaimQueue>> {
    sql.row(statements::READ_CLAIM_QUEUE, params![request.queue], |row| {
        let bucket = Bucket { tokens: row.get(2)?, at: row.get(3)? };
        Ok(ClaimQueue {
            paused_until: row.get(0)?,
            rate: row.get::<_, Option<f64>>(1)?.map(|per_second| (per_second, bucket)),
            key_limit: row.get(4)?,
        })
    })
}

/// Makes runs claimable that have become due. False when there may be more of them.
fn promote(sql: &Sql<'_>, lanes: &BTreeSet<LaneId>) -> StoreResult<bool> {
    let mut left = PROMOTED_MAX;
    for lane in lanes {
        left -= sql.execute(statements::PROMOTE_LIVE, params![lane, sql.now, left as i64])?;
    }
    Ok(left > 0)
}

fn next_due_in(sql: &Sql<'_>, lanes: &BTreeSet<LaneId>) -> StoreResult<Option<Millis>> {
    let mut soonest: Option<Millis> = None;
    for lane in lanes {
        let due_at = sql.one(statements::READ_NEXT_DUE_AFTER, params![lane, sql.now], rows::maybe_moment)?;
        soonest = soonest.into_iter().chain(due_at).min();
    }
    Ok(soonest.map(|due_at| due_at - sql.now))
}

/// Why a round ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stopped {
    /// Runs were blocked; others may stand behind them.
    ForMore,
    /// As many were handed out as the caller allowed, and there are more.
    AtLimit,
    /// The queue's rate allows no more now.
    AtRate,
    /// There is nothing left that a slot with room can take.
    NothingLeft,
}

struct Candidate {
    run: RunId,
    lane: LaneId,
    level: i16,
    order_at: Millis,
    epoch: Epoch,
    failures: u32,
    priority: u8,
    key: Option<String>,
    affinity: Option<String>,
    preferred: Option<String>,
    /// Bytes of its input.
    size: u64,
    due_at: Millis,
}

/// A worker that was looked at.
#[derive(Clone, Copy)]
struct Asker {
    room: Result<u32, SlotRefused>,
    /// Which of its claims were answered before this one, and which are now.
    before: Answered,
    now: Answered,
}

struct Claim<'a, 'c> {
    sql: &'a Sql<'c>,
    request: &'a ClaimRequest,
    queue: ClaimQueue,
    /// What each slot can still take.
    room: Vec<u32>,
    /// What may still be handed out.
    left: u32,
    /// Bytes of inputs that were handed out.
    bytes: u64,
    /// What each worker looked at can still hold, or why it gets nothing.
    workers: HashMap<WorkerId, Asker>,
    answer: ClaimAnswer,
}

impl Claim<'_, '_> {
    fn round(&mut self, lanes: &BTreeSet<LaneId>) -> StoreResult<Stopped> {
        let (candidates, cut) = self.candidates(lanes)?;
        let key_room = self.key_room(&candidates)?;
        let allowed = self.allowed();
        let fates = self.assign(&candidates, &key_room, allowed.min(self.left))?;
        let granted = self.write(&candidates, &fates)?;
        self.left -= granted;
        if let Some((per_second, bucket)) = &mut self.queue.rate {
            *bucket = rate::take(*bucket, *per_second, self.sql.now, granted).1;
        }
        let waits = |(candidate, fate): (&Candidate, &Fate)| *fate == Fate::NoRoom && self.has_room(candidate.lane);
        let any_left = candidates.iter().zip(&fates).any(waits) || cut.into_iter().any(|lane| self.has_room(lane));
        Ok(match any_left {
            false => Stopped::NothingLeft,
            true if granted == allowed => Stopped::AtRate,
            true if self.left == 0 || self.bytes >= CLAIM_BYTES_MAX => Stopped::AtLimit,
            true => Stopped::ForMore,
        })
    }

    /// The first ready runs of each lane that a slot with room takes, in the order of the queue, and the lanes that
    /// have more of them.
    fn candidates(&self, lanes: &BTreeSet<LaneId>) -> StoreResult<(Vec<Candidate>, Vec<LaneId>)> {
        let (mut all, mut cut) = (Vec::new(), Vec::new());
        for lane in lanes {
            let wanted = self.room_in(*lane).min(self.left.into());
            if wanted == 0 {
                continue;
            }
            // One more than wanted, to know whether something is left.
            let mut found = self.sql.rows(statements::READ_CANDIDATES, params![lane, wanted as i64 + 1], |row| {
                Ok(Candidate {
                    run: rows::run_id(row, 0)?,
                    lane: row.get(1)?,
                    level: row.get(2)?,
                    order_at: row.get(3)?,
                    epoch: rows::epoch(row, 4)?,
                    failures: row.get(5)?,
                    priority: row.get(6)?,
                    key: row.get(7)?,
                    affinity: row.get(8)?,
                    preferred: None,
                    size: u64::from(row.get::<_, u32>(9)?),
                    due_at: row.get(10)?,
                })
            })?;
            if found.len() as u64 > wanted {
                found.pop();
                cut.push(*lane);
            }
            all.append(&mut found);
        }
        all.sort_by_key(|candidate| (candidate.level, candidate.order_at, candidate.run));
        let mut bytes = self.bytes;
        let light = all.iter().take_while(|candidate| {
            let fits = bytes < CLAIM_BYTES_MAX;
            bytes += candidate.size;
            fits
        });
        let light = light.count();
        cut.extend(all.drain(light..).map(|candidate| candidate.lane));
        for candidate in &mut all {
            if let Some(affinity) = &candidate.affinity {
                candidate.preferred =
                    self.sql.row(statements::READ_AFFINITY, params![self.request.queue, affinity], |row| row.get(0))?;
            }
        }
        Ok((all, cut))
    }

    fn key_room(&self, candidates: &[Candidate]) -> StoreResult<HashMap<String, u32>> {
        let Some(limit) = self.queue.key_limit else { return Ok(HashMap::new()) };
        let mut room = HashMap::new();
        for key in candidates.iter().filter_map(|candidate| candidate.key.as_deref()) {
            if !room.contains_key(key) {
                let held = self.sql.one(statements::COUNT_KEY_HELD, params![self.request.queue, key], rows::count)?;
                room.insert(key.to_owned(), limit.saturating_sub(u32::try_from(held).unwrap_or(u32::MAX)));
            }
        }
        Ok(room)
    }

    /// How many runs the queue's rate allows now.
    fn allowed(&self) -> u32 {
        let Some((per_second, bucket)) = self.queue.rate else { return u32::MAX };
        rate::take(bucket, per_second, self.sql.now, u32::MAX).0
    }

    /// Matches runs and slots until every worker chosen can take what it was given.
    fn assign(
        &mut self,
        candidates: &[Candidate],
        key_room: &HashMap<String, u32>,
        most: u32,
    ) -> StoreResult<Vec<Fate>> {
        let runs: Vec<_> = candidates
            .iter()
            .map(|candidate| matching::Candidate {
                lane: candidate.lane,
                key: candidate.key.as_deref(),
                preferred: candidate.preferred.as_deref(),
            })
            .collect();
        let key_room = key_room.iter().map(|(key, room)| (key.as_str(), *room)).collect();
        loop {
            let slots: Vec<_> = self
                .request
                .slots
                .iter()
                .zip(&self.room)
                .map(|(slot, room)| matching::Slot { name: &slot.name, lanes: &slot.lanes, room: *room })
                .collect();
            let fates = matching::assign(&runs, &slots, &key_room, most);
            // Each time round a slot loses room, so this ends.
            if self.all_fit(&fates)? {
                return Ok(fates);
            }
        }
    }

    /// Checks the workers behind the chosen slots. Takes room from a slot whose worker cannot hold what it was given.
    fn all_fit(&mut self, fates: &[Fate]) -> StoreResult<bool> {
        let mut given = vec![0; self.room.len()];
        for fate in fates {
            if let Fate::Slot(slot) = fate {
                given[*slot] += 1;
            }
        }
        let mut taken: HashMap<WorkerId, u32> = HashMap::new();
        let mut all_fit = true;
        for (index, given) in given.into_iter().enumerate().filter(|(_, given)| *given > 0) {
            let slot = &self.request.slots[index];
            let worker = slot.worker;
            let Asker { room, before, .. } = self.worker(worker)?;
            if before.has(slot.claim_no) {
                self.repeat(index)?;
                all_fit = false;
                continue;
            }
            let taken = taken.entry(worker).or_default();
            let (fits, why) = match room {
                Ok(room) => (given.min(room - *taken), SlotRefused::Full),
                Err(why) => (0, why),
            };
            *taken += fits;
            if fits < given {
                all_fit = false;
                self.room[index] = fits;
                if !self.answer.refused.iter().any(|(refused, _)| *refused == index) {
                    self.answer.refused.push((index, why));
                }
            }
        }
        Ok(all_fit)
    }

    /// Looks for what earlier calls of the slots' claims were given.
    fn repeat_asked(&mut self) -> StoreResult<()> {
        for (index, slot) in self.request.slots.iter().enumerate() {
            if slot.asked_ms_ago.is_some()
                && (slot.claim_no <= 0 || self.worker(slot.worker)?.before.has(slot.claim_no))
            {
                self.repeat(index)?;
            }
        }
        Ok(())
    }

    /// Gives a slot what an earlier call of its claim was given and its worker still holds. It gets
    /// nothing else.
    fn repeat(&mut self, index: usize) -> StoreResult<()> {
        let slot = &self.request.slots[index];
        let number = (slot.claim_no > 0).then_some(slot.claim_no);
        let held = workers::claimed_again(self.sql, slot.worker, number, slot.asked_ms_ago.unwrap_or(0))?;
        if !held.is_empty() {
            self.room[index] = 0;
            self.answer.again.push(index);
            self.answer.claimed.extend(held.into_iter().map(|one| Claimed { slot: index, ..one }));
        } else if slot.claim_no > 0 {
            self.room[index] = 0;
            self.answer.refused.push((index, SlotRefused::Answered));
        }
        Ok(())
    }

    fn worker(&mut self, worker: WorkerId) -> StoreResult<Asker> {
        if let Some(known) = self.workers.get(&worker) {
            return Ok(*known);
        }
        let found = self.sql.row(statements::READ_WORKER_ROOM, params![worker.0.as_bytes()], |row| {
            let (unfit, most, active): (bool, u32, u32) = (row.get(1)?, row.get(2)?, row.get(3)?);
            let room = match rows::status(row, 0)? {
                WorkerStatus::Draining => Err(SlotRefused::Draining),
                WorkerStatus::Offline => Err(SlotRefused::Offline),
                WorkerStatus::Online if unfit => Err(SlotRefused::Unfit),
                WorkerStatus::Online => Ok(most.saturating_sub(active)),
            };
            let before = Answered { last: row.get(4)?, bits: row.get(5)? };
            Ok(Asker { room, before, now: before })
        })?;
        let nobody = Answered::default();
        let found = found.unwrap_or(Asker { room: Err(SlotRefused::Unknown), before: nobody, now: nobody });
        self.workers.insert(worker, found);
        Ok(found)
    }

    /// Writes what was decided. Returns how many runs were handed out.
    fn write(&mut self, candidates: &[Candidate], fates: &[Fate]) -> StoreResult<u32> {
        let mut given: HashMap<WorkerId, u32> = HashMap::new();
        for (candidate, fate) in candidates.iter().zip(fates) {
            match fate {
                Fate::NoRoom => {}
                Fate::KeyFull => {
                    let parameters = params![candidate.run.0.as_bytes(), Place::Blocked.code()];
                    self.sql.execute(statements::BLOCK_LIVE, parameters)?;
                }
                Fate::Slot(slot) => {
                    let claimed = self.hand_over(candidate, *slot)?;
                    self.answer.claimed.push(claimed);
                    self.bytes += candidate.size;
                    self.room[*slot] -= 1;
                    let slot = &self.request.slots[*slot];
                    *given.entry(slot.worker).or_default() += 1;
                    if let Some(asker) = self.workers.get_mut(&slot.worker) {
                        asker.now = asker.now.with(slot.claim_no);
                    }
                }
            }
        }
        for (worker, runs) in &given {
            let Some(asker) = self.workers.get_mut(worker) else { continue };
            asker.room = asker.room.map(|room| room - runs);
            let parameters = params![worker.0.as_bytes(), runs, asker.now.last, asker.now.bits];
            self.sql.execute(statements::COUNT_CLAIMED, parameters)?;
        }
        Ok(given.values().sum())
    }

    fn hand_over(&self, candidate: &Candidate, index: usize) -> StoreResult<Claimed> {
        let (slot, now) = (&self.request.slots[index], self.sql.now);
        let (submitted_at, options, input, trace) =
            self.sql.one(statements::READ_CLAIMED_RUN, params![candidate.run.0.as_bytes()], |row| {
                Ok((row.get(0)?, rows::options(row, 1)?, rows::bytes(row, 2)?, rows::trace(row, 3)?))
            })?;
        let Options { timeout_ms, .. } = options;
        let timeout_at = timeout_ms.map(|ms| now.saturating_add_unsigned(ms));
        let state = if slot.start { State::Running } else { State::Assigned };
        let epoch = candidate.epoch.next().marked(mark(self.request.die));
        self.sql.execute(
            statements::CLAIM_LIVE,
            params![
                candidate.run.0.as_bytes(),
                candidate.epoch.code(),
                state.code(),
                slot.worker.0.as_bytes(),
                slot.claim_no,
                now,
                slot.start.then_some(now),
                timeout_at,
                slot.lease_ms.map(|ms| now.saturating_add(ms)),
                epoch.code(),
            ],
        )?;
        Ok(Claimed {
            slot: index,
            run: candidate.run,
            lane: candidate.lane,
            epoch,
            attempt: candidate.failures + 1,
            priority: candidate.priority,
            submitted_at,
            waited_ms: now - candidate.due_at,
            timeout_at,
            key: candidate.key.clone(),
            trace,
            input,
        })
    }

    fn keep_bucket(&self) -> StoreResult<()> {
        if let (Some((_, bucket)), false) = (self.queue.rate, self.answer.claimed.is_empty()) {
            self.sql.execute(statements::UPDATE_RATE, params![self.request.queue, bucket.tokens, bucket.at])?;
        }
        Ok(())
    }

    fn room_in(&self, lane: LaneId) -> u64 {
        let slots = self.request.slots.iter().zip(&self.room);
        slots.filter(|(slot, _)| slot.lanes.contains(&lane)).map(|(_, room)| u64::from(*room)).sum()
    }

    fn has_room(&self, lane: LaneId) -> bool {
        self.room_in(lane) > 0
    }
}
