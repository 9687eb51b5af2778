//! Who asks for runs, and what they get.

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
    /// The worker's number of this claim; the same number again finds the same runs.
    pub claim_no: i64,
    /// Claim and start in one (for callers that have no separate start).
    pub start: bool,
    /// A lease of its own for each run, for callers that never send heartbeats.
    pub lease_ms: Option<Millis>,
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
    /// When this attempt times out, if it has a timeout.
    pub timeout_at: Option<Millis>,
    /// Its key, if any.
    pub key: Option<String>,
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
}

/// What a claim handed out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClaimAnswer {
    /// The runs.
    pub claimed: Vec<Claimed>,
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
