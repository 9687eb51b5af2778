//! Children: workflows that a workflow starts and waits for.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Polling, Poll, ready};
use std::time::{Duration, SystemTime};

use baton_proto::v1::{self, StepKind, report};
use serde::de::DeserializeOwned;

use super::journal::{Divergence, written_at};
use super::state::{Next, Outcome, Outgoing, Phase, Purpose, Shared, State, decode};
use super::time::{duration, millis_of, timestamp};
use super::wait::remembered_end;
use super::{Context, RetryPolicy, WorkflowError};

/// A child of a workflow, made by [`Context::child`]: awaiting it starts the child and waits for what it returns.
///
/// When the parent ends before the child, the child is cancelled.
#[must_use = "a child is not started unless it is awaited"]
pub struct Child<T> {
    wait: Wait,
    start: v1::StartWorkflowRequest,
    /// Why the input cannot be sent.
    invalid: Option<WorkflowError>,
    output: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Child<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("wait", &self.wait).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Wait {
    context: Context,
    position: u32,
    name: String,
    over: bool,
}

impl<T> Child<T> {
    pub(super) fn new(
        context: Context,
        workflow_type: String,
        input: Result<bytes::Bytes, serde_json::Error>,
    ) -> Child<T> {
        let position = context.shared.positions(2);
        let (input, invalid) = match input {
            Ok(input) => (input, None),
            Err(error) => {
                let message = format!("the input of the child {workflow_type:?} cannot be written as JSON: {error}");
                (bytes::Bytes::new(), Some(WorkflowError::fatal(message).with_code("encode")))
            }
        };
        let start = v1::StartWorkflowRequest {
            workflow_type: workflow_type.clone(),
            input,
            traceparent: context.traceparent().unwrap_or_default(),
            tracestate: context.tracestate().unwrap_or_default().to_owned(),
            ..Default::default()
        };
        let wait = Wait { context, position, name: workflow_type, over: false };
        Child { wait, start, invalid, output: PhantomData }
    }

    /// Starts it on this queue; on the parent's unless given.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.start.task_queue = queue.into();
        self
    }

    /// Tries it again as this policy says when it fails; once unless given.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.start.retry = Some(policy.to_wire());
        self
    }

    /// It fails when it takes longer than this, sleeps included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.start.timeout = Some(duration(timeout));
        self
    }

    /// 0 to 9, 9 first.
    pub fn priority(mut self, priority: u8) -> Self {
        self.start.priority = Some(priority.into());
        self
    }

    /// Starts it this long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.start.start_after = Some(duration(delay));
        self
    }

    /// Starts it at this moment.
    pub fn at(mut self, moment: impl Into<SystemTime>) -> Self {
        self.start.start_at = Some(timestamp(millis_of(moment.into())));
        self
    }

    /// A key for limits and fair turns.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.start.key = Some(key.into());
        self
    }

    /// Only workers of this version may take it.
    pub fn pin_version(mut self, version: impl Into<String>) -> Self {
        self.start.pin_version = Some(version.into());
        self
    }

    /// Starts it and comes back as soon as it is there; [`StartedChild::result`] waits for its end.
    pub fn start(self) -> StartChild<T> {
        StartChild(self)
    }

    fn poll_outcome(&mut self, awaited: bool, polling: &mut Polling<'_>) -> Poll<Result<Outcome, WorkflowError>> {
        if let Some(error) = self.invalid.take() {
            return Poll::Ready(Err(error));
        }
        let (wait, start) = (&mut self.wait, &self.start);
        let (position, name) = (wait.position, &wait.name);
        let begin = |shared: &Shared, state: &mut State| {
            if let Some(remembered) = begin(state, position, name, awaited)? {
                return Ok(remembered);
            }
            let child = v1::StartChildRequest {
                run_id: shared.info.run_id.clone(),
                lease: shared.info.lease.clone(),
                position,
                name: name.clone(),
                start: Some(start.clone()),
            };
            if state.facts_unwritten > 0 || state.cancel_is_news() {
                return Ok(Phase::Held(Next::Start { child: Box::new(child), awaited }));
            }
            Ok(state.start_child(child, awaited))
        };
        let outcome = ready!(wait.context.shared.poll(position, name, polling, begin));
        wait.over = true;
        Poll::Ready(Ok(outcome))
    }
}

