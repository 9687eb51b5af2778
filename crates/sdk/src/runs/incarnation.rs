//! One registration of a worker, from the answer of the server to its end.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_proto::{
    Claim, ClaimedRun, GiveBackRun, HealthReport, Heartbeat, HeartbeatAnswer, LeaseOf, RegisteredWorker,
};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;

use super::cancel::Stopper;
use super::measuring::Measuring;
use super::polls::Polls;
use super::{Cancel, Life, RETRY_PAUSE, Stop, Worker, WorkerEvent, task};
use crate::busy::LOOK_EVERY;
use crate::client::within;
use crate::{Client, ClientError};

/// A worker of several queues that has too few slots to wait on all of them at once takes turns of this length.
const TURN: Duration = Duration::from_secs(1);
/// Shortest time between two heartbeats.
const NEWS_PAUSE: Duration = Duration::from_millis(100);
/// How long saying goodbye may take. Nobody depends on it: the leases run out by themselves.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why an incarnation ended.
pub(super) enum End {
    /// The server gave it up; what it held belongs to others.
    Forgotten,
    /// It was told to stop and has.
    Drain,
    /// The server refuses it for good.
    Fatal(ClientError),
}

struct Held {
    run_id: String,
    kind: String,
    epoch: u32,
    stopper: Stopper,
    polls: Arc<Polls>,
}

pub(super) struct Incarnation {
    pub(super) client: Client,
    pub(super) life: Life,
    pub(super) stop_grace: Duration,
    worker_id: String,
    queues: Vec<String>,
    interval: Duration,
    /// How long a heartbeat may wait for news; none when the server does not offer it.
    heartbeat_wait: Duration,
    claim_wait: Duration,
    drain_timeout: Duration,
    measuring: Option<Arc<Measuring>>,
    tasks: TaskTracker,
    /// By lease: the same run can come back under a new one while an old handler still comes to its end.
    held: Mutex<HashMap<String, Held>>,
    /// Told when a run came.
    came: Notify,
    claims_made: AtomicU64,
    /// Claims that have no answer yet, by number, with their queue.
    unanswered: Mutex<BTreeMap<u64, String>>,
}

impl Incarnation {
    pub(super) fn new(
        worker: &Worker,
        registered: RegisteredWorker,
        life: Life,
        measuring: Option<Arc<Measuring>>,
    ) -> Incarnation {
        let interval = Duration::from_millis(registered.heartbeat_interval_ms.max(1));
        Incarnation {
            client: worker.client.clone(),
            life,
            stop_grace: worker.stop_grace,
            worker_id: registered.worker_id,
            queues: worker.registration.queues.clone(),
            interval,
            // Shorter than the interval, or an answer that is lost would be missed too late.
            heartbeat_wait: Duration::from_millis(registered.heartbeat_wait_ms).min(interval * 9 / 10),
            claim_wait: worker.claim_wait,
            drain_timeout: worker.drain_timeout,
            measuring,
            tasks: TaskTracker::new(),
            held: Mutex::default(),
            came: Notify::new(),
            claims_made: AtomicU64::new(0),
            unanswered: Mutex::default(),
        }
    }

    pub(super) fn tell(&self, event: WorkerEvent) {
        self.life.tell(event);
    }

    /// Works until it is told to stop or the server gives it up.
    pub(super) async fn live(self: &Arc<Self>, shutdown: Pin<&mut impl Future<Output = ()>>) -> End {
        let end = tokio::select! {
            end = self.beat(false) => end,
            end = self.claim_everywhere() => end,
            () = shutdown => End::Drain,
            () = self.watch() => unreachable!("watching has no end"),
        };
        if let End::Forgotten = end {
            return self.forgotten();
        }
        self.tell(WorkerEvent::Draining);
        match self.drain().await {
            End::Drain => {}
            End::Forgotten => return self.forgotten(),
            End::Fatal(error) => {
                self.stop_all(Stop::LeaseLost);
                return End::Fatal(error);
            }
        }
        // Also gives back what an unanswered claim may have brought.
        if within(GOODBYE_TIMEOUT, self.client.deregister(&self.worker_id)).await.is_ok() {
            self.tell(WorkerEvent::Deregistered);
        }
        end
    }

    fn forgotten(&self) -> End {
        self.tell(WorkerEvent::Forgotten { worker_id: self.worker_id.clone() });
        self.stop_all(Stop::LeaseLost);
        End::Forgotten
    }

    // ---- what it holds

    /// Notes a run that the worker now holds. The returned token tells its handler when to stop,
    /// and its polls are watched.
    pub(super) fn hold(&self, run: &ClaimedRun) -> (Cancel, Arc<Polls>) {
        let (stopper, polls) = (Stopper::new(), Arc::new(Polls::default()));
        let cancel = stopper.cancel();
        let (run_id, kind) = (run.run_id.clone(), run.kind.clone());
        let held = Held { run_id, kind, epoch: run.epoch, stopper, polls: polls.clone() };
        lock(&self.held).insert(run.lease.clone(), held);
        self.came.notify_one();
        (cancel, polls)
    }

