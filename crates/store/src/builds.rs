//! What builds need besides their runs: what was submitted, files, logs, builders and their tokens, machines, measurements.
//!
//! A build is a run; its states, leases and order are the kernel's. Nothing here decides who holds it: writes of a worker
//! carry its lease and are refused when that is not the live one.

use async_trait::async_trait;
use baton_core::{Millis, RunId, WorkerId};
use uuid::Uuid;

use crate::{
    Artifact, Build, BuildAnswer, BuildCounts, Builder, BuilderSet, LeaseRef, LogAnswer, LogEnd, LogLine, LogRecord,
    Machine, Measured, NewArtifact, NewBuild, NewMeasurement, NewRun, OtpAnswer, StoreResult, TokenAnswer,
};

/// Bytes of log lines that one call of [`Builds::logs`] returns; the line that goes beyond may be the last of its chunk.
pub const LOG_PAGE_BYTES_MAX: u64 = 4 << 20;

/// The verbs of builds. Every [`crate::Store`] has them. Texts must not hold NUL, log lines excepted: the callers check names.
#[async_trait]
pub trait Builds: Send + Sync {
    // ---- builds

    /// Takes a build in: the run, the build, its files and the first line of its log (if it has
    /// one) in one transaction. With a known idempotency key nothing is written, and the files that
    /// came with the repetition stay without a build (the collector takes them). Whom to wake is
    /// the caller's to see, as with [`crate::Store::submit`].
    async fn submit_build(
        &self,
        run: NewRun,
        die: u64,
        build: NewBuild,
        line: Option<LogLine>,
    ) -> StoreResult<BuildAnswer>;
    /// Hands a build that waits, and was never handed to anybody, to a worker that reports its end,
    /// however much that has to do already. `None` when there is no such build, or the worker is
    /// not online: then nothing changes. `die` as in a [`crate::ClaimRequest`].
    async fn take_build(&self, run: RunId, worker: WorkerId, die: u32) -> StoreResult<Option<LeaseRef>>;
    /// The builds of these runs, in the order asked for; `None` for runs that are no builds.
    async fn builds(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Build>>>;
    /// Counts over all builds of a namespace (`None`: all); `since` counts those submitted then or later. Reads the builds
    /// that have not ended, those that ended since the last retention, and those since then: cheap, but not for every request.
    async fn count_builds(&self, namespace: Option<&str>, since: Millis) -> StoreResult<BuildCounts>;
    /// Builds that are held and whose log, machine and worker have been silent for longer than `silent_ms`, oldest first.
    async fn stuck_builds(&self, silent_ms: Millis, limit: usize) -> StoreResult<Vec<RunId>>;

    // ---- files

    /// Notes a file that is about to be written. False when it is the result of a lease that is not the live one.
    async fn add_artifact(&self, artifact: NewArtifact) -> StoreResult<bool>;
    /// Bytes of a file that is no lease's still come, so it is not old yet, however long it takes.
    async fn touch_artifact(&self, id: Uuid) -> StoreResult<()>;
    /// Makes a draft that is all there the result of a lease. False when the lease is not the live
    /// one, or the draft has been given up or bound before: then nothing changes.
    async fn bind_draft(&self, id: Uuid, lease: LeaseRef) -> StoreResult<bool>;
    /// Notes that it is all there. False when it has been given up meanwhile, or its lease is not the live one: then it must not
    /// be used, and the collector takes it. The same again is true again.
    async fn artifact_stored(&self, id: Uuid, size: u64, sha256: [u8; 32]) -> StoreResult<bool>;
    /// A file, whether or not it is all there; `None` when it was never noted, or was given up.
    async fn artifact(&self, id: Uuid) -> StoreResult<Option<Artifact>>;
    /// Files of a build that are all there: what was submitted, and results of every lease, oldest first (the caller shows those of
    /// the lease that completed the build).
    async fn artifacts(&self, run: RunId) -> StoreResult<Vec<Artifact>>;
    /// Gives up files that nobody can ever read, and returns them to be removed from storage, oldest first: what was submitted,
    /// but never finished or never taken by a build, and is older than `age_ms`; results of leases that did not complete their
    /// build, once it has ended or they are `age_ms` old; results of the lease that did, beside the one that counts (the newest of those whose
    /// sum is in the output, or else the newest); files of builds that retention deleted. What has been given up cannot be
    /// stored or taken any more, and is returned again until it is forgotten.
    async fn orphans(&self, age_ms: Millis, limit: usize) -> StoreResult<Vec<Artifact>>;
    /// Forgets files, after they are gone from storage. Those that a build uses stay.
    async fn forget_artifacts(&self, ids: &[Uuid]) -> StoreResult<()>;
    /// Bytes of stored files in a namespace (`None`: all), for quotas.
    async fn artifact_bytes(&self, namespace: Option<&str>) -> StoreResult<u64>;

    // ---- logs

    /// Adds lines, in order. With a lease, only while it is the live one. With `first` too, the number that the first line has among
    /// all that this lease adds, from 1: lines that it has added before are not added again. A log takes `bytes_max` bytes, where a line counts
    /// its level, its message and one more; the line that would go beyond is replaced by one that says so, and everything later
    /// is dropped.
    async fn add_logs(
        &self,
        run: RunId,
        lease: Option<LeaseRef>,
        first: Option<u64>,
        lines: Vec<LogLine>,
        bytes_max: u64,
    ) -> StoreResult<LogAnswer>;
    /// Lines after a number, oldest first: at most `limit`, and fewer when they are large (about [`LOG_PAGE_BYTES_MAX`], but
    /// always one if there is one). An empty answer is the end.
    async fn logs(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<LogRecord>>;
    /// How far the log of a build is; empty for what is no build.
    async fn log_end(&self, run: RunId) -> StoreResult<LogEnd>;

    // ---- builders

    /// The builder with this name, in this namespace.
    async fn builder(&self, namespace: &str, name_id: &str) -> StoreResult<Option<Builder>>;
    /// Notes a builder's new incarnation, with a token number greater than all before, good for `token_ttl_ms`. `None` when the
    /// name belongs to a builder that registered with another key: then nothing changes.
    async fn set_builder(
        &self,
        namespace: &str,
        name_id: &str,
        worker: WorkerId,
        key_id: Option<&str>,
        token_ttl_ms: Millis,
    ) -> StoreResult<Option<BuilderSet>>;
    /// A token of this incarnation was shown, and its signature is good. `rotate`: a new one is wanted, good for so long. The newest
    /// is good, and using it kills the one before; the one before is good while the newest is unused; anything older revokes the
    /// builder, unless it is from before the builder registered again: that is only refused.
    async fn token_shown(&self, worker: WorkerId, number: i64, rotate: Option<Millis>) -> StoreResult<TokenAnswer>;
    /// Counts an ended build for its builder, if this is still its incarnation.
    async fn count_for_builder(&self, worker: WorkerId, succeeded: bool) -> StoreResult<()>;

    // ---- machines and measurements

    /// Uses up the one-time password of a lease, which is good for `good_ms` from its claim.
    async fn use_otp(&self, lease: LeaseRef, good_ms: Millis) -> StoreResult<OtpAnswer>;
    /// Notes a sign of life of a lease's machine; `ready` when it says that it is ready, `progress`
    /// when it says how far it is (in per cent). False when the lease is not the live one.
    async fn machine_seen(&self, lease: LeaseRef, ready: bool, progress: Option<f64>) -> StoreResult<bool>;
    /// The machine of a lease, if it was ever heard of.
    async fn machine(&self, lease: LeaseRef) -> StoreResult<Option<Machine>>;
    /// Keeps a measurement, at most `keep` of each build (the oldest go). False when the lease is
    /// not the live one.
    async fn add_measured(&self, lease: LeaseRef, new: NewMeasurement, keep: usize) -> StoreResult<bool>;
    /// The newest measurements of a build, oldest first.
    async fn measured(&self, run: RunId, limit: usize) -> StoreResult<Vec<Measured>>;
}
