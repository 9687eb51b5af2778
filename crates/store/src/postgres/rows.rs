//! From rows to values.

use baton_core::machine::Options;
use baton_core::trace::RunTrace;
use baton_core::{Epoch, LeaseEnd, Millis, Reason, Run, RunId, State, WorkerId, order};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use super::pool::{Outcome, Trouble};
use crate::decide::{LiveRow, Place};
use crate::{Attempt, Claimed, Key, Queue, RunRecord, StoreError, Worker, WorkerStatus};

/// The complaint about a row that nobody of us can have written.
pub(super) fn corrupt(what: &str) -> Trouble {
    StoreError::Internal(format!("the database holds {what} that this program does not know")).into()
}

pub(super) fn state(code: i16) -> Outcome<State> {
    State::from_code(code).ok_or_else(|| corrupt("a state"))
}

pub(super) fn lease_end(code: i16) -> Outcome<LeaseEnd> {
    LeaseEnd::from_code(code).ok_or_else(|| corrupt("an end of a lease"))
}

pub(super) fn worker_status(code: i16) -> Outcome<WorkerStatus> {
    WorkerStatus::from_code(code).ok_or_else(|| corrupt("a worker's status"))
}

pub(super) fn json<T: DeserializeOwned>(text: &str, what: &str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|_| corrupt(what))
}

/// Writes a value the way [`json`] reads it.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Internal(error.to_string()).into())
}

/// PostgreSQL's text cannot hold NUL, which workers' messages may contain.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(super) fn run_id(row: &Row, column: &str) -> Outcome<RunId> {
    Ok(RunId(row.try_get(column)?))
}

pub(super) fn epoch(row: &Row, column: &str) -> Outcome<Epoch> {
    Ok(Epoch::from_code(row.try_get(column)?))
}

fn worker_id(row: &Row) -> Outcome<Option<WorkerId>> {
    Ok(row.try_get::<_, Option<Uuid>>("worker_id")?.map(WorkerId))
}

fn options(row: &Row) -> Outcome<Options> {
    match row.try_get::<_, Option<&str>>("options")? {
        Some(text) => json(text, "options"),
        None => Ok(Options::default()),
    }
}

/// A row of the statements that hold or peek at runs.
/// The trace that a run is part of. One that cannot be read is as good as none.
pub(super) fn trace(row: &Row) -> Outcome<Option<RunTrace>> {
    Ok(row.try_get::<_, Option<&str>>("trace")?.and_then(RunTrace::from_text))
}

pub(super) fn live(row: &Row) -> Outcome<LiveRow> {
    let priority = row.try_get::<_, i16>("priority")? as u8;
    Ok(LiveRow {
        run: run_id(row, "run_id")?,
        queue: row.try_get("queue_id")?,
        lane: row.try_get("lane_id")?,
        priority,
        order_at: row.try_get("order_at")?,
        rules: Run {
            state: state(row.try_get("state")?)?,
            epoch: epoch(row, "epoch")?,
            failures: row.try_get::<_, i32>("failures")? as u32,
            losses: row.try_get::<_, i32>("losses")? as u32,
            due_at: row.try_get("due_at")?,
            returned: row.try_get::<_, i16>("level")? == order::level(priority, true),
            cancel_by: row.try_get("cancel_by")?,
            reason: None,
        },
        worker: worker_id(row)?,
        claimed_at: row.try_get("claimed_at")?,
        started_at: row.try_get("started_at")?,
        key: row.try_get("key")?,
        options: options(row)?,
    })
}

pub(super) fn claimed(row: &Row, slot: usize) -> Outcome<Claimed> {
    Ok(Claimed {
        slot,
        run: run_id(row, "run_id")?,
        lane: row.try_get("lane_id")?,
        epoch: epoch(row, "epoch")?,
        attempt: row.try_get::<_, i32>("failures")? as u32 + 1,
        priority: row.try_get::<_, i16>("priority")? as u8,
        submitted_at: row.try_get("submitted_at")?,
        waited_ms: row.try_get("waited_ms")?,
        timeout_at: row.try_get("timeout_at")?,
        key: row.try_get("key")?,
        trace: trace(row)?,
        input: Bytes::from(row.try_get::<_, Vec<u8>>("input")?),
    })
}

