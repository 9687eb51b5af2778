//! give_back: the worker cannot go on; the run waits again, at the front.

use baton_core::{LateVerb, RunId};
use baton_proto::GiveBackRun;
use baton_store::{LeaseRef, Scope};

use super::{Outcome, each, message, open_leases};
use crate::auth::Caller;
use crate::verb_metrics::timed_each;
use crate::{App, Error};

/// Gives one run back.
pub async fn one(app: &App, caller: &Caller, run: RunId, report: GiveBackRun) -> Result<Outcome, Error> {
    many(app, caller, vec![(run, report)]).await?.pop().ok_or(Error::Internal)?
}

/// Gives runs back; one answer for each.
pub async fn many(
    app: &App,
    caller: &Caller,
    reports: Vec<(RunId, GiveBackRun)>,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    timed_each!(app.metrics.give_back, each_held(app, caller, reports))
}

async fn each_held(
    app: &App,
    caller: &Caller,
    reports: Vec<(RunId, GiveBackRun)>,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    caller.has(Scope::Worker)?;
    let reports = open_leases(app, caller, reports, |report| &report.lease).await;
    let reports =
        reports.into_iter().map(|(run, report)| (run, report.map(|(lease, report)| (lease, message(&report.reason)))));
    each(app, LateVerb::GiveBack, reports.collect(), |given: Vec<(LeaseRef, String)>| async move {
        let runs: Vec<_> = given.iter().map(|(lease, _)| lease.run).collect();
        let changes = app.metrics.give_back.at_store(app.store.give_back(given)).await?;
        app.metrics.give_back.did(&changes.verdicts);
        app.after().changed(runs.into_iter(), &changes);
        Ok(changes.verdicts)
    })
    .await
}