    /// Names in the log whatever keeps its thread for too long. Never returns.
    async fn watch(&self) {
        loop {
            if lock(&self.held).is_empty() {
                // An idle worker is quiet.
                self.came.notified().await;
            }
            for held in lock(&self.held).values() {
                held.polls.look(&held.run_id, &held.kind);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Forgets a lease whose end has been reported.
    pub(super) fn release(&self, lease: &str) {
        lock(&self.held).remove(lease);
    }

    fn stop(&self, lease: &str, why: Stop) {
        let stopped = {
            let held = lock(&self.held);
            held.get(lease).filter(|held| held.stopper.stop(why)).map(|held| (held.run_id.clone(), held.epoch))
        };
        if let Some((run_id, epoch)) = stopped {
            self.tell(WorkerEvent::Stopping { run_id, epoch, why });
        }
    }

    fn stop_all(&self, why: Stop) {
        let leases: Vec<String> = lock(&self.held).keys().cloned().collect();
        leases.iter().for_each(|lease| self.stop(lease, why));
    }

    // ---- heartbeats

    /// Sends heartbeats until the server wants the worker to drain (unless it does already) or has given it up.
    async fn beat(&self, draining: bool) -> End {
        // Registering was a sign of life, and so was the heartbeat before a drain. One that waits for news is worth sending now.
        let waits = !self.heartbeat_wait.is_zero();
        let mut next = Instant::now() + if waits { Duration::ZERO } else { self.interval };
        loop {
            tokio::select! {
                () = sleep_until(next) => {}
                // The server should know that the worker wants no work, before it offers some.
                () = self.life.paused.begins() => {}
            }
            let begun = Instant::now();
            let heartbeat = self.heartbeat().await;
            // An answer that is later than the next heartbeat is not worth waiting for: the leases would run out.
            let patience = self.interval.max(RETRY_PAUSE);
            let answer = tokio::select! {
                answer = within(patience, self.client.heartbeat(&self.worker_id, &heartbeat)) => answer,
                () = self.life.paused.begins() => {
                    next = begun;
                    continue;
                }
            };
            match answer {
                Ok(answer) => {
                    self.heed(&answer, &heartbeat.leases);
                    if answer.should_drain && !draining {
                        return End::Drain;
                    }
                    // There is always one that waits, so that news comes at once. Much news must not become much to do.
                    next = if waits { Instant::now().max(begun + NEWS_PAUSE) } else { begun + self.interval };
                }
                Err(error) => match self.judge("heartbeat", error) {
                    Ok(pause) => next = Instant::now() + pause.min(self.interval),
                    Err(End::Drain) => next = begun + self.interval,
                    Err(end) => return end,
                },
            }
        }
    }

    async fn heartbeat(&self) -> Heartbeat {
        let health = match &self.measuring {
            Some(measuring) => measuring.measure().await,
            None => None,
        };
        let waits = !self.heartbeat_wait.is_zero();
        let lease = |(lease, held): (&String, &Held)| LeaseOf {
            run_id: held.run_id.clone(),
            lease: lease.clone(),
            // A server that does not let heartbeats wait does not know the word.
            stopping: waits && held.stopper.has_stopped(),
        };
        Heartbeat {
            leases: lock(&self.held).iter().map(lease).collect(),
            all: true,
            health: health.or_else(|| self.life.paused.ever().then(HealthReport::default)),
            unfit: self.life.paused.why(),
            wait_ms: waits.then_some(self.heartbeat_wait.as_millis() as u64),
        }
    }

    fn heed(&self, answer: &HeartbeatAnswer, sent: &[LeaseOf]) {
        // Of what came after the heartbeat was sent, the answer cannot say that it is lost.
        for lease in sent.iter().filter(|lease| answer.lost.contains(&lease.run_id)) {
            self.stop(&lease.lease, Stop::LeaseLost);
        }
        // A run that somebody wants cancelled stays so, whenever it came.
        let is_cancelled = |held: &Held| answer.cancelling.contains(&held.run_id);
        let held = lock(&self.held);
        let cancelled: Vec<String> =
            held.iter().filter(|(_, held)| is_cancelled(held)).map(|(lease, _)| lease.clone()).collect();
        drop(held);
        cancelled.iter().for_each(|lease| self.stop(lease, Stop::Cancelled));
    }

    /// What an error means for the worker: how long to wait before trying again, or its end.
    fn judge(&self, call: &str, error: ClientError) -> Result<Duration, End> {
        match error.code() {
            Some("worker_offline" | "unknown_worker") => return Err(End::Forgotten),
            Some("worker_draining") => return Err(End::Drain),
            // It has more than it said it can do, or feels unwell. Both pass.
            Some("worker_full" | "worker_unfit") => return Ok(RETRY_PAUSE),
            Some(_) | None => {}
        }
        // Whoever trusted the server once goes on trying: its certificate is being replaced.
        if !error.is_transient() && !matches!(error, ClientError::Untrusted(_)) {
            return Err(End::Fatal(error));
        }
        let pause = match &error {
            ClientError::Refused { retry_after: Some(wait), .. } => *wait,
            _ => RETRY_PAUSE,
        };
        self.tell(WorkerEvent::Unreachable { call: call.into(), message: error.to_string() });
        Ok(pause)
    }

    // ---- claims

    /// Asks for work on all queues until that ends on one of them.
    async fn claim_everywhere(self: &Arc<Self>) -> End {
        let mut loops = tokio::task::JoinSet::new();
        for index in 0..self.queues.len() {
            let incarnation = self.clone();
            loops.spawn(async move { incarnation.claim(index).await });
        }
        match loops.join_next().await {
            Some(Ok(end)) => end,
            Some(Err(error)) => End::Fatal(ClientError::Invalid(format!("a claim fell over: {error}"))),
            None => End::Fatal(ClientError::Invalid("a worker needs a queue".into())),
        }
    }

    async fn claim(self: &Arc<Self>, queue: usize) -> End {
        let queue = &self.queues[queue];
        loop {
            let Some(mut slots) = self.free_slots().await else { return End::Drain };
            self.life.paused.over().await;
            let number = self.claims_made.fetch_add(1, Ordering::Relaxed) + 1;
            lock(&self.unanswered).insert(number, queue.clone());
            let wait = if self.queues.len() == 1 { self.claim_wait } else { self.claim_wait.min(TURN) };
            let claim = Claim {
                queue: Some(queue.clone()),
                max: Some(slots.num_permits() as u32),
                wait_ms: Some(wait.as_millis() as u64),
                claim_no: Some(number),
                start: true,
                ..Claim::default()
            };
            let runs = loop {
                match self.client.claim(&self.worker_id, &claim).await {
                    Ok(claimed) => break claimed.runs,
                    Err(error) => match self.judge("claim", error) {
                        Ok(pause) => sleep(pause).await,
                        Err(end) => return end,
                    },
                }
            };
            lock(&self.unanswered).remove(&number);
            for run in runs {
                let slot = slots.split(1);
                let incarnation = self.clone();
                self.tasks.spawn(async move {
                    task::work(incarnation, run).await;
                    drop(slot);
                });
            }
        }
    }

    /// Waits for a free slot, and takes a fair share of those that are free besides it.
    async fn free_slots(&self) -> Option<OwnedSemaphorePermit> {
        let mut slots = self.life.slots.clone().acquire_owned().await.ok()?;
        let share = (self.life.slots.available_permits() / self.queues.len()).min(baton_proto::BATCH_LEASES_MAX) as u32;
        if let Ok(more) = self.life.slots.clone().try_acquire_many_owned(share) {
            slots.merge(more);
        }
        Some(slots)
    }

    // ---- the end

    /// Finishes what it holds; what takes longer than the drain timeout is stopped and given back.
    async fn drain(&self) -> End {
        self.tasks.close();
        let work = async {
            if !self.tasks.is_empty() {
                self.give_back_unanswered().await;
            }
            if tokio::time::timeout(self.drain_timeout, self.tasks.wait()).await.is_err() {
                self.stop_all(Stop::Shutdown);
                let last = self.stop_grace + GOODBYE_TIMEOUT;
                let _ = tokio::time::timeout(last, self.tasks.wait()).await;
            }
        };
        tokio::select! {
            () = work => End::Drain,
            end = self.beat(true) => end,
        }
    }

    /// The claim that was cut off may have brought runs. Nobody works on them, so while this worker still lives to
    /// finish others, they would be kept from everybody: ask for that answer again and give them back.
    async fn give_back_unanswered(&self) {
        let unanswered = std::mem::take(&mut *lock(&self.unanswered));
        for (number, queue) in unanswered {
            let claim = Claim { queue: Some(queue), max: Some(1), claim_no: Some(number), ..Claim::default() };
            let Ok(claimed) = self.client.claim(&self.worker_id, &claim).await else { continue };
            for run in claimed.runs {
                let reason = "the worker is stopping".into();
                let back = GiveBackRun { run_id: None, lease: run.lease, reason };
                // Should this fail, the goodbye gives it back.
                let _ = self.client.give_back(&run.run_id, &back).await;
            }
        }
    }
}

/// A panic while the lock was held left the map as it was: every change is a single call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
