//! The installation's secret, and how one that lay here in plain is removed without a trace.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::connection::Sql;
use super::statements;
use crate::{SecretsChange, StoreResult, StoredSecrets, WrappedSecret};

/// How long to wait for readers before the log is folded into the database.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(5);

const SECRET: &str = "secret";
const INSTALLATION: &str = "installation";
/// As the first migration makes it.
const CREATE_META: &str = "create table meta (key text primary key, value blob not null) without rowid";

pub(super) fn read(sql: &Sql<'_>) -> StoreResult<StoredSecrets> {
    let generations = sql.rows(statements::LIST_SECRETS, [], |row| {
        Ok(WrappedSecret {
            generation: row.get(0)?,
            wrapped: row.get(1)?,
            key_id: row.get(2)?,
            made_at: row.get(3)?,
            tokens_until: row.get(4)?,
        })
    })?;
    let plain = sql.row(statements::READ_META, params![SECRET], |row| row.get(0))?;
    let installation = sql.row(statements::READ_META, params![INSTALLATION], |row| row.get::<_, Vec<u8>>(0))?;
    let installation = installation.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(StoredSecrets { plain, installation, generations, now: sql.now })
}

pub(super) fn change(sql: &Sql<'_>, seen: &StoredSecrets, change: &SecretsChange) -> StoreResult<bool> {
    if !read(sql)?.are_same(seen) {
        return Ok(false);
    }
    if change.discard {
        sql.execute(statements::DELETE_SECRETS, [])?;
    }
    for (generation, wrapped, key_id) in &change.write {
        sql.execute(statements::WRITE_SECRET, params![generation, wrapped, key_id, sql.now])?;
    }
    if let Some(overlap_ms) = change.overlap_ms {
        sql.execute(statements::END_TOKENS, params![sql.now, overlap_ms])?;
    }
    if seen.plain.is_some() {
        erase_plain(sql)?;
    }
    if let Some(installation) = &change.installation {
        sql.execute(statements::KEEP_META, params![INSTALLATION, installation.as_bytes()])?;
    }
    Ok(true)
}

/// Removes the plain secret. The table is made anew, and what it was in is overwritten with zeros: a row that is only
/// deleted, or was moved within its page, can still be read from the file.
fn erase_plain(sql: &Sql<'_>) -> StoreResult<()> {
    sql.connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    let erased = (|| {
        sql.execute(statements::DELETE_META, params![SECRET])?;
        let fact = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?));
        let others = sql.rows(statements::LIST_META, [], fact)?;
        sql.connection.execute_batch(statements::EMPTY_META)?;
        sql.connection.execute_batch(CREATE_META)?;
        for (key, value) in others {
            sql.execute(statements::KEEP_META, params![key, value])?;
        }
        Ok(())
    })();
    sql.connection.pragma_update_and_check(None, "secure_delete", false, |_| Ok(()))?;
    erased
}

/// Folds the write-ahead log into the database and empties it: it has pages with the plain secret. Not done in time, it
/// happens when the server stops.
pub(super) fn empty_log(database: &Path) -> StoreResult<()> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(CHECKPOINT_WAIT)?;
    let busy = connection.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get::<_, i64>(0))?;
    if busy != 0 {
        tracing::warn!(
            "the write-ahead log, which has the secret from before there was a master key, is in use; it goes when the server stops"
        );
    }
    Ok(())
}
