//! Looks how much there is: runs in queues, workers, machines. Often while something happens or waits, seldom otherwise.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_core::statistics::{Measure, STEP, Subject};
use baton_store::{Depth, QueueId, StoreResult, WorkerStatus};

use super::Statistics;

/// Queues in one look. When there are more, those come first in which something happened or waits, and the others take turns.
const QUEUES_MAX: usize = 1_000;
/// Counting stops here: a deeper queue is shown as this deep.
const DEPTH_MAX: u64 = 100_000;
/// Namespaces and statuses of workers in one look.
const WORKER_COUNTS_MAX: usize = 3_000;
/// How often somebody looks at a system in which nothing happens and nothing waits.
const QUIET_EVERY: Millis = 60_000;
/// Looks take at most one part in so many of the time, however long one takes.
const SHARE: u32 = 50;
/// Whoever looks at a chart wants to see it move.
const ASKED: Duration = Duration::from_secs(60);
/// Passes come up to a tenth early.
const EARLY: Millis = STEP / 5;

/// What the last looks brought.
#[derive(Debug, Default)]
pub(super) struct Depths {
    /// When the last one was, on the store's clock.
    looked_at: Option<Millis>,
    /// Not before this moment, because the last one took long.
    rests_until: Option<Instant>,
    /// Queues with something in them, as far as is known.
    filled: BTreeMap<QueueId, Depth>,
    /// The queue that was looked at last of those that take turns.
    turn: QueueId,
}

impl Depths {
    /// True when runs wait or are held: a line that must not stand still.
    fn has_work(&self) -> bool {
        self.filled.values().any(|depth| depth.ready + depth.held > 0)
    }

    fn is_due(&self, now: Millis, is_busy: bool) -> bool {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let every = if is_busy || self.has_work() { STEP } else { QUIET_EVERY };
        // A clock that was set back is no reason to look no more.
        self.looked_at.is_none_or(|at| now < at || now - at >= every - EARLY)
    }

    /// The queues to look at now, of those that there are.
    fn choose(&mut self, all: &[QueueId], touched: &HashSet<QueueId>) -> Vec<QueueId> {
        if all.len() <= QUEUES_MAX {
            return all.to_vec();
        }
        let is_first = |queue: &QueueId| touched.contains(queue) || self.filled.contains_key(queue);
        let (first, others): (Vec<QueueId>, Vec<QueueId>) = all.iter().partition(|queue| is_first(queue));
        // A part is for those that take turns, however many come first.
        let mut chosen: Vec<QueueId> = first.into_iter().take(QUEUES_MAX * 9 / 10).collect();
        let behind = others.iter().filter(|queue| **queue > self.turn);
        let turns: Vec<QueueId> = behind
            .chain(others.iter().filter(|queue| **queue <= self.turn))
            .take(QUEUES_MAX - chosen.len())
            .copied()
            .collect();
        self.turn = turns.last().copied().unwrap_or(self.turn);
        chosen.extend(turns);
        chosen
    }
}

impl Statistics {
    /// Looks, if it is time to.
    pub(super) async fn look(&self) -> StoreResult<()> {
        let mut depths = self.depths.lock().await;
        let counters = &self.metrics.series;
        let touched = counters.touched();
        if !depths.is_due(counters.now(), !touched.is_empty() || self.was_asked_within(ASKED)) {
            counters.touch(touched);
            return Ok(());
        }
        let begun = Instant::now();
        let queues = self.lanes.queues();
        let touched: HashSet<QueueId> = touched.into_iter().filter_map(|lane| self.lanes.queue_of(lane)).collect();
        let all: Vec<QueueId> = queues.keys().copied().collect();
        let chosen = depths.choose(&all, &touched);
        for depth in self.store.depths(&chosen, DEPTH_MAX).await? {
            let is_empty = depth.ready + depth.scheduled + depth.held + depth.sleeping == 0;
            match is_empty {
                true => depths.filled.remove(&depth.queue),
                false => depths.filled.insert(depth.queue, depth),
            };
        }
        let mut levels = Vec::new();
        for (queue, depth) in &depths.filled {
            let Some(name) = queues.get(queue) else { continue };
            levels.push((Subject::queue(&name.namespace, &name.queue), levels_of(depth)));
        }
        for workers in self.store.worker_counts(WORKER_COUNTS_MAX).await? {
            let measure = match workers.status {
                WorkerStatus::Online => Measure::WorkersOnline,
                WorkerStatus::Draining => Measure::WorkersDraining,
                WorkerStatus::Offline => Measure::WorkersOffline,
            };
            levels.push((Subject::workers(&workers.namespace), vec![(measure, workers.count)]));
        }
        for ((namespace, name), pool) in self.pools.lock().expect("nobody panics while holding it").iter() {
            levels.push((Subject::pool(namespace, name), pool.clone()));
        }
        counters.looked(levels);
        self.metrics.statistics.looks.inc();
        depths.looked_at = Some(counters.now());
        // Where time is moved by hand, nothing takes long.
        depths.rests_until = self.store.clock().fixed().is_none().then(|| Instant::now() + begun.elapsed() * SHARE);
        Ok(())
    }
}

fn levels_of(depth: &Depth) -> Vec<(Measure, u64)> {
    vec![
        (Measure::Ready, depth.ready),
        (Measure::Scheduled, depth.scheduled),
        (Measure::Running, depth.held),
        (Measure::Sleeping, depth.sleeping),
        (Measure::OldestMs, depth.oldest_ms.unwrap_or(0).max(0).unsigned_abs()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_queues_those_with_work_come_first_and_all_others_get_their_turn() {
        let mut depths = Depths::default();
        let all: Vec<QueueId> = (1..=10_000).collect();
        depths.filled.insert(9_999, Depth::default());
        let touched = HashSet::from([5_000]);
        let mut seen = HashSet::new();
        for _ in 0..11 {
            let chosen = depths.choose(&all, &touched);
            assert!(chosen.len() <= QUEUES_MAX && chosen.contains(&9_999) && chosen.contains(&5_000));
            seen.extend(chosen);
        }
        assert_eq!(seen.len(), all.len(), "each was looked at");
        let busy: HashSet<QueueId> = (1..=5_000).collect();
        let chosen = depths.choose(&all, &busy);
        assert!(chosen.len() == QUEUES_MAX && chosen.iter().any(|queue| !busy.contains(queue)));
    }

    #[test]
    fn looks_are_frequent_while_runs_wait_and_seldom_otherwise() {
        let mut depths = Depths::default();
        assert!(depths.is_due(0, false), "the first look is at once");
        depths.looked_at = Some(100_000);
        assert!(!depths.is_due(100_000 + STEP, false) && depths.is_due(100_000 + STEP, true));
        assert!(depths.is_due(100_000 + QUIET_EVERY, false));
        assert!(depths.is_due(50_000, false), "the clock was set back");
        depths.filled.insert(1, Depth { ready: 412, ..Depth::default() });
        assert!(depths.is_due(100_000 + STEP, false), "412 runs wait and nobody comes");
        depths.filled.insert(1, Depth { sleeping: 1, ..Depth::default() });
        assert!(!depths.is_due(100_000 + STEP, false), "nothing changes by itself");
        depths.rests_until = Some(Instant::now() + Duration::from_secs(60));
        assert!(!depths.is_due(1_000_000, true), "the last look took long");
    }
}
