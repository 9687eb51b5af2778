//! A store that carries calls out and loses its answers, as a connection to a database does that breaks at the wrong moment;
//! or that takes its time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use baton_core::pools::{BackoffRule, ClaimNo, ClaimReason, Limits, OrderId, PoolSpec, RunnerId};
use baton_core::token::Hash;
use baton_core::trace::RunTrace;
use baton_core::{BulkId, BulkState, Failure, LeaseEnd, Millis, RunId, WorkerId};
use baton_store::*;
use bytes::Bytes;
use tokio::sync::{RwLock, RwLockWriteGuard};
use uuid::Uuid;

/// Stands before another store.
#[derive(Debug)]
pub struct LossyStore {
    store: Arc<dyn Store>,
    claims_to_lose: AtomicU32,
    submits_to_lose: AtomicU32,
    looks_to_refuse: AtomicU32,
    claims_pass: RwLock<()>,
    claims_carried_out: AtomicU32,
    answers_pass: RwLock<()>,
    statistics_to_lose: AtomicU32,
    statistics_pass: RwLock<()>,
    statistics_answers_pass: RwLock<()>,
    statistics_carried_out: AtomicU32,
}

impl LossyStore {
    /// Loses nothing yet.
    pub fn before(store: Arc<dyn Store>) -> Arc<LossyStore> {
        Arc::new(LossyStore {
            store,
            claims_to_lose: AtomicU32::new(0),
            submits_to_lose: AtomicU32::new(0),
            looks_to_refuse: AtomicU32::new(0),
            claims_pass: RwLock::new(()),
            claims_carried_out: AtomicU32::new(0),
            answers_pass: RwLock::new(()),
            statistics_to_lose: AtomicU32::new(0),
            statistics_pass: RwLock::new(()),
            statistics_answers_pass: RwLock::new(()),
            statistics_carried_out: AtomicU32::new(0),
        })
    }

    /// Loses the answers of the next claims that hand out runs.
    pub fn lose_claims(&self, count: u32) {
        self.claims_to_lose.store(count, Ordering::SeqCst);
    }

    /// Loses the answers of the next submits of builds, and of those that hand out runs on the way.
    pub fn lose_submits(&self, count: u32) {
        self.submits_to_lose.store(count, Ordering::SeqCst);
    }

    /// Refuses the next looks at what a claim brought.
    pub fn refuse_looks(&self, count: u32) {
        self.looks_to_refuse.store(count, Ordering::SeqCst);
    }

    /// Holds claims up on their way to the store until the guard is dropped.
    pub async fn hold_claims_up(&self) -> RwLockWriteGuard<'_, ()> {
        self.claims_pass.write().await
    }

    /// Holds answers to claims up on their way from the store until the guard is dropped.
    pub async fn hold_answers_up(&self) -> RwLockWriteGuard<'_, ()> {
        self.answers_pass.write().await
    }

    /// Loses the answers of the next writes of statistics.
    pub fn lose_statistics(&self, count: u32) {
        self.statistics_to_lose.store(count, Ordering::SeqCst);
    }

    /// Holds writes of statistics up on their way to the store until the guard is dropped.
    pub async fn hold_statistics_up(&self) -> RwLockWriteGuard<'_, ()> {
        self.statistics_pass.write().await
    }

    /// Holds answers to writes of statistics up on their way from the store until the guard is dropped.
    pub async fn hold_statistics_answers_up(&self) -> RwLockWriteGuard<'_, ()> {
        self.statistics_answers_pass.write().await
    }

    /// How many writes of statistics the store has carried out.
    pub fn statistics_carried_out(&self) -> u32 {
        self.statistics_carried_out.load(Ordering::SeqCst)
    }

    /// How many claims the store has carried out.
    pub fn claims_carried_out(&self) -> u32 {
        self.claims_carried_out.load(Ordering::SeqCst)
    }

    /// Faults that are still to come.
    pub fn faults_left(&self) -> u32 {
        let faults = [&self.claims_to_lose, &self.submits_to_lose, &self.looks_to_refuse, &self.statistics_to_lose];
        faults.iter().map(|left| left.load(Ordering::SeqCst)).sum()
    }
}

/// Fails when the next fault is due.
fn fault(left: &AtomicU32) -> StoreResult<()> {
    match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
        Ok(_) => Err(StoreError::Unavailable("the answer was lost".into())),
        Err(_) => Ok(()),
    }
}

