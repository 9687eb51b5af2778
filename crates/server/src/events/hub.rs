//! Reads what was written, by any server, and hands it to those who listen here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_proto::{Event, Time};
use baton_store::{EventBatch, Store};
use tokio::sync::Notify;

use super::recorder::MARK;
use super::{EventFilter, Kind};
use crate::metrics::Metrics;
use crate::webhooks::WebhookSignals;

/// Batches in one read.
const BATCHES_MAX: usize = 16;
/// How often a store is looked at that other servers write to.
const LOOK: Duration = Duration::from_millis(250);
/// Pause after a read that failed.
const PAUSE: Duration = Duration::from_millis(500);
/// Events that wait for one listener; more are missed.
const BUFFER_EVENTS_MAX: usize = 8_192;
/// Events that a listener takes at once.
const TAKE_MAX: usize = 512;
/// Other servers begin to write within this time after somebody began to listen: that is no gap.
pub(crate) const SETTLES: Duration = Duration::from_secs(5);

/// Why events are missed.
pub(super) const NOT_RECORDED: &str = "not_recorded";
/// As `not_recorded`, by a server that begins to write because somebody asks for it.
pub(super) const BEGUN: &str = "begun";
const FORGOTTEN: &str = "forgotten";
const SLOW_READER: &str = "slow_reader";

/// Tells of events that were missed.
pub(crate) fn missed(id: i64, at: Time, reason: &str, count: Option<u64>) -> Arc<Event> {
    let reason = if is_begun(reason) { NOT_RECORDED } else { reason };
    Arc::new(Event { id, reason: Some(reason.to_owned()), count, ..Event::new("missed", at) })
}

/// Whether events were missed because nobody had asked for them before.
pub(crate) fn is_begun(reason: &str) -> bool {
    reason == BEGUN
}

/// What a batch holds.
pub(crate) enum Entry {
    /// Something that has happened.
    Event(Arc<Event>),
    /// Events of these kinds were not written before this.
    Gap { id: i64, kinds: u32, reason: String },
}

impl Entry {
    /// Its position.
    pub(crate) fn id(&self) -> i64 {
        match self {
            Entry::Event(event) => event.id,
            Entry::Gap { id, .. } => *id,
        }
    }
}

/// True when these are positions that a server has left out at its start.
pub(crate) fn is_start(batch: &EventBatch) -> bool {
    batch.body.is_empty()
}

/// Reads a batch, or of its events those of one namespace.
pub(crate) fn read_batch(batch: &EventBatch, namespace: Option<&str>) -> Vec<Entry> {
    let lines = batch.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // To find it is much cheaper than to read the line. One that says it of something else is sorted out later.
    let mention = namespace.map(|name| format!("\"namespace\":{}", serde_json::Value::from(name)));
    let is_foreign = |line: &[u8]| {
        let mention = mention.as_deref();
        mention.is_some_and(|mention| !std::str::from_utf8(line).is_ok_and(|line| line.contains(mention)))
    };
    let entries = lines.zip(batch.first..).filter_map(|(line, id)| {
        if let Some(mark) = line.strip_prefix(&[MARK]) {
            let (kinds, reason) = std::str::from_utf8(mark).ok()?.split_once(' ')?;
            return Some(Entry::Gap { id, kinds: kinds.parse().ok()?, reason: reason.to_owned() });
        }
        if is_foreign(line) {
            return None;
        }
        // One of a newer version that this one cannot read is left out.
        let event: Event = serde_json::from_slice(line).ok()?;
        Some(Entry::Event(Arc::new(Event { id, ..event })))
    });
    entries.collect()
}

/// Somebody who listens here.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) filter: EventFilter,
    pub(crate) key_id: String,
    /// Not told of servers that begin to write only now.
    is_new: bool,
    begun: Instant,
    buffer: Mutex<Buffer>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Buffer {
    /// Nothing up to here is for it.
    from: i64,
    events: VecDeque<Arc<Event>>,
    /// How many did not fit, and the last of them.
    missed: u64,
    last_missed: i64,
    /// Everything up to here was looked at.
    seen: i64,
}

