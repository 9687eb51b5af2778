//! What has happened, for those who listen.

use async_trait::async_trait;
use baton_core::{Millis, Reason, RunId, WorkerId};
use bytes::Bytes;
use std::collections::HashMap;
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, retried};
use super::{PostgresStore, rows, sql};
use crate::events::{POSITIONS_PER_MS, after, summed};
use crate::{EventBatch, EventPage, EventServer, Events, OtherServers, RunFacts, StoreError, StoreResult};

#[async_trait]
impl Events for PostgresStore {
    async fn skip_events(&self) -> StoreResult<()> {
        let now = self.database.fixed_now();
        let params = params![now, POSITIONS_PER_MS];
        self.database.within(async { self.database.query(sql::SKIP_EVENTS, params).await.map(drop) }).await
    }

    async fn write_events(&self, count: u32, body: Bytes) -> StoreResult<i64> {
        let (now, count, body) = (self.database.fixed_now(), i64::from(count), body.as_ref());
        let params = params![now, count, body];
        let write = async {
            let rows = self.database.query(sql::WRITE_EVENTS, params).await?;
            let row = rows.first().ok_or_else(|| StoreError::Internal("the clock of events is gone".into()))?;
            Ok(row.try_get(0)?)
        };
        self.database.within(write).await
    }

    async fn events_after(&self, position: i64, limit: usize) -> StoreResult<EventPage> {
        self.database.again(|| self.list_events(position, limit)).await
    }

    async fn forget_events(&self, age_ms: Millis, keep: i64, limit: usize) -> StoreResult<u64> {
        let (now, limit) = (self.database.fixed_now(), limit as i64);
        let params = params![now, age_ms, keep, limit];
        let forget = async { Ok(self.database.query(sql::FORGET_EVENTS, params).await?.len() as u64) };
        self.database.within(forget).await
    }

    async fn keep_event_server(&self, server: &EventServer, for_ms: Millis) -> StoreResult<()> {
        let now = self.database.fixed_now();
        let (wants, writes) = (server.wants as i32, server.writes as i32);
        let params = params![now, server.server, wants, writes, for_ms];
        self.database.within(async { self.database.query(sql::KEEP_EVENT_SERVER, params).await.map(drop) }).await
    }

    async fn event_servers(&self, but: &str) -> StoreResult<OtherServers> {
        let now = self.database.fixed_now();
        let params = params![now, but];
        let read = async {
            let rows = self.database.query(sql::LIST_EVENT_SERVERS, params).await?;
            let mut said = Vec::with_capacity(rows.len());
            for row in &rows {
                said.push((row.try_get::<_, i32>(0)? as u32, row.try_get(1)?));
            }
            Ok(summed(said.into_iter()))
        };
        self.database.within(read).await
    }

    async fn forget_event_servers(&self) -> StoreResult<u32> {
        let now = self.database.fixed_now();
        let params = params![now];
        let forget = async {
            let mut writes = 0;
            for row in self.database.query(sql::FORGET_EVENT_SERVERS, params).await? {
                writes |= row.try_get::<_, i32>(0)? as u32;
            }
            Ok(writes)
        };
        self.database.within(forget).await
    }

    async fn run_facts(&self, runs: &[RunId]) -> StoreResult<Vec<Option<RunFacts>>> {
        self.database.again(|| self.read_run_facts(runs)).await
    }
}

impl PostgresStore {
    async fn list_events(&self, position: i64, limit: usize) -> Outcome<EventPage> {
        let limit = limit as i64;
        let clock = self.database.query(sql::READ_EVENT_CLOCK, &[]).await?;
        let last = clock.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        let mut batches = Vec::new();
        for row in self.database.query(sql::LIST_EVENTS, params![position, limit]).await? {
            let body = Bytes::from(row.try_get::<_, Vec<u8>>(2)?);
            batches.push(EventBatch { first: row.try_get(0)?, last: row.try_get(1)?, body });
        }
        Ok(EventPage { batches: after(batches, position), last })
    }

    async fn read_run_facts(&self, runs: &[RunId]) -> Outcome<Vec<Option<RunFacts>>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let found = retried!(self.database.query_planned(sql::READ_RUN_FACTS, params![ids], ids.len()))?;
        let mut facts = HashMap::with_capacity(found.len());
        for row in &found {
            let reason = row.try_get::<_, Option<i16>>("reason")?;
            let fact = RunFacts {
                lane: row.try_get("lane_id")?,
                state: rows::state(row.try_get("state")?)?,
                epoch: rows::epoch(row, "epoch")?,
                reason: reason
                    .map(|code| Reason::from_code(code).ok_or_else(|| rows::corrupt("a reason")))
                    .transpose()?,
                worker: row.try_get::<_, Option<Uuid>>("worker_id")?.map(WorkerId),
                ended_at: row.try_get("ended_at")?,
                cancelling: row.try_get("cancelling")?,
            };
            facts.insert(rows::run_id(row, "run_id")?, fact);
        }
        Ok(runs.iter().map(|run| facts.get(run).cloned()).collect())
    }
}