/// Passes calls of builds on as they are, but for submits, whose answers can be lost.
macro_rules! passing_builds_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl Builds for LossyStore {
            async fn submit_build(
                &self,
                run: NewRun,
                die: u64,
                build: NewBuild,
                line: Option<LogLine>,
            ) -> StoreResult<BuildAnswer> {
                let answer = self.store.submit_build(run, die, build, line).await?;
                fault(&self.submits_to_lose).map(|()| answer)
            }
            $(async fn $name(&self, $($argument: $type),*) -> StoreResult<$answer> {
                self.store.$name($($argument),*).await
            })+
        }
    };
}

passing_builds_on! {
    fn take_build(run: RunId, worker: WorkerId, die: u32) -> Option<LeaseRef>;
    fn touch_artifact(id: Uuid) -> ();
    fn bind_draft(id: Uuid, lease: LeaseRef) -> bool;
    fn builds(runs: &[RunId]) -> Vec<Option<Build>>;
    fn count_builds(namespace: Option<&str>, since: Millis) -> BuildCounts;
    fn stuck_builds(silent_ms: Millis, limit: usize) -> Vec<RunId>;
    fn add_artifact(artifact: NewArtifact) -> bool;
    fn artifact_stored(id: Uuid, size: u64, sha256: [u8; 32]) -> bool;
    fn artifact(id: Uuid) -> Option<Artifact>;
    fn artifacts(run: RunId) -> Vec<Artifact>;
    fn orphans(age_ms: Millis, limit: usize) -> Vec<Artifact>;
    fn forget_artifacts(ids: &[Uuid]) -> ();
    fn artifact_bytes(namespace: Option<&str>) -> u64;
    fn add_logs(
        run: RunId, lease: Option<LeaseRef>, first: Option<u64>, lines: Vec<LogLine>, bytes_max: u64
    ) -> LogAnswer;
    fn logs(run: RunId, after: u64, limit: usize) -> Vec<LogRecord>;
    fn log_end(run: RunId) -> LogEnd;
    fn builder(namespace: &str, name_id: &str) -> Option<Builder>;
    fn set_builder(
        namespace: &str, name_id: &str, worker: WorkerId, key_id: Option<&str>, token_ttl_ms: Millis
    ) -> Option<BuilderSet>;
    fn token_shown(worker: WorkerId, number: i64, rotate: Option<Millis>) -> TokenAnswer;
    fn count_for_builder(worker: WorkerId, succeeded: bool) -> ();
    fn use_otp(lease: LeaseRef, good_ms: Millis) -> OtpAnswer;
    fn machine_seen(lease: LeaseRef, ready: bool, progress: Option<f64>) -> bool;
    fn machine(lease: LeaseRef) -> Option<Machine>;
    fn add_measured(lease: LeaseRef, new: NewMeasurement, keep: usize) -> bool;
    fn measured(run: RunId, limit: usize) -> Vec<Measured>;
}

/// Passes all calls of a trait on as they are.
macro_rules! passing_all_on {
    ($trait:ident: $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl $trait for LossyStore {
            $(async fn $name(&self, $($argument: $type),*) -> StoreResult<$answer> {
                self.store.$name($($argument),*).await
            })+
        }
    };
}

passing_all_on! { Payloads:
    fn note_payload(id: Uuid, reference: Vec<u8>) -> ();
    fn touch_payload(id: Uuid) -> bool;
    fn look_at_payloads(age_ms: Millis, limit: usize) -> LookedAt;
    fn forget_payloads(ids: &[Uuid]) -> ();
}

passing_all_on! { Traces:
    fn trace_facts(runs: &[RunId]) -> Vec<TraceFacts>;
    fn pauses(run: RunId, limit: usize) -> Vec<Pause>;
    fn tell_traces(told: Vec<(RunId, u32)>) -> ();
    fn close_traces(runs: Vec<RunId>) -> ();
    fn open_traces(after: Option<RunId>, age_ms: Millis, limit: usize) -> OpenTraces;
    fn run_trace(run: RunId) -> Option<RunTrace>;
}

passing_all_on! { Custody:
    fn note_refused(writes: Vec<LateWrite>) -> Vec<NewRefusal>;
    fn refused_writes(run: RunId) -> RefusedWrites;
    fn past_leases(run: RunId, before: Option<u32>, limit: usize) -> Vec<PastLease>;
    fn count_past_leases(run: RunId) -> u64;
}

