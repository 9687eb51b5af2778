//! Carries out the fires of a schedule whose time has come. Safe on every server at the same time: of several the store lets one.

use baton_core::cron::Cron;
use baton_core::schedule::Overlap;
use baton_core::{Millis, RunId};
use baton_proto::{Event, Time};
use baton_store::{Fire, FireAnswer, Lane, Missed, Schedule, ScheduleChange, Scope, Submitted, Woken};

use super::spec::Spec;
use crate::allowance::Admission;
use crate::auth::Caller;
use crate::events::Kind;
use crate::service::{cancel, workflows};
use crate::{App, Error};

/// When a schedule is looked at again whose runs cannot be taken in now.
const PUT_OFF_MS: Millis = 5_000;
/// When one is looked at again that cannot be read: a newer version may have written it.
const UNREADABLE_MS: Millis = 60_000;
/// Fires that were missed are counted up to here: those of a rule for every second and of years are too many to look at.
const MISSED_COUNTED_MAX: usize = 10_000;

/// Carries out what is due of a schedule, at most `most` fires. Returns how many runs were started.
pub(crate) async fn one(app: &App, schedule: &Schedule, now: Millis, most: usize) -> Result<usize, Error> {
    let Ok(rule) = Spec::read(app, schedule).and_then(|spec| spec.rule().map(|rule| (spec, rule))) else {
        put_off(app, schedule, now + UNREADABLE_MS).await?;
        return Ok(0);
    };
    let (spec, rule) = rule;
    if app.namespaces.is_disabled(&schedule.namespace) {
        // As while it is paused: what is missed is not made up for.
        let last_at = now.max(schedule.last_at);
        let change =
            ScheduleChange { last_at, next_at: rule.next(last_at), buffered_at: None, ..ScheduleChange::of(schedule) };
        app.store.change_schedule(schedule.number, schedule.revision, change).await?;
        return Ok(0);
    }
    let mut fires = rule.newest(schedule.last_at, now, spec.max_catchup as usize);
    let missed = missed(&rule, schedule.last_at, &fires, spec.max_catchup);
    fires.truncate(most);
    let last_at = fires.last().copied().unwrap_or(schedule.last_at);
    let lane = spec.lane(app, &schedule.namespace).await?;
    let all: Vec<Millis> = schedule.buffered_at.into_iter().chain(fires.iter().copied()).collect();
    let admission = match admit(app, &schedule.namespace, lane, all.len()).await {
        Ok(admission) => admission,
        Err(full @ (Error::QueueFull { .. } | Error::NamespaceLimit { .. })) => {
            tracing::warn!(schedule = schedule.id, namespace = schedule.namespace, %full, "fires have to wait");
            put_off(app, schedule, now + PUT_OFF_MS).await?;
            return Ok(0);
        }
        Err(other) => return Err(other),
    };
    if let (Overlap::CancelPrevious, Some(previous), false) = (spec.overlap, schedule.last_run, fires.is_empty()) {
        // Before the fire: when this server falls in between, the next one finds both still to be done.
        cancel_previous(app, schedule, &spec, previous).await?;
    }
    let fire = Fire {
        schedule: schedule.number,
        revision: schedule.revision,
        overlap: spec.overlap,
        fires: all.iter().map(|at| spec.fire(app, schedule, lane, *at)).collect(),
        last_at,
        next_at: rule.next(last_at),
        missed,
    };
    let timeout_ms = spec.run.run_timeout_ms.map(|ms| ms as Millis);
    let answer = app.store.fire(fire).await?;
    drop(admission);
    match answer {
        FireAnswer::Fired(started) => {
            if let Some(Missed { count, .. }) = missed {
                tracing::warn!(
                    schedule = schedule.id,
                    namespace = schedule.namespace,
                    missed = count,
                    max_catchup = spec.max_catchup,
                    "a downtime was too long to make up for all fires"
                );
            }
            let started: Vec<Submitted> = started.into_iter().map(|(_, submitted)| submitted).collect();
            tell(app, schedule, lane, &started, timeout_ms);
            Ok(started.iter().filter(|submitted| submitted.is_new).count())
        }
        FireAnswer::Stale => Ok(0),
    }
}

/// Those since `last_at` that are older than the ones to be made up for.
fn missed(rule: &Cron, last_at: Millis, fires: &[Millis], max_catchup: u32) -> Option<Missed> {
    let oldest = *fires.first().filter(|_| fires.len() >= max_catchup as usize)?;
    let at = *rule.newest(last_at, oldest - 1, 1).last()?;
    Some(Missed { at, count: rule.count(last_at, at, MISSED_COUNTED_MAX) as u64 })
}

/// Takes room for so many runs.
pub(super) async fn admit(app: &App, namespace: &str, lane: Lane, count: usize) -> Result<Admission, Error> {
    let count = count as u64;
    let mut admission = app.namespaces.admit(namespace, count).await?;
    admission.add(app.backlogs.admit(&[(lane.queue, count)]).await?);
    Ok(admission)
}

/// Wakes whoever waits for these runs.
pub(super) fn tell(app: &App, schedule: &Schedule, lane: Lane, started: &[Submitted], timeout_ms: Option<Millis>) {
    let mut woken = Woken::default();
    let mut new = 0;
    for submitted in started.iter().filter(|submitted| submitted.is_new) {
        new += 1;
        app.events.submitted([(submitted.run, lane.lane)].into_iter());
        app.events.plain(Kind::ScheduleFired, || Event {
            namespace: Some(schedule.namespace.clone()),
            schedule: Some(schedule.id.clone()),
            run_id: Some(submitted.run.to_string()),
            ..Event::new(Kind::ScheduleFired.as_str(), Time(submitted.submitted_at))
        });
        let wait = submitted.due_at - submitted.submitted_at;
        if wait > 0 {
            woken.later.push((lane.lane, wait));
        } else {
            woken.lanes = vec![lane.lane];
        }
        if let Some(timeout_ms) = timeout_ms {
            app.deadlines.ring_in(wait.max(0).saturating_add(timeout_ms));
        }
    }
    app.metrics.submit.runs.inc_by(new);
    app.metrics.series.submitted((0..new).map(|_| lane.lane));
    app.metrics.fires.inc_by(new);
    app.after().wake(&woken);
}

/// Asks a run to end, as anybody may who can submit: at once when nobody has begun it, otherwise its worker has the grace time.
async fn cancel_previous(app: &App, schedule: &Schedule, spec: &Spec, run: RunId) -> Result<(), Error> {
    let caller = Caller {
        key_id: format!("schedule {}", schedule.id),
        scopes: vec![Scope::Submit],
        namespace: Some(schedule.namespace.clone()),
    };
    let cancelled = match spec.workflow {
        true => workflows::cancel::unaudited(app, &caller, run, None).await.map(|_| ()),
        false => cancel::plain(app, run).await.map(|_| ()),
    };
    match cancelled {
        // It has ended by itself, and may have been deleted since.
        Err(Error::Ended(_) | Error::NotFound { .. }) | Ok(()) => Ok(()),
        Err(other) => Err(other),
    }
}

async fn put_off(app: &App, schedule: &Schedule, until: Millis) -> Result<(), Error> {
    let change = ScheduleChange { next_at: Some(until), ..ScheduleChange::of(schedule) };
    app.store.change_schedule(schedule.number, schedule.revision, change).await?;
    Ok(())
}
