//! Schedules: rules that start runs. docs/schedules.md has the promises.
//!
//! A schedule's rule and template are its *spec*, kept as JSON; `fire` carries out what is due, `by_hand` what people ask for.

pub mod by_hand;
pub mod control;
pub(crate) mod fire;
pub mod read;
mod spec;

use baton_core::Millis;
use baton_proto::{ChangeSchedule, CreateSchedule, ScheduleView};
use baton_store::{NewSchedule, Schedule, ScheduleAnswer, ScheduleChange, Scope};

use self::spec::Spec;
use super::{audit, check_name, message};
use crate::auth::Caller;
use crate::{App, Error};

/// How often a change is tried anew because the schedule fired, or somebody else changed it, in between.
const TRIES_MAX: usize = 20;

/// Makes a schedule. The same again gives the same answer; true when this call made it.
pub async fn create(app: &App, caller: &Caller, wanted: CreateSchedule) -> Result<(ScheduleView, bool), Error> {
    caller.may(Scope::Submit, &wanted.namespace)?;
    check_name("namespace", &wanted.namespace)?;
    check_name("id", &wanted.id)?;
    let note = message(&wanted.note);
    let (namespace, id, is_paused) = (wanted.namespace.clone(), wanted.id.clone(), wanted.paused);
    let spec = Spec::new(wanted);
    let cron = spec.check(app)?;
    // Made on first use, and refused while it is disabled.
    app.namespaces.limits(&namespace).await?;
    let now = app.store.now().await?;
    let next_at = cron.next(now);
    if next_at.is_none() {
        return Err(never());
    }
    let new = NewSchedule {
        namespace: namespace.clone(),
        id: id.clone(),
        spec: spec.write(app, &namespace),
        note,
        is_paused,
        last_at: now,
        next_at: next_at.filter(|_| !is_paused),
    };
    match app.store.add_schedule(new.clone()).await? {
        ScheduleAnswer::Made(made) => {
            audit::act(app, caller, "schedule.create", &id, &spec.cron, Some(&namespace)).await?;
            set_alarm(app, &made, now);
            Ok((read::view(app, made, now)?, true))
        }
        ScheduleAnswer::Exists(known) if Spec::read(app, &known)?.plain() == spec.plain() && known.note == new.note => {
            Ok((read::view(app, known, now)?, false))
        }
        ScheduleAnswer::Exists(_) => Err(Error::Conflict(format!(
            "there is a schedule {id} already, and it is another one: update it, or choose another id"
        ))),
        ScheduleAnswer::Full(limit) => Err(Error::NamespaceLimit { namespace, what: "schedules", limit }),
    }
}

/// Changes a schedule. A new rule holds from now on.
pub async fn change(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    wanted: ChangeSchedule,
) -> Result<ScheduleView, Error> {
    let detail = wanted.cron.clone().unwrap_or_default();
    let changed = set(app, caller, namespace, id, |seen, now| {
        let (spec, is_new_rule) = Spec::read(app, seen)?.changed(&wanted);
        let cron = spec.check(app)?;
        let last_at = if is_new_rule { now } else { seen.last_at };
        let next_at = cron.next(last_at);
        if next_at.is_none() {
            return Err(never());
        }
        Ok(Some(ScheduleChange {
            spec: spec.write(app, namespace),
            note: wanted.note.as_deref().map_or_else(|| seen.note.clone(), message),
            last_at,
            next_at: next_at.filter(|_| !seen.is_paused),
            ..ScheduleChange::of(seen)
        }))
    });
    let changed = changed.await?;
    audit::act(app, caller, "schedule.change", id, &detail, Some(namespace)).await?;
    Ok(changed)
}

/// Deletes a schedule. Its runs stay.
pub async fn delete(app: &App, caller: &Caller, namespace: &str, id: &str) -> Result<(), Error> {
    let seen = find(app, caller, Scope::Submit, namespace, id).await?;
    app.store.delete_schedule(seen.number).await?;
    audit::act(app, caller, "schedule.delete", id, "", Some(namespace)).await
}

fn never() -> Error {
    super::workflows::invalid("cron", "has no time after now: the schedule would never fire")
}

/// The schedule, if the caller may do this with it.
async fn find(app: &App, caller: &Caller, scope: Scope, namespace: &str, id: &str) -> Result<Schedule, Error> {
    caller.may(scope, namespace)?;
    app.store.schedule(namespace, id).await?.ok_or_else(|| Error::NotFound { what: "schedule", id: id.into() })
}

/// Changes a schedule as `change` says, given what it is and the time; `None` leaves it as it is. Tried anew when it was changed in between.
async fn set(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    change: impl Fn(&Schedule, Millis) -> Result<Option<ScheduleChange>, Error>,
) -> Result<ScheduleView, Error> {
    for _ in 0..TRIES_MAX {
        let seen = find(app, caller, Scope::Submit, namespace, id).await?;
        let now = app.store.now().await?;
        let Some(wanted) = change(&seen, now)? else { return read::view(app, seen, now) };
        if let Some(changed) = app.store.change_schedule(seen.number, seen.revision, wanted).await? {
            set_alarm(app, &changed, now);
            return read::view(app, changed, now);
        }
    }
    Err(Error::Conflict("the schedule keeps changing; look at it and try again".into()))
}

/// Has the scheduler of this server look at the schedule in time. Others find it when they look.
fn set_alarm(app: &App, schedule: &Schedule, now: Millis) {
    if let Some(next_at) = schedule.next_at {
        app.schedules.ring_at(next_at, now);
    }
}
