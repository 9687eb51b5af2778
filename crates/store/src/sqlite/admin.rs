//! Queues, keys, the audit log, and what is deleted in the end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use baton_core::token::Hash;
use baton_core::{Millis, RunId};
use rusqlite::params;

use super::connection::Sql;
use super::{builds, rows, statements, workflows};
use crate::{
    AuditEntry, AuditRecord, Depth, Key, Lane, LaneDepth, LaneId, LaneName, NewKey, Page, Queue, QueueChange, QueueId,
    Retained, Rotation, StoreResult,
};

pub(super) fn storage_mark(sql: &Sql<'_>, found: [u8; 16]) -> StoreResult<[u8; 16]> {
    sql.one(statements::KEEP_STORAGE_MARK, params![found], |row| row.get(0))
}

pub(super) fn set_storage_mark(sql: &Sql<'_>, mark: [u8; 16]) -> StoreResult<()> {
    sql.execute(statements::SET_STORAGE_MARK, params![mark]).map(drop)
}

pub(super) fn lanes(sql: &Sql<'_>, names: &[LaneName]) -> StoreResult<Vec<Lane>> {
    names.iter().map(|name| lane(sql, name)).collect()
}

fn lane(sql: &Sql<'_>, name: &LaneName) -> StoreResult<Lane> {
    let parameters = params![name.namespace, name.queue, name.kind];
    let find = || sql.row(statements::READ_LANE, parameters, |row| Ok(Lane { lane: row.get(0)?, queue: row.get(1)? }));
    if let Some(lane) = find()? {
        return Ok(lane);
    }
    sql.execute(statements::INSERT_QUEUE, params![name.namespace, name.queue])?;
    sql.execute(statements::INSERT_LANE, parameters)?;
    find()?.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
}

pub(super) fn all_lanes(sql: &Sql<'_>) -> StoreResult<Vec<(LaneName, Lane)>> {
    sql.rows(statements::LIST_LANES, [], |row| {
        let name = LaneName { namespace: row.get(0)?, queue: row.get(1)?, kind: row.get(2)? };
        Ok((name, Lane { lane: row.get(3)?, queue: row.get(4)? }))
    })
}

pub(super) fn queues(sql: &Sql<'_>, namespace: Option<&str>) -> StoreResult<Vec<Queue>> {
    sql.rows(statements::LIST_QUEUES, params![namespace], rows::queue)
}

pub(super) fn set_queue(sql: &Sql<'_>, namespace: &str, name: &str, change: QueueChange) -> StoreResult<Queue> {
    sql.execute(statements::INSERT_QUEUE, params![namespace, name])?;
    let mut queue = sql.one(statements::READ_QUEUE, params![namespace, name], rows::queue)?;
    queue.paused_until = change.paused_until.unwrap_or(queue.paused_until);
    queue.backlog_max = change.backlog_max.unwrap_or(queue.backlog_max);
    queue.rate_per_second = change.rate_per_second.unwrap_or(queue.rate_per_second);
    queue.key_limit = change.key_limit.unwrap_or(queue.key_limit);
    let backlog_max = queue.backlog_max.map(rows::limit);
    sql.execute(
        statements::UPDATE_QUEUE,
        params![queue.id, queue.paused_until, backlog_max, queue.rate_per_second, queue.key_limit],
    )?;
    if let Some(Some(per_second)) = change.rate_per_second {
        // A rate that somebody sets begins with a full bucket.
        sql.execute(statements::UPDATE_RATE, params![queue.id, per_second.max(1.0), sql.now])?;
    }
    Ok(queue)
}

pub(super) fn depths(sql: &Sql<'_>, queues: &[QueueId], cap: u64) -> StoreResult<Vec<Depth>> {
    queues.iter().map(|queue| depth(sql, *queue, cap)).collect()
}

fn depth(sql: &Sql<'_>, queue: QueueId, cap: u64) -> StoreResult<Depth> {
    let oldest_due = sql.one(statements::READ_OLDEST_DUE, params![queue, sql.now], rows::maybe_moment)?;
    sql.one(statements::READ_DEPTH, params![queue, rows::limit(cap), sql.now], |row| {
        let (ready, due, blocked) = (rows::number(row, 0)?, rows::number(row, 1)?, rows::number(row, 2)?);
        Ok(Depth {
            queue,
            ready: cap.min(ready + due + blocked),
            scheduled: rows::number(row, 3)?,
            sleeping: rows::number(row, 4)?,
            held: rows::number(row, 5)?,
            oldest_ms: oldest_due.map(|due_at: Millis| (sql.now - due_at).max(0)),
        })
    })
}

pub(super) fn lane_depths(sql: &Sql<'_>, lanes: &[LaneId], cap: u64) -> StoreResult<Vec<LaneDepth>> {
    let mut blocked = HashMap::<QueueId, HashMap<LaneId, (u64, Millis)>>::new();
    let mut depths = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let parameters = params![lane, rows::limit(cap), sql.now];
        let (queue, ready, oldest) = sql.one(statements::READ_LANE_DEPTH, parameters, |row| {
            Ok((row.get::<_, QueueId>(0)?, rows::number(row, 1)?, row.get::<_, Option<Millis>>(2)?))
        })?;
        if let Entry::Vacant(entry) = blocked.entry(queue) {
            let found = sql.rows(statements::COUNT_BLOCKED_RUNS, params![queue, rows::limit(cap)], |row| {
                Ok((row.get(0)?, (rows::number(row, 1)?, row.get(2)?)))
            })?;
            entry.insert(found.into_iter().collect());
        }
        let waiting = blocked[&queue].get(lane);
        let due_at = oldest.into_iter().chain(waiting.map(|(_, oldest)| *oldest)).min();
        depths.push(LaneDepth {
            lane: *lane,
            ready: cap.min(ready + waiting.map_or(0, |(count, _)| *count)),
            oldest_ms: due_at.map(|due_at| (sql.now - due_at).max(0)),
        });
    }
    Ok(depths)
}

