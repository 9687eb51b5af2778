//! Polls of a handler, seen from another thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::busy::Busy;

/// Whether a handler is being polled, and since when.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<Option<Busy>>);

impl Polls {
    fn set(&self, busy: Option<Busy>) -> Option<Busy> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), busy)
    }

    /// Says in the log that it takes too long, if it does.
    pub(super) fn look(&self, run_id: &str, kind: &str) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(Busy::look);
        if let Some(kept) = kept {
            kept.warn_of_handler(run_id, kind);
        }
    }
}

/// A handler whose polls are watched.
pub(super) struct Watched<F> {
    handler: Pin<Box<F>>,
    run_id: String,
    kind: String,
    polls: Arc<Polls>,
}

impl<F> Watched<F> {
    pub(super) fn new(handler: F, run_id: String, kind: String, polls: Arc<Polls>) -> Watched<F> {
        Watched { handler: Box::pin(handler), run_id, kind, polls }
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, polling: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.set(Some(Busy::begin(None)));
        let Watched { handler, run_id, kind, polls } = &mut *self;
        // Dropped also when the handler panics.
        let _polled = Polled { run_id, kind, polls };
        handler.as_mut().poll(polling)
    }
}

struct Polled<'a> {
    run_id: &'a str,
    kind: &'a str,
    polls: &'a Polls,
}

impl Drop for Polled<'_> {
    fn drop(&mut self) {
        if let Some(kept) = self.polls.set(None).and_then(Busy::end) {
            kept.say_handler_over(self.run_id, self.kind);
        }
    }
}
