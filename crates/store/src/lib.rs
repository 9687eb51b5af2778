//! Where Baton's runs, workers and leases live.
//!
//! One trait, [`Store`], and two implementations: [`sqlite::SqliteStore`] (one server, nothing to install) and
//! [`postgres::PostgresStore`] (several servers). Both apply the rules of `baton-core` inside short transactions;
//! neither has rules of its own. The verbs take batches: one call, one statement or one short transaction.
//!
//! Effects are data: a verb that makes runs claimable returns their lanes in [`Woken`], and the caller wakes
//! whoever waits, after the commit.

mod build_rules;
mod build_types;
mod builds;
mod bulk;
pub mod clock;
mod custody;
mod decide;
mod events;
mod log_chunks;
mod memory;
mod payloads;
mod pool_rules;
mod pool_types;
mod pools;
pub mod postgres;
mod runner_types;
mod schedule_types;
mod schedules;
mod sessions;
pub mod sqlite;
mod statistics;
mod traces;
mod types;
mod webhook_types;
mod webhooks;
mod workflow_types;
mod workflows;

pub use build_types::*;
pub use builds::{Builds, LOG_PAGE_BYTES_MAX};
pub use bulk::*;
pub use clock::Clock;
pub use custody::{
    Custody, LateWrite, NewRefusal, PastLease, REFUSED_BATCH_MAX, REFUSED_MAX, RefusedWrite, RefusedWrites,
};
pub use events::{EventBatch, EventPage, EventServer, Events, OtherServers, RunFacts};
pub use payloads::{LookedAt, Payloads};
pub use pool_types::*;
pub use pools::{Pools, pool_total};
pub use runner_types::*;
pub use schedule_types::*;
pub use schedules::{Namespaces, Schedules};
pub use sessions::{
    NewSession, NewSigninLink, SESSIONS_MAX, SIGNIN_LINKS_MAX, Session, SessionHolder, SessionRef, Sessions,
};
pub use statistics::{NewStatistics, Statistics, StatisticsFilter, StoredStatistics, WorkerCount};
pub use traces::{OpenTraces, Pause, TraceFacts, Traces};
pub use types::*;
pub use webhook_types::*;
pub use webhooks::Webhooks;
pub use workflow_types::*;
pub use workflows::Workflows;

use std::fmt;

use async_trait::async_trait;
use baton_core::token::Hash;
use baton_core::{Failure, LeaseEnd, Millis, RunId, WorkerId};

/// Most runs one claim hands out.
pub const CLAIM_RUNS_MAX: usize = 1_000;
/// Inputs that one claim hands out, in bytes; the run that goes beyond is its last.
pub const CLAIM_BYTES_MAX: u64 = 32 << 20;

/// Why a store call failed as a whole. Nothing has changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached now. The call may have been carried out: repeat it.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The store takes no connection, and will not as long as nobody changes something: a URL, a password, a certificate.
    #[error("the store cannot be used: {0}")]
    Unusable(String),
    /// The disk is full.
    #[error("the store's disk is full")]
    Full,
    /// A bug, or a store that somebody else changed.
    #[error("the store failed: {0}")]
    Internal(String),
}

/// A pool of connections, as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connections {
    /// Those that somebody uses.
    pub in_use: usize,
    /// Those that are open and wait to be used.
    pub idle: usize,
    /// The most there may be.
    pub max: usize,
    /// Calls that wait for one.
    pub waiting: usize,
}

/// What a store call returns.
pub type StoreResult<T> = Result<T, StoreError>;

