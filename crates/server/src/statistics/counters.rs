//! What is counted since it was last written down: in memory, bounded, and with the moment on the store's clock.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use baton_core::statistics::{Block, Bucket, MINUTE, Measure, Numbers, STEP, Subject, floor};
use baton_core::{LeaseEnd, Millis, State};
use baton_store::{Claimed, Clock, LaneId, Settled};

use crate::lanes::Lanes;

/// Queues, and what is counted of them together, in one bucket in memory. What comes when it is full is counted with others of
/// its namespace.
pub(super) const SUBJECTS_MAX: usize = 1_000;
/// Lanes that are counted without their names being looked up.
const HOT_MAX: usize = 2_000;
/// Blocks that wait to be written: two hours of them. The oldest is lost when there are more.
const PENDING_MAX: usize = 120;
/// A server that has said nothing for so long stood still, or clocks were moved: that is a gap. Longer than a pass may take.
const UP_MAX: Millis = 90_000;
/// Steps back that are no more than a clock being set right.
const JITTER_MAX: Millis = 5_000;

/// A minute that is over, and is written down.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) seq: i64,
    pub(super) at: Millis,
    pub(super) block: Block,
}

/// Where names and times come from.
#[derive(Debug)]
struct Sources {
    lanes: Arc<Lanes>,
    clock: Clock,
    is_shared: bool,
    begun: Instant,
    /// The time on the store's clock when `begun` was: set right with every answer that tells the time.
    store_began: AtomicI64,
}

impl Sources {
    fn now(&self) -> Millis {
        if let Some(now) = self.clock.fixed() {
            return now;
        }
        match self.is_shared {
            // The store's clock goes on as this machine's monotonic one does.
            true => self.store_began.load(Ordering::Relaxed) + self.begun.elapsed().as_millis() as Millis,
            // The store is in this process, and its clock is this machine's.
            false => self.clock.local(),
        }
    }
}

/// The counters of this server. Nothing is counted before it knows names and times.
#[derive(Debug, Default)]
pub struct Counters {
    sources: OnceLock<Sources>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The beginning of the bucket that is being filled.
    at: Millis,
    /// What was counted in it, by lane.
    hot: HashMap<LaneId, Numbers>,
    /// The number of the block that is being filled. A block has its number from its first bucket on, so that whoever looks at
    /// it while it is being written can tell that it is the same.
    seq: i64,
    /// The minute that is being filled.
    minute: Millis,
    block: Option<Block>,
    /// Minutes that are over. Each stays here until the store has said that it has it.
    pending: VecDeque<Arc<Sealed>>,
    /// Lanes on which something has happened since the depths were looked at.
    touched: HashSet<LaneId>,
    /// Blocks that were lost because there were too many.
    lost: u64,
}

impl Counters {
    /// Begins to count. `now` is the time on the store's clock.
    pub(crate) fn begin(&self, lanes: Arc<Lanes>, clock: Clock, is_shared: bool, now: Millis) {
        let store_began = AtomicI64::new(now);
        let _ = self.sources.set(Sources { lanes, clock, is_shared, begun: Instant::now(), store_began });
        self.with(|_, _| ());
    }

    /// Notes the time on the store's clock.
    pub(super) fn note_time(&self, now: Millis) {
        if let Some(sources) = self.sources.get() {
            sources.store_began.store(now - sources.begun.elapsed().as_millis() as Millis, Ordering::Relaxed);
        }
    }

    /// The time on the store's clock, as far as it is known.
    pub(super) fn now(&self) -> Millis {
        self.sources.get().map_or(0, Sources::now)
    }

    /// Changes what is counted now.
    fn with<T: Default>(&self, change: impl FnOnce(&mut Memory, &Lanes) -> T) -> T {
        let Some(sources) = self.sources.get() else { return T::default() };
        let now = sources.now();
        let mut memory = self.memory.lock().expect("nobody panics while holding it");
        memory.roll(now, &sources.lanes);
        change(&mut memory, &sources.lanes)
    }

