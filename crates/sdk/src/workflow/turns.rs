//! Whose turn it is: in which order a workflow hears of what has happened.
//!
//! Which of two branches goes on first decides what the function asks for next, and so it has to be the same when the function is played again. Outcomes
//! are therefore written down before they are delivered, and delivered one at a time, in the order in which they were written down; when they are played
//! again, the times of writing give that order. [`super::driver`] sees to it that times differ where the order matters.

use baton_proto::v1::{self, RunState, StepKind, report};
use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::journal::{CANCELLED_CODE, Decided, How};
use super::state::{Next, Outcome, Outgoing, Phase, Purpose, Shared, State};
use super::time::{duration, timestamp};
use super::wait::{END, TIMEOUT};

/// What a workflow waits for.
pub(crate) enum Waits {
    /// Something of it is going on: it is executed, or about to be written down.
    Busy,
    /// Nothing that the context knows of.
    Nothing,
    /// Messages, or a moment.
    Until(Option<Instant>),
}

impl Shared {
    /// Lets the workflow go on where it can. Returns whether there is something for the function to see.
    pub(crate) fn advance(&self, state: &mut State) -> bool {
        while let Some((position, outcome)) = state.ready.pop_front() {
            if state.deliver(position, outcome) {
                return true;
            }
        }
        while let Some((_, position)) = state.remembered.pop_first() {
            if let Some(outcome) = state.outcomes.remove(&position)
                && state.deliver(position, outcome)
            {
                return true;
            }
        }
        if state.cancel_is_news() {
            self.tell(state);
        }
        self.look_around(state)
    }

    /// Tells the workflow that it is cancelled, at the first thing that only waits. Where that was has to be written down.
    pub(crate) fn tell(&self, state: &mut State) {
        let waiting = state.operations.iter_mut().find(|(_, operation)| match operation.phase {
            Phase::Held(_) | Phase::Retry { .. } | Phase::Sleep { .. } | Phase::Signal { .. } | Phase::Child => true,
            Phase::Remembered | Phase::Executing | Phase::Reported | Phase::Delivered(_) => false,
        });
        let Some((&position, operation)) = waiting else { return };
        let attempts = match &operation.phase {
            Phase::Retry { attempts, .. } => Some(*attempts),
            Phase::Held(next) => match next {
                Next::Execute { attempts } => Some(*attempts),
                Next::Start { .. } => None,
            },
            _ => None,
        };
        operation.phase = Phase::Reported;
        state.journal.cancel_remembered = true;
        match attempts {
            Some(attempts) => {
                let what = report::What::FailStep(v1::FailStepRequest {
                    error: "the workflow was cancelled".into(),
                    code: CANCELLED_CODE.into(),
                    non_retryable: true,
                    ..self.fail_request(position, &operation.name, attempts + 1)
                });
                state.outgoing.push(Outgoing { position, purpose: Purpose::Told, what });
            }
            None => {
                state.outgoing.push(self.decided(position, Decided::new(How::Cancelled)));
            }
        }
    }

    fn look_around(&self, state: &mut State) -> bool {
        let now = Instant::now();
        // What is the only thing that is waited for needs no record of having been first.
        let alone = state.operations.len() == 1;
        let further = state.journal.reaches(state.next_position);
        let free = state.facts_unwritten == 0 && !state.cancel_is_news();
        let mut delivered = false;
        let positions: Vec<u32> = state.operations.keys().copied().collect();
        for position in positions {
            let State { operations, journal, outgoing, .. } = state;
            let Some(operation) = operations.get_mut(&position) else { continue };
            match &mut operation.phase {
                Phase::Held(next) if free => match std::mem::replace(next, Next::Execute { attempts: 0 }) {
                    Next::Execute { attempts } => delivered |= state.deliver(position, Outcome::Execute(attempts + 1)),
                    Next::Start { child, awaited } => {
                        operation.phase = Phase::Reported;
                        state.start_child(*child, awaited);
                    }
                },
                Phase::Retry { due, attempts, .. } if free && *due <= now => {
                    let attempt = *attempts + 1;
                    delivered |= state.deliver(position, Outcome::Execute(attempt));
                }
                Phase::Sleep { due, .. } if *due <= now || (alone && further) => {
                    if alone {
                        delivered |= state.deliver(position, Outcome::Slept);
                    } else {
                        operation.phase = Phase::Reported;
                        outgoing.push(self.decided(position, Decided::new(How::Over)));
                    }
                }
                Phase::Signal { timeout } => {
                    if let Some(message) = journal.take_signal(&operation.name) {
                        operation.phase = Phase::Reported;
                        outgoing.push(self.taken(position, &operation.name, message));
                    } else if timeout.is_some_and(|(_, due)| due <= now) {
                        operation.phase = Phase::Reported;
                        outgoing.push(self.decided(position, Decided::new(How::TimedOut)));
                    }
                }
                Phase::Child => {
                    let Some(decided) = journal.child_end(position).map(child_decided) else { continue };
                    if alone {
                        delivered |= state.deliver(position, Outcome::from(decided));
                    } else {
                        operation.phase = Phase::Reported;
                        outgoing.push(self.decided(position, decided));
                    }
                }
                Phase::Held(_)
                | Phase::Retry { .. }
                | Phase::Sleep { .. }
                | Phase::Remembered
                | Phase::Executing
                | Phase::Reported
                | Phase::Delivered(_) => {}
            }
        }
        delivered
    }

