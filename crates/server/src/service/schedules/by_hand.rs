//! Runs of a schedule that people ask for: now, or for a range that has passed.

use baton_core::Millis;
use baton_proto::{BackfilledSchedule, TriggeredSchedule};
use baton_store::{FireKind, FireRun, Lane, Schedule, Scope, Submitted};

use super::find;
use super::fire::{admit, tell};
use super::spec::Spec;
use crate::auth::Caller;
use crate::service::{audit, check_name};
use crate::{App, Error};

/// Most fires that one call makes up for.
const BACKFILL_MAX: usize = 10_000;
/// Fires in one call to the store.
const BATCH: usize = 200;

/// Starts a run now, whatever the rule says, also while the schedule is paused.
pub async fn trigger(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    key: Option<&str>,
) -> Result<TriggeredSchedule, Error> {
    let schedule = find(app, caller, Scope::Submit, namespace, id).await?;
    key.map_or(Ok(()), |key| check_name("idempotency_key", key))?;
    let spec = Spec::read(app, &schedule)?;
    let lane = spec.lane(app, namespace).await?;
    let now = app.store.now().await?;
    let run = spec.now(app, &schedule, lane, now, key);
    let started = start(app, &schedule, lane, FireKind::Triggered, vec![run]).await?;
    let started = started.first().ok_or(Error::KeyReused)?;
    audit::act(app, caller, "schedule.trigger", id, &started.run.to_string(), Some(namespace)).await?;
    Ok(TriggeredSchedule { run_id: started.run.to_string(), created: started.is_new })
}

/// Starts the runs of a range that has passed. Each fire is started once, however often it is asked for.
pub async fn backfill(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    from: Millis,
    to: Millis,
) -> Result<BackfilledSchedule, Error> {
    let schedule = find(app, caller, Scope::Submit, namespace, id).await?;
    let spec = Spec::read(app, &schedule)?;
    let fires = range(app, &spec, from, to).await?;
    let lane = spec.lane(app, namespace).await?;
    let (mut started, mut existed) = (0, 0);
    for fires in fires.chunks(BATCH) {
        let runs = fires.iter().map(|at| spec.fire(app, &schedule, lane, *at)).collect();
        for run in start(app, &schedule, lane, FireKind::Backfilled, runs).await? {
            match run.is_new {
                true => started += 1,
                false => existed += 1,
            }
        }
    }
    let detail = format!("{started} started, {existed} existed");
    audit::act(app, caller, "schedule.backfill", id, &detail, Some(namespace)).await?;
    Ok(BackfilledSchedule { started, existed })
}

/// The fires of a range that has passed, as [`backfill`] would make up for them. Nothing is started.
pub async fn would_backfill(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    from: Millis,
    to: Millis,
) -> Result<Vec<Millis>, Error> {
    let schedule = find(app, caller, Scope::Submit, namespace, id).await?;
    range(app, &Spec::read(app, &schedule)?, from, to).await
}

/// The fires of a range that has passed.
async fn range(app: &App, spec: &Spec, from: Millis, to: Millis) -> Result<Vec<Millis>, Error> {
    if from > to {
        return Err(Error::field("from", "must not be after to"));
    }
    if to > app.store.now().await? {
        return Err(Error::field("to", "must have passed: what is to come fires by itself"));
    }
    let rule = spec.rule()?;
    // The beginning belongs to the range.
    let first = rule.next(from.saturating_sub(1));
    let fires = std::iter::successors(first, |last| rule.next(*last)).take_while(|at| *at <= to);
    let fires: Vec<Millis> = fires.take(BACKFILL_MAX + 1).collect();
    match fires.len() > BACKFILL_MAX {
        true => Err(Error::Invalid(format!("the range has more than {BACKFILL_MAX} fires; ask for parts of it"))),
        false => Ok(fires),
    }
}

async fn start(
    app: &App,
    schedule: &Schedule,
    lane: Lane,
    kind: FireKind,
    runs: Vec<FireRun>,
) -> Result<Vec<Submitted>, Error> {
    let admission = admit(app, &schedule.namespace, lane, runs.len()).await?;
    let timeout_ms = runs.iter().filter_map(|run| run.timeout_ms).min();
    let started = app.store.fire_by_hand(schedule.number, kind, runs).await?;
    drop(admission);
    let started = started.ok_or_else(|| Error::NotFound { what: "schedule", id: schedule.id.clone() })?;
    tell(app, schedule, lane, &started, timeout_ms);
    Ok(started)
}
