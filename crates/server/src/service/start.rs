//! start: the worker's first sign of work.

use std::sync::Arc;

use baton_core::{LateVerb, RunId};
use baton_store::{LeaseRef, Scope, Store, Verdict};

use super::{Outcome, open_lease, open_leases, settle};
use crate::auth::Caller;
use crate::coalesce::Coalescer;
use crate::metrics::Metrics;
use crate::refusals::LeaseWrite;
use crate::verb_metrics::{timed, timed_each};
use crate::{App, Error};

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    batch_max: usize,
) -> Coalescer<LeaseRef, Verdict> {
    Coalescer::start(batch_max, None, move |leases: Vec<LeaseRef>| {
        let (store, metrics) = (store.clone(), metrics.clone());
        async move {
            let verdicts = metrics.start.at_store(store.start(leases)).await?;
            metrics.start.did(&verdicts);
            Ok(verdicts)
        }
    })
}

/// Starts runs; one answer for each.
pub async fn many(
    app: &App,
    caller: &Caller,
    leases: Vec<(RunId, String)>,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    caller.has(Scope::Worker)?;
    let leases = open_leases(app, caller, leases, |lease| lease).await;
    let leases = leases.into_iter().map(|(run, lease)| (run, lease.map(|(lease, _)| lease))).collect();
    timed_each!(app.metrics.start, super::each(app, LateVerb::Start, leases, |leases| app.starts.call(leases)))
}

/// Starts one run.
pub async fn one(app: &App, caller: &Caller, run: RunId, lease: &str) -> Result<Outcome, Error> {
    let starting = async {
        caller.has(Scope::Worker)?;
        let lease = open_lease(app, caller, run, lease).await?;
        let verdict = app.starts.call_one(lease).await?;
        settle(app, LeaseWrite::new(lease, LateVerb::Start), verdict).await
    };
    timed!(app.metrics.start, starting)
}
