//! Runs for a stream: a poll is parked for as many as there are slots, and what it brings is handed over or goes back.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{CLAIM_RUNS_MAX, ClaimSlot, LaneId, LaneName, LeaseRef, QueueId};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::inboxes::Mailbox;
use crate::service;
use crate::service::workflows::claim::{Taken, remembered, taken};
use crate::workers::KnownWorker;
use crate::{App, Error};

/// How long a poll waits before it is parked anew.
const PARKED: Duration = Duration::from_secs(3_600);
/// Pause after what runs remember could not be read.
const STORE_PAUSE: Duration = Duration::from_millis(200);

/// Polls of one stream: while what one has brought is on its way to the worker, the other one waits, and a submit finds
/// somebody to hand its runs to.
const POLLS_MAX: usize = 2;
/// Slots for which a second poll is worth it. What two polls bring at the same time may come in either order.
const SECOND_POLL_MIN: u32 = 16;

/// The polls of a stream that wait, and for how many runs.
#[derive(Default)]
pub(super) struct Polls {
    waiting: FuturesUnordered<BoxFuture<'static, (u32, Result<Vec<Taken>, Error>)>>,
    room: u32,
}

impl Polls {
    /// Parks polls for so many slots in all.
    pub(super) fn park(&mut self, slots: u32, claim: impl Fn(u32) -> BoxFuture<'static, Result<Vec<Taken>, Error>>) {
        while self.waiting.len() < POLLS_MAX && slots > self.room {
            let left = slots - self.room;
            let room = match (self.waiting.is_empty(), left >= 2 * SECOND_POLL_MIN) {
                // The first one leaves half of it to another.
                (true, true) => left.div_ceil(2),
                (false, _) if left < SECOND_POLL_MIN => return,
                _ => left,
            };
            let claiming = claim(room);
            self.waiting.push(Box::pin(async move { (room, claiming.await) }));
            self.room += room;
        }
    }

    /// What the next of them brings; never, when none waits.
    pub(super) async fn next(&mut self) -> Result<Vec<Taken>, Error> {
        match self.waiting.next().await {
            Some((room, taken)) => {
                self.room -= room;
                taken
            }
            None => std::future::pending().await,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Withdraws all of them.
    pub(super) fn withdraw(&mut self) {
        self.waiting.clear();
        self.room = 0;
    }
}

/// Where a stream's runs come from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    queue: QueueId,
    lanes: Vec<LaneId>,
}

impl Source {
    /// The lanes of a worker's types, on its (first) queue.
    pub(super) async fn of(app: &App, known: &KnownWorker) -> Result<Source, Error> {
        let queue = known.queues.first().ok_or(Error::Internal)?;
        let name =
            |kind: &String| LaneName { namespace: known.namespace.clone(), queue: queue.clone(), kind: kind.clone() };
        let lanes = app.lanes.get(known.types.iter().map(name).collect()).await?;
        let queue = lanes.first().ok_or(Error::Internal)?.queue;
        let mut lanes: Vec<_> = lanes.iter().map(|lane| lane.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        Ok(Source { queue, lanes })
    }
}

/// Waits for up to `room` runs. Whoever stops waiting gets none: what was claimed for it goes back.
pub(super) async fn claim(
    app: App,
    known: Arc<KnownWorker>,
    source: Source,
    mailbox: Arc<Mailbox>,
    room: u32,
) -> Result<Vec<Taken>, Error> {
    service::claim::check_status(&app, &known).await?;
    let slot = ClaimSlot {
        worker: known.id,
        name: known.name.clone(),
        lanes: source.lanes,
        room: room.min(CLAIM_RUNS_MAX as u32).min(known.max_concurrent.max(1)),
        // Nobody asks for it again: a number only has to be this claim's own, to find out what came of one that failed.
        claim_no: (app.entropy.bits() >> 2) as i64 + 1,
        start: false,
        lease_ms: None,
    };
    let claimed = app.dispatcher.poll(source.queue, slot, Instant::now() + PARKED).await?;
    let runs: Vec<_> = claimed.iter().map(|run| LeaseRef { run: run.run, epoch: run.epoch }).collect();
    let mut undelivered = Undelivered { app: app.clone(), runs };
    // Before their inboxes are read: a message between the two would reach nobody.
    app.inboxes.hold(undelivered.runs.iter().map(|lease| lease.run), &mailbox);
    let remembered = loop {
        match remembered(&app, &claimed).await {
            Ok(remembered) => break remembered,
            // They are this worker's by now: it gets them when the store can be reached again.
            Err(Error::Unavailable) => tokio::time::sleep(STORE_PAUSE).await,
            Err(error) => return Err(error),
        }
    };
    let taken = taken(&app, claimed, remembered).await?;
    undelivered.runs.clear();
    Ok(taken)
}

/// Runs that were claimed and have not reached the stream.
struct Undelivered {
    app: App,
    runs: Vec<LeaseRef>,
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        if !runs.is_empty() {
            let app = self.app.clone();
            tokio::spawn(async move { give_back(&app, runs).await });
        }
    }
}

/// Puts runs back that were claimed for a stream and never sent.
pub(super) async fn give_back(app: &App, runs: Vec<LeaseRef>) {
    let why = "the stream it was claimed for ended before it was sent";
    let runs = runs.into_iter().map(|lease| (lease, why.to_owned())).collect();
    if let Err(error) = service::workflows::finish::give_back(app, runs).await {
        // Its worker does not know of them, and says so with a heartbeat or a hello.
        tracing::warn!(%error, "runs that were not sent could not be put back");
    }
}
