//! Runs for a stream: a poll is parked for as many as there are slots, and what it brings is handed over or goes back.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use baton_core::{Millis, RunId};
use baton_store::{CLAIM_RUNS_MAX, ClaimSlot, Claimed, Journal, LaneId, LaneName, LeaseRef, QueueId};
use tokio::time::Instant;

use crate::inboxes::Mailbox;
use crate::service::workflows::claim::{Taken, joined, journal_bytes_max, may_remember, remembered, taken};
use crate::service::{self, payloads};
use crate::workers::KnownWorker;
use crate::{App, Error};

/// How long a poll waits before it is parked anew.
const PARKED: Duration = Duration::from_secs(3_600);
/// Room of a poll from which on its stream's polls take turns. For fewer runs a claim each is dearer than what is won by doing two things at once.
const TURNS_MIN: u32 = 256;
/// Pause after what runs remember could not be read.
const STORE_PAUSE: Duration = Duration::from_millis(200);

/// Runs whose memories are read together at first; then twice as many, and so on.
const JOURNALS_FIRST: usize = 8;
/// Bytes of memories that are read for one claim. Nobody knows how much runs remember before it is read; when it is more, runs go back.
const JOURNAL_BYTES_MAX: usize = 32 << 20;

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
        // Below 0 it is none of the worker's.
        claim_no: -((app.entropy.bits() >> 2) as i64 + 1),
        start: false,
        lease_ms: None,
        asked_ms_ago: None,
    };
    let (queue, until) = (source.queue, Instant::now() + PARKED);
    let handed = match slot.room >= TURNS_MIN {
        true => app.dispatcher.poll_in_turn(queue, slot, until).await?,
        false => app.dispatcher.poll(queue, slot, until).await?,
    };
    let mut claimed = handed.runs;
    let runs: Vec<_> = claimed.iter().map(|run| LeaseRef { run: run.run, epoch: run.epoch }).collect();
    let mut undelivered = Undelivered { app: app.clone(), mailbox: mailbox.clone(), runs };
    // Before their inboxes are read: a message between the two would reach nobody.
    app.inboxes.hold(undelivered.runs.iter().map(|lease| lease.run), &mailbox);
    let (journals, now) = read(&app, &mut claimed).await?;
    drop(Undelivered { app: app.clone(), mailbox, runs: undelivered.runs.split_off(claimed.len()) });
    let mut runs = joined(&app, claimed, journals).await;
    loop {
        match payloads::fill_claimed(&app, &mut runs).await {
            Err(error) if passes(&error) => tokio::time::sleep(STORE_PAUSE).await,
            other => break other?,
        }
    }
    let taken = taken(&app, runs, now).await?;
    // Who could not be handed over has failed, or goes back when not even that was possible.
    let handed: HashSet<RunId> = taken.iter().map(|taken| taken.claimed.run).collect();
    undelivered.runs.retain(|lease| !handed.contains(&lease.run));
    Ok(taken)
}

/// What runs remember, a few at a time: many that remember much must not fill the memory together. Leaves out those for which there is no room.
/// One alone may need more than all, and is `None` when it remembers more than can be handed to anybody.
async fn read(app: &App, claimed: &mut Vec<Claimed>) -> Result<(Vec<Option<Journal>>, Millis), Error> {
    let (mut journals, mut now, mut bytes, mut done, mut together) = (Vec::new(), 0, 0, 0, JOURNALS_FIRST);
    while done < claimed.len() && bytes < JOURNAL_BYTES_MAX {
        let mut left = together;
        let fits = |run: &&Claimed| {
            left -= usize::from(may_remember(run));
            left > 0
        };
        let end = claimed.len().min(done + claimed[done..].iter().take_while(fits).count() + 1);
        let (some, at) = patiently(app, &claimed[done..end], (JOURNAL_BYTES_MAX - bytes) as u64).await?;
        now = at;
        let beyond = (done..end).filter(|index| may_remember(&claimed[*index])).nth(some.len());
        bytes += some.iter().map(Journal::bytes).sum::<usize>();
        journals.extend(some.into_iter().map(Some));
        done = beyond.unwrap_or(end);
        if beyond.is_some() {
            if !journals.is_empty() {
                break;
            }
            let (mut alone, at) = patiently(app, &claimed[done..=done], journal_bytes_max(app)).await?;
            now = at;
            bytes += alone.iter().map(Journal::bytes).sum::<usize>();
            journals.push(alone.pop());
            done += 1;
        }
        let average = bytes / journals.len().max(1);
        together = (2 * together).min(JOURNAL_BYTES_MAX.saturating_sub(bytes) / average.max(1) + 1);
    }
    claimed.truncate(done);
    Ok((journals, now))
}

async fn patiently(app: &App, claimed: &[Claimed], bytes_max: u64) -> Result<(Vec<Journal>, Millis), Error> {
    loop {
        match remembered(app, claimed, bytes_max).await {
            // They are this worker's by now: it gets them when the store and the storage can be reached again, and there is room for them.
            Err(error) if passes(&error) => tokio::time::sleep(STORE_PAUSE).await,
            other => return other,
        }
    }
}

/// True when trying again may go better.
fn passes(error: &Error) -> bool {
    matches!(error, Error::Unavailable | Error::StorageUnavailable | Error::Overloaded)
}

/// Runs that were claimed and have not reached the stream.
struct Undelivered {
    app: App,
    mailbox: Arc<Mailbox>,
    runs: Vec<LeaseRef>,
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        if !runs.is_empty() {
            self.app.inboxes.let_go(runs.iter().map(|lease| lease.run), &self.mailbox);
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
