//! Steps: code whose result is remembered.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll, ready};
use std::time::Duration;

use baton_proto::v1::{StepKind, StepState};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::blocking;
use super::journal::{Divergence, written_at};
use super::saga::Compensation;
use super::state::{Next, Outcome, Phase, Shared, State, bounded, decode, encode};
use super::time::millis;
use super::{Context, RetryPolicy, StepError, WorkflowError};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// When an attempt began, and what it came to.
type Attempt<'a, T> = BoxFuture<'a, (Instant, Result<T, StepError>)>;
/// Makes an attempt that fails after the timeout, if there is one.
type Make<'a, T> = Box<dyn Fn(Option<Duration>) -> Attempt<'a, T> + Send + 'a>;
type Undo<T> = Arc<dyn Fn(T) -> BoxFuture<'static, Result<(), StepError>> + Send + Sync>;

/// A step of a workflow, made by [`Context::step`] or [`Context::step_blocking`]: awaiting it
/// executes it, unless its result is remembered.
#[must_use = "a step does nothing unless it is awaited"]
pub struct Step<'a, T> {
    context: Context,
    position: u32,
    name: Arc<str>,
    make: Make<'a, T>,
    retry: Option<RetryPolicy>,
    timeout: Option<Duration>,
    undo: Option<Undo<T>>,
    running: Option<Running<'a, T>>,
    /// What the step made, until it is written down, and how that looks in writing.
    made: Option<(T, Bytes)>,
    over: bool,
}

struct Running<'a, T> {
    future: Attempt<'a, T>,
    attempt: u32,
    begun: Instant,
}

impl<T> fmt::Debug for Step<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("name", &self.name).field("position", &self.position).finish_non_exhaustive()
    }
}

// Nothing in it is pinned but what is in boxes of its own.
impl<T> Unpin for Step<'_, T> {}

