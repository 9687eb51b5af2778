//! Searching runs for people: by what they are shown as, a page in either direction, and never by looking at more than so
//! many runs.

use baton_core::step::StepKind;
use baton_core::{IdSuffix, Millis, Reason, RunId, State, WorkerId};
use bytes::Bytes;
use uuid::Uuid;

use super::{LaneId, RunRecord};

/// Most runs that a search looks at where each has to be looked up in several tables.
pub const SEARCH_LOOKS_MAX: usize = 20_000;
/// Most that have not ended: they are narrow, and need no other table.
pub const SEARCH_LIVE_MAX: usize = 120_000;
/// Most of a lane, shared by the lanes of a search.
pub(crate) const SEARCH_LANE_MAX: usize = 60_000;
/// So many are looked at first: mostly enough is found among them.
const SEARCH_LOOKS_FIRST: usize = 1_500;
/// Identifiers that are looked at for one with given last digits.
pub const SEARCH_SUFFIX_MAX: usize = 100_000;
/// Lanes that are searched one by one; where there are more, all runs are looked at.
pub(crate) const SEARCH_LANES_MAX: usize = 32;
/// Bytes of an output up to which a list shows it.
pub const LISTED_OUTPUT_BYTES_MAX: usize = 2_048;

/// What people call the state of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// Pending, and due.
    Waiting,
    /// Pending, and due later.
    Later,
    /// A worker has it and has not begun.
    Starting,
    /// A worker works on it.
    Running,
    /// Its worker was asked to stop.
    Cancelling,
    /// It waits without a worker.
    Sleeping,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
}

impl Phase {
    /// All of them, in the order of a run's life, which is that of their numbers.
    pub const ALL: [Phase; 9] = [
        Phase::Waiting,
        Phase::Later,
        Phase::Starting,
        Phase::Running,
        Phase::Cancelling,
        Phase::Sleeping,
        Phase::Completed,
        Phase::Failed,
        Phase::Cancelled,
    ];

    /// That of a run.
    pub fn of(record: &RunRecord, now: Millis) -> Phase {
        Phase::at(record.state, record.due_at, record.cancel_by, now)
    }

    /// That of a run in this state of the kernel.
    pub fn at(state: State, due_at: Millis, cancel_by: Option<Millis>, now: Millis) -> Phase {
        match state {
            State::Pending if due_at > now => Phase::Later,
            State::Pending => Phase::Waiting,
            State::Sleeping => Phase::Sleeping,
            State::Assigned | State::Running if cancel_by.is_some() => Phase::Cancelling,
            State::Assigned => Phase::Starting,
            State::Running => Phase::Running,
            State::Completed => Phase::Completed,
            State::Failed => Phase::Failed,
            State::Cancelled => Phase::Cancelled,
        }
    }

    /// Its number in statements.
    pub(crate) fn code(self) -> i16 {
        self as i16
    }

    /// The phase with this number.
    pub(crate) fn from_code(code: i16) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.code() == code)
    }

    /// True when a worker holds such a run.
    pub fn is_held(self) -> bool {
        matches!(self, Phase::Starting | Phase::Running | Phase::Cancelling)
    }

    /// True for those that stay as they are.
    pub fn is_ended(self) -> bool {
        matches!(self, Phase::Completed | Phase::Failed | Phase::Cancelled)
    }
}

/// Which keys are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyMatch {
    /// This one.
    Exactly(String),
    /// Those that begin like this.
    Prefix(String),
}

/// Which runs are searched. Empty finds all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunSearch {
    /// Of these lanes; `None` means all.
    pub lanes: Option<Vec<LaneId>>,
    /// In one of these phases; none means any.
    pub phases: Vec<Phase>,
    /// Held, now or at their end, by one of these workers.
    pub workers: Option<Vec<WorkerId>>,
    /// With such a key.
    pub key: Option<KeyMatch>,
    /// Failed or cancelled with this in the message, whatever the case of its letters.
    pub error: Option<String>,
    /// Ended for this reason.
    pub reason: Option<Reason>,
    /// With an identifier that ends like this, among the newest [`SEARCH_SUFFIX_MAX`] runs; nothing else is looked at then.
    pub id_suffix: Option<IdSuffix>,
    /// This one or newer.
    pub since: Option<RunId>,
    /// Older than this one.
    pub before: Option<RunId>,
    /// The moment at which what is due is told from what is not yet.
    pub now: Millis,
}

