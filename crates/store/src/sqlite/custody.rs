//! Leases of runs, and writes that were refused because theirs was over.

use std::collections::HashMap;

use async_trait::async_trait;
use baton_core::{Epoch, RunId};
use rusqlite::params;

use super::connection::Sql;
use super::{SqliteStore, rows, statements};
use crate::custody::{self, Key, KnownLease, ReadRow};
use crate::{Custody, LateWrite, LeaseRef, NewRefusal, PastLease, RefusedWrites, StoreResult};

#[async_trait]
impl Custody for SqliteStore {
    async fn note_refused(&self, writes: Vec<LateWrite>) -> StoreResult<Vec<NewRefusal>> {
        // Most of what comes is known not to be worth a record before the writer is asked.
        let kept = self
            .read(move |sql| {
                let known = known_leases(sql, &writes)?;
                Ok(custody::worth_keeping(writes.clone(), &known))
            })
            .await?;
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |sql| {
            // Retention may have been faster.
            let known = known_leases(sql, kept.iter().map(|(write, _)| write))?;
            let kept: Vec<_> = kept.iter().filter(|(write, _)| known.contains_key(&write.lease)).cloned().collect();
            note(sql, kept)
        })
        .await
    }

    async fn refused_writes(&self, run: RunId) -> StoreResult<RefusedWrites> {
        self.read(move |sql| {
            let found = sql.rows(statements::LIST_REFUSED, params![run.0.as_bytes()], |row| {
                Ok(ReadRow {
                    epoch: rows::epoch(row, 0)?,
                    verb: row.get(1)?,
                    position: row.get(2)?,
                    current_epoch: rows::epoch(row, 3)?,
                    worker: rows::maybe_worker_id(row, 4)?,
                    name: row.get(5)?,
                    at: row.get(6)?,
                    last_at: row.get(7)?,
                    times: row.get(8)?,
                    bytes: row.get(9)?,
                })
            })?;
            Ok(custody::read(found))
        })
        .await
    }

    async fn past_leases(&self, run: RunId, before: Option<u32>, limit: usize) -> StoreResult<Vec<PastLease>> {
        self.read(move |sql| {
            let before = before.map_or(i64::MAX, i64::from);
            sql.rows(statements::LIST_LEASES, params![run.0.as_bytes(), before, limit as i64], |row| {
                Ok(PastLease { attempt: rows::attempt(row)?, seen_at: row.get(7)?, worker_name: row.get(8)? })
            })
        })
        .await
    }

    async fn count_past_leases(&self, run: RunId) -> StoreResult<u64> {
        self.read(move |sql| sql.one(statements::COUNT_LEASES_OF_RUN, params![run.0.as_bytes()], rows::count)).await
    }
}

fn known_leases<'a>(
    sql: &Sql<'_>,
    writes: impl IntoIterator<Item = &'a LateWrite>,
) -> StoreResult<HashMap<LeaseRef, KnownLease>> {
    let mut known = HashMap::new();
    for write in writes {
        let LeaseRef { run, epoch } = write.lease;
        if known.contains_key(&write.lease) {
            continue;
        }
        let found = sql.row(statements::READ_LATE, params![run.0.as_bytes(), epoch.code()], |row| {
            Ok(KnownLease {
                current: rows::epoch(row, 0)?,
                is_held: row.get(1)?,
                end: rows::maybe(row, 2, rows::lease_end)?,
                worker: rows::maybe_worker_id(row, 3)?,
            })
        })?;
        known.extend(found.map(|found| (write.lease, found)));
    }
    Ok(known)
}

fn note(sql: &Sql<'_>, kept: Vec<(LateWrite, KnownLease)>) -> StoreResult<Vec<NewRefusal>> {
    let mut runs: Vec<RunId> = kept.iter().map(|(write, _)| write.lease.run).collect();
    runs.sort_unstable();
    runs.dedup();
    let mut there = Vec::new();
    for run in runs {
        there.extend(sql.rows(statements::LIST_REFUSED_KEYS, params![run.0.as_bytes()], |row| {
            let epoch: Epoch = rows::epoch(row, 0)?;
            Ok(Key { run, epoch: epoch.code(), verb: row.get(1)?, position: row.get(2)? })
        })?);
    }
    let (written, new) = custody::rows(kept, &there);
    for row in written {
        let Key { run, epoch, verb, position } = row.key;
        let (at, last_at) = (sql.now.saturating_sub(row.first_ms_ago), sql.now.saturating_sub(row.last_ms_ago));
        let worker = row.worker.map(|worker| *worker.0.as_bytes());
        let (times, bytes) = (row.times as i64, row.bytes as i64);
        sql.execute(
            statements::NOTE_REFUSED,
            params![
                run.0.as_bytes(),
                epoch,
                verb,
                position,
                row.current.code(),
                worker,
                row.name,
                at,
                last_at,
                times,
                bytes
            ],
        )?;
    }
    Ok(new)
}