    /// Runs of these lanes were taken in.
    pub(crate) fn submitted(&self, lanes: impl Iterator<Item = LaneId>) {
        let mut lanes = lanes.peekable();
        if lanes.peek().is_some() {
            self.with(|memory, names| lanes.for_each(|lane| memory.of(lane, names).add(Measure::Submitted, 1)));
        }
    }

    /// Runs were handed out.
    pub(crate) fn claimed<'a>(&self, runs: impl Iterator<Item = &'a Claimed>) {
        let mut runs = runs.peekable();
        if runs.peek().is_some() {
            self.with(|memory, names| {
                for run in runs {
                    let numbers = memory.of(run.lane, names);
                    numbers.add(Measure::Claimed, 1);
                    numbers.wait.note(run.waited_ms);
                }
            });
        }
    }

    /// Runs have ended, or are no longer held.
    pub(crate) fn settled(&self, settled: &[Settled]) {
        if !settled.is_empty() {
            self.with(|memory, names| settled.iter().for_each(|one| note(memory.of(one.lane, names), one)));
        }
    }

    /// A claim got machines of a pool: so many that were there before it, and so many that were made for it.
    pub(crate) fn pool_claim_filled(&self, namespace: &str, pool: &str, warm: u64, cold: u64) {
        self.with(|memory, _| {
            let numbers = memory.bucket().of(Subject::pool(namespace, pool), SUBJECTS_MAX);
            numbers.add(Measure::WarmHits, warm);
            numbers.add(Measure::ColdHits, cold);
        });
    }

    /// Notes what a look brought, at this moment.
    pub(super) fn looked(&self, levels: Vec<(Subject, Vec<(Measure, u64)>)>) {
        self.with(|memory, _| {
            let bucket = memory.bucket();
            bucket.looks += 1;
            for (subject, levels) in levels {
                let numbers = bucket.of(subject, SUBJECTS_MAX);
                levels.into_iter().for_each(|(measure, level)| numbers.add(measure, level));
            }
        });
    }

    /// Lanes on which something has happened since this was asked last.
    pub(super) fn touched(&self) -> HashSet<LaneId> {
        self.with(|memory, _| {
            memory.touched.extend(memory.hot.keys());
            std::mem::take(&mut memory.touched)
        })
    }

    /// Nobody looked at these after all.
    pub(super) fn touch(&self, lanes: HashSet<LaneId>) {
        self.with(|memory, _| memory.touched.extend(lanes));
    }

    /// Says that the server is up, and closes minutes that are over.
    pub(super) fn tick(&self) {
        self.with(|_, _| ());
    }

    /// Closes the minute that is being filled.
    pub(super) fn close(&self) {
        self.with(|memory, names| {
            memory.flush(names);
            memory.seal();
        });
    }

    /// The oldest block that is to be written.
    pub(super) fn next(&self) -> Option<Arc<Sealed>> {
        self.memory.lock().expect("nobody panics while holding it").pending.front().cloned()
    }

    /// The store has this block.
    pub(super) fn written(&self, seq: i64) {
        self.memory.lock().expect("nobody panics while holding it").pending.retain(|sealed| sealed.seq != seq);
    }

    /// Blocks that were lost because the store could not be written for too long.
    pub(super) fn lost(&self) -> u64 {
        self.memory.lock().expect("nobody panics while holding it").lost
    }

    /// Everything that the store does not have for sure, with the numbers of the blocks. Ask before reading the store: what is
    /// not here then is there.
    pub(super) fn unwritten(&self) -> Vec<Arc<Sealed>> {
        self.with(|memory, names| {
            memory.flush(names);
            let mut blocks: Vec<Arc<Sealed>> = memory.pending.iter().cloned().collect();
            if let Some(block) = &memory.block {
                blocks.push(Arc::new(Sealed { seq: memory.seq, at: memory.minute, block: block.clone() }));
            }
            blocks
        })
    }
}