/// Where a page of a search begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchFrom {
    /// With the newest run.
    Newest,
    /// With the newest that is older than this one.
    Older(RunId),
    /// With the oldest that is newer than this one.
    Newer(RunId),
}

/// What a search has found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchFound {
    /// Newest first.
    pub runs: Vec<RunId>,
    /// When it was given up with less than was asked for: where it goes on, in its direction.
    pub looked_to: Option<RunId>,
}

/// How many runs a search finds of each phase.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PhaseCounts {
    /// Runs found, by [`Phase::ALL`].
    pub counts: [u64; Phase::ALL.len()],
    /// True for those that were not counted to their end.
    pub is_capped: [bool; Phase::ALL.len()],
}

/// A run as a list shows it.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedRun {
    /// The run, without its payloads.
    pub record: RunRecord,
    /// What came out, if it is small.
    pub output: Option<Bytes>,
    /// How large it is in the row.
    pub output_bytes: u64,
    /// Who has it, or had it at its end.
    pub worker_name: Option<String>,
    /// The lease of that worker, while it has the run.
    pub lease: Option<ListedLease>,
    /// Positions that its workflow has written.
    pub steps: u32,
    /// The step that a sleeping workflow waits for.
    pub waits_for: Option<(StepKind, String, Option<Millis>)>,
    /// Files of a completed build, and their bytes.
    pub files: (u64, u64),
}

/// What keeps a run with its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedLease {
    /// Until when, unless it is renewed.
    pub until: Millis,
    /// How long it is after each sign of life.
    pub ttl_ms: Millis,
    /// The last sign of life.
    pub seen_at: Millis,
}

/// Where the runs of a search are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Among all.
    Runs,
    /// Lane by lane.
    Lanes,
    /// Those that have not ended.
    Live,
    /// Those that workers hold.
    Held,
    /// Failed and cancelled ones.
    Badly,
    /// Completed ones.
    Completed,
    /// By their key.
    Key,
    /// By how their key begins.
    KeyPrefix,
}

/// No identifier of a run is as large as this.
const AFTER_ALL: u128 = u128::MAX;

impl RunSearch {
    /// The same with what its conditions say of the phases: only what has gone wrong has an error.
    pub(crate) fn settled(&self) -> RunSearch {
        let is_wrong = self.error.is_some() || self.reason.is_some();
        let phases = match (self.phases.is_empty(), is_wrong) {
            (_, false) => self.phases.clone(),
            (true, true) => vec![Phase::Failed, Phase::Cancelled],
            // A phase that cannot be leaves one that nothing is found in.
            (false, true) => self.phases.clone(),
        };
        let error = self.error.as_ref().map(|error| error.to_ascii_lowercase());
        RunSearch { phases, error, ..self.clone() }
    }

    pub(crate) fn source(&self) -> Source {
        let are_all = |test: fn(Phase) -> bool| !self.phases.is_empty() && self.phases.iter().all(|phase| test(*phase));
        let few_lanes = self.lanes.as_ref().is_some_and(|lanes| lanes.len() <= SEARCH_LANES_MAX);
        match &self.key {
            Some(KeyMatch::Exactly(_)) => return Source::Key,
            Some(KeyMatch::Prefix(_)) => return Source::KeyPrefix,
            None => {}
        }
        if are_all(Phase::is_held) {
            Source::Held
        } else if are_all(|phase| !phase.is_ended()) {
            Source::Live
        } else if are_all(|phase| matches!(phase, Phase::Failed | Phase::Cancelled)) {
            Source::Badly
        } else if few_lanes {
            Source::Lanes
        } else if are_all(|phase| phase == Phase::Completed) {
            Source::Completed
        } else {
            Source::Runs
        }
    }

    /// The keys that are meant: from the first on, and below the second. In the order of bytes nothing that has no byte 0
    /// stands between a text and the same with a byte 1 behind it.
    pub(crate) fn keys(&self) -> (Option<String>, Option<String>) {
        match &self.key {
            None => (None, None),
            Some(KeyMatch::Exactly(key)) => (Some(key.clone()), Some(format!("{key}\u{1}"))),
            Some(KeyMatch::Prefix(prefix)) => (Some(prefix.clone()), Some(format!("{prefix}\u{10ffff}"))),
        }
    }

    /// The identifiers that a page is between: below the first, and from the second on.
    pub(crate) fn bounds(&self, from: SearchFrom) -> (Uuid, Uuid) {
        let below = self.before.map_or(Uuid::from_u128(AFTER_ALL), |run| run.0);
        let lowest = self.since.map_or(Uuid::nil(), |run| run.0);
        match from {
            SearchFrom::Newest => (below, lowest),
            SearchFrom::Older(run) => (below.min(run.0), lowest),
            SearchFrom::Newer(run) => (below, lowest.max(Uuid::from_u128(run.0.as_u128().saturating_add(1)))),
        }
    }

