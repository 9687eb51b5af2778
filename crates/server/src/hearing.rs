//! Since when this server has been able to hear its workers without a break.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_store::Clock;

use crate::Error;

/// The moment from which silence means something.
#[derive(Debug)]
pub struct Hearing {
    clock: Clock,
    from: Mutex<(Instant, Millis)>,
}

impl Hearing {
    /// Begins to hear now.
    pub fn new(clock: Clock) -> Hearing {
        let from = Mutex::new((Instant::now(), clock.local()));
        Hearing { clock, from }
    }

    /// Notes why a call to the store failed. One that is out of reach, or has no room to write down a sign of life, has made
    /// this server deaf until now.
    pub fn note(&self, error: &Error) {
        if matches!(error, Error::Unavailable | Error::DiskFull) {
            self.interrupted();
        }
    }

    fn interrupted(&self) {
        *self.from.lock().expect("nobody panics while holding it") = (Instant::now(), self.clock.local());
    }

    /// True when it has heard without a break for this long.
    pub fn since(&self, ms: u64) -> bool {
        let (instant, millis) = *self.from.lock().expect("nobody panics while holding it");
        match &self.clock {
            Clock::Real => instant.elapsed() >= Duration::from_millis(ms),
            Clock::Manual(_) => self.clock.local() - millis >= ms as Millis,
        }
    }
}
