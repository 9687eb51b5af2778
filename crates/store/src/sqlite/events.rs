//! What has happened, for those who listen.

use async_trait::async_trait;
use baton_core::{Millis, Reason, RunId};
use bytes::Bytes;
use rusqlite::params;

use super::{SqliteStore, rows, statements};
use crate::events::{POSITIONS_PER_MS, after, summed};
use crate::{EventBatch, EventPage, EventServer, Events, OtherServers, RunFacts, StoreResult};

#[async_trait]
impl Events for SqliteStore {
    async fn skip_events(&self) -> StoreResult<()> {
        self.write(|sql| {
            let next = sql.now.saturating_mul(POSITIONS_PER_MS);
            let before: i64 = sql.one(statements::READ_EVENT_CLOCK, [], |row| row.get(0))?;
            let last: i64 = sql.one(statements::MOVE_EVENT_CLOCK, params![(next - before).max(1)], |row| row.get(0))?;
            sql.execute(statements::INSERT_EVENTS, params![before + 1, last, sql.now, [0u8; 0].as_slice()])?;
            Ok(())
        })
        .await
    }

    async fn write_events(&self, count: u32, body: Bytes) -> StoreResult<i64> {
        self.write(move |sql| {
            let last: i64 = sql.one(statements::MOVE_EVENT_CLOCK, params![count], |row| row.get(0))?;
            let first = last - i64::from(count) + 1;
            sql.execute(statements::INSERT_EVENTS, params![first, last, sql.now, body.as_ref()])?;
            Ok(last)
        })
        .await
    }

    async fn events_after(&self, position: i64, limit: usize) -> StoreResult<EventPage> {
        self.read(move |sql| {
            let last = sql.one(statements::READ_EVENT_CLOCK, [], |row| row.get(0))?;
            let batches = sql.rows(statements::LIST_EVENTS, params![position, limit as i64], |row| {
                Ok(EventBatch { first: row.get(0)?, last: row.get(1)?, body: rows::bytes(row, 2)? })
            })?;
            Ok(EventPage { batches: after(batches, position), last })
        })
        .await
    }

    async fn forget_events(&self, age_ms: Millis, keep: i64, limit: usize) -> StoreResult<u64> {
        self.write(move |sql| {
            let before = sql.now.saturating_sub(age_ms);
            Ok(sql.execute(statements::FORGET_EVENTS, params![before, keep, limit as i64])? as u64)
        })
        .await
    }

    async fn keep_event_server(&self, server: &EventServer, for_ms: Millis) -> StoreResult<()> {
        let EventServer { server, wants, writes } = server.clone();
        self.write(move |sql| {
            match wants | writes {
                0 => sql.execute(statements::DELETE_EVENT_SERVER, params![server])?,
                _ => sql.execute(
                    statements::KEEP_EVENT_SERVER,
                    params![server, wants, writes, sql.now.saturating_add(for_ms)],
                )?,
            };
            Ok(())
        })
        .await
    }

    async fn event_servers(&self, but: &str) -> StoreResult<OtherServers> {
        let but = but.to_owned();
        self.read(move |sql| {
            let said = sql.rows(statements::LIST_EVENT_SERVERS, params![sql.now, but], |row| {
                Ok((row.get::<_, u32>(0)?, row.get::<_, bool>(1)?))
            })?;
            Ok(summed(said.into_iter()))
        })
        .await
    }

    async fn forget_event_servers(&self) -> StoreResult<u32> {
        self.write(|sql| {
            let writes = sql.rows(statements::FORGET_EVENT_SERVERS, params![sql.now], |row| row.get::<_, u32>(0))?;
            Ok(writes.into_iter().fold(0, |all, writes| all | writes))
        })
        .await
    }

    async fn run_facts(&self, runs: &[RunId]) -> StoreResult<Vec<Option<RunFacts>>> {
        let runs = runs.to_vec();
        self.read(move |sql| {
            let facts = |run: &RunId| {
                sql.row(statements::READ_RUN_FACTS, params![run.0.as_bytes()], |row| {
                    Ok(RunFacts {
                        lane: row.get("lane_id")?,
                        state: rows::state(row, "state")?,
                        epoch: rows::epoch(row, "epoch")?,
                        reason: rows::maybe(row, "reason", |row, index| rows::coded(row, index, Reason::from_code))?,
                        worker: rows::maybe_worker_id(row, "worker_id")?,
                        ended_at: row.get("ended_at")?,
                        cancelling: row.get("cancelling")?,
                    })
                })
            };
            runs.iter().map(facts).collect()
        })
        .await
    }
}
