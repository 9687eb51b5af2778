//! The ends of a lease: complete, fail, cancelled, give back. The kernel's verbs, in the words of workflows.

use baton_core::{Failure, LateVerb, Millis, Reason, State, retry};
use baton_store::{Changes, Completion, LeaseRef, StoreResult, Verdict};

use super::super::{Report, check_text, message, payloads};
use super::{in_field, invalid, settle_lease};
use crate::app::RESULT_BATCH;
use crate::refusals::LeaseWrite;
use crate::verb_metrics::Verb;
use crate::verb_metrics::timed_each;
use crate::{App, Error};

/// What a worker says of an attempt that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What went wrong, for people.
    pub error: String,
    /// A short word for that.
    pub code: Option<String>,
    /// False: not again.
    pub retryable: bool,
    /// Not before this long from now.
    pub not_before_ms: Option<Millis>,
}

/// Completes runs; one answer for each.
pub async fn complete(app: &App, done: Vec<Completion>) -> Result<Vec<Result<State, Error>>, Error> {
    let run = |done: &Completion| done.lease.run;
    let keeping =
        payloads::keep_each(app, done, run, |done| done.output.as_mut(), async |done| complete_kept(app, done).await);
    timed_each!(app.metrics.complete, keeping)
}

async fn complete_kept(app: &App, done: Vec<Completion>) -> Result<Vec<Result<State, Error>>, Error> {
    let writes = writes(LateVerb::Complete, &done);
    let mut verdicts = Vec::with_capacity(done.len());
    let mut done = done.into_iter().peekable();
    while done.peek().is_some() {
        verdicts.extend(app.completions.call(done.by_ref().take(RESULT_BATCH).collect()).await?);
    }
    settled(app, writes, verdicts).await
}

/// The completion of a run, if its output is not too large.
pub fn completion(app: &App, lease: LeaseRef, output: bytes::Bytes) -> Result<Completion, Error> {
    payloads::check(app, &output)?;
    Ok(Completion { lease, output: (!output.is_empty()).then_some(output) })
}

/// The failure of an attempt; `now` is the time on the store's clock.
pub fn failure(failed: Failed, now: Millis) -> Result<Failure, Error> {
    failed.code.as_deref().map_or(Ok(()), |code| check_text("", code).map_err(|error| in_field("code", error)))?;
    if failed.not_before_ms.is_some_and(|ms| ms > retry::INTERVAL_MS_MAX as Millis) {
        return Err(invalid("not_before", "must be at most 365 days"));
    }
    Ok(Failure {
        reason: Reason::Error,
        code: failed.code,
        message: message(&failed.error),
        retryable: failed.retryable,
        not_before: failed.not_before_ms.map(|ms| now + ms),
    })
}

/// Fails attempts; one answer for each.
pub async fn fail(app: &App, failed: Vec<(LeaseRef, Failure)>) -> Result<Vec<Result<State, Error>>, Error> {
    let fail = &app.metrics.fail;
    timed_each!(fail, end(app, fail, writes(LateVerb::Fail, &failed), app.store.fail(failed, app.entropy.die())))
}

/// Ends runs whose workflows have cleaned up after they were cancelled; one answer for each.
pub async fn cancelled(app: &App, leases: Vec<(LeaseRef, String)>) -> Result<Vec<Result<State, Error>>, Error> {
    let cancel = &app.metrics.cancel;
    let (writes, leases) = (writes(LateVerb::Cancelled, &leases), worded(leases));
    timed_each!(cancel, end(app, cancel, writes, app.store.cancelled(leases)))
}

/// Gives runs back; one answer for each.
pub async fn give_back(app: &App, leases: Vec<(LeaseRef, String)>) -> Result<Vec<Result<State, Error>>, Error> {
    let give_back = &app.metrics.give_back;
    let (writes, leases) = (writes(LateVerb::GiveBack, &leases), worded(leases));
    timed_each!(give_back, end(app, give_back, writes, app.store.give_back(leases)))
}

fn writes<T: Report>(verb: LateVerb, reports: &[T]) -> Vec<LeaseWrite<'static>> {
    let write = |(lease, bytes)| LeaseWrite::new(lease, verb).with_bytes(bytes);
    reports.iter().map(|report| write(report.under())).collect()
}

fn worded(leases: Vec<(LeaseRef, String)>) -> Vec<(LeaseRef, String)> {
    leases.into_iter().map(|(lease, text)| (lease, message(&text))).collect()
}

/// Ends leases, and tells whom it concerns.
async fn end(
    app: &App,
    verb: &Verb,
    writes: Vec<LeaseWrite<'static>>,
    ending: impl Future<Output = StoreResult<Changes>>,
) -> Result<Vec<Result<State, Error>>, Error> {
    let changes = verb.at_store(ending).await?;
    verb.did(&changes.verdicts);
    app.after().changed(writes.iter().map(|write| write.lease.run), &changes);
    settled(app, writes, changes.verdicts).await
}

async fn settled(
    app: &App,
    writes: Vec<LeaseWrite<'static>>,
    verdicts: Vec<Verdict>,
) -> Result<Vec<Result<State, Error>>, Error> {
    let mut answers = Vec::with_capacity(writes.len());
    for (write, verdict) in writes.into_iter().zip(verdicts) {
        answers.push(settle_lease(app, write, verdict).await.map(|outcome| outcome.state));
    }
    Ok(answers)
}
