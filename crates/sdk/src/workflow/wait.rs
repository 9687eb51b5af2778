//! Waiting for a moment, and for signals.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Polling, Poll, ready};
use std::time::Duration;

use baton_proto::v1::StepKind;
use serde::de::DeserializeOwned;

use super::journal::{Divergence, Journal, decided, written_at};
use super::state::{Outcome, Phase, Shared, State, decode};
use super::time::{Millis, after, millis};
use super::{Context, WorkflowError};

/// The name under which sleeps are remembered.
const SLEEP: &str = "sleep";

/// The name under which it is remembered how a wait ended.
pub(crate) const END: &str = "end";
/// The name under which the timeout of a signal is remembered.
pub(crate) const TIMEOUT: &str = "timeout";

/// How a wait ended that began at this position, if that was written down. The position behind it is kept for that.
pub(crate) fn remembered_end(journal: &mut Journal, position: u32) -> Result<Option<(Millis, Outcome)>, Divergence> {
    let Some(step) = journal.take(position + 1, StepKind::Fact, END)? else { return Ok(None) };
    Ok(decided(&step.output).map(|decided| (written_at(&step), Outcome::from(decided))))
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    After(Duration),
    At(Millis),
}

/// A sleep of a workflow, made by [`Context::sleep`]. It costs no worker, however long it is.
#[must_use = "a sleep does nothing unless it is awaited"]
#[derive(Debug)]
pub struct Sleep {
    context: Context,
    position: u32,
    until: Until,
    over: bool,
}

impl Sleep {
    pub(super) fn new(context: Context, until: Until) -> Sleep {
        let position = context.shared.positions(2);
        Sleep { context, position, until, over: false }
    }
}

impl Future for Sleep {
    type Output = Result<(), WorkflowError>;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (position, until) = (this.position, this.until);
        let begin = |shared: &Shared, state: &mut State| {
            let end = remembered_end(&mut state.journal, position)?;
            let begun = state.journal.take(position, StepKind::Sleep, SLEEP)?;
            if let Some((at, outcome)) = end {
                return Ok(state.remember(position, at, outcome));
            }
            let at = match (begun.and_then(|step| step.due_at), until) {
                (Some(due), _) => Some(millis(&due)),
                (None, Until::At(moment)) => Some(moment),
                (None, Until::After(_)) => None,
            };
            let due = match (at, until) {
                (None, Until::After(span)) => after(span),
                (None, Until::At(moment)) | (Some(moment), _) => shared.clock.instant(moment),
            };
            Ok(Phase::Sleep { due, at })
        };
        let outcome = ready!(this.context.shared.poll(position, SLEEP, polling, begin));
        this.over = true;
        Poll::Ready(match outcome {
            Outcome::Slept => Ok(()),
            Outcome::Cancelled => Err(WorkflowError::Cancelled),
            outcome => unreachable!("a sleep comes to {outcome:?}"),
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if !self.over {
            self.context.shared.forget(self.position);
        }
    }
}

/// A signal that a workflow waits for, made by [`Context::signal`]. Signals of one name come in the order in which they were sent, each once.
#[must_use = "a signal is not waited for unless it is awaited"]
pub struct Signal<T> {
    context: Context,
    position: u32,
    name: String,
    timeout: Option<(u32, Duration)>,
    over: bool,
    payload: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("name", &self.name).field("position", &self.position).finish_non_exhaustive()
    }
}

impl<T> Signal<T> {
    pub(super) fn new(context: Context, name: String) -> Signal<T> {
        let position = context.shared.positions(2);
        Signal { context, position, name, timeout: None, over: false, payload: PhantomData }
    }

    /// Waits at most this long, however often the workflow is taken up again; then there is no signal.
    pub fn timeout(mut self, timeout: Duration) -> SignalWithin<T> {
        self.timeout = Some((self.context.shared.positions(1), timeout));
        SignalWithin(self)
    }

    fn poll_outcome(&mut self, polling: &mut Polling<'_>) -> Poll<Outcome> {
        let (position, name, timeout) = (self.position, &self.name, self.timeout);
        let begin = |shared: &Shared, state: &mut State| {
            let end = remembered_end(&mut state.journal, position)?;
            let taken = state.journal.take(position, StepKind::Signal, name)?;
            let timeout = match timeout {
                Some((position, span)) => {
                    let begun = state.journal.take(position, StepKind::Sleep, TIMEOUT)?;
                    let due = begun.and_then(|step| step.due_at);
                    Some((position, due.map_or_else(|| after(span), |due| shared.clock.instant(millis(&due)))))
                }
                None => None,
            };
            Ok(match (end, taken) {
                (Some((at, outcome)), _) => state.remember(position, at, outcome),
                (None, Some(step)) => state.remember(position, written_at(&step), Outcome::Signal(step.output)),
                (None, None) => Phase::Signal { timeout },
            })
        };
        let outcome = ready!(self.context.shared.poll(position, name, polling, begin));
        self.over = true;
        Poll::Ready(outcome)
    }
}

impl<T: DeserializeOwned> Signal<T> {
    fn finish(&self, outcome: Outcome) -> Result<Option<T>, WorkflowError> {
        match outcome {
            Outcome::Signal(payload) => decode(&payload, || format!("the signal {:?}", self.name)).map(Some),
            Outcome::TimedOut => Ok(None),
            Outcome::Cancelled => Err(WorkflowError::Cancelled),
            outcome => unreachable!("a signal comes to {outcome:?}"),
        }
    }
}

impl<T: DeserializeOwned> Future for Signal<T> {
    type Output = Result<T, WorkflowError>;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let outcome = ready!(this.poll_outcome(polling));
        Poll::Ready(match this.finish(outcome)? {
            Some(payload) => Ok(payload),
            None => unreachable!("a signal without a timeout timed out"),
        })
    }
}

impl<T> Drop for Signal<T> {
    fn drop(&mut self) {
        if !self.over {
            self.context.shared.forget(self.position);
        }
    }
}

/// A signal that a workflow waits for at most so long, made by [`Signal::timeout`].
#[must_use = "a signal is not waited for unless it is awaited"]
#[derive(Debug)]
pub struct SignalWithin<T>(Signal<T>);

impl<T: DeserializeOwned> Future for SignalWithin<T> {
    type Output = Result<Option<T>, WorkflowError>;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let signal = &mut self.get_mut().0;
        let outcome = ready!(signal.poll_outcome(polling));
        Poll::Ready(signal.finish(outcome))
    }
}