impl<'a, T> Step<'a, T> {
    pub(super) fn new<F, R>(context: Context, name: String, make: F) -> Step<'a, T>
    where
        F: Fn() -> R + Send + 'a,
        R: Future<Output = Result<T, StepError>> + Send + 'a,
    {
        let make: Make<'a, T> = Box::new(move |timeout| {
            let attempt = make();
            Box::pin(async move {
                let begun = Instant::now();
                (begun, within(timeout, attempt).await)
            })
        });
        Step::made_by(context, name, make)
    }

    pub(super) fn blocking<F>(context: Context, name: String, work: F) -> Step<'a, T>
    where
        F: FnOnce() -> Result<T, StepError> + Clone + Send + 'static,
        T: Send + 'static,
    {
        let slots = context.shared.blocking.clone();
        let make: Make<'a, T> =
            Box::new(move |timeout| Box::pin(blocking::execute(slots.clone(), timeout, work.clone())));
        Step::made_by(context, name, make)
    }

    fn made_by(context: Context, name: String, make: Make<'a, T>) -> Step<'a, T> {
        let position = context.shared.positions(1);
        Step {
            context,
            position,
            name: name.into(),
            make,
            retry: None,
            timeout: None,
            undo: None,
            running: None,
            made: None,
            over: false,
        }
    }

    /// Tries a failed attempt again as this policy says; the server's default policy unless given.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// An attempt that takes longer than this has failed, with the code `timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Says how to undo this step. When the workflow fails or is cancelled after the step was completed, its compensation is executed with what the
    /// step made: a step of its own, with the same policy and timeout, after those of all later steps.
    ///
    /// A run that was undone is not tried again: what is remembered of it is no longer true.
    pub fn compensate<F, R>(mut self, undo: F) -> Self
    where
        F: Fn(T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), StepError>> + Send + 'static,
    {
        self.undo = Some(Arc::new(move |made| Box::pin(undo(made))));
        self
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Future for Step<'_, T> {
    type Output = Result<T, WorkflowError>;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            if this.running.is_some() {
                ready!(this.execute(polling));
            }
            let shared = &this.context.shared;
            let begin = |shared: &Shared, state: &mut State| begin(shared, state, this.position, &this.name);
            match ready!(shared.poll(this.position, &this.name, polling, begin)) {
                Outcome::Execute(attempt) => {
                    // Code before the first await panics here.
                    let (begun, make) = (Instant::now(), || (this.make)(this.timeout));
                    let _busy = shared.executing(&this.name);
                    let future = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
                        Box::pin(std::future::ready((begun, Err(StepError::new(said(&*panic)).code("panic")))))
                    });
                    this.running = Some(Running { future, attempt, begun });
                }
                outcome => {
                    this.over = true;
                    return Poll::Ready(this.finish(outcome));
                }
            }
        }
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Step<'_, T> {
    /// Executes until the attempt is over and reported.
    fn execute(&mut self, polling: &mut Polling<'_>) -> Poll<()> {
        let Some(running) = &mut self.running else { return Poll::Ready(()) };
        let busy = self.context.shared.executing(&self.name);
        let polled = catch_unwind(AssertUnwindSafe(|| running.future.as_mut().poll(polling)));
        drop(busy);
        let (begun, result) = match polled {
            Ok(ended) => ready!(ended),
            Err(panic) => (running.begun, Err(StepError::new(said(&*panic)).code("panic"))),
        };
        let (attempt, took) = (running.attempt, begun.elapsed());
        self.running = None;
        let result = result.and_then(|made| match encode(&made) {
            Ok(output) => Ok((made, output)),
            Err(error) => {
                Err(StepError::fatal(format!("what the step made cannot be written as JSON: {error}")).code("encode"))
            }
        });
        let shared = &self.context.shared;
        match result {
            Ok((made, output)) => {
                shared.completed(self.position, &self.name, output.clone(), attempt, took);
                self.made = Some((made, output));
            }
            Err(error) => {
                let retry = self.retry.as_ref().map(RetryPolicy::to_wire);
                shared.failed(self.position, &self.name, error, attempt, retry, took);
            }
        }
        Poll::Ready(())
    }

    fn finish(&mut self, outcome: Outcome) -> Result<T, WorkflowError> {
        let (made, output) = match (outcome, self.made.take()) {
            (Outcome::Own, Some(made)) => made,
            (Outcome::Output(output), _) => (self.read(&output)?, output),
            (Outcome::Failed { message, code, attempts }, _) => {
                return Err(WorkflowError::Step { name: self.name.to_string(), code, message, attempts });
            }
            (Outcome::Cancelled, _) => return Err(WorkflowError::Cancelled),
            (outcome, _) => unreachable!("a step comes to {outcome:?}"),
        };
        if let Some(undo) = self.undo.take() {
            self.to_be_undone(undo, output);
        }
        Ok(made)
    }

    fn read(&self, output: &Bytes) -> Result<T, WorkflowError> {
        decode(output, || format!("what the step {:?} made", self.name))
    }

    fn to_be_undone(&self, undo: Undo<T>, output: Bytes) {
        let name = self.name.clone();
        let run = move || -> BoxFuture<'static, Result<(), StepError>> {
            match decode(&output, || format!("what the step {name:?} made")) {
                Ok(made) => undo(made),
                Err(error) => Box::pin(std::future::ready(Err(StepError::fatal(error)))),
            }
        };
        self.context.shared.lock().compensations.push(Compensation {
            // The server knows by it that a run was undone: `Workflows::is_undone`.
            name: bounded(format!("undo {}", self.name)),
            retry: self.retry.clone(),
            timeout: self.timeout,
            run: Box::new(run),
        });
    }
}

impl<T> Drop for Step<'_, T> {
    fn drop(&mut self) {
        if !self.over {
            self.context.shared.forget(self.position);
        }
    }
}

fn begin(shared: &Shared, state: &mut State, position: u32, name: &str) -> Result<Phase, Divergence> {
    let mut attempts = 0;
    if let Some(step) = state.journal.take(position, StepKind::Step, name)? {
        let at = written_at(&step);
        match step.state() {
            StepState::Completed => return Ok(state.remember(position, at, Outcome::Output(step.output))),
            StepState::Failed if step.code == super::journal::CANCELLED_CODE && state.journal.cancel_remembered => {
                return Ok(state.remember(position, at, Outcome::Cancelled));
            }
            StepState::Failed => {
                let outcome = Outcome::Failed { message: step.error, code: step.code, attempts: step.attempts };
                return Ok(state.remember(position, at, outcome));
            }
            StepState::Begun | StepState::Unspecified => {
                attempts = step.attempts;
                if let Some(due) = step.due_at {
                    let at = millis(&due);
                    return Ok(Phase::Retry { due: shared.clock.instant(at), at, attempts });
                }
            }
        }
    }
    if state.facts_unwritten > 0 || state.cancel_is_news() {
        return Ok(Phase::Held(Next::Execute { attempts }));
    }
    Ok(Phase::Delivered(Outcome::Execute(attempts + 1)))
}

async fn within<T>(
    timeout: Option<Duration>,
    attempt: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, attempt).await.unwrap_or_else(|_| Err(timed_out(timeout))),
        None => attempt.await,
    }
}

pub(super) fn timed_out(timeout: Duration) -> StepError {
    StepError::new(format!("the attempt took longer than {timeout:?}")).code("timeout")
}

/// What a panic said.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a word"))
}