impl Listener {
    /// One that hears nothing yet.
    pub(crate) fn new(filter: EventFilter, key_id: String, is_new: bool) -> Listener {
        let (begun, buffer, news) = (Instant::now(), Mutex::default(), Notify::new());
        Listener { filter, key_id, is_new, begun, buffer, news }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Buffer) -> T) -> T {
        change(&mut self.buffer.lock().expect("nobody panics while holding it"))
    }

    /// What is for this listener of an entry.
    pub(crate) fn heard(&self, entry: &Entry, at: Time) -> Option<Arc<Event>> {
        match entry {
            Entry::Event(event) => self.filter.matches(event).then(|| event.clone()),
            Entry::Gap { .. } if self.is_new && self.begun.elapsed() < SETTLES => None,
            Entry::Gap { id, kinds, reason } if kinds & self.filter.kinds() != 0 => Some(missed(*id, at, reason, None)),
            Entry::Gap { .. } => None,
        }
    }

    /// Keeps what is for it until it is taken; returns how many did not fit.
    fn push(&self, entries: &[Entry], last: i64, at: Time) -> u64 {
        let (is_woken, missed) = self.with(|buffer| {
            let missed_before = buffer.missed;
            for entry in entries {
                let id = entry.id();
                let Some(event) = self.heard(entry, at).filter(|_| id > buffer.from) else { continue };
                // Once one is missed, so are all until the listener has taken those before it.
                if buffer.missed > 0 || buffer.events.len() >= BUFFER_EVENTS_MAX {
                    buffer.missed += 1;
                    buffer.last_missed = id;
                } else {
                    buffer.events.push_back(event);
                }
            }
            buffer.seen = last.max(buffer.seen);
            (!buffer.events.is_empty(), buffer.missed - missed_before)
        });
        if is_woken {
            self.news.notify_one();
        }
        missed
    }

    /// What waits for it, and the position up to which it has heard everything then.
    pub(crate) fn take(&self, at: Time) -> (Vec<Arc<Event>>, i64) {
        self.with(|buffer| {
            let count = buffer.events.len().min(TAKE_MAX);
            let mut taken: Vec<_> = buffer.events.drain(..count).collect();
            if buffer.events.is_empty() && buffer.missed > 0 {
                let count = std::mem::take(&mut buffer.missed);
                taken.push(missed(buffer.last_missed, at, SLOW_READER, Some(count)));
            }
            let position = match buffer.events.is_empty() {
                true => buffer.seen.max(buffer.from),
                false => taken.last().map_or(buffer.from, |event| event.id),
            };
            (taken, position)
        })
    }

    /// Waits until there is something to take.
    pub(crate) async fn news(&self) {
        loop {
            let news = self.news.notified();
            if self.with(|buffer| !buffer.events.is_empty()) {
                return;
            }
            news.await;
        }
    }
}

/// Everybody who listens at this server.
#[derive(Debug)]
pub(super) struct Hub {
    store: Arc<dyn Store>,
    state: Mutex<State>,
    written: Notify,
    webhooks: Arc<WebhookSignals>,
    pub(super) metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct State {
    listeners: Vec<Arc<Listener>>,
    /// Everything up to here was handed out.
    position: i64,
    /// True while a task reads.
    is_reading: bool,
}

impl Hub {
    pub(super) fn new(store: Arc<dyn Store>, webhooks: Arc<WebhookSignals>, metrics: Arc<Metrics>) -> Hub {
        Hub { store, state: Mutex::default(), written: Notify::new(), webhooks, metrics }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("nobody panics while holding it"))
    }

    /// Something was written here.
    pub(super) fn written(&self) {
        self.written.notify_one();
        self.webhooks.events_written();
    }

    pub(super) fn listeners(&self, key_id: &str) -> (usize, usize) {
        self.with(|state| {
            let own = state.listeners.iter().filter(|listener| listener.key_id == key_id).count();
            (state.listeners.len(), own)
        })
    }

    /// Lets somebody hear what comes after a position: `last`, which was the last of all a moment ago; or, for one that
    /// wants to go on after `after`, wherever this server is. Returns the position.
    pub(super) fn attach(self: &Arc<Self>, listener: &Arc<Listener>, last: i64, after: Option<i64>) -> i64 {
        let (from, is_first) = self.with(|state| {
            let is_first = !std::mem::replace(&mut state.is_reading, true);
            if is_first {
                state.position = last;
            }
            let from = match after {
                None => last,
                Some(after) => state.position.max(after.min(last)),
            };
            listener.with(|buffer| (buffer.from, buffer.seen) = (from, from));
            state.listeners.push(listener.clone());
            self.metrics.event_listeners.set(state.listeners.len() as i64);
            (from, is_first)
        });
        if is_first {
            tokio::spawn(self.clone().read());
        }
        from
    }

    pub(super) fn detach(&self, listener: &Arc<Listener>) {
        self.with(|state| {
            state.listeners.retain(|other| !Arc::ptr_eq(other, listener));
            self.metrics.event_listeners.set(state.listeners.len() as i64);
        });
        // The task that reads ends when nobody is left.
        self.written.notify_one();
    }

