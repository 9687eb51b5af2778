//! Operations on all runs that a filter finds. docs/adr/0027 has the reasons.
//!
//! An operation is one row: what is to be done, how far it has come, and which runs a server acts on now. Whoever writes
//! says which version it has read, and changes nothing when somebody else has written since.

use async_trait::async_trait;
use baton_core::bulk::Tally;
use baton_core::rate::Bucket;
use baton_core::{BulkAction, BulkId, BulkState, Millis, RunId};
use uuid::Uuid;

use crate::{Idempotency, Page, StoreResult};

/// A bulk operation to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct NewBulk {
    /// Whose runs; `None` means those of all namespaces.
    pub namespace: Option<String>,
    /// What is done to each.
    pub action: BulkAction,
    /// Which runs, in the words of whoever asked.
    pub filter: String,
    /// Why, for people.
    pub reason: Option<String>,
    /// The id of the key that made it.
    pub created_by: String,
    /// Makes a repeated call harmless.
    pub idempotency: Option<Idempotency>,
    /// Most runs in a second.
    pub per_second: f64,
}

/// A bulk operation.
#[derive(Clone, PartialEq, Debug)]
pub struct BulkOperation {
    /// Its identifier. Runs with smaller ones were submitted before.
    pub id: BulkId,
    /// Whose runs; `None` means those of all namespaces.
    pub namespace: Option<String>,
    /// What is done to each.
    pub action: BulkAction,
    /// Which runs, in the words of whoever asked.
    pub filter: String,
    /// Why, for people.
    pub reason: Option<String>,
    /// The id of the key that made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: Millis,
    /// Most runs in a second.
    pub per_second: f64,
    /// Where it stands.
    pub state: BulkState,
    /// Somebody wants it stopped.
    pub is_stopping: bool,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Grows with every write but a request to stop.
    pub version: i64,
    /// When a server is to look at it. While one acts on its runs, how long it may take before another one goes on.
    pub due_at: Millis,
    /// How far it has come.
    pub progress: BulkProgress,
}

/// How far a bulk operation has come.
#[derive(Clone, PartialEq, Debug)]
pub struct BulkProgress {
    /// All runs with larger identifiers were planned; `None` at the start.
    pub cursor: Option<RunId>,
    /// Runs that a server acts on now. What became of them is not known yet.
    pub planned: Vec<RunId>,
    /// How many runs there were, once they were counted.
    pub matched: Option<u64>,
    /// What became of those that it has come to.
    pub tally: Tally,
    /// The first errors, as JSON.
    pub errors: String,
    /// What its rate leaves.
    pub bucket: Bucket,
    /// Turns in a row that failed.
    pub troubles: u32,
    /// What it waits for, for people.
    pub waits_for: Option<String>,
}

/// What became of a bulk operation that was to be made.
#[derive(Clone, PartialEq, Debug)]
pub enum BulkMade {
    /// It is new.
    New(BulkOperation),
    /// An earlier call made it.
    Earlier(BulkOperation),
    /// An earlier call with this key said something else.
    KeyReused,
    /// The namespace has as many that go on as it may.
    TooMany,
}

/// Operations that go on.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveBulks {
    /// Those that are due first.
    pub operations: Vec<BulkOperation>,
    /// The time on the store's clock.
    pub now: Millis,
}

/// The verbs of bulk operations. Every [`crate::Store`] has them.
#[async_trait]
pub trait BulkOperations: Send + Sync {
    /// Makes one, unless its namespace has `live_max` that go on.
    async fn add_bulk(&self, new: NewBulk, die: u64, live_max: u64) -> StoreResult<BulkMade>;
    /// One of them.
    async fn bulk(&self, id: BulkId) -> StoreResult<Option<BulkOperation>>;
    /// Those of a namespace (of all when `None`) in this state (in any when `None`), newest first.
    async fn bulks(
        &self,
        namespace: Option<&str>,
        state: Option<BulkState>,
        page: Page<BulkId>,
    ) -> StoreResult<Vec<BulkOperation>>;
    /// Those that go on, at most `limit`.
    async fn live_bulks(&self, limit: usize) -> StoreResult<LiveBulks>;
    /// Writes how far one has come, and that nobody needs to look at it for `due_in_ms`. Nothing is changed when it has
    /// ended, or another version than this was written since.
    async fn save_bulk(
        &self,
        id: BulkId,
        version: i64,
        progress: &BulkProgress,
        state: BulkState,
        due_in_ms: Millis,
    ) -> StoreResult<Option<BulkOperation>>;
    /// Asks one to stop; one that has ended stays as it is.
    async fn stop_bulk(&self, id: BulkId) -> StoreResult<Option<BulkOperation>>;
    /// Deletes those that ended longer ago than this; at most `limit`. Returns how many went.
    async fn forget_bulks(&self, age_ms: Millis, limit: usize) -> StoreResult<u64>;
}

/// How many bytes an identifier has.
const ID_BYTES: usize = 16;

/// Runs as they are stored: one identifier after the other.
pub(crate) fn joined(runs: &[RunId]) -> Vec<u8> {
    runs.iter().flat_map(|run| *run.0.as_bytes()).collect()
}

/// Runs as they were stored.
pub(crate) fn parted(bytes: &[u8]) -> Vec<RunId> {
    bytes.chunks_exact(ID_BYTES).filter_map(|id| Uuid::from_slice(id).ok()).map(RunId).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_as_they_were_written() {
        let runs: Vec<RunId> = (0..5).map(|number| RunId::new(1_000, number, 7)).collect();
        assert_eq!(parted(&joined(&runs)), runs);
        assert_eq!(parted(&joined(&[])), []);
    }
}
