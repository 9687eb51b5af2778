//! The clock that all times of a store come from.
//!
//! In production it is the store's own: the machine's for SQLite, the database's for PostgreSQL, so that a wrong
//! clock on a server breaks nothing. Tests and the simulator hand in one that they move themselves.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_core::Millis;
use tokio::sync::watch;

/// A clock handed to a store.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The store's own.
    Real,
    /// Moved by hand.
    Manual(Arc<watch::Sender<Millis>>),
}

impl Clock {
    /// A clock that stands at `now` until it is moved.
    pub fn manual(now: Millis) -> Clock {
        Clock::Manual(Arc::new(watch::Sender::new(now)))
    }

    /// Moves a manual clock; everyone who sleeps on it looks again.
    ///
    /// # Panics
    /// On a real clock, which nobody moves.
    pub fn advance(&self, ms: Millis) {
        match self {
            Clock::Manual(now) => now.send_modify(|now| *now += ms),
            Clock::Real => panic!("a real clock cannot be moved"),
        }
    }

    /// The time by hand, or `None` when the store's own clock is to be asked.
    pub fn fixed(&self) -> Option<Millis> {
        match self {
            Clock::Manual(now) => Some(*now.borrow()),
            Clock::Real => None,
        }
    }

    /// The time on this machine's clock, or by hand.
    pub fn local(&self) -> Millis {
        self.fixed().unwrap_or_else(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
        })
    }

    /// Waits until this much time has passed on the clock.
    pub async fn sleep(&self, ms: Millis) {
        self.sleep_since(self.fixed(), ms).await;
    }

    /// As `sleep`; a clock moved by hand, which may have gone on since it showed `begun`, counts from then.
    pub async fn sleep_since(&self, begun: Option<Millis>, ms: Millis) {
        match self {
            Clock::Real => tokio::time::sleep(Duration::from_millis(ms.max(0) as u64)).await,
            Clock::Manual(now) => {
                let until = begun.unwrap_or_else(|| *now.borrow()).saturating_add(ms);
                // The sender lives as long as the clock, so this only ends when the time has come.
                let _ = now.subscribe().wait_for(|now| *now >= until).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_moved() {
        let clock = Clock::manual(1_000);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep(500).await;
                clock.local()
            }
        });
        tokio::task::yield_now().await;
        clock.advance(499);
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(1);
        assert_eq!(sleeper.await.unwrap(), 1_500);
    }
}
