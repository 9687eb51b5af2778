//! The store for several servers: PostgreSQL 14 or newer, also behind PgBouncer in transaction mode.
//!
//! The rules are those of `baton-core`; here is only how they are asked for with few round trips. Every statement is a
//! file in `sql/`, set-based and guarded. A verb is one statement where it can be, otherwise one short transaction.

mod address;
mod admin;
mod answered;
mod at_once;
mod builds;
mod bulk;
mod claim;
mod columns;
mod complete;
mod connect;
mod cursor;
mod custody;
mod deal;
mod end;
mod events;
mod expire;
mod home;
mod listen;
mod migrate;
mod namespaces;
mod params;
mod payloads;
mod pool;
mod pools;
mod read;
mod rows;
mod schedules;
mod search;
mod secrets;
mod sessions;
mod settings;
mod sql;
mod statistics;
mod submit;
mod tls;
mod traces;
mod webhooks;
mod workers;
mod workflows;

#[cfg(test)]
mod tests;

pub use sql::{SQL, SQL_ENDS};

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use baton_core::token::Hash;
use baton_core::{Failure, LeaseEnd, Millis, RunId, WorkerId};

use crate::decide::Act;
use crate::memory::NO_LEASE;
use crate::{
    Asked, Attempt, AuditEntry, AuditRecord, Beat, BeatAnswer, Changes, ClaimAnswer, ClaimRequest, Claimed, Clock,
    Completion, Connections, Depth, Due, Expired, Hints, Idempotency, Key, Lane, LaneDepth, LaneId, LaneName, LeaseRef,
    ListedRun, Look, NewKey, NewWorker, Page, Phase, PhaseCounts, Queue, QueueChange, QueueId, Registered, Retained,
    Rotation, RunFilter, RunRecord, RunSearch, SearchFound, SearchFrom, SecretsChange, SettingChange, Store,
    StoreError, StoreResult, StoredSecrets, StoredSetting, Submission, SubmitAnswer, Submitted, Verdict, Woken, Worker,
    WorkerChange, WorkerFilter, WorkerStatus,
};
use address::Address;
use connect::Target;
use cursor::Cursor;
use home::Home;
use listen::Listener;
use pool::{Database, retried};

/// How to connect, apart from the URL.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Most connections at once, the listening one not counted.
    pub max_connections: usize,
    /// What the database's administrator sees.
    pub application_name: String,
    /// Whether to listen for other servers' hints. Without it a hint costs up to a second.
    pub listen: bool,
    /// Where to listen, when the URL leads through PgBouncer, which cannot listen.
    pub listen_url: Option<String>,
    /// Whether to prepare the statements that run all the time. A pooler that forgets them is noticed either way.
    pub prepare: bool,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            max_connections: 8,
            application_name: "baton".into(),
            listen: true,
            listen_url: None,
            prepare: true,
        }
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions").field("application_name", &self.application_name).finish_non_exhaustive()
    }
}

/// The hosts that a database URL names, with their ports and nothing else of it.
pub fn hosts(url: &str) -> StoreResult<String> {
    Address::read(url, "baton").map(|address| address.names()).map_err(StoreError::Unusable)
}

