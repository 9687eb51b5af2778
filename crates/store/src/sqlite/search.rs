//! Searching runs for people. Each search looks at no more than so many.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};
use uuid::Uuid;

use baton_core::step::StepKind;
use baton_core::{Millis, RunId};

use super::connection::Sql;
use super::{read, rows, statements};
use crate::types::{Source, directed};
use crate::{
    LISTED_OUTPUT_BYTES_MAX, LaneId, ListedLease, ListedRun, Phase, PhaseCounts, RunSearch, SEARCH_LIVE_MAX,
    SEARCH_LOOKS_MAX, SEARCH_SUFFIX_MAX, SearchFound, SearchFrom, StoreResult,
};

pub(super) fn search(sql: &Sql<'_>, search: &RunSearch, from: SearchFrom, limit: usize) -> StoreResult<SearchFound> {
    let source = search.source();
    let bounds = search.bounds(from);
    if let Some(suffix) = &search.id_suffix {
        let (most, looks) = (limit as i64, SEARCH_SUFFIX_MAX as i64);
        let parameters = params![bounds.0.as_bytes(), bounds.1.as_bytes(), suffix.bytes(), looks, most];
        let runs = sql.rows(statements::FIND_RUNS_BY_SUFFIX, parameters, |row| rows::run_id(row, 0))?;
        return Ok(SearchFound { runs, looked_to: None });
    }
    let text = directed(statement(source), from);
    let mut found = SearchFound::default();
    for most in search.looks(source) {
        let edge = match most {
            Some(most) => edge(sql, search, source, from, bounds, most)?,
            None => None,
        };
        let narrowed = RunSearch::narrowed(from, bounds, edge);
        let mut runs = Vec::new();
        for lane in lanes(search, source) {
            let parameters = parameters(search, narrowed, limit, source, lane)?;
            runs.append(&mut sql.rows_of(&text, params_from_iter(parameters), |row| rows::run_id(row, 0))?);
        }
        found = RunSearch::found(from, runs, limit, edge);
        if found.looked_to.is_none() {
            break;
        }
    }
    Ok(found)
}

/// The lanes that are searched one by one; one turn without a lane where they are not.
fn lanes(search: &RunSearch, source: Source) -> Vec<Option<LaneId>> {
    match (source, &search.lanes) {
        (Source::Lanes, Some(lanes)) => lanes.iter().copied().map(Some).collect(),
        _ => vec![None],
    }
}

fn statement(source: Source) -> &'static str {
    match source {
        Source::Runs => statements::SEARCH_RUNS,
        Source::Lanes => statements::SEARCH_LANE_RUNS,
        Source::Live => statements::SEARCH_LIVE,
        Source::Held => statements::SEARCH_HELD,
        Source::Badly => statements::SEARCH_ENDED_BADLY,
        Source::Completed => statements::SEARCH_COMPLETED,
        Source::Key => statements::SEARCH_KEY,
        Source::KeyPrefix => statements::SEARCH_KEY_PREFIX,
    }
}

fn blob(id: Uuid) -> Value {
    id.as_bytes().to_vec().into()
}

fn parameters(
    search: &RunSearch,
    (upper, lower): (Uuid, Uuid),
    limit: usize,
    source: Source,
    lane: Option<LaneId>,
) -> StoreResult<Vec<Value>> {
    let (key_from, key_below) = search.keys();
    let phases: Vec<i16> = search.phases.iter().map(|phase| phase.code()).collect();
    let mut all: Vec<Value> = vec![
        search.lanes.as_ref().map(rows::to_json).transpose()?.into(),
        (!phases.is_empty()).then(|| rows::to_json(&phases)).transpose()?.into(),
        workers(search)?.into(),
        key_from.into(),
        key_below.into(),
        search.error.clone().into(),
        search.reason.map(|reason| i64::from(reason.code())).into(),
        blob(upper),
        blob(lower),
        (limit as i64).into(),
        search.now.into(),
    ];
    match source {
        Source::Lanes => all.push(lane.map(i64::from).into()),
        Source::KeyPrefix => all.push((SEARCH_LOOKS_MAX as i64).into()),
        Source::Runs | Source::Live | Source::Held | Source::Badly | Source::Completed | Source::Key => {}
    }
    Ok(all)
}

/// Workers as `hex` writes them.
fn workers(search: &RunSearch) -> StoreResult<Option<String>> {
    let hex = |workers: &Vec<baton_core::WorkerId>| -> Vec<String> {
        workers.iter().map(|worker| format!("{:X}", worker.0.simple())).collect()
    };
    search.workers.as_ref().map(|workers| rows::to_json(&hex(workers))).transpose()
}

