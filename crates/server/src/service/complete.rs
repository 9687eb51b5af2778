//! complete: the work is done.

use std::sync::Arc;

use baton_core::{LateVerb, RunId};
use baton_proto::CompleteRun;
use baton_store::{Completion, Scope, Store, Verdict};
use bytes::Bytes;

use super::payloads::{self, Of};
use super::{After, Outcome, each, open_lease};
use crate::app::RESULT_BATCH;
use crate::auth::Caller;
use crate::coalesce::Coalescer;
use crate::metrics::Metrics;
use crate::verb_metrics::timed_each;
use crate::{App, Error};

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    after: After,
    batch_max: usize,
) -> Coalescer<Completion, Verdict> {
    Coalescer::start(batch_max, None, move |done| {
        let (store, metrics, after) = (store.clone(), metrics.clone(), after.clone());
        async move { to_store(&*store, &metrics, &after, done).await }
    })
}

async fn to_store(
    store: &dyn Store,
    metrics: &Metrics,
    after: &After,
    done: Vec<Completion>,
) -> Result<Vec<Verdict>, Error> {
    let runs: Vec<_> = done.iter().map(|completion| completion.lease.run).collect();
    let changes = metrics.complete.at_store(store.complete(done)).await?;
    metrics.complete.did(&changes.verdicts);
    after.changed(runs.into_iter(), &changes);
    Ok(changes.verdicts)
}

/// Completes one run.
pub async fn one(app: &App, caller: &Caller, run: RunId, report: CompleteRun) -> Result<Outcome, Error> {
    many(app, caller, vec![(run, report)]).await?.pop().ok_or(Error::Internal)?
}

/// Completes runs; one answer for each.
pub async fn many(
    app: &App,
    caller: &Caller,
    reports: Vec<(RunId, CompleteRun)>,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    timed_each!(app.metrics.complete, each_held(app, caller, reports))
}

async fn each_held(
    app: &App,
    caller: &Caller,
    reports: Vec<(RunId, CompleteRun)>,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    caller.has(Scope::Worker)?;
    let alone = reports.len() > RESULT_BATCH / 4;
    let mut done = Vec::with_capacity(reports.len());
    for (run, report) in reports {
        done.push((run, completion(app, caller, run, report).await));
    }
    each(app, LateVerb::Complete, done, |done| async move {
        match alone {
            true => to_store(&*app.store, &app.metrics, &app.after(), done).await,
            false => app.completions.call(done).await,
        }
    })
    .await
}

async fn completion(app: &App, caller: &Caller, run: RunId, report: CompleteRun) -> Result<Completion, Error> {
    let lease = open_lease(app, caller, run, &report.lease).await?;
    let Some(output) = report.output else { return Ok(Completion { lease, output: None }) };
    let output = Bytes::from(String::from(Box::<str>::from(output)));
    payloads::check(app, &output)?;
    Ok(Completion { lease, output: Some(payloads::keep(app, Of::Run(run), output).await?) })
}
