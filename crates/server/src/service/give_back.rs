//! give_back: the worker cannot go on; the run waits again, at the front.

use baton_core::RunId;
use baton_proto::GiveBackRun;
use baton_store::LeaseRef;

use super::{Outcome, each, message, open_lease};
use crate::{App, Error};

/// Gives one run back.
pub async fn one(app: &App, run: RunId, report: GiveBackRun) -> Result<Outcome, Error> {
    many(app, vec![(run, report)]).await?.pop().ok_or(Error::Internal)?
}

/// Gives runs back; one answer for each.
pub async fn many(app: &App, reports: Vec<(RunId, GiveBackRun)>) -> Result<Vec<Result<Outcome, Error>>, Error> {
    let reports = reports.into_iter().map(|(run, report)| {
        let lease = open_lease(app, run, &report.lease);
        (run, lease.map(|lease| (lease, message(&report.reason))))
    });
    each(app, reports.collect(), |given: Vec<(LeaseRef, String)>| async move {
        let runs: Vec<_> = given.iter().map(|(lease, _)| lease.run).collect();
        app.metrics.give_back.calls.inc();
        app.metrics.give_back.runs.inc_by(runs.len() as u64);
        let changes = app.store.give_back(given).await?;
        app.after().changed(runs.into_iter(), &changes);
        Ok(changes.verdicts)
    })
    .await
}
