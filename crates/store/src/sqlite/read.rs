//! Reading runs. Nothing here writes; all of it runs beside the writer.

use std::collections::BTreeSet;

use baton_core::{IdSuffix, Millis, RunId, State, WorkerId};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use super::connection::Sql;
use super::{rows, statements};
use crate::types::{ID_SUFFIX_FOUND_MAX, ID_SUFFIX_SCAN_MAX};
use crate::{Attempt, Claimed, LaneId, LeaseRef, Look, Page, QueueId, RunFilter, RunRecord, StoreResult};

/// No identifier of a run is as large as this.
const AFTER_ALL: [u8; 16] = [0xff; 16];
/// To SQLite, a limit below zero is none.
const NO_LIMIT: i64 = -1;

/// Runs that a worker holds: those of this claim, or those that it got so long ago and has not
/// started.
pub(super) fn claimed(
    sql: &Sql<'_>,
    worker: WorkerId,
    claim_no: Option<i64>,
    age_ms: Millis,
) -> StoreResult<Vec<Claimed>> {
    let parameters = params![worker.0.as_bytes(), claim_no, sql.now.saturating_sub(age_ms)];
    sql.rows(statements::LIST_CLAIMED, parameters, |row| {
        Ok(Claimed {
            slot: 0,
            run: rows::run_id(row, 0)?,
            lane: row.get(1)?,
            epoch: rows::epoch(row, 2)?,
            attempt: row.get::<_, u32>(3)? + 1,
            priority: row.get(4)?,
            submitted_at: row.get(5)?,
            timeout_at: row.get(6)?,
            key: row.get(7)?,
            input: rows::bytes(row, 8)?,
            waited_ms: row.get(9)?,
            trace: rows::trace(row, 10)?,
        })
    })
}

pub(super) fn strays(
    sql: &Sql<'_>,
    worker: WorkerId,
    known: &[LeaseRef],
    age_ms: Millis,
    limit: usize,
) -> StoreResult<Vec<LeaseRef>> {
    let known: Vec<(String, i64)> =
        known.iter().map(|lease| (lease.run.0.simple().to_string(), lease.epoch.code())).collect();
    let parameters = params![worker.0.as_bytes(), sql.now - age_ms, rows::to_json(&known)?, limit as i64];
    sql.rows(statements::LIST_STRAYS, parameters, rows::lease)
}

pub(super) fn look(sql: &Sql<'_>, lanes: &[LaneId]) -> StoreResult<Look> {
    let mut look = Look::default();
    for lane in lanes {
        let ready = sql.row(statements::READ_LANE_READY, params![lane, sql.now], |row| row.get::<_, bool>(0))?;
        if ready == Some(true) {
            look.ready.push(*lane);
        }
        let due_at = sql.one(statements::READ_NEXT_DUE_AFTER, params![lane, sql.now], rows::maybe_moment)?;
        if let Some(due_at) = due_at {
            look.later.push((*lane, due_at - sql.now));
        }
    }
    Ok(look)
}

pub(super) fn run(sql: &Sql<'_>, run: RunId) -> StoreResult<Option<RunRecord>> {
    let id = run.0.as_bytes();
    let Some(record) = sql.row(statements::READ_RUN, params![id], rows::record)? else { return Ok(None) };
    let (input, output) = sql.one(statements::READ_PAYLOADS, params![id], |row| {
        Ok((rows::bytes(row, 0)?, row.get::<_, Option<Vec<u8>>>(1)?))
    })?;
    Ok(Some(RunRecord { input, output: output.map(Into::into), ..record }))
}

pub(super) fn runs(sql: &Sql<'_>, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunRecord>> {
    if let Some(suffix) = &filter.id_suffix {
        let mut found = runs_by_suffix(sql, filter, suffix, page.after)?;
        found.truncate(page.limit);
        return Ok(found);
    }
    let found = find_runs(sql, filter, page)?;
    found.iter().map(|run| sql.one(statements::READ_RUN, params![run.0.as_bytes()], rows::record)).collect()
}

pub(super) fn find_runs(sql: &Sql<'_>, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunId>> {
    if let Some(suffix) = &filter.id_suffix {
        let found = runs_by_suffix(sql, filter, suffix, page.after)?;
        return Ok(found.into_iter().map(|run| run.id).take(page.limit).collect());
    }
    let mut found = Vec::new();
    for (text, parameters) in searches(filter, page.after, page.limit as i64)? {
        found.append(&mut sql.rows(text, params_from_iter(parameters), |row| rows::run_id(row, 0))?);
    }
    // Each search finds the newest first; together they have to be put in order.
    found.sort_unstable_by(|left, right| right.cmp(left));
    found.truncate(page.limit);
    Ok(found)
}

