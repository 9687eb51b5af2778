//! Wakes a background loop before its time: because something has happened, or because a moment has come.

use std::sync::Mutex;

use baton_core::Millis;
use baton_store::Clock;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A bell that one loop listens to.
#[derive(Debug)]
pub struct Bell {
    clock: Clock,
    begun: Instant,
    bell: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rung: bool,
    /// When it rings by itself, as `Bell::now` counts.
    due: Option<Millis>,
}

impl Bell {
    /// A bell that nobody has rung.
    pub fn new(clock: Clock) -> Bell {
        Bell { clock, begun: Instant::now(), bell: Notify::new(), state: Mutex::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("nobody panics while holding it"))
    }

    /// The time on the store's clock where that one is moved by hand, otherwise on a monotonic one.
    fn now(&self) -> Millis {
        self.clock.fixed().unwrap_or_else(|| self.begun.elapsed().as_millis() as Millis)
    }

    /// Rings now.
    pub fn ring(&self) {
        let first = self.with(|state| !std::mem::replace(&mut state.rung, true));
        if first {
            self.bell.notify_one();
        }
    }

    /// Rings in so many milliseconds, unless it rings before.
    pub fn ring_in(&self, ms: Millis) {
        self.ring_by(self.now().saturating_add(ms.max(0)));
    }

    /// Rings at a moment on the store's clock, which showed `now` a short while ago, unless it rings before. A clock moved by hand may have
    /// gone on since then.
    pub fn ring_at(&self, at: Millis, now: Millis) {
        match self.clock.fixed() {
            Some(_) => self.ring_by(at),
            None => self.ring_in(at.saturating_sub(now)),
        }
    }

    fn ring_by(&self, at: Millis) {
        let sooner = self.with(|state| {
            let sooner = state.due.is_none_or(|due| at < due);
            if sooner {
                state.due = Some(at);
            }
            sooner
        });
        if sooner {
            self.bell.notify_one();
        }
    }

    async fn until(&self, due: Millis) {
        match &self.clock {
            // One more, because elapsed milliseconds are rounded down.
            Clock::Real => self.clock.sleep((due - self.now()).max(0) + 1).await,
            // Not by a span: the clock may be moved while that is reckoned.
            Clock::Manual(now) => {
                // The sender lives as long as the clock, so this only ends when the time has come.
                let _ = now.subscribe().wait_for(|now| *now >= due).await;
            }
        }
    }

    /// Waits until it rings. What rang before somebody waited counts.
    pub async fn rung(&self) {
        loop {
            let changed = self.bell.notified();
            let due = self.with(|state| match std::mem::take(&mut state.rung) {
                true => None,
                false => Some(state.due),
            });
            match due {
                None => return,
                Some(None) => changed.await,
                Some(Some(due)) => tokio::select! {
                    () = changed => {}
                    () = self.until(due) => {
                        self.with(|state| state.due = state.due.filter(|other| *other > due));
                        return;
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn it_rings_once_for_what_happened_and_once_for_each_moment() {
        let clock = Clock::manual(1_000);
        let bell = Bell::new(clock.clone());
        assert_eq!(bell.rung().now_or_never(), None);
        bell.ring();
        bell.ring();
        bell.rung().await;
        assert_eq!(bell.rung().now_or_never(), None, "two rings that nobody heard are one");
        bell.ring_in(500);
        bell.ring_in(200);
        assert_eq!(bell.rung().now_or_never(), None);
        clock.advance(200);
        bell.rung().await;
        bell.ring_at(1_100, 1_000);
        bell.rung().await;
        assert_eq!(
            bell.rung().now_or_never(),
            None,
            "the later moment was forgotten: whoever hears it looks for the next"
        );
    }
}
