//! The store inside the server: one SQLite file, one thread that writes, a few that read.
//!
//! Every verb is a function of a transaction (`Sql`) in a file of its own; this one only opens the store and sends each
//! call to the thread that does it.

mod admin;
mod builds;
mod bulk;
mod claim;
mod complete;
mod connection;
mod crew;
mod custody;
mod end;
mod events;
mod expire;
mod files;
mod job;
mod migrate;
mod namespaces;
mod outlook;
mod payloads;
mod pools;
mod read;
mod reader;
mod rows;
mod schedules;
mod search;
mod secrets;
mod sessions;
mod settings;
mod statements;
mod statistics;
mod submit;
#[cfg(test)]
mod tests;
mod traces;
mod webhooks;
mod workers;
mod workflows;
mod writer;

pub use outlook::Outlook;
pub use statements::{SQL, SQL_ENDS};

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use baton_core::token::Hash;
use baton_core::{Failure, LeaseEnd, Millis, RunId, WorkerId};

use self::connection::{Role, Sql};
use self::crew::Crew;
use self::files::Files;
use self::reader::Reader;
use self::writer::Writer;
use crate::{
    Asked, Attempt, AuditEntry, AuditRecord, Beat, BeatAnswer, Changes, ClaimAnswer, ClaimRequest, Claimed, Clock,
    Completion, Depth, Due, Expired, Hints, Idempotency, Key, Lane, LaneDepth, LaneId, LaneName, LeaseRef, ListedRun,
    Look, NewKey, NewWorker, Page, Phase, PhaseCounts, Queue, QueueChange, QueueId, Registered, Retained, Rotation,
    RunFilter, RunRecord, RunSearch, SearchFound, SearchFrom, SecretsChange, SettingChange, Store, StoreResult,
    StoredSecrets, StoredSetting, Submission, SubmitAnswer, Submitted, Verdict, Woken, Worker, WorkerChange,
    WorkerFilter, WorkerStatus,
};

/// Threads that read.
const READERS: usize = 4;

/// A store in one SQLite file.
pub struct SqliteStore {
    clock: Clock,
    path: PathBuf,
    statements: Arc<AtomicU64>,
    // Dropped in this order: the last connection to be closed, the writer's, tidies the files up.
    readers: Crew,
    writer: Crew,
}

impl SqliteStore {
    /// Opens the store in this file, making it if it is not there. One process at a time may have it open.
    pub fn open(path: &Path, clock: Clock) -> StoreResult<SqliteStore> {
        SqliteStore::open_files(Files::at(path)?, Role::DurableWriter, clock)
    }

    /// Opens a new store that is gone when it is closed. It behaves as one in a file, because it is in one: SQLite's
    /// own memory databases know neither a write-ahead log nor readers beside the writer.
    pub fn open_in_memory(clock: Clock) -> StoreResult<SqliteStore> {
        SqliteStore::open_files(Files::temporary()?, Role::FleetingWriter, clock)
    }