/// Where a search ends that looks at so many runs; `None` when there are fewer.
fn edge(
    sql: &Sql<'_>,
    search: &RunSearch,
    source: Source,
    from: SearchFrom,
    (upper, lower): (Uuid, Uuid),
    most: usize,
) -> StoreResult<Option<Uuid>> {
    let text = match source {
        Source::Runs | Source::Key | Source::KeyPrefix => statements::FIND_SEARCH_EDGE,
        Source::Lanes => statements::FIND_SEARCH_EDGE_LANE,
        Source::Live | Source::Held => statements::FIND_SEARCH_EDGE_LIVE,
        Source::Badly => statements::FIND_SEARCH_EDGE_BADLY,
        Source::Completed => statements::FIND_SEARCH_EDGE_ENDED,
    };
    let text = directed(text, from);
    let mut edges = Vec::new();
    for lane in lanes(search, source) {
        let mut parameters = vec![blob(upper), blob(lower), (most as i64 - 1).into()];
        parameters.extend(lane.map(|lane| i64::from(lane).into()));
        edges.extend(sql.rows_of(&text, params_from_iter(parameters), |row| rows::run_id(row, 0))?);
    }
    let edges = edges.into_iter().map(|run| run.0);
    Ok(match from {
        SearchFrom::Newest | SearchFrom::Older(_) => edges.max(),
        SearchFrom::Newer(_) => edges.min(),
    })
}

pub(super) fn count(sql: &Sql<'_>, search: &RunSearch, most: usize) -> StoreResult<PhaseCounts> {
    let (upper, lower) = search.bounds(SearchFrom::Newest);
    let lanes = search.lanes.as_ref().map(rows::to_json).transpose()?;
    let workers = workers(search)?;
    let reason = search.reason.map(|reason| i64::from(reason.code()));
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let mut counts = PhaseCounts::default();
    let (upper, lower) = (upper.as_bytes(), lower.as_bytes());
    if search.error.is_none() && reason.is_none() {
        let parameters = params![lanes, workers, upper, lower, search.now, SEARCH_LIVE_MAX as i64];
        let found = sql.rows(statements::COUNT_SEARCH_LIVE, parameters, pair)?;
        counts.add(&found, SEARCH_LIVE_MAX, |phase| !phase.is_ended());
    }
    let parameters = || {
        params_from_iter::<Vec<Value>>(vec![
            lanes.clone().into(),
            workers.clone().into(),
            upper.to_vec().into(),
            lower.to_vec().into(),
            search.error.clone().into(),
            (most as i64).into(),
            reason.into(),
        ])
    };
    let found = sql.rows(statements::COUNT_SEARCH_BADLY, parameters(), pair)?;
    counts.add(&found, most, |phase| matches!(phase, Phase::Failed | Phase::Cancelled));
    let found = sql.rows(statements::COUNT_SEARCH_COMPLETED, parameters(), pair)?;
    counts.add(&found, most, |phase| phase == Phase::Completed);
    Ok(counts)
}

pub(super) fn listed(sql: &Sql<'_>, runs: &[RunId]) -> StoreResult<Vec<ListedRun>> {
    let mut all = Vec::with_capacity(runs.len());
    for run in runs {
        let id = run.0.as_bytes();
        let Some(record) = sql.row(statements::READ_RUN, params![id], rows::record)? else { continue };
        let parameters = params![id, LISTED_OUTPUT_BYTES_MAX as i64];
        let found = sql.row(statements::READ_LISTED_RUN, parameters, |row| {
            let lease = |row: &rusqlite::Row<'_>, _| {
                Ok(ListedLease { until: row.get(3)?, ttl_ms: row.get(4)?, seen_at: row.get(5)? })
            };
            let waits_for = |row: &rusqlite::Row<'_>, index| {
                Ok((rows::coded(row, index, StepKind::from_code)?, row.get(8)?, row.get(9)?))
            };
            Ok(ListedRun {
                record: record.clone(),
                output: row.get::<_, Option<Vec<u8>>>(0)?.map(Into::into),
                output_bytes: row.get::<_, Option<i64>>(1)?.unwrap_or_default() as u64,
                worker_name: row.get(2)?,
                lease: rows::maybe(row, 3, lease)?,
                steps: row.get::<_, Option<u32>>(6)?.map_or(0, |position| position + 1),
                waits_for: rows::maybe(row, 7, waits_for)?,
                files: (row.get::<_, i64>(10)? as u64, row.get::<_, Option<i64>>(11)?.unwrap_or_default() as u64),
            })
        })?;
        all.extend(found);
    }
    Ok(all)
}

pub(super) fn positions(sql: &Sql<'_>, runs: &[RunId], cap: u64) -> StoreResult<Vec<(RunId, u64)>> {
    let mut all = Vec::new();
    for run in runs {
        all.extend(read::position(sql, *run, cap)?.map(|before| (*run, before)));
    }
    Ok(all)
}

pub(super) fn count_lanes(sql: &Sql<'_>, lanes: &[LaneId], now: Millis) -> StoreResult<Vec<(LaneId, Phase, u64)>> {
    let parameters = params![rows::to_json(&lanes)?, now, SEARCH_LIVE_MAX as i64];
    sql.rows(statements::COUNT_LIVE_LANES, parameters, |row| {
        Ok((row.get(0)?, rows::coded(row, 1, Phase::from_code)?, row.get::<_, i64>(2)? as u64))
    })
}
