//! From columns to pools, claims, runners and orders.

use baton_core::Epoch;
use baton_core::pools::keeper::ComingRunner;
use baton_core::pools::{
    Backoff, Cause, ClaimReason, ClaimState, Machine, OrderId, Runner, RunnerId, RunnerState, Usage,
};
use rusqlite::{Result, Row, RowIndex};
use uuid::Uuid;

use super::super::rows::{coded, json, maybe};
use crate::pool_rules;
use crate::{Order, Pool, PoolClaim, PoolRunner, RunnerEvent, RunnerNews};

pub(super) fn pool(row: &Row<'_>) -> Result<Pool> {
    Ok(Pool {
        number: row.get("pool_no")?,
        namespace: row.get("namespace")?,
        name: row.get("name")?,
        spec: json(row, "spec")?,
        revision: row.get("revision")?,
        created_at: row.get("created_at")?,
        deleting_at: row.get("deleting_at")?,
        backoff: Backoff {
            failures: row.get("failures")?,
            create_after: row.get("create_after")?,
            spot_after: row.get("spot_after")?,
        },
        error: row.get("error")?,
    })
}

pub(super) fn claim(row: &Row<'_>) -> Result<PoolClaim> {
    Ok(PoolClaim {
        number: row.get("claim_no")?,
        pool: row.get("pool_no")?,
        run_id: row.get("run_id")?,
        fingerprint: row.get("fingerprint")?,
        count: row.get("machines")?,
        wanted: json(row, "wanted")?,
        priority: row.get("priority")?,
        owner: row.get("owner")?,
        runtime_ms: row.get("runtime_ms")?,
        state: coded(row, "state", ClaimState::from_code)?,
        opened_at: row.get("opened_at")?,
        deadline: row.get("deadline")?,
        ready_at: row.get("ready_at")?,
        ended_at: row.get("ended_at")?,
        reason: maybe(row, "reason", |row, index| coded(row, index, ClaimReason::from_code))?,
        detail: row.get("detail")?,
    })
}

pub(super) fn runner_id(row: &Row<'_>, index: impl RowIndex) -> Result<RunnerId> {
    row.get(index).map(|bytes| RunnerId(Uuid::from_bytes(bytes)))
}

fn rules(row: &Row<'_>) -> Result<Runner> {
    Ok(Runner {
        state: coded(row, "state", RunnerState::from_code)?,
        epoch: row.get("epoch").map(Epoch::new)?,
        owner: row.get("claim_no")?,
        deadline: row.get("deadline")?,
        registered_at: row.get("registered_at")?,
        cause: cause(row)?,
    })
}

fn cause(row: &Row<'_>) -> Result<Option<Cause>> {
    maybe(row, "cause", |row, index| coded(row, index, Cause::from_code))
}

pub(super) fn runner(row: &Row<'_>) -> Result<PoolRunner> {
    Ok(PoolRunner {
        id: runner_id(row, "runner_id")?,
        pool: row.get("pool_no")?,
        order: OrderId(row.get("order_id").map(Uuid::from_bytes)?),
        rules: rules(row)?,
        run_id: row.get("run_id")?,
        since: row.get("since")?,
        ordered_at: row.get("ordered_at")?,
        machine_id: row.get("machine_id")?,
        machine: Machine {
            kind: row.get("kind")?,
            usage: coded(row, "usage", Usage::from_code)?,
            cpu: row.get("cpu")?,
            memory_mib: row.get::<_, i64>("memory_mib")?.unsigned_abs(),
        },
        seen_at: row.get("seen_at")?,
        uses: row.get("uses")?,
        detail: row.get("detail")?,
        token: row.get("token_hash")?,
    })
}

pub(super) fn news(row: &Row<'_>) -> Result<RunnerNews> {
    Ok(pool_rules::news(&rules(row)?, row.get::<_, Option<String>>("run_id")?.as_deref()))
}

pub(super) fn order(row: &Row<'_>) -> Result<Order> {
    Ok(Order {
        id: OrderId(row.get("order_id").map(Uuid::from_bytes)?),
        pool: row.get("pool_no")?,
        count: row.get("machines")?,
        usage: coded(row, "usage", Usage::from_code)?,
        types: json(row, "types")?,
        ordered_at: row.get("ordered_at")?,
        ask_at: row.get("ask_at")?,
        asked: row.get("asked")?,
        closed_at: row.get("closed_at")?,
        error: row.get("error")?,
    })
}

pub(super) fn coming(row: &Row<'_>) -> Result<ComingRunner> {
    let usage = coded(row, "usage", Usage::from_code)?;
    Ok(ComingRunner { usage, kind: row.get("kind")?, types: json(row, "types")? })
}

pub(super) fn event(row: &Row<'_>) -> Result<RunnerEvent> {
    Ok(RunnerEvent {
        number: row.get("event_no")?,
        at: row.get("at")?,
        pool: row.get("pool_no")?,
        runner: runner_id(row, "runner_id")?,
        claim: row.get("claim_no")?,
        from: maybe(row, "was", |row, index| coded(row, index, RunnerState::from_code))?,
        to: coded(row, "became", RunnerState::from_code)?,
        cause: cause(row)?,
        detail: row.get("detail")?,
    })
}
