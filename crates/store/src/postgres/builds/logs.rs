//! Logs: writers take turns at the row of their build, which gives lines their numbers.

use baton_core::{Millis, RunId};
use futures_util::future::join3;

use super::super::PostgresStore;
use super::super::params::params;
use super::super::pool::{Outcome, Session, retried};
use super::super::sql;
use super::{corrupt, signed};
use crate::log_chunks::{self, Chunk, Fresh, Tail, Taken};
use crate::{LOG_PAGE_BYTES_MAX, LeaseRef, LogAnswer, LogEnd, LogRecord};

/// Bytes of lines that are written in one statement; more go in several, in one transaction.
const STATEMENT_BYTES_MAX: u64 = 1 << 20;

/// Chunks, column by column. Where they stand is reckoned from the end of the log before them.
#[derive(Default)]
struct Columns {
    last: Vec<i64>,
    lines: Vec<i32>,
    bytes_before: Vec<i64>,
    bodies: Vec<String>,
}

impl Columns {
    fn of(chunks: Vec<Chunk>, mut tail: Tail) -> (Columns, Tail) {
        let mut columns = Columns::default();
        for chunk in chunks {
            columns.bytes_before.push(signed(tail.bytes));
            tail = tail.after(&chunk);
            columns.last.push(signed(tail.lines));
            columns.lines.push(i32::try_from(chunk.lines).unwrap_or(i32::MAX));
            columns.bodies.push(chunk.body);
        }
        (columns, tail)
    }
}

impl PostgresStore {
    pub(super) async fn write_log(
        &self,
        run: RunId,
        lease: Option<LeaseRef>,
        first: Option<u64>,
        mut chunks: Vec<Chunk>,
        bytes_max: u64,
    ) -> Outcome<LogAnswer> {
        if lease.is_some_and(|lease| lease.run != run) {
            return Ok(LogAnswer::LeaseLost);
        }
        let epoch = lease.map(|lease| lease.epoch.code());
        let bytes: u64 = chunks.iter().map(|chunk| chunk.bytes).sum();
        if !chunks.is_empty() && bytes <= STATEMENT_BYTES_MAX {
            match self.write_log_at_once(run, epoch, first, chunks, bytes_max).await? {
                Ok(answer) => return Ok(answer),
                Err(back) => chunks = back,
            }
        }
        self.write_long_log(run, epoch, first, chunks, bytes_max).await
    }

    /// One statement for the usual case: the lease is live, nothing comes again, and there is room for all. Otherwise nothing has changed, and the
    /// chunks come back.
    async fn write_log_at_once(
        &self,
        run: RunId,
        epoch: Option<i64>,
        first: Option<u64>,
        chunks: Vec<Chunk>,
        bytes_max: u64,
    ) -> Outcome<Result<LogAnswer, Vec<Chunk>>> {
        let sizes: Vec<u64> = chunks.iter().map(|chunk| chunk.bytes).collect();
        let (columns, end) = Columns::of(chunks, Tail::default());
        let Columns { last, lines, bytes_before, bodies } = &columns;
        let (now, new_lines, new_bytes) = (self.database.fixed_now(), signed(end.lines), signed(end.bytes));
        // Its sum with the new lines must not go beyond what the database can count to.
        let before = epoch.and(first).map(|first| signed(first.saturating_sub(1).min(1 << 62)));
        let max = signed(bytes_max);
        let rows = retried!(self.database.query(
            sql::ADD_LOG,
            params![now, run.0, epoch, new_lines, new_bytes, max, last, lines, bytes_before, bodies, before],
        ))?;
        if let Some(row) = rows.first() {
            return Ok(Ok(LogAnswer::Kept(row.try_get::<_, i64>(0)?.max(0) as u64)));
        }
        let chunks = sizes.into_iter().zip(columns.lines).zip(columns.bodies);
        Ok(Err(chunks.map(|((bytes, lines), body)| Chunk { lines: lines.max(0) as u64, bytes, body }).collect()))
    }

