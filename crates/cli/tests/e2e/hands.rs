//! A worker inside the test, for exact control of what it claims and when it reports.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton::proto::{Batch, Claim, ClaimedRun, CompleteRun, Heartbeat, LeaseOf, RegisterWorker, RegisteredWorker};
use baton::{Client, ClientError};
use baton_core::State;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::site::{KIND, QUEUE};
use crate::wait::until_answered;

/// A worker that does nothing by itself but give signs of life. Dropping it lets it fall silent.
pub struct Hands {
    inner: Arc<Inner>,
    claims_made: AtomicU64,
    beats: JoinHandle<()>,
}

struct Inner {
    worker: RegisteredWorker,
    client: Mutex<Client>,
    held: Mutex<Vec<LeaseOf>>,
    /// Runs the server took away, and whatever else it answered to a heartbeat that ends a worker.
    complaints: Mutex<Vec<String>>,
}

impl Hands {
    /// Registers a worker that can hold this many runs.
    pub async fn register(client: &Client, concurrency: u32) -> Hands {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let registration = RegisterWorker {
            namespace: baton::proto::NAMESPACE_DEFAULT.into(),
            name: Some("hands".into()),
            queues: vec![QUEUE.into()],
            types: vec![KIND.into()],
            hostname: None,
            pid: None,
            version: None,
            labels: Default::default(),
            max_concurrent: Some(concurrency),
            instance: Some(format!("hands-{}", NUMBER.fetch_add(1, Ordering::Relaxed))),
        };
        let worker = until_answered(|| client.register(&registration)).await.expect("a good registration");
        let inner = Arc::new(Inner {
            worker,
            client: Mutex::new(client.clone()),
            held: Mutex::default(),
            complaints: Mutex::default(),
        });
        let beats = tokio::spawn(beat(inner.clone()));
        Hands { inner, claims_made: AtomicU64::new(0), beats }
    }

    /// Its identifier.
    pub fn id(&self) -> &str {
        &self.inner.worker.worker_id
    }

    /// Talks to another server from now on.
    pub fn turn_to(&self, client: &Client) {
        *lock(&self.inner.client) = client.clone();
    }

    /// Claims up to `max` runs, waits for them up to `wait`, and repeats the claim until it is answered.
    pub async fn claim(&self, max: u32, wait: Duration) -> Vec<ClaimedRun> {
        let claim = self.next_claim(max, wait);
        let claimed = until_answered(async || self.inner.client().claim(self.id(), &claim).await).await;
        let runs = claimed.expect("a good claim").runs;
        let leases =
            runs.iter().map(|run| LeaseOf { run_id: run.run_id.clone(), lease: run.lease.clone(), stopping: false });
        lock(&self.inner.held).extend(leases);
        runs
    }

    /// Sends one claim for one run, once, and returns its answer whatever it is.
    pub async fn claim_once(&self, wait: Duration) -> Result<Vec<ClaimedRun>, ClientError> {
        let claim = self.next_claim(1, wait);
        Ok(self.inner.client().claim(self.id(), &claim).await?.runs)
    }

    fn next_claim(&self, max: u32, wait: Duration) -> Claim {
        Claim {
            max: Some(max),
            wait_ms: Some(wait.as_millis() as u64),
            claim_no: Some(self.claims_made.fetch_add(1, Ordering::Relaxed) + 1),
            start: true,
            ..Claim::default()
        }
    }

    /// Claims until it has `count` runs in all, in the order it got them.
    pub async fn claim_all(&self, count: usize) -> Vec<ClaimedRun> {
        let mut runs = Vec::new();
        while runs.len() < count {
            let claimed = self.claim((count - runs.len()).min(1_000) as u32, Duration::from_secs(20)).await;
            assert!(!claimed.is_empty(), "only {} of {count} runs came", runs.len());
            runs.extend(claimed);
        }
        runs
    }

    /// Completes runs, and repeats the call until it is answered. Every one must be taken.
    pub async fn complete(&self, runs: &[ClaimedRun]) {
        if runs.is_empty() {
            return;
        }
        let report =
            |run: &ClaimedRun| CompleteRun { run_id: Some(run.run_id.clone()), lease: run.lease.clone(), output: None };
        let batch = Batch { runs: runs.iter().map(report).collect() };
        // Forgotten first: a heartbeat between the report and its answer must not be told that they are lost.
        lock(&self.inner.held).retain(|held| runs.iter().all(|run| run.lease != held.lease));
        let outcomes = until_answered(async || self.inner.client().complete_batch(&batch).await).await;
        for outcome in outcomes.expect("a good report").runs {
            assert_eq!(outcome.state, Some(State::Completed), "{outcome:?}");
        }
    }

    /// Says whether the server ever took a run away from it, or gave it up.
    pub fn complaints(&self) -> Vec<String> {
        lock(&self.inner.complaints).clone()
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

impl Inner {
    fn client(&self) -> Client {
        lock(&self.client).clone()
    }

    /// A run that was completed while the heartbeat was on its way is not lost.
    fn note_lost(&self, lost: Vec<String>) {
        let held = lock(&self.held);
        let lost = lost.into_iter().filter(|lost| held.iter().any(|lease| lease.run_id == *lost));
        lock(&self.complaints).extend(lost);
    }
}

async fn beat(inner: Arc<Inner>) {
    let interval = Duration::from_millis(inner.worker.heartbeat_interval_ms);
    loop {
        let heartbeat = Heartbeat { leases: lock(&inner.held).clone(), ..Heartbeat::default() };
        match inner.client().with_timeout(interval).heartbeat(&inner.worker.worker_id, &heartbeat).await {
            Ok(answer) => {
                inner.note_lost(answer.lost);
                sleep(interval).await;
            }
            Err(error) if error.is_transient() => sleep(interval / 5).await,
            Err(error) => return lock(&inner.complaints).push(error.to_string()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}
