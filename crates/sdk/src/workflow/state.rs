//! What a workflow's function and its driver share.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Polling, Poll, Waker};
use std::time::Duration;

use baton_core::trace::TraceContext;
use baton_proto::v1::{self, report};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::WorkflowError;
use super::journal::{Decided, Divergence, How, Journal};
use super::saga::Compensation;
use super::time::{Clock, Millis};
use crate::busy::{Busy, Kept};
use crate::spans::AttemptSpans;

/// Most positions of one run.
pub(crate) const POSITIONS_MAX: u32 = 50_000;
/// Longest name of anything.
const NAME_BYTES_MAX: usize = 200;

/// When a poll of the function has begun a step and taken so long, it begins no further one: what
/// was done is written down first, and others have their turn.
pub(crate) const LONG_TURN: Duration = Duration::from_millis(10);

/// What is known of a run from its claim on.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) run_id: String,
    pub(crate) lease: String,
    pub(crate) workflow_type: String,
    pub(crate) namespace: String,
    pub(crate) queue: String,
    pub(crate) attempt: u32,
    pub(crate) parent: Option<String>,
    pub(crate) submitted_at: Millis,
    /// Where this attempt stands in its trace.
    pub(crate) trace: Option<TraceContext>,
    /// Sends spans, if somebody wants them.
    pub(crate) spans: Option<AttemptSpans>,
}

/// What something that a workflow waits for comes to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The step is to be executed, for this time.
    Execute(u32),
    /// The step's own value was written down.
    Own,
    /// The step has this output.
    Output(Bytes),
    /// The step has failed for good.
    Failed { message: String, code: String, attempts: u32 },
    /// The sleep is over.
    Slept,
    /// The signal came with this.
    Signal(Bytes),
    /// The signal did not come in time.
    TimedOut,
    /// The child was started as this run.
    Started(String),
    /// The child completed with this.
    ChildCompleted(Bytes),
    /// The child ended otherwise.
    ChildFailed { cancelled: bool, run_id: String, message: String },
    /// The workflow is told that it is cancelled.
    Cancelled,
}

/// What something does that was asked for and has not come to its end.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Its outcome is remembered, and comes when it is its turn.
    Remembered,
    /// It has not begun: the workflow may have to hear first that it is cancelled, facts have to be
    /// written down, or others kept the thread for too long.
    Held(Next),
    /// Code of the workflow is executed.
    Executing,
    /// A report about it has no answer yet.
    Reported,
    /// The next attempt is due then.
    Retry { due: Instant, at: Millis, attempts: u32 },
    /// Sleeps until then; `at` is known when the server has to know the moment, and not only how long.
    Sleep { due: Instant, at: Option<Millis> },
    /// Waits for a signal, at most until then; the position is that of the timeout.
    Signal { timeout: Option<(u32, Instant)> },
    /// Waits for the end of a child.
    Child,
    /// Its outcome is there for whoever polls.
    Delivered(Outcome),
}

/// What something that is held back begins with.
#[derive(Debug)]
pub(crate) enum Next {
    /// Executing, after so many failed attempts.
    Execute { attempts: u32 },
    /// Starting a child; whether somebody waits for the start.
    Start { child: Box<v1::StartChildRequest>, awaited: bool },
}

/// Something that was asked for and polled.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) phase: Phase,
    waker: Waker,
}

/// What the answer to a report means.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// This attempt of a step completed.
    Completed { attempt: u32 },
    /// An attempt of a step failed.
    Failed { message: String, code: String, attempts: u32 },
    /// A fact was written down.
    Fact,
    /// It was written down how a wait ended.
    Decided(Outcome),
    /// A signal was taken.
    Taken(Bytes),
    /// A child was started; whether somebody waits for that.
    Started { awaited: bool },
    /// A step was ended to tell the workflow that it is cancelled.
    Told,
    /// Something was published.
    Published,
}

/// A report that is to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The operation it is about.
    pub(crate) position: u32,
    pub(crate) purpose: Purpose,
    pub(crate) what: report::What,
}

