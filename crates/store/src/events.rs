//! What has happened, for those who listen. docs/adr/0026 has the reasons.
//!
//! Written only while somebody listens, in batches that the store does not read. Positions have no gaps, and become
//! visible in their order, whichever server writes. Those that a server leaves out at its start are a batch, too.

use async_trait::async_trait;
use baton_core::{Epoch, Millis, Reason, RunId, State, WorkerId};
use bytes::Bytes;

use crate::{LaneId, StoreResult};

/// A batch of events, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventBatch {
    /// The position of its first event.
    pub first: i64,
    /// The position of its last event.
    pub last: i64,
    /// The events, as they were written.
    pub body: Bytes,
}

/// What was found after a position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventPage {
    /// Oldest first. The first may have events from before the position.
    pub batches: Vec<EventBatch>,
    /// The position of the last event of all.
    pub last: i64,
}

/// What a server says about itself. Kinds of events are bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventServer {
    /// Its name, which no other has.
    pub server: String,
    /// Kinds that somebody listens for there.
    pub wants: u32,
    /// Kinds that it writes.
    pub writes: u32,
}

/// What the other servers have said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OtherServers {
    /// Kinds that somebody listens for at any of them.
    pub wants: u32,
    /// True when one of them has not been heard of in time.
    pub any_gone: bool,
}

/// What an event says of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunFacts {
    /// Its lane.
    pub lane: LaneId,
    /// Where it stands.
    pub state: State,
    /// The epoch of its newest claim.
    pub epoch: Epoch,
    /// Why it failed or was cancelled.
    pub reason: Option<Reason>,
    /// Who holds it, or held it at its end.
    pub worker: Option<WorkerId>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// True when somebody wants it cancelled and a worker has it.
    pub cancelling: bool,
}

/// The verbs of events. Every [`crate::Store`] has them.
#[async_trait]
pub trait Events: Send + Sync {
    /// Leaves out all positions that were given out before, also those that a restored database does not know of: goes on
    /// at one that is made of the time. The batch that stands for them is empty.
    async fn skip_events(&self) -> StoreResult<()>;
    /// Writes a batch of so many events behind all others. Returns the position of its last.
    async fn write_events(&self, count: u32, body: Bytes) -> StoreResult<i64>;
    /// Batches with events after a position; at most `limit`.
    async fn events_after(&self, position: i64, limit: usize) -> StoreResult<EventPage>;
    /// Deletes batches that are older than `age_ms`, or have more than `keep` events behind them; at most `limit`. Returns
    /// how many went.
    async fn forget_events(&self, age_ms: Millis, keep: i64, limit: usize) -> StoreResult<u64>;
    /// Says what a server listens for and writes, for so long. One that does neither is forgotten.
    async fn keep_event_server(&self, server: &EventServer, for_ms: Millis) -> StoreResult<()>;
    /// What the other servers have said.
    async fn event_servers(&self, but: &str) -> StoreResult<OtherServers>;
    /// Forgets servers that have not been heard of in time. Returns the kinds that they wrote; each is returned once.
    async fn forget_event_servers(&self) -> StoreResult<u32>;
    /// What events say of these runs, in the order asked for.
    async fn run_facts(&self, runs: &[RunId]) -> StoreResult<Vec<Option<RunFacts>>>;
}

/// Positions for each millisecond: more events than that do not happen in one.
pub(crate) const POSITIONS_PER_MS: i64 = 1_000;

/// Without the batch before, where the position is its last.
pub(crate) fn after(mut batches: Vec<EventBatch>, position: i64) -> Vec<EventBatch> {
    batches.retain(|batch| batch.last > position);
    batches
}

/// What servers have said together: wants, and whether one of them is gone.
pub(crate) fn summed(said: impl Iterator<Item = (u32, bool)>) -> OtherServers {
    said.fold(OtherServers::default(), |all, (wants, is_gone)| OtherServers {
        wants: if is_gone { all.wants } else { all.wants | wants },
        any_gone: all.any_gone || is_gone,
    })
}
