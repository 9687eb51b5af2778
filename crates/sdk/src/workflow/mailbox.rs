//! How a run's driver and the rest of its worker talk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::Waker;

use baton_proto::v1::{self, report, report_answer};
use futures_util::task::AtomicWaker;

use super::state::Shared;

/// Something that happened to a run.
#[derive(Debug)]
pub(crate) enum Event {
    /// The server answered a report.
    Answer { number: u64, what: report_answer::What },
    /// Messages came.
    Messages(Vec<v1::Message>),
    /// Somebody wants the run cancelled.
    Cancel,
    /// The lease is lost: stop.
    Lost,
    /// Stop, and give the run back.
    GiveBack(&'static str),
}

/// Where a driver gets its events from.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    events: Mutex<Vec<Event>>,
    driver: AtomicWaker,
    is_played: AtomicBool,
    /// The workflow that is driven.
    workflow: OnceLock<Weak<Shared>>,
}

impl Mailbox {
    pub(crate) fn put(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.driver.wake();
    }

    /// Takes what is there, and wakes `waker` for what comes.
    pub(crate) fn take(&self, waker: &Waker) -> Vec<Event> {
        // Registered before looking: what comes in between would wake nobody.
        self.driver.register(waker);
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes whose driver gets the events.
    pub(crate) fn drives(&self, workflow: &Arc<Shared>) {
        // A mailbox has one driver.
        let _ = self.workflow.set(Arc::downgrade(workflow));
    }

    /// The workflow, while it is driven.
    pub(crate) fn workflow(&self) -> Option<Arc<Shared>> {
        self.workflow.get()?.upgrade()
    }

    /// Notes that no code of the workflow runs any more, whatever is still to be said of it. True when that is news.
    pub(crate) fn played(&self) -> bool {
        !self.is_played.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_played(&self) -> bool {
        self.is_played.load(Ordering::Relaxed)
    }
}

/// Where a driver's reports go to. Each is answered in the mailbox under its number, unless the lease is lost before. Reports that fail for
/// reasons that pass are repeated; the driver does not hear of that.
pub(crate) trait Outbox: Send + Sync {
    fn send(&self, mailbox: &Arc<Mailbox>, reports: Vec<(u64, report::What)>);
}
