//! cancel: somebody wants the run stopped.

use std::collections::BTreeSet;

use baton_core::{Millis, RunId, WorkerId};
use baton_store::{Changes, Scope, Verdict};

use super::{Outcome, audit, settle_any, visible, workflows};
use crate::auth::Caller;
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Cancels one run: at once when nobody holds it, otherwise its worker is told and has a grace time. A workflow that has begun may clean up, also
/// when it sleeps and nobody holds it.
pub async fn one(app: &App, caller: &Caller, run: RunId) -> Result<Outcome, Error> {
    let found = visible(app, caller, Scope::Submit, run).await;
    let record = found.inspect_err(|error| app.metrics.cancel.refused(error))?;
    if app.lanes.is_workflow(record.lane).await? {
        let state = workflows::cancel::one(app, caller, run, None).await?;
        return Ok(Outcome { state, cancelling: !state.is_ended() });
    }
    let outcome = plain(app, run).await?;
    audit::of_run(app, caller, "run.cancel", &record, outcome.state.as_str()).await?;
    Ok(outcome)
}

/// Cancels a run that is no workflow.
pub(crate) async fn plain(app: &App, run: RunId) -> Result<Outcome, Error> {
    timed!(app.metrics.cancel, by_the_kernel(app, run))
}

async fn by_the_kernel(app: &App, run: RunId) -> Result<Outcome, Error> {
    let verdict = one_in_store(app, run, app.current().cancel_grace_ms as Millis).await?;
    let mut outcome = settle_any(app, run, verdict).await?;
    // Asked for before, and its worker has not stopped yet: the answer is the one it was then.
    outcome.cancelling = !outcome.state.is_ended();
    tell_holder(app, run, outcome).await?;
    Ok(outcome)
}

/// Cancels runs in the store. What follows from that is the caller's.
pub(crate) async fn in_store(app: &App, runs: Vec<RunId>, grace_ms: Millis) -> Result<Changes, Error> {
    let cancel = &app.metrics.cancel;
    let changes = cancel.at_store(app.store.cancel(runs, grace_ms)).await?;
    cancel.did(&changes.verdicts);
    Ok(changes)
}

/// Cancels a run in the store, and does what follows from that, but for telling who holds it.
pub(crate) async fn one_in_store(app: &App, run: RunId, grace_ms: Millis) -> Result<Verdict, Error> {
    let changes = in_store(app, vec![run], grace_ms).await?;
    app.after().changed([run].into_iter(), &changes);
    changes.verdicts.first().copied().ok_or(Error::Internal)
}

/// As [`tell_holder`], for many runs that somebody holds.
pub(crate) async fn tell_holders(app: &App, runs: &[RunId]) -> Result<(), Error> {
    if runs.is_empty() {
        return Ok(());
    }
    let facts = app.store.run_facts(runs).await?;
    let workers: BTreeSet<WorkerId> = facts.into_iter().flatten().filter_map(|facts| facts.worker).collect();
    workers.into_iter().for_each(|worker| app.after().tell(worker));
    Ok(())
}

/// Wakes the heartbeat of the worker that holds a run which somebody wants stopped, wherever it waits. Without it, the worker would hear of it
/// with its next one.
pub(crate) async fn tell_holder(app: &App, run: RunId, outcome: Outcome) -> Result<(), Error> {
    if outcome.state.is_ended() {
        return Ok(());
    }
    if let Some(worker) = app.store.run(run).await?.and_then(|record| record.worker) {
        app.after().tell(worker);
    }
    Ok(())
}