passing_all_on! { Sessions:
    fn add_session(session: NewSession) -> ();
    fn session(by: SessionRef, idle_ms: Millis) -> Option<Session>;
    fn touch_session(id: Uuid, shown: Option<Hash>, grace_ms: Millis) -> ();
    fn rotate_session(id: Uuid, shown: Hash, token: Hash, age_ms: Millis) -> bool;
    fn end_session(id: Uuid) -> bool;
    fn end_sessions(key_id: &str) -> u64;
    fn add_signin_link(link: NewSigninLink) -> Millis;
    fn use_signin_link(token: &Hash) -> Option<SessionHolder>;
    fn forget_sessions(idle_ms: Millis, limit: usize) -> u64;
}

passing_all_on! { Webhooks:
    fn add_webhook(webhook: NewWebhook) -> WebhookAnswer;
    fn webhook(id: WebhookId) -> Option<Webhook>;
    fn webhooks(namespace: Option<&str>, page: Page<WebhookId>) -> Vec<Webhook>;
    fn live_webhooks() -> Vec<Webhook>;
    fn change_webhook(id: WebhookId, revision: i64, change: WebhookChange) -> Option<Webhook>;
    fn delete_webhook(id: WebhookId) -> bool;
    fn move_webhook(moved: WebhookMove) -> bool;
    fn claim_deliveries(room: &[(WebhookId, usize)], limit: usize, lease_ms: Millis) -> ClaimedDeliveries;
    fn settle_delivery(settled: SettledDelivery) -> SettledAnswer;
    fn deliveries(webhook: WebhookId, state: Option<DeliveryState>, page: Page<DeliveryId>) -> Vec<Delivery>;
    fn replay_delivery(webhook: WebhookId, id: DeliveryId) -> ReplayAnswer;
    fn replay_deliveries(webhook: WebhookId, since: Millis) -> u64;
    fn count_dead_deliveries(webhooks: &[WebhookId]) -> Vec<u64>;
    fn forget_deliveries(retention: DeliveryRetention) -> u64;
}

passing_all_on! { Events:
    fn skip_events() -> ();
    fn write_events(count: u32, body: Bytes) -> i64;
    fn events_after(position: i64, limit: usize) -> EventPage;
    fn forget_events(age_ms: Millis, keep: i64, limit: usize) -> u64;
    fn keep_event_server(server: &EventServer, for_ms: Millis) -> ();
    fn event_servers(but: &str) -> OtherServers;
    fn forget_event_servers() -> u32;
    fn run_facts(runs: &[RunId]) -> Vec<Option<RunFacts>>;
}

passing_all_on! { BulkOperations:
    fn add_bulk(new: NewBulk, die: u64, live_max: u64) -> BulkMade;
    fn bulk(id: BulkId) -> Option<BulkOperation>;
    fn bulks(namespace: Option<&str>, state: Option<BulkState>, page: Page<BulkId>) -> Vec<BulkOperation>;
    fn live_bulks(limit: usize) -> LiveBulks;
    fn save_bulk(
        id: BulkId, version: i64, progress: &BulkProgress, state: BulkState, due_in_ms: Millis
    ) -> Option<BulkOperation>;
    fn stop_bulk(id: BulkId) -> Option<BulkOperation>;
    fn forget_bulks(age_ms: Millis, limit: usize) -> u64;
}

#[async_trait]
impl Statistics for LossyStore {
    async fn write_statistics(&self, server: &str, seq: i64, block: NewStatistics) -> StoreResult<Millis> {
        let _ = self.statistics_pass.read().await;
        let answer = self.store.write_statistics(server, seq, block).await?;
        self.statistics_carried_out.fetch_add(1, Ordering::SeqCst);
        let _ = self.statistics_answers_pass.read().await;
        fault(&self.statistics_to_lose).map(|()| answer)
    }
    async fn statistics(&self, filter: StatisticsFilter, limit: usize) -> StoreResult<Vec<StoredStatistics>> {
        self.store.statistics(filter, limit).await
    }
    async fn oldest_statistics(&self, filter: StatisticsFilter) -> StoreResult<Option<Millis>> {
        self.store.oldest_statistics(filter).await
    }
    async fn merge_statistics(&self, gone: &[i64], block: NewStatistics) -> StoreResult<bool> {
        self.store.merge_statistics(gone, block).await
    }
    async fn forget_statistics(&self, before: Millis, limit: usize) -> StoreResult<u64> {
        self.store.forget_statistics(before, limit).await
    }
    async fn worker_counts(&self, limit: usize) -> StoreResult<Vec<WorkerCount>> {
        self.store.worker_counts(limit).await
    }
}

