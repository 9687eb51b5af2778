//! Drives the function of a workflow: polls it, writes down what it does, and lets go of the run when all of it waits.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll};
use std::time::Duration;

use baton_core::trace::TraceContext;
use baton_otlp::Exporter;
use baton_proto::v1::{self, report, report_answer};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep_until};

use super::answers::{Flight, Settled};
use super::handler::Handler;
use super::journal::Journal;
use super::mailbox::{Event, Mailbox, Outbox};
use super::saga;
use super::state::{Fatal, Info, Shared, State};
use super::step::{BoxFuture, said};
use super::time::{Clock, millis};
use super::turns::{Waits, earlier};
use super::{Context, WorkflowError};
use crate::spans::AttemptSpans;

/// A wait that is over so soon is waited for here: letting go and taking up again would take about as long.
const SHORT_WAIT: Duration = Duration::from_millis(20);
/// How long a suspension is put off that was refused for news that is none.
const SUSPEND_AGAIN: Duration = Duration::from_millis(50);
/// After so many turns others may have theirs.
const TURNS_MAX: u32 = 256;

/// How a driver's work on a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finished {
    /// The run has completed, or goes on as another one.
    Completed,
    /// The run has failed or is cancelled, or this attempt has failed.
    Failed,
    /// The run sleeps.
    Suspended,
    /// The run was given back.
    GivenBack,
    /// The lease was lost.
    Lost,
}

/// What is being polled.
pub(super) enum Stage {
    /// The workflow's function.
    Function(BoxFuture<'static, Result<Bytes, WorkflowError>>),
    /// The compensations of a function that ended with this error.
    Undoing(BoxFuture<'static, Vec<WorkflowError>>, WorkflowError),
    /// Nothing any more; this is to be reported.
    Done(Result<Bytes, WorkflowError>),
    /// Nothing any more.
    Over,
}

/// What comes after a turn.
pub(super) enum Turn {
    Again,
    /// As soon as others had theirs: code of the workflow has kept the thread.
    AfterOthers,
    Wait,
}

/// What a poll of the function came to.
struct Polled {
    /// There is something else to be polled now.
    again: bool,
    /// It kept the thread for long.
    was_long: bool,
}

/// Works on one run until its lease ends.
pub(crate) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) stage: Stage,
    /// The run was undone, so that trying it again makes no sense.
    pub(super) undone: bool,
    pub(super) flight: Option<Flight>,
    /// Reports are numbered.
    pub(super) sent: u64,
    /// When the last reports were answered, and the position that was next when an outcome was last delivered.
    pub(super) answered: Instant,
    pub(super) horizon: u32,
    pub(super) suspend_after: Option<Instant>,
    /// The run is to be given back, for this reason.
    pub(super) stopping: Option<&'static str>,
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

impl Driver {
    pub(crate) fn new(
        run: v1::PollActivityResponse,
        handler: &Handler,
        mailbox: Arc<Mailbox>,
        outbox: Arc<dyn Outbox>,
        blocking: Arc<Semaphore>,
        exporter: Option<&Exporter>,
    ) -> Driver {
        let trace = TraceContext::parse(&run.traceparent, Some(run.tracestate.as_str()));
        let spans = AttemptSpans::new(exporter, trace.as_ref(), &run.run_id, None);
        let info = Info {
            run_id: run.run_id,
            lease: run.lease,
            workflow_type: run.workflow_type,
            namespace: run.namespace_id,
            queue: run.task_queue,
            attempt: run.attempt,
            parent: Some(run.parent_run_id).filter(|parent| !parent.is_empty()),
            submitted_at: run.submitted_at.as_ref().map_or(0, millis),
            trace,
            spans,
        };
        let clock = Clock::new(run.now.as_ref().map_or(0, millis));
        let shared = Arc::new(Shared::new(info, clock, Journal::new(run.steps, run.messages), blocking));
        mailbox.drives(&shared);
        let function = handler(Context::new(shared.clone()), run.workflow_input);
        Driver {
            shared,
            mailbox,
            outbox,
            stage: Stage::Function(function),
            undone: false,
            flight: None,
            sent: 0,
            answered: Instant::now(),
            horizon: 0,
            suspend_after: None,
            stopping: None,
            timer: None,
        }
    }

