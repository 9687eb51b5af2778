//! What a claim knows and reckons, without the database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use baton_core::matching::{self, Candidate, Fate};
use baton_core::{Millis, WorkerId, answered};
use uuid::Uuid;

use super::cursor::{Reading, START};
use crate::{
    Asked, CLAIM_BYTES_MAX, CLAIM_RUNS_MAX, ClaimAnswer, ClaimRequest, ClaimSlot, Claimed, LaneId, SlotRefused,
};

/// A run that was picked.
pub(super) struct Picked {
    pub(super) run: Uuid,
    pub(super) lane: LaneId,
    pub(super) level: i16,
    pub(super) order_at: Millis,
    /// False when somebody else was faster.
    pub(super) is_ours: bool,
    pub(super) key: Option<String>,
    pub(super) preferred: Option<String>,
    /// Where its row is, which nobody moves while it is locked.
    pub(super) spot: Option<String>,
    /// Bytes of its input.
    pub(super) size: i32,
}

impl Picked {
    pub(super) fn place(&self) -> Place {
        Place { lane: self.lane, level: self.level, order_at: self.order_at, run: self.run }
    }
}

/// Where a picked run stood.
pub(super) struct Place {
    pub(super) lane: LaneId,
    pub(super) level: i16,
    pub(super) order_at: Millis,
    pub(super) run: Uuid,
}

/// A claim, with what has been found out about its workers.
pub(super) struct Deal<'a> {
    pub(super) request: &'a ClaimRequest,
    pub(super) limit: usize,
    /// All lanes of the slots.
    pub(super) lanes: Vec<LaneId>,
    /// Room of each slot, less what its worker was found unable to take.
    rooms: Vec<u32>,
    pub(super) refused: BTreeMap<usize, SlotRefused>,
    /// What slots were given by earlier calls of the same claims.
    again: Vec<(usize, Vec<Claimed>)>,
}

