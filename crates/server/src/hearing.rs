//! Since when this server has been able to hear its workers without a break.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_store::Clock;

use crate::{Error, Settings};

/// The moment from which silence means something.
#[derive(Debug)]
pub struct Hearing {
    clock: Clock,
    from: Mutex<(Instant, Millis)>,
    last_pass: Mutex<(Instant, Millis)>,
}

impl Hearing {
    /// Begins to hear now.
    pub fn new(clock: Clock) -> Hearing {
        let now = (Instant::now(), clock.local());
        Hearing { clock, from: Mutex::new(now), last_pass: Mutex::new(now) }
    }

    /// Notes why a call to the store failed. One that is out of reach, or has no room to write down a sign of life, has made
    /// this server deaf until now.
    pub fn note(&self, error: &Error) {
        if matches!(error, Error::Unavailable | Error::DiskFull) {
            self.interrupted();
        }
    }

    /// True when silence means something. While nobody could be heard (this server has just started, or was frozen, or its store was
    /// out of reach) it proves nothing, and not before every live worker has had the time for a heartbeat: it may have given up on one
    /// just before, and tries again after a pause. Both last an interval at most.
    pub fn is_sure(&self, settings: &Settings) -> bool {
        self.passes(settings);
        self.since(2 * settings.heartbeat_interval_ms + 1_000)
    }

    /// True when it has heard without a break for this long, as far as is known by now: when nobody has passed for long, that was a break too, which
    /// whoever passes next will note.
    pub fn has_heard_for(&self, settings: &Settings, ms: u64) -> bool {
        let last = *self.last_pass.lock().expect("nobody panics while holding it");
        let is_held_up = matches!(&self.clock, Clock::Real) && self.gap_since(last) > harmless_gap(settings);
        !is_held_up && self.since(ms)
    }

    /// Both clocks: the monotonic one stands still while a machine sleeps.
    fn gap_since(&self, last: (Instant, Millis)) -> Duration {
        last.0.elapsed().max(Duration::from_millis(self.clock.local().abs_diff(last.1)))
    }

    /// Notes that somebody passes who does so all the time: the reaper, before and after its calls to the store. When nobody has for
    /// long, the whole server was frozen (a stopped process, a paused machine, a clock that was set), or its store was, and heard
    /// nobody meanwhile.
    pub fn passes(&self, settings: &Settings) {
        // A clock that is moved by hand jumps all the time.
        let Clock::Real = &self.clock else { return };
        let now = (Instant::now(), self.clock.local());
        let last = std::mem::replace(&mut *self.last_pass.lock().expect("nobody panics while holding it"), now);
        let gap = self.gap_since(last);
        if gap > harmless_gap(settings) {
            tracing::info!(?gap, "held up; nobody is called silent before all have had the time for a heartbeat");
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

/// A freeze that cannot cost a live worker its lease, also when it has to repeat a heartbeat.
fn harmless_gap(settings: &Settings) -> Duration {
    let (ttl, interval) = (settings.lease_ttl_ms, settings.heartbeat_interval_ms);
    Duration::from_millis(ttl.saturating_sub(2 * interval).max((ttl - interval) / 2))
}
