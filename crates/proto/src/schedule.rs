//! Schedules: rules that start runs.

use baton_core::schedule::Overlap;
use baton_core::{RetryPolicy, State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Time, namespace_default, queue_default};

/// The run that each fire of a schedule starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScheduledRun {
    /// Queue.
    #[serde(default = "queue_default")]
    pub queue: String,
    /// What kind of work this is.
    #[serde(rename = "type")]
    pub kind: String,
    /// Anything the worker needs, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<serde_json::Value>))]
    pub input: Option<Box<RawValue>>,
    /// 0 to 9; 9 goes first. 5 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Runs with the same key take turns with other keys, and the queue may limit how many are live at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Runs with the same affinity key prefer the worker that last finished one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// What happens after a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::RetryPolicy>))]
    pub retry: Option<RetryPolicy>,
    /// How many workers may be lost before the run is called poison. 3 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_losses: Option<u32>,
    /// How long one attempt may take, counted from its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long the run may take as a whole, waits and sleeps included, counted from when it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// It is a workflow: tried once unless `retry` says otherwise, and it may clean up when it is cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workflow: bool,
}

impl ScheduledRun {
    /// A run of this type on this queue, with everything else left at its default.
    pub fn new(queue: impl Into<String>, kind: impl Into<String>) -> ScheduledRun {
        ScheduledRun {
            queue: queue.into(),
            kind: kind.into(),
            input: None,
            priority: None,
            key: None,
            affinity: None,
            retry: None,
            max_losses: None,
            timeout_ms: None,
            run_timeout_ms: None,
            workflow: false,
        }
    }

    /// A workflow of this type on this queue, with everything else left at its default.
    pub fn workflow(queue: impl Into<String>, workflow_type: impl Into<String>) -> ScheduledRun {
        ScheduledRun { workflow: true, ..ScheduledRun::new(queue, workflow_type) }
    }
}

/// A schedule to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateSchedule {
    /// Namespace of the schedule and its runs; the API key must be good for it.
    #[serde(default = "namespace_default")]
    pub namespace: String,
    /// Chosen by whoever makes it; unique in its namespace.
    pub id: String,
    /// Five, six (seconds first) or seven fields (and a year at the end), or @hourly and the like.
    pub cron: String,
    /// An IANA name; UTC unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Each run is late by chance, at most this much; the same fire always by the same. 0 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    /// Most fires made up for after a downtime, the newest of them; 100 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_catchup: Option<u32>,
    /// What happens to a fire while the run before it lives: `allow` (unless given), `skip`, `buffer_one` or `cancel_previous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::ScheduleOverlap>))]
    pub overlap: Option<Overlap>,
    /// What is started.
    pub run: ScheduledRun,
    /// Wait until somebody resumes it.
    #[serde(default)]
    pub paused: bool,
    /// For people.
    #[serde(default)]
    pub note: String,
}

impl CreateSchedule {
    /// A schedule of the namespace `default` that starts this run by a cron rule in UTC, with everything else left at its default.
    pub fn new(id: impl Into<String>, cron: impl Into<String>, run: ScheduledRun) -> CreateSchedule {
        CreateSchedule {
            namespace: namespace_default(),
            id: id.into(),
            cron: cron.into(),
            time_zone: None,
            jitter_ms: None,
            max_catchup: None,
            overlap: None,
            run,
            paused: false,
            note: String::new(),
        }
    }
}

/// A change of a schedule. What is left out stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeSchedule {
    /// When it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// An IANA name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How late runs may be by chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    /// Most fires made up for after a downtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_catchup: Option<u32>,
    /// What happens to a fire while the run before it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::ScheduleOverlap>))]
    pub overlap: Option<Overlap>,
    /// What is started; all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<ScheduledRun>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A schedule as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScheduleView {
    /// Unique in its namespace.
    pub id: String,
    /// Its namespace.
    pub namespace: String,
    /// When it fires.
    pub cron: String,
    /// In which time zone.
    pub time_zone: String,
    /// How late runs may be by chance.
    pub jitter_ms: u64,
    /// Most fires made up for after a downtime.
    pub max_catchup: u32,
    /// What happens to a fire while the run before it lives.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::ScheduleOverlap))]
    pub overlap: Overlap,
    /// What is started.
    pub run: ScheduledRun,
    /// True while it waits for somebody to resume it.
    pub paused: bool,
    /// For people.
    pub note: String,
    /// When it was made.
    pub created_at: Time,
    /// The last fire that the rule started a run for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fire: Option<Time>,
    /// That run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<String>,
    /// A fire that waits for the end of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_fire: Option<Time>,
    /// When it fires next; empty while it is paused.
    pub next_fires: Vec<Time>,
    /// Runs it has started, in whatever way.
    pub fired: u64,
    /// Fires that were skipped or missed. Missed ones are counted up to 10,000 for each downtime.
    pub left_out: u64,
}

/// A page of schedules, by namespace and id.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SchedulePage {
    /// The schedules, paused ones among them.
    pub schedules: Vec<ScheduleView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many there are in all, when asked for with `total=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// Why a schedule is to wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PauseSchedule {
    /// Takes the place of the schedule's note.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A run to be started by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TriggerSchedule {
    /// The same key again gives the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A run that was started by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TriggeredSchedule {
    /// The run.
    pub run_id: String,
    /// False when an earlier call with the same idempotency key made it.
    pub created: bool,
}

/// A range of the past whose fires are to be made up for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BackfillSchedule {
    /// From this moment on.
    pub from: Time,
    /// Up to this moment, which must have passed.
    pub to: Time,
}

/// What was made up for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BackfilledSchedule {
    /// Fires that started a run.
    pub started: u64,
    /// Fires that had started one before.
    pub existed: u64,
}

/// What became of one fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScheduleFire {
    /// When it was to fire.
    pub fire_at: Time,
    /// When it was carried out.
    pub at: Time,
    /// `started`, `skipped` (the run before it lived), `missed` (by a downtime, and beyond `max_catchup`), `triggered` or `backfilled`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::FireOutcome))]
    pub what: String,
    /// The run it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Where that stands, if it is still kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::words::State>))]
    pub state: Option<State>,
    /// How many fires were missed, this one the newest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// A page of what became of a schedule's fires, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScheduleFires {
    /// The fires.
    pub fires: Vec<ScheduleFire>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// When a schedule fires next, whether it is paused or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NextFires {
    /// The times, in order.
    pub fires: Vec<Time>,
}
