//! Searching runs for people. Each search looks at no more than so many.

use std::collections::HashMap;

use baton_core::step::StepKind;
use baton_core::{Millis, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::params::params;
use super::pool::{Outcome, Session, retried};
use super::{rows, sql};
use crate::types::{Source, directed};
use crate::{
    LISTED_OUTPUT_BYTES_MAX, LaneId, ListedLease, ListedRun, Phase, PhaseCounts, RunSearch, SEARCH_LIVE_MAX,
    SEARCH_LOOKS_MAX, SEARCH_SUFFIX_MAX, SearchFound, SearchFrom,
};

impl PostgresStore {
    pub(super) async fn search(&self, search: &RunSearch, from: SearchFrom, limit: usize) -> Outcome<SearchFound> {
        let source = search.source();
        let bounds = search.bounds(from);
        // In a transaction, which forbids scans.
        let session = self.database.transaction().await?;
        if let Some(suffix) = &search.id_suffix {
            let (most, looks, suffix) = (limit as i64, SEARCH_SUFFIX_MAX as i64, suffix.bytes());
            let text = sql::FIND_RUNS_BY_SUFFIX;
            let found = session.query(text, params![suffix.as_slice(), bounds.0, bounds.1, looks, most]).await?;
            session.commit().await?;
            let runs = found.iter().map(|row| rows::run_id(row, "run_id")).collect::<Outcome<Vec<RunId>>>()?;
            return Ok(RunSearch::found(SearchFrom::Newest, runs, limit, None));
        }
        let phases: Vec<i16> = search.phases.iter().map(|phase| phase.code()).collect();
        let phases = Some(phases).filter(|phases| !phases.is_empty());
        let workers = workers(search);
        let (key_from, key_below) = search.keys();
        let reason = search.reason.map(|reason| reason.code());
        let (rows_max, now, looks) = (limit as i64, search.now, SEARCH_LOOKS_MAX as i64);
        let RunSearch { lanes, error, .. } = search;
        let text = directed(statement(source), from);
        let mut found = SearchFound::default();
        for most in search.looks(source) {
            let edge = match most {
                Some(most) => edge(&session, search, source, from, bounds, most).await?,
                None => None,
            };
            let (upper, lower) = RunSearch::narrowed(from, bounds, edge);
            let all =
                params![lanes, phases, workers, key_from, key_below, error, reason, upper, lower, rows_max, now, looks];
            let parameters = if source == Source::KeyPrefix { all.as_slice() } else { &all[..11] };
            let rows = session.query(&text, parameters).await?;
            let runs = rows.iter().map(|row| rows::run_id(row, "run_id")).collect::<Outcome<Vec<RunId>>>()?;
            found = RunSearch::found(from, runs, limit, edge);
            if found.looked_to.is_none() {
                break;
            }
        }
        session.commit().await?;
        Ok(found)
    }

    pub(super) async fn count_by_phase(&self, search: &RunSearch, most: usize) -> Outcome<PhaseCounts> {
        let (upper, lower) = search.bounds(SearchFrom::Newest);
        let workers = workers(search);
        let reason = search.reason.map(|reason| reason.code());
        let RunSearch { lanes, error, now, .. } = search;
        let (looks, live) = (most as i64, SEARCH_LIVE_MAX as i64);
        let mut counts = PhaseCounts::default();
        let session = self.database.transaction().await?;
        if error.is_none() && reason.is_none() {
            let parameters = params![lanes, workers, upper, lower, now, live];
            let found = session.query(sql::COUNT_SEARCH_LIVE, parameters).await?;
            counts.add(&pairs(&found)?, SEARCH_LIVE_MAX, |phase| !phase.is_ended());
        }
        let parameters = params![lanes, workers, upper, lower, error, looks, reason];
        let found = session.query(sql::COUNT_SEARCH_BADLY, parameters).await?;
        counts.add(&pairs(&found)?, most, |phase| matches!(phase, Phase::Failed | Phase::Cancelled));
        let found = session.query(sql::COUNT_SEARCH_COMPLETED, parameters).await?;
        counts.add(&pairs(&found)?, most, |phase| phase == Phase::Completed);
        session.commit().await?;
        Ok(counts)
    }

    pub(super) async fn count_live_lanes(&self, lanes: &[LaneId], now: Millis) -> Outcome<Vec<(LaneId, Phase, u64)>> {
        let session = self.database.transaction().await?;
        let most = SEARCH_LIVE_MAX as i64;
        let found = session.query(sql::COUNT_LIVE_LANES, params![lanes.to_vec(), now, most]).await?;
        session.commit().await?;
        let decode = |row: &Row| -> Outcome<Option<(LaneId, Phase, u64)>> {
            let phase = Phase::from_code(row.try_get::<_, i64>(1)? as i16);
            let (lane, count) = (row.try_get(0)?, row.try_get::<_, i64>(2)? as u64);
            Ok(phase.map(|phase| (lane, phase, count)))
        };
        found.iter().filter_map(|row| decode(row).transpose()).collect()
    }

    pub(super) async fn read_listed(&self, runs: &[RunId]) -> Outcome<Vec<ListedRun>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let bytes = LISTED_OUTPUT_BYTES_MAX as i64;
        let found = retried!(self.database.query_planned(sql::READ_LISTED_RUNS, params![ids, bytes], usize::MAX))?;
        let listed = found.iter().map(listed).collect::<Outcome<Vec<_>>>()?;
        let mut by_id: HashMap<RunId, ListedRun> = listed.into_iter().map(|run| (run.record.id, run)).collect();
        Ok(runs.iter().filter_map(|run| by_id.remove(run)).collect())
    }

    pub(super) async fn read_positions(&self, runs: &[RunId], cap: u64) -> Outcome<Vec<(RunId, u64)>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let cap = i64::try_from(cap).unwrap_or(i64::MAX);
        let found = retried!(self.database.query_planned(sql::READ_POSITIONS, params![ids, cap], usize::MAX))?;
        let decode = |row: &Row| Ok((rows::run_id(row, "run_id")?, row.try_get::<_, i64>("before")? as u64));
        found.iter().map(decode).collect()
    }
}

