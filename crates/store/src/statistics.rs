//! Numbers as series. docs/adr/0028 has the reasons.
//!
//! Written in blocks that the store does not read. A block that was written never changes; later it is put together with others
//! of the same time, in one transaction, so that whoever reads finds each number once.

use std::cmp::Ordering;

use async_trait::async_trait;
use baton_core::Millis;
use bytes::Bytes;

use crate::{StoreResult, WorkerStatus};

/// A block to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewStatistics {
    /// The moment at which it begins.
    pub at: Millis,
    /// How long its buckets are.
    pub step_ms: Millis,
    /// What it says.
    pub body: Bytes,
}

/// A block that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredStatistics {
    /// Its number, which no other ever has.
    pub number: i64,
    /// The server that wrote it, and which of its blocks it is. Empty and 0 for one that was put together.
    pub server: String,
    /// See [`StoredStatistics::server`].
    pub seq: i64,
    /// The moment at which it begins.
    pub at: Millis,
    /// How long its buckets are.
    pub step_ms: Millis,
    /// What it says.
    pub body: Bytes,
}

/// Which blocks to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatisticsFilter {
    /// Those that begin at this moment or later.
    pub from: Millis,
    /// Those that begin before this moment.
    pub before: Millis,
    /// Those whose buckets are no longer than this.
    pub step_ms_max: Millis,
}

/// How many workers of a namespace have a status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerCount {
    /// The namespace.
    pub namespace: String,
    /// Their status.
    pub status: WorkerStatus,
    /// How many.
    pub count: u64,
}

impl WorkerCount {
    /// By namespace and status.
    pub(crate) fn order(&self, other: &WorkerCount) -> Ordering {
        (&self.namespace, self.status.code()).cmp(&(&other.namespace, other.status.code()))
    }
}

/// The verbs of statistics. Every [`crate::Store`] has them.
#[async_trait]
pub trait Statistics: Send + Sync {
    /// Writes a block of a server, which numbers its blocks from 1 on and writes them in that order. One that was written
    /// before is not written again, also when it was put together with others since. Returns the time.
    async fn write_statistics(&self, server: &str, seq: i64, block: NewStatistics) -> StoreResult<Millis>;
    /// Blocks, in the order of their numbers; at most `limit`. All are as they were at one moment.
    async fn statistics(&self, filter: StatisticsFilter, limit: usize) -> StoreResult<Vec<StoredStatistics>>;
    /// Where the oldest block begins that the filter finds.
    async fn oldest_statistics(&self, filter: StatisticsFilter) -> StoreResult<Option<Millis>>;
    /// Puts one block in the place of others. False, and nothing is changed, when one of them is not there any more.
    async fn merge_statistics(&self, gone: &[i64], block: NewStatistics) -> StoreResult<bool>;
    /// Deletes blocks that begin before this moment, and forgets servers that have written nothing since; at most `limit` of
    /// each. Returns how many blocks went.
    async fn forget_statistics(&self, before: Millis, limit: usize) -> StoreResult<u64>;
    /// How many workers of each namespace have which status; at most `limit` counts.
    async fn worker_counts(&self, limit: usize) -> StoreResult<Vec<WorkerCount>>;
}
