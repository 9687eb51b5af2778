//! How many more runs a queue may take in.
//!
//! Counting a queue for every submit would cost more than the submit. So a count buys an allowance: half of the room that is
//! left may be used up before the next count. One server never overfills a queue; with several, each may
//! overshoot by what the others took in since its last count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_store::{QueueId, Store};

use crate::Error;

/// How long "full" is believed without counting again.
const FULL_FOR: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Backlog {
    allowance: u64,
    /// Admitted, and perhaps not in the store yet.
    in_flight: u64,
    /// Were in flight and are no longer, since the start.
    landed: u64,
    full_until: Option<Instant>,
}

impl Backlog {
    fn take(&mut self, count: u64) -> bool {
        let enough = self.allowance >= count;
        if enough {
            self.allowance -= count;
            self.in_flight += count;
        }
        enough
    }
}

/// The backlogs of all queues.
#[derive(Debug)]
pub struct Backlogs {
    store: Arc<dyn Store>,
    limit_default: u64,
    queues: Mutex<HashMap<QueueId, Arc<Counted>>>,
}

/// The backlog of one queue.
#[derive(Debug, Default)]
struct Counted {
    backlog: Mutex<Backlog>,
    /// One count at a time: otherwise a burst would count as often as it has members.
    counting: tokio::sync::Mutex<()>,
}

impl Counted {
    fn with<T>(&self, change: impl FnOnce(&mut Backlog) -> T) -> T {
        change(&mut self.backlog.lock().expect("nobody panics while holding it"))
    }
}

/// Room taken in a queue. Dropped when the submit is over, however it ended.
#[derive(Debug)]
pub struct Admission {
    taken: Vec<(Arc<Counted>, u64)>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        for (queue, count) in &self.taken {
            queue.with(|backlog| {
                backlog.in_flight -= count;
                backlog.landed += count;
            });
        }
    }
}

impl Backlogs {
    /// Knows nothing yet.
    pub fn new(store: Arc<dyn Store>, limit_default: u64) -> Backlogs {
        Backlogs { store, limit_default, queues: Mutex::default() }
    }

    /// The limit of a queue that has none of its own.
    pub fn limit_default(&self) -> u64 {
        self.limit_default
    }

    fn of(&self, queue: QueueId) -> Arc<Counted> {
        self.queues.lock().expect("nobody panics while holding it").entry(queue).or_default().clone()
    }

    /// Forgets the allowance of a queue whose limit was changed.
    pub fn forget(&self, queue: QueueId) {
        self.of(queue).with(|backlog| {
            backlog.allowance = 0;
            backlog.full_until = None;
        });
    }

    /// Takes room for so many runs in each of these queues, or refuses.
    pub async fn admit(&self, wanted: &[(QueueId, u64)]) -> Result<Admission, Error> {
        let mut admission = Admission { taken: Vec::with_capacity(wanted.len()) };
        for (queue, count) in wanted {
            let counted = self.of(*queue);
            if !counted.with(|backlog| backlog.take(*count)) {
                self.count(*queue, *count, &counted).await?;
            }
            admission.taken.push((counted, *count));
        }
        Ok(admission)
    }

    async fn count(&self, queue: QueueId, count: u64, counted: &Counted) -> Result<(), Error> {
        let _counting = counted.counting.lock().await;
        // Somebody else may have counted while this call waited.
        if counted.with(|backlog| backlog.take(count)) {
            return Ok(());
        }
        let settings = self.store.queues(None).await?.into_iter().find(|known| known.id == queue);
        let (name, limit) = settings.map_or((String::new(), self.limit_default), |known| {
            (known.name, known.backlog_max.unwrap_or(self.limit_default))
        });
        let full = |backlog: &mut Backlog| {
            backlog.full_until = Some(Instant::now() + FULL_FOR);
            Error::QueueFull { queue: name.clone(), limit }
        };
        let landed = counted.with(|backlog| {
            if backlog.full_until.is_some_and(|until| until > Instant::now()) && limit > 10_000 {
                return Err(full(backlog));
            }
            Ok(backlog.landed)
        })?;
        let depth = self.store.depths(&[queue], limit.saturating_add(1)).await?;
        let waiting: u64 = depth.iter().map(|depth| depth.ready + depth.scheduled).sum();
        counted.with(|backlog| {
            // What landed while the store counted may have come too late to be counted.
            let uncounted = backlog.in_flight + (backlog.landed - landed);
            let room = limit.saturating_sub(waiting + uncounted);
            if room < count {
                return Err(full(backlog));
            }
            backlog.full_until = None;
            backlog.allowance = (room / 2).saturating_sub(count);
            backlog.in_flight += count;
            Ok(())
        })
    }
}
