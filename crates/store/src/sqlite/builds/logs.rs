//! Logs: the one writer gives lines their numbers.

use baton_core::RunId;
use rusqlite::params;

use super::super::connection::Sql;
use super::super::{rows, statements};
use super::corrupt;
use super::machines::claimed_at;
use crate::log_chunks::{self, Chunk, Fresh, Tail, Taken};
use crate::{LOG_PAGE_BYTES_MAX, LeaseRef, LogAnswer, LogEnd, LogRecord, StoreResult};

pub(super) fn add(
    sql: &Sql<'_>,
    run: RunId,
    lease: Option<LeaseRef>,
    first: Option<u64>,
    chunks: Vec<Chunk>,
    bytes_max: u64,
) -> StoreResult<LogAnswer> {
    let id = run.0.as_bytes();
    let tail = sql.row(statements::READ_LOG_TAIL, params![id], |row| {
        let tail = Tail { lines: rows::number(row, 0)?, bytes: rows::number(row, 1)?, full: row.get(2)? };
        Ok((tail, Taken { epoch: row.get(3)?, lines: rows::number(row, 4)? }))
    })?;
    let Some((tail, before)) = tail else { return Ok(LogAnswer::Unknown) };
    if let Some(lease) = lease
        && (lease.run != run || claimed_at(sql, lease)?.is_none())
    {
        return Ok(LogAnswer::LeaseLost);
    }
    let epoch = lease.map(|lease| lease.epoch.code());
    let (chunks, taken) = match log_chunks::fresh(before, epoch, first, chunks).map_err(corrupt)? {
        Fresh::Lines(chunks, taken) => (chunks, taken),
        Fresh::Ahead(lines) => return Ok(LogAnswer::Ahead(lines)),
    };
    let (kept, end) = log_chunks::fit(tail, chunks, bytes_max).map_err(corrupt)?;
    let mut so_far = tail;
    for chunk in &kept {
        let bytes_before = so_far.bytes;
        so_far = so_far.after(chunk);
        let (last, lines) = (rows::limit(so_far.lines), rows::limit(chunk.lines));
        sql.execute(
            statements::INSERT_LOG_CHUNK,
            params![id, last, lines, rows::limit(bytes_before), sql.now, chunk.body],
        )?;
    }
    if !kept.is_empty() || taken != before {
        let (lines, bytes, taken_lines) = (rows::limit(end.lines), rows::limit(end.bytes), rows::limit(taken.lines));
        sql.execute(statements::SET_LOG, params![id, sql.now, lines, bytes, end.full, taken.epoch, taken_lines])?;
    }
    Ok(if end.full { LogAnswer::Full(end.lines) } else { LogAnswer::Kept(end.lines) })
}

pub(super) fn read(sql: &Sql<'_>, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<LogRecord>> {
    // Their sum must not go beyond what the database can count to.
    let (after, limit) = (after.min(1 << 62), limit.min(1 << 32));
    let parameters = params![run.0.as_bytes(), rows::limit(after), limit as i64, rows::limit(LOG_PAGE_BYTES_MAX)];
    let chunks = sql.rows(statements::READ_LOG, parameters, |row| {
        Ok((rows::number(row, 0)?, rows::number(row, 1)?, row.get(2)?, row.get::<_, String>(3)?))
    })?;
    let mut records = Vec::new();
    for (last, lines, at, body) in chunks {
        records.extend(log_chunks::read(&body, last, lines, at, after).map_err(corrupt)?);
    }
    records.truncate(limit);
    Ok(records)
}

pub(super) fn end(sql: &Sql<'_>, run: RunId) -> StoreResult<LogEnd> {
    let end = sql.row(statements::READ_LOG_TAIL, params![run.0.as_bytes()], |row| {
        Ok(LogEnd { lines: rows::number(row, 0)?, bytes: rows::number(row, 1)?, is_full: row.get(2)? })
    })?;
    Ok(end.unwrap_or_default())
}
