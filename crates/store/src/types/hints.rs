//! What servers tell each other.

use baton_core::pools::{ClaimNo, RunnerId};
use baton_core::{RunId, WorkerId};

use super::LaneId;

/// What one server tells the others. Only hints: they may get lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// Lanes that have work.
    pub lanes: Vec<LaneId>,
    /// Workers that there is news for: a run to be cancelled, an order to drain.
    pub workers: Vec<WorkerId>,
    /// Runs whose holders there is news for: messages, or their end.
    pub runs: Vec<RunId>,
    /// Runners of pools whose agents there is news for.
    pub runners: Vec<RunnerId>,
    /// Claims of runner pools that have moved.
    pub claims: Vec<ClaimNo>,
    /// Namespaces were changed.
    pub namespaces: bool,
    /// There is a new generation of the installation's secret.
    pub secrets: bool,
    /// Somebody listens for other kinds of events than before.
    pub events: bool,
    /// There is a bulk operation to be looked at.
    pub bulk: bool,
}

impl Hints {
    /// True when there are none; to whoever listens, this says that some were missed.
    pub fn is_empty(&self) -> bool {
        let is_without_runs = self.lanes.is_empty() && self.workers.is_empty() && self.runs.is_empty();
        let is_without_pools = self.runners.is_empty() && self.claims.is_empty();
        is_without_runs && is_without_pools && !self.namespaces && !self.secrets && !self.events && !self.bulk
    }
}