    /// The report of how a wait ended.
    pub(crate) fn decided(&self, position: u32, decided: Decided) -> Outgoing {
        // Its fields cannot fail to be written.
        let output = Bytes::from(serde_json::to_vec(&decided).unwrap_or_default());
        let what = report::What::CompleteStep(self.complete_request(position + 1, StepKind::Fact, END, output));
        Outgoing { position, purpose: Purpose::Decided(Outcome::from(decided)), what }
    }

    fn taken(&self, position: u32, name: &str, message: v1::Message) -> Outgoing {
        let what = report::What::CompleteStep(v1::CompleteStepRequest {
            message: message.number,
            ..self.complete_request(position, StepKind::Signal, name, message.payload.clone())
        });
        Outgoing { position, purpose: Purpose::Taken(message.payload), what }
    }

    /// The suspension of a run all of whose branches wait.
    pub(crate) fn suspension(&self, state: &State) -> v1::SuspendRequest {
        let mut suspension = v1::SuspendRequest {
            run_id: self.info.run_id.clone(),
            lease: self.info.lease.clone(),
            seen: state.journal.seen,
            // A request to cancel is one, and always matters.
            awaits_messages: true,
            ..Default::default()
        };
        let now = Instant::now();
        let mut wake_at = None;
        for (&position, operation) in &state.operations {
            match &operation.phase {
                Phase::Sleep { due, at } => suspension.sleeps.push(v1::Sleep {
                    position,
                    name: operation.name.clone(),
                    duration: at.is_none().then(|| duration(due.saturating_duration_since(now))),
                    until: at.map(timestamp),
                }),
                Phase::Signal { timeout: Some((position, due)) } => suspension.sleeps.push(v1::Sleep {
                    position: *position,
                    name: TIMEOUT.into(),
                    duration: Some(duration(due.saturating_duration_since(now))),
                    until: None,
                }),
                Phase::Retry { at, .. } => wake_at = Some(wake_at.map_or(*at, |first: i64| first.min(*at))),
                Phase::Signal { timeout: None }
                | Phase::Child
                | Phase::Held(_)
                | Phase::Remembered
                | Phase::Executing
                | Phase::Reported
                | Phase::Delivered(_) => {}
            }
        }
        suspension.wake_at = wake_at.map(timestamp);
        suspension
    }
}

impl State {
    /// What the workflow waits for, when there is nothing to deliver.
    pub(crate) fn waits(&self) -> Waits {
        let (mut waits, mut first) = (false, None);
        for operation in self.operations.values() {
            let due = match &operation.phase {
                Phase::Held(_) | Phase::Remembered | Phase::Executing | Phase::Reported => return Waits::Busy,
                // There for the taking; nobody does at the moment.
                Phase::Delivered(_) => continue,
                Phase::Retry { due, .. } | Phase::Sleep { due, .. } => Some(*due),
                Phase::Signal { timeout } => timeout.map(|(_, due)| due),
                Phase::Child => None,
            };
            waits = true;
            first = earlier(first, due);
        }
        if waits { Waits::Until(first) } else { Waits::Nothing }
    }

    /// The next moment at which something is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.operations.values().fold(None, |first, operation| match &operation.phase {
            Phase::Retry { due, .. } | Phase::Sleep { due, .. } => earlier(first, Some(*due)),
            Phase::Signal { timeout } => earlier(first, timeout.map(|(_, due)| due)),
            Phase::Held(_)
            | Phase::Remembered
            | Phase::Executing
            | Phase::Reported
            | Phase::Child
            | Phase::Delivered(_) => first,
        })
    }
}

pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn child_decided(message: &v1::Message) -> Decided {
    let output =
        std::str::from_utf8(&message.payload).ok().and_then(|text| RawValue::from_string(text.to_owned()).ok());
    let how = match message.state() {
        RunState::Completed => How::ChildCompleted,
        RunState::Cancelled => How::ChildCancelled,
        RunState::Unspecified
        | RunState::Pending
        | RunState::Assigned
        | RunState::Running
        | RunState::Sleeping
        | RunState::Failed => How::ChildFailed,
    };
    Decided { how, output, error: message.error.clone(), run_id: message.name.clone() }
}
