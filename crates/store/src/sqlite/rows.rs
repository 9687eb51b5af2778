//! From columns to the store's words. A number or text that no version of Baton writes is an error, never a guess.

use baton_core::machine::Options;
use baton_core::trace::RunTrace;
use baton_core::{Epoch, LeaseEnd, Millis, Reason, Run, RunId, State, WorkerId};
use bytes::Bytes;
use rusqlite::types::Type;
use rusqlite::{Error, Result, Row, RowIndex, params};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::connection::Sql;
use super::statements;
use crate::decide::LiveRow;
use crate::{Attempt, Key, LeaseRef, Queue, RunRecord, StoreResult, Worker, WorkerStatus};

pub(super) fn run_id(row: &Row<'_>, index: impl RowIndex) -> Result<RunId> {
    row.get(index).map(|bytes| RunId(Uuid::from_bytes(bytes)))
}

pub(super) fn worker_id(row: &Row<'_>, index: impl RowIndex) -> Result<WorkerId> {
    row.get(index).map(|bytes| WorkerId(Uuid::from_bytes(bytes)))
}

pub(super) fn maybe_worker_id(row: &Row<'_>, index: impl RowIndex) -> Result<Option<WorkerId>> {
    maybe(row, index, worker_id)
}

pub(super) fn epoch(row: &Row<'_>, index: impl RowIndex) -> Result<Epoch> {
    row.get(index).map(Epoch::from_code)
}

pub(super) fn bytes(row: &Row<'_>, index: impl RowIndex) -> Result<Bytes> {
    row.get::<_, Vec<u8>>(index).map(Bytes::from)
}

pub(super) fn state(row: &Row<'_>, index: impl RowIndex) -> Result<State> {
    coded(row, index, State::from_code)
}

pub(super) fn status(row: &Row<'_>, index: impl RowIndex) -> Result<WorkerStatus> {
    coded(row, index, WorkerStatus::from_code)
}

pub(super) fn lease_end(row: &Row<'_>, index: impl RowIndex) -> Result<LeaseEnd> {
    coded(row, index, LeaseEnd::from_code)
}

pub(super) fn coded<T>(row: &Row<'_>, index: impl RowIndex, from_code: impl Fn(i16) -> Option<T>) -> Result<T> {
    let index = index.idx(row.as_ref())?;
    let code: i16 = row.get(index)?;
    from_code(code).ok_or(Error::IntegralValueOutOfRange(index, code.into()))
}

/// A run and its epoch, from the first two columns.
pub(super) fn lease(row: &Row<'_>) -> Result<LeaseRef> {
    Ok(LeaseRef { run: run_id(row, 0)?, epoch: epoch(row, 1)? })
}

/// A column that may be null.
pub(super) fn maybe<T>(
    row: &Row<'_>,
    index: impl RowIndex,
    decode: impl FnOnce(&Row<'_>, usize) -> Result<T>,
) -> Result<Option<T>> {
    let index = index.idx(row.as_ref())?;
    match row.get_ref(index)?.data_type() {
        Type::Null => Ok(None),
        Type::Integer | Type::Real | Type::Text | Type::Blob => decode(row, index).map(Some),
    }
}

pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, index: impl RowIndex) -> Result<T> {
    let index = index.idx(row.as_ref())?;
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text).map_err(|error| Error::FromSqlConversionFailure(index, Type::Text, Box::new(error)))
}

/// The options of a run; most have none of their own.
pub(super) fn options(row: &Row<'_>, index: impl RowIndex) -> Result<Options> {
    Ok(maybe(row, index, json)?.unwrap_or_default())
}

/// A text for the database.
/// The trace that a run is part of. One that cannot be read is as good as none.
pub(super) fn trace(row: &Row<'_>, index: impl RowIndex) -> Result<Option<RunTrace>> {
    Ok(row.get::<_, Option<String>>(index)?.as_deref().and_then(RunTrace::from_text))
}

pub(super) fn to_json<T: serde::Serialize>(value: &T) -> StoreResult<String> {
    serde_json::to_string(value).map_err(|error| crate::StoreError::Internal(error.to_string()))
}

/// A number of rows for the database, which knows no number as large as the largest of ours.
pub(super) fn limit(most: u64) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// A number that was not negative when it was written.
pub(super) fn number(row: &Row<'_>, index: impl RowIndex) -> Result<u64> {
    let index = index.idx(row.as_ref())?;
    let number: i64 = row.get(index)?;
    number.try_into().map_err(|_| Error::IntegralValueOutOfRange(index, number))
}

/// A count as the only column.
pub(super) fn count(row: &Row<'_>) -> Result<u64> {
    number(row, 0)
}

