//! Puts old blocks together, and deletes those that are too old. Safe on every server at once: a block is put in the place of others
//! only while all of them are there.

use baton_core::Millis;
use baton_core::statistics::{Block, Resolution, Unreadable, floor, kept_since};
use baton_store::{NewStatistics, StatisticsFilter, StoreResult};
use bytes::Bytes;

use super::{SUBJECTS_SHOWN_MAX, Statistics};

/// Blocks in one go: an hour of two servers, or more in several goes.
const MERGE_MAX: usize = 128;
/// Goes in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 20;
/// Blocks deleted in one go.
const FORGET_MAX: usize = 500;

impl Statistics {
    /// One pass. Returns how many blocks were put together, and how many deleted.
    pub async fn roll_up(&self) -> StoreResult<(usize, u64)> {
        let now = self.store.now().await?;
        self.metrics.series.note_time(now);
        let mut merged = 0;
        for resolution in Resolution::ALL {
            let Some(before) = resolution.takes_before(now) else { continue };
            for _ in 0..ROUNDS_MAX {
                match self.merge(resolution, before).await? {
                    0 => break,
                    count => merged += count,
                }
            }
        }
        self.metrics.statistics.merged.inc_by(merged as u64);
        let mut forgotten = 0;
        for _ in 0..ROUNDS_MAX {
            let gone = self.store.forget_statistics(kept_since(now), FORGET_MAX).await?;
            forgotten += gone;
            if gone < FORGET_MAX as u64 {
                break;
            }
        }
        Ok((merged, forgotten))
    }

    /// Puts the oldest blocks together that are finer than they are kept. Returns how many.
    async fn merge(&self, resolution: Resolution, before: Millis) -> StoreResult<usize> {
        let finer = StatisticsFilter { from: 0, before, step_ms_max: resolution.step_ms() - 1 };
        let Some(oldest) = self.store.oldest_statistics(finer).await? else { return Ok(0) };
        let at = floor(oldest, resolution.block_ms());
        let same_time = StatisticsFilter {
            from: at,
            before: at + resolution.block_ms(),
            // Also one that was put together before: some came late.
            step_ms_max: resolution.step_ms(),
        };
        let found = self.store.statistics(same_time, MERGE_MAX).await?;
        let mut whole = Block::new(resolution.step_ms());
        for stored in &found {
            match Block::decode(&stored.body) {
                Ok(block) => whole.merge(&block),
                // The server that wrote it can put it together with the others.
                Err(Unreadable::Newer(_)) => return Ok(0),
                // It would keep all others from being put together.
                Err(error) => tracing::error!(number = stored.number, %error, "a block of statistics is given up"),
            }
        }
        whole.fold(SUBJECTS_SHOWN_MAX);
        let numbers: Vec<i64> = found.iter().map(|stored| stored.number).collect();
        let new = NewStatistics { at, step_ms: resolution.step_ms(), body: Bytes::from(whole.encode()) };
        // Another server may have been faster.
        self.store.merge_statistics(&numbers, new).await?;
        Ok(numbers.len())
    }
}
