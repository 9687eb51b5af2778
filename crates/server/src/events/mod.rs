//! What has happened, for those who listen: written to the store while somebody does, and read from there by every
//! server that has listeners. docs/adr/0026 has the reasons.
//!
//! Verbs note what they did after the commit. While nobody listens anywhere, that costs them one look at an atomic.

mod filter;
mod hub;
mod kind;
mod recorder;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_core::pools::{RunnerId, RunnerState};
use baton_core::{LateVerb, Millis, RunId, State, WorkerId};
use baton_proto::Event;
use baton_store::{EventServer, LaneId, Store, StoreResult, Verdict};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, mpsc};

pub use self::filter::EventFilter;
pub(crate) use self::hub::{Entry, Listener, SETTLES, forgotten, is_begun, is_start, missed, read_batch};
pub(crate) use self::kind::Kind;

use self::hub::Hub;
use self::kind::Wants;
use crate::entropy::Entropy;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::pool_names::PoolNames;
use crate::service::news::News;
use crate::traces::RunTraces;
use crate::webhooks::WebhookSignals;

/// Notes that wait to be written; more are lost, and those who listen are told so.
const NOTES_MAX: usize = 200_000;
/// How long events of a kind are written after its last listener has gone: it may come back, to any server.
const GRACE: Duration = Duration::from_secs(60);
/// How long what a server says about itself is believed.
const BELIEVED_MS: Millis = 30_000;
/// Most who listen at one server.
pub(crate) const LISTENERS_MAX: usize = 4_096;
/// Most who listen at one server with the same key.
pub(crate) const LISTENERS_PER_KEY_MAX: usize = 1_024;

/// Most who look through the past at the same time: it keeps a processor busy.
const REPLAYS_MAX: usize = 1;

/// Something that a verb did.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// A run was taken in.
    Submitted { run: RunId, lane: LaneId },
    /// A worker got a run.
    Claimed { run: RunId, lane: LaneId, worker: WorkerId },
    /// A run is in this state now, or in one that is to be found out. `why` is said of runs that have not ended.
    Changed { run: RunId, state: Option<State>, cancelling: bool, why: Option<&'static str> },
    /// A worker came, drains, or is gone.
    Worker { kind: Kind, worker: WorkerId, reason: Option<String> },
    /// A runner of a pool is in this state now.
    Runner { runner: RunnerId, state: RunnerState },
    /// A write was refused because its lease was over; this worker had that lease.
    Refused { run: RunId, worker: Option<WorkerId>, verb: LateVerb },
    /// Anything else, as it is told.
    Plain { kind: Kind, event: Box<Event> },
}

/// What things are called that notes have numbers of.
#[derive(Clone, Debug)]
pub struct Names {
    /// Queues and types.
    pub lanes: Arc<Lanes>,
    /// Runner pools.
    pub pools: Arc<PoolNames>,
}

/// What verbs and the recorder share.
#[derive(Debug, Default)]
struct Switch {
    /// Kinds that are written; bits.
    written: AtomicU32,
    /// Notes on their way.
    pending: AtomicUsize,
    /// True when notes were lost that nobody was told of yet.
    lost: AtomicBool,
}

/// How much has happened at this server: pages look at it to know whether to ask the store again.
#[derive(Debug, Default)]
pub struct Changes(AtomicU64);

impl Changes {
    /// A number that differs from an earlier one when something has happened since.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Says that something has happened.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The events of this server.
#[derive(Debug)]
pub struct Events {
    store: Arc<dyn Store>,
    server: String,
    switch: Arc<Switch>,
    notes: mpsc::Sender<(Instant, Vec<Note>)>,
    news: mpsc::Sender<News>,
    hub: Arc<Hub>,
    changes: Arc<Changes>,
    replays: Semaphore,
    /// Which hear of leases and runs that have ended.
    traces: Arc<RunTraces>,
    /// Held while what is listened for or written changes.
    wants: Mutex<Wants>,
}

impl Events {
    /// Starts the task that writes. Nobody listens yet.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        names: Names,
        entropy: &dyn Entropy,
        news: mpsc::Sender<News>,
        traces: Arc<RunTraces>,
        webhooks: Arc<WebhookSignals>,
        metrics: Arc<Metrics>,
    ) -> Events {
        static SERVERS: AtomicU64 = AtomicU64::new(0);
        let (notes, receiver) = mpsc::channel(NOTES_MAX);
        let (switch, hub) = (Arc::new(Switch::default()), Arc::new(Hub::new(store.clone(), webhooks, metrics)));
        tokio::spawn(recorder::record(store.clone(), names, switch.clone(), hub.clone(), receiver));
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let server = format!("{:016x}-{}-{number}", entropy.bits(), std::process::id());
        let replays = Semaphore::new(REPLAYS_MAX);
        Events {
            store,
            server,
            switch,
            notes,
            news,
            hub,
            changes: Arc::default(),
            replays,
            traces,
            wants: Mutex::default(),
        }
    }

