//! Runs as they are read.

use baton_core::machine::Options;
use baton_core::trace::RunTrace;
use baton_core::{Epoch, IdSuffix, LeaseEnd, Millis, Reason, RunId, State, WorkerId};
use bytes::Bytes;

use super::LaneId;

/// A page: `limit` entries that come after (that is, are older than) `after`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<K> {
    /// Where the page before ended.
    pub after: Option<K>,
    /// How many.
    pub limit: usize,
}

/// Which runs to list. Empty finds all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunFilter {
    /// Of these lanes; `None` means all.
    pub lanes: Option<Vec<LaneId>>,
    /// In one of these states; none means any.
    pub states: Vec<State>,
    /// Held (now, or at its end) by this worker.
    pub worker: Option<WorkerId>,
    /// With this key.
    pub key: Option<String>,
    /// This one or newer. Identifiers are in the order of time, so that this is a moment, too.
    pub since: Option<RunId>,
    /// Older than this one.
    pub before: Option<RunId>,
    /// With an identifier that ends like this, among the newest [`ID_SUFFIX_SCAN_MAX`] runs.
    pub id_suffix: Option<IdSuffix>,
}

/// How many identifiers are looked at for one with given last digits. No index serves that: it would cost every submit.
pub const ID_SUFFIX_SCAN_MAX: usize = 1_000_000;
/// Most runs that are found by their last digits. Among the identifiers that are looked at, four digits fit some fifteen.
pub(crate) const ID_SUFFIX_FOUND_MAX: usize = 100;

impl RunFilter {
    /// The identifier that all runs of a page are older than.
    pub(crate) fn upper(&self, after: Option<RunId>) -> Option<RunId> {
        after.into_iter().chain(self.before).min()
    }

    /// True when a run that was found by its identifier is one of those that are wanted.
    pub(crate) fn fits(&self, run: &RunRecord) -> bool {
        self.lanes.as_ref().is_none_or(|lanes| lanes.contains(&run.lane))
            && (self.states.is_empty() || self.states.contains(&run.state))
            && self.worker.is_none_or(|worker| run.worker == Some(worker))
            && self.key.as_ref().is_none_or(|key| run.key.as_ref() == Some(key))
            && self.id_suffix.as_ref().is_none_or(|suffix| suffix.is_end_of(run.id))
    }
}

/// Everything there is to know of a run, but for its past attempts.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRecord {
    /// Its identifier.
    pub id: RunId,
    /// Its lane.
    pub lane: LaneId,
    /// Where it stands.
    pub state: State,
    /// The epoch of its newest claim.
    pub epoch: Epoch,
    /// Its priority.
    pub priority: u8,
    /// Attempts that used up the retry budget.
    pub failures: u32,
    /// Workers it lost.
    pub losses: u32,
    /// When it was submitted.
    pub submitted_at: Millis,
    /// When it is or was due.
    pub due_at: Millis,
    /// Its key, if any.
    pub key: Option<String>,
    /// Its affinity key, if any.
    pub affinity: Option<String>,
    /// The run it repeats, if any.
    pub retry_of: Option<RunId>,
    /// The trace that it is part of.
    pub trace: Option<RunTrace>,
    /// Its options.
    pub options: Options,
    /// Who holds it, or held it at its end.
    pub worker: Option<WorkerId>,
    /// When that worker claimed it.
    pub claimed_at: Option<Millis>,
    /// When that worker started it.
    pub started_at: Option<Millis>,
    /// When the attempt times out.
    pub timeout_at: Option<Millis>,
    /// A lease of its own, apart from its worker's.
    pub lease_until: Option<Millis>,
    /// Until when its worker may stop by itself after a request to cancel.
    pub cancel_by: Option<Millis>,
    /// It waits for room under its key's limit.
    pub blocked: bool,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Why it failed or was cancelled.
    pub reason: Option<Reason>,
    /// The last error message.
    pub error: Option<String>,
    /// The payload (empty in lists).
    pub input: Bytes,
    /// What came out (`None` in lists).
    pub output: Option<Bytes>,
}

/// A lease that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// Its epoch.
    pub epoch: Epoch,
    /// Who held it.
    pub worker: Option<WorkerId>,
    /// From when.
    pub claimed_at: Millis,
    /// When work began, if it did.
    pub started_at: Option<Millis>,
    /// Until when.
    pub ended_at: Millis,
    /// How it ended.
    pub end: LeaseEnd,
    /// What was said about it.
    pub error: Option<String>,
}