    /// How many runs are looked at: a few first, then as many as may be.
    pub(crate) fn looks(&self, source: Source) -> Vec<Option<usize>> {
        match self.looks_max(source) {
            None => vec![None],
            Some(most) if most <= SEARCH_LOOKS_FIRST => vec![Some(most)],
            Some(most) => vec![Some(SEARCH_LOOKS_FIRST), Some(most)],
        }
    }

    /// How many runs are looked at before it is given up; `None` where an index leads to what is wanted.
    fn looks_max(&self, source: Source) -> Option<usize> {
        let filters_more = self.workers.is_some() || self.error.is_some() || self.reason.is_some();
        let has_lanes = self.lanes.is_some();
        match source {
            Source::Held | Source::Key | Source::KeyPrefix => None,
            Source::Live => Some(SEARCH_LIVE_MAX),
            Source::Runs => (filters_more || has_lanes || !self.phases.is_empty()).then_some(SEARCH_LOOKS_MAX),
            Source::Badly => (filters_more || has_lanes || self.phases.len() == 1).then_some(SEARCH_LOOKS_MAX),
            Source::Completed => (filters_more || has_lanes).then_some(SEARCH_LOOKS_MAX),
            Source::Lanes => {
                let lanes = self.lanes.as_ref().map_or(1, Vec::len).max(1);
                (filters_more || !self.phases.is_empty()).then_some(SEARCH_LANE_MAX / lanes)
            }
        }
    }

    /// The bounds after it is known how far a search may look, and where it then ends.
    pub(crate) fn narrowed(from: SearchFrom, (upper, lower): (Uuid, Uuid), edge: Option<Uuid>) -> (Uuid, Uuid) {
        match (edge, from) {
            (None, _) => (upper, lower),
            (Some(edge), SearchFrom::Newest | SearchFrom::Older(_)) => (upper, edge),
            (Some(edge), SearchFrom::Newer(_)) => (Uuid::from_u128(edge.as_u128().saturating_add(1)), lower),
        }
    }

    /// Puts together what was found.
    pub(crate) fn found(from: SearchFrom, mut runs: Vec<RunId>, limit: usize, edge: Option<Uuid>) -> SearchFound {
        let is_up = matches!(from, SearchFrom::Newer(_));
        runs.sort_unstable_by(|left, right| if is_up { left.cmp(right) } else { right.cmp(left) });
        runs.dedup();
        let looked_to = edge.map(RunId).filter(|_| runs.len() < limit);
        runs.truncate(limit);
        if is_up {
            runs.reverse();
        }
        SearchFound { runs, looked_to }
    }
}

/// A statement for the direction of a page.
pub(crate) fn directed(text: &'static str, from: SearchFrom) -> std::borrow::Cow<'static, str> {
    match from {
        SearchFrom::Newest | SearchFrom::Older(_) => text.into(),
        SearchFrom::Newer(_) => text.replace(" desc", " asc").into(),
    }
}

impl PhaseCounts {
    /// Adds what a statement has counted. -1 are runs that it looked at and that are not wanted.
    pub(crate) fn add(&mut self, counted: &[(i64, i64)], looked_max: usize, of: fn(Phase) -> bool) {
        let looked: i64 = counted.iter().map(|(_, count)| count).sum();
        for phase in Phase::ALL.into_iter().filter(|phase| of(*phase)) {
            let index = phase as usize;
            let own = counted.iter().find(|(code, _)| *code == i64::from(phase.code()));
            self.counts[index] = own.map_or(0, |(_, count)| *count as u64);
            self.is_capped[index] = looked >= looked_max as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_what_states_mean_to_people() {
        let table = [
            (State::Pending, 100, None, Phase::Waiting),
            (State::Pending, 101, None, Phase::Later),
            (State::Assigned, 0, None, Phase::Starting),
            (State::Running, 0, None, Phase::Running),
            (State::Running, 0, Some(200), Phase::Cancelling),
            (State::Sleeping, 500, None, Phase::Sleeping),
            (State::Failed, 0, None, Phase::Failed),
        ];
        for (state, due_at, cancel_by, phase) in table {
            assert_eq!(Phase::at(state, due_at, cancel_by, 100), phase);
        }
    }
}
