//! Reading schedules: one, many, what became of their fires, when they fire next.

use std::collections::HashMap;

use baton_core::Millis;
use baton_proto::{ScheduleFire, ScheduleView, ScheduledRun, Time};
use baton_store::{FireKind, FireRecord, Page, Schedule, Scope};

use super::find;
use super::spec::Spec;
use crate::auth::Caller;
use crate::{App, Error};

/// Fires that are shown with a schedule.
const NEXT_SHOWN: usize = 5;
/// Most fires that can be asked for.
pub const NEXT_MAX: usize = 1_000;

/// One schedule.
pub async fn get(app: &App, caller: &Caller, namespace: &str, id: &str) -> Result<ScheduleView, Error> {
    let schedule = find(app, caller, Scope::Read, namespace, id).await?;
    view(app, schedule, app.time.now().await?)
}

/// A page of the schedules that the caller sees (of one namespace, if given), by namespace and id, and how many there are if asked.
pub async fn list(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    page: Page<(String, String)>,
    total: bool,
) -> Result<(Vec<ScheduleView>, Option<u64>), Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let namespace = namespace.or(caller.namespace.as_deref());
    let now = app.time.now().await?;
    let found = app.store.schedules(namespace, page).await?;
    let shown = found.into_iter().map(|schedule| view(app, schedule, now)).collect::<Result<_, _>>()?;
    let total = match total {
        true => Some(app.store.count_schedules(namespace).await?),
        false => None,
    };
    Ok((shown, total))
}

/// What became of a schedule's fires, newest first, and where the next page goes on.
pub async fn fires(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    page: Page<i64>,
) -> Result<(Vec<ScheduleFire>, Option<i64>), Error> {
    let schedule = find(app, caller, Scope::Read, namespace, id).await?;
    let found = app.store.fires(schedule.number, page).await?;
    let next = found.last().filter(|_| found.len() == page.limit).map(|last| last.number);
    Ok((found.into_iter().map(fire).collect(), next))
}

/// What became of a fire, and how long its run took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastFire {
    /// Its number, which is where the next page goes on.
    pub number: i64,
    /// What became of it.
    pub fire: ScheduleFire,
    /// When its run was last claimed, if it is still kept.
    pub claimed_at: Option<Millis>,
    /// When its run ended.
    pub ended_at: Option<Millis>,
}

impl PastFire {
    fn of(record: FireRecord) -> PastFire {
        let FireRecord { number, claimed_at, ended_at, .. } = record;
        PastFire { number, claimed_at, ended_at, fire: fire(record) }
    }
}

/// As [`list`], each with its last fires, newest first.
pub async fn list_with_fires(
    app: &App,
    caller: &Caller,
    namespace: &str,
    page: Page<(String, String)>,
    fires_each: usize,
) -> Result<Vec<(ScheduleView, Vec<PastFire>)>, Error> {
    caller.may(Scope::Read, namespace)?;
    let now = app.time.now().await?;
    let found = app.store.schedules(Some(namespace), page).await?;
    let numbers: Vec<_> = found.iter().map(|schedule| schedule.number).collect();
    let mut fires: HashMap<_, Vec<PastFire>> = HashMap::new();
    for (number, record) in app.store.last_fires(&numbers, fires_each).await? {
        fires.entry(number).or_default().push(PastFire::of(record));
    }
    let with_fires = |schedule: Schedule| {
        let fires = fires.remove(&schedule.number).unwrap_or_default();
        Ok((view(app, schedule, now)?, fires))
    };
    found.into_iter().map(with_fires).collect()
}

/// As [`fires`], with how long runs took.
pub async fn past_fires(
    app: &App,
    caller: &Caller,
    namespace: &str,
    id: &str,
    page: Page<i64>,
) -> Result<Vec<PastFire>, Error> {
    let schedule = find(app, caller, Scope::Read, namespace, id).await?;
    Ok(app.store.fires(schedule.number, page).await?.into_iter().map(PastFire::of).collect())
}

/// When a schedule fires next, whether it is paused or not.
pub async fn next(app: &App, caller: &Caller, namespace: &str, id: &str, count: usize) -> Result<Vec<Time>, Error> {
    if !(1..=NEXT_MAX).contains(&count) {
        return Err(Error::field("count", format!("must be 1 to {NEXT_MAX}")));
    }
    let schedule = find(app, caller, Scope::Read, namespace, id).await?;
    let now = app.time.now().await?;
    upcoming(&Spec::read(app, &schedule)?, &schedule, now, count)
}

/// After what is settled already: a clock that was put back does not make it fire twice.
fn upcoming(spec: &Spec, schedule: &Schedule, now: Millis, count: usize) -> Result<Vec<Time>, Error> {
    Ok(spec.rule()?.upcoming(now.max(schedule.last_at), count).into_iter().map(Time).collect())
}

pub(super) fn view(app: &App, schedule: Schedule, now: Millis) -> Result<ScheduleView, Error> {
    let spec = Spec::read(app, &schedule)?;
    let next_fires = match schedule.is_paused {
        true => vec![],
        false => upcoming(&spec, &schedule, now, NEXT_SHOWN)?,
    };
    Ok(ScheduleView {
        id: schedule.id,
        namespace: schedule.namespace,
        cron: spec.cron,
        time_zone: spec.time_zone,
        jitter_ms: spec.jitter_ms,
        max_catchup: spec.max_catchup,
        overlap: spec.overlap,
        run: ScheduledRun { workflow: spec.workflow, ..spec.run },
        paused: schedule.is_paused,
        note: schedule.note,
        created_at: Time(schedule.created_at),
        last_fire: schedule.last_fire.map(Time),
        last_run: schedule.last_run.map(|run| run.to_string()),
        waiting_fire: schedule.buffered_at.map(Time),
        next_fires,
        fired: schedule.fired,
        left_out: schedule.left_out,
    })
}

fn fire(record: FireRecord) -> ScheduleFire {
    ScheduleFire {
        fire_at: Time(record.fire_at),
        at: Time(record.at),
        what: match record.kind {
            FireKind::Started => "started",
            FireKind::Skipped if record.missed.is_some() => "missed",
            FireKind::Skipped => "skipped",
            FireKind::Triggered => "triggered",
            FireKind::Backfilled => "backfilled",
        }
        .into(),
        run_id: record.run.map(|run| run.to_string()),
        state: record.state,
        missed: record.missed,
    }
}
