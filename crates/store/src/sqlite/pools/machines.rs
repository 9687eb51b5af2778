//! Orders, machines, agents, and what has lasted too long.

use baton_core::Millis;
use baton_core::pools::{BackoffRule, ClaimNo, OrderId, RunnerId};
use baton_core::token::Hash;
use rusqlite::params;

use super::super::connection::Sql;
use super::super::rows::to_json;
use super::super::statements;
use super::{claims, rows, sheet};
use crate::pool_rules::claims::{self as rules, Ending, LOST};
use crate::pool_rules::{Sheet, orders, runners};
use crate::{
    EndClaimAnswer, ExpiredPools, JoinAnswer, MachineAnswer, NewMachine, NewOrder, Order, OrderAnswer, Pool,
    PoolExpiry, RunnerAnswer, RunnerEnd, RunnerSignal, SignalAnswer, StoreResult, pool_total,
};

pub(super) fn order(sql: &Sql<'_>, new: &NewOrder) -> StoreResult<OrderAnswer> {
    if let Some(known) = hold_order(sql, new.order)? {
        return Ok(OrderAnswer::Known(known));
    }
    let Some(view) = claims::view(sql, new.pool)?.filter(|view| view.pool.deleting_at.is_none()) else {
        return Ok(OrderAnswer::NoPool);
    };
    let Some((order, places)) = orders::place(new, &view.pool, view.size(), sql.now) else {
        return Ok(OrderAnswer::Full);
    };
    let key = order.id.0.as_bytes();
    let usage = order.usage.code();
    let types = to_json(&order.types)?;
    let parameters = params![key, order.pool, order.count, usage, order.ordered_at, order.ask_at, order.asked, types];
    sql.rows(statements::ADD_ORDER, parameters, |_| Ok(()))?;
    let mut placed = Sheet::new(sql.now, Vec::new());
    for row in &places {
        let id = row.id.0.as_bytes();
        let memory = row.machine.memory_mib as i64;
        let deadline = row.rules.deadline;
        let parameters = params![sql.now, row.pool, key, deadline, usage, row.machine.cpu, memory, id];
        sql.execute(statements::INSERT_RUNNER, parameters)?;
        placed.events.push(orders::ordered(row));
    }
    placed.add(order.pool, pool_total::ORDERED, i64::from(order.count));
    sheet::write(sql, &placed)?;
    Ok(OrderAnswer::Ordered(order))
}

fn hold_order(sql: &Sql<'_>, order: OrderId) -> StoreResult<Option<Order>> {
    sql.row(statements::HOLD_ORDER, params![order.0.as_bytes()], rows::order)
}

fn runners_of(sql: &Sql<'_>, order: OrderId) -> StoreResult<Sheet> {
    let found = sql.rows(statements::HOLD_ORDER_RUNNERS, params![order.0.as_bytes()], rows::runner)?;
    Ok(Sheet::new(sql.now, found))
}

fn close(sql: &Sql<'_>, order: OrderId, error: Option<&str>) -> StoreResult<bool> {
    Ok(sql.execute(statements::CLOSE_ORDER, params![order.0.as_bytes(), sql.now, error])? > 0)
}

pub(super) fn record(
    sql: &Sql<'_>,
    order: OrderId,
    machines: Vec<NewMachine>,
) -> StoreResult<Option<Vec<MachineAnswer>>> {
    let Some(known) = hold_order(sql, order)? else { return Ok(None) };
    let mut held = runners_of(sql, order)?;
    let has_some = !machines.is_empty();
    let (answers, is_settled) = orders::record(&mut held, machines);
    sheet::write(sql, &held)?;
    if is_settled {
        close(sql, order, None)?;
    }
    if has_some && let Some(pool) = pool_of(sql, &known)? {
        set_backoff(sql, &Pool { backoff: pool.backoff.succeeded(), error: None, ..pool })?;
    }
    Ok(Some(answers))
}

fn pool_of(sql: &Sql<'_>, order: &Order) -> StoreResult<Option<Pool>> {
    sql.row(statements::READ_POOL_OF_NUMBER, params![order.pool], rows::pool)
}

fn set_backoff(sql: &Sql<'_>, pool: &Pool) -> StoreResult<()> {
    let backoff = &pool.backoff;
    let parameters = params![pool.number, backoff.failures, backoff.create_after, backoff.spot_after, pool.error];
    sql.execute(statements::SET_POOL_BACKOFF, parameters)?;
    Ok(())
}

pub(super) fn fail(sql: &Sql<'_>, order: OrderId, error: &str, rule: &BackoffRule, jitter: f64) -> StoreResult<bool> {
    let Some(known) = hold_order(sql, order)? else { return Ok(false) };
    if !close(sql, order, Some(error))? {
        return Ok(false);
    }
    let mut held = runners_of(sql, order)?;
    orders::fail(&mut held, error);
    held.add(known.pool, pool_total::ORDERS_FAILED, 1);
    sheet::write(sql, &held)?;
    if let Some(pool) = pool_of(sql, &known)? {
        let backoff = pool.backoff.failed(rule, &pool.spec, known.usage, sql.now, jitter);
        set_backoff(sql, &Pool { backoff, error: Some(error.to_owned()), ..pool })?;
    }
    Ok(true)
}