/// What is remembered of a child, if anything.
fn begin(state: &mut State, position: u32, name: &str, awaited: bool) -> Result<Option<Phase>, Divergence> {
    let started = state.journal.take(position, StepKind::Child, name)?;
    if let (true, Some(step)) = (awaited, &started) {
        return Ok(Some(state.remember(position, written_at(step), Outcome::Started(step.child_run_id.clone()))));
    }
    if let Some((at, outcome)) = remembered_end(&mut state.journal, position)? {
        return Ok(Some(state.remember(position, at, outcome)));
    }
    Ok(started.map(|_| Phase::Child))
}

impl State {
    pub(crate) fn start_child(&mut self, child: v1::StartChildRequest, awaited: bool) -> Phase {
        let position = child.position;
        let what = report::What::StartChild(child);
        self.outgoing.push(Outgoing { position, purpose: Purpose::Started { awaited }, what });
        Phase::Reported
    }
}

impl Wait {
    fn finish<T: DeserializeOwned>(&self, outcome: Outcome) -> Result<T, WorkflowError> {
        match outcome {
            Outcome::ChildCompleted(output) => decode(&output, || format!("what the child {:?} returned", self.name)),
            Outcome::ChildFailed { cancelled, run_id, message } => {
                Err(WorkflowError::Child { workflow_type: self.name.clone(), run_id, cancelled, message })
            }
            Outcome::Cancelled => Err(WorkflowError::Cancelled),
            outcome => unreachable!("a child comes to {outcome:?}"),
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if !self.over {
            self.context.shared.forget(self.position);
        }
    }
}

impl<T: DeserializeOwned> Future for Child<T> {
    type Output = Result<T, WorkflowError>;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let outcome = ready!(this.poll_outcome(false, polling));
        Poll::Ready(outcome.and_then(|outcome| this.wait.finish(outcome)))
    }
}

/// The start of a child, made by [`Child::start`].
#[must_use = "a child is not started unless it is awaited"]
#[derive(Debug)]
pub struct StartChild<T>(Child<T>);

impl<T> Future for StartChild<T> {
    type Output = Result<StartedChild<T>, WorkflowError>;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let child = &mut self.get_mut().0;
        let outcome = ready!(child.poll_outcome(true, polling));
        let Wait { context, position, name, .. } = &child.wait;
        Poll::Ready(match outcome? {
            Outcome::Started(run_id) => Ok(StartedChild {
                // Until somebody waits for its end there is nothing to forget.
                wait: Wait { context: context.clone(), position: *position, name: name.clone(), over: true },
                run_id,
                output: PhantomData,
            }),
            outcome => match child.wait.finish::<serde::de::IgnoredAny>(outcome) {
                Err(error) => Err(error),
                Ok(_) => unreachable!("a child ended before it was started"),
            },
        })
    }
}

/// A child that was started.
pub struct StartedChild<T> {
    wait: Wait,
    run_id: String,
    output: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for StartedChild<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedChild").field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl<T> StartedChild<T> {
    /// The child's run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Waits for what the child returns.
    pub fn result(mut self) -> ChildResult<T> {
        self.wait.over = false;
        ChildResult(self)
    }
}

/// The end of a child, made by [`StartedChild::result`].
#[must_use = "a child's end is not waited for unless it is awaited"]
#[derive(Debug)]
pub struct ChildResult<T>(StartedChild<T>);

impl<T: DeserializeOwned> Future for ChildResult<T> {
    type Output = Result<T, WorkflowError>;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let wait = &mut self.get_mut().0.wait;
        let (position, name) = (wait.position, &wait.name);
        let begin = |_: &Shared, state: &mut State| {
            Ok(match remembered_end(&mut state.journal, position)? {
                Some((at, outcome)) => state.remember(position, at, outcome),
                None => Phase::Child,
            })
        };
        let outcome = ready!(wait.context.shared.poll(position, name, polling, begin));
        wait.over = true;
        Poll::Ready(wait.finish(outcome))
    }
}