passing_all_on! { Workflows:
    fn write_steps(writes: Vec<StepWrite>) -> Vec<StepAnswer>;
    fn suspend(suspensions: Vec<Suspension>) -> (Vec<SuspendAnswer>, Woken);
    fn start_children(children: Vec<NewChild>) -> Vec<ChildAnswer>;
    fn publish(published: Vec<(LeaseRef, Bytes)>) -> Vec<Verdict>;
    fn cancelled(leases: Vec<(LeaseRef, String)>) -> Changes;
    fn continue_as_new(lease: LeaseRef, next: NewRun, die: u64) -> ContinueAnswer;
    fn leave_messages(messages: Vec<NewMessage>) -> (Vec<MessageAnswer>, Woken);
    fn set_deadlines(deadlines: Vec<(RunId, Millis, bool)>) -> ();
    fn retry_from(from: RunId, run: NewRun, die: u64) -> Submitted;
    fn mark_workflow_lanes(lanes: &[LaneId]) -> ();
    fn deliver(grace_ms: Millis, limit: usize) -> Delivered;
    fn end_overdue(limit: usize) -> Delivered;
    fn journals(runs: &[RunId], bytes_max: u64) -> Vec<Journal>;
    fn messages(run: RunId, seen: i64) -> Vec<Message>;
    fn steps(run: RunId, page: Page<u32>) -> Vec<Step>;
    fn step_outlines(run: RunId, page: Page<u32>) -> Vec<StepOutline>;
    fn step_attempts(run: RunId, position: Option<u32>, page: Page<(u32, u32)>) -> Vec<StepAttempt>;
    fn is_undone(run: RunId) -> bool;
    fn waits(run: RunId, limit: usize) -> Waits;
    fn published(run: RunId) -> Option<(Bytes, Millis)>;
    fn workflows(runs: &[RunId]) -> Vec<Option<(RunRecord, Relations)>>;
    fn workflow_lanes() -> Vec<LaneId>;
    fn relations(runs: &[RunId]) -> Vec<Relations>;
}

passing_all_on! { Schedules:
    fn add_schedule(schedule: NewSchedule) -> ScheduleAnswer;
    fn schedule(namespace: &str, id: &str) -> Option<Schedule>;
    fn schedules(namespace: Option<&str>, page: Page<(String, String)>) -> Vec<Schedule>;
    fn count_schedules(namespace: Option<&str>) -> u64;
    fn change_schedule(schedule: ScheduleNo, revision: i64, change: ScheduleChange) -> Option<Schedule>;
    fn delete_schedule(schedule: ScheduleNo) -> bool;
    fn due_schedules(limit: usize) -> DueSchedules;
    fn fire(fire: Fire) -> FireAnswer;
    fn fire_by_hand(schedule: ScheduleNo, kind: FireKind, fires: Vec<FireRun>) -> Option<Vec<Submitted>>;
    fn fires(schedule: ScheduleNo, page: Page<i64>) -> Vec<FireRecord>;
    fn last_fires(schedules: &[ScheduleNo], most: usize) -> Vec<(ScheduleNo, FireRecord)>;
    fn forget_fires(age_ms: Millis, limit: usize) -> u64;
}

passing_all_on! { Namespaces:
    fn namespaces(change_no: i64) -> Vec<Namespace>;
    fn add_namespace(name: &str, description: &str, limits: NamespaceLimits) -> (Namespace, bool);
    fn change_namespace(name: &str, change: NamespaceChange) -> Option<Namespace>;
    fn worker_of_instance(instance: &str) -> Option<WorkerId>;
}

