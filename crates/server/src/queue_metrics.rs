//! Numbers about queues: how deep they are, how long runs wait and how long they take. Each name of
//! a queue is a series, so their number is limited; what goes beyond is shown together as `other`.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use baton_core::{Millis, RunId};
use baton_store::{Claimed, Depth, LaneId, Queue};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::lanes::Lanes;
use crate::metrics::{Book, Label};

/// Queues that are shown by their names: the deepest.
pub(crate) const QUEUES_SHOWN_MAX: usize = 100;
/// Queues and types whose times are shown by their names: the first that this server handed out.
const LANES_SHOWN_MAX: usize = 100;
/// Runs of which it is remembered when they were handed out. Only to tell how long they took, so
/// they are all forgotten when there are more.
const HELD_MAX: usize = 100_000;
/// What stands for all that are not shown.
const OTHER: &str = "other";

/// From 5 ms to 12 hours: what waits and runs does so for very different times.
fn spans() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 3.0, 15))
}

#[derive(Clone, Debug)]
struct LaneTimes {
    wait: Histogram,
    duration: Histogram,
}

/// Everything that is counted about queues.
#[derive(Debug)]
pub struct QueueMetrics {
    runs: Family<[Label; 3], Gauge>,
    oldest: Family<[Label; 2], Gauge<f64, AtomicU64>>,
    wait: Family<[Label; 3], Histogram, fn() -> Histogram>,
    duration: Family<[Label; 3], Histogram, fn() -> Histogram>,
    lanes: OnceLock<Arc<Lanes>>,
    times: Mutex<HashMap<LaneId, LaneTimes>>,
    held: Mutex<HashMap<RunId, (LaneId, Instant)>>,
    /// When the depths were looked at last.
    pub(crate) looked: tokio::sync::Mutex<Option<Instant>>,
}

impl QueueMetrics {
    pub(crate) fn register(book: &mut Book<'_>) -> QueueMetrics {
        let metrics = QueueMetrics {
            runs: Family::default(),
            oldest: Family::default(),
            wait: Family::new_with_constructor(spans),
            duration: Family::new_with_constructor(spans),
            lanes: OnceLock::new(),
            times: Mutex::default(),
            held: Mutex::default(),
            looked: tokio::sync::Mutex::default(),
        };
        let own = &["namespace", "queue"];
        book.add(
            "queue_runs",
            &["namespace", "queue", "state"],
            "Runs in a queue that are `ready` to be claimed, `scheduled` for later, `running` or `sleeping`. \
             Counting stops at 100000 of each",
            metrics.runs.clone(),
        );
        book.add(
            "queue_oldest_seconds",
            own,
            "How long the oldest run of a queue that could be claimed has been waiting; 0 when there is none",
            metrics.oldest.clone(),
        );
        let lane = &["namespace", "queue", "type"];
        book.add(
            "run_wait_seconds",
            lane,
            "How long runs that this server handed out had been due before",
            metrics.wait.clone(),
        );
        book.add(
            "run_duration_seconds",
            lane,
            "From the claim of a run to its end, where this server saw both",
            metrics.duration.clone(),
        );
        metrics
    }

    /// Says where names of lanes are known.
    pub(crate) fn use_names(&self, lanes: Arc<Lanes>) {
        let _ = self.lanes.set(lanes);
    }

    fn times(&self, lane: LaneId) -> LaneTimes {
        let mut times = self.times.lock().expect("nobody panics while holding it");
        if let Some(known) = times.get(&lane) {
            return known.clone();
        }
        let name = self.lanes.get().and_then(|lanes| lanes.known_name(lane));
        let name = name.filter(|_| times.len() < LANES_SHOWN_MAX);
        let is_named = name.is_some();
        let [namespace, queue, kind] = match name {
            Some(name) => [name.namespace.clone(), name.queue.clone(), name.kind.clone()],
            None => [OTHER; 3].map(str::to_owned),
        };
        let labels = [("namespace", namespace), ("queue", queue), ("type", kind)];
        let found = LaneTimes {
            wait: self.wait.get_or_create_owned(&labels),
            duration: self.duration.get_or_create_owned(&labels),
        };
        // Those that are shown together are looked for each time, so that this map has a limit, too.
        if is_named {
            times.insert(lane, found.clone());
        }
        found
    }

