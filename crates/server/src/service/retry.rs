//! retry: makes a new run of one that has ended, by hand. The old one stays as it is.

use baton_core::RunId;
use baton_core::machine::Options;
use baton_store::{Due, Lane, NewRun, Scope, Submitted};

use super::{submit, visible};
use crate::auth::Caller;
use crate::{App, Error};

/// Submits the run again.
pub async fn one(app: &App, caller: &Caller, run: RunId) -> Result<Submitted, Error> {
    let record = visible(app, caller, Scope::Submit, run).await?;
    if !record.state.is_ended() {
        return Err(Error::Invalid(format!(
            "the run is {}; only a run that has ended can be retried (cancel it first)",
            record.state.as_str()
        )));
    }
    let queue = app.lanes.queue_of(record.lane).ok_or(Error::Internal)?;
    let again = NewRun {
        lane: Lane { lane: record.lane, queue },
        priority: record.priority,
        due: Due::Now,
        key: record.key,
        affinity: record.affinity,
        idempotency: None,
        options: (record.options != Options::default()).then_some(record.options),
        retry_of: Some(run),
        input: record.input,
    };
    submit::take_in(app, vec![again]).await?.pop().ok_or(Error::Internal)
}
