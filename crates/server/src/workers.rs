//! What this server remembers of workers, so that a poll of one that is known to be alive costs no query.
//! Only hints: the claim itself checks the worker's row.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::{Millis, WorkerId};
use baton_store::{Store, StoreResult, Worker, WorkerStatus};
use tokio::sync::Notify;

use crate::heartbeats::Heartbeats;

/// Most workers remembered; beyond it the memory starts anew.
const REMEMBERED_MAX: usize = 100_000;

/// The label that says what a builder calls itself.
pub const BUILDER_LABEL: &str = "builder";

/// A worker this server has seen.
#[derive(Debug)]
pub struct KnownWorker {
    /// Its identifier.
    pub id: WorkerId,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Queues it serves.
    pub queues: Vec<String>,
    /// Types it can do.
    pub types: Vec<String>,
    /// Runs it can hold at once.
    pub max_concurrent: u32,
    /// What it calls itself, if it is a builder of the polling protocol.
    pub builder: Option<String>,
    /// The API key it registered with.
    pub key_id: Option<String>,
    /// The number of its last claim that was answered here; `i64::MIN` when unknown.
    pub last_claim_no: AtomicI64,
    /// It may hold runs that it has not started: an answer may have been lost.
    pub may_hold_unstarted: AtomicBool,
    /// Wakes its heartbeats that wait for news.
    pub news: Notify,
    /// How long its leases live after each sign of life, as far as this server knows.
    pub ttl_ms: AtomicI64,
    status: Mutex<WorkerStatus>,
    /// When this server last renewed its leases.
    renewed: Mutex<Option<Instant>>,
    /// A sign of life of it is on its way to the store.
    pub(crate) is_renewing: AtomicBool,
    /// When it was heard of lately.
    pub(crate) heartbeats: Heartbeats,
}

impl KnownWorker {
    /// Notes that its leases were renewed, and where the store says it stands.
    pub fn confirm(&self, status: WorkerStatus) {
        *self.status.lock().expect("nobody panics while holding it") = status;
        *self.renewed.lock().expect("nobody panics while holding it") = Some(Instant::now());
    }

    /// Whether this server renewed its leases that recently.
    pub fn is_renewed_within(&self, age: Duration) -> bool {
        self.renewed.lock().expect("nobody panics while holding it").is_some_and(|at| at.elapsed() < age)
    }

    /// This many milliseconds, unless its leases live as long already.
    pub fn new_ttl_ms(&self, wanted: Millis) -> Option<Millis> {
        (self.ttl_ms.load(Ordering::Relaxed) != wanted).then_some(wanted)
    }

    /// Where the store said it stands when it was last asked.
    pub fn status(&self) -> WorkerStatus {
        *self.status.lock().expect("nobody panics while holding it")
    }

    /// Whether this number or a later one was asked with here.
    pub fn has_asked(&self, claim_no: i64) -> bool {
        claim_no <= self.last_claim_no.load(Ordering::Relaxed)
    }

    /// Claim numbers must be asked for again when they are not newer than the last one answered here.
    pub fn may_repeat(&self, claim_no: i64) -> bool {
        self.has_asked(claim_no) || self.last_claim_no.load(Ordering::Relaxed) == i64::MIN
    }
}

impl From<Worker> for KnownWorker {
    fn from(worker: Worker) -> KnownWorker {
        KnownWorker {
            id: worker.id,
            namespace: worker.namespace,
            name: worker.name,
            queues: worker.info.queues,
            types: worker.info.types,
            max_concurrent: worker.max_concurrent,
            builder: worker.info.labels.get(BUILDER_LABEL).cloned(),
            key_id: worker.key_id,
            last_claim_no: AtomicI64::new(i64::MIN),
            may_hold_unstarted: AtomicBool::new(true),
            news: Notify::new(),
            ttl_ms: AtomicI64::new(worker.lease_until - worker.seen_at),
            status: Mutex::new(worker.status),
            renewed: Mutex::default(),
            is_renewing: AtomicBool::new(false),
            heartbeats: Heartbeats::default(),
        }
    }
}

/// The workers this server has seen.
#[derive(Debug)]
pub struct Workers {
    store: Arc<dyn Store>,
    known: Mutex<HashMap<WorkerId, Arc<KnownWorker>>>,
    closed: AtomicBool,
}

impl Workers {
    /// Remembers nobody yet.
    pub fn new(store: Arc<dyn Store>) -> Workers {
        Workers { store, known: Mutex::default(), closed: AtomicBool::new(false) }
    }

    /// The worker, if there is one.
    pub async fn get(&self, id: WorkerId) -> StoreResult<Option<Arc<KnownWorker>>> {
        if let Some(known) = self.seen(id) {
            return Ok(Some(known));
        }
        let Some(worker) = self.store.worker(id).await? else { return Ok(None) };
        let worker = Arc::new(KnownWorker::from(worker));
        let mut known = self.known.lock().expect("nobody panics while holding it");
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        Ok(Some(known.entry(id).or_insert(worker).clone()))
    }

    /// The worker, if this server has seen it.
    pub fn seen(&self, id: WorkerId) -> Option<Arc<KnownWorker>> {
        self.known.lock().expect("nobody panics while holding it").get(&id).cloned()
    }

    /// Forgets a worker that is gone.
    pub fn forget(&self, id: WorkerId) {
        let gone = self.known.lock().expect("nobody panics while holding it").remove(&id);
        if let Some(known) = gone {
            known.news.notify_waiters();
        }
    }

    /// There is news for this worker: a heartbeat of it that waits here is answered now.
    pub fn tell(&self, id: WorkerId) {
        if let Some(known) = self.seen(id) {
            known.news.notify_waiters();
        }
    }

    /// Answers all heartbeats that wait; later ones do not wait.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for known in self.known.lock().expect("nobody panics while holding it").values() {
            known.news.notify_waiters();
        }
    }

    /// True when the server is stopping.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