impl Deal<'_> {
    pub(super) fn new(request: &ClaimRequest) -> Deal<'_> {
        let lanes: BTreeSet<LaneId> = request.slots.iter().flat_map(|slot| slot.lanes.iter().copied()).collect();
        Deal {
            request,
            limit: request.limit.min(CLAIM_RUNS_MAX),
            lanes: lanes.into_iter().collect(),
            rooms: request.slots.iter().map(|slot| slot.room).collect(),
            refused: BTreeMap::new(),
            again: Vec::new(),
        }
    }

    /// Of these slots, those of which an earlier call may have been answered and was not found yet.
    pub(super) fn unanswered(&self, is_open: impl Fn(usize, &ClaimSlot) -> bool) -> Vec<(usize, Asked)> {
        let slots = self.request.slots.iter().enumerate();
        slots
            .filter(|(index, slot)| is_open(*index, slot) && self.again.iter().all(|(again, _)| again != index))
            .filter(|(index, _)| self.refused.get(index) != Some(&SlotRefused::Answered))
            .filter_map(|(index, slot)| {
                let (worker, claim_no) = (slot.worker, slot.claim_no);
                Some((index, Asked { worker, claim_no, ms_ago: slot.asked_ms_ago? }))
            })
            .collect()
    }

    /// Notes what an earlier call of this slot's claim was given and its worker still holds.
    pub(super) fn repeat(&mut self, slot: usize, held: Vec<Claimed>) {
        if !held.is_empty() {
            self.rooms[slot] = 0;
            self.again.push((slot, held));
        } else if self.request.slots[slot].claim_no > 0 {
            self.rooms[slot] = 0;
            self.refused.insert(slot, SlotRefused::Answered);
        }
    }

    /// The answer, with what was found out on the way.
    pub(super) fn finish(self, mut answer: ClaimAnswer) -> ClaimAnswer {
        for (slot, held) in self.again {
            answer.again.push(slot);
            answer.claimed.extend(held);
        }
        answer.refused = self.refused.into_iter().collect();
        answer
    }

    /// How many runs of each lane can be handed out at most; lanes that nobody has room for are left out.
    pub(super) fn takes(&self) -> Vec<(LaneId, i64)> {
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

    /// True when the pick stopped because the inputs together are large enough.
    pub(super) fn is_heavy(picked: &[Picked]) -> bool {
        picked.iter().map(|one| one.size.max(0) as u64).sum::<u64>() >= CLAIM_BYTES_MAX
    }

    pub(super) fn has_room(&self, fates: &[Fate]) -> bool {
        self.rooms_left(fates).iter().any(|room| *room > 0)
    }

    /// True when a slot still has room for a lane of which more runs may be there than were read.
    pub(super) fn wants_more(&self, fates: &[Fate], picked: &[Picked], takes: &[(LaneId, i64)]) -> bool {
        let rooms = self.rooms_left(fates);
        let is_cut = |lane: &LaneId| {
            let read = picked.iter().filter(|one| one.lane == *lane).count() as i64;
            takes.iter().any(|(other, take)| other == lane && read >= *take)
        };
        let mut slots = self.request.slots.iter().zip(rooms);
        slots.any(|(slot, room)| room > 0 && slot.lanes.iter().any(is_cut))
    }

    /// The fate of every picked run, and whether the queue's rate kept some from being handed out.
    pub(super) fn assign(&self, picked: &[Picked], room: &HashMap<String, u32>, allowed: u32) -> (Vec<Fate>, bool) {
        let ours: Vec<&Picked> = picked.iter().filter(|one| one.is_ours).collect();
        let candidates: Vec<Candidate<'_>> = ours
            .iter()
            .map(|one| Candidate { lane: one.lane, key: one.key.as_deref(), preferred: one.preferred.as_deref() })
            .collect();
        let room: HashMap<&str, u32> = room.iter().map(|(key, room)| (key.as_str(), *room)).collect();
        let slots = self.slots();
        let deal_out = |most: u32| matching::assign(&candidates, &slots, &room, most);
        let handed = |fates: &[Fate]| fates.iter().filter(|fate| matches!(fate, Fate::Slot(_))).count();
        let limit = self.limit as u32;
        let found = deal_out(limit.min(allowed));
        let rate_cut = allowed < limit && handed(&deal_out(limit)) > handed(&found);
        let mut found = found.into_iter();
        let fates = picked.iter().map(|one| if one.is_ours { found.next() } else { None });
        (fates.map(|fate| fate.unwrap_or(Fate::NoRoom)).collect(), rate_cut)
    }

    /// Of several claims of one worker, those whose numbers lie close together are answered at once. True when others have to wait.
    pub(super) fn keep_near_numbers(&self, fates: &mut [Fate]) -> bool {
        let number_of = |fate: &Fate| match fate {
            Fate::Slot(index) => Some(&self.request.slots[*index]).filter(|slot| slot.claim_no > 0),
            _ => None,
        };
        let mut last: HashMap<WorkerId, i64> = HashMap::new();
        for slot in fates.iter().filter_map(number_of) {
            let number = last.entry(slot.worker).or_insert(slot.claim_no);
            *number = slot.claim_no.max(*number);
        }
        let mut is_cut = false;
        for fate in fates {
            if number_of(fate).is_some_and(|slot| last[&slot.worker] - slot.claim_no >= answered::WINDOW) {
                *fate = Fate::NoRoom;
                is_cut = true;
            }
        }
        is_cut
    }

    /// Lowers the room of slots to what their workers were found able to take. `found` holds, for each worker that is
    /// there, why it cannot take any, or how many it can.
    pub(super) fn lower_rooms(
        &mut self,
        shares: &BTreeMap<usize, u32>,
        mut found: HashMap<WorkerId, Result<u32, SlotRefused>>,
    ) {
        for (slot, share) in shares {
            let (room, refused) = match found.get_mut(&self.request.slots[*slot].worker) {
                None => (0, Some(SlotRefused::Unknown)),
                Some(Err(refused)) => (0, Some(*refused)),
                // A worker may wait in several slots; they share its room.
                Some(Ok(room)) => {
                    let given = (*room).min(*share);
                    *room -= given;
                    if given == *share { (self.rooms[*slot], None) } else { (given, Some(SlotRefused::Full)) }
                }
            };
            self.rooms[*slot] = room;
            if let Some(refused) = refused {
                self.refused.insert(*slot, refused);
            }
        }
    }
}

/// How many runs each slot gets.
pub(super) fn shares(fates: &[Fate]) -> BTreeMap<usize, u32> {
    let mut shares = BTreeMap::new();
    for fate in fates {
        if let Fate::Slot(slot) = fate {
            *shares.entry(*slot).or_insert(0) += 1;
        }
    }
    shares
}

/// Moves the hints up over what is gone from the head of each level without a gap.
pub(super) fn raise(reading: &Reading<'_>, head: &[Place], gone: &HashSet<Uuid>) {
    let mut levels: HashMap<(LaneId, i16), (Millis, bool)> = HashMap::new();
    for Place { lane, level, order_at, run } in head {
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
