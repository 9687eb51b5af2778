//! What the answers to reports mean.

use baton_proto::v1::{self, report_answer};
use tokio::time::Instant;

use super::driver::Finished;
use super::journal::{Decided, How, decided};
use super::state::{Outcome, Phase, Purpose, Shared, State};
use super::time::{millis, span};

type About = (u32, Purpose);

/// Reports that have no answer yet. One flight at a time: what is sent later is written down later.
pub(crate) enum Flight {
    /// Reports about positions, numbered from `first`.
    Batch { first: u64, missing: usize, batch: Vec<(About, Option<report_answer::What>)> },
    /// The run is to be suspended.
    Suspending { number: u64 },
    /// The lease is to end like this.
    Ending { number: u64, finished: Finished },
}

/// What an answer makes of a flight.
pub(crate) enum Settled {
    /// There are more to come.
    Not(Flight),
    /// Everything was answered.
    Batch(Vec<(About, report_answer::What)>),
    /// The run is suspended.
    Suspended,
    /// The run is not suspended: there are these messages.
    Kept(Vec<v1::Message>),
    /// The lease has ended.
    Ended(Finished),
    /// The end or the suspension was refused.
    Refused(v1::ReportError),
}

impl Flight {
    pub(crate) fn answer(self, number: u64, what: report_answer::What) -> Settled {
        match self {
            Flight::Batch { first, mut missing, mut batch } => {
                let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
                if let Some((_, answer @ None)) = index.and_then(|index| batch.get_mut(index)) {
                    *answer = Some(what);
                    missing -= 1;
                }
                if missing > 0 {
                    return Settled::Not(Flight::Batch { first, missing, batch });
                }
                Settled::Batch(batch.into_iter().filter_map(|(about, answer)| Some((about, answer?))).collect())
            }
            Flight::Suspending { number: asked } if asked == number => match what {
                report_answer::What::Suspend(answer) if answer.suspended => Settled::Suspended,
                report_answer::What::Suspend(answer) => Settled::Kept(answer.messages),
                report_answer::What::Error(error) => Settled::Refused(error),
                _ => Settled::Refused(strange()),
            },
            Flight::Ending { number: asked, finished } if asked == number => match what {
                report_answer::What::Error(error) => Settled::Refused(error),
                _ => Settled::Ended(finished),
            },
            flight @ (Flight::Suspending { .. } | Flight::Ending { .. }) => Settled::Not(flight),
        }
    }
}

fn strange() -> v1::ReportError {
    v1::ReportError { message: "the answer is not one to what was asked".into(), ..Default::default() }
}

impl Purpose {
    /// True when somebody is told of the answer, so that its time matters.
    pub(crate) fn delivers(&self) -> bool {
        match self {
            Purpose::Completed { .. }
            | Purpose::Failed { .. }
            | Purpose::Decided(_)
            | Purpose::Taken(_)
            | Purpose::Started { awaited: true }
            | Purpose::Told => true,
            Purpose::Fact | Purpose::Started { awaited: false } | Purpose::Published => false,
        }
    }
}

impl Shared {
    /// Notes the answer to a report about a position.
    pub(crate) fn settle(&self, state: &mut State, (position, purpose): About, answer: report_answer::What) {
        use report_answer::What;
        let outcome = match (purpose, answer) {
            (Purpose::Fact, What::CompleteStep(_)) => {
                state.facts_unwritten -= 1;
                return;
            }
            (Purpose::Published, What::Publish(_)) => return,
            (Purpose::Completed { .. }, What::CompleteStep(step)) if step.existed => Outcome::Output(step.output),
            (Purpose::Completed { .. }, What::CompleteStep(_)) => Outcome::Own,
            (Purpose::Failed { message, code, attempts }, What::FailStep(answer)) => {
                if answer.retry {
                    return self.retry(state, position, &answer, attempts);
                }
                Outcome::Failed { message, code, attempts }
            }
            (Purpose::Told, What::FailStep(_)) => Outcome::Cancelled,
            (Purpose::Decided(outcome), What::CompleteStep(step)) => match decided(&step.output) {
                Some(before) if step.existed && (before.how != How::Cancelled || state.journal.cancel_requested) => {
                    before.into()
                }
                _ => outcome,
            },
            (Purpose::Taken(payload), What::CompleteStep(_)) => Outcome::Signal(payload),
            (Purpose::Started { awaited: true }, What::StartChild(child)) => Outcome::Started(child.run_id),
            (Purpose::Started { awaited: false }, What::StartChild(_)) => {
                if let Some(operation) = state.operations.get_mut(&position) {
                    operation.phase = Phase::Child;
                }
                return;
            }
            (purpose, What::Error(error)) => return self.refused(state, position, purpose, error),
            (_, _) => return state.fail("refused", || strange().message),
        };
        state.ready.push_back((position, outcome));
    }

    fn retry(&self, state: &mut State, position: u32, answer: &v1::FailStepResponse, attempts: u32) {
        let (due, at) = match (&answer.retry_after, &answer.retry_at) {
            (Some(after), Some(at)) => (Instant::now() + span(after), millis(at)),
            (Some(after), None) => {
                let due = Instant::now() + span(after);
                (due, self.clock.at(due))
            }
            (None, Some(at)) => (self.clock.instant(millis(at)), millis(at)),
            (None, None) => (Instant::now(), self.clock.now()),
        };
        if let Some(operation) = state.operations.get_mut(&position) {
            operation.phase = Phase::Retry { due, at, attempts };
        }
    }

    /// A report was refused for good.
    fn refused(&self, state: &mut State, position: u32, purpose: Purpose, error: v1::ReportError) {
        let name = state.operations.get(&position).map(|operation| operation.name.clone());
        match (purpose, name) {
            _ if error.reason == "DIVERGED" => state.fail("diverged", || error.message),
            _ if error.reason == "TOO_MANY_STEPS" => state.fail("too_many_positions", || error.message),
            _ if error.reason == "JOURNAL_FULL" => state.fail("journal_full", || error.message),
            // The step is done, but what came out cannot be kept: it is too large.
            (Purpose::Completed { attempt }, Some(name)) => {
                let failure = super::StepError::fatal(error.message).code(error.reason.to_ascii_lowercase());
                state.outgoing.push(self.failure(position, &name, failure, attempt));
            }
            (Purpose::Started { .. }, Some(_)) => {
                let decided = Decided { error: error.message, ..Decided::new(How::ChildFailed) };
                state.outgoing.push(self.decided(position, decided));
            }
            // Nobody waits for it.
            (Purpose::Completed { .. } | Purpose::Started { .. }, None) => {}
            (
                Purpose::Failed { .. }
                | Purpose::Fact
                | Purpose::Decided(_)
                | Purpose::Taken(_)
                | Purpose::Told
                | Purpose::Published,
                _,
            ) => {
                state.fail("refused", || format!("the server refuses what the workflow asks for: {}", error.message));
            }
        }
    }
}
