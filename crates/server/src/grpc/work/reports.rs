//! Reports of one message, put together by kind: each kind is one call of a service verb, however many there are.

use baton_proto::v1;
use baton_proto::v1::report::What;
use baton_proto::v1::report_answer::What as Answer;
use baton_store::{Completion, LaneId, LeaseRef, StepWrite, Suspension};
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::super::convert::run_state;
use super::super::error;
use super::super::runs::started;
use super::super::steps;
use crate::auth::Caller;
use crate::service::workflows::children::StartChild;
use crate::service::workflows::suspend::Suspended;
use crate::service::workflows::{self, steps::Remembered};
use crate::{App, Error};

/// What has become of some reports.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// One for each.
    pub(super) answers: Vec<v1::ReportAnswer>,
    /// Leases that reports were to end, and whether they are over.
    pub(super) ends: Vec<(LeaseRef, bool)>,
    /// Leases that are kept, and the last message that went with the answer.
    pub(super) seen: Vec<(LeaseRef, i64)>,
    /// Bytes that the reports held.
    pub(super) bytes: usize,
}

impl Done {
    fn refuse(&mut self, number: u64, why: &Error) {
        self.answer(number, Answer::Error(error::report(why)));
    }

    fn answer(&mut self, number: u64, what: Answer) {
        self.answers.push(v1::ReportAnswer { number, what: Some(what) });
    }

    /// Answers a report on a lease, which is over when it is lost.
    fn settle<T>(&mut self, number: u64, lease: LeaseRef, result: Result<T, Error>, what: impl FnOnce(T) -> Answer) {
        match result {
            Ok(good) => self.answer(number, what(good)),
            Err(why) => {
                if is_over(&why) {
                    self.ends.push((lease, true));
                }
                self.refuse(number, &why);
            }
        }
    }

    /// Answers a report that was to end a lease.
    fn settle_end<T>(
        &mut self,
        number: u64,
        lease: LeaseRef,
        result: Result<T, Error>,
        what: impl FnOnce(T) -> Answer,
    ) {
        self.ends.push((lease, result.as_ref().map_or_else(is_over, |_| true)));
        match result {
            Ok(good) => self.answer(number, what(good)),
            Err(why) => self.refuse(number, &why),
        }
    }
}

/// True when whoever held the lease does not any more.
fn is_over(error: &Error) -> bool {
    matches!(error, Error::LeaseLost | Error::NotFound { what: "run", .. })
}

/// A lease, and the lane of its run if that is known.
pub(super) type Opened = (LeaseRef, Option<LaneId>);

/// Reports by kind.
#[derive(Debug, Default)]
pub(super) struct Groups {
    refused: Done,
    steps: Vec<(u64, Step, StepWrite)>,
    suspensions: Vec<(u64, Suspension)>,
    children: Vec<(u64, StartChild)>,
    published: Vec<(u64, (LeaseRef, Bytes))>,
    completions: Vec<(u64, Completion)>,
    failures: Vec<(u64, LeaseRef, v1::FailWorkflowRequest)>,
    cancelled: Vec<(u64, (LeaseRef, String))>,
    given_back: Vec<(u64, (LeaseRef, String))>,
    continued: Vec<(u64, LeaseRef, Bytes)>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Completed,
    Failed,
}

impl Groups {
    /// Puts a report with its like. `open` reads the lease; `ending` hears of those that are to end.
    pub(super) fn add(
        &mut self,
        app: &App,
        report: v1::Report,
        open: impl FnOnce(&str, &str) -> Result<Opened, Error>,
        ending: impl FnOnce(LeaseRef),
    ) {
        let number = report.number;
        if let Err(why) = self.sort(app, report, open, ending) {
            self.refused.refuse(number, &why);
        }
    }