/// Runs whose identifier ends as wanted, newest first.
fn runs_by_suffix(
    sql: &Sql<'_>,
    filter: &RunFilter,
    suffix: &IdSuffix,
    after: Option<RunId>,
) -> StoreResult<Vec<RunRecord>> {
    let (scan, most) = (ID_SUFFIX_SCAN_MAX as i64, ID_SUFFIX_FOUND_MAX as i64);
    let parameters = params![upper(filter, after), lower(filter), suffix.bytes(), scan, most];
    let found = sql.rows(statements::FIND_RUNS_BY_SUFFIX, parameters, |row| rows::run_id(row, 0))?;
    let mut runs = Vec::new();
    for run in found {
        runs.push(sql.one(statements::READ_RUN, params![run.0.as_bytes()], rows::record)?);
    }
    runs.retain(|run| filter.fits(run));
    Ok(runs)
}

fn upper(filter: &RunFilter, after: Option<RunId>) -> Vec<u8> {
    filter.upper(after).map_or(AFTER_ALL, |run| *run.0.as_bytes()).to_vec()
}

fn lower(filter: &RunFilter) -> Vec<u8> {
    filter.since.map_or([0; 16], |run| *run.0.as_bytes()).to_vec()
}

pub(super) fn count_runs(sql: &Sql<'_>, filter: &RunFilter) -> StoreResult<u64> {
    if let Some(suffix) = &filter.id_suffix {
        return Ok(runs_by_suffix(sql, filter, suffix, None)?.len() as u64);
    }
    let searches = searches(filter, None, NO_LIMIT)?;
    searches.into_iter().map(|(text, parameters)| sql.count_rows(text, params_from_iter(parameters))).sum()
}

/// The statements, with parameters, that find the runs of a filter: for each kind of question the one that has an
/// index for it. A run is found by one of them only.
fn searches(filter: &RunFilter, after: Option<RunId>, limit: i64) -> StoreResult<Vec<(&'static str, Vec<Value>)>> {
    if filter.states.is_empty() {
        return searches_in(filter, None, after, limit);
    }
    let mut all = Vec::new();
    // No state twice, and no run twice with it.
    for state in State::ALL.into_iter().filter(|state| filter.states.contains(state)) {
        all.append(&mut searches_in(filter, Some(state), after, limit)?);
    }
    Ok(all)
}

/// As `searches`, for runs in one state or in any.
fn searches_in(
    filter: &RunFilter,
    state: Option<State>,
    after: Option<RunId>,
    limit: i64,
) -> StoreResult<Vec<(&'static str, Vec<Value>)>> {
    let parameters = |lanes: Option<Value>| -> Vec<Value> {
        let common = vec![
            upper(filter, after).into(),
            state.map(|state| i64::from(state.code())).into(),
            filter.worker.map(|worker| worker.0.as_bytes().to_vec()).into(),
            filter.key.clone().into(),
            limit.into(),
            lower(filter).into(),
        ];
        common.into_iter().chain(lanes).collect()
    };
    let text = match state {
        Some(State::Pending | State::Sleeping) => statements::FIND_WAITING_RUNS,
        Some(State::Assigned | State::Running) => statements::FIND_HELD_RUNS,
        Some(State::Failed | State::Cancelled) => statements::FIND_RUNS_ENDED_BADLY,
        Some(State::Completed) | None => match &filter.lanes {
            None => return Ok(vec![(statements::FIND_RUNS, parameters(None))]),
            Some(lanes) => {
                let lanes: BTreeSet<LaneId> = lanes.iter().copied().collect();
                let search = |lane: LaneId| (statements::FIND_RUNS_OF_LANE, parameters(Some(i64::from(lane).into())));
                return Ok(lanes.into_iter().map(search).collect());
            }
        },
    };
    let lanes = filter.lanes.as_ref().map(rows::to_json).transpose()?;
    Ok(vec![(text, parameters(Some(lanes.into())))])
}

pub(super) fn attempts(sql: &Sql<'_>, run: RunId) -> StoreResult<Vec<Attempt>> {
    sql.rows(statements::LIST_ATTEMPTS, params![run.0.as_bytes()], rows::attempt)
}

pub(super) fn position(sql: &Sql<'_>, run: RunId, cap: u64) -> StoreResult<Option<u64>> {
    sql.row(statements::READ_POSITION, params![run.0.as_bytes(), rows::limit(cap)], rows::count)
}

pub(super) fn key_held(sql: &Sql<'_>, queue: QueueId, key: &str) -> StoreResult<u64> {
    sql.one(statements::COUNT_KEY_HELD, params![queue, key], rows::count)
}