pub(super) fn join(sql: &Sql<'_>, order: OrderId, machine_id: &str, token: &Hash) -> StoreResult<JoinAnswer> {
    let mut held = runners_of(sql, order)?;
    let answer = orders::join(&mut held, machine_id, token);
    sheet::write(sql, &held)?;
    Ok(answer)
}

pub(super) fn signal(sql: &Sql<'_>, signals: &[RunnerSignal]) -> StoreResult<Vec<SignalAnswer>> {
    let mut held = sheet::of_runners(sql, signals.iter().map(|said| said.runner.runner))?;
    let answers = signals.iter().map(|said| runners::signal(&mut held, said)).collect();
    sheet::write(sql, &held)?;
    Ok(answers)
}

pub(super) fn end(sql: &Sql<'_>, ends: &[RunnerEnd]) -> StoreResult<Vec<RunnerAnswer>> {
    let mut held = sheet::of_runners(sql, ends.iter().map(|end| end.runner.runner))?;
    let answers = ends.iter().map(|end| runners::end(&mut held, end)).collect();
    sheet::write(sql, &held)?;
    Ok(answers)
}

pub(super) fn gone(sql: &Sql<'_>, ids: &[RunnerId]) -> StoreResult<Vec<RunnerAnswer>> {
    let mut held = sheet::of_runners(sql, ids.iter().copied())?;
    let answers = ids.iter().map(|id| runners::gone(&mut held, *id)).collect();
    sheet::write(sql, &held)?;
    Ok(answers)
}

pub(super) fn expire(sql: &Sql<'_>, expiry: &PoolExpiry, called_at: Millis) -> StoreResult<ExpiredPools> {
    let limit = expiry.limit as i64;
    let mut expired = ExpiredPools::default();
    let mut moved: Vec<RunnerId> = Vec::new();
    for claim in sql.rows(statements::LIST_OVERDUE_CLAIMS, params![sql.now, limit], |row| row.get(0))? {
        // Overdue or not, whoever waits for a pool that is being deleted waits in vain; the list has nobody else.
        let ending = Ending::Expire { is_pool_deleted: true };
        if let (EndClaimAnswer::Ended(claim, _), runners) = claims::end(sql, claim, ending, "", expiry.release_ms)? {
            expired.claims.push(claim);
            moved.extend(runners.iter().map(|runner| runner.id));
        }
    }
    let overdue = sql.rows(statements::LIST_OVERDUE_RUNNERS, params![sql.now, limit], |row| rows::runner_id(row, 0))?;
    let mut held = sheet::of_runners(sql, overdue.iter().copied())?;
    moved.extend(
        overdue.into_iter().filter(|id| matches!(runners::expire(&mut held, *id, expiry), RunnerAnswer::Moved(..))),
    );
    sheet::write(sql, &held)?;

    let stranded = sql.rows(statements::LIST_STRANDED_RUNNERS, params![limit], |row| {
        Ok((rows::runner_id(row, 0)?, row.get::<_, ClaimNo>(1)?))
    })?;
    let mut held = sheet::of_runners(sql, stranded.iter().map(|(id, _)| *id))?;
    for (id, claim) in stranded {
        let answer = rules::give_back_stranded(&mut held, claim, id, expiry.release_ms);
        moved.extend(matches!(answer, RunnerAnswer::Moved(..)).then_some(id));
    }
    sheet::write(sql, &held)?;

    let parameters =
        params![called_at.saturating_sub(expiry.silent_ms), called_at.saturating_sub(expiry.abandoned_ms), limit];
    let silent = sql.rows(statements::LIST_SILENT_RUNNERS, parameters, |row| rows::runner_id(row, 0))?;
    let mut held = sheet::of_runners(sql, silent.iter().copied())?;
    moved.extend(
        silent
            .into_iter()
            .filter(|id| matches!(runners::silence(&mut held, *id, expiry, called_at), RunnerAnswer::Moved(..))),
    );
    sheet::write(sql, &held)?;
    // Last: whoever has just lost its last runner has nothing to keep.
    for claim in sql.rows(statements::LIST_BARREN_CLAIMS, params![limit], |row| row.get(0))? {
        if let (EndClaimAnswer::Ended(claim, _), _) = claims::end(sql, claim, Ending::Lose, LOST, expiry.release_ms)? {
            expired.claims.push(claim);
        }
    }
    expired.runners = sheet::of_runners(sql, moved)?.all().cloned().collect();
    Ok(expired)
}
