//! Numbers as series.

use async_trait::async_trait;
use baton_core::Millis;
use bytes::Bytes;

use super::params::params;
use super::pool::Outcome;
use super::{PostgresStore, rows, sql};
use crate::{NewStatistics, Statistics, StatisticsFilter, StoreError, StoreResult, StoredStatistics, WorkerCount};

#[async_trait]
impl Statistics for PostgresStore {
    async fn write_statistics(&self, server: &str, seq: i64, block: NewStatistics) -> StoreResult<Millis> {
        let now = self.database.fixed_now();
        let NewStatistics { at, step_ms, body } = &block;
        let body = body.as_ref();
        let params = params![now, server, seq, at, step_ms, body];
        let write = async {
            let rows = self.database.query(sql::WRITE_STATISTICS, params).await?;
            let row = rows.first().ok_or_else(|| StoreError::Internal("the database has no time".into()))?;
            Ok(row.try_get(0)?)
        };
        self.database.within(write).await
    }

    async fn statistics(&self, filter: StatisticsFilter, limit: usize) -> StoreResult<Vec<StoredStatistics>> {
        self.database.again(|| self.list_statistics(filter, limit)).await
    }

    async fn oldest_statistics(&self, filter: StatisticsFilter) -> StoreResult<Option<Millis>> {
        let StatisticsFilter { from, before, step_ms_max } = filter;
        let params = params![from, before, step_ms_max];
        let read = async {
            let rows = self.database.query(sql::FIND_OLDEST_STATISTICS, params).await?;
            Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
        };
        self.database.within(read).await
    }

    async fn merge_statistics(&self, gone: &[i64], block: NewStatistics) -> StoreResult<bool> {
        let NewStatistics { at, step_ms, body } = &block;
        let (gone, body) = (gone.to_vec(), body.as_ref());
        let params = params![gone, at, step_ms, body];
        let merge = async { Ok(!self.database.query(sql::MERGE_STATISTICS, params).await?.is_empty()) };
        self.database.within(merge).await
    }

    async fn forget_statistics(&self, before: Millis, limit: usize) -> StoreResult<u64> {
        let limit = limit as i64;
        let params = params![before, limit];
        let forget = async {
            self.database.query(sql::FORGET_STATISTICS_SERVERS, params).await?;
            Ok(self.database.query(sql::FORGET_STATISTICS, params).await?.len() as u64)
        };
        self.database.within(forget).await
    }

    async fn worker_counts(&self, limit: usize) -> StoreResult<Vec<WorkerCount>> {
        self.database.again(|| self.count_workers_by_status(limit)).await
    }
}

impl PostgresStore {
    async fn list_statistics(&self, filter: StatisticsFilter, limit: usize) -> Outcome<Vec<StoredStatistics>> {
        let StatisticsFilter { from, before, step_ms_max } = filter;
        let limit = limit as i64;
        let mut blocks = Vec::new();
        for row in self.database.query(sql::LIST_STATISTICS, params![from, before, step_ms_max, limit]).await? {
            blocks.push(StoredStatistics {
                number: row.try_get(0)?,
                server: row.try_get(1)?,
                seq: row.try_get(2)?,
                at: row.try_get(3)?,
                step_ms: row.try_get(4)?,
                body: Bytes::from(row.try_get::<_, Vec<u8>>(5)?),
            });
        }
        Ok(blocks)
    }

    async fn count_workers_by_status(&self, limit: usize) -> Outcome<Vec<WorkerCount>> {
        let limit = limit as i64;
        let mut counts = Vec::new();
        for row in self.database.query(sql::COUNT_WORKERS_BY_STATUS, params![limit]).await? {
            counts.push(WorkerCount {
                namespace: row.try_get(0)?,
                status: rows::worker_status(row.try_get(1)?)?,
                count: row.try_get::<_, i64>(2)?.unsigned_abs(),
            });
        }
        counts.sort_by(WorkerCount::order);
        Ok(counts)
    }
}
