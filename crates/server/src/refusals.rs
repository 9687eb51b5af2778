//! Writes that were refused because their lease was over. They are gathered beside the calls, and noted in the store a few
//! times a second, so that only what is refused pays for the record, and little.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::{LateVerb, Millis};
use baton_store::{LateWrite, LeaseRef, NewRefusal, REFUSED_BATCH_MAX, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::events::{Events, Note};
use crate::metrics::Metrics;
use crate::service::NAME_BYTES_MAX;

/// How long refusals gather. One batch is noted in this time, however many come.
const GATHER: Duration = Duration::from_millis(250);
/// Refusals that wait to be noted, those that want the same counted once; more are only counted.
const WAITING_MAX: usize = 8_192;
/// How often a batch is tried while the store cannot be reached.
const TRIES_MAX: u32 = 40;
/// How long a server that stops waits for the last ones.
const DRAIN: Duration = Duration::from_secs(2);

/// A write under a lease, as far as it matters when it is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseWrite<'a> {
    /// The lease that is shown.
    pub lease: LeaseRef,
    /// What is to be done.
    pub verb: LateVerb,
    /// Where in a workflow.
    pub position: Option<u32>,
    /// The name of a step or of a file.
    pub name: &'a str,
    /// The size of the payload.
    pub bytes: usize,
}

impl LeaseWrite<'static> {
    /// A write without name and payload.
    pub(crate) fn new(lease: LeaseRef, verb: LateVerb) -> LeaseWrite<'static> {
        LeaseWrite { lease, verb, position: None, name: "", bytes: 0 }
    }

    /// The same with a payload of this size.
    pub(crate) fn with_bytes(self, bytes: usize) -> LeaseWrite<'static> {
        LeaseWrite { bytes, ..self }
    }
}

/// What is told apart on record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct What {
    lease: LeaseRef,
    verb: LateVerb,
    position: Option<u32>,
}

#[derive(Clone, Debug)]
struct Gathered {
    name: String,
    bytes: u64,
    times: u64,
    first: Instant,
    last: Instant,
}

type Waiting = Mutex<HashMap<What, Gathered>>;

/// The refusals of this server that are still to be noted.
#[derive(Debug)]
pub struct Refusals {
    waiting: Arc<Waiting>,
    wake: mpsc::Sender<Option<oneshot::Sender<()>>>,
    metrics: Arc<Metrics>,
}

impl Refusals {
    /// Starts the task that notes them.
    pub(crate) fn start(store: Arc<dyn Store>, events: Arc<Events>, metrics: Arc<Metrics>) -> Refusals {
        let (wake, woken) = mpsc::channel(1);
        let waiting = Arc::new(Waiting::default());
        tokio::spawn(note_all(store, events, waiting.clone(), woken));
        Refusals { waiting, wake, metrics }
    }

    /// A write was refused because its lease is over.
    pub(crate) fn note(&self, write: LeaseWrite<'_>) {
        self.metrics.lease_refusals.inc();
        self.gather(write);
    }

    /// A worker renews leases that it does not have any more.
    pub(crate) fn note_renewals(&self, leases: &[LeaseRef]) {
        leases.iter().for_each(|lease| self.gather(LeaseWrite::new(*lease, LateVerb::Renew)));
    }

    fn gather(&self, write: LeaseWrite<'_>) {
        let what = What { lease: write.lease, verb: write.verb, position: write.position };
        let now = Instant::now();
        {
            let mut waiting = locked(&self.waiting);
            let is_full = waiting.len() >= WAITING_MAX;
            match waiting.entry(what) {
                Entry::Occupied(known) => {
                    let known = known.into_mut();
                    known.times += 1;
                    known.last = now;
                    known.bytes = known.bytes.max(write.bytes as u64);
                }
                Entry::Vacant(_) if is_full => {
                    self.metrics.lease_refusals_dropped.inc();
                    return;
                }
                Entry::Vacant(free) => {
                    let most = NAME_BYTES_MAX.min(write.name.len());
                    let end = (0..=most).rfind(|end| write.name.is_char_boundary(*end)).unwrap_or(0);
                    let (name, bytes) = (write.name[..end].to_owned(), write.bytes as u64);
                    free.insert(Gathered { name, bytes, times: 1, first: now, last: now });
                }
            }
        }
        // Full means that the task is awake already.
        let _ = self.wake.try_send(None);
    }

    /// Notes what is left, within limits. The server stops.
    pub(crate) async fn stop(&self) {
        let (done, is_done) = oneshot::channel();
        let stopping = async {
            if self.wake.send(Some(done)).await.is_ok() {
                let _ = is_done.await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, stopping).await;
    }
}

fn locked(waiting: &Waiting) -> MutexGuard<'_, HashMap<What, Gathered>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn note_all(
    store: Arc<dyn Store>,
    events: Arc<Events>,
    waiting: Arc<Waiting>,
    mut woken: mpsc::Receiver<Option<oneshot::Sender<()>>>,
) {
    while let Some(stopping) = woken.recv().await {
        loop {
            if stopping.is_none() {
                tokio::time::sleep(GATHER).await;
            }
            let batch = taken(&waiting, &*store);
            if batch.is_empty() {
                break;
            }
            note_batch(&*store, &events, batch).await;
        }
        if let Some(stopping) = stopping {
            let _ = stopping.send(());
        }
    }
}

/// Takes a batch out of what waits.
fn taken(waiting: &Waiting, store: &dyn Store) -> Vec<LateWrite> {
    let is_by_hand = store.clock().fixed().is_some();
    let ms_ago = |at: Instant| if is_by_hand { 0 } else { at.elapsed().as_millis() as Millis };
    let mut waiting = locked(waiting);
    let keys: Vec<What> = waiting.keys().take(REFUSED_BATCH_MAX).copied().collect();
    let mut batch = Vec::with_capacity(keys.len());
    for what in keys {
        let Some(gathered) = waiting.remove(&what) else { continue };
        batch.push(LateWrite {
            lease: what.lease,
            verb: what.verb,
            position: what.position,
            name: gathered.name,
            bytes: gathered.bytes,
            times: gathered.times,
            first_ms_ago: ms_ago(gathered.first),
            last_ms_ago: ms_ago(gathered.last),
        });
    }
    batch
}

/// Notes a batch, and tells listeners. What cannot be noted for long is lost: the calls were refused all the same.
async fn note_batch(store: &dyn Store, events: &Events, mut batch: Vec<LateWrite>) {
    for _ in 0..TRIES_MAX {
        match store.note_refused(batch.clone()).await {
            Ok(new) => return events.refused(new.into_iter().map(told).collect()),
            Err(StoreError::Unavailable(error)) => {
                tracing::debug!(error, "refused writes cannot be noted now; trying again");
                tokio::time::sleep(GATHER).await;
                for write in &mut batch {
                    write.first_ms_ago += GATHER.as_millis() as Millis;
                    write.last_ms_ago += GATHER.as_millis() as Millis;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "refused writes could not be noted");
                return;
            }
        }
    }
}

fn told(new: NewRefusal) -> Note {
    Note::Refused { run: new.lease.run, worker: new.worker, verb: new.verb }
}
