//! The verbs of builds. Every write of a worker takes a key share lock on its live row, which whoever ends the lease has to
//! wait for: what was written under a lease was written before its end. Rows of live come first, as everywhere.

mod builders;
mod files;
mod logs;
mod machines;
mod record;
mod retain;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use baton_core::{Millis, RunId, WorkerId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::params::Param;
use super::pool::{Outcome, Trouble, retried};
use crate::{
    Artifact, Build, BuildAnswer, BuildCounts, Builder, BuilderSet, Builds, LeaseRef, LogAnswer, LogEnd, LogLine,
    LogRecord, Machine, Measured, NewArtifact, NewBuild, NewMeasurement, NewRun, OtpAnswer, StoreError, StoreResult,
    TokenAnswer, log_chunks,
};

/// The complaint about JSON that nobody of us can have written.
fn corrupt(error: serde_json::Error) -> Trouble {
    StoreError::Internal(format!("the database holds a log that this program cannot read: {error}")).into()
}

/// A number for the database, which knows none as large as the largest of ours.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl PostgresStore {
    /// One statement that looks its rows up, whatever the planner believes.
    async fn look_up(&self, sql: &str, params: &[Param<'_>]) -> Outcome<Vec<Row>> {
        self.database.query_each(sql, params, usize::MAX).await
    }
}

#[async_trait]
impl Builds for PostgresStore {
    async fn submit_build(
        &self,
        run: NewRun,
        die: u64,
        build: NewBuild,
        line: Option<LogLine>,
    ) -> StoreResult<BuildAnswer> {
        let submission = crate::Submission { runs: vec![run], dice: vec![die] };
        self.database
            .within(async {
                let line = log_chunks::cut(line.into_iter().collect()).map_err(corrupt)?;
                retried!(self.take_build(&submission, &build, &line))
            })
            .await
    }

    async fn take_build(&self, run: RunId, worker: WorkerId, die: u32) -> StoreResult<Option<LeaseRef>> {
        self.database.within(async { retried!(self.hand_build_to(run, worker, die)) }).await
    }

    async fn builds(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Build>>> {
        self.database.again(|| self.list_builds(runs)).await
    }

    async fn count_builds(&self, namespace: Option<&str>, since: Millis) -> StoreResult<BuildCounts> {
        self.database.again(|| self.count_all_builds(namespace, since)).await
    }

    async fn stuck_builds(&self, silent_ms: Millis, limit: usize) -> StoreResult<Vec<RunId>> {
        self.database.again(|| self.list_stuck_builds(silent_ms, limit)).await
    }

    async fn add_artifact(&self, artifact: NewArtifact) -> StoreResult<bool> {
        self.database.within(self.insert_artifact(&artifact)).await
    }

    async fn touch_artifact(&self, id: Uuid) -> StoreResult<()> {
        self.database.within(self.refresh_artifact(id)).await
    }

    async fn bind_draft(&self, id: Uuid, lease: LeaseRef) -> StoreResult<bool> {
        self.database.within(self.bind_result(id, lease)).await
    }

    async fn artifact_stored(&self, id: Uuid, size: u64, sha256: [u8; 32]) -> StoreResult<bool> {
        self.database.within(async { retried!(self.store_artifact(id, size, &sha256)) }).await
    }

    async fn artifact(&self, id: Uuid) -> StoreResult<Option<Artifact>> {
        self.database.again(|| self.read_artifact(id)).await
    }

    async fn artifacts(&self, run: RunId) -> StoreResult<Vec<Artifact>> {
        self.database.again(|| self.list_artifacts(run)).await
    }

    async fn orphans(&self, age_ms: Millis, limit: usize) -> StoreResult<Vec<Artifact>> {
        self.database.within(async { retried!(self.doom_artifacts(age_ms, limit)) }).await
    }

    async fn forget_artifacts(&self, ids: &[Uuid]) -> StoreResult<()> {
        self.database.within(async { retried!(self.delete_artifacts(ids)) }).await
    }

    async fn artifact_bytes(&self, namespace: Option<&str>) -> StoreResult<u64> {
        self.database.again(|| self.sum_artifact_bytes(namespace)).await
    }

    async fn add_logs(
        &self,
        run: RunId,
        lease: Option<LeaseRef>,
        first: Option<u64>,
        lines: Vec<LogLine>,
        bytes_max: u64,
    ) -> StoreResult<LogAnswer> {
        self.database
            .within(async {
                let chunks = log_chunks::cut(lines).map_err(corrupt)?;
                self.write_log(run, lease, first, chunks, bytes_max).await
            })
            .await
    }

    async fn logs(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<LogRecord>> {
        self.database.again(|| self.read_log(run, after, limit)).await
    }

    async fn log_end(&self, run: RunId) -> StoreResult<LogEnd> {
        self.database.again(|| self.read_log_end(run)).await
    }

    async fn builder(&self, namespace: &str, name_id: &str) -> StoreResult<Option<Builder>> {
        self.database.again(|| self.read_builder(namespace, name_id)).await
    }

    async fn set_builder(
        &self,
        namespace: &str,
        name_id: &str,
        worker: WorkerId,
        key_id: Option<&str>,
        token_ttl_ms: Millis,
    ) -> StoreResult<Option<BuilderSet>> {
        self.database.within(self.write_builder(namespace, name_id, worker, key_id, token_ttl_ms)).await
    }

    async fn token_shown(&self, worker: WorkerId, number: i64, rotate: Option<Millis>) -> StoreResult<TokenAnswer> {
        self.database.within(self.show_token(worker, number, rotate)).await
    }

    async fn count_for_builder(&self, worker: WorkerId, succeeded: bool) -> StoreResult<()> {
        self.database.within(self.count_builder(worker, succeeded)).await
    }

    async fn use_otp(&self, lease: LeaseRef, good_ms: Millis) -> StoreResult<OtpAnswer> {
        self.database.within(self.use_up_otp(lease, good_ms)).await
    }

    async fn machine_seen(&self, lease: LeaseRef, ready: bool, progress: Option<f64>) -> StoreResult<bool> {
        self.database.within(self.see_machine(lease, ready, progress)).await
    }

    async fn machine(&self, lease: LeaseRef) -> StoreResult<Option<Machine>> {
        self.database.again(|| self.read_machine(lease)).await
    }

    async fn add_measured(&self, lease: LeaseRef, new: NewMeasurement, keep: usize) -> StoreResult<bool> {
        self.database.within(self.insert_measurement(lease, new, keep)).await
    }

    async fn measured(&self, run: RunId, limit: usize) -> StoreResult<Vec<Measured>> {
        self.database.again(|| self.list_measurements(run, limit)).await
    }
}
