//! cancel: somebody wants a workflow stopped, and gives it time to clean up.

use baton_core::{Millis, RunId, State};
use baton_store::{MessageKind, NewMessage, RunRecord, Scope};

use super::super::{audit, cancel, settle_any, visible};
use super::signal::SUCCESSORS_MAX;
use super::start::set_deadline;
use super::{invalid, never_begun, signal};
use crate::auth::Caller;
use crate::verb_metrics::timed;
use crate::{App, Error, loops};

/// Longest time to clean up: a year.
const GRACE_MS_MAX: Millis = baton_core::retry::INTERVAL_MS_MAX as Millis;

/// Cancels a workflow. One that nobody has begun ends at once; any other hears of it and has the grace time. One that continued as another
/// is followed. Returns the state it is in now.
pub async fn one(app: &App, caller: &Caller, run: RunId, grace_ms: Option<Millis>) -> Result<State, Error> {
    let (record, state) = unaudited(app, caller, run, grace_ms).await?;
    audit::of_run(app, caller, "run.cancel", &record, state.as_str()).await?;
    Ok(state)
}

/// As [`one`], for what cancels by rules that are on record already. Returns the run that it was about, too.
pub(crate) async fn unaudited(
    app: &App,
    caller: &Caller,
    run: RunId,
    grace_ms: Option<Millis>,
) -> Result<(RunRecord, State), Error> {
    timed!(app.metrics.cancel, followed(app, caller, run, grace_ms))
}

async fn followed(
    app: &App,
    caller: &Caller,
    run: RunId,
    grace_ms: Option<Millis>,
) -> Result<(RunRecord, State), Error> {
    if grace_ms.is_some_and(|ms| ms > GRACE_MS_MAX) {
        return Err(invalid("grace", "must be at most 365 days"));
    }
    let grace_ms = grace_ms.unwrap_or(app.current().cancel_grace_ms as Millis);
    let mut run = run;
    for _ in 0..SUCCESSORS_MAX {
        let record = visible(app, caller, Scope::Submit, run).await?;
        let cancelled = match record.state.is_ended() {
            true => Err(Error::Ended(record.state)),
            false => live(app, record.clone(), grace_ms).await,
        };
        // It may have gone on as another in this very moment.
        let Err(Error::Ended(state)) = cancelled else { return Ok((record, cancelled?)) };
        match app.store.relations(&[run]).await?.pop().unwrap_or_default().continued_to {
            Some(next) => run = next,
            None if state == State::Cancelled => return Ok((record, state)),
            None => return Err(Error::Ended(state)),
        }
    }
    Err(signal::too_fast())
}

/// Cancels a run that was live a moment ago.
async fn live(app: &App, record: RunRecord, grace_ms: Millis) -> Result<State, Error> {
    let run = record.id;
    if grace_ms <= 0 {
        return at_once(app, run).await;
    }
    if never_begun(record.state, record.epoch) {
        let state = by_the_kernel(app, run, grace_ms).await?;
        if state.is_ended() {
            return Ok(state);
        }
        // Somebody has taken it in the very moment: it is told as any other.
    }
    let message = NewMessage { run, kind: MessageKind::Cancel, name: String::new(), payload: None, key: None };
    match signal::leave(app, message).await? {
        (Some(_), run) => {
            // After the message: a repeated call finds the message and sets the deadline that a crash has left out.
            set_deadline(app, run, grace_ms, true).await?;
            state_of(app, run).await
        }
        (None, run) => Err(Error::Ended(state_of(app, run).await?)),
    }
}

async fn at_once(app: &App, run: RunId) -> Result<State, Error> {
    let state = by_the_kernel(app, run, 0).await?;
    if state.is_ended() {
        return Ok(state);
    }
    // Its worker hears that the lease is over.
    set_deadline(app, run, 0, true).await?;
    loops::end_overdue(app).await?;
    state_of(app, run).await
}

async fn by_the_kernel(app: &App, run: RunId, grace_ms: Millis) -> Result<State, Error> {
    let verdict = cancel::one_in_store(app, run, grace_ms).await?;
    let outcome = settle_any(app, run, verdict).await?;
    cancel::tell_holder(app, run, outcome).await?;
    Ok(outcome.state)
}

async fn state_of(app: &App, run: RunId) -> Result<State, Error> {
    Ok(app.store.run(run).await?.ok_or_else(|| Error::no_run(run))?.state)
}
