//! Operations on all runs that a filter finds.

use async_trait::async_trait;
use baton_core::bulk::Tally;
use baton_core::rate::Bucket;
use baton_core::{BulkAction, BulkId, BulkState, Millis, RunId};
use rusqlite::{Result, Row, params};
use uuid::Uuid;

use super::connection::Sql;
use super::{SqliteStore, rows, statements};
use crate::bulk::{joined, parted};
use crate::{BulkMade, BulkOperation, BulkOperations, BulkProgress, LiveBulks, NewBulk, Page, StoreResult};

#[async_trait]
impl BulkOperations for SqliteStore {
    async fn add_bulk(&self, new: NewBulk, die: u64, live_max: u64) -> StoreResult<BulkMade> {
        self.write(move |sql| add(sql, &new, die, live_max)).await
    }

    async fn bulk(&self, id: BulkId) -> StoreResult<Option<BulkOperation>> {
        self.read(move |sql| one(sql, id)).await
    }

    async fn bulks(
        &self,
        namespace: Option<&str>,
        state: Option<BulkState>,
        page: Page<BulkId>,
    ) -> StoreResult<Vec<BulkOperation>> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| {
            let after = page.after.map(|id| *id.0.as_bytes());
            let parameters = params![namespace, state.map(BulkState::code), after, page.limit as i64];
            sql.rows(statements::LIST_BULKS, parameters, operation)
        })
        .await
    }

    async fn live_bulks(&self, limit: usize) -> StoreResult<LiveBulks> {
        self.read(move |sql| {
            let operations = sql.rows(statements::LIST_LIVE_BULKS, params![limit as i64], operation)?;
            Ok(LiveBulks { operations, now: sql.now })
        })
        .await
    }

    async fn save_bulk(
        &self,
        id: BulkId,
        version: i64,
        progress: &BulkProgress,
        state: BulkState,
        due_in_ms: Millis,
    ) -> StoreResult<Option<BulkOperation>> {
        let progress = progress.clone();
        self.write(move |sql| {
            let count = |number: u64| rows::limit(number);
            let parameters = params![
                id.0.as_bytes(),
                version,
                sql.now.saturating_add(due_in_ms),
                progress.cursor.map(|run| *run.0.as_bytes()),
                joined(&progress.planned),
                progress.matched.map(count),
                count(progress.tally.done),
                count(progress.tally.skipped),
                count(progress.tally.failed),
                progress.errors,
                progress.bucket.tokens,
                progress.bucket.at,
                progress.troubles,
                progress.waits_for,
                state.code(),
                sql.now,
            ];
            sql.row(statements::SAVE_BULK, parameters, operation)
        })
        .await
    }

    async fn stop_bulk(&self, id: BulkId) -> StoreResult<Option<BulkOperation>> {
        self.write(move |sql| {
            sql.execute(statements::STOP_BULK, params![id.0.as_bytes(), sql.now])?;
            one(sql, id)
        })
        .await
    }

    async fn forget_bulks(&self, age_ms: Millis, limit: usize) -> StoreResult<u64> {
        self.write(move |sql| {
            let before = sql.now.saturating_sub(age_ms);
            Ok(sql.execute(statements::FORGET_BULKS, params![before, limit as i64])? as u64)
        })
        .await
    }
}

fn add(sql: &Sql<'_>, new: &NewBulk, die: u64, live_max: u64) -> StoreResult<BulkMade> {
    let idempotency = new.idempotency.as_ref();
    if let Some(idempotency) = idempotency {
        let known = sql.row(statements::READ_BULK_BY_KEY, params![idempotency.key], |row| {
            Ok((operation(row)?, row.get::<_, [u8; 16]>("fingerprint")?))
        })?;
        match known {
            Some((earlier, fingerprint)) if fingerprint == idempotency.fingerprint => {
                return Ok(BulkMade::Earlier(earlier));
            }
            Some(_) => return Ok(BulkMade::KeyReused),
            None => {}
        }
    }
    if sql.one(statements::COUNT_LIVE_BULKS, params![new.namespace], rows::count)? >= live_max {
        return Ok(BulkMade::TooMany);
    }
    let number = sql.one(statements::TAKE_RUN_NUMBERS, params![1], rows::count)?;
    let id = BulkId(RunId::new(sql.now, number, die).0);
    sql.execute(
        statements::ADD_BULK,
        params![
            id.0.as_bytes(),
            new.namespace,
            new.action.code(),
            new.filter,
            new.reason,
            new.created_by,
            sql.now,
            idempotency.map(|one| &one.key),
            idempotency.map(|one| one.fingerprint),
            new.per_second,
            new.per_second.max(1.0),
        ],
    )?;
    Ok(BulkMade::New(sql.one(statements::READ_BULK, params![id.0.as_bytes()], operation)?))
}

fn one(sql: &Sql<'_>, id: BulkId) -> StoreResult<Option<BulkOperation>> {
    sql.row(statements::READ_BULK, params![id.0.as_bytes()], operation)
}

fn operation(row: &Row<'_>) -> Result<BulkOperation> {
    Ok(BulkOperation {
        id: BulkId(Uuid::from_bytes(row.get("bulk_id")?)),
        namespace: row.get("namespace")?,
        action: rows::coded(row, "action", BulkAction::from_code)?,
        filter: row.get("filter")?,
        reason: row.get("reason")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
        per_second: row.get("rate")?,
        state: rows::coded(row, "state", BulkState::from_code)?,
        is_stopping: row.get("stopping")?,
        ended_at: row.get("ended_at")?,
        version: row.get("version")?,
        due_at: row.get("due_at")?,
        progress: BulkProgress {
            cursor: rows::maybe(row, "run_cursor", rows::run_id)?,
            planned: parted(&rows::bytes(row, "planned")?),
            matched: rows::maybe(row, "matched", rows::number)?,
            tally: Tally {
                done: rows::number(row, "done")?,
                skipped: rows::number(row, "skipped")?,
                failed: rows::number(row, "failed")?,
            },
            errors: row.get("errors")?,
            bucket: Bucket { tokens: row.get("tokens")?, at: row.get("rate_at")? },
            troubles: row.get("troubles")?,
            waits_for: row.get("waits_for")?,
        },
    })
}
