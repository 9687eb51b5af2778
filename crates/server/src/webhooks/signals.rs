//! What wakes the loop of webhooks, and what it has to look at then.

use std::sync::atomic::{AtomicBool, Ordering};

use baton_core::Millis;
use baton_store::Clock;

use crate::bell::Bell;

/// What wakes the loop of webhooks.
#[derive(Debug)]
pub(crate) struct WebhookSignals {
    /// Rung when the loop is to pass.
    pub(crate) bell: Bell,
    /// True while there are webhooks.
    is_used: AtomicBool,
    /// True when there is something to do, or may be.
    has_work: AtomicBool,
    /// True while something has to be looked at again later, whether somebody rings or not.
    waits: AtomicBool,
}

impl WebhookSignals {
    pub(crate) fn new(clock: Clock) -> WebhookSignals {
        let (is_used, has_work, waits) = (AtomicBool::default(), AtomicBool::default(), AtomicBool::default());
        WebhookSignals { bell: Bell::new(clock), is_used, has_work, waits }
    }

    pub(crate) fn are_used(&self, is_used: bool) {
        self.is_used.store(is_used, Ordering::Relaxed);
    }

    /// Events were written here.
    pub(crate) fn events_written(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            self.changed();
        }
    }

    /// Webhooks or deliveries have changed: there is something to do.
    pub(crate) fn changed(&self) {
        self.has_work.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// There is something to do at this moment.
    pub(crate) fn wait_until(&self, at: Millis, now: Millis) {
        self.waits.store(true, Ordering::Relaxed);
        self.bell.ring_at(at, now);
    }

    /// True when there is something to do, or may be. Whoever takes it has to do it.
    pub(crate) fn take(&self) -> bool {
        // Both: what rings later sets them again.
        let has_work = self.has_work.swap(false, Ordering::Relaxed);
        self.waits.swap(false, Ordering::Relaxed) || has_work
    }
}
