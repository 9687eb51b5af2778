//! A worker that takes no new work for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Whether a worker pauses, why, and until when. Outlives its incarnations.
#[derive(Debug, Default)]
pub(super) struct Paused {
    state: Mutex<State>,
    begun: Notify,
}

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    why: String,
    ever: bool,
}

impl Paused {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held left it as it was: every change is a single assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a pause, or makes it longer.
    pub(super) fn begin(&self, pause: Duration, why: &str) {
        let until = Instant::now() + pause;
        let mut state = self.state();
        *state =
            State { until: Some(state.until.map_or(until, |before| before.max(until))), why: why.into(), ever: true };
        drop(state);
        self.begun.notify_one();
    }

    /// Why it pauses, if it does.
    pub(super) fn why(&self) -> Option<String> {
        let state = self.state();
        state.until.filter(|until| Instant::now() < *until).map(|_| state.why.clone())
    }

    /// True when it has paused before: then the server has to hear that it is over.
    pub(super) fn ever(&self) -> bool {
        self.state().ever
    }

    /// Waits until it pauses no longer.
    pub(super) async fn over(&self) {
        loop {
            let until = self.state().until;
            match until.filter(|until| Instant::now() < *until) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Waits until a pause begins.
    pub(super) async fn begins(&self) {
        self.begun.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_pause_counts() {
        let paused = Paused::default();
        paused.over().await;
        assert_eq!((paused.why(), paused.ever()), (None, false));
        let begun = Instant::now();
        paused.begin(Duration::from_secs(60), "the disk is full");
        paused.begin(Duration::from_secs(1), "still");
        assert_eq!(paused.why().as_deref(), Some("still"));
        paused.begins().await;
        paused.over().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(60));
        assert_eq!((paused.why(), paused.ever()), (None, true));
    }
}
