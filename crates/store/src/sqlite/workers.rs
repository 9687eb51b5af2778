//! Workers: who they are, their signs of life, their status.

use std::collections::HashMap;

use baton_core::{Answered, Millis, State, WorkerId};
use rusqlite::{Row, params};

use super::connection::Sql;
use super::end::Batch;
use super::{rows, statements};
use crate::decide::Act;
use crate::{
    Asked, Beat, BeatAnswer, Claimed, Health, LeaseRef, NewWorker, Page, Registered, StoreResult, Woken, Worker,
    WorkerChange, WorkerFilter, WorkerStatus,
};

pub(super) fn register(sql: &Sql<'_>, worker: &NewWorker) -> StoreResult<Registered> {
    let id = worker.id.0.as_bytes();
    let known = sql.row(statements::READ_REGISTERED, params![worker.instance, id], |row| {
        Ok(Registered { id: rows::worker_id(row, 0)?, is_new: false, at: row.get(1)? })
    })?;
    if let Some(known) = known {
        return Ok(known);
    }
    let info = rows::to_json(&worker.info)?;
    sql.execute(
        statements::INSERT_WORKER,
        params![id, worker.instance, worker.namespace, worker.name, info, sql.now, worker.key_id],
    )?;
    let lease_until = sql.now.saturating_add(worker.ttl_ms);
    sql.execute(
        statements::INSERT_WORKER_LIVE,
        params![id, worker.max_concurrent, worker.ttl_ms, sql.now, lease_until],
    )?;
    Ok(Registered { id: worker.id, is_new: true, at: sql.now })
}

pub(super) fn renew(sql: &Sql<'_>, beats: &[Beat]) -> StoreResult<Vec<BeatAnswer>> {
    let renewed = renew_all(sql, beats)?;
    beats.iter().map(|beat| answer(sql, beat, renewed.get(&beat.worker))).collect()
}

struct Renewed {
    status: WorkerStatus,
    lease_until: Millis,
    active: u32,
}

/// One statement for all: most beats say nothing but "I live".
fn renew_all(sql: &Sql<'_>, beats: &[Beat]) -> StoreResult<HashMap<WorkerId, Renewed>> {
    // Of several beats of one worker the last one that says something about the ttl counts.
    let ttls_ms: HashMap<WorkerId, Millis> =
        beats.iter().filter_map(|beat| Some((beat.worker, beat.ttl_ms?))).collect();
    let said: Vec<_> = beats.iter().map(|beat| said(beat, ttls_ms.get(&beat.worker).copied())).collect();
    let parameters = params![rows::to_json(&said)?, sql.now];
    let rows = sql.rows(statements::RENEW_WORKERS, parameters, |row| {
        let renewed = Renewed { status: rows::status(row, 1)?, lease_until: row.get(2)?, active: row.get(3)? };
        Ok((rows::worker_id(row, 0)?, renewed))
    })?;
    Ok(rows.into_iter().collect())
}

/// A beat as the statement reads it: worker, whether it told its health, the health, what is wrong with it, and its new ttl.
fn said(beat: &Beat, ttl_ms: Option<Millis>) -> (String, bool, Option<Health>, Option<&str>, Option<Millis>) {
    (beat.worker.0.simple().to_string(), beat.health.is_some(), beat.health, beat.unfit.as_deref(), ttl_ms)
}

fn answer(sql: &Sql<'_>, beat: &Beat, renewed: Option<&Renewed>) -> StoreResult<BeatAnswer> {
    let Some(renewed) = renewed else {
        let known = status_of(sql, beat.worker)?.is_some();
        return Ok(if known { BeatAnswer::Offline } else { BeatAnswer::Unknown });
    };
    let mut lost = Vec::new();
    for lease in &beat.leases {
        if !keep(sql, beat.worker, *lease)? {
            lost.push(*lease);
        }
    }
    // Nobody can want a run cancelled that is not held.
    let cancelling = match renewed.active {
        0 => Vec::new(),
        _ => sql.rows(statements::LIST_CANCELLING, params![beat.worker.0.as_bytes()], rows::lease)?,
    };
    Ok(BeatAnswer::Alive {
        status: renewed.status,
        lease_until: renewed.lease_until,
        held: renewed.active,
        lost,
        cancelling,
    })
}

/// Whether the worker holds this lease. One that it names is one that it works on, so the run is started.
fn keep(sql: &Sql<'_>, worker: WorkerId, lease: LeaseRef) -> StoreResult<bool> {
    let parameters = params![lease.run.0.as_bytes(), lease.epoch.code(), worker.0.as_bytes()];
    let state = sql.row(statements::READ_HELD_STATE, parameters, |row| rows::state(row, 0))?;
    if state == Some(State::Assigned) {
        super::end::start(sql, &[lease])?;
    }
    Ok(state.is_some())
}

pub(super) fn set_worker(
    sql: &Sql<'_>,
    worker: WorkerId,
    status: WorkerStatus,
    why: &str,
) -> StoreResult<Option<WorkerChange>> {
    let id = worker.0.as_bytes();
    let Some(found) = status_of(sql, worker)? else { return Ok(None) };
    if found == WorkerStatus::Offline {
        return Ok(Some(WorkerChange::default()));
    }
    let reason = (!why.is_empty()).then_some(why);
    let offline_at = (status == WorkerStatus::Offline).then_some(sql.now);
    sql.execute(statements::UPDATE_WORKER_STATUS, params![id, status.code(), reason, offline_at])?;
    match status {
        WorkerStatus::Online | WorkerStatus::Draining => Ok(Some(WorkerChange::default())),
        WorkerStatus::Offline => give_all_back(sql, worker, why).map(Some),
    }
}

