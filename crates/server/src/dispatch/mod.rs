//! The dispatcher: waiting polls park in memory and cost nothing; one claimer per queue serves all of them.
//!
//! A lane is *clean* when the last look found nothing more in it and nobody has woken it since. A poll whose lanes are all
//! clean parks without a query. Whoever makes runs claimable wakes their lanes after the commit.

mod line;
mod offer;
mod waiting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_core::Millis;
use baton_store::{Asked, ClaimSlot, LaneId, Look, QueueId, Store, StoreResult, Woken};
use tokio::time::Instant;

use crate::entropy::Entropy;
use crate::events::Events;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::namespaces::KnownNamespaces;
use crate::{Error, dispatch::line::Line};

pub use self::offer::Offer;
pub use self::waiting::Handed;

/// All lines of waiting polls.
#[derive(Debug)]
pub struct Dispatcher {
    store: Arc<dyn Store>,
    lanes: Arc<Lanes>,
    namespaces: Arc<KnownNamespaces>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
    events: Arc<Events>,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    by_queue: HashMap<QueueId, Arc<Line>>,
    closed: bool,
}

impl Dispatcher {
    /// A dispatcher with nobody waiting.
    pub fn new(
        store: Arc<dyn Store>,
        lanes: Arc<Lanes>,
        namespaces: Arc<KnownNamespaces>,
        entropy: Arc<dyn Entropy>,
        metrics: Arc<Metrics>,
        events: Arc<Events>,
    ) -> Dispatcher {
        Dispatcher { store, lanes, namespaces, entropy, metrics, events, lines: Mutex::default() }
    }

    /// Waits in the queue's line until there is work for the slot or the deadline has passed (then: no runs).
    pub async fn poll(&self, queue: QueueId, slot: ClaimSlot, deadline: Instant) -> Result<Handed, Error> {
        let Some(line) = self.line_to_wait_in(queue, slot.lanes.first().copied()) else { return Ok(Handed::default()) };
        line.poll(slot, deadline, false).await
    }

    /// As [`Dispatcher::poll`], for a worker with several: one of them at a time goes to the store, so that the worker is busy with what
    /// it brought while the next one looks.
    pub async fn poll_in_turn(&self, queue: QueueId, slot: ClaimSlot, deadline: Instant) -> Result<Handed, Error> {
        let Some(line) = self.line_to_wait_in(queue, slot.lanes.first().copied()) else { return Ok(Handed::default()) };
        line.poll(slot, deadline, true).await
    }

    fn line_to_wait_in(&self, queue: QueueId, lane: Option<LaneId>) -> Option<Arc<Line>> {
        let mut lines = self.lines.lock().expect("nobody panics while holding it");
        if lines.closed {
            return None;
        }
        let line = lines.by_queue.entry(queue).or_insert_with(|| {
            let lane = lane.and_then(|lane| self.lanes.known_name(lane));
            let namespace = lane.map(|lane| lane.namespace.clone()).unwrap_or_default();
            let (store, entropy) = (self.store.clone(), self.entropy.clone());
            let line = Line::new(queue, namespace, store, entropy, self.metrics.clone(), self.events.clone());
            // Learnt before `turn` is called, which sees the line from here on: so one of the two closes it.
            line.turn(self.namespaces.is_disabled(line.namespace()));
            let line = Arc::new(line);
            tokio::spawn(line.clone().serve());
            line
        });
        Some(line.clone())
    }

    fn line_of(&self, lane: LaneId) -> Option<Arc<Line>> {
        let queue = self.lanes.queue_of(lane)?;
        self.lines.lock().expect("nobody panics while holding it").by_queue.get(&queue).cloned()
    }

    /// A poll that waits for runs of this lane, to be taken to the store together with them.
    pub fn offer(&self, lane: LaneId) -> Option<Offer> {
        self.line_of(lane)?.offer(lane)
    }

    /// Wakes whoever waits for these lanes in this process.
    pub fn wake(&self, woken: &Woken) {
        for lane in &woken.lanes {
            if let Some(line) = self.line_of(*lane) {
                line.wake(*lane);
            }
        }
        for (lane, ms) in &woken.later {
            self.wake_later(*lane, *ms);
        }
    }

    fn wake_later(&self, lane: LaneId, ms: Millis) {
        if let Some(line) = self.line_of(lane) {
            line.wake_in(ms);
        }
    }

    /// Looks at everything again: a queue's settings changed, or news was missed.
    pub fn wake_queue(&self, queue: QueueId) {
        let line = self.lines.lock().expect("nobody panics while holding it").by_queue.get(&queue).cloned();
        if let Some(line) = line {
            line.wake_all();
        }
    }

    /// Opens or closes the lines of a namespace, as it is known to be enabled or disabled.
    pub fn turn(&self, namespace: &str) {
        let lines = self.lines.lock().expect("nobody panics while holding it");
        for line in lines.by_queue.values().filter(|line| line.namespace() == namespace) {
            line.turn(self.namespaces.is_disabled(namespace));
        }
    }

    /// Lanes somebody is waiting for.
    pub fn waited_for(&self) -> Vec<LaneId> {
        let mut lanes: Vec<_> = self.all_lines().iter().flat_map(|line| line.waited_for()).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    /// Acts on a look at the store: what another server made claimable.
    pub fn looked(&self, look: &Look) {
        self.wake(&Woken { lanes: look.ready.clone(), later: look.later.clone(), ..Woken::default() });
    }

    /// Finds out about polls that parked without a look whether another server has answered their
    /// claims: with one statement for all.
    pub async fn ask_for_new(&self) -> StoreResult<()> {
        let unasked: Vec<_> = self.all_lines().into_iter().map(|line| (line.unasked(), line)).collect();
        let asked: Vec<Asked> = unasked.iter().flat_map(|(polls, _)| polls.iter().map(|(_, asked)| *asked)).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut answered = self.store.answered(asked).await?.into_iter();
        for (polls, line) in unasked {
            line.found(&polls.into_iter().map(|(number, _)| number).zip(&mut answered).collect());
        }
        Ok(())
    }

    fn all_lines(&self) -> Vec<Arc<Line>> {
        self.lines.lock().expect("nobody panics while holding it").by_queue.values().cloned().collect()
    }

    /// Polls that wait now.
    pub fn waiting(&self) -> usize {
        let lines = self.lines.lock().expect("nobody panics while holding it");
        lines.by_queue.values().map(|line| line.waiting()).sum()
    }

    /// Answers all polls with no runs, and every later one.
    pub fn close(&self) {
        let lines: Vec<_> = {
            let mut lines = self.lines.lock().expect("nobody panics while holding it");
            lines.closed = true;
            lines.by_queue.drain().map(|(_, line)| line).collect()
        };
        lines.iter().for_each(|line| line.close());
    }
}