passing_all_on! { Pools:
    fn add_pool(pool: NewPool) -> PoolAnswer;
    fn pool(namespace: &str, name: &str) -> Option<Pool>;
    fn pools(namespace: Option<&str>, page: Page<(String, String)>) -> Vec<Pool>;
    fn change_pool(pool: PoolNo, revision: i64, spec: PoolSpec) -> Option<Pool>;
    fn delete_pool(pool: PoolNo) -> Option<Pool>;
    fn pool_stock(pool: PoolNo) -> Option<PoolStock>;
    fn pool_stats(pool: PoolNo) -> PoolStats;
    fn open_claim(claim: NewPoolClaim) -> OpenAnswer;
    fn pool_claim(pool: PoolNo, run_id: &str) -> Option<PoolClaim>;
    fn pool_claims(filter: ClaimFilter, page: Page<ClaimNo>) -> Vec<PoolClaim>;
    fn runners_of_claims(claims: Vec<ClaimNo>) -> BTreeMap<ClaimNo, u32>;
    fn waiting_pools() -> Vec<PoolNo>;
    fn take_runners(pool: PoolNo, rules: TakeRules) -> TakeAnswer;
    fn commit_claim(claim: ClaimNo, limits: Limits) -> CommitAnswer;
    fn give_back_runners(claim: ClaimNo, runners: Vec<RunnerRef>, why: &str, release_ms: Millis) -> Vec<RunnerAnswer>;
    fn release_claim(claim: ClaimNo, release_ms: Millis) -> EndClaimAnswer;
    fn fail_claim(claim: ClaimNo, reason: ClaimReason, detail: &str, release_ms: Millis) -> EndClaimAnswer;
    fn join_runner(order: OrderId, machine_id: &str, token: Hash) -> JoinAnswer;
    fn runner_of_token(token: &Hash) -> Option<PoolRunner>;
    fn beat_runners(runners: Vec<RunnerId>) -> Vec<Option<RunnerNews>>;
    fn signal_runners(signals: Vec<RunnerSignal>) -> Vec<SignalAnswer>;
    fn order_runners(order: NewOrder) -> OrderAnswer;
    fn due_orders(lease_ms: Millis, limit: usize) -> Vec<Order>;
    fn order(order: OrderId) -> Option<PlacedOrder>;
    fn record_machines(order: OrderId, machines: Vec<NewMachine>) -> Option<Vec<MachineAnswer>>;
    fn fail_order(order: OrderId, error: &str, rule: BackoffRule, jitter: f64) -> bool;
    fn note_pool_error(pool: PoolNo, error: &str) -> ();
    fn end_runners(ends: Vec<RunnerEnd>) -> Vec<RunnerAnswer>;
    fn due_endings(lease_ms: Millis, limit: usize) -> Vec<PoolRunner>;
    fn note_gone(runners: Vec<RunnerId>) -> Vec<RunnerAnswer>;
    fn runner(runner: RunnerId) -> Option<PoolRunner>;
    fn runners(filter: RunnerFilter, page: Page<RunnerId>) -> Vec<PoolRunner>;
    fn runner_events(filter: EventFilter, page: Page<i64>) -> Vec<RunnerEvent>;
    fn expire_pools(expiry: PoolExpiry) -> ExpiredPools;
    fn retain_pools(age_ms: Millis, limit: usize) -> RetainedPools;
}

/// Passes calls on as they are.
macro_rules! passing_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl Store for LossyStore {
            fn kind(&self) -> &'static str {
                self.store.kind()
            }

            fn is_shared(&self) -> bool {
                self.store.is_shared()
            }

            fn clock(&self) -> &Clock {
                self.store.clock()
            }

            fn statements(&self) -> u64 {
                self.store.statements()
            }

            async fn submit_and_claim(
                &self,
                submissions: Vec<Submission>,
                request: ClaimRequest,
            ) -> StoreResult<(Vec<SubmitAnswer>, Option<ClaimAnswer>)> {
                let answer = self.store.submit_and_claim(submissions, request).await?;
                if answer.1.as_ref().is_some_and(|claim| !claim.claimed.is_empty()) {
                    fault(&self.submits_to_lose)?;
                }
                Ok(answer)
            }

            async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
                drop(self.claims_pass.read().await);
                let answer = self.store.claim(request).await?;
                self.claims_carried_out.fetch_add(1, Ordering::SeqCst);
                drop(self.answers_pass.read().await);
                if !answer.claimed.is_empty() {
                    fault(&self.claims_to_lose)?;
                }
                Ok(answer)
            }

            async fn moved(&self) {
                self.store.moved().await;
            }

            async fn repeat_claim(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>> {
                fault(&self.looks_to_refuse)?;
                self.store.repeat_claim(worker, claim_no).await
            }

            async fn claimed(&self, worker: WorkerId, claim_no: Option<i64>) -> StoreResult<Vec<Claimed>> {
                fault(&self.looks_to_refuse)?;
                self.store.claimed(worker, claim_no).await
            }

            async fn close(&self) {
                self.store.close().await;
            }

            $(async fn $name(&self, $($argument: $type),*) -> StoreResult<$answer> {
                self.store.$name($($argument),*).await
            })+
        }
    };
}