/// A run with its input and output.
pub(super) fn whole_record(row: &Row) -> Outcome<RunRecord> {
    Ok(RunRecord {
        input: Bytes::from(row.try_get::<_, Vec<u8>>("input")?),
        output: row.try_get::<_, Option<Vec<u8>>>("output")?.map(Bytes::from),
        ..record(row)?
    })
}

/// A run without its input and output.
pub(super) fn record(row: &Row) -> Outcome<RunRecord> {
    let reason = row.try_get::<_, Option<i16>>("reason")?;
    Ok(RunRecord {
        id: run_id(row, "run_id")?,
        lane: row.try_get("lane_id")?,
        state: state(row.try_get("state")?)?,
        epoch: epoch(row, "epoch")?,
        priority: row.try_get::<_, i16>("priority")? as u8,
        failures: row.try_get::<_, i32>("failures")? as u32,
        losses: row.try_get::<_, i32>("losses")? as u32,
        submitted_at: row.try_get("submitted_at")?,
        due_at: row.try_get("due_at")?,
        key: row.try_get("key")?,
        affinity: row.try_get("affinity")?,
        retry_of: row.try_get::<_, Option<Uuid>>("retry_of")?.map(RunId),
        trace: trace(row)?,
        options: options(row)?,
        worker: worker_id(row)?,
        claimed_at: row.try_get("claimed_at")?,
        started_at: row.try_get("started_at")?,
        timeout_at: row.try_get("timeout_at")?,
        lease_until: row.try_get("lease_until")?,
        cancel_by: row.try_get("cancel_by")?,
        blocked: row.try_get::<_, Option<i16>>("place")? == Some(Place::Blocked.code()),
        ended_at: row.try_get("ended_at")?,
        reason: reason.map(|code| Reason::from_code(code).ok_or_else(|| corrupt("a reason"))).transpose()?,
        error: row.try_get("error")?,
        input: Bytes::new(),
        output: None,
    })
}

pub(super) fn attempt(row: &Row) -> Outcome<Attempt> {
    Ok(Attempt {
        epoch: epoch(row, "epoch")?,
        worker: worker_id(row)?,
        claimed_at: row.try_get::<_, Option<Millis>>("claimed_at")?.unwrap_or_default(),
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
        end: lease_end(row.try_get("lease_end")?)?,
        error: row.try_get("error")?,
    })
}

pub(super) fn queue(row: &Row) -> Outcome<Queue> {
    Ok(Queue {
        id: row.try_get("queue_id")?,
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        paused_until: row.try_get("paused_until")?,
        backlog_max: row.try_get::<_, Option<i64>>("backlog_max")?.map(|max| max as u64),
        rate_per_second: row.try_get("rate_per_second")?,
        key_limit: row.try_get::<_, Option<i32>>("key_limit")?.map(|limit| limit as u32),
    })
}

pub(super) fn worker(row: &Row) -> Outcome<Worker> {
    let health = row.try_get::<_, Option<&str>>("health")?;
    Ok(Worker {
        id: WorkerId(row.try_get("worker_id")?),
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        info: json(row.try_get("info")?, "a worker's description")?,
        status: worker_status(row.try_get("status")?)?,
        status_reason: row.try_get("status_reason")?,
        max_concurrent: row.try_get::<_, i32>("max_concurrent")? as u32,
        active: row.try_get::<_, i32>("active")?.max(0) as u32,
        completed: row.try_get::<_, i64>("completed")? as u64,
        failed: row.try_get::<_, i64>("failed")? as u64,
        registered_at: row.try_get("registered_at")?,
        seen_at: row.try_get("seen_at")?,
        lease_until: row.try_get("lease_until")?,
        health: health.map(|text| json(text, "a worker's health")).transpose()?,
        unfit: row.try_get("unfit")?,
        key_id: row.try_get("key_id")?,
    })
}

pub(super) fn key(row: &Row) -> Outcome<Key> {
    Ok(Key {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        scopes: json(row.try_get("scopes")?, "a key's scopes")?,
        namespace: row.try_get("namespace")?,
        created_at: row.try_get("created_at")?,
        revoked_at: row.try_get("revoked_at")?,
        expires_at: row.try_get("expires_at")?,
        used_at: row.try_get("used_at")?,
        old_until: row.try_get("old_until")?,
        is_over: row.try_get("is_over")?,
    })
}