    /// Counts what happens here.
    pub(crate) fn changes(&self) -> Arc<Changes> {
        self.changes.clone()
    }

    /// True when somebody, at any server, listens for one of these kinds.
    pub(crate) fn are_wanted(&self, kinds: u32) -> bool {
        self.written() & kinds != 0
    }

    /// Notes what was done. Call it after the commit.
    pub(crate) fn note(&self, notes: Vec<Note>) {
        if notes.is_empty() {
            return;
        }
        let count = notes.len();
        let waiting = self.switch.pending.fetch_add(count, Ordering::Relaxed);
        if waiting + count > NOTES_MAX || self.notes.try_send((Instant::now(), notes)).is_err() {
            self.switch.pending.fetch_sub(count, Ordering::Relaxed);
            self.switch.lost.store(true, Ordering::Relaxed);
            self.hub.metrics.events_lost.inc_by(count as u64);
        }
    }

    /// Runs were taken in.
    pub(crate) fn submitted(&self, runs: impl Iterator<Item = (RunId, LaneId)>) {
        self.changes.add();
        if self.are_wanted(Kind::RunSubmitted.bit()) {
            self.note(runs.map(|(run, lane)| Note::Submitted { run, lane }).collect());
        }
    }

    /// Workers got runs.
    pub(crate) fn claimed(&self, runs: impl Iterator<Item = (RunId, LaneId, WorkerId)>) {
        self.changes.add();
        if self.are_wanted(Kind::RunClaimed.bit()) {
            self.note(runs.map(|(run, lane, worker)| Note::Claimed { run, lane, worker }).collect());
        }
    }

