//! The verbs of builds, each sent to the thread that does it.

mod builders;
mod files;
mod logs;
mod machines;
mod record;
pub(super) mod retain;

use async_trait::async_trait;
use baton_core::{Millis, RunId, WorkerId};
use uuid::Uuid;

use super::SqliteStore;
use crate::{
    Artifact, Build, BuildAnswer, BuildCounts, Builder, BuilderSet, Builds, LeaseRef, LogAnswer, LogEnd, LogLine,
    LogRecord, Machine, Measured, NewArtifact, NewBuild, NewMeasurement, NewRun, OtpAnswer, StoreError, StoreResult,
    TokenAnswer, log_chunks,
};

/// The complaint about JSON that nobody of us can have written.
fn corrupt(error: serde_json::Error) -> StoreError {
    StoreError::Internal(format!("the database holds a log that this program cannot read: {error}"))
}

#[async_trait]
impl Builds for SqliteStore {
    async fn submit_build(
        &self,
        run: NewRun,
        die: u64,
        build: NewBuild,
        line: Option<LogLine>,
    ) -> StoreResult<BuildAnswer> {
        let line = log_chunks::cut(line.into_iter().collect()).map_err(corrupt)?;
        self.write(move |sql| record::submit(sql, run, die, &build, line)).await
    }

    async fn take_build(&self, run: RunId, worker: WorkerId, die: u32) -> StoreResult<Option<LeaseRef>> {
        self.write(move |sql| record::take(sql, run, worker, die)).await
    }

    async fn builds(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Build>>> {
        let runs = runs.to_vec();
        self.read(move |sql| record::builds(sql, &runs)).await
    }

    async fn count_builds(&self, namespace: Option<&str>, since: Millis) -> StoreResult<BuildCounts> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| record::count(sql, namespace.as_deref(), since)).await
    }

    async fn stuck_builds(&self, silent_ms: Millis, limit: usize) -> StoreResult<Vec<RunId>> {
        self.read(move |sql| record::stuck(sql, silent_ms, limit)).await
    }

    async fn add_artifact(&self, artifact: NewArtifact) -> StoreResult<bool> {
        self.write(move |sql| files::add(sql, &artifact)).await
    }

    async fn touch_artifact(&self, id: Uuid) -> StoreResult<()> {
        self.write(move |sql| files::touch(sql, id)).await
    }

    async fn bind_draft(&self, id: Uuid, lease: LeaseRef) -> StoreResult<bool> {
        self.write(move |sql| files::bind_draft(sql, id, lease)).await
    }

    async fn artifact_stored(&self, id: Uuid, size: u64, sha256: [u8; 32]) -> StoreResult<bool> {
        self.write(move |sql| files::stored(sql, id, size, sha256)).await
    }

    async fn artifact(&self, id: Uuid) -> StoreResult<Option<Artifact>> {
        self.read(move |sql| files::one(sql, id)).await
    }

    async fn artifacts(&self, run: RunId) -> StoreResult<Vec<Artifact>> {
        self.read(move |sql| files::of_run(sql, run)).await
    }

    async fn orphans(&self, age_ms: Millis, limit: usize) -> StoreResult<Vec<Artifact>> {
        self.write(move |sql| files::orphans(sql, age_ms, limit)).await
    }

    async fn forget_artifacts(&self, ids: &[Uuid]) -> StoreResult<()> {
        let ids = ids.to_vec();
        self.write(move |sql| files::forget(sql, &ids)).await
    }

    async fn artifact_bytes(&self, namespace: Option<&str>) -> StoreResult<u64> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| files::bytes(sql, namespace.as_deref())).await
    }

    async fn add_logs(
        &self,
        run: RunId,
        lease: Option<LeaseRef>,
        first: Option<u64>,
        lines: Vec<LogLine>,
        bytes_max: u64,
    ) -> StoreResult<LogAnswer> {
        // Here, not on the thread that everybody waits for.
        let chunks = log_chunks::cut(lines).map_err(corrupt)?;
        self.write(move |sql| logs::add(sql, run, lease, first, chunks, bytes_max)).await
    }

    async fn logs(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<LogRecord>> {
        self.read(move |sql| logs::read(sql, run, after, limit)).await
    }

    async fn log_end(&self, run: RunId) -> StoreResult<LogEnd> {
        self.read(move |sql| logs::end(sql, run)).await
    }

    async fn builder(&self, namespace: &str, name_id: &str) -> StoreResult<Option<Builder>> {
        let (namespace, name_id) = (namespace.to_owned(), name_id.to_owned());
        self.read(move |sql| builders::builder(sql, &namespace, &name_id)).await
    }

    async fn set_builder(
        &self,
        namespace: &str,
        name_id: &str,
        worker: WorkerId,
        key_id: Option<&str>,
        token_ttl_ms: Millis,
    ) -> StoreResult<Option<BuilderSet>> {
        let (namespace, name_id, key_id) = (namespace.to_owned(), name_id.to_owned(), key_id.map(str::to_owned));
        self.write(move |sql| builders::set(sql, &namespace, &name_id, worker, key_id.as_deref(), token_ttl_ms)).await
    }

    async fn token_shown(&self, worker: WorkerId, number: i64, rotate: Option<Millis>) -> StoreResult<TokenAnswer> {
        self.write(move |sql| builders::token_shown(sql, worker, number, rotate)).await
    }

    async fn count_for_builder(&self, worker: WorkerId, succeeded: bool) -> StoreResult<()> {
        self.write(move |sql| builders::count(sql, worker, succeeded)).await
    }

    async fn use_otp(&self, lease: LeaseRef, good_ms: Millis) -> StoreResult<OtpAnswer> {
        self.write(move |sql| machines::use_otp(sql, lease, good_ms)).await
    }

    async fn machine_seen(&self, lease: LeaseRef, ready: bool, progress: Option<f64>) -> StoreResult<bool> {
        self.write(move |sql| machines::seen(sql, lease, ready, progress)).await
    }

    async fn machine(&self, lease: LeaseRef) -> StoreResult<Option<Machine>> {
        self.read(move |sql| machines::machine(sql, lease)).await
    }

    async fn add_measured(&self, lease: LeaseRef, new: NewMeasurement, keep: usize) -> StoreResult<bool> {
        self.write(move |sql| machines::add_measured(sql, lease, new, keep)).await
    }

    async fn measured(&self, run: RunId, limit: usize) -> StoreResult<Vec<Measured>> {
        self.read(move |sql| machines::measured(sql, run, limit)).await
    }
}
