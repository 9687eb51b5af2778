//! Builders and their tokens.

use baton_core::{Millis, WorkerId};
use rusqlite::{Result, Row, params};

use super::super::connection::Sql;
use super::super::{rows, statements};
use crate::{Builder, BuilderSet, StoreResult, TokenAnswer};

pub(super) fn builder(sql: &Sql<'_>, namespace: &str, name_id: &str) -> StoreResult<Option<Builder>> {
    sql.row(statements::READ_BUILDER, params![namespace, name_id], decode)
}

pub(super) fn set(
    sql: &Sql<'_>,
    namespace: &str,
    name_id: &str,
    worker: WorkerId,
    key_id: Option<&str>,
    token_ttl_ms: Millis,
) -> StoreResult<Option<BuilderSet>> {
    let token_until = sql.now.saturating_add(token_ttl_ms);
    let parameters = params![namespace, name_id, worker.0.as_bytes(), key_id, token_until, sql.now];
    sql.row(statements::SET_BUILDER, parameters, |row| {
        Ok(BuilderSet { token: row.get(0)?, replaced: rows::maybe_worker_id(row, 1)? })
    })
}

pub(super) fn token_shown(
    sql: &Sql<'_>,
    worker: WorkerId,
    number: i64,
    rotate: Option<Millis>,
) -> StoreResult<TokenAnswer> {
    let id = worker.0.as_bytes();
    if let Some(builder) = sql.row(statements::SHOW_TOKEN, params![sql.now, id, number, rotate], decode)? {
        return Ok(builder.shown(rotate.is_some()));
    }
    match sql.row(statements::READ_BUILDER_OF_WORKER, params![id], decode)? {
        Some(builder) => Ok(builder.refuse(number)),
        None => {
            let known = sql.row(statements::READ_WORKER_STATUS, params![id], |_| Ok(()))?;
            Ok(known.map_or(TokenAnswer::Unknown, |()| TokenAnswer::Dead))
        }
    }
}

pub(super) fn count(sql: &Sql<'_>, worker: WorkerId, succeeded: bool) -> StoreResult<()> {
    sql.execute(statements::COUNT_BUILDER, params![worker.0.as_bytes(), succeeded])?;
    Ok(())
}

fn decode(row: &Row<'_>) -> Result<Builder> {
    Ok(Builder {
        namespace: row.get(0)?,
        name_id: row.get(1)?,
        worker: rows::worker_id(row, 2)?,
        key_id: row.get(3)?,
        token: row.get(4)?,
        token_used: row.get(5)?,
        token_until: row.get(6)?,
        registered_at: row.get(7)?,
        revoked_at: row.get(8)?,
        succeeded: rows::number(row, 9)?,
        failed: rows::number(row, 10)?,
    })
}
