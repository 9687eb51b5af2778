//! From rows to pools, claims, runners and orders.

use baton_core::Epoch;
use baton_core::pools::keeper::ComingRunner;
use baton_core::pools::{
    Backoff, Cause, ClaimReason, ClaimState, Machine, OrderId, Runner, RunnerId, RunnerState, Usage,
};
use tokio_postgres::Row;

use super::super::pool::Outcome;
use super::super::rows::{corrupt, json};
use crate::pool_rules;
use crate::{Order, Pool, PoolClaim, PoolRunner, RunnerEvent, RunnerNews};

fn coded<T>(row: &Row, column: &str, from_code: impl Fn(i16) -> Option<T>) -> Outcome<T> {
    from_code(row.try_get(column)?).ok_or_else(|| corrupt(column))
}

fn maybe_coded<T>(row: &Row, column: &str, from_code: impl Fn(i16) -> Option<T>) -> Outcome<Option<T>> {
    match row.try_get::<_, Option<i16>>(column)? {
        Some(code) => from_code(code).map(Some).ok_or_else(|| corrupt(column)),
        None => Ok(None),
    }
}

fn bytes<const LENGTH: usize>(bytes: &[u8], what: &str) -> Outcome<[u8; LENGTH]> {
    bytes.try_into().map_err(|_| corrupt(what))
}

fn number(row: &Row, column: &str) -> Outcome<u32> {
    Ok(row.try_get::<_, i32>(column)?.unsigned_abs())
}

pub(super) fn pool(row: &Row) -> Outcome<Pool> {
    Ok(Pool {
        number: row.try_get("pool_no")?,
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        spec: json(row.try_get("spec")?, "a pool's spec")?,
        revision: row.try_get("revision")?,
        created_at: row.try_get("created_at")?,
        deleting_at: row.try_get("deleting_at")?,
        backoff: Backoff {
            failures: number(row, "failures")?,
            create_after: row.try_get("create_after")?,
            spot_after: row.try_get("spot_after")?,
        },
        error: row.try_get("error")?,
    })
}

pub(super) fn claim(row: &Row) -> Outcome<PoolClaim> {
    Ok(PoolClaim {
        number: row.try_get("claim_no")?,
        pool: row.try_get("pool_no")?,
        run_id: row.try_get("run_id")?,
        fingerprint: bytes(row.try_get("fingerprint")?, "a fingerprint")?,
        count: number(row, "machines")?,
        wanted: json(row.try_get("wanted")?, "what a claim wants")?,
        priority: u8::try_from(row.try_get::<_, i16>("priority")?).map_err(|_| corrupt("a priority"))?,
        owner: row.try_get("owner")?,
        runtime_ms: row.try_get("runtime_ms")?,
        state: coded(row, "state", ClaimState::from_code)?,
        opened_at: row.try_get("opened_at")?,
        deadline: row.try_get("deadline")?,
        ready_at: row.try_get("ready_at")?,
        ended_at: row.try_get("ended_at")?,
        reason: maybe_coded(row, "reason", ClaimReason::from_code)?,
        detail: row.try_get("detail")?,
    })
}

fn rules(row: &Row) -> Outcome<Runner> {
    Ok(Runner {
        state: coded(row, "state", RunnerState::from_code)?,
        epoch: Epoch::new(row.try_get::<_, i32>("epoch")? as u32),
        owner: row.try_get("claim_no")?,
        deadline: row.try_get("deadline")?,
        registered_at: row.try_get("registered_at")?,
        cause: maybe_coded(row, "cause", Cause::from_code)?,
    })
}

pub(super) fn runner_id(row: &Row) -> Outcome<RunnerId> {
    Ok(RunnerId(row.try_get("runner_id")?))
}

pub(super) fn runner(row: &Row) -> Outcome<PoolRunner> {
    let token: Option<&[u8]> = row.try_get("token_hash")?;
    Ok(PoolRunner {
        id: runner_id(row)?,
        pool: row.try_get("pool_no")?,
        order: OrderId(row.try_get("order_id")?),
        rules: rules(row)?,
        run_id: row.try_get("run_id")?,
        since: row.try_get("since")?,
        ordered_at: row.try_get("ordered_at")?,
        machine_id: row.try_get("machine_id")?,
        machine: Machine {
            kind: row.try_get("kind")?,
            usage: coded(row, "usage", Usage::from_code)?,
            cpu: number(row, "cpu")?,
            memory_mib: row.try_get::<_, i64>("memory_mib")?.unsigned_abs(),
        },
        seen_at: row.try_get("seen_at")?,
        uses: number(row, "uses")?,
        detail: row.try_get("detail")?,
        token: token.map(|hash| bytes(hash, "a token's hash")).transpose()?,
    })
}

pub(super) fn news(row: &Row) -> Outcome<RunnerNews> {
    Ok(pool_rules::news(&rules(row)?, row.try_get("run_id")?))
}

pub(super) fn order(row: &Row) -> Outcome<Order> {
    Ok(Order {
        id: OrderId(row.try_get("order_id")?),
        pool: row.try_get("pool_no")?,
        count: number(row, "machines")?,
        usage: coded(row, "usage", Usage::from_code)?,
        types: json(row.try_get("types")?, "an order's types")?,
        ordered_at: row.try_get("ordered_at")?,
        ask_at: row.try_get("ask_at")?,
        asked: number(row, "asked")?,
        closed_at: row.try_get("closed_at")?,
        error: row.try_get("error")?,
    })
}

pub(super) fn coming(row: &Row) -> Outcome<ComingRunner> {
    let usage = coded(row, "usage", Usage::from_code)?;
    Ok(ComingRunner { usage, kind: row.try_get("kind")?, types: json(row.try_get("types")?, "an order's types")? })
}

pub(super) fn event(row: &Row) -> Outcome<RunnerEvent> {
    Ok(RunnerEvent {
        number: row.try_get("event_no")?,
        at: row.try_get("at")?,
        pool: row.try_get("pool_no")?,
        runner: runner_id(row)?,
        claim: row.try_get("claim_no")?,
        from: maybe_coded(row, "was", RunnerState::from_code)?,
        to: coded(row, "became", RunnerState::from_code)?,
        cause: maybe_coded(row, "cause", Cause::from_code)?,
        detail: row.try_get("detail")?,
    })
}

/// How many runners are in which state.
pub(super) fn count(row: &Row) -> Outcome<(RunnerState, u64)> {
    Ok((coded(row, "state", RunnerState::from_code)?, row.try_get::<_, i64>("runners")?.unsigned_abs()))
}
