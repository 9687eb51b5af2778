//! How a handler learns that it should stop.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Why a handler should stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The run is no longer this worker's; another one may work on it already. Nothing it writes counts any more.
    LeaseLost,
    /// Somebody cancelled the run.
    Cancelled,
    /// This worker is going away and has waited long enough. The run is given back.
    Shutdown,
}

/// Tells a handler when to stop. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Receiver<Option<Stop>>);

impl Cancel {
    /// Why to stop, or `None` while there is no reason to.
    pub fn reason(&self) -> Option<Stop> {
        *self.0.borrow()
    }

    /// Waits until there is a reason to stop.
    pub async fn stopped(&self) -> Stop {
        let mut reason = self.0.clone();
        match reason.wait_for(Option::is_some).await {
            // The sender is gone with the run: whoever still works on it works for nobody.
            Ok(stop) => stop.unwrap_or(Stop::LeaseLost),
            Err(_) => Stop::LeaseLost,
        }
    }
}

/// The other end of a [`Cancel`].
#[derive(Debug)]
pub(super) struct Stopper(watch::Sender<Option<Stop>>);

impl Stopper {
    pub(super) fn new() -> Stopper {
        Stopper(watch::Sender::new(None))
    }

    pub(super) fn cancel(&self) -> Cancel {
        Cancel(self.0.subscribe())
    }

    /// True when the handler was told to stop.
    pub(super) fn has_stopped(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Tells the handler to stop. The first reason stands, except that a lost lease outweighs all others: there is
    /// nothing left to report. Returns whether this was news.
    pub(super) fn stop(&self, why: Stop) -> bool {
        self.0.send_if_modified(|reason| {
            let news = reason.is_none() || (why == Stop::LeaseLost && *reason != Some(Stop::LeaseLost));
            if news {
                *reason = Some(why);
            }
            news
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lost_lease_outweighs_the_first_reason() {
        let stopper = Stopper::new();
        let cancel = stopper.cancel();
        assert_eq!(cancel.reason(), None);
        assert!(stopper.stop(Stop::Cancelled));
        assert!(!stopper.stop(Stop::Shutdown));
        assert_eq!(cancel.stopped().await, Stop::Cancelled);
        assert!(stopper.stop(Stop::LeaseLost));
        assert!(!stopper.stop(Stop::LeaseLost));
        assert_eq!(cancel.reason(), Some(Stop::LeaseLost));
    }

    #[tokio::test]
    async fn who_outlives_the_run_is_told_to_stop() {
        let cancel = Stopper::new().cancel();
        assert_eq!(cancel.stopped().await, Stop::LeaseLost);
    }
}
