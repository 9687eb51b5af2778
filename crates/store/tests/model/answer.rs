//! What a subject says, in words that do not depend on who says it: runs, workers and lanes by number.

use baton_core::{LeaseEnd, Millis, State};
use baton_store::{SlotRefused, Verdict, WorkerStatus};

use crate::steps::Lease;

#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Nothing that could differ.
    Done,
    /// Run, submitted at, due at, new; or the index of the run whose key was reused.
    Submitted(Result<Vec<(usize, Millis, Millis, bool)>, usize>),
    /// `next_in_ms` is only compared where room was left: nobody waits otherwise.
    Claim {
        claimed: Vec<Claim>,
        refused: Vec<(usize, SlotRefused)>,
        next_in_ms: Option<Option<Millis>>,
    },
    Claimed(Vec<Claim>),
    Verdicts(Vec<Verdict>),
    Changes(Vec<Verdict>, Woken),
    Beat(Beat),
    /// Runs given back.
    Worker(u64, Woken),
    Lost(Vec<usize>),
    Expired(Vec<Expiry>, Woken),
    Woken(Woken),
    Look {
        ready: Vec<usize>,
        later: Vec<(usize, Millis)>,
    },
    Depths(Vec<Depth>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    pub slot: usize,
    pub lease: Lease,
    pub lane: usize,
    pub attempt: u32,
    pub priority: u8,
    pub submitted_at: Millis,
    pub timeout_at: Option<Millis>,
    pub key: Option<String>,
}

/// Lanes to wake, each list sorted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Woken {
    pub lanes: Vec<usize>,
    pub later: Vec<(usize, Millis)>,
}

impl Woken {
    pub fn now(&mut self, lane: usize) {
        if !self.lanes.contains(&lane) {
            self.lanes.push(lane);
            self.lanes.sort_unstable();
        }
    }

    pub fn later(&mut self, lane: usize, ms: Millis) {
        match self.later.iter_mut().find(|(other, _)| *other == lane) {
            Some((_, soonest)) => *soonest = ms.min(*soonest),
            None => self.later.push((lane, ms)),
        }
        self.later.sort_unstable();
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Beat {
    Alive { status: WorkerStatus, lease_until: Millis, lost: Vec<Lease>, cancelling: Vec<Lease> },
    Offline,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Expiry {
    pub lease: Lease,
    pub worker: Option<usize>,
    pub end: LeaseEnd,
    pub state: State,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Depth {
    pub ready: u64,
    pub scheduled: u64,
    pub held: u64,
    pub sleeping: u64,
    pub oldest_ms: Option<Millis>,
}