/// Why a run cannot go on, whatever its function does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fatal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) journal: Journal,
    pub(crate) next_position: u32,
    pub(crate) operations: BTreeMap<u32, Operation>,
    /// Remembered outcomes of polled operations, in the order in which they were written down.
    pub(crate) remembered: BTreeSet<(Millis, u32)>,
    pub(crate) outcomes: HashMap<u32, Outcome>,
    /// Outcomes that were just written down, in the order in which they are delivered.
    pub(crate) ready: VecDeque<(u32, Outcome)>,
    pub(crate) outgoing: Vec<Outgoing>,
    pub(crate) published: Option<Bytes>,
    pub(crate) facts_unwritten: usize,
    pub(crate) versions: HashMap<String, u32>,
    pub(crate) compensations: Vec<Compensation>,
    pub(crate) compensating: bool,
    /// The workflow has been told that it is cancelled.
    pub(crate) told: bool,
    pub(crate) fatal: Option<Fatal>,
    /// Nobody drives the workflow any more.
    pub(crate) is_over: bool,
    driver: Option<Waker>,
    /// Since when the driver polls the function, and whether a step has begun since.
    polling: Option<std::time::Instant>,
    has_begun: bool,
    /// What is being polled.
    busy: Option<Busy>,
}

/// What a workflow's function and its driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) info: Info,
    pub(crate) clock: Clock,
    /// Threads for code that blocks.
    pub(crate) blocking: Arc<Semaphore>,
    state: Mutex<State>,
}

/// Code of a step is executed until this is dropped.
pub(crate) struct Executing<'a>(&'a Shared);

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // What comes now is code between steps, unless somebody else than the driver polls.
        let after = state.polling.map(|_| Busy::begin(None));
        let kept = std::mem::replace(&mut state.busy, after).and_then(Busy::end);
        drop(state);
        self.0.say_over(kept);
    }
}

impl Shared {
    pub(crate) fn new(info: Info, clock: Clock, journal: Journal, blocking: Arc<Semaphore>) -> Shared {
        Shared { info, clock, blocking, state: Mutex::new(State { journal, ..State::default() }) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code of a workflow runs while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- who keeps the thread

    /// Code of this step is executed from now on.
    pub(crate) fn executing(&self, step: &Arc<str>) -> Executing<'_> {
        self.lock().busy = Some(Busy::begin(Some(step.clone())));
        Executing(self)
    }

    /// Says in the log what keeps its thread for too long. Called on another thread.
    pub(crate) fn look(&self) {
        let kept = self.lock().busy.as_mut().and_then(Busy::look);
        if let Some(kept) = kept {
            kept.warn(&self.info.run_id, &self.info.workflow_type);
        }
    }

    fn say_over(&self, kept: Option<Kept>) {
        if let Some(kept) = kept {
            kept.say_over(&self.info.run_id, &self.info.workflow_type);
        }
    }

    /// The driver begins to poll the function. Whatever happens until it ends that the driver sees
    /// anyway.
    pub(crate) fn driver_polls(&self, waker: &Waker) {
        let mut state = self.lock();
        state.polling = Some(std::time::Instant::now());
        state.has_begun = false;
        state.busy = Some(Busy::begin(None));
        match &mut state.driver {
            Some(driver) => driver.clone_from(waker),
            None => state.driver = Some(waker.clone()),
        }
    }

    /// The driver has polled the function. Returns whether that took long.
    pub(crate) fn driver_polled(&self) -> bool {
        let mut state = self.lock();
        let was_long = state.turn_is_long();
        state.polling = None;
        let kept = state.busy.take().and_then(Busy::end);
        drop(state);
        self.say_over(kept);
        was_long
    }

    // ---- operations

    /// Takes positions, the first of which is returned.
    pub(crate) fn positions(&self, count: u32) -> u32 {
        let mut state = self.lock();
        let position = state.next_position;
        state.next_position = position.saturating_add(count);
        if state.next_position > POSITIONS_MAX {
            state.fail("too_many_positions", || {
                format!("a run has at most {POSITIONS_MAX} positions; a workflow without an end has to continue as new before")
            });
        }
        position
    }

    /// Polls the operation at a position; `begin` says what it does first.
    pub(crate) fn poll(
        &self,
        position: u32,
        name: &str,
        polling: &mut Polling<'_>,
        begin: impl FnOnce(&Shared, &mut State) -> Result<Phase, Divergence>,
    ) -> Poll<Outcome> {
        let mut state = self.lock();
        let state = &mut *state;
        if state.fatal.is_some() {
            return Poll::Pending;
        }
        if !state.operations.contains_key(&position) {
            let phase = match begin(self, state) {
                Ok(phase) => phase,
                Err(divergence) => {
                    state.fail("diverged", || divergence.message(&self.info.workflow_type));
                    return Poll::Pending;
                }
            };
            let operation = Operation { name: name.to_owned(), phase, waker: polling.waker().clone() };
            state.operations.insert(position, operation);
            state.wake_driver();
        }
        // Each poll begins at least one, however long its other code takes.
        let holds_back = state.has_begun && state.turn_is_long();
        let Some(operation) = state.operations.get_mut(&position) else { return Poll::Pending };
        match std::mem::replace(&mut operation.phase, Phase::Executing) {
            Phase::Delivered(Outcome::Execute(attempt)) if holds_back => {
                operation.phase = Phase::Held(Next::Execute { attempts: attempt - 1 });
                operation.waker.clone_from(polling.waker());
                Poll::Pending
            }
            Phase::Delivered(outcome @ Outcome::Execute(_)) => {
                state.has_begun = true;
                Poll::Ready(outcome)
            }
            Phase::Delivered(outcome) => {
                state.operations.remove(&position);
                Poll::Ready(outcome)
            }
            phase => {
                operation.phase = phase;
                operation.waker.clone_from(polling.waker());
                Poll::Pending
            }
        }
    }

    /// Nobody waits for this operation any more.
    pub(crate) fn forget(&self, position: u32) {
        let mut state = self.lock();
        if state.operations.remove(&position).is_some() {
            state.remembered.retain(|(_, remembered)| *remembered != position);
            state.outcomes.remove(&position);
            state.wake_driver();
        }
    }
}

impl From<Decided> for Outcome {
    fn from(decided: Decided) -> Outcome {
        let Decided { how, output, error, run_id } = decided;
        match how {
            How::Over => Outcome::Slept,
            How::TimedOut => Outcome::TimedOut,
            How::Cancelled => Outcome::Cancelled,
            How::ChildCompleted => Outcome::ChildCompleted(
                output.map_or_else(Bytes::new, |output| String::from(Box::<str>::from(output)).into()),
            ),
            How::ChildFailed => Outcome::ChildFailed { cancelled: false, run_id, message: error },
            How::ChildCancelled => Outcome::ChildFailed { cancelled: true, run_id, message: error },
        }
    }
}

impl State {
    /// The run cannot go on. The first reason stands.
    pub(crate) fn fail(&mut self, code: &'static str, message: impl FnOnce() -> String) {
        if self.fatal.is_none() {
            self.fatal = Some(Fatal { code, message: message() });
            self.wake_driver();
        }
    }

