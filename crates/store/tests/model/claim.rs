//! The model's claim: look at every run in the line and give it to the first slot that can take it.

use std::collections::HashMap;

use baton_core::{State, machine};
use baton_store::{SlotRefused, WorkerStatus};

use crate::answer::{Answer, Claim};
use crate::model::{Model, Place};
use crate::steps::Slot;

enum Fate {
    Slot(usize),
    KeyFull,
}

impl Model {
    pub fn claim(&mut self, queue: usize, slots: &[Slot], limit: usize, claim_no: i64) -> Answer {
        let now = self.now;
        if self.is_paused(queue) {
            let next_in_ms = self.queues[queue].paused_until.map(|until| until - now);
            return Answer::Claim { claimed: vec![], refused: vec![], next_in_ms: Some(next_in_ms) };
        }
        let is_wanted = |lane: usize| slots.iter().any(|slot| slot.lanes.contains(&lane));
        for run in self.runs.iter_mut().filter(|run| run.place == Place::Later && is_wanted(run.lane)) {
            if run.rules.due_at <= now {
                (run.place, run.order_at) = (Place::Ready, run.rules.due_at);
            }
        }
        let mut room: Vec<u32> = slots.iter().map(|slot| slot.room).collect();
        let mut refused = Vec::new();
        let fates = loop {
            let fates = self.match_up(queue, slots, &room, limit);
            if self.all_fit(slots, &fates, &mut room, &mut refused) {
                break fates;
            }
        };
        let mut claimed = Vec::new();
        for (number, fate) in fates {
            match fate {
                Fate::KeyFull => self.runs[number].place = Place::Blocked,
                Fate::Slot(slot) => {
                    room[slot] -= 1;
                    self.hand_over(number, &slots[slot], claim_no);
                    claimed.push(self.claim_view(slot, number));
                }
            }
        }
        refused.sort_by_key(|(slot, _)| *slot);
        let later = self.runs.iter().filter(|run| run.place == Place::Later && is_wanted(run.lane));
        let next_in_ms = later.map(|run| run.rules.due_at - now).min();
        let is_waiting = claimed.len() < limit && room.iter().any(|room| *room > 0);
        Answer::Claim { claimed, refused, next_in_ms: is_waiting.then_some(next_in_ms) }
    }

    /// The runs of a worker that this claim gave it, or all that it has not started.
    pub fn claimed(&self, worker: usize, claim_no: Option<i64>) -> Answer {
        let held = self.held().into_iter().map(|(number, _)| number);
        let its = held.filter(|number| self.runs[*number].worker == Some(worker));
        let asked = its.filter(|number| match claim_no {
            Some(claim_no) => self.runs[*number].claim_no == claim_no,
            None => self.runs[*number].rules.state == State::Assigned,
        });
        Answer::Claimed(asked.map(|number| self.claim_view(0, number)).collect())
    }

    fn match_up(&self, queue: usize, slots: &[Slot], room: &[u32], limit: usize) -> Vec<(usize, Fate)> {
        let mut room = room.to_vec();
        let mut key_room: HashMap<&str, u32> = HashMap::new();
        let mut fates = Vec::new();
        let mut left = limit;
        for number in self.line(|run| run.place == Place::Ready && run.queue() == queue) {
            let run = &self.runs[number];
            let fitting = (0..slots.len()).find(|slot| room[*slot] > 0 && slots[*slot].lanes.contains(&run.lane));
            let Some(slot) = fitting.filter(|_| left > 0) else { continue };
            if let (Some(limit), Some(key)) = (self.queues[queue].key_limit, run.key) {
                let of_key = key_room.entry(key).or_insert(limit.saturating_sub(self.key_held(queue, key)));
                if *of_key == 0 {
                    fates.push((number, Fate::KeyFull));
                    continue;
                }
                *of_key -= 1;
            }
            room[slot] -= 1;
            left -= 1;
            fates.push((number, Fate::Slot(slot)));
        }
        fates
    }

    /// Takes room from slots whose workers cannot hold what they were given.
    fn all_fit(
        &self,
        slots: &[Slot],
        fates: &[(usize, Fate)],
        room: &mut [u32],
        refused: &mut Vec<(usize, SlotRefused)>,
    ) -> bool {
        let mut all_fit = true;
        for (index, slot) in slots.iter().enumerate() {
            let given =
                fates.iter().filter(|(_, fate)| matches!(fate, Fate::Slot(slot) if *slot == index)).count() as u32;
            let worker = &self.workers[slot.worker];
            let (fits, why) = match worker.status {
                WorkerStatus::Draining => (0, SlotRefused::Draining),
                WorkerStatus::Offline => (0, SlotRefused::Offline),
                WorkerStatus::Online if worker.unfit => (0, SlotRefused::Unfit),
                WorkerStatus::Online => (worker.max_concurrent - worker.active, SlotRefused::Full),
            };
            if fits < given {
                all_fit = false;
                room[index] = fits;
                refused.push((index, why));
            }
        }
        all_fit
    }

    fn hand_over(&mut self, number: usize, slot: &Slot, claim_no: i64) {
        let (now, run) = (self.now, &mut self.runs[number]);
        run.rules = machine::claim(&run.rules, now).expect("a ready run can be claimed");
        if slot.start {
            run.rules = machine::start(&run.rules, run.rules.epoch).expect("an assigned run can be started");
        }
        run.place = Place::Held;
        (run.worker, run.claim_no) = (Some(slot.worker), claim_no);
        (run.claimed_at, run.started_at) = (Some(now), slot.start.then_some(now));
        run.timeout_at = run.options.timeout_ms.map(|ms| now + ms as i64);
        run.lease_until = slot.lease_ms.map(|ms| now + ms);
        self.workers[slot.worker].active += 1;
    }

    fn claim_view(&self, slot: usize, number: usize) -> Claim {
        let run = &self.runs[number];
        Claim {
            slot,
            lease: (number, run.rules.epoch.number()),
            lane: run.lane,
            attempt: run.rules.failures + 1,
            priority: run.priority,
            submitted_at: run.submitted_at,
            timeout_at: run.timeout_at,
            key: run.key.map(str::to_owned),
        }
    }
}