passing_on! {
    fn now() -> Millis;
    fn storage_mark(found: [u8; 16]) -> [u8; 16];
    fn set_storage_mark(mark: [u8; 16]) -> ();
    fn secrets() -> StoredSecrets;
    fn change_secrets(seen: &StoredSecrets, change: SecretsChange) -> bool;
    fn lanes(names: &[LaneName]) -> Vec<Lane>;
    fn all_lanes() -> Vec<(LaneName, Lane)>;
    fn queues(namespace: Option<&str>) -> Vec<Queue>;
    fn set_queue(namespace: &str, name: &str, change: QueueChange) -> Queue;
    fn depths(queues: &[QueueId], cap: u64) -> Vec<Depth>;
    fn lane_depths(lanes: &[LaneId], cap: u64) -> Vec<LaneDepth>;
    fn submit(submissions: Vec<Submission>) -> Vec<SubmitAnswer>;
    fn submitted(keys: Vec<Idempotency>) -> Vec<Option<(Submitted, bool)>>;
    fn give_back_unheard(leases: Vec<LeaseRef>, why: &str) -> Woken;
    fn answered(asked: Vec<Asked>) -> Vec<bool>;
    fn answer_claims(claims: Vec<(WorkerId, i64)>) -> Vec<bool>;
    fn reopen_claim(worker: WorkerId, claim_no: i64, only_old: bool) -> Vec<Claimed>;
    fn strays(worker: WorkerId, known: Vec<LeaseRef>, age_ms: Millis, limit: usize) -> Vec<LeaseRef>;
    fn start(leases: Vec<LeaseRef>) -> Vec<Verdict>;
    fn complete(done: Vec<Completion>) -> Changes;
    fn fail(failed: Vec<(LeaseRef, Failure)>, jitter: f64) -> Changes;
    fn give_back(leases: Vec<(LeaseRef, String)>) -> Changes;
    fn sleep(leases: Vec<(LeaseRef, Due)>) -> Changes;
    fn cancel(runs: Vec<RunId>, grace_ms: Millis) -> Changes;
    fn look(lanes: &[LaneId]) -> Look;
    fn lose_workers(hold_off_ms: Millis, limit: usize) -> Vec<WorkerId>;
    fn expire(jitter: f64, limit: usize) -> Expired;
    fn unblock(limit: usize) -> Woken;
    fn register(worker: NewWorker) -> Registered;
    fn renew(beats: Vec<Beat>) -> Vec<BeatAnswer>;
    fn set_worker(worker: WorkerId, status: WorkerStatus, why: &str) -> Option<WorkerChange>;
    fn worker(worker: WorkerId) -> Option<Worker>;
    fn workers(filter: &WorkerFilter, page: Page<WorkerId>) -> Vec<Worker>;
    fn count_workers(filter: &WorkerFilter) -> u64;
    fn run(run: RunId) -> Option<RunRecord>;
    fn runs(filter: &RunFilter, page: Page<RunId>) -> Vec<RunRecord>;
    fn find_runs(filter: &RunFilter, page: Page<RunId>) -> Vec<RunId>;
    fn count_runs(filter: &RunFilter) -> u64;
    fn search_runs(search: &RunSearch, from: SearchFrom, limit: usize) -> SearchFound;
    fn count_phases(search: &RunSearch, most: usize) -> PhaseCounts;
    fn count_lanes(lanes: &[LaneId], now: Millis) -> Vec<(LaneId, Phase, u64)>;
    fn listed_runs(runs: &[RunId]) -> Vec<ListedRun>;
    fn positions(runs: &[RunId], cap: u64) -> Vec<(RunId, u64)>;
    fn attempts(run: RunId) -> Vec<Attempt>;
    fn lease_end(lease: LeaseRef) -> Option<LeaseEnd>;
    fn position(run: RunId, cap: u64) -> Option<u64>;
    fn key_held(queue: QueueId, key: &str) -> u64;
    fn add_key(key: NewKey) -> bool;
    fn key(hash: &Hash) -> Option<Key>;
    fn keys() -> Vec<Key>;
    fn revoke_key(id: &str) -> bool;
    fn rotate_key(id: &str, rotation: Rotation) -> bool;
    fn touch_key(id: &str) -> ();
    fn audit(entries: Vec<AuditEntry>) -> Vec<AuditRecord>;
    fn audit_log(page: Page<i64>, oldest_first: bool) -> Vec<AuditRecord>;
    fn retain(runs_ms: Millis, workers_ms: Millis, audit_ms: Millis, limit: usize) -> Retained;
    fn settings() -> Vec<StoredSetting>;
    fn change_settings(seen: &[StoredSetting], changes: Vec<SettingChange>) -> bool;
    fn notify(hints: &Hints) -> ();
    fn listen() -> Hints;
}