    /// What the function and this share.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    // ---- events

    fn receive(&mut self, event: Event) -> Option<Finished> {
        match event {
            Event::Answer { number, what } => return self.answer(number, what),
            Event::Messages(messages) => self.shared.lock().journal.pushed(messages),
            Event::Cancel => self.shared.lock().journal.cancel_requested = true,
            Event::Lost => return Some(Finished::Lost),
            Event::GiveBack(reason) => self.stopping = Some(reason),
        }
        None
    }

    fn answer(&mut self, number: u64, what: report_answer::What) -> Option<Finished> {
        if let report_answer::What::Error(error) = &what
            && matches!(error.reason.as_str(), "LEASE_LOST" | "ENDED" | "NOT_FOUND")
        {
            return Some(Finished::Lost);
        }
        if let report_answer::What::Error(error) = &what
            && error.reason == "CANCELLING"
        {
            // Cancelled by the kernel, without asking the workflow: the server takes nothing else than the run.
            self.flight = None;
            self.stopping = Some("the run was cancelled");
            return None;
        }
        let flight = self.flight.take()?;
        match flight.answer(number, what) {
            Settled::Not(flight) => self.flight = Some(flight),
            Settled::Batch(answers) => {
                self.answered = Instant::now();
                let mut state = self.shared.lock();
                for (outgoing, answer) in answers {
                    self.shared.settle(&mut state, outgoing, answer);
                }
            }
            Settled::Suspended => return Some(Finished::Suspended),
            Settled::Kept(messages) => {
                if !self.shared.lock().journal.all_until(messages) {
                    self.suspend_after = Some(Instant::now() + SUSPEND_AGAIN);
                }
            }
            Settled::Ended(finished) => return Some(finished),
            Settled::Refused(error) => self.refused(&error),
        }
        None
    }

    /// The end of the run, or its suspension, was refused for good.
    fn refused(&mut self, error: &v1::ReportError) {
        let fatal = Fatal {
            code: "refused",
            message: format!("the server refuses what the workflow came to: {}", error.message),
        };
        match std::mem::replace(&mut self.stage, Stage::Over) {
            // It was the failure itself that was refused. Nothing is left but to let somebody else try.
            Stage::Over => {
                tracing::error!(
                    run_id = self.shared.info.run_id,
                    error = error.message,
                    "the end of a workflow is refused"
                );
                self.give_back(fatal.message);
            }
            Stage::Function(_) | Stage::Undoing(..) | Stage::Done(_) => self.fail_for_good(fatal),
        }
    }

    // ---- turns

    fn turn(&mut self, polling: &mut Polling<'_>) -> Turn {
        if matches!(self.flight, Some(Flight::Suspending { .. } | Flight::Ending { .. })) {
            return Turn::Wait;
        }
        if let Some(reason) = self.stopping {
            self.drop_stage();
            self.give_back(reason.into());
            return Turn::Wait;
        }
        let polled = self.poll_stage(polling);
        if polled.again {
            return Turn::Again;
        }
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if polled.was_long {
            self.send_early(&mut state);
        }
        if let Some(fatal) = state.fatal.take() {
            drop(state);
            self.fail_for_good(fatal);
            return Turn::Wait;
        }
        let working = matches!(self.stage, Stage::Function(_) | Stage::Undoing(..));
        if working && shared.advance(&mut state) {
            self.horizon = state.next_position;
            return if polled.was_long { Turn::AfterOthers } else { Turn::Again };
        }
        let mut due = state.next_due();
        if self.flight.is_none() {
            if let Some(value) = state.published.take() {
                state.outgoing.push(self.publication(value));
            }
            if !state.outgoing.is_empty() {
                match self.spaced(&state) {
                    Some(later) => due = earlier(due, Some(later)),
                    None => self.send(&mut state),
                }
            } else if !working {
                drop(state);
                return self.finish();
            } else if let Waits::Until(first) = state.waits() {
                if state.cancel_is_unheard() {
                    // All that is remembered has come, even if there seemed to be more.
                    shared.tell(&mut state);
                    return Turn::Again;
                }
                let now = Instant::now();
                let soon = earlier(
                    first.filter(|first| *first <= now + SHORT_WAIT),
                    self.suspend_after.filter(|after| *after > now),
                );
                match soon {
                    Some(soon) => due = Some(soon),
                    None => {
                        let suspension = shared.suspension(&state);
                        drop(state);
                        let number = self.number();
                        self.flight = Some(Flight::Suspending { number });
                        self.outbox.send(&self.mailbox, vec![(number, report::What::Suspend(suspension))]);
                        return Turn::Wait;
                    }
                }
            }
        }
        drop(state);
        if working || due.is_some() { self.poll_timer(due, polling) } else { Turn::Wait }
    }

