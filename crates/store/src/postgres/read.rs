//! Reading runs.

use baton_core::{LeaseEnd, Millis, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::params::params;
use super::pool::{Outcome, retried};
use super::{rows, sql};
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
        let RunFilter { lanes, key, .. } = filter;
        let worker = filter.worker.map(|worker| worker.0);
        let (after, limit) = (page.after.map(|run| run.0), page.limit as i64);
        let rows = match filter.state {
            None => self.database.query(sql::LIST_RUNS, params![lanes, worker, key, after, limit]).await?,
            Some(state) => {
                let statement = if state.is_ended() { sql::LIST_ENDED_RUNS } else { sql::LIST_LIVE_RUNS };
                self.database.query(statement, params![lanes, state.code(), worker, key, after, limit]).await?
            }
        };
        rows.iter().map(rows::record).collect()
    }

    pub(super) async fn count_all_runs(&self, filter: &RunFilter) -> Outcome<u64> {
        let RunFilter { lanes, key, .. } = filter;
        let worker = filter.worker.map(|worker| worker.0);
        let rows = match filter.state {
            None => self.database.query(sql::COUNT_RUNS, params![lanes, worker, key]).await?,
            Some(state) => {
                let statement = if state.is_ended() { sql::COUNT_ENDED_RUNS } else { sql::COUNT_LIVE_RUNS };
                self.database.query(statement, params![lanes, state.code(), worker, key]).await?
            }
        };
        Ok(rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default() as u64)
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