    /// Notes runs that were handed out.
    pub(crate) fn claimed<'a>(&self, runs: impl Iterator<Item = &'a Claimed>) {
        let now = Instant::now();
        let mut last: Option<(LaneId, LaneTimes)> = None;
        for run in runs {
            if last.as_ref().is_none_or(|(lane, _)| *lane != run.lane) {
                last = Some((run.lane, self.times(run.lane)));
            }
            if let Some((_, times)) = &last {
                times.wait.observe(seconds(run.waited_ms));
            }
            let mut held = self.held.lock().expect("nobody panics while holding it");
            if held.len() >= HELD_MAX {
                held.clear();
            }
            held.insert(run.run, (run.lane, now));
        }
    }

    /// Notes that nobody holds a run any more, and whether it has ended.
    pub(crate) fn let_go(&self, run: RunId, has_ended: bool) {
        let known = self.held.lock().expect("nobody panics while holding it").remove(&run);
        if let Some((lane, since)) = known.filter(|_| has_ended) {
            self.times(lane).duration.observe(since.elapsed().as_secs_f64());
        }
    }

    /// Notes how deep queues are: of each, the settings and what is in it.
    pub(crate) fn note_depths(&self, mut all: Vec<(Queue, Depth)>) {
        self.forget_depths();
        let size = |depth: &Depth| depth.ready + depth.scheduled + depth.held + depth.sleeping;
        all.sort_by_key(|(_, depth)| std::cmp::Reverse(size(depth)));
        let rest = all.split_off(all.len().min(QUEUES_SHOWN_MAX));
        for (queue, depth) in &all {
            self.note_depth(&queue.namespace, &queue.name, depth);
        }
        if rest.is_empty() {
            return;
        }
        let together = rest.iter().fold(Depth::default(), |sum, (_, depth)| Depth {
            queue: 0,
            ready: sum.ready + depth.ready,
            scheduled: sum.scheduled + depth.scheduled,
            held: sum.held + depth.held,
            sleeping: sum.sleeping + depth.sleeping,
            oldest_ms: sum.oldest_ms.max(depth.oldest_ms),
        });
        self.note_depth(OTHER, OTHER, &together);
    }

    fn note_depth(&self, namespace: &str, queue: &str, depth: &Depth) {
        let [namespace, queue] = [("namespace", namespace.to_owned()), ("queue", queue.to_owned())];
        let counts = [
            ("ready", depth.ready),
            ("scheduled", depth.scheduled),
            ("running", depth.held),
            ("sleeping", depth.sleeping),
        ];
        for (state, count) in counts {
            let labels = [namespace.clone(), queue.clone(), ("state", state.into())];
            self.runs.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.oldest.get_or_create(&[namespace, queue]).set(seconds(depth.oldest_ms.unwrap_or(0)));
    }

    /// Shows no depths: the store could not be asked.
    pub(crate) fn forget_depths(&self) {
        self.runs.clear();
        self.oldest.clear();
    }
}

fn seconds(ms: Millis) -> f64 {
    ms.max(0) as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn the_deepest_queues_are_shown_and_the_others_together() {
        let metrics = Metrics::new("test");
        let queue = |number: i32| Queue {
            id: number,
            namespace: "default".into(),
            name: format!("q{number}"),
            paused_until: None,
            backlog_max: None,
            rate_per_second: None,
            key_limit: None,
        };
        let depth = |number: i32| Depth {
            queue: number,
            ready: number as u64,
            oldest_ms: Some(Millis::from(number)),
            ..Depth::default()
        };
        let count = QUEUES_SHOWN_MAX as i32 + 2;
        metrics.queues.note_depths((1..=count).map(|number| (queue(number), depth(number))).collect());
        let text = metrics.text();
        let ready = |queue: &str, namespace: &str, count: u64| {
            let line = format!(r#"baton_queue_runs{{namespace="{namespace}",queue="{queue}",state="ready"}} {count}"#);
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        };
        ready("q102", "default", 102);
        ready("q3", "default", 3);
        ready("other", "other", 3);
        assert!(!text.contains(r#"queue="q2""#) && text.matches("baton_queue_oldest_seconds{").count() == 101);
    }
}