    async fn write_long_log(
        &self,
        run: RunId,
        epoch: Option<i64>,
        first: Option<u64>,
        chunks: Vec<Chunk>,
        bytes_max: u64,
    ) -> Outcome<LogAnswer> {
        let session = self.database.transaction().await?;
        let locked = session.query(sql::LOCK_LOG, params![self.database.fixed_now(), run.0, epoch]).await?;
        let refused = match locked.first() {
            None => Some(LogAnswer::Unknown),
            Some(row) => (!row.try_get::<_, bool>("is_held")?).then_some(LogAnswer::LeaseLost),
        };
        let (Some(row), None) = (locked.first(), refused) else {
            session.roll_back().await?;
            return Ok(refused.unwrap_or(LogAnswer::Unknown));
        };
        let number = |column: &str| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(column)?.max(0) as u64);
        let tail = Tail { lines: number("log_lines")?, bytes: number("log_bytes")?, full: row.try_get("log_full")? };
        let before = Taken { epoch: row.try_get("log_epoch")?, lines: number("log_taken")? };
        let now: Millis = row.try_get("now")?;
        let (chunks, taken) = match log_chunks::fresh(before, epoch, first, chunks).map_err(corrupt)? {
            Fresh::Lines(chunks, taken) => (chunks, taken),
            Fresh::Ahead(lines) => {
                session.roll_back().await?;
                return Ok(LogAnswer::Ahead(lines));
            }
        };
        let (kept, end) = log_chunks::fit(tail, chunks, bytes_max).map_err(corrupt)?;
        match kept.is_empty() && taken == before {
            true => session.commit().await?,
            false => write_chunks(&session, run, now, kept, tail, (end, taken)).await?,
        }
        Ok(if end.full { LogAnswer::Full(end.lines) } else { LogAnswer::Kept(end.lines) })
    }

    pub(super) async fn read_log(&self, run: RunId, after: u64, limit: usize) -> Outcome<Vec<LogRecord>> {
        // Their sum must not go beyond what the database can count to.
        let (after, limit) = (after.min(1 << 62), limit.min(1 << 32));
        let (from, most, bytes) = (signed(after), limit as i64, signed(LOG_PAGE_BYTES_MAX));
        let mut records = Vec::new();
        for row in self.database.query(sql::READ_LOG, params![run.0, from, most, bytes]).await? {
            let last = row.try_get::<_, i64>("last")?.max(0) as u64;
            let lines = row.try_get::<_, i32>("lines")?.max(0) as u64;
            let (at, body) = (row.try_get("at")?, row.try_get("body")?);
            records.extend(log_chunks::read(body, last, lines, at, after).map_err(corrupt)?);
        }
        records.truncate(limit);
        Ok(records)
    }

    pub(super) async fn read_log_end(&self, run: RunId) -> Outcome<LogEnd> {
        let rows = self.database.query(sql::READ_LOG_END, params![run.0]).await?;
        let Some(row) = rows.first() else { return Ok(LogEnd::default()) };
        let number = |column: &str| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(column)?.max(0) as u64);
        Ok(LogEnd { lines: number("log_lines")?, bytes: number("log_bytes")?, is_full: row.try_get("log_full")? })
    }
}

/// Writes chunks at the end of a log that is locked, some at a time, and commits.
async fn write_chunks(
    session: &Session<'_>,
    run: RunId,
    now: Millis,
    chunks: Vec<Chunk>,
    mut tail: Tail,
    (end, taken): (Tail, Taken),
) -> Outcome<()> {
    let mut left = chunks.into_iter().peekable();
    loop {
        let (mut some, mut bytes) = (Vec::new(), 0);
        while let Some(chunk) = left.next_if(|_| bytes < STATEMENT_BYTES_MAX) {
            bytes += chunk.bytes;
            some.push(chunk);
        }
        let (columns, after) = Columns::of(some, tail);
        tail = after;
        let Columns { last, lines, bytes_before, bodies } = &columns;
        let chunks = params![run.0, now, last, lines, bytes_before, bodies];
        if left.peek().is_some() {
            session.query(sql::ADD_LOG_CHUNKS, chunks).await?;
            continue;
        }
        let (log_lines, log_bytes, log_taken) = (signed(end.lines), signed(end.bytes), signed(taken.lines));
        let (added, noted, committed) = join3(
            session.query(sql::ADD_LOG_CHUNKS, chunks),
            session.query(sql::SET_LOG, params![run.0, now, log_lines, log_bytes, end.full, taken.epoch, log_taken]),
            session.commit(),
        )
        .await;
        added?;
        noted?;
        return committed;
    }
}