/// Counts what became of a run.
fn note(numbers: &mut Numbers, settled: &Settled) {
    match settled.end {
        Some(LeaseEnd::Lost) => numbers.add(Measure::Lost, 1),
        Some(LeaseEnd::GivenBack) if !settled.state.is_ended() => numbers.add(Measure::Returned, 1),
        Some(LeaseEnd::Failed | LeaseEnd::TimedOut) if !settled.state.is_ended() => numbers.add(Measure::Retried, 1),
        Some(LeaseEnd::GivenBack | LeaseEnd::Failed | LeaseEnd::TimedOut) => {}
        Some(LeaseEnd::Completed | LeaseEnd::Slept | LeaseEnd::Cancelled) | None => {}
    }
    match (settled.state, settled.reason) {
        (State::Completed, _) => numbers.add(Measure::Completed, 1),
        (State::Cancelled, _) => numbers.add(Measure::Cancelled, 1),
        (State::Failed, reason) => numbers.add(Measure::Failed(reason.unwrap_or(baton_core::Reason::Error)), 1),
        (State::Pending | State::Assigned | State::Running | State::Sleeping, _) => return,
    }
    if let Some(ms) = settled.held_ms {
        numbers.duration.note(ms);
    }
}

impl Memory {
    /// Goes on to the bucket of this moment. Those between it and the last one were quiet, unless they are so many that the
    /// server must have stood still, or clocks were moved.
    fn roll(&mut self, now: Millis, names: &Lanes) {
        let target = match self.at - now {
            back if (1..=JITTER_MAX).contains(&back) => self.at,
            _ => floor(now, STEP),
        };
        if target == self.at && self.block.is_some() {
            return;
        }
        self.flush(names);
        if self.block.is_some() && (STEP..=UP_MAX).contains(&(target - self.at)) {
            while self.at + STEP < target {
                self.enter(self.at + STEP);
            }
        }
        self.enter(target);
    }

    fn enter(&mut self, at: Millis) {
        let minute = floor(at, MINUTE);
        if self.block.is_none() || self.minute != minute {
            self.seal();
            self.seq += 1;
            self.minute = minute;
            self.block = Some(Block::new(STEP));
        }
        self.at = at;
        self.bucket();
    }

    /// The bucket that is being filled.
    fn bucket(&mut self) -> &mut Bucket {
        let block = self.block.get_or_insert_with(|| Block::new(STEP));
        block.buckets.entry(self.at).or_default()
    }

    /// The numbers of a lane.
    fn of(&mut self, lane: LaneId, names: &Lanes) -> &mut Numbers {
        if self.hot.len() >= HOT_MAX && !self.hot.contains_key(&lane) {
            self.flush(names);
        }
        self.hot.entry(lane).or_default()
    }

    /// Counts what was counted by lane as what people call it.
    fn flush(&mut self, names: &Lanes) {
        if self.hot.is_empty() {
            return;
        }
        let hot = std::mem::take(&mut self.hot);
        self.touched.extend(hot.keys());
        let bucket = self.bucket();
        for (lane, numbers) in hot {
            let subject = match names.known_name(lane) {
                Some(name) => Subject::queue(&name.namespace, &name.queue),
                None => Subject::queue("", ""),
            };
            bucket.of(subject, SUBJECTS_MAX).merge(&numbers);
        }
    }

    /// The minute is over.
    fn seal(&mut self) {
        let Some(block) = self.block.take() else { return };
        self.pending.push_back(Arc::new(Sealed { seq: self.seq, at: self.minute, block }));
        if self.pending.len() > PENDING_MAX {
            self.pending.pop_front();
            self.lost += 1;
        }
    }
}

/// Blocks as they add up, whoever has them.
pub(super) fn by_seq(blocks: Vec<Arc<Sealed>>) -> BTreeMap<i64, Arc<Sealed>> {
    blocks.into_iter().map(|sealed| (sealed.seq, sealed)).collect()
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