    fn sort(
        &mut self,
        app: &App,
        report: v1::Report,
        open: impl FnOnce(&str, &str) -> Result<Opened, Error>,
        ending: impl FnOnce(LeaseRef),
    ) -> Result<(), Error> {
        let number = report.number;
        match report.what.ok_or_else(|| workflows::invalid("what", "must say what is reported"))? {
            What::CompleteStep(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.steps.push((number, Step::Completed, steps::completed(app, lease, said)?));
            }
            What::FailStep(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.steps.push((number, Step::Failed, steps::failed(app, lease, said)?));
            }
            What::StartChild(said) => {
                let (lease, lane) = open(&said.run_id, &said.lease)?;
                self.children.push((number, steps::child(lease, lane, said)?));
            }
            What::Publish(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.published.push((number, steps::published(app, lease, said.value)?));
            }
            What::Suspend(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.suspensions.push((number, steps::suspension(lease, said)?));
                ending(lease);
            }
            What::CompleteWorkflow(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.completions.push((number, steps::completion(app, lease, said.output)?));
                ending(lease);
            }
            What::FailWorkflow(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.failures.push((number, lease, said));
                ending(lease);
            }
            What::CancelledWorkflow(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.cancelled.push((number, (lease, said.message)));
                ending(lease);
            }
            What::GiveBack(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.given_back.push((number, (lease, said.reason)));
                ending(lease);
            }
            What::ContinueAsNew(said) => {
                let (lease, _) = open(&said.run_id, &said.lease)?;
                self.continued.push((number, lease, said.input));
                ending(lease);
            }
        }
        Ok(())
    }

    /// What was refused before it got to the store.
    pub(super) fn refused(&mut self) -> Option<Done> {
        (!self.refused.answers.is_empty()).then(|| std::mem::take(&mut self.refused))
    }

    /// The calls that carry all of it out, to be made at the same time.
    pub(super) fn calls(self, app: &App, caller: &std::sync::Arc<Caller>) -> Vec<BoxFuture<'static, Done>> {
        let mut calls: Vec<BoxFuture<'static, Done>> = Vec::new();
        let app = || app.clone();
        if !self.steps.is_empty() {
            calls.push(Box::pin(write_steps(app(), self.steps)));
        }
        if !self.completions.is_empty() {
            calls.push(Box::pin(complete(app(), self.completions)));
        }
        if !self.suspensions.is_empty() {
            calls.push(Box::pin(suspend(app(), self.suspensions)));
        }
        if !self.children.is_empty() {
            calls.push(Box::pin(start_children(app(), caller.clone(), self.children)));
        }
        if !self.published.is_empty() {
            calls.push(Box::pin(publish(app(), self.published)));
        }
        if !self.failures.is_empty() {
            calls.push(Box::pin(fail(app(), self.failures)));
        }
        if !self.cancelled.is_empty() {
            calls.push(Box::pin(cancelled(app(), self.cancelled)));
        }
        if !self.given_back.is_empty() {
            calls.push(Box::pin(give_back(app(), self.given_back)));
        }
        for (number, lease, input) in self.continued {
            calls.push(Box::pin(continue_as_new(app(), number, lease, input)));
        }
        calls
    }
}

/// One answer for each, also when the call failed as a whole.
fn each<T>(count: usize, result: Result<Vec<Result<T, Error>>, Error>) -> Vec<Result<T, Error>> {
    match result {
        Ok(answers) => answers,
        Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
    }
}

async fn write_steps(app: App, reports: Vec<(u64, Step, StepWrite)>) -> Done {
    let mut done = Done { answers: Vec::with_capacity(reports.len()), ..Done::default() };
    let (mut asked, mut writes) = (Vec::with_capacity(reports.len()), Vec::with_capacity(reports.len()));
    for (number, what, write) in reports {
        asked.push((number, what, write.lease));
        writes.push(write);
    }
    let answers = each(asked.len(), workflows::steps::many(&app, writes).await);
    let any_failed = asked.iter().any(|(_, what, _)| matches!(what, Step::Failed));
    let now = if any_failed { app.time.now().await.unwrap_or(0) } else { 0 };
    for ((number, what, lease), answer) in asked.into_iter().zip(answers) {
        done.settle(number, lease, answer, |remembered: Remembered| match what {
            Step::Completed => Answer::CompleteStep(steps::kept(remembered)),
            Step::Failed => Answer::FailStep(steps::again(&remembered, now)),
        });
    }
    done
}

async fn complete(app: App, reports: Vec<(u64, Completion)>) -> Done {
    let (asked, completions): (Vec<_>, Vec<_>) =
        reports.into_iter().map(|(number, completion)| ((number, completion.lease), completion)).unzip();
    let answers = each(asked.len(), workflows::finish::complete(&app, completions).await);
    ended(asked, answers)
}

