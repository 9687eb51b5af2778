//! Leases, and what became of a verb on them.

use baton_core::{Epoch, LeaseEnd, Millis, Reason, Refused, RunId, State, WorkerId};
use bytes::Bytes;

use super::LaneId;

/// A lease a caller says it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseRef {
    /// The run.
    pub run: RunId,
    /// The epoch of the claim.
    pub epoch: Epoch,
}

/// A completed run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The lease.
    pub lease: LeaseRef,
    /// What came out, if anything.
    pub output: Option<Bytes>,
}

/// What became of a verb on one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Carried out; the run is in this state now.
    Done {
        /// The state after the verb.
        state: State,
        /// True when somebody wants the run cancelled.
        cancelling: bool,
    },
    /// Refused; nothing changed.
    Refused(Refused),
    /// There is no such run.
    Unknown,
}

/// Lanes that have become claimable, to be woken after the commit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// Lanes with runs that can be claimed now.
    pub lanes: Vec<LaneId>,
    /// Lanes with runs due later, and how long until then.
    pub later: Vec<(LaneId, Millis)>,
    /// A run has ended that has a parent or children: [`crate::Workflows::deliver`] has something to do.
    pub relatives: bool,
    /// Runs that have ended, and leases that have, for those who count.
    pub settled: Vec<Settled>,
}

/// A run that has ended, or is no longer held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    /// Its lane.
    pub lane: LaneId,
    /// The state it is in now.
    pub state: State,
    /// How its lease ended, if somebody held it.
    pub end: Option<LeaseEnd>,
    /// Why it failed or was cancelled, if it has.
    pub reason: Option<Reason>,
    /// How long it was held, if somebody held it.
    pub held_ms: Option<Millis>,
}

impl Settled {
    /// A run that was completed.
    pub(crate) fn completed(lane: LaneId, held_ms: Option<Millis>) -> Settled {
        Settled { lane, state: State::Completed, end: Some(LeaseEnd::Completed), reason: None, held_ms }
    }
}

/// What became of a verb on several runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// One for each run, in order.
    pub verdicts: Vec<Verdict>,
    /// Who is to be woken.
    pub woken: Woken,
}

/// What the reaper took back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expired {
    /// Each run: its holder, the epoch that ended, how it ended, and the state it is in now.
    pub runs: Vec<ExpiredRun>,
    /// Who is to be woken.
    pub woken: Woken,
    /// True when the limit was reached: call again.
    pub more: bool,
}

/// One run the reaper took back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiredRun {
    /// The run.
    pub run: RunId,
    /// Who held it.
    pub worker: Option<WorkerId>,
    /// The epoch that ended.
    pub epoch: Epoch,
    /// How.
    pub end: LeaseEnd,
    /// The state it is in now.
    pub state: State,
}
