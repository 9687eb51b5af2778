//! Numbers as series.

use async_trait::async_trait;
use baton_core::Millis;
use bytes::Bytes;
use rusqlite::params;

use super::connection::Sql;
use super::{SqliteStore, rows, statements};
use crate::{NewStatistics, Statistics, StatisticsFilter, StoreResult, StoredStatistics, WorkerCount};

#[async_trait]
impl Statistics for SqliteStore {
    async fn write_statistics(&self, server: &str, seq: i64, block: NewStatistics) -> StoreResult<Millis> {
        let server = server.to_owned();
        self.write(move |sql| {
            if sql.execute(statements::NOTE_STATISTICS_SERVER, params![server, seq, sql.now])? > 0 {
                insert(sql, &server, seq, &block)?;
            }
            Ok(sql.now)
        })
        .await
    }

    async fn statistics(&self, filter: StatisticsFilter, limit: usize) -> StoreResult<Vec<StoredStatistics>> {
        let StatisticsFilter { from, before, step_ms_max } = filter;
        self.read(move |sql| {
            let parameters = params![from, before, step_ms_max, limit as i64];
            sql.rows(statements::LIST_STATISTICS, parameters, |row| {
                let body: Bytes = rows::bytes(row, 5)?;
                Ok(StoredStatistics {
                    number: row.get(0)?,
                    server: row.get(1)?,
                    seq: row.get(2)?,
                    at: row.get(3)?,
                    step_ms: row.get(4)?,
                    body,
                })
            })
        })
        .await
    }

    async fn oldest_statistics(&self, filter: StatisticsFilter) -> StoreResult<Option<Millis>> {
        let StatisticsFilter { from, before, step_ms_max } = filter;
        self.read(move |sql| {
            sql.row(statements::FIND_OLDEST_STATISTICS, params![from, before, step_ms_max], |row| row.get(0))
        })
        .await
    }

    async fn merge_statistics(&self, gone: &[i64], block: NewStatistics) -> StoreResult<bool> {
        let gone = gone.to_vec();
        self.write(move |sql| {
            for number in &gone {
                if sql.row(statements::HAS_STATISTICS, params![number], |_| Ok(()))?.is_none() {
                    return Ok(false);
                }
            }
            for number in &gone {
                sql.execute(statements::DELETE_STATISTICS, params![number])?;
            }
            insert(sql, "", 0, &block)?;
            Ok(true)
        })
        .await
    }

    async fn forget_statistics(&self, before: Millis, limit: usize) -> StoreResult<u64> {
        self.write(move |sql| {
            sql.execute(statements::FORGET_STATISTICS_SERVERS, params![before, limit as i64])?;
            Ok(sql.execute(statements::FORGET_STATISTICS, params![before, limit as i64])? as u64)
        })
        .await
    }

    async fn worker_counts(&self, limit: usize) -> StoreResult<Vec<WorkerCount>> {
        self.read(move |sql| {
            let mut counts = sql.rows(statements::COUNT_WORKERS_BY_STATUS, params![limit as i64], |row| {
                Ok(WorkerCount {
                    namespace: row.get(0)?,
                    status: rows::status(row, 1)?,
                    count: row.get::<_, i64>(2)?.unsigned_abs(),
                })
            })?;
            counts.sort_by(WorkerCount::order);
            Ok(counts)
        })
        .await
    }
}

fn insert(sql: &Sql<'_>, server: &str, seq: i64, block: &NewStatistics) -> StoreResult<()> {
    let NewStatistics { at, step_ms, body } = block;
    sql.execute(statements::INSERT_STATISTICS, params![server, seq, at, step_ms, body.as_ref()])?;
    Ok(())
}
