//! Schedules, their fires, and namespaces, as the store keeps them.

use baton_core::schedule::Overlap;
use baton_core::{Millis, RunId, State};

use crate::{NewRun, Submitted};

/// The store's number of a schedule. Never used again, also when the schedule is deleted.
pub type ScheduleNo = i64;

/// A schedule to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct NewSchedule {
    /// Its namespace, which must be there.
    pub namespace: String,
    /// Unique in its namespace.
    pub id: String,
    /// The rule and what it starts. The store does not read it.
    pub spec: String,
    /// What people wrote about it.
    pub note: String,
    /// It waits for somebody to resume it.
    pub is_paused: bool,
    /// Everything up to then is settled.
    pub last_at: Millis,
    /// When it is to be looked at next.
    pub next_at: Option<Millis>,
}

/// A schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Its number.
    pub number: ScheduleNo,
    /// Its namespace.
    pub namespace: String,
    /// Unique in its namespace.
    pub id: String,
    /// The rule and what it starts.
    pub spec: String,
    /// What people wrote about it.
    pub note: String,
    /// It waits for somebody to resume it.
    pub is_paused: bool,
    /// Grows with every change.
    pub revision: i64,
    /// When it was made.
    pub created_at: Millis,
    /// Everything up to then is settled.
    pub last_at: Millis,
    /// When it is to be looked at next.
    pub next_at: Option<Millis>,
    /// The last fire that the rule started a run for.
    pub last_fire: Option<Millis>,
    /// That run.
    pub last_run: Option<RunId>,
    /// A fire that waits for the end of that run.
    pub buffered_at: Option<Millis>,
    /// Runs it has started, in whatever way.
    pub fired: u64,
    /// Fires that were left out.
    pub left_out: u64,
}

/// What became of a schedule to be made.
#[derive(Clone, PartialEq, Debug)]
pub enum ScheduleAnswer {
    /// It is there now.
    Made(Schedule),
    /// One with this id was there before, perhaps another one.
    Exists(Schedule),
    /// The namespace has this many, and may not have more.
    Full(u64),
}

/// What a schedule is to be from now on.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleChange {
    /// The rule and what it starts.
    pub spec: String,
    /// What people wrote about it.
    pub note: String,
    /// It waits for somebody to resume it.
    pub is_paused: bool,
    /// Everything up to then is settled.
    pub last_at: Millis,
    /// When it is to be looked at next.
    pub next_at: Option<Millis>,
    /// A fire that waits for the end of the run before it.
    pub buffered_at: Option<Millis>,
}

impl ScheduleChange {
    /// As it is.
    pub fn of(schedule: &Schedule) -> ScheduleChange {
        ScheduleChange {
            spec: schedule.spec.clone(),
            note: schedule.note.clone(),
            is_paused: schedule.is_paused,
            last_at: schedule.last_at,
            next_at: schedule.next_at,
            buffered_at: schedule.buffered_at,
        }
    }
}

/// What a look for schedules that have something to do found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DueSchedules {
    /// The time on the store's clock.
    pub now: Millis,
    /// Schedules whose time has come, longest due first, and those whose waiting fire can start.
    pub due: Vec<Schedule>,
    /// When the next one is to be looked at.
    pub next_at: Option<Millis>,
    /// True when a fire waits for the end of a run.
    pub is_waiting: bool,
}

/// A fire and the run it would start.
#[derive(Clone, PartialEq, Debug)]
pub struct FireRun {
    /// When it fires, by its rule.
    pub at: Millis,
    /// The run. Its idempotency is made from the schedule and the time.
    pub run: NewRun,
    /// For its identifier.
    pub die: u64,
    /// When the run is ended, counted from when it is due.
    pub timeout_ms: Option<Millis>,
}

/// Fires of a schedule whose time has come.
#[derive(Clone, PartialEq, Debug)]
pub struct Fire {
    /// The schedule.
    pub schedule: ScheduleNo,
    /// Its revision as it was seen: with another one nothing happens.
    pub revision: i64,
    /// What happens while the run before lives.
    pub overlap: Overlap,
    /// Oldest first; the first is the one that waited, if one did.
    pub fires: Vec<FireRun>,
    /// Everything up to then is settled.
    pub last_at: Millis,
    /// When the schedule is to be looked at next.
    pub next_at: Option<Millis>,
    /// Older fires that nobody makes up for.
    pub missed: Option<Missed>,
}

/// Fires that a downtime was too long to make up for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The newest of them.
    pub at: Millis,
    /// How many there were.
    pub count: u64,
}

/// What became of fires.
#[derive(Clone, PartialEq, Debug)]
pub enum FireAnswer {
    /// Each fire that was to start a run, with the run.
    Fired(Vec<(Millis, Submitted)>),
    /// Somebody else was faster, or the schedule was changed, paused or deleted.
    Stale,
}

/// What a line about a fire says. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i16)]
pub enum FireKind {
    /// The rule started a run.
    Started = 0,
    /// It was left out.
    Skipped = 1,
    /// Somebody started a run by hand.
    Triggered = 2,
    /// Somebody had it made up for.
    Backfilled = 3,
}

impl FireKind {
    /// The number kept in the store.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The kind with this number.
    pub fn from_code(code: i16) -> Option<FireKind> {
        [FireKind::Started, FireKind::Skipped, FireKind::Triggered, FireKind::Backfilled]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// A line of a schedule's history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FireRecord {
    /// Counts up.
    pub number: i64,
    /// When it was to fire.
    pub fire_at: Millis,
    /// When it was carried out.
    pub at: Millis,
    /// What became of it.
    pub kind: FireKind,
    /// The run it started.
    pub run: Option<RunId>,
    /// Where that stands, if it is still kept.
    pub state: Option<State>,
    /// How many fires the line stands for that were missed, this one the newest of them.
    pub missed: Option<u64>,
    /// When its run was last claimed, if it is still kept.
    pub claimed_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// A part of the installation that sees nothing of the others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// What people wrote about it.
    pub description: String,
    /// When it was made.
    pub created_at: Millis,
    /// Grows with every change of a namespace, this one or another.
    pub change_no: i64,
    /// Since when it takes nothing new.
    pub disabled_at: Option<Millis>,
    /// Why.
    pub disabled_reason: String,
    /// What it may have.
    pub limits: NamespaceLimits,
}

/// What a namespace may have, where `None` is no limit, and how its payloads are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NamespaceLimits {
    /// Runs that have not ended.
    pub live_runs_max: Option<u64>,
    /// Workers that are online.
    pub workers_max: Option<u64>,
    /// Schedules.
    pub schedules_max: Option<u64>,
    /// Payloads are encrypted before they come to the store.
    pub seal_payloads: bool,
}

/// A change of a namespace. An outer `None` leaves something as it is; an inner one clears it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NamespaceChange {
    /// What people wrote about it.
    pub description: Option<String>,
    /// Why it takes nothing new from now on; `Some(None)` lets it take things again.
    pub disabled: Option<Option<String>>,
    /// Most runs that have not ended.
    pub live_runs_max: Option<Option<u64>>,
    /// Most workers that are online.
    pub workers_max: Option<Option<u64>>,
    /// Most schedules.
    pub schedules_max: Option<Option<u64>>,
    /// Whether new payloads are encrypted.
    pub seal_payloads: Option<bool>,
}