    /// Polls what is to be polled. No lock is held meanwhile: code of the workflow runs here.
    fn poll_stage(&mut self, polling: &mut Polling<'_>) -> Polled {
        self.shared.driver_polls(polling.waker());
        let ended = match &mut self.stage {
            Stage::Function(function) => match catch_unwind(AssertUnwindSafe(|| function.as_mut().poll(polling))) {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(result)) => Some(result),
                Err(panic) => Some(Err(WorkflowError::failed(said(&*panic)).with_code("panic"))),
            },
            Stage::Undoing(undoing, error) => match undoing.as_mut().poll(polling) {
                Poll::Pending => None,
                Poll::Ready(failures) => Some(Err(undone(error.clone(), &failures))),
            },
            Stage::Done(_) | Stage::Over => None,
        };
        let again = ended.is_some_and(|result| self.ended(result));
        Polled { again, was_long: self.shared.driver_polled() }
    }

    /// Sends what was done, although there may be more to do: code that keeps the thread may go on
    /// for long, and what is not sent by then is lost with the worker. Nothing overtakes an outcome
    /// that has to be delivered first.
    fn send_early(&mut self, state: &mut State) {
        let is_first = state.ready.is_empty() && state.remembered.is_empty();
        if self.flight.is_none() && is_first && !state.outgoing.is_empty() && self.spaced(state).is_none() {
            self.send(state);
        }
    }

    /// The function, or undoing it, came to this. Returns whether it is to be undone now.
    fn ended(&mut self, result: Result<Bytes, WorkflowError>) -> bool {
        let undoing = matches!(self.stage, Stage::Undoing(..));
        // What the function left behind is dropped before anything else happens.
        self.drop_stage();
        let mut state = self.shared.lock();
        let failed = match &result {
            Ok(_) => false,
            Err(WorkflowError::ContinueAsNew(_)) => state.told,
            Err(_) => true,
        };
        let compensations = std::mem::take(&mut state.compensations);
        self.stage = match result {
            Err(error) if failed && !undoing && !compensations.is_empty() => {
                state.compensating = true;
                self.undone = true;
                Stage::Undoing(Box::pin(saga::undo(Context::new(self.shared.clone()), compensations)), error)
            }
            result => Stage::Done(result),
        };
        matches!(self.stage, Stage::Undoing(..))
    }

    pub(super) fn drop_stage(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        // Code of the workflow runs here: a destructor may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(stage)));
    }

    fn poll_timer(&mut self, due: Option<Instant>, polling: &mut Polling<'_>) -> Turn {
        let Some(due) = due else {
            self.timer = None;
            return Turn::Wait;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        match timer.as_mut().poll(polling) {
            Poll::Ready(()) => {
                self.timer = None;
                Turn::Again
            }
            Poll::Pending => Turn::Wait,
        }
    }
}

/// The error of a run that was undone, with what could not be.
fn undone(error: WorkflowError, failures: &[WorkflowError]) -> WorkflowError {
    if failures.is_empty() {
        return error;
    }
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let message = format!("{error}; and could not be undone: {}", failures.join("; "));
    WorkflowError::fatal(message).with_code(error.code())
}

impl Future for Driver {
    type Output = Finished;

    fn poll(self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Finished> {
        let this = self.get_mut();
        for event in this.mailbox.take(polling.waker()) {
            if let Some(finished) = this.receive(event) {
                return Poll::Ready(finished);
            }
        }
        for _ in 0..TURNS_MAX {
            match this.turn(polling) {
                Turn::Again => {}
                Turn::AfterOthers => break,
                Turn::Wait => return Poll::Pending,
            }
        }
        polling.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.drop_stage();
        self.shared.lock().is_over = true;
    }
}
