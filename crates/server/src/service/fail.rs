//! fail: the attempt failed; the run is tried again by its policy, or ends.

use baton_core::{Failure, LateVerb, Millis, Reason, RunId, retry};
use baton_proto::FailRun;
use baton_store::{LeaseRef, Scope};

use super::{Outcome, check_text, each, message, open_leases};
use crate::auth::Caller;
use crate::verb_metrics::timed_each;
use crate::{App, Error};

/// Fails one attempt.
pub async fn one(app: &App, caller: &Caller, run: RunId, report: FailRun) -> Result<Outcome, Error> {
    many(app, caller, vec![(run, report)]).await?.pop().ok_or(Error::Internal)?
}

/// Fails attempts; one answer for each.
pub async fn many(
    app: &App,
    caller: &Caller,
    reports: Vec<(RunId, FailRun)>,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    timed_each!(app.metrics.fail, each_held(app, caller, reports))
}

async fn each_held(
    app: &App,
    caller: &Caller,
    reports: Vec<(RunId, FailRun)>,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    caller.has(Scope::Worker)?;
    // "Not before" is a moment on the store's clock.
    let now = match reports.iter().any(|(_, report)| report.retry_after_ms.is_some()) {
        true => app.store.now().await?,
        false => 0,
    };
    let failed = open_leases(app, caller, reports, |report| &report.lease).await;
    let failed = failed
        .into_iter()
        .map(|(run, report)| (run, report.and_then(|(lease, report)| Ok((lease, failure(report, now)?)))));
    each(app, LateVerb::Fail, failed.collect(), |failed: Vec<(LeaseRef, Failure)>| async move {
        let runs: Vec<_> = failed.iter().map(|(lease, _)| lease.run).collect();
        let changes = app.metrics.fail.at_store(app.store.fail(failed, app.entropy.die())).await?;
        app.metrics.fail.did(&changes.verdicts);
        app.after().changed(runs.into_iter(), &changes);
        Ok(changes.verdicts)
    })
    .await
}

fn failure(report: FailRun, now: Millis) -> Result<Failure, Error> {
    report.code.as_deref().map_or(Ok(()), |code| check_text("code", code))?;
    if report.retry_after_ms.is_some_and(|ms| ms > retry::INTERVAL_MS_MAX) {
        return Err(Error::field("retry_after_ms", "must be at most 365 days"));
    }
    Ok(Failure {
        reason: if report.rejected { Reason::Rejected } else { Reason::Error },
        code: report.code,
        message: message(&report.error),
        retryable: report.retryable,
        not_before: report.retry_after_ms.map(|ms| now + ms as Millis),
    })
}
