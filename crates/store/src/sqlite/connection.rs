//! A connection as the verbs see it: statements by text, counted, with the errors in the store's words.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_core::Millis;
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, ErrorCode, Params, Row};

use crate::{StoreError, StoreResult};

/// How long a statement waits for somebody else's lock. Only a tool that a person opened the file with can hold one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements kept prepared for each connection: more than there are.
const STATEMENTS_KEPT: usize = 512;
/// Memory for pages, for each connection.
const CACHE_KIB: i64 = 16 * 1024;
/// What the write-ahead log may keep of the disk after a burst.
const WAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Writes, and every commit is on the disk before it is answered.
    DurableWriter,
    /// Writes a store that nobody wants to find again.
    FleetingWriter,
    /// Only reads.
    Reader,
}

/// Opens a connection and sets it up for its role.
pub(super) fn open(path: &Path, role: Role) -> StoreResult<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Otherwise SQLite plans a statement anew whenever a parameter changes that could matter for a partial index,
    // which was measured to cost five times as much as running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    match role {
        Role::DurableWriter | Role::FleetingWriter => {
            let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
            if mode != "wal" {
                return Err(StoreError::Unavailable(format!(
                    "{} is on a file system that cannot share memory between processes; put it on a local disk",
                    path.display()
                )));
            }
            let synchronous = if role == Role::DurableWriter { "full" } else { "off" };
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.pragma_update_and_check(None, "journal_size_limit", WAL_BYTES_KEPT, |_| Ok(()))?;
        }
        Role::Reader => connection.pragma_update(None, "query_only", true)?,
    }
    Ok(connection)
}

/// What a job works with: a connection inside a transaction, and the time at which it happens.
pub(super) struct Sql<'a> {
    pub connection: &'a Connection,
    pub statements: &'a AtomicU64,
    /// Read once, so that everything a job writes bears the same time.
    pub now: Millis,
    /// What the job has run: it mostly runs few statements many times, and to find one by its text, which the
    /// connection does, costs about as much as to bind a row to it.
    prepared: RefCell<Vec<(&'static str, CachedStatement<'a>)>>,
}

impl<'a> Sql<'a> {
    pub(super) fn new(connection: &'a Connection, statements: &'a AtomicU64, now: Millis) -> Sql<'a> {
        Sql { connection, statements, now, prepared: RefCell::default() }
    }

    /// Runs a statement; returns how many rows it changed.
    pub(super) fn execute(&self, text: &'static str, parameters: impl Params) -> StoreResult<usize> {
        self.count();
        self.with(text, |statement| statement.execute(parameters))
    }

    /// Does something with a statement of the store.
    fn with<T>(
        &self,
        text: &'static str,
        act: impl FnOnce(&mut CachedStatement<'a>) -> rusqlite::Result<T>,
    ) -> StoreResult<T> {
        let place = self.prepared.borrow().iter().position(|(known, _)| *known == text);
        // Out of its place meanwhile: what is done with it may run others.
        let mut statement = match place {
            Some(place) => self.prepared.borrow_mut().swap_remove(place).1,
            None => self.connection.prepare_cached(text)?,
        };
        let done = act(&mut statement);
        self.prepared.borrow_mut().push((text, statement));
        Ok(done?)
    }

    /// Runs a statement; returns its first row, if there is one. Runs to the end, because a statement that writes
    /// has not written before.
    pub(super) fn row<T>(
        &self,
        text: &'static str,
        parameters: impl Params,
        decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Option<T>> {
        Ok(self.rows(text, parameters, decode)?.into_iter().next())
    }

    /// As [`Sql::row`], for a statement that always has a row.
    pub(super) fn one<T>(
        &self,
        text: &'static str,
        parameters: impl Params,
        decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<T> {
        self.row(text, parameters, decode)?.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// Runs a statement; returns its rows.
    pub(super) fn rows<T>(
        &self,
        text: &'static str,
        parameters: impl Params,
        decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        self.count();
        self.with(text, |statement| statement.query_map(parameters, decode)?.collect())
    }

    /// As [`Sql::rows`], for a statement that is put together.
    pub(super) fn rows_of<T>(
        &self,
        text: &str,
        parameters: impl Params,
        decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        self.count();
        let mut statement = self.connection.prepare_cached(text)?;
        let rows = statement.query_map(parameters, decode)?.collect::<rusqlite::Result<_>>()?;
        Ok(rows)
    }

    /// Runs a statement; returns how many rows it has, without keeping them.
    pub(super) fn count_rows(&self, text: &'static str, parameters: impl Params) -> StoreResult<u64> {
        self.count();
        self.with(text, |statement| {
            let mut rows = statement.query(parameters)?;
            let mut count = 0;
            while rows.next()?.is_some() {
                count += 1;
            }
            Ok(count)
        })
    }

    /// Begins, ends or undoes a part of a transaction. Not counted: it looks at no data, and goes nowhere.
    pub(super) fn control(&self, text: &str) -> StoreResult<()> {
        self.connection.prepare_cached(text)?.execute([])?;
        Ok(())
    }

    fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied,
            ) => StoreError::Unavailable(error.to_string()),
            _ => StoreError::Internal(error.to_string()),
        }
    }
}