fn statement(source: Source) -> &'static str {
    match source {
        Source::Runs => sql::SEARCH_RUNS,
        Source::Lanes => sql::SEARCH_LANE_RUNS,
        Source::Live => sql::SEARCH_LIVE,
        Source::Held => sql::SEARCH_HELD,
        Source::Badly => sql::SEARCH_ENDED_BADLY,
        Source::Completed => sql::SEARCH_COMPLETED,
        Source::Key => sql::SEARCH_KEY,
        Source::KeyPrefix => sql::SEARCH_KEY_PREFIX,
    }
}

fn workers(search: &RunSearch) -> Option<Vec<Uuid>> {
    search.workers.as_ref().map(|workers| workers.iter().map(|worker| worker.0).collect())
}

fn pairs(rows: &[Row]) -> Outcome<Vec<(i64, i64)>> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Where a search ends that looks at so many runs; `None` when there are fewer.
async fn edge(
    session: &Session<'_>,
    search: &RunSearch,
    source: Source,
    from: SearchFrom,
    (upper, lower): (Uuid, Uuid),
    most: usize,
) -> Outcome<Option<Uuid>> {
    let last = most as i64 - 1;
    let plain = match source {
        Source::Runs | Source::Key | Source::KeyPrefix => sql::FIND_SEARCH_EDGE,
        Source::Live | Source::Held => sql::FIND_SEARCH_EDGE_LIVE,
        Source::Badly => sql::FIND_SEARCH_EDGE_BADLY,
        Source::Completed => sql::FIND_SEARCH_EDGE_ENDED,
        Source::Lanes => sql::FIND_SEARCH_EDGE_LANES,
    };
    let text = directed(plain, from);
    let found = match source {
        Source::Lanes => session.query(&text, params![upper, lower, last, search.lanes]).await?,
        _ => session.query(&text, params![upper, lower, last]).await?,
    };
    Ok(found.first().map(|row| row.try_get(0)).transpose()?)
}

fn listed(row: &Row) -> Outcome<ListedRun> {
    let until: Option<i64> = row.try_get("worker_until")?;
    let lease = match until {
        Some(until) => Some(ListedLease { until, ttl_ms: row.try_get("ttl_ms")?, seen_at: row.try_get("seen_at")? }),
        None => None,
    };
    let kind = row.try_get::<_, Option<i16>>("waits_kind")?.and_then(StepKind::from_code);
    let waits_for = match kind {
        Some(kind) => Some((kind, row.try_get("waits_name")?, row.try_get("waits_due")?)),
        None => None,
    };
    Ok(ListedRun {
        record: rows::record(row)?,
        output: row.try_get::<_, Option<Vec<u8>>>("small_output")?.map(Into::into),
        output_bytes: row.try_get::<_, Option<i64>>("output_bytes")?.unwrap_or_default() as u64,
        worker_name: row.try_get("worker_name")?,
        lease,
        steps: row.try_get::<_, Option<i32>>("step_position")?.map_or(0, |position| position as u32 + 1),
        waits_for,
        files: (
            row.try_get::<_, Option<i64>>("files")?.unwrap_or_default() as u64,
            row.try_get::<_, Option<i64>>("file_bytes")?.unwrap_or_default() as u64,
        ),
    })
}