/// A store in PostgreSQL.
pub struct PostgresStore {
    database: Database,
    cursor: Arc<Cursor>,
    listener: Option<Listener>,
    home: Arc<Home>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date. [`StoreError::Unavailable`] where it may be possible in a moment,
    /// another error where somebody has to change something first.
    pub async fn connect(url: &str, clock: Clock, options: PostgresOptions) -> StoreResult<PostgresStore> {
        let (cursor, home) = (Arc::new(Cursor::new()), Arc::new(Home::new()));
        let listener = match options.listen {
            true => {
                let target = Target::read(options.listen_url.as_deref().unwrap_or(url), &options.application_name)?;
                Some(Listener::new(target, Arc::clone(&cursor), Arc::clone(&home)))
            }
            false => None,
        };
        let target = Target::read(url, &options.application_name)?;
        let database = Database::new(target, options.max_connections, clock, Arc::clone(&home))?;
        retried!(migrate::migrate(&database))?;
        if options.prepare {
            database.prepare_from_now_on();
        }
        Ok(PostgresStore { database, cursor, listener, home })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("statements", &self.database.statements()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn clock(&self) -> &Clock {
        &self.database.clock
    }

    async fn newer_schema(&self) -> StoreResult<Option<(i32, i32)>> {
        self.database.again(|| migrate::newer(&self.database)).await
    }

    async fn moved(&self) {
        self.home.moved().await;
    }

    fn statements(&self) -> u64 {
        self.database.statements()
    }

    fn connections(&self) -> Option<Connections> {
        Some(self.database.connections())
    }

    async fn now(&self) -> StoreResult<Millis> {
        self.database.again(|| self.read_now()).await
    }

    async fn secrets(&self) -> StoreResult<StoredSecrets> {
        self.database.again(|| self.read_secrets()).await
    }

    async fn change_secrets(&self, seen: &StoredSecrets, change: SecretsChange) -> StoreResult<bool> {
        self.database.within(self.write_secrets(seen, &change)).await
    }

    async fn storage_mark(&self, found: [u8; 16]) -> StoreResult<[u8; 16]> {
        self.database.again(|| self.keep_storage_mark(found)).await
    }

    async fn set_storage_mark(&self, mark: [u8; 16]) -> StoreResult<()> {
        self.database.again(|| self.change_storage_mark(mark)).await
    }

    async fn lanes(&self, names: &[LaneName]) -> StoreResult<Vec<Lane>> {
        self.database.again(|| self.find_or_add_lanes(names)).await
    }

    async fn all_lanes(&self) -> StoreResult<Vec<(LaneName, Lane)>> {
        self.database.again(|| self.list_lanes()).await
    }

    async fn queues(&self, namespace: Option<&str>) -> StoreResult<Vec<Queue>> {
        self.database.again(|| self.list_queues(namespace)).await
    }

    async fn set_queue(&self, namespace: &str, name: &str, change: QueueChange) -> StoreResult<Queue> {
        self.database.within(self.change_queue(namespace, name, change)).await
    }

    async fn depths(&self, queues: &[QueueId], cap: u64) -> StoreResult<Vec<Depth>> {
        self.database.again(|| self.count_depths(queues, cap)).await
    }

    async fn lane_depths(&self, lanes: &[LaneId], cap: u64) -> StoreResult<Vec<LaneDepth>> {
        self.database.again(|| self.count_lane_depths(lanes, cap)).await
    }

    async fn submit(&self, submissions: Vec<Submission>) -> StoreResult<Vec<SubmitAnswer>> {
        // Of runs without a key nobody could tell whether they are in already.
        match submissions.iter().flat_map(|one| &one.runs).all(|run| run.idempotency.is_some()) {
            true => self.database.again(|| self.submit_all(&submissions)).await,
            false => self.database.within(self.submit_all(&submissions)).await,
        }
    }

    async fn submit_and_claim(
        &self,
        submissions: Vec<Submission>,
        request: ClaimRequest,
    ) -> StoreResult<(Vec<SubmitAnswer>, Option<ClaimAnswer>)> {
        self.database.within(self.submit_to_worker(&submissions, &request)).await
    }

    async fn submitted(&self, keys: Vec<Idempotency>) -> StoreResult<Vec<Option<(Submitted, bool)>>> {
        self.database.again(|| self.find_by_keys(&keys)).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.database.within(self.claim_runs(&request)).await
    }

    async fn claimed(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>> {
        self.database.again(|| self.list_claimed(worker.0, claim_no, 0, 0)).await
    }

    async fn repeat_claim(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>> {
        self.database.again(|| self.claimed_again(worker.0, claim_no, 0, 0)).await
    }

    async fn give_back_unheard(&self, leases: Vec<LeaseRef>, why: &str) -> StoreResult<Woken> {
        self.database.again(|| async { retried!(self.give_back_untold(&leases, why)) }).await
    }

    async fn answered(&self, asked: Vec<Asked>) -> StoreResult<Vec<bool>> {
        self.database.again(|| self.list_answered(&asked)).await
    }

    async fn answer_claims(&self, claims: Vec<(WorkerId, i64)>) -> StoreResult<Vec<bool>> {
        self.database.again(|| self.note_answered(&claims)).await
    }

    async fn reopen_claim(&self, worker: WorkerId, claim_no: i64, only_old: bool) -> StoreResult<Vec<Claimed>> {
        self.database.again(|| async { retried!(self.unanswer(worker, claim_no, only_old)) }).await
    }

    async fn strays(
        &self,
        worker: WorkerId,
        known: Vec<LeaseRef>,
        age_ms: Millis,
        limit: usize,
    ) -> StoreResult<Vec<LeaseRef>> {
        self.database.again(|| self.list_strays(worker, &known, age_ms, limit)).await
    }

    async fn start(&self, leases: Vec<LeaseRef>) -> StoreResult<Vec<Verdict>> {
        self.database.again(|| async { retried!(self.start_runs(&leases)) }).await
    }

    async fn complete(&self, done: Vec<Completion>) -> StoreResult<Changes> {
        self.database.again(|| async { retried!(self.complete_runs(&done)) }).await
    }

    async fn fail(&self, failed: Vec<(LeaseRef, Failure)>, jitter: f64) -> StoreResult<Changes> {
        let acts: Vec<_> = failed.iter().map(|(lease, failure)| (*lease, Act::Fail(failure))).collect();
        self.database.again(|| async { retried!(self.act_all(&acts, jitter)) }).await
    }

    async fn give_back(&self, leases: Vec<(LeaseRef, String)>) -> StoreResult<Changes> {
        let acts: Vec<_> = leases.iter().map(|(lease, why)| (*lease, Act::GiveBack(why))).collect();
        self.database.again(|| async { retried!(self.act_all(&acts, 0.0)) }).await
    }

    async fn sleep(&self, leases: Vec<(LeaseRef, Due)>) -> StoreResult<Changes> {
        let acts: Vec<_> = leases.iter().map(|(lease, due)| (*lease, Act::Sleep(*due))).collect();
        self.database.again(|| async { retried!(self.act_all(&acts, 0.0)) }).await
    }

    async fn cancel(&self, runs: Vec<RunId>, grace_ms: Millis) -> StoreResult<Changes> {
        let lease = |run| LeaseRef { run, epoch: NO_LEASE };
        let acts: Vec<_> = runs.iter().map(|run| (lease(*run), Act::Cancel { grace_ms })).collect();
        self.database.again(|| async { retried!(self.act_all(&acts, 0.0)) }).await
    }

    async fn look(&self, lanes: &[LaneId]) -> StoreResult<Look> {
        self.database.again(|| self.look_at(lanes)).await
    }

    async fn lose_workers(&self, hold_off_ms: Millis, limit: usize) -> StoreResult<Vec<WorkerId>> {
        self.database.again(|| async { retried!(self.lose_silent_workers(hold_off_ms, limit)) }).await
    }

    async fn expire(&self, jitter: f64, limit: usize) -> StoreResult<Expired> {
        self.database.within(async { retried!(self.expire_runs(jitter, limit)) }).await
    }

    async fn unblock(&self, limit: usize) -> StoreResult<Woken> {
        self.database.again(|| async { retried!(self.unblock_all(limit)) }).await
    }

    async fn register(&self, worker: NewWorker) -> StoreResult<Registered> {
        self.database.within(self.register_worker(&worker)).await
    }

    async fn renew(&self, beats: Vec<Beat>) -> StoreResult<Vec<BeatAnswer>> {
        self.database.again(|| async { retried!(self.renew_workers(&beats)) }).await
    }

    async fn set_worker(&self, worker: WorkerId, status: WorkerStatus, why: &str) -> StoreResult<Option<WorkerChange>> {
        self.database.again(|| async { retried!(self.change_worker(worker, status, why)) }).await
    }

    async fn worker(&self, worker: WorkerId) -> StoreResult<Option<Worker>> {
        self.database.again(|| self.read_worker(worker)).await
    }

    async fn workers(&self, filter: &WorkerFilter, page: Page<WorkerId>) -> StoreResult<Vec<Worker>> {
        self.database.again(|| self.list_workers(filter, page)).await
    }

    async fn count_workers(&self, filter: &WorkerFilter) -> StoreResult<u64> {
        self.database.again(|| self.count_all_workers(filter)).await
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        self.database.again(|| self.read_run(run)).await
    }

    async fn runs(&self, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunRecord>> {
        self.database.again(|| self.list_runs(filter, page)).await
    }

    async fn find_runs(&self, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunId>> {
        self.database.again(|| self.find_run_ids(filter, page)).await
    }

    async fn count_runs(&self, filter: &RunFilter) -> StoreResult<u64> {
        self.database.again(|| self.count_all_runs(filter)).await
    }

    async fn search_runs(&self, search: &RunSearch, from: SearchFrom, limit: usize) -> StoreResult<SearchFound> {
        let search = search.settled();
        self.database.again(|| self.search(&search, from, limit)).await
    }

    async fn count_phases(&self, search: &RunSearch, most: usize) -> StoreResult<PhaseCounts> {
        let search = search.settled();
        self.database.again(|| self.count_by_phase(&search, most)).await
    }

    async fn count_lanes(&self, lanes: &[LaneId], now: Millis) -> StoreResult<Vec<(LaneId, Phase, u64)>> {
        self.database.again(|| self.count_live_lanes(lanes, now)).await
    }

    async fn listed_runs(&self, runs: &[RunId]) -> StoreResult<Vec<ListedRun>> {
        self.database.again(|| self.read_listed(runs)).await
    }

    async fn positions(&self, runs: &[RunId], cap: u64) -> StoreResult<Vec<(RunId, u64)>> {
        self.database.again(|| self.read_positions(runs, cap)).await
    }

    async fn attempts(&self, run: RunId) -> StoreResult<Vec<Attempt>> {
        self.database.again(|| self.list_attempts(run)).await
    }

    async fn lease_end(&self, lease: LeaseRef) -> StoreResult<Option<LeaseEnd>> {
        self.database.again(|| self.find_lease_end(lease)).await
    }

    async fn position(&self, run: RunId, cap: u64) -> StoreResult<Option<u64>> {
        self.database.again(|| self.read_position(run, cap)).await
    }

    async fn key_held(&self, queue: QueueId, key: &str) -> StoreResult<u64> {
        self.database.again(|| self.count_key_held(queue, key)).await
    }

    async fn add_key(&self, key: NewKey) -> StoreResult<bool> {
        self.database.within(self.insert_key(&key)).await
    }

    async fn key(&self, hash: &Hash) -> StoreResult<Option<Key>> {
        self.database.again(|| self.read_key(hash)).await
    }

    async fn keys(&self) -> StoreResult<Vec<Key>> {
        self.database.again(|| self.list_keys()).await
    }

    async fn rotate_key(&self, id: &str, rotation: Rotation) -> StoreResult<bool> {
        self.database.within(self.change_key_secret(id, &rotation)).await
    }

    async fn touch_key(&self, id: &str) -> StoreResult<()> {
        self.database.within(self.mark_key_used(id)).await
    }

    async fn revoke_key(&self, id: &str) -> StoreResult<bool> {
        self.database.within(self.mark_key_revoked(id)).await
    }

    async fn audit(&self, entries: Vec<AuditEntry>) -> StoreResult<Vec<AuditRecord>> {
        self.database.within(self.write_audit(entries)).await
    }

    async fn audit_log(&self, page: Page<i64>, oldest_first: bool) -> StoreResult<Vec<AuditRecord>> {
        self.database.within(self.list_audit(page, oldest_first)).await
    }

    async fn retain(
        &self,
        runs_ms: Millis,
        workers_ms: Millis,
        audit_ms: Millis,
        limit: usize,
    ) -> StoreResult<Retained> {
        self.database.within(self.delete_old(runs_ms, workers_ms, audit_ms, limit)).await
    }

    async fn settings(&self) -> StoreResult<Vec<StoredSetting>> {
        self.database.again(|| self.list_settings()).await
    }

    async fn change_settings(&self, seen: &[StoredSetting], changes: Vec<SettingChange>) -> StoreResult<bool> {
        self.database.within(self.write_settings(seen, &changes)).await
    }

    async fn notify(&self, hints: &Hints) -> StoreResult<()> {
        self.database.within(self.tell_servers(hints)).await
    }

    async fn listen(&self) -> StoreResult<Hints> {
        match &self.listener {
            Some(listener) => Ok(listener.next().await),
            None => std::future::pending().await,
        }
    }

    async fn close(&self) {
        self.database.close();
        if let Some(listener) = &self.listener {
            listener.close().await;
        }
    }
}
