//! Reading runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use baton_core::{IdSuffix, LeaseEnd, Millis, RunId, State};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::params::params;
use super::pool::{Outcome, retried};
use super::{rows, sql};
use crate::types::{ID_SUFFIX_FOUND_MAX, ID_SUFFIX_SCAN_MAX};
use crate::{Attempt, Claimed, LeaseRef, Page, QueueId, RunFilter, RunRecord};

impl PostgresStore {
    /// Runs that a worker holds: those of this claim, for its slot, or those that it got so long
    /// ago and has not started.
    pub(super) async fn list_claimed(
        &self,
        worker: Uuid,
        claim_no: Option<i64>,
        age_ms: Millis,
        slot: usize,
    ) -> Outcome<Vec<Claimed>> {
        let now = self.database.fixed_now();
        let rows = self.database.query(sql::LIST_CLAIMED, params![worker, claim_no, now, age_ms]).await?;
        rows.iter().map(|row| rows::claimed(row, slot)).collect()
    }

    pub(super) async fn read_run(&self, run: RunId) -> Outcome<Option<RunRecord>> {
        self.read_runs(&[run]).await?.first().map(rows::whole_record).transpose()
    }

    /// Rows of those of these runs that there are.
    pub(super) async fn read_runs(&self, runs: &[RunId]) -> Outcome<Vec<Row>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        retried!(self.database.query_planned(sql::READ_RUNS, params![ids], ids.len()))
    }

    pub(super) async fn list_runs(&self, filter: &RunFilter, page: Page<RunId>) -> Outcome<Vec<RunRecord>> {
        if filter.id_suffix.is_some() {
            let mut found = self.find_runs_by_suffix(filter, page.after).await?;
            found.truncate(page.limit);
            return Ok(found);
        }
        let RunFilter { lanes, key, .. } = filter;
        let worker = filter.worker.map(|worker| worker.0);
        let (since, upper) = (filter.since.map(|run| run.0), filter.upper(page.after).map(|run| run.0));
        let limit = page.limit as i64;
        if filter.states.is_empty() {
            let parameters = params![lanes, worker, key, upper, limit, since];
            return self.database.query(sql::LIST_RUNS, parameters).await?.iter().map(rows::record).collect();
        }
        // Live ones first: a run that ends between the two looks is found by both, and by neither the other way round.
        let mut found = BTreeMap::new();
        for (statement, states) in by_table(&filter.states, sql::LIST_LIVE_RUNS, sql::LIST_ENDED_RUNS) {
            let parameters = params![lanes, states, worker, key, upper, limit, since];
            for row in self.database.query(statement, parameters).await? {
                let record = rows::record(&row)?;
                found.insert(Reverse(record.id), record);
            }
        }
        Ok(found.into_values().take(page.limit).collect())
    }

    pub(super) async fn find_run_ids(&self, filter: &RunFilter, page: Page<RunId>) -> Outcome<Vec<RunId>> {
        if filter.id_suffix.is_some() {
            let found = self.find_runs_by_suffix(filter, page.after).await?;
            return Ok(found.into_iter().map(|run| run.id).take(page.limit).collect());
        }
        let RunFilter { lanes, key, .. } = filter;
        let worker = filter.worker.map(|worker| worker.0);
        let (since, upper) = (filter.since.map(|run| run.0), filter.upper(page.after).map(|run| run.0));
        let limit = page.limit as i64;
        // In a transaction, which forbids scans: page after page would be one.
        let session = self.database.transaction().await?;
        let mut found = BTreeSet::new();
        let mut take = |rows: Vec<Row>| -> Outcome<()> {
            for row in &rows {
                found.insert(Reverse(rows::run_id(row, "run_id")?));
            }
            Ok(())
        };
        if filter.states.is_empty() {
            take(session.query(sql::FIND_RUNS, params![lanes, worker, key, upper, limit, since]).await?)?;
        }
        // Live ones first: a run that ends between the two looks is found by both, and by neither the other way round.
        for (statement, states) in by_table(&filter.states, sql::FIND_LIVE_RUNS, sql::FIND_ENDED_RUNS) {
            take(session.query(statement, params![lanes, states, worker, key, upper, limit, since]).await?)?;
        }
        session.commit().await?;
        Ok(found.into_iter().map(|Reverse(run)| run).take(page.limit).collect())
    }

    /// Runs whose identifier ends as wanted, newest first.
    async fn find_runs_by_suffix(&self, filter: &RunFilter, after: Option<RunId>) -> Outcome<Vec<RunRecord>> {
        let suffix = filter.id_suffix.as_ref().map(IdSuffix::bytes).unwrap_or_default();
        let (since, upper) = (filter.since.map(|run| run.0), filter.upper(after).map(|run| run.0));
        let (scan, most) = (ID_SUFFIX_SCAN_MAX as i64, ID_SUFFIX_FOUND_MAX as i64);
        let rows =
            self.database.query(sql::FIND_RUNS_BY_SUFFIX, params![suffix.as_slice(), upper, since, scan, most]).await?;
        let ids = rows.iter().map(|row| Ok(RunId(row.try_get(0)?))).collect::<Outcome<Vec<RunId>>>()?;
        let mut found = self.read_runs(&ids).await?.iter().map(rows::record).collect::<Outcome<Vec<_>>>()?;
        found.retain(|run| filter.fits(run));
        found.sort_unstable_by_key(|run| Reverse(run.id));
        Ok(found)
    }

    pub(super) async fn count_all_runs(&self, filter: &RunFilter) -> Outcome<u64> {
        if filter.id_suffix.is_some() {
            return Ok(self.find_runs_by_suffix(filter, None).await?.len() as u64);
        }
        let RunFilter { lanes, key, .. } = filter;
        let worker = filter.worker.map(|worker| worker.0);
        let (since, before) = (filter.since.map(|run| run.0), filter.before.map(|run| run.0));
        let count = |rows: Vec<Row>| -> Outcome<u64> {
            Ok(rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default() as u64)
        };
        if filter.states.is_empty() {
            return count(self.database.query(sql::COUNT_RUNS, params![lanes, worker, key, since, before]).await?);
        }
        let mut all = 0;
        for (statement, states) in by_table(&filter.states, sql::COUNT_LIVE_RUNS, sql::COUNT_ENDED_RUNS) {
            all += count(self.database.query(statement, params![lanes, states, worker, key, since, before]).await?)?;
        }
        Ok(all)
    }

    pub(super) async fn list_attempts(&self, run: RunId) -> Outcome<Vec<Attempt>> {
        self.database.query(sql::LIST_ATTEMPTS, params![run.0]).await?.iter().map(rows::attempt).collect()
    }

    pub(super) async fn find_lease_end(&self, lease: LeaseRef) -> Outcome<Option<LeaseEnd>> {
        let rows = self.database.query(sql::FIND_PAST, params![vec![lease.run.0], vec![lease.epoch.code()]]).await?;
        let code = rows.first().map(|row| row.try_get::<_, Option<i16>>("lease_end")).transpose()?.flatten();
        code.map(rows::lease_end).transpose()
    }

    pub(super) async fn read_position(&self, run: RunId, cap: u64) -> Outcome<Option<u64>> {
        let cap = i64::try_from(cap).unwrap_or(i64::MAX);
        let rows = self.database.query(sql::READ_POSITION, params![run.0, cap]).await?;
        Ok(rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.map(|before| before as u64))
    }

    pub(super) async fn count_key_held(&self, queue: QueueId, key: &str) -> Outcome<u64> {
        let rows = self.database.query(sql::COUNT_KEYS, params![queue, vec![key]]).await?;
        Ok(rows.first().map(|row| row.try_get::<_, i64>(1)).transpose()?.unwrap_or_default() as u64)
    }
}

/// The statements that look for runs in these states: one for those before their end, one for those after it.
fn by_table<'a>(states: &[State], live: &'a str, ended: &'a str) -> impl Iterator<Item = (&'a str, Vec<i16>)> {
    let codes = |ended: bool| -> Vec<i16> {
        states.iter().filter(|state| state.is_ended() == ended).map(|state| state.code()).collect()
    };
    [(live, codes(false)), (ended, codes(true))].into_iter().filter(|(_, states)| !states.is_empty())
}
