//! The store for several servers: PostgreSQL 14 or newer, also behind PgBouncer in transaction mode.
//!
//! The rules are those of `baton-core`; here is only how they are asked for with few round trips. Every statement is a
//! file in `sql/`, set-based and guarded. A verb is one statement where it can be, otherwise one short transaction.

mod admin;
mod at_once;
mod builds;
mod claim;
mod columns;
mod complete;
mod cursor;
mod deal;
mod end;
mod expire;
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
mod settings;
mod sql;
mod submit;
mod workers;
mod workflows;

#[cfg(test)]
mod tests;

pub use sql::SQL;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use baton_core::token::Hash;
use baton_core::{Failure, LeaseEnd, Millis, RunId, WorkerId};
use tokio_postgres::Config;

use crate::decide::Act;
use crate::memory::NO_LEASE;
use crate::{
    Attempt, AuditEntry, AuditRecord, Beat, BeatAnswer, Changes, ClaimAnswer, ClaimRequest, Claimed, Clock, Completion,
    Depth, Due, Expired, Hints, Idempotency, Key, Lane, LaneId, LaneName, LeaseRef, Look, NewKey, NewWorker, Page,
    Queue, QueueChange, QueueId, Registered, Retained, RunFilter, RunRecord, SettingChange, Store, StoreError,
    StoreResult, StoredSetting, Submission, SubmitAnswer, Submitted, Verdict, Woken, Worker, WorkerChange,
    WorkerFilter, WorkerStatus,
};
use cursor::Cursor;
use listen::Listener;
use pool::{CONNECT_TIMEOUT, Database, retried};

/// How to connect, apart from the URL.
#[derive(Clone, Debug)]
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

/// A store in PostgreSQL.
pub struct PostgresStore {
    database: Database,
    cursor: Arc<Cursor>,
    listener: Option<Listener>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date.
    pub async fn connect(url: &str, clock: Clock, options: PostgresOptions) -> StoreResult<PostgresStore> {
        let cursor = Arc::new(Cursor::new());
        let listener = match options.listen {
            true => {
                let config = configure(options.listen_url.as_deref().unwrap_or(url), &options)?;
                Some(Listener::new(config, Arc::clone(&cursor)))
            }
            false => None,
        };
        let database = Database::new(configure(url, &options)?, options.max_connections, clock)?;
        retried!(migrate::migrate(&database))?;
        if options.prepare {
            database.prepare_from_now_on();
        }
        Ok(PostgresStore { database, cursor, listener })
    }
}

