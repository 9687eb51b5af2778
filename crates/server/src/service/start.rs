//! start: the worker's first sign of work.

use std::sync::Arc;

use baton_core::RunId;
use baton_store::{LeaseRef, Store, Verdict};

use super::{Outcome, open_lease, settle};
use crate::coalesce::Coalescer;
use crate::metrics::Metrics;
use crate::{App, Error};

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    batch_max: usize,
) -> Coalescer<LeaseRef, Verdict> {
    Coalescer::start(batch_max, None, move |leases: Vec<LeaseRef>| {
        let (store, metrics) = (store.clone(), metrics.clone());
        async move {
            metrics.start.calls.inc();
            metrics.start.runs.inc_by(leases.len() as u64);
            Ok(store.start(leases).await?)
        }
    })
}

/// Starts runs; one answer for each.
pub async fn many(app: &App, leases: Vec<(RunId, String)>) -> Result<Vec<Result<Outcome, Error>>, Error> {
    let leases = leases.into_iter().map(|(run, lease)| (run, open_lease(app, run, &lease))).collect();
    super::each(app, leases, |leases| app.starts.call(leases)).await
}

/// Starts one run.
pub async fn one(app: &App, run: RunId, lease: &str) -> Result<Outcome, Error> {
    let verdict = app.starts.call_one(open_lease(app, run, lease)?).await?;
    settle(app, run, verdict).await
}