    /// A verb was carried out on runs, or refused.
    pub(crate) fn settled<'a>(&self, runs: impl Iterator<Item = (RunId, &'a Verdict)> + Clone) {
        self.changes.add();
        if self.traces.is_on() {
            let let_go = |verdict: &Verdict| matches!(verdict, Verdict::Done { state, .. } if !state.is_held());
            self.traces.changed(runs.clone().filter(|(_, verdict)| let_go(verdict)).map(|(run, _)| run));
        }
        if !self.are_wanted(Kind::CHANGES) {
            return;
        }
        let changed = runs.filter_map(|(run, verdict)| match verdict {
            Verdict::Done { state, cancelling } => {
                Some(Note::Changed { run, state: Some(*state), cancelling: *cancelling, why: None })
            }
            Verdict::Refused(_) | Verdict::Unknown => None,
        });
        self.note(changed.collect());
    }

    /// Runs are in these states now, or in states that are to be found out.
    pub(crate) fn changed(&self, runs: impl Iterator<Item = (RunId, Option<State>, Option<&'static str>)> + Clone) {
        self.changes.add();
        if self.traces.is_on() {
            self.traces.changed(runs.clone().map(|(run, ..)| run));
        }
        if self.are_wanted(Kind::CHANGES) {
            let changed = runs.map(|(run, state, why)| Note::Changed { run, state, cancelling: false, why });
            self.note(changed.collect());
        }
    }

    /// Writes were refused because their leases were over, and that is on record.
    pub(crate) fn refused(&self, notes: Vec<Note>) {
        if notes.is_empty() {
            return;
        }
        self.changes.add();
        if self.are_wanted(Kind::RunWriteRefused.bit()) {
            self.note(notes);
        }
    }

    /// A worker came, drains, or is gone.
    pub(crate) fn worker(&self, kind: Kind, worker: WorkerId, reason: Option<&str>) {
        self.changes.add();
        if self.are_wanted(kind.bit()) {
            self.note(vec![Note::Worker { kind, worker, reason: reason.map(str::to_owned) }]);
        }
    }

    /// Runners of pools have moved.
    pub(crate) fn runners(&self, state: RunnerState, runners: &[RunnerId]) {
        self.changes.add();
        if self.are_wanted(Kind::RunnerChanged.bit()) {
            self.note(runners.iter().map(|runner| Note::Runner { runner: *runner, state }).collect());
        }
    }

    /// Anything else. It is made only when somebody listens.
    pub(crate) fn plain(&self, kind: Kind, event: impl FnOnce() -> Event) {
        self.changes.add();
        if self.are_wanted(kind.bit()) {
            self.note(vec![Note::Plain { kind, event: Box::new(event()) }]);
        }
    }

    // ---- those who listen

    /// Kinds that are written; bits.
    pub fn written(&self) -> u32 {
        self.switch.written.load(Ordering::Relaxed)
    }

    /// How many listen here, and how many of them with this key.
    pub fn listeners(&self, key_id: &str) -> (usize, usize) {
        self.hub.listeners(key_id)
    }

    /// Says that somebody here listens for these kinds from now on, and sees to it that they are written, here and by the
    /// other servers. Everything that happens here after this returns is written.
    pub(crate) async fn want(&self, kinds: u32) -> StoreResult<()> {
        let mut wants = self.wants.lock().await;
        wants.come(kinds);
        let missing = kinds & !self.written();
        if missing == 0 {
            return Ok(());
        }
        if let Err(error) = self.begin(missing, wants.now()).await {
            wants.go(kinds);
            return Err(error);
        }
        Ok(())
    }

    /// As [`Events::want`], for webhooks. At the start, before anything has happened here, nothing is missed by beginning only
    /// now; and what a server that was killed has lost is told by the next one.
    pub(crate) async fn want_for_webhooks(&self, kinds: u32, is_start: bool) -> StoreResult<()> {
        if is_start {
            let mut wants = self.wants.lock().await;
            wants.come(kinds);
            let written = self.switch.written.fetch_or(kinds, Ordering::Relaxed) | kinds;
            self.say(wants.now(), written).await?;
            if !self.store.is_shared() {
                let lost = self.store.forget_event_servers().await?;
                if lost != 0 {
                    self.store.write_events(1, recorder::mark(lost, hub::NOT_RECORDED)).await?;
                }
            }
        } else {
            self.want(kinds).await?;
        }
        if self.store.is_shared() {
            return Ok(());
        }
        // Believed no longer from the start: who finds it there knows that this server did not stop by itself.
        let own = EventServer { server: self.server.clone(), wants: 0, writes: self.written() };
        self.store.keep_event_server(&own, -1).await
    }

    /// Somebody who listened for these kinds is gone.
    pub(crate) async fn want_no_longer(&self, kinds: u32) {
        self.wants.lock().await.go(kinds);
    }

    /// Begins to write these kinds. Whoever goes on listening after a time when they were not written is told so.
    async fn begin(&self, kinds: u32, wants: u32) -> StoreResult<()> {
        let written = self.switch.written.fetch_or(kinds, Ordering::Relaxed) | kinds;
        let marked = async {
            self.store.write_events(1, recorder::mark(kinds, hub::BEGUN)).await?;
            self.say(wants, written).await
        };
        if let Err(error) = marked.await {
            self.switch.written.fetch_and(!kinds, Ordering::Relaxed);
            return Err(error);
        }
        let _ = self.news.try_send(News::Events);
        self.hub.written();
        Ok(())
    }

    /// Tells the other servers what is listened for and written here.
    async fn say(&self, wants: u32, writes: u32) -> StoreResult<()> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let own = EventServer { server: self.server.clone(), wants, writes };
        self.store.keep_event_server(&own, BELIEVED_MS).await
    }

    /// Finds out what is listened for anywhere, and writes that from now on. Returns the kinds.
    pub(crate) async fn look(&self) -> StoreResult<u32> {
        let mut wants = self.wants.lock().await;
        let own = wants.now();
        let others = match self.store.is_shared() {
            true => self.store.event_servers(&self.server).await?,
            false => baton_store::OtherServers::default(),
        };
        if others.any_gone {
            let lost = self.store.forget_event_servers().await?;
            if lost != 0 {
                // What it had not written yet is gone with it.
                self.store.write_events(1, recorder::mark(lost, hub::NOT_RECORDED)).await?;
            }
        }
        let (wanted, written) = (own | others.wants, self.written());
        if wanted & !written != 0 {
            self.begin(wanted & !written, own).await?;
        }
        self.switch.written.store(wanted, Ordering::Relaxed);
        if wanted | written != 0 {
            self.say(own, wanted).await?;
        }
        Ok(wanted)
    }

    /// The server stops: nothing more is written here. The others go on for a while, for those who come back to them.
    pub(crate) async fn stop(&self) {
        recorder::drain(&self.switch).await;
        let (wants, written) = (self.wants.lock().await.now(), self.switch.written.swap(0, Ordering::Relaxed));
        if wants | written != 0 {
            let _ = self.say(wants, 0).await;
        }
        if !self.store.is_shared() && self.switch.pending.load(Ordering::Relaxed) == 0 {
            // Nothing is lost.
            let own = EventServer { server: self.server.clone(), wants: 0, writes: 0 };
            let _ = self.store.keep_event_server(&own, 0).await;
        }
    }

    /// Attaches somebody who listens. Returns the position after which it is told everything.
    pub(crate) async fn attach(&self, listener: &Arc<Listener>, after: Option<i64>) -> StoreResult<i64> {
        let last = self.store.events_after(i64::MAX - 1, 1).await?.last;
        Ok(self.hub.attach(listener, last, after))
    }

    /// Waits until it is one's turn to look through the past.
    pub(crate) async fn replay_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.replays.acquire().await.ok()
    }

    /// Nobody listens there any more.
    pub(crate) fn detach(&self, listener: &Arc<Listener>) {
        self.hub.detach(listener);
    }
}