pub(super) fn add_key(sql: &Sql<'_>, key: &NewKey) -> StoreResult<bool> {
    let scopes = rows::to_json(&key.scopes)?;
    let parameters = params![key.id, key.hash, key.name, scopes, key.namespace, sql.now, key.lives_ms];
    Ok(sql.execute(statements::INSERT_KEY, parameters)? > 0)
}

pub(super) fn key(sql: &Sql<'_>, hash: &Hash) -> StoreResult<Option<Key>> {
    sql.row(statements::READ_KEY, params![hash, sql.now], rows::key)
}

pub(super) fn keys(sql: &Sql<'_>) -> StoreResult<Vec<Key>> {
    sql.rows(statements::LIST_KEYS, params![sql.now], rows::key)
}

pub(super) fn rotate_key(sql: &Sql<'_>, id: &str, to: &Rotation) -> StoreResult<bool> {
    Ok(sql.execute(statements::ROTATE_KEY, params![id, sql.now, to.hash, to.overlap_ms, to.lives_ms])? > 0)
}

pub(super) fn touch_key(sql: &Sql<'_>, id: &str) -> StoreResult<()> {
    sql.execute(statements::TOUCH_KEY, params![id, sql.now]).map(drop)
}

pub(super) fn revoke_key(sql: &Sql<'_>, id: &str) -> StoreResult<bool> {
    Ok(sql.execute(statements::REVOKE_KEY, params![id, sql.now])? > 0)
}

pub(super) fn audit(sql: &Sql<'_>, entries: &[AuditEntry]) -> StoreResult<Vec<AuditRecord>> {
    let mut written = Vec::with_capacity(entries.len());
    for entry in entries {
        let AuditEntry { actor, action, subject, detail, namespace, address, request_id } = entry;
        let parameters = params![sql.now, actor, action, subject, detail, namespace, address, request_id];
        let (id, at) = sql.one(statements::INSERT_AUDIT, parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
        written.push(AuditRecord { id, at, entry: entry.clone() });
    }
    Ok(written)
}

pub(super) fn audit_log(sql: &Sql<'_>, page: Page<i64>, oldest_first: bool) -> StoreResult<Vec<AuditRecord>> {
    let (statement, all) = match oldest_first {
        true => (statements::FOLLOW_AUDIT, 0),
        false => (statements::LIST_AUDIT, i64::MAX),
    };
    sql.rows(statement, params![page.after.unwrap_or(all), page.limit as i64], |row| {
        let entry = AuditEntry {
            actor: row.get(2)?,
            action: row.get(3)?,
            subject: row.get(4)?,
            detail: row.get(5)?,
            namespace: row.get(6)?,
            address: row.get(7)?,
            request_id: row.get(8)?,
        };
        Ok(AuditRecord { id: row.get(0)?, at: row.get(1)?, entry })
    })
}

/// How long things are kept, and how much may be deleted at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub runs_ms: Millis,
    pub workers_ms: Millis,
    pub audit_ms: Millis,
    pub limit: usize,
}

pub(super) fn retain(sql: &Sql<'_>, retention: Retention) -> StoreResult<Retained> {
    let limit = retention.limit as i64;
    let ended_before = sql.now.saturating_sub(retention.runs_ms);
    let newest = RunId::floor(ended_before);
    let parameters = params![newest.0.as_bytes(), ended_before, limit];
    builds::retain::count_ended(sql)?;
    let mut runs = 0;
    for run in sql.rows(statements::LIST_RUNS_TO_DELETE, parameters, |row| rows::run_id(row, 0))? {
        if !builds::retain::delete(sql, run)? {
            continue;
        }
        runs += 1;
        for text in [
            statements::DELETE_RUN,
            statements::DELETE_ENDED,
            statements::DELETE_ATTEMPTS,
            statements::DELETE_REFUSED,
            statements::CLOSE_TRACE,
        ] {
            sql.execute(text, params![run.0.as_bytes()])?;
        }
        workflows::delete(sql, run)?;
    }
    sql.execute(statements::DELETE_AFFINITY, params![ended_before])?;
    let offline_before = sql.now.saturating_sub(retention.workers_ms);
    let workers =
        sql.rows(statements::DELETE_WORKER_LIVE, params![offline_before, limit], |row| rows::worker_id(row, 0))?;
    for worker in &workers {
        sql.execute(statements::DELETE_WORKER, params![worker.0.as_bytes()])?;
        sql.execute(statements::DELETE_BUILDER, params![worker.0.as_bytes()])?;
    }
    let audit = sql.execute(statements::DELETE_AUDIT, params![sql.now.saturating_sub(retention.audit_ms), limit])?;
    Ok(Retained { runs, workers: workers.len() as u64, audit: audit as u64 })
}
