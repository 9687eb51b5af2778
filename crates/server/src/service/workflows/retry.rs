//! retry: makes a new workflow of one that has ended, by hand. The old one stays as it is.

use baton_core::RunId;
use baton_store::{RunRecord, Scope, Submitted, Woken};

use super::super::{audit, payloads, retry, submit, visible};
use super::children::note;
use crate::auth::Caller;
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Starts the workflow again: after what it had completed, or from its start.
pub async fn one(app: &App, caller: &Caller, run: RunId, from_start: bool) -> Result<Submitted, Error> {
    if from_start {
        return retry::one(app, caller, run, None).await;
    }
    let found = visible(app, caller, Scope::Submit, run).await;
    let record = found.inspect_err(|error| app.metrics.retry.refused(error))?;
    let submitted = unaudited(app, record.clone(), None).await?;
    audit::of_run(app, caller, "run.retry", &record, &format!("as {}", submitted.run)).await?;
    Ok(submitted)
}

/// Starts a workflow again after what it had completed, for what is on record already. With the same key, again gives the run
/// that was made the first time.
pub(crate) async fn unaudited(app: &App, record: RunRecord, key: Option<&str>) -> Result<Submitted, Error> {
    timed!(app.metrics.retry, after_completed(app, record, key))
}

async fn after_completed(app: &App, record: RunRecord, key: Option<&str>) -> Result<Submitted, Error> {
    let run = record.id;
    let again = retry::again(app, record, key)?;
    if let Some(idempotency) = again.idempotency.clone()
        && let Some((earlier, _)) = app.store.submitted(vec![idempotency]).await?.pop().flatten()
    {
        // Takes no room: it has it. A crash may have left out its deadline.
        retry::time_out(app, &earlier, again.options.as_ref()).await?;
        return Ok(earlier);
    }
    // A run that has ended remembers nothing new, so what is read here stays true.
    if app.store.is_undone(run).await? {
        return Err(Error::Conflict(format!(
            "the steps of the workflow {run} were undone, so it cannot go on after them: retry it from the start (--from-start)"
        )));
    }
    payloads::reuse(app, &again.input).await?;
    let (lane, options) = (again.lane, again.options.clone());
    let admission = submit::admit_one(app, &again).await?;
    let submitted = app.metrics.retry.at_store(app.store.retry_from(run, again, app.entropy.bits())).await?;
    drop(admission);
    retry::time_out(app, &submitted, options.as_ref()).await?;
    if !submitted.is_new {
        return Ok(submitted);
    }
    app.metrics.retry.runs.inc();
    app.metrics.submit.runs.inc();
    app.metrics.series.submitted(std::iter::once(lane.lane));
    let mut woken = Woken::default();
    note(&mut woken, lane.lane, &submitted);
    app.after().wake(&woken);
    app.events.submitted([(submitted.run, lane.lane)].into_iter());
    Ok(submitted)
}
