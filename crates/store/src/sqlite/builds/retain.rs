//! What retention does with builds. Logs may be large, so they go first and piece by piece.

use baton_core::{Millis, RunId};
use rusqlite::params;

use super::super::connection::Sql;
use super::super::{rows, statements};
use crate::StoreResult;

/// Builds and results that one call settles for good, at most.
pub(super) const SETTLED_MAX: i64 = 10_000;
/// Rows of logs and measurements that one call deletes, at most: the one writer must not be busy with this for long.
const STRIPPED_MAX: usize = 1_000;
/// Calls in one retention.
pub(in super::super) const ROUNDS_MAX: usize = 50;

/// Moves builds that have ended from those that are counted one by one to the totals.
pub(in super::super) fn count_ended(sql: &Sql<'_>) -> StoreResult<()> {
    if sql.execute(statements::ADD_BUILD_TOTALS, params![SETTLED_MAX])? > 0 {
        sql.execute(statements::SET_BUILD_OUTCOMES, params![SETTLED_MAX])?;
    }
    Ok(())
}

/// Deletes logs and measurements of builds that ended long ago. True when there may be more.
pub(in super::super) fn strip(sql: &Sql<'_>, runs_ms: Millis, limit: usize) -> StoreResult<bool> {
    let ended_before = sql.now.saturating_sub(runs_ms);
    let newest = RunId::floor(ended_before);
    let parameters = params![newest.0.as_bytes(), ended_before, limit as i64];
    let mut left = STRIPPED_MAX;
    for run in sql.rows(statements::LIST_OLD_BUILDS, parameters, |row| rows::run_id(row, 0))? {
        sql.execute(statements::CLOSE_LOG, params![run.0.as_bytes()])?;
        for text in [statements::DELETE_LOG_CHUNKS, statements::DELETE_MEASUREMENTS] {
            left -= sql.execute(text, params![run.0.as_bytes(), left as i64])?;
        }
        if left == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes what a run has besides itself, unless something of it is left that goes before: then the run stays too.
pub(in super::super) fn delete(sql: &Sql<'_>, run: RunId) -> StoreResult<bool> {
    let id = run.0.as_bytes();
    if sql.one(statements::HAS_LEFTOVERS, params![id], |row| row.get(0))? {
        return Ok(false);
    }
    let files = sql.row(statements::DELETE_BUILD, params![id], |row| {
        Ok([row.get::<_, Option<[u8; 16]>>(0)?, row.get::<_, Option<[u8; 16]>>(1)?])
    })?;
    sql.execute(statements::DOOM_RESULTS, params![id, sql.now])?;
    let Some(files) = files else { return Ok(true) };
    for file in files.into_iter().flatten() {
        sql.execute(statements::RELEASE_ARTIFACT, params![file])?;
    }
    sql.execute(statements::DELETE_BUILD_PROGRESS, params![id])?;
    sql.execute(statements::DELETE_MACHINES, params![id])?;
    Ok(true)
}
