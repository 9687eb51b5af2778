//! The time on the store's clock, without asking the store every time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_store::{Store, StoreResult};

/// How long this machine's monotonic clock is trusted to go as the store's does.
const TRUSTED: Duration = Duration::from_secs(5);

/// The store's clock, as far as it is known here. For showing and for spans, never for deadlines: those are compared inside the store.
#[derive(Debug)]
pub struct StoreTime {
    store: Arc<dyn Store>,
    known: Mutex<Option<(Instant, Millis)>>,
}

impl StoreTime {
    /// Knows nothing yet.
    pub fn new(store: Arc<dyn Store>) -> StoreTime {
        StoreTime { store, known: Mutex::default() }
    }

    /// The time now.
    pub async fn now(&self) -> StoreResult<Millis> {
        if let Some(now) = self.store.clock().fixed() {
            return Ok(now);
        }
        if !self.store.is_shared() {
            // The store is in this process, and its clock is this machine's.
            return Ok(self.store.clock().local());
        }
        let known = *self.known.lock().expect("nobody panics while holding it");
        if let Some((at, then)) = known.filter(|(at, _)| at.elapsed() < TRUSTED) {
            return Ok(then + at.elapsed().as_millis() as Millis);
        }
        let now = self.store.now().await?;
        *self.known.lock().expect("nobody panics while holding it") = Some((Instant::now(), now));
        Ok(now)
    }
}