fn configure(url: &str, options: &PostgresOptions) -> StoreResult<Config> {
    // The parser's words may hold parts of the URL, and with them a password.
    let mut config = Config::from_str(url)
        .map_err(|_| StoreError::Internal("the database URL is not one that PostgreSQL understands".into()))?;
    config.application_name(&options.application_name).connect_timeout(CONNECT_TIMEOUT);
    Ok(config)
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

    fn statements(&self) -> u64 {
        self.database.statements()
    }

    async fn now(&self) -> StoreResult<Millis> {
        self.database.within(self.read_now()).await
    }

    async fn secret(&self, fresh: [u8; 32]) -> StoreResult<[u8; 32]> {
        self.database.within(self.keep_secret(fresh)).await
    }

    async fn lanes(&self, names: &[LaneName]) -> StoreResult<Vec<Lane>> {
        self.database.within(self.find_or_add_lanes(names)).await
    }

    async fn all_lanes(&self) -> StoreResult<Vec<(LaneName, Lane)>> {
        self.database.within(self.list_lanes()).await
    }

    async fn queues(&self, namespace: Option<&str>) -> StoreResult<Vec<Queue>> {
        self.database.within(self.list_queues(namespace)).await
    }

    async fn set_queue(&self, namespace: &str, name: &str, change: QueueChange) -> StoreResult<Queue> {
        self.database.within(self.change_queue(namespace, name, change)).await
    }

    async fn depths(&self, queues: &[QueueId], cap: u64) -> StoreResult<Vec<Depth>> {
        self.database.within(self.count_depths(queues, cap)).await
    }

    async fn submit(&self, submissions: Vec<Submission>) -> StoreResult<Vec<SubmitAnswer>> {
        self.database.within(self.submit_all(&submissions)).await
    }

    async fn submit_and_claim(
        &self,
        submissions: Vec<Submission>,
        request: ClaimRequest,
    ) -> StoreResult<(Vec<SubmitAnswer>, Option<ClaimAnswer>)> {
        self.database.within(self.submit_to_worker(&submissions, &request)).await
    }

    async fn submitted(&self, keys: Vec<Idempotency>) -> StoreResult<Vec<Option<(Submitted, bool)>>> {
        self.database.within(self.find_by_keys(&keys)).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.database.within(self.claim_runs(&request)).await
    }

    async fn claimed(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>> {
        self.database.within(self.list_claimed(worker.0, claim_no)).await
    }

    async fn strays(
        &self,
        worker: WorkerId,
        known: Vec<LeaseRef>,
        age_ms: Millis,
        limit: usize,
    ) -> StoreResult<Vec<LeaseRef>> {
        self.database.within(self.list_strays(worker, &known, age_ms, limit)).await
    }

    async fn start(&self, leases: Vec<LeaseRef>) -> StoreResult<Vec<Verdict>> {
        self.database.within(async { retried!(self.start_runs(&leases)) }).await
    }

    async fn complete(&self, done: Vec<Completion>) -> StoreResult<Changes> {
        self.database.within(async { retried!(self.complete_runs(&done)) }).await
    }

    async fn fail(&self, failed: Vec<(LeaseRef, Failure)>, jitter: f64) -> StoreResult<Changes> {
        let acts: Vec<_> = failed.iter().map(|(lease, failure)| (*lease, Act::Fail(failure))).collect();
        self.database.within(async { retried!(self.act_all(&acts, jitter)) }).await
    }

    async fn give_back(&self, leases: Vec<(LeaseRef, String)>) -> StoreResult<Changes> {
        let acts: Vec<_> = leases.iter().map(|(lease, why)| (*lease, Act::GiveBack(why))).collect();
        self.database.within(async { retried!(self.act_all(&acts, 0.0)) }).await
    }

    async fn sleep(&self, leases: Vec<(LeaseRef, Due)>) -> StoreResult<Changes> {
        let acts: Vec<_> = leases.iter().map(|(lease, due)| (*lease, Act::Sleep(*due))).collect();
        self.database.within(async { retried!(self.act_all(&acts, 0.0)) }).await
    }

    async fn cancel(&self, runs: Vec<RunId>, grace_ms: Millis) -> StoreResult<Changes> {
        let lease = |run| LeaseRef { run, epoch: NO_LEASE };
        let acts: Vec<_> = runs.iter().map(|run| (lease(*run), Act::Cancel { grace_ms })).collect();
        self.database.within(async { retried!(self.act_all(&acts, 0.0)) }).await
    }

    async fn look(&self, lanes: &[LaneId]) -> StoreResult<Look> {
        self.database.within(self.look_at(lanes)).await
    }

    async fn lose_workers(&self, hold_off_ms: Millis, limit: usize) -> StoreResult<Vec<WorkerId>> {
        self.database.within(async { retried!(self.lose_silent_workers(hold_off_ms, limit)) }).await
    }

    async fn expire(&self, jitter: f64, limit: usize) -> StoreResult<Expired> {
        self.database.within(async { retried!(self.expire_runs(jitter, limit)) }).await
    }

    async fn unblock(&self, limit: usize) -> StoreResult<Woken> {
        self.database.within(async { retried!(self.unblock_all(limit)) }).await
    }

    async fn register(&self, worker: NewWorker) -> StoreResult<Registered> {
        self.database.within(self.register_worker(&worker)).await
    }

    async fn renew(&self, beats: Vec<Beat>) -> StoreResult<Vec<BeatAnswer>> {
        self.database.within(async { retried!(self.renew_workers(&beats)) }).await
    }

    async fn set_worker(&self, worker: WorkerId, status: WorkerStatus, why: &str) -> StoreResult<Option<WorkerChange>> {
        self.database.within(async { retried!(self.change_worker(worker, status, why)) }).await
    }

    async fn worker(&self, worker: WorkerId) -> StoreResult<Option<Worker>> {
        self.database.within(self.read_worker(worker)).await
    }

    async fn workers(&self, filter: &WorkerFilter, page: Page<WorkerId>) -> StoreResult<Vec<Worker>> {
        self.database.within(self.list_workers(filter, page)).await
    }

    async fn count_workers(&self, filter: &WorkerFilter) -> StoreResult<u64> {
        self.database.within(self.count_all_workers(filter)).await
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        self.database.within(self.read_run(run)).await
    }

    async fn runs(&self, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunRecord>> {
        self.database.within(self.list_runs(filter, page)).await
    }

    async fn count_runs(&self, filter: &RunFilter) -> StoreResult<u64> {
        self.database.within(self.count_all_runs(filter)).await
    }

    async fn attempts(&self, run: RunId) -> StoreResult<Vec<Attempt>> {
        self.database.within(self.list_attempts(run)).await
    }

    async fn lease_end(&self, lease: LeaseRef) -> StoreResult<Option<LeaseEnd>> {
        self.database.within(self.find_lease_end(lease)).await
    }

    async fn position(&self, run: RunId, cap: u64) -> StoreResult<Option<u64>> {
        self.database.within(self.read_position(run, cap)).await
    }

    async fn key_held(&self, queue: QueueId, key: &str) -> StoreResult<u64> {
        self.database.within(self.count_key_held(queue, key)).await
    }

    async fn add_key(&self, key: NewKey) -> StoreResult<bool> {
        self.database.within(self.insert_key(&key)).await
    }

    async fn key(&self, hash: &Hash) -> StoreResult<Option<Key>> {
        self.database.within(self.read_key(hash)).await
    }

    async fn keys(&self) -> StoreResult<Vec<Key>> {
        self.database.within(self.list_keys()).await
    }

    async fn revoke_key(&self, id: &str) -> StoreResult<bool> {
        self.database.within(self.mark_key_revoked(id)).await
    }

    async fn audit(&self, entries: Vec<AuditEntry>) -> StoreResult<()> {
        self.database.within(self.write_audit(&entries)).await
    }

    async fn audit_log(&self, page: Page<i64>) -> StoreResult<Vec<AuditRecord>> {
        self.database.within(self.list_audit(page)).await
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
        self.database.within(self.list_settings()).await
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
