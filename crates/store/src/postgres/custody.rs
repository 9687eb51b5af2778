//! Leases of runs, and writes that were refused because theirs was over.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use baton_core::{Millis, RunId, WorkerId};
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, Session, retried};
use super::{PostgresStore, rows, sql};
use crate::custody::{self, Key, KnownLease, ReadRow, Row};
use crate::{Custody, LateWrite, LeaseRef, NewRefusal, PastLease, RefusedWrites, StoreResult};

#[async_trait]
impl Custody for PostgresStore {
    async fn note_refused(&self, writes: Vec<LateWrite>) -> StoreResult<Vec<NewRefusal>> {
        let known = self.database.again(|| self.known_leases(&writes)).await?;
        let kept = custody::worth_keeping(writes, &known);
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        self.database.within(self.note_all(kept)).await
    }

    async fn refused_writes(&self, run: RunId) -> StoreResult<RefusedWrites> {
        self.database.again(|| self.list_refused(run)).await
    }

    async fn past_leases(&self, run: RunId, before: Option<u32>, limit: usize) -> StoreResult<Vec<PastLease>> {
        self.database.again(|| self.list_past_leases(run, before, limit)).await
    }

    async fn count_past_leases(&self, run: RunId) -> StoreResult<u64> {
        let count = async || {
            let found = self.database.query(sql::COUNT_LEASES_OF_RUN, params![run.0]).await?;
            let count = found.first().map(|row| row.try_get::<_, i64>(0)).transpose()?;
            Ok(count.unwrap_or_default() as u64)
        };
        self.database.again(count).await
    }
}

impl PostgresStore {
    async fn known_leases(&self, writes: &[LateWrite]) -> Outcome<HashMap<LeaseRef, KnownLease>> {
        let leases: HashSet<LeaseRef> = writes.iter().map(|write| write.lease).collect();
        let runs: Vec<Uuid> = leases.iter().map(|lease| lease.run.0).collect();
        let epochs: Vec<i64> = leases.iter().map(|lease| lease.epoch.code()).collect();
        let found = retried!(self.database.query_planned(sql::READ_LATE, params![runs, epochs], runs.len()))?;
        let mut known = HashMap::with_capacity(found.len());
        for row in &found {
            let lease = LeaseRef { run: rows::run_id(row, "run_id")?, epoch: rows::epoch(row, "epoch")? };
            let end = row.try_get::<_, Option<i16>>("lease_end")?.map(rows::lease_end).transpose()?;
            let known_lease = KnownLease {
                current: rows::epoch(row, "current_epoch")?,
                is_held: row.try_get("is_held")?,
                end,
                worker: row.try_get::<_, Option<Uuid>>("worker_id")?.map(WorkerId),
            };
            known.insert(lease, known_lease);
        }
        Ok(known)
    }

    async fn note_all(&self, mut kept: Vec<(LateWrite, KnownLease)>) -> Outcome<Vec<NewRefusal>> {
        let mut runs: Vec<Uuid> = kept.iter().map(|(write, _)| write.lease.run.0).collect();
        runs.sort_unstable();
        runs.dedup();
        let session = self.database.transaction().await?;
        // Retention holds what has ended while it removes a run, and passes by what somebody else holds.
        session.query(sql::HOLD_ENDED, params![runs]).await?;
        let mut there = HashSet::with_capacity(runs.len());
        for row in session.query(sql::HOLD_SUBMITTED, params![runs]).await? {
            there.insert(rows::run_id(&row, "run_id")?);
        }
        kept.retain(|(write, _)| there.contains(&write.lease.run));
        let mut keys = Vec::new();
        for row in session.query(sql::LIST_REFUSED_KEYS, params![runs]).await? {
            let (run, epoch) = (rows::run_id(&row, "run_id")?, row.try_get("epoch")?);
            keys.push(Key { run, epoch, verb: row.try_get("verb")?, position: row.try_get("position")? });
        }
        let (written, new) = custody::rows(kept, &keys);
        if !written.is_empty() {
            write(&session, self.database.fixed_now(), &written).await?;
        }
        session.commit().await?;
        Ok(new)
    }

    async fn list_refused(&self, run: RunId) -> Outcome<RefusedWrites> {
        let mut found = Vec::new();
        for row in &self.database.query(sql::LIST_REFUSED, params![run.0]).await? {
            found.push(ReadRow {
                epoch: rows::epoch(row, "epoch")?,
                verb: row.try_get("verb")?,
                position: row.try_get("position")?,
                current_epoch: rows::epoch(row, "current_epoch")?,
                worker: row.try_get::<_, Option<Uuid>>("worker_id")?.map(WorkerId),
                name: row.try_get("name")?,
                at: row.try_get("at")?,
                last_at: row.try_get("last_at")?,
                times: row.try_get("times")?,
                bytes: row.try_get("bytes")?,
            });
        }
        Ok(custody::read(found))
    }

    async fn list_past_leases(&self, run: RunId, before: Option<u32>, limit: usize) -> Outcome<Vec<PastLease>> {
        let (before, limit) = (before.map_or(i64::MAX, i64::from), limit as i64);
        let mut leases = Vec::new();
        for row in &self.database.query(sql::LIST_LEASES, params![run.0, before, limit]).await? {
            let (seen_at, worker_name) = (row.try_get("seen_at")?, row.try_get("name")?);
            leases.push(PastLease { attempt: rows::attempt(row)?, seen_at, worker_name });
        }
        Ok(leases)
    }
}

async fn write(session: &Session<'_>, now: Option<Millis>, written: &[Row]) -> Outcome<()> {
    let runs: Vec<Uuid> = written.iter().map(|row| row.key.run.0).collect();
    let epochs: Vec<i64> = written.iter().map(|row| row.key.epoch).collect();
    let verbs: Vec<i16> = written.iter().map(|row| row.key.verb).collect();
    let positions: Vec<i32> = written.iter().map(|row| row.key.position).collect();
    let current: Vec<i64> = written.iter().map(|row| row.current.code()).collect();
    let workers: Vec<Option<Uuid>> = written.iter().map(|row| row.worker.map(|worker| worker.0)).collect();
    let names: Vec<_> = written.iter().map(|row| rows::clean(&row.name)).collect();
    let first: Vec<i64> = written.iter().map(|row| row.first_ms_ago).collect();
    let last: Vec<i64> = written.iter().map(|row| row.last_ms_ago).collect();
    let times: Vec<i64> = written.iter().map(|row| row.times as i64).collect();
    let bytes: Vec<i64> = written.iter().map(|row| row.bytes as i64).collect();
    let params = params![now, runs, epochs, verbs, positions, current, workers, names, first, last, times, bytes];
    session.query(sql::NOTE_REFUSED, params).await.map(drop)
}