/// The kernel's verbs, and what is around them. Implementations answer alike: one contract suite runs on all.
#[async_trait]
pub trait Store:
    Builds
    + Workflows
    + Payloads
    + Schedules
    + Namespaces
    + Pools
    + Events
    + BulkOperations
    + Traces
    + Custody
    + Statistics
    + Webhooks
    + Sessions
    + Send
    + Sync
    + fmt::Debug
{
    /// `sqlite` or `postgres`.
    fn kind(&self) -> &'static str;

    /// True when other processes may change this store, so that somebody has to look now and then.
    fn is_shared(&self) -> bool;

    /// The clock all of this store's times come from.
    fn clock(&self) -> &Clock;

    /// Statements sent since the start; what "an idle server is quiet" is measured with.
    fn statements(&self) -> u64;

    /// The connections it has, if it has a pool of them.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// The time on the store's clock; fails when the store cannot be reached or written.
    async fn now(&self) -> StoreResult<Millis>;

    /// The installation's secret, as it is kept here: wrapped.
    async fn secrets(&self) -> StoreResult<StoredSecrets>;
    /// Changes it. False when it is no longer as it was `seen`: then nothing is changed, and whoever wants to has to look
    /// again. A plain secret from before is erased from the files of the store, as far as it is the store's to do so.
    async fn change_secrets(&self, seen: &StoredSecrets, change: SecretsChange) -> StoreResult<bool>;
    /// The mark of the storage that has this installation's files: the one that was kept first. `found` is the mark of the
    /// storage that asks.
    async fn storage_mark(&self, found: [u8; 16]) -> StoreResult<[u8; 16]>;
    /// Says that the storage with this mark has the files from now on, and no other.
    async fn set_storage_mark(&self, mark: [u8; 16]) -> StoreResult<()>;

    // ---- queues and lanes

    /// The lanes with these names, made on first use. A lane is a namespace, a queue and a type.
    async fn lanes(&self, names: &[LaneName]) -> StoreResult<Vec<Lane>>;
    /// Every lane there is (at start, and to translate numbers back into names).
    async fn all_lanes(&self) -> StoreResult<Vec<(LaneName, Lane)>>;
    /// The queues of a namespace (all when `None`), by name, with their settings.
    async fn queues(&self, namespace: Option<&str>) -> StoreResult<Vec<Queue>>;
    /// Changes the settings of a queue, making it if it is not there.
    async fn set_queue(&self, namespace: &str, name: &str, change: QueueChange) -> StoreResult<Queue>;
    /// How many runs of each queue wait, are held, sleep, and since when the oldest claimable one waits. Counting stops at `cap`.
    async fn depths(&self, queues: &[QueueId], cap: u64) -> StoreResult<Vec<Depth>>;
    /// What could be claimed in each lane, and since when the oldest of it waits. Counting stops at `cap`.
    async fn lane_depths(&self, lanes: &[LaneId], cap: u64) -> StoreResult<Vec<LaneDepth>>;

    // ---- the kernel

    /// Takes runs in. Each submission is all or nothing; the answers are in the order of the submissions.
    async fn submit(&self, submissions: Vec<Submission>) -> StoreResult<Vec<SubmitAnswer>>;
    /// As [`Store::submit`], and in the same transaction hands runs of one queue to workers that wait for them: one trip to
    /// the disk instead of two. No answer to the claim means that it asks for more than can be done on the way; then it
    /// changed nothing, and is to be made on its own.
    async fn submit_and_claim(
        &self,
        submissions: Vec<Submission>,
        request: ClaimRequest,
    ) -> StoreResult<(Vec<SubmitAnswer>, Option<ClaimAnswer>)>;
    /// The runs that were submitted with these idempotency keys, where there are any, and whether their body was the same.
    async fn submitted(&self, keys: Vec<Idempotency>) -> StoreResult<Vec<Option<(Submitted, bool)>>>;
    /// Hands runs of one queue to waiting workers.
    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer>;
    /// The runs that a worker got with this claim number and still holds: the answer that was lost.
    /// `None`: all that it holds and has not started.
    async fn claimed(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>>;
    /// As [`Store::claimed`], to be told to the worker. From then on [`Store::give_back_unheard`]
    /// leaves them out.
    async fn repeat_claim(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>>;
    /// Gives back leases that nobody has heard of, but for those that their workers have asked for
    /// again.
    async fn give_back_unheard(&self, leases: Vec<LeaseRef>, why: &str) -> StoreResult<Woken>;
    /// Whether earlier calls of these claims were answered, as [`ClaimSlot::asked_ms_ago`] says.
    async fn answered(&self, asked: Vec<Asked>) -> StoreResult<Vec<bool>>;
    /// Notes that these claims are answered with nothing, so that no server hands out runs for them
    /// any more. False for those that were answered before: [`Store::repeat_claim`] has what they
    /// brought.
    async fn answer_claims(&self, claims: Vec<(WorkerId, i64)>) -> StoreResult<Vec<bool>>;
    /// A worker begins to ask with this number, although it was answered before. Nothing is changed
    /// when the worker holds something of it after all, which is the answer, or where
    /// [`baton_core::Answered::may_reopen`] says no.
    async fn reopen_claim(&self, worker: WorkerId, claim_no: i64, only_old: bool) -> StoreResult<Vec<Claimed>>;
    /// Runs that a worker got longer than `age_ms` ago and still holds, without those it knows of; at most `limit`.
    async fn strays(
        &self,
        worker: WorkerId,
        known: Vec<LeaseRef>,
        age_ms: Millis,
        limit: usize,
    ) -> StoreResult<Vec<LeaseRef>>;
    /// Marks held runs as started.
    async fn start(&self, leases: Vec<LeaseRef>) -> StoreResult<Vec<Verdict>>;
    /// Completes held runs.
    async fn complete(&self, done: Vec<Completion>) -> StoreResult<Changes>;
    /// Fails attempts: retries by the run's policy, or ends it. `jitter` is a die from 0 to 1.
    async fn fail(&self, failed: Vec<(LeaseRef, Failure)>, jitter: f64) -> StoreResult<Changes>;
    /// Puts held runs back, at the front.
    async fn give_back(&self, leases: Vec<(LeaseRef, String)>) -> StoreResult<Changes>;
    /// Puts held runs to sleep.
    async fn sleep(&self, leases: Vec<(LeaseRef, Due)>) -> StoreResult<Changes>;
    /// Cancels runs: at once when nobody holds them, otherwise their workers have `grace_ms`.
    async fn cancel(&self, runs: Vec<RunId>, grace_ms: Millis) -> StoreResult<Changes>;
    /// Which lanes (of those given) have runs that can be claimed now, and when the next one becomes due.
    async fn look(&self, lanes: &[LaneId]) -> StoreResult<Look>;

    // ---- expiry, done by the reaper; each call is bounded by `limit`

    /// Marks workers offline whose lease passed before `now - hold_off_ms`. Returns who. Now is when this was called, not
    /// when it is carried out: a store that stands still in between hears nobody, and must not find everybody silent.
    async fn lose_workers(&self, hold_off_ms: Millis, limit: usize) -> StoreResult<Vec<WorkerId>>;
    /// Takes back what offline workers still hold, and runs whose own deadline has passed.
    async fn expire(&self, jitter: f64, limit: usize) -> StoreResult<Expired>;
    /// Makes runs claimable that wait for their key although it has room (a limit was raised, a process died).
    async fn unblock(&self, limit: usize) -> StoreResult<Woken>;

    // ---- workers

    /// Registers a new incarnation. The same `instance` again gives the same worker.
    async fn register(&self, worker: NewWorker) -> StoreResult<Registered>;
    /// Renews leases to `now + ttl`, and notes health and deltas.
    async fn renew(&self, beats: Vec<Beat>) -> StoreResult<Vec<BeatAnswer>>;
    /// Changes a worker's status. Offline gives back what it holds, at once.
    async fn set_worker(&self, worker: WorkerId, status: WorkerStatus, why: &str) -> StoreResult<Option<WorkerChange>>;
    /// One worker.
    async fn worker(&self, worker: WorkerId) -> StoreResult<Option<Worker>>;
    /// Workers, newest first.
    async fn workers(&self, filter: &WorkerFilter, page: Page<WorkerId>) -> StoreResult<Vec<Worker>>;
    /// How many workers the filter finds.
    async fn count_workers(&self, filter: &WorkerFilter) -> StoreResult<u64>;

    // ---- reading runs

    /// One run with its input and, once it has ended, its output.
    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>>;
    /// Runs, newest first, without input and output.
    async fn runs(&self, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunRecord>>;
    /// The identifiers of runs, newest first.
    async fn find_runs(&self, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunId>>;
    /// How many runs the filter finds.
    async fn count_runs(&self, filter: &RunFilter) -> StoreResult<u64>;
    /// The leases of a run that have ended, oldest first.
    async fn attempts(&self, run: RunId) -> StoreResult<Vec<Attempt>>;
    /// Runs for people to look at: a page in either direction, and never more looked at than [`SEARCH_LIVE_MAX`].
    async fn search_runs(&self, search: &RunSearch, from: SearchFrom, limit: usize) -> StoreResult<SearchFound>;
    /// How many runs a search finds of each phase, of the newest `most` of each kind. Keys are not looked at.
    async fn count_phases(&self, search: &RunSearch, most: usize) -> StoreResult<PhaseCounts>;
    /// How many runs of these lanes have not ended, by lane and phase, of the newest [`SEARCH_LIVE_MAX`] of all.
    async fn count_lanes(&self, lanes: &[LaneId], now: Millis) -> StoreResult<Vec<(LaneId, Phase, u64)>>;
    /// What a list shows of these runs, in their order; those that are gone are left out.
    async fn listed_runs(&self, runs: &[RunId]) -> StoreResult<Vec<ListedRun>>;
    /// How many claimable runs stand before each of these that are claimable, up to a cap.
    async fn positions(&self, runs: &[RunId], cap: u64) -> StoreResult<Vec<(RunId, u64)>>;
    /// How the lease of this run with this epoch ended, if it has.
    async fn lease_end(&self, lease: LeaseRef) -> StoreResult<Option<LeaseEnd>>;
    /// How many claimable runs stand before this one in its queue (counting stops at `cap`).
    async fn position(&self, run: RunId, cap: u64) -> StoreResult<Option<u64>>;
    /// How many runs of this key are held in this queue.
    async fn key_held(&self, queue: QueueId, key: &str) -> StoreResult<u64>;

    // ---- keys, audit, retention

    /// Adds an API key. False when the same key is there already.
    async fn add_key(&self, key: NewKey) -> StoreResult<bool>;
    /// Gives a key another secret. False when there is none with this id that is not revoked.
    async fn rotate_key(&self, id: &str, rotation: Rotation) -> StoreResult<bool>;
    /// Notes that a key was used.
    async fn touch_key(&self, id: &str) -> StoreResult<()>;
    /// The key with this hash, revoked or not.
    async fn key(&self, hash: &Hash) -> StoreResult<Option<Key>>;
    /// All keys, oldest first.
    async fn keys(&self) -> StoreResult<Vec<Key>>;
    /// Revokes a key. False when there is none with this id; true also when it was revoked before.
    async fn revoke_key(&self, id: &str) -> StoreResult<bool>;
    /// Writes lines of the audit log. Returns them as they were written.
    async fn audit(&self, entries: Vec<AuditEntry>) -> StoreResult<Vec<AuditRecord>>;
    /// The audit log, newest first or oldest first.
    async fn audit_log(&self, page: Page<i64>, oldest_first: bool) -> StoreResult<Vec<AuditRecord>>;
    /// Deletes runs that ended before `now - runs_ms`, workers offline since before `now - workers_ms`, and audit lines older than `audit_ms`: at
    /// most `limit` of each. Returns how many went.
    async fn retain(
        &self,
        runs_ms: Millis,
        workers_ms: Millis,
        audit_ms: Millis,
        limit: usize,
    ) -> StoreResult<Retained>;

    // ---- settings

    /// The settings that were changed while the servers run, by name.
    async fn settings(&self) -> StoreResult<Vec<StoredSetting>>;
    /// Changes settings, all or none. False when the stored ones are not (or no longer) those `seen`: then nothing is changed,
    /// and whoever checked the change against the others has to look again.
    async fn change_settings(&self, seen: &[StoredSetting], changes: Vec<SettingChange>) -> StoreResult<bool>;

    // ---- other servers

    /// Tells other servers of work and of news for workers.
    async fn notify(&self, hints: &Hints) -> StoreResult<()>;
    /// Waits for such hints. None at all means "some were missed, look at all". A store that is not shared never returns.
    async fn listen(&self) -> StoreResult<Hints>;
    /// Ends when this is no longer the store that was opened: a standby of the database took over,
    /// or it was restored, and what it lost is lost. Nothing that is remembered of it may be used,
    /// and every call fails; open it again. Most stores never move.
    async fn moved(&self) {
        std::future::pending().await
    }
    /// The version of the schema, and the last one that this program knows, if a newer program has
    /// changed it since the store was opened.
    async fn newer_schema(&self) -> StoreResult<Option<(i32, i32)>> {
        Ok(None)
    }
    /// Finishes what was begun and closes the store.
    async fn close(&self);
}
