//! Who asks for runs, and what they get.

use baton_core::trace::RunTrace;
use baton_core::{Epoch, Millis, RunId, WorkerId};
use bytes::Bytes;

use super::{LaneId, QueueId};

/// A waiting worker in a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimSlot {
    /// Who asks.
    pub worker: WorkerId,
    /// Its name, for affinity.
    pub name: String,
    /// The lanes it can take, sorted.
    pub lanes: Vec<LaneId>,
    /// How many runs it asks for.
    pub room: u32,
    /// The worker's number of this claim, from 1; 0 for none. Each is answered once: asked again,
    /// it finds the same runs. Below 0 it is not the worker's but the server's own, to find out
    /// what came of a claim whose answer was lost.
    pub claim_no: i64,
    /// Claim and start in one (for callers that have no separate start).
    pub start: bool,
    /// A lease of its own for each run, for callers that never send heartbeats.
    pub lease_ms: Option<Millis>,
    /// How long ago it began to ask, where an earlier call of it may have been answered by another
    /// server. What that gave comes again: the runs of its number, or, without a number, those that
    /// the worker got before and has not started.
    pub asked_ms_ago: Option<Millis>,
}

/// A call of a claim of which an earlier one may have been answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Who asks.
    pub worker: WorkerId,
    /// With this number, or 0.
    pub claim_no: i64,
    /// How long ago it began to.
    pub ms_ago: Millis,
}

/// A claim: one queue, all who wait there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    /// The queue.
    pub queue: QueueId,
    /// Who waits, longest first.
    pub slots: Vec<ClaimSlot>,
    /// At most this many runs (and never more than [`crate::CLAIM_RUNS_MAX`]).
    pub limit: usize,
    /// Random bits, which the leases of this claim are told apart by from all others
    /// ([`Epoch::mark`]).
    pub die: u32,
}

impl ClaimRequest {
    /// The upper half of the epochs that this claim begins, as it is stored.
    pub(crate) fn mark(&self) -> i64 {
        Epoch::new(0).marked(baton_core::mark(self.die)).code()
    }
}

/// A run in the hands of a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct Claimed {
    /// Index of the slot that got it (0 in answers of `claimed`).
    pub slot: usize,
    /// The run.
    pub run: RunId,
    /// Its lane.
    pub lane: LaneId,
    /// The epoch of this lease.
    pub epoch: Epoch,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Its priority.
    pub priority: u8,
    /// When it was submitted.
    pub submitted_at: Millis,
    /// How long it had been due when it was claimed.
    pub waited_ms: Millis,
    /// When this attempt times out, if it has a timeout.
    pub timeout_at: Option<Millis>,
    /// Its key, if any.
    pub key: Option<String>,
    /// The trace that it is part of.
    pub trace: Option<RunTrace>,
    /// The payload.
    pub input: Bytes,
}

/// Why a slot cannot get work at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotRefused {
    /// Not registered, or deleted since.
    Unknown,
    /// Draining: no new work.
    Draining,
    /// Offline: lost, deregistered or forced. It has to register again.
    Offline,
    /// Holds as many runs as it said it can.
    Full,
    /// Under a health floor.
    Unfit,
    /// Its claim was answered before, and the worker holds nothing of it any more.
    Answered,
}

/// What a claim handed out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClaimAnswer {
    /// The runs.
    pub claimed: Vec<Claimed>,
    /// Slots (by index) whose runs an earlier call of the same claim gave: their worker may know of
    /// them.
    pub again: Vec<usize>,
    /// Slots (by index) whose workers were found unable to take work. Only workers that would have got a run are looked at.
    pub refused: Vec<(usize, SlotRefused)>,
    /// True when runs for these slots may be left: claim again at once.
    pub more: bool,
    /// How long until the next run of these lanes becomes due, or the queue's rate or pause allows one.
    pub next_in_ms: Option<Millis>,
}

/// What can be claimed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Lanes with runs that can be claimed now (a paused queue's are not among them).
    pub ready: Vec<LaneId>,
    /// How long until the next run of each lane becomes due, for those that have one.
    pub later: Vec<(LaneId, Millis)>,
}
