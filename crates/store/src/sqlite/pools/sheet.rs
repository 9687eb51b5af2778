//! Rows onto a sheet, and what has changed on it back into the store.

use baton_core::pools::RunnerId;
use rusqlite::params;

use super::super::connection::Sql;
use super::super::statements;
use super::rows;
use crate::pool_rules::Sheet;
use crate::{PoolRunner, RunnerEvent, StoreResult};

/// Puts runners on a sheet.
pub(super) fn of_runners(sql: &Sql<'_>, ids: impl IntoIterator<Item = RunnerId>) -> StoreResult<Sheet> {
    let mut found = Vec::new();
    for id in ids {
        found.extend(sql.row(statements::READ_RUNNER, params![id.0.as_bytes()], rows::runner)?);
    }
    Ok(Sheet::new(sql.now, found))
}

/// Writes what has changed.
pub(super) fn write(sql: &Sql<'_>, sheet: &Sheet) -> StoreResult<()> {
    for (before, after) in sheet.changed() {
        set_runner(sql, before, after)?;
    }
    for claim in &sheet.claims {
        let reason = claim.reason.map(|reason| reason.code());
        let parameters = params![
            claim.number,
            claim.state.code(),
            claim.deadline,
            claim.ready_at,
            claim.ended_at,
            reason,
            claim.detail
        ];
        sql.execute(statements::SET_POOL_CLAIM, parameters)?;
    }
    for event in &sheet.events {
        add_event(sql, event)?;
    }
    for ((pool, what), much) in &sheet.totals {
        sql.execute(statements::ADD_POOL_TOTAL, params![pool, what, much])?;
    }
    Ok(())
}

fn set_runner(sql: &Sql<'_>, before: &PoolRunner, after: &PoolRunner) -> StoreResult<()> {
    let (was, is) = (&before.rules, &after.rules);
    let parameters = params![
        after.id.0.as_bytes(),
        was.state.code(),
        was.epoch.number(),
        is.state.code(),
        is.epoch.number(),
        is.owner,
        after.run_id,
        is.deadline,
        is.registered_at,
        is.cause.map(|cause| cause.code()),
        after.since,
        after.machine_id,
        after.machine.kind,
        after.machine.usage.code(),
        after.machine.cpu,
        after.machine.memory_mib as i64,
        after.seen_at,
        after.uses,
        after.detail,
        after.token,
    ];
    sql.execute(statements::SET_RUNNER, parameters)?;
    Ok(())
}

/// Keeps a move.
pub(super) fn add_event(sql: &Sql<'_>, event: &RunnerEvent) -> StoreResult<()> {
    let parameters = params![
        event.at,
        event.pool,
        event.runner.0.as_bytes(),
        event.claim,
        event.from.map(|state| state.code()),
        event.to.code(),
        event.cause.map(|cause| cause.code()),
        event.detail,
    ];
    sql.execute(statements::INSERT_RUNNER_EVENT, parameters)?;
    Ok(())
}