    /// Reads as long as somebody listens.
    async fn read(self: Arc<Self>) {
        loop {
            let position = self.with(|state| {
                state.is_reading = !state.listeners.is_empty();
                state.is_reading.then_some(state.position)
            });
            let Some(position) = position else { return };
            match self.store.events_after(position, BATCHES_MAX).await {
                Ok(page) => {
                    let is_full = page.batches.len() == BATCHES_MAX;
                    page.batches.iter().for_each(|batch| self.hand_out(batch));
                    if is_full {
                        continue;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "events cannot be read now; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            let look = async {
                match self.store.is_shared() {
                    true => tokio::time::sleep(LOOK).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.written.notified() => {}
                () = look => {}
            }
        }
    }

    fn hand_out(&self, batch: &EventBatch) {
        let at = Time(self.store.clock().local());
        let mut entries = read_batch(batch, None);
        let listeners = self.with(|state| {
            if batch.first > state.position + 1 {
                entries.insert(0, forgotten(batch.first - 1));
            }
            state.position = batch.last;
            state.listeners.clone()
        });
        let missed: u64 = listeners.iter().map(|listener| listener.push(&entries, batch.last, at)).sum();
        self.metrics.events_missed.inc_by(missed);
    }
}

/// Whatever was before this position is no longer there.
pub(crate) fn forgotten(id: i64) -> Entry {
    Entry::Gap { id, kinds: Kind::all(), reason: FORGOTTEN.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(ids: std::ops::Range<i64>) -> Vec<Entry> {
        let event = |id| Event { id, namespace: Some("a".into()), ..Event::new("run.ended", Time(1)) };
        ids.map(|id| Entry::Event(Arc::new(event(id)))).collect()
    }

    #[test]
    fn a_listener_that_falls_behind_is_told_what_it_missed_and_goes_on() {
        let listener = Listener::new(EventFilter::default(), "key".into(), true);
        let most = BUFFER_EVENTS_MAX as i64;
        listener.push(&entries(1..most + 11), most + 10, Time(1));
        listener.push(&entries(most + 11..most + 21), most + 20, Time(1));
        let (mut ids, mut told) = (vec![], vec![]);
        while told.is_empty() {
            let (taken, position) = listener.take(Time(2));
            assert_eq!(taken.last().unwrap().id, position, "it goes on after what it has");
            let (events, missed): (Vec<_>, Vec<_>) = taken.into_iter().partition(|event| event.kind != "missed");
            ids.extend(events.iter().map(|event| event.id));
            told.extend(missed);
        }
        assert_eq!(ids, (1..=most).collect::<Vec<_>>());
        assert_eq!((told[0].count, told[0].reason.as_deref(), told[0].id), (Some(20), Some(SLOW_READER), most + 20));
        listener.push(&entries(most + 21..most + 22), most + 21, Time(1));
        let (taken, position) = listener.take(Time(2));
        assert_eq!((taken.len(), taken[0].id, position), (1, most + 21, most + 21));
    }

    #[test]
    fn what_others_are_told_moves_the_position_of_a_listener_that_waits() {
        let filter = EventFilter { namespace: Some("b".into()), ..EventFilter::default() };
        let listener = Listener::new(filter, "key".into(), true);
        listener.push(&entries(1..11), 10, Time(1));
        assert_eq!(listener.take(Time(2)), (vec![], 10));
    }

    #[test]
    fn the_events_of_one_namespace_are_found_whatever_is_in_them() {
        let of = |namespace: &str, queue: &str| Event {
            namespace: Some(namespace.into()),
            queue: Some(queue.into()),
            ..Event::new("run.ended", Time(1))
        };
        let events = [of("b", "q"), of("a \"b\"", "\"namespace\":\"b\""), of("b", "a"), of("c", "b")];
        let lines: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let batch = EventBatch { first: 5, last: 8, body: lines.join("\n").into() };
        let ids = |namespace| read_batch(&batch, namespace).iter().map(Entry::id).collect::<Vec<_>>();
        assert_eq!(ids(None), [5, 6, 7, 8]);
        assert_eq!(ids(Some("b")), [5, 7]);
        assert_eq!(ids(Some("a \"b\"")), [6]);
        assert_eq!(ids(Some("d")), Vec::<i64>::new());
    }

    #[test]
    fn gaps_are_told_to_those_who_go_on_and_listen_for_what_was_not_written() {
        let body = format!("!{} not_recorded\n", Kind::QueuePaused.bit());
        let batch = EventBatch { first: 7, last: 7, body: body.into() };
        let heard = |words: &str, is_new| {
            let filter = EventFilter::default().of_kinds(words).unwrap();
            let listener = Listener::new(filter, "key".into(), is_new);
            let heard = read_batch(&batch, None).iter().filter_map(|entry| listener.heard(entry, Time(1))).next();
            heard.map(|event| (event.id, event.reason.clone().unwrap_or_default(), event.count))
        };
        assert_eq!(heard("queue", false), Some((7, "not_recorded".to_owned(), None)));
        assert_eq!(heard("run", false), None);
        assert_eq!(heard("queue", true), None, "it has just come");
    }
}
