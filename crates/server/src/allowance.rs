//! How many more of something there may be, when counting each time would cost more than the thing itself.
//!
//! A count buys an allowance: half of the room that is left may be used up before the next count. One server never goes beyond the
//! limit; with several, each may overshoot by what the others took in since its last count.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Error;

/// How long "full" is believed without counting again.
const FULL_FOR: Duration = Duration::from_millis(100);
/// Limits up to this one are counted each time: it is quick.
const QUICK_TO_COUNT: u64 = 10_000;

#[derive(Debug, Default)]
struct Room {
    allowance: u64,
    /// Admitted, and perhaps not in the store yet.
    in_flight: u64,
    /// Were in flight and are no longer, since the start.
    landed: u64,
    full_until: Option<Instant>,
}

impl Room {
    fn take(&mut self, count: u64) -> bool {
        let enough = self.allowance >= count;
        if enough {
            self.allowance -= count;
            self.in_flight += count;
        }
        enough
    }
}

/// What is left of one limit, as far as this server knows.
#[derive(Debug, Default)]
pub struct Allowance {
    room: Mutex<Room>,
    /// One count at a time: otherwise a burst would count as often as it has members.
    counting: tokio::sync::Mutex<()>,
}

impl Allowance {
    fn with<T>(&self, change: impl FnOnce(&mut Room) -> T) -> T {
        change(&mut self.room.lock().expect("nobody panics while holding it"))
    }

    /// Forgets the allowance, because the limit was changed.
    pub fn forget(&self) {
        self.with(|room| {
            room.allowance = 0;
            room.full_until = None;
        });
    }

    /// Takes room that was counted before.
    pub fn take(self: &Arc<Self>, count: u64) -> Option<Admission> {
        self.with(|room| room.take(count)).then(|| Admission { taken: vec![(self.clone(), count)] })
    }

    /// Takes room, and counts what there is when the allowance is used up. `limit` finds the limit and what to say when it is reached; `used` counts, up
    /// to the number it is given.
    pub async fn take_counted(
        self: &Arc<Self>,
        count: u64,
        limit: impl AsyncFnOnce() -> Result<(u64, Error), Error>,
        used: impl AsyncFnOnce(u64) -> Result<u64, Error>,
    ) -> Result<Admission, Error> {
        let _counting = self.counting.lock().await;
        // Somebody else may have counted while this call waited.
        if let Some(admission) = self.take(count) {
            return Ok(admission);
        }
        let (limit, reached) = limit().await?;
        let believed_full = |room: &Room| room.full_until.is_some_and(|until| until > Instant::now());
        let (full, landed) = self.with(|room| (believed_full(room) && limit > QUICK_TO_COUNT, room.landed));
        if full {
            return Err(reached);
        }
        let used = used(limit.saturating_add(1)).await?;
        let enough = self.with(|room| {
            // What landed while the store counted may have come too late to be counted.
            let uncounted = room.in_flight + (room.landed - landed);
            let left = limit.saturating_sub(used.saturating_add(uncounted));
            if left < count {
                room.full_until = Some(Instant::now() + FULL_FOR);
                return false;
            }
            room.full_until = None;
            room.allowance = (left / 2).saturating_sub(count);
            room.in_flight += count;
            true
        });
        match enough {
            true => Ok(Admission { taken: vec![(self.clone(), count)] }),
            false => Err(reached),
        }
    }
}

/// Room that was taken. Dropped when what it was taken for is over, however it ended.
#[derive(Debug, Default)]
pub struct Admission {
    taken: Vec<(Arc<Allowance>, u64)>,
}

impl Admission {
    /// Both together.
    pub fn add(&mut self, mut other: Admission) {
        self.taken.append(&mut other.taken);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        for (allowance, count) in &self.taken {
            allowance.with(|room| {
                room.in_flight -= count;
                room.landed += count;
            });
        }
    }
}