    /// True while the function has been further than it is now.
    pub(crate) fn replaying(&self) -> bool {
        !self.remembered.is_empty() || self.journal.reaches(self.next_position)
    }

    /// True when the workflow has to hear that it is cancelled.
    pub(crate) fn cancel_is_news(&self) -> bool {
        self.cancel_is_unheard() && !self.replaying()
    }

    /// True when the workflow has not heard that it is cancelled, as far as is known.
    pub(crate) fn cancel_is_unheard(&self) -> bool {
        self.journal.cancel_requested && !self.journal.cancel_remembered && !self.told && !self.compensating
    }

    /// An outcome is remembered: it comes when everything that was written down before it has come.
    pub(crate) fn remember(&mut self, position: u32, at: Millis, outcome: Outcome) -> Phase {
        self.remembered.insert((at, position));
        self.outcomes.insert(position, outcome);
        Phase::Remembered
    }

    /// Hands an outcome to whoever waits for it. Returns whether there is somebody.
    pub(crate) fn deliver(&mut self, position: u32, outcome: Outcome) -> bool {
        if let Outcome::Cancelled = outcome {
            self.told = true;
        }
        let Some(operation) = self.operations.get_mut(&position) else { return false };
        operation.phase = Phase::Delivered(outcome);
        operation.waker.wake_by_ref();
        true
    }

    /// True when the driver has polled the function for long, and does.
    fn turn_is_long(&self) -> bool {
        self.polling.is_some_and(|since| since.elapsed() > LONG_TURN)
    }

    /// The driver has to look, unless it is about to: a workflow may be polled by somebody else than its driver.
    pub(crate) fn wake_driver(&self) {
        if let (None, Some(driver)) = (self.polling, &self.driver) {
            driver.wake_by_ref();
        }
    }
}

/// Makes a name that was put together fit.
pub(crate) fn bounded(name: String) -> String {
    cut(name, NAME_BYTES_MAX)
}

/// Cuts a text that is longer.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// Reads what was remembered or sent. Nothing is the same as `null`.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(
    payload: &Bytes,
    what: impl FnOnce() -> String,
) -> Result<T, WorkflowError> {
    let text: &[u8] = if payload.is_empty() { b"null" } else { payload };
    let mut reader = serde_json::Deserializer::from_slice(text);
    serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| WorkflowError::Decode { what: what(), message: error.to_string() })
}

pub(crate) fn encode(value: &impl serde::Serialize) -> Result<Bytes, serde_json::Error> {
    serde_json::to_vec(value).map(Bytes::from)
}
