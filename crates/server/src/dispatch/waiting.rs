//! Who waits in a line, and what is known of its lanes.

use std::collections::{HashSet, VecDeque};

use baton_core::Millis;
use baton_store::{ClaimSlot, Claimed, LaneId};
use tokio::sync::oneshot;

use crate::Error;

/// What a poll brought.
#[derive(Debug, Default)]
pub struct Handed {
    /// The runs.
    pub runs: Vec<Claimed>,
    /// An earlier call of the same claim was given them.
    pub again: bool,
    /// Its caller asked again and waits elsewhere: what this one is told is no answer to the claim.
    pub displaced: bool,
}

/// What a poll is answered with.
pub(super) type Answer = Result<Handed, Error>;

/// A poll that waits.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) number: u64,
    pub(super) slot: ClaimSlot,
    pub(super) answer: oneshot::Sender<Answer>,
    /// Its claim failed, and may have been carried out all the same. Until that is found out it makes no other: it would be
    /// answered with other runs, and nobody would ever hear of the first.
    pub(super) unsure: bool,
    /// It does not go to the store together with another one of its worker.
    pub(super) in_turn: bool,
    /// How often it has come back from the store with nothing.
    pub(super) looks: u32,
    /// When it was parked, as `Line::now` counts.
    pub(super) since: Millis,
    /// It was asked for whether another server has answered its claim.
    pub(super) checked: bool,
    /// It goes to the store in any case, because one has.
    pub(super) must_look: bool,
}

impl Parked {
    /// Answers it. A caller that has gone hears nothing.
    pub(super) fn hand(self, runs: Vec<Claimed>) {
        let _ = self.answer.send(Ok(Handed { runs, ..Handed::default() }));
    }

    /// Sends it away because its caller waits elsewhere.
    fn displace(self) {
        let _ = self.answer.send(Ok(Handed { displaced: true, ..Handed::default() }));
    }

    /// Puts another poll of the same claim in its place.
    pub(super) fn give_way_to(&mut self, again: Parked) {
        std::mem::replace(self, again).displace();
    }

    /// Sends it away without runs. One that may have got some must not hear that there are none: it is told to ask again.
    pub(super) fn dismiss(self, unsure: Error) {
        let _ = self.answer.send(if self.unsure { Err(unsure) } else { Ok(Handed::default()) });
    }
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) parked: VecDeque<Parked>,
    pub(super) next_number: u64,
    /// Polls whose time ran out before a look that began after them has ended.
    pub(super) overdue: HashSet<u64>,
    /// Lanes in which the last look found nothing more, and which nobody has woken since.
    pub(super) clean: HashSet<LaneId>,
    /// Lanes that the claimer is looking at right now. They count as clean so that a wake-up in the
    /// meantime is noticed, but nobody may be told that they are empty.
    pub(super) looked_at: HashSet<LaneId>,
    /// When the next run becomes due, as `Line::now` counts.
    pub(super) next_due: Option<Millis>,
    pub(super) closed: bool,
    /// The namespace is disabled.
    pub(super) disabled: bool,
}

impl Waiting {
    /// Parks a poll, and sends away the same claim made before: its caller lost its connection and asks again. Both would get
    /// runs, and nobody would ever hear of those of the first.
    pub(super) fn park(
        &mut self,
        slot: ClaimSlot,
        answer: oneshot::Sender<Answer>,
        in_turn: bool,
        since: Millis,
    ) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let mut unsure = false;
        while let Some(earlier) = self.take_same_claim(&slot, 0) {
            // What the first may have got is the second's.
            unsure |= earlier.unsure;
            earlier.displace();
        }
        self.parked.push_back(Parked {
            number,
            slot,
            answer,
            unsure,
            in_turn,
            looks: 0,
            since,
            checked: false,
            must_look: false,
        });
        number
    }

    /// Where the same claim waits, if it was parked with this number or later.
    pub(super) fn same_claim(&self, slot: &ClaimSlot, since: u64) -> Option<usize> {
        let same = |parked: &Parked| {
            slot.claim_no != 0 && parked.slot.worker == slot.worker && parked.slot.claim_no == slot.claim_no
        };
        // New ones park at the end, so that a look for one that came lately is short however long the line is.
        let late = self.parked.iter().rev().take_while(|parked| parked.number >= since).count();
        (self.parked.len() - late..self.parked.len()).find(|index| same(&self.parked[*index]))
    }

    /// As [`Waiting::same_claim`], and takes it out of the line.
    pub(super) fn take_same_claim(&mut self, slot: &ClaimSlot, since: u64) -> Option<Parked> {
        self.same_claim(slot, since).and_then(|index| self.parked.remove(index))
    }

    /// True when the poll may go to the store, and has a reason to.
    pub(super) fn is_eager(&self, parked: &Parked) -> bool {
        !parked.unsure && (parked.must_look || parked.slot.lanes.iter().any(|lane| !self.clean.contains(lane)))
    }

    /// True when a look has shown that there is nothing for the poll, so that it may be sent away.
    pub(super) fn is_settled(&self, parked: &Parked) -> bool {
        let is_looked_at = parked.slot.lanes.iter().any(|lane| self.looked_at.contains(lane));
        !self.is_eager(parked) && (parked.unsure || !is_looked_at)
    }

    /// Sends away polls whose time ran out and for which nothing was found.
    pub(super) fn dismiss_overdue(&mut self, unsure: &Error) {
        if self.overdue.is_empty() {
            return;
        }
        let is_over = |parked: &Parked| self.overdue.contains(&parked.number) && self.is_settled(parked);
        let over: Vec<usize> = (0..self.parked.len()).filter(|index| is_over(&self.parked[*index])).collect();
        for parked in over.into_iter().rev().filter_map(|index| self.parked.remove(index)) {
            self.overdue.remove(&parked.number);
            parked.dismiss(unsure.clone());
        }
    }
}