/// Reads a live run for the rules.
pub(super) fn live(sql: &Sql<'_>, run: RunId) -> StoreResult<Option<LiveRow>> {
    sql.row(statements::READ_LIVE, params![run.0.as_bytes()], |row| {
        let level: i16 = row.get(4)?;
        Ok(LiveRow {
            run: run_id(row, 0)?,
            queue: row.get(1)?,
            lane: row.get(2)?,
            priority: row.get(3)?,
            order_at: row.get(5)?,
            rules: Run {
                state: state(row, 6)?,
                epoch: epoch(row, 7)?,
                failures: row.get(8)?,
                losses: row.get(9)?,
                due_at: row.get(10)?,
                // Each priority has two levels, and the first is for those that came back.
                returned: level % 2 == 0,
                cancel_by: row.get(11)?,
                reason: None,
            },
            worker: maybe_worker_id(row, 12)?,
            claimed_at: row.get(13)?,
            started_at: row.get(14)?,
            key: row.get(15)?,
            options: options(row, 16)?,
        })
    })
}

/// A run as it is shown, without its payloads.
pub(super) fn record(row: &Row<'_>) -> Result<RunRecord> {
    Ok(RunRecord {
        id: run_id(row, "run_id")?,
        lane: row.get("lane_id")?,
        state: state(row, "state")?,
        epoch: epoch(row, "epoch")?,
        priority: row.get("priority")?,
        failures: row.get("failures")?,
        losses: row.get("losses")?,
        submitted_at: row.get("submitted_at")?,
        due_at: row.get("due_at")?,
        key: row.get("key")?,
        affinity: row.get("affinity")?,
        retry_of: maybe(row, "retry_of", run_id)?,
        trace: trace(row, "trace")?,
        options: options(row, "options")?,
        worker: maybe_worker_id(row, "worker_id")?,
        claimed_at: row.get("claimed_at")?,
        started_at: row.get("started_at")?,
        timeout_at: row.get("timeout_at")?,
        lease_until: row.get("lease_until")?,
        cancel_by: row.get("cancel_by")?,
        blocked: row.get("blocked")?,
        ended_at: row.get("ended_at")?,
        reason: maybe(row, "reason", |row, index| coded(row, index, Reason::from_code))?,
        error: row.get("error")?,
        input: Bytes::new(),
        output: None,
    })
}

pub(super) fn attempt(row: &Row<'_>) -> Result<Attempt> {
    Ok(Attempt {
        epoch: epoch(row, 0)?,
        worker: maybe_worker_id(row, 1)?,
        claimed_at: row.get(2)?,
        started_at: row.get(3)?,
        ended_at: row.get(4)?,
        end: lease_end(row, 5)?,
        error: row.get(6)?,
    })
}

pub(super) fn worker(row: &Row<'_>) -> Result<Worker> {
    Ok(Worker {
        id: worker_id(row, "worker_id")?,
        namespace: row.get("namespace")?,
        name: row.get("name")?,
        info: json(row, "info")?,
        status: status(row, "status")?,
        status_reason: row.get("status_reason")?,
        max_concurrent: row.get("max_concurrent")?,
        active: row.get("active")?,
        completed: number(row, "completed")?,
        failed: number(row, "failed")?,
        registered_at: row.get("registered_at")?,
        seen_at: row.get("seen_at")?,
        lease_until: row.get("lease_until")?,
        health: maybe(row, "health", json)?,
        unfit: row.get("unfit")?,
        key_id: row.get("key_id")?,
    })
}

pub(super) fn queue(row: &Row<'_>) -> Result<Queue> {
    Ok(Queue {
        id: row.get(0)?,
        namespace: row.get(1)?,
        name: row.get(2)?,
        paused_until: row.get(3)?,
        backlog_max: row.get::<_, Option<i64>>(4)?.map(i64::unsigned_abs),
        rate_per_second: row.get(5)?,
        key_limit: row.get(6)?,
    })
}

pub(super) fn key(row: &Row<'_>) -> Result<Key> {
    Ok(Key {
        id: row.get(0)?,
        name: row.get(1)?,
        scopes: json(row, 2)?,
        namespace: row.get(3)?,
        created_at: row.get(4)?,
        revoked_at: row.get(5)?,
        expires_at: row.get(6)?,
        used_at: row.get(7)?,
        old_until: row.get(8)?,
        is_over: row.get(9)?,
    })
}

/// A moment that may not be there, as the only column.
pub(super) fn maybe_moment(row: &Row<'_>) -> Result<Option<Millis>> {
    row.get(0)
}