/// The answers to reports that end leases.
fn ended(asked: Vec<(u64, LeaseRef)>, answers: Vec<Result<baton_core::State, Error>>) -> Done {
    let mut done = Done { answers: Vec::with_capacity(asked.len()), ..Done::default() };
    for ((number, lease), answer) in asked.into_iter().zip(answers) {
        done.settle_end(number, lease, answer, |state| Answer::State(run_state(state).into()));
    }
    done
}

async fn suspend(app: App, reports: Vec<(u64, Suspension)>) -> Done {
    let (asked, suspensions): (Vec<_>, Vec<_>) =
        reports.into_iter().map(|(number, suspension)| ((number, suspension.lease), suspension)).unzip();
    let answers = each(asked.len(), workflows::suspend::many(&app, suspensions).await);
    let mut done = Done::default();
    for ((number, lease), answer) in asked.into_iter().zip(answers) {
        match answer {
            Ok(Suspended::News(messages)) => {
                done.ends.push((lease, false));
                done.seen.extend(messages.last().map(|last| (lease, last.number)));
                done.answer(number, Answer::Suspend(steps::suspended(Suspended::News(messages))));
            }
            other => done.settle_end(number, lease, other, |until| Answer::Suspend(steps::suspended(until))),
        }
    }
    done
}

async fn start_children(app: App, caller: std::sync::Arc<Caller>, reports: Vec<(u64, StartChild)>) -> Done {
    let (asked, children): (Vec<_>, Vec<_>) =
        reports.into_iter().map(|(number, child)| ((number, child.lease), child)).unzip();
    let answers = each(asked.len(), workflows::children::many(&app, &caller, children).await);
    let mut done = Done::default();
    for ((number, lease), answer) in asked.into_iter().zip(answers) {
        done.settle(number, lease, answer, |child| {
            Answer::StartChild(v1::StartChildResponse { run_id: child.run.to_string() })
        });
    }
    done
}

async fn publish(app: App, reports: Vec<(u64, (LeaseRef, Bytes))>) -> Done {
    let (asked, published): (Vec<_>, Vec<_>) =
        reports.into_iter().map(|(number, published)| ((number, published.0), published)).unzip();
    let answers = each(asked.len(), workflows::publish::many(&app, published).await);
    let mut done = Done::default();
    for ((number, lease), answer) in asked.into_iter().zip(answers) {
        done.settle(number, lease, answer, |()| Answer::Publish(v1::PublishResponse {}));
    }
    done
}

async fn fail(app: App, reports: Vec<(u64, LeaseRef, v1::FailWorkflowRequest)>) -> Done {
    let mut refused = Done::default();
    let (mut asked, mut failures) = (Vec::new(), Vec::new());
    let now = app.time.now().await;
    for (number, lease, said) in reports {
        let failure = now.clone().map_err(Error::from).and_then(|now| steps::failure(said, now));
        match failure {
            Ok(failure) => {
                asked.push((number, lease));
                failures.push((lease, failure));
            }
            Err(why) => refused.settle_end::<()>(number, lease, Err(why), |()| Answer::State(0)),
        }
    }
    if asked.is_empty() {
        return refused;
    }
    let answers = each(asked.len(), workflows::finish::fail(&app, failures).await);
    let mut done = ended(asked, answers);
    done.answers.extend(refused.answers);
    done.ends.extend(refused.ends);
    done
}

async fn cancelled(app: App, reports: Vec<(u64, (LeaseRef, String))>) -> Done {
    let (asked, leases): (Vec<_>, Vec<_>) =
        reports.into_iter().map(|(number, lease)| ((number, lease.0), lease)).unzip();
    let answers = each(asked.len(), workflows::finish::cancelled(&app, leases).await);
    ended(asked, answers)
}

async fn give_back(app: App, reports: Vec<(u64, (LeaseRef, String))>) -> Done {
    let (asked, leases): (Vec<_>, Vec<_>) =
        reports.into_iter().map(|(number, lease)| ((number, lease.0), lease)).unzip();
    let answers = each(asked.len(), workflows::finish::give_back(&app, leases).await);
    ended(asked, answers)
}

async fn continue_as_new(app: App, number: u64, lease: LeaseRef, input: Bytes) -> Done {
    let answer = workflows::continue_as_new::one(&app, lease, input).await;
    let mut done = Done::default();
    done.settle_end(number, lease, answer, |next| Answer::Continued(started(&next)));
    done
}