fn give_all_back(sql: &Sql<'_>, worker: WorkerId, why: &str) -> StoreResult<WorkerChange> {
    let mut batch = Batch::new(sql, 0.0);
    let mut given_back = 0;
    for lease in sql.rows(statements::LIST_HELD, params![worker.0.as_bytes()], rows::lease)? {
        let Some(row) = rows::live(sql, lease.run)? else { continue };
        if batch.carry_out(&row, &Act::GiveBack(why), lease)?.is_ok() {
            given_back += 1;
        }
    }
    Ok(WorkerChange { given_back, woken: batch.finish()? })
}

/// What a claim brought and its worker still holds, to be told again.
pub(super) fn claimed_again(
    sql: &Sql<'_>,
    worker: WorkerId,
    number: Option<i64>,
    age_ms: Millis,
) -> StoreResult<Vec<Claimed>> {
    let told = super::read::claimed(sql, worker, number, age_ms)?;
    for one in &told {
        sql.execute(statements::TELL_RUN, params![one.run.0.as_bytes()])?;
    }
    Ok(told)
}

/// Gives back leases that nobody has heard of.
pub(super) fn give_back_untold(sql: &Sql<'_>, leases: Vec<LeaseRef>, why: &str) -> StoreResult<Woken> {
    let mut untold = Vec::with_capacity(leases.len());
    for lease in leases {
        let parameters = params![lease.run.0.as_bytes(), lease.epoch.code()];
        if sql.row(statements::READ_TOLD, parameters, |row| row.get::<_, i64>(0))? == Some(0) {
            untold.push((Act::GiveBack(why), lease));
        }
    }
    Ok(super::end::changes(sql, 0.0, untold.into_iter())?.woken)
}

/// Whether earlier calls of these claims were answered.
pub(super) fn are_answered(sql: &Sql<'_>, asked: &[Asked]) -> StoreResult<Vec<bool>> {
    let is_answered = |one: &Asked| match one.claim_no {
        ..=0 => Ok(!super::read::claimed(sql, one.worker, None, one.ms_ago)?.is_empty()),
        number => Ok(answered(sql, one.worker)?.is_some_and(|before| before.has(number))),
    };
    asked.iter().map(is_answered).collect()
}

/// Notes that claims are answered with nothing. False for those that were answered before.
pub(super) fn answer_claims(sql: &Sql<'_>, claims: &[(WorkerId, i64)]) -> StoreResult<Vec<bool>> {
    let answer = |(worker, number): &(WorkerId, i64)| {
        let Some(before) = answered(sql, *worker)? else { return Ok(false) };
        let is_new = !before.has(*number);
        if is_new {
            set_answered(sql, *worker, before.with(*number))?;
        }
        Ok(is_new)
    };
    claims.iter().map(answer).collect()
}

pub(super) fn reopen_claim(sql: &Sql<'_>, worker: WorkerId, number: i64, only_old: bool) -> StoreResult<Vec<Claimed>> {
    let held = claimed_again(sql, worker, Some(number), 0)?;
    let before = answered(sql, worker)?.unwrap_or_default();
    if held.is_empty() && before.may_reopen(number, only_old) {
        set_answered(sql, worker, before.without(number))?;
    }
    Ok(held)
}

fn answered(sql: &Sql<'_>, worker: WorkerId) -> StoreResult<Option<Answered>> {
    let read = |row: &Row<'_>| Ok(Answered { last: row.get(0)?, bits: row.get(1)? });
    sql.row(statements::READ_ANSWERED, params![worker.0.as_bytes()], read)
}

fn set_answered(sql: &Sql<'_>, worker: WorkerId, answered: Answered) -> StoreResult<()> {
    sql.execute(statements::SET_ANSWERED, params![worker.0.as_bytes(), answered.last, answered.bits])?;
    Ok(())
}

fn status_of(sql: &Sql<'_>, worker: WorkerId) -> StoreResult<Option<WorkerStatus>> {
    sql.row(statements::READ_WORKER_STATUS, params![worker.0.as_bytes()], |row| rows::status(row, 0))
}

pub(super) fn worker(sql: &Sql<'_>, worker: WorkerId) -> StoreResult<Option<Worker>> {
    sql.row(statements::READ_WORKER, params![worker.0.as_bytes()], rows::worker)
}

pub(super) fn workers(sql: &Sql<'_>, filter: &WorkerFilter, page: Page<WorkerId>) -> StoreResult<Vec<Worker>> {
    let after = page.after.map(|worker| *worker.0.as_bytes());
    let status = filter.status.map(WorkerStatus::code);
    let parameters = params![filter.namespace, status, filter.queue, after, page.limit as i64];
    sql.rows(statements::LIST_WORKERS, parameters, rows::worker)
}

pub(super) fn count_workers(sql: &Sql<'_>, filter: &WorkerFilter) -> StoreResult<u64> {
    let status = filter.status.map(WorkerStatus::code);
    sql.one(statements::COUNT_WORKERS, params![filter.namespace, status, filter.queue], rows::count)
}
