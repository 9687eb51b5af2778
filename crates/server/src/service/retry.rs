//! retry: makes a new run of one that has ended, by hand. The old one stays as it is.

use baton_core::machine::Options;
use baton_core::{Millis, RunId};
use baton_store::{Due, Idempotency, Lane, NewRun, RunRecord, Scope, Submitted};

use super::workflows::start;
use super::{audit, check_name, submit, visible};
use crate::auth::Caller;
use crate::verb_metrics::timed;
use crate::{App, Error};

/// Submits the run again. With the same key, again gives the run that was made the first time.
pub async fn one(app: &App, caller: &Caller, run: RunId, key: Option<&str>) -> Result<Submitted, Error> {
    timed!(app.metrics.retry, visible_one(app, caller, run, key))
}

async fn visible_one(app: &App, caller: &Caller, run: RunId, key: Option<&str>) -> Result<Submitted, Error> {
    key.map_or(Ok(()), |key| check_name("Idempotency-Key", key))?;
    let record = visible(app, caller, Scope::Submit, run).await?;
    let submitted = plain(app, vec![record.clone()], key).await?.pop().ok_or(Error::Internal)?;
    audit::of_run(app, caller, "run.retry", &record, &format!("as {}", submitted.run)).await?;
    Ok(submitted)
}

/// Submits runs that are no workflows again: all, or none.
pub(crate) async fn plain(app: &App, records: Vec<RunRecord>, key: Option<&str>) -> Result<Vec<Submitted>, Error> {
    let again: Vec<NewRun> = records.into_iter().map(|record| again(app, record, key)).collect::<Result<_, _>>()?;
    let options: Vec<Option<Options>> = again.iter().map(|run| run.options.clone()).collect();
    let submitted = submit::take_in_again(app, again).await?;
    app.metrics.retry.runs.inc_by(submitted.iter().filter(|submitted| submitted.is_new).count() as u64);
    for (submitted, options) in submitted.iter().zip(&options) {
        time_out(app, submitted, options.as_ref()).await?;
    }
    Ok(submitted)
}

/// Gives a run as much time as the one that it repeats had.
pub(crate) async fn time_out(app: &App, submitted: &Submitted, options: Option<&Options>) -> Result<(), Error> {
    match options.and_then(|options| options.run_timeout_ms).and_then(|ms| Millis::try_from(ms).ok()) {
        Some(ms) => start::set_deadline(app, submitted.run, ms, false).await,
        None => Ok(()),
    }
}

/// The run that repeats one that has ended.
pub(crate) fn again(app: &App, record: RunRecord, key: Option<&str>) -> Result<NewRun, Error> {
    let run = record.id;
    if !record.state.is_ended() {
        return Err(Error::Invalid(format!(
            "the run is {}; only a run that has ended can be retried (cancel it first)",
            record.state.as_str()
        )));
    }
    let queue = app.lanes.queue_of(record.lane).ok_or(Error::Internal)?;
    Ok(NewRun {
        lane: Lane { lane: record.lane, queue },
        priority: record.priority,
        due: Due::Now,
        key: record.key,
        affinity: record.affinity,
        // The run is all there is to say, and it is part of the key.
        idempotency: key.map(|key| Idempotency { key: format!("retry\u{1f}{run}\u{1f}{key}"), fingerprint: [0; 16] }),
        options: (record.options != Options::default()).then_some(record.options),
        retry_of: Some(run),
        trace: app.traces.follow(run, record.trace.as_ref(), true),
        input: record.input,
    })
}
