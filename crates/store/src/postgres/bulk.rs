//! Operations on all runs that a filter finds.

use async_trait::async_trait;
use baton_core::bulk::Tally;
use baton_core::rate::Bucket;
use baton_core::{BulkAction, BulkId, BulkState, Millis, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::params::params;
use super::pool::{Outcome, retried};
use super::{PostgresStore, rows, sql};
use crate::bulk::{joined, parted};
use crate::{BulkMade, BulkOperation, BulkOperations, BulkProgress, LiveBulks, NewBulk, Page, StoreError, StoreResult};

/// Bits of an identifier that are left to chance.
const DIE_BITS: u64 = 0xffff_ffff_ffff;

#[async_trait]
impl BulkOperations for PostgresStore {
    async fn add_bulk(&self, new: NewBulk, die: u64, live_max: u64) -> StoreResult<BulkMade> {
        self.database.within(async { retried!(self.insert_bulk(&new, die, live_max)) }).await
    }

    async fn bulk(&self, id: BulkId) -> StoreResult<Option<BulkOperation>> {
        self.database.again(|| self.read_bulk(id)).await
    }

    async fn bulks(
        &self,
        namespace: Option<&str>,
        state: Option<BulkState>,
        page: Page<BulkId>,
    ) -> StoreResult<Vec<BulkOperation>> {
        let (state, after, limit) = (state.map(BulkState::code), page.after.map(|id| id.0), page.limit as i64);
        let list = async || {
            let rows = self.database.query(sql::LIST_BULKS, params![namespace, state, after, limit]).await?;
            rows.iter().map(operation).collect()
        };
        self.database.again(list).await
    }

    async fn live_bulks(&self, limit: usize) -> StoreResult<LiveBulks> {
        self.database.again(|| self.list_live_bulks(limit)).await
    }

    async fn save_bulk(
        &self,
        id: BulkId,
        version: i64,
        progress: &BulkProgress,
        state: BulkState,
        due_in_ms: Millis,
    ) -> StoreResult<Option<BulkOperation>> {
        let (now, cursor, planned) =
            (self.database.fixed_now(), progress.cursor.map(|run| run.0), joined(&progress.planned));
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (tally, matched, state) = (progress.tally, progress.matched.map(count), state.code());
        let (done, skipped, failed) = (count(tally.done), count(tally.skipped), count(tally.failed));
        let (planned, troubles) = (planned.as_slice(), i32::try_from(progress.troubles).unwrap_or(i32::MAX));
        let parameters = params![
            now,
            id.0,
            version,
            due_in_ms,
            cursor,
            planned,
            matched,
            done,
            skipped,
            failed,
            progress.errors,
            progress.bucket.tokens,
            progress.bucket.at,
            troubles,
            progress.waits_for,
            state,
        ];
        let save = async {
            let rows = self.database.query(sql::SAVE_BULK, parameters).await?;
            rows.first().map(operation).transpose()
        };
        self.database.within(save).await
    }

    async fn stop_bulk(&self, id: BulkId) -> StoreResult<Option<BulkOperation>> {
        let now = self.database.fixed_now();
        let stop = async || {
            self.database.query(sql::STOP_BULK, params![now, id.0]).await?;
            self.read_bulk(id).await
        };
        self.database.again(stop).await
    }

    async fn forget_bulks(&self, age_ms: Millis, limit: usize) -> StoreResult<u64> {
        let (now, limit) = (self.database.fixed_now(), limit as i64);
        let parameters = params![now, age_ms, limit];
        let forget = async { Ok(self.database.query(sql::FORGET_BULKS, parameters).await?.len() as u64) };
        self.database.within(forget).await
    }
}

impl PostgresStore {
    async fn insert_bulk(&self, new: &NewBulk, die: u64, live_max: u64) -> Outcome<BulkMade> {
        let session = self.database.transaction().await?;
        session.query(sql::LOCK_BULKS, &[]).await?;
        let key = new.idempotency.as_ref().map(|one| one.key.as_str());
        let fingerprint = new.idempotency.as_ref().map(|one| one.fingerprint.as_slice());
        if let Some(key) = key
            && let Some(row) = session.query(sql::READ_BULK_BY_KEY, params![key]).await?.first()
        {
            let is_same = row.try_get::<_, Option<&[u8]>>("fingerprint")? == fingerprint;
            let made = if is_same { BulkMade::Earlier(operation(row)?) } else { BulkMade::KeyReused };
            session.roll_back().await?;
            return Ok(made);
        }
        let live = session.query(sql::COUNT_LIVE_BULKS, params![new.namespace]).await?;
        let live: i64 = live.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        if live.unsigned_abs() >= live_max {
            session.roll_back().await?;
            return Ok(BulkMade::TooMany);
        }
        let (now, die, action) = (self.database.fixed_now(), (die & DIE_BITS) as i64, new.action.code());
        let tokens = new.per_second.max(1.0);
        let rows = session
            .query(
                sql::ADD_BULK,
                params![
                    now,
                    die,
                    new.namespace,
                    action,
                    new.filter,
                    new.reason,
                    new.created_by,
                    key,
                    fingerprint,
                    new.per_second,
                    tokens,
                ],
            )
            .await?;
        let row = rows.first().ok_or_else(|| StoreError::Internal("a bulk operation was not written".into()))?;
        let made = operation(row)?;
        session.commit().await?;
        Ok(BulkMade::New(made))
    }

    async fn read_bulk(&self, id: BulkId) -> Outcome<Option<BulkOperation>> {
        self.database.query(sql::READ_BULK, params![id.0]).await?.first().map(operation).transpose()
    }

    async fn list_live_bulks(&self, limit: usize) -> Outcome<LiveBulks> {
        let (fixed, limit) = (self.database.fixed_now(), limit as i64);
        let rows = self.database.query(sql::LIST_LIVE_BULKS, params![fixed, limit]).await?;
        let now = rows.first().map(|row| row.try_get("now")).transpose()?.unwrap_or_default();
        let mut operations = Vec::with_capacity(rows.len());
        for row in &rows {
            // Without any there is one row that has only the time.
            if row.try_get::<_, Option<Uuid>>("bulk_id")?.is_some() {
                operations.push(operation(row)?);
            }
        }
        Ok(LiveBulks { operations, now })
    }
}

fn operation(row: &Row) -> Outcome<BulkOperation> {
    let action = BulkAction::from_code(row.try_get("action")?).ok_or_else(|| rows::corrupt("a bulk action"))?;
    let state =
        BulkState::from_code(row.try_get("state")?).ok_or_else(|| rows::corrupt("a state of a bulk operation"))?;
    let count = |column: &str| Outcome::Ok(row.try_get::<_, i64>(column)?.unsigned_abs());
    let troubles: i32 = row.try_get("troubles")?;
    Ok(BulkOperation {
        id: BulkId(row.try_get("bulk_id")?),
        namespace: row.try_get("namespace")?,
        action,
        filter: row.try_get("filter")?,
        reason: row.try_get("reason")?,
        created_by: row.try_get("created_by")?,
        created_at: row.try_get("created_at")?,
        per_second: row.try_get("rate")?,
        state,
        is_stopping: row.try_get("stopping")?,
        ended_at: row.try_get("ended_at")?,
        version: row.try_get("version")?,
        due_at: row.try_get("due_at")?,
        progress: BulkProgress {
            cursor: row.try_get::<_, Option<Uuid>>("run_cursor")?.map(RunId),
            planned: parted(row.try_get("planned")?),
            matched: row.try_get::<_, Option<i64>>("matched")?.map(i64::unsigned_abs),
            tally: Tally { done: count("done")?, skipped: count("skipped")?, failed: count("failed")? },
            errors: row.try_get("errors")?,
            bucket: Bucket { tokens: row.try_get("tokens")?, at: row.try_get("rate_at")? },
            troubles: troubles.unsigned_abs(),
            waits_for: row.try_get("waits_for")?,
        },
    })
}
