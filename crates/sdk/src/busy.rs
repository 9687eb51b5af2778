//! Who keeps a thread: code of users that is being polled, seen from the SDK's own thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// What keeps its thread for longer is named in the log.
pub(crate) const KEPT_TOO_LONG: Duration = Duration::from_secs(1);
/// Between two looks at who keeps a thread, while there is anybody who could.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Code that is being polled, since when, and whether that is in the log.
///
/// The clock is the system's: a runtime whose time stands still can be blocked, too.
#[derive(Debug)]
pub(crate) struct Busy {
    since: Instant,
    /// The step, or none for code between steps and for handlers of plain runs.
    step: Option<Arc<str>>,
    said: bool,
}

/// Code that keeps, or kept, its thread for too long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) step: Option<Arc<str>>,
    pub(crate) took: Duration,
}

impl Busy {
    pub(crate) fn begin(step: Option<Arc<str>>) -> Busy {
        Busy { since: Instant::now(), step, said: false }
    }

    pub(crate) fn took(&self) -> Duration {
        self.since.elapsed()
    }

    /// What there is to say while it lasts. Once.
    pub(crate) fn look(&mut self) -> Option<Kept> {
        let took = self.took();
        if self.said || took < KEPT_TOO_LONG {
            return None;
        }
        self.said = true;
        Some(Kept { step: self.step.clone(), took })
    }

    /// What there is to say when it is over.
    pub(crate) fn end(self) -> Option<Kept> {
        let took = self.took();
        (took >= KEPT_TOO_LONG).then_some(Kept { step: self.step, took })
    }
}

/// Where the code of a workflow is, for people.
fn place(step: Option<&str>) -> &str {
    step.unwrap_or("(between steps)")
}

impl Kept {
    /// Says that it lasts.
    pub(crate) fn warn(&self, run_id: &str, kind: &str) {
        tracing::warn!(
            run_id,
            workflow_type = kind,
            step = place(self.step.as_deref()),
            ms = self.took.as_millis() as u64,
            "code of a workflow keeps its thread, and with it everything else of this runtime; \
             what blocks or computes belongs into ctx.step_blocking"
        );
    }

    /// Says that it is over.
    pub(crate) fn say_over(&self, run_id: &str, kind: &str) {
        tracing::warn!(
            run_id,
            workflow_type = kind,
            step = place(self.step.as_deref()),
            ms = self.took.as_millis() as u64,
            "code of a workflow has let go of its thread"
        );
    }

    /// Says that the handler of a plain run keeps its thread.
    pub(crate) fn warn_of_handler(&self, run_id: &str, kind: &str) {
        tracing::warn!(
            run_id,
            run_type = kind,
            ms = self.took.as_millis() as u64,
            "a handler keeps its thread, and with it everything else of this runtime; \
             what blocks or computes belongs into runs::Worker::run_blocking or tokio::task::spawn_blocking"
        );
    }

    /// Says that the handler of a plain run keeps its thread no longer.
    pub(crate) fn say_handler_over(&self, run_id: &str, kind: &str) {
        tracing::warn!(
            run_id,
            run_type = kind,
            ms = self.took.as_millis() as u64,
            "a handler has let go of its thread"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_said_once_and_again_when_it_is_over() {
        let mut busy = Busy::begin(Some("render".into()));
        assert_eq!(busy.look(), None);
        busy.since = Instant::now().checked_sub(2 * KEPT_TOO_LONG).unwrap();
        let kept = busy.look().unwrap();
        assert!(kept.step.as_deref() == Some("render") && kept.took >= 2 * KEPT_TOO_LONG, "{kept:?}");
        assert_eq!(busy.look(), None);
        assert!(busy.end().is_some());
        assert_eq!(Busy::begin(None).end(), None);
    }
}