    fn open_files(files: Files, role: Role, clock: Clock) -> StoreResult<SqliteStore> {
        let statements = Arc::new(AtomicU64::new(0));
        let connection = connection::open(files.database(), role)?;
        migrate::migrate(&Sql::new(&connection, &statements, clock.local()))?;
        let mut readers = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let connection = connection::open(files.database(), Role::Reader)?;
            readers.push(Reader { connection, clock: clock.clone(), statements: Arc::clone(&statements) });
        }
        let path = files.database().to_owned();
        let writer = Writer { connection, clock: clock.clone(), statements: Arc::clone(&statements), files };
        Ok(SqliteStore {
            clock,
            path,
            statements,
            readers: Crew::start("sqlite-reader", readers)?,
            writer: Crew::start("sqlite-writer", vec![writer])?,
        })
    }

    async fn write<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Sql<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.writer.run(work).await
    }

    async fn read<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Sql<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.readers.run(work).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("clock", &self.clock).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    async fn now(&self) -> StoreResult<Millis> {
        self.write(|sql| sql.execute(statements::CHECK_WRITABLE, []).map(|_| sql.now)).await
    }

    async fn secrets(&self) -> StoreResult<StoredSecrets> {
        self.read(secrets::read).await
    }

    async fn change_secrets(&self, seen: &StoredSecrets, change: SecretsChange) -> StoreResult<bool> {
        let (had_plain, seen) = (seen.plain.is_some(), seen.clone());
        let changed = self.write(move |sql| secrets::change(sql, &seen, &change)).await?;
        if changed && had_plain {
            secrets::empty_log(&self.path)?;
        }
        Ok(changed)
    }

    async fn storage_mark(&self, found: [u8; 16]) -> StoreResult<[u8; 16]> {
        self.write(move |sql| admin::storage_mark(sql, found)).await
    }

    async fn set_storage_mark(&self, mark: [u8; 16]) -> StoreResult<()> {
        self.write(move |sql| admin::set_storage_mark(sql, mark)).await
    }

    async fn lanes(&self, names: &[LaneName]) -> StoreResult<Vec<Lane>> {
        let names = names.to_vec();
        self.write(move |sql| admin::lanes(sql, &names)).await
    }

    async fn all_lanes(&self) -> StoreResult<Vec<(LaneName, Lane)>> {
        self.read(admin::all_lanes).await
    }

    async fn queues(&self, namespace: Option<&str>) -> StoreResult<Vec<Queue>> {
        let namespace = namespace.map(str::to_owned);
        self.read(move |sql| admin::queues(sql, namespace.as_deref())).await
    }

    async fn set_queue(&self, namespace: &str, name: &str, change: QueueChange) -> StoreResult<Queue> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.write(move |sql| admin::set_queue(sql, &namespace, &name, change)).await
    }

    async fn depths(&self, queues: &[QueueId], cap: u64) -> StoreResult<Vec<Depth>> {
        let queues = queues.to_vec();
        self.read(move |sql| admin::depths(sql, &queues, cap)).await
    }

    async fn lane_depths(&self, lanes: &[LaneId], cap: u64) -> StoreResult<Vec<LaneDepth>> {
        let lanes = lanes.to_vec();
        self.read(move |sql| admin::lane_depths(sql, &lanes, cap)).await
    }

    async fn submit(&self, submissions: Vec<Submission>) -> StoreResult<Vec<SubmitAnswer>> {
        self.write(move |sql| submit::submit(sql, &submissions)).await
    }

    async fn submit_and_claim(
        &self,
        submissions: Vec<Submission>,
        request: ClaimRequest,
    ) -> StoreResult<(Vec<SubmitAnswer>, Option<ClaimAnswer>)> {
        self.write(move |sql| {
            let answers = submit::submit(sql, &submissions)?;
            Ok((answers, Some(claim::claim(sql, &request)?)))
        })
        .await
    }

    async fn submitted(&self, keys: Vec<Idempotency>) -> StoreResult<Vec<Option<(Submitted, bool)>>> {
        self.read(move |sql| submit::submitted(sql, &keys)).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.write(move |sql| claim::claim(sql, &request)).await
    }

    async fn claimed(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>> {
        self.read(move |sql| read::claimed(sql, worker, claim_no, 0)).await
    }

    async fn repeat_claim(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>> {
        self.write(move |sql| workers::claimed_again(sql, worker, claim_no, 0)).await
    }

    async fn give_back_unheard(&self, leases: Vec<LeaseRef>, why: &str) -> StoreResult<Woken> {
        let why = why.to_owned();
        self.write(move |sql| workers::give_back_untold(sql, leases, &why)).await
    }

    async fn answered(&self, asked: Vec<Asked>) -> StoreResult<Vec<bool>> {
        self.read(move |sql| workers::are_answered(sql, &asked)).await
    }

    async fn answer_claims(&self, claims: Vec<(WorkerId, i64)>) -> StoreResult<Vec<bool>> {
        self.write(move |sql| workers::answer_claims(sql, &claims)).await
    }

    async fn reopen_claim(&self, worker: WorkerId, claim_no: i64, only_old: bool) -> StoreResult<Vec<Claimed>> {
        self.write(move |sql| workers::reopen_claim(sql, worker, claim_no, only_old)).await
    }

    async fn strays(
        &self,
        worker: WorkerId,
        known: Vec<LeaseRef>,
        age_ms: Millis,
        limit: usize,
    ) -> StoreResult<Vec<LeaseRef>> {
        self.read(move |sql| read::strays(sql, worker, &known, age_ms, limit)).await
    }

    async fn start(&self, leases: Vec<LeaseRef>) -> StoreResult<Vec<Verdict>> {
        self.write(move |sql| end::start(sql, &leases)).await
    }

    async fn complete(&self, done: Vec<Completion>) -> StoreResult<Changes> {
        self.write(move |sql| complete::complete(sql, &done)).await
    }

    async fn fail(&self, failed: Vec<(LeaseRef, Failure)>, jitter: f64) -> StoreResult<Changes> {
        self.write(move |sql| end::fail(sql, &failed, jitter)).await
    }

    async fn give_back(&self, leases: Vec<(LeaseRef, String)>) -> StoreResult<Changes> {
        self.write(move |sql| end::give_back(sql, &leases)).await
    }

    async fn sleep(&self, leases: Vec<(LeaseRef, Due)>) -> StoreResult<Changes> {
        self.write(move |sql| end::sleep(sql, &leases)).await
    }

    async fn cancel(&self, runs: Vec<RunId>, grace_ms: Millis) -> StoreResult<Changes> {
        self.write(move |sql| end::cancel(sql, &runs, grace_ms)).await
    }

    async fn look(&self, lanes: &[LaneId]) -> StoreResult<Look> {
        let lanes = lanes.to_vec();
        self.read(move |sql| read::look(sql, &lanes)).await
    }

    async fn lose_workers(&self, hold_off_ms: Millis, limit: usize) -> StoreResult<Vec<WorkerId>> {
        let called_at = self.clock().local();
        self.write(move |sql| expire::lose_workers(sql, called_at.saturating_sub(hold_off_ms), limit)).await
    }

    async fn expire(&self, jitter: f64, limit: usize) -> StoreResult<Expired> {
        self.write(move |sql| expire::expire(sql, jitter, limit)).await
    }

    async fn unblock(&self, limit: usize) -> StoreResult<Woken> {
        let keys = self.read(expire::blocked_keys).await?;
        if keys.is_empty() {
            return Ok(Woken::default());
        }
        self.write(move |sql| expire::unblock(sql, &keys, limit)).await
    }

    async fn register(&self, worker: NewWorker) -> StoreResult<Registered> {
        self.write(move |sql| workers::register(sql, &worker)).await
    }

    async fn renew(&self, beats: Vec<Beat>) -> StoreResult<Vec<BeatAnswer>> {
        self.write(move |sql| workers::renew(sql, &beats)).await
    }

    async fn set_worker(&self, worker: WorkerId, status: WorkerStatus, why: &str) -> StoreResult<Option<WorkerChange>> {
        let why = why.to_owned();
        self.write(move |sql| workers::set_worker(sql, worker, status, &why)).await
    }

    async fn worker(&self, worker: WorkerId) -> StoreResult<Option<Worker>> {
        self.read(move |sql| workers::worker(sql, worker)).await
    }

    async fn workers(&self, filter: &WorkerFilter, page: Page<WorkerId>) -> StoreResult<Vec<Worker>> {
        let filter = filter.clone();
        self.read(move |sql| workers::workers(sql, &filter, page)).await
    }

    async fn count_workers(&self, filter: &WorkerFilter) -> StoreResult<u64> {
        let filter = filter.clone();
        self.read(move |sql| workers::count_workers(sql, &filter)).await
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        self.read(move |sql| read::run(sql, run)).await
    }

    async fn runs(&self, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunRecord>> {
        let filter = filter.clone();
        self.read(move |sql| read::runs(sql, &filter, page)).await
    }

    async fn find_runs(&self, filter: &RunFilter, page: Page<RunId>) -> StoreResult<Vec<RunId>> {
        let filter = filter.clone();
        self.read(move |sql| read::find_runs(sql, &filter, page)).await
    }

    async fn count_runs(&self, filter: &RunFilter) -> StoreResult<u64> {
        let filter = filter.clone();
        self.read(move |sql| read::count_runs(sql, &filter)).await
    }

    async fn search_runs(&self, search: &RunSearch, from: SearchFrom, limit: usize) -> StoreResult<SearchFound> {
        let search = search.settled();
        self.read(move |sql| search::search(sql, &search, from, limit)).await
    }

    async fn count_phases(&self, search: &RunSearch, most: usize) -> StoreResult<PhaseCounts> {
        let search = search.settled();
        self.read(move |sql| search::count(sql, &search, most)).await
    }

    async fn count_lanes(&self, lanes: &[LaneId], now: Millis) -> StoreResult<Vec<(LaneId, Phase, u64)>> {
        let lanes = lanes.to_vec();
        self.read(move |sql| search::count_lanes(sql, &lanes, now)).await
    }

    async fn listed_runs(&self, runs: &[RunId]) -> StoreResult<Vec<ListedRun>> {
        let runs = runs.to_vec();
        self.read(move |sql| search::listed(sql, &runs)).await
    }

    async fn positions(&self, runs: &[RunId], cap: u64) -> StoreResult<Vec<(RunId, u64)>> {
        let runs = runs.to_vec();
        self.read(move |sql| search::positions(sql, &runs, cap)).await
    }

    async fn attempts(&self, run: RunId) -> StoreResult<Vec<Attempt>> {
        self.read(move |sql| read::attempts(sql, run)).await
    }

    async fn lease_end(&self, lease: LeaseRef) -> StoreResult<Option<LeaseEnd>> {
        self.read(move |sql| end::lease_end(sql, lease)).await
    }

    async fn position(&self, run: RunId, cap: u64) -> StoreResult<Option<u64>> {
        self.read(move |sql| read::position(sql, run, cap)).await
    }

    async fn key_held(&self, queue: QueueId, key: &str) -> StoreResult<u64> {
        let key = key.to_owned();
        self.read(move |sql| read::key_held(sql, queue, &key)).await
    }

    async fn add_key(&self, key: NewKey) -> StoreResult<bool> {
        self.write(move |sql| admin::add_key(sql, &key)).await
    }

    async fn key(&self, hash: &Hash) -> StoreResult<Option<Key>> {
        let hash = *hash;
        self.read(move |sql| admin::key(sql, &hash)).await
    }

    async fn keys(&self) -> StoreResult<Vec<Key>> {
        self.read(admin::keys).await
    }

    async fn rotate_key(&self, id: &str, rotation: Rotation) -> StoreResult<bool> {
        let id = id.to_owned();
        self.write(move |sql| admin::rotate_key(sql, &id, &rotation)).await
    }

    async fn touch_key(&self, id: &str) -> StoreResult<()> {
        let id = id.to_owned();
        self.write(move |sql| admin::touch_key(sql, &id)).await
    }

    async fn revoke_key(&self, id: &str) -> StoreResult<bool> {
        let id = id.to_owned();
        self.write(move |sql| admin::revoke_key(sql, &id)).await
    }

    async fn audit(&self, entries: Vec<AuditEntry>) -> StoreResult<Vec<AuditRecord>> {
        self.write(move |sql| admin::audit(sql, &entries)).await
    }

    async fn audit_log(&self, page: Page<i64>, oldest_first: bool) -> StoreResult<Vec<AuditRecord>> {
        self.read(move |sql| admin::audit_log(sql, page, oldest_first)).await
    }

    async fn retain(
        &self,
        runs_ms: Millis,
        workers_ms: Millis,
        audit_ms: Millis,
        limit: usize,
    ) -> StoreResult<Retained> {
        let retention = admin::Retention { runs_ms, workers_ms, audit_ms, limit };
        for _ in 0..builds::retain::ROUNDS_MAX {
            if !self.write(move |sql| builds::retain::strip(sql, runs_ms, limit)).await? {
                break;
            }
        }
        self.write(move |sql| admin::retain(sql, retention)).await
    }

    async fn settings(&self) -> StoreResult<Vec<StoredSetting>> {
        self.read(settings::all).await
    }

    async fn change_settings(&self, seen: &[StoredSetting], changes: Vec<SettingChange>) -> StoreResult<bool> {
        let seen = seen.to_vec();
        self.write(move |sql| settings::change(sql, &seen, &changes)).await
    }

    async fn notify(&self, _hints: &Hints) -> StoreResult<()> {
        Ok(())
    }

    async fn listen(&self) -> StoreResult<Hints> {
        std::future::pending().await
    }

    async fn close(&self) {
        self.readers.stop().await;
        self.writer.stop().await;
    }
}
