//! What has happened, as it is told to those who listen.

use serde::{Deserialize, Serialize};

use crate::{BulkProgress, Time};

/// Something that has happened. Fields that do not apply are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    /// Its position among all events of the installation. Send the last one seen as `Last-Event-ID` to go on after it,
    /// at any server.
    #[serde(default)]
    pub id: i64,
    /// `run.submitted`, `run.claimed`, `run.returned`, `run.suspended`, `run.cancel_requested`, `run.ended`,
    /// `worker.registered`, `worker.draining`, `worker.offline`, `queue.paused`, `queue.resumed`, `schedule.fired`,
    /// `runner.changed`, `claim.changed`, `bulk.changed`, `run.write_refused`,
    /// or `missed`. More may come.
    pub kind: String,
    /// When.
    pub at: Time,
    /// In which namespace. `missed` has none, nor has a bulk operation on the runs of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The type of the run.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub run_type: Option<String>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The state of the run, or of the bulk operation, since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why: a run failed or was returned, a worker went offline, events were missed (`slow_reader`, `not_recorded` or
    /// `forgotten`; webhooks also say `paused`). Or what a write that was refused wanted to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The worker that has or had the run, or that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// The name of the worker that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_name: Option<String>,
    /// The runner pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The runner of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// The schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The bulk operation, and how far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<BulkProgress>,
    /// How many events were missed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Event {
    /// An event of this kind, with nothing else known of it.
    pub fn new(kind: &str, at: Time) -> Event {
        Event {
            id: 0,
            kind: kind.to_owned(),
            at,
            namespace: None,
            queue: None,
            run_type: None,
            run_id: None,
            state: None,
            reason: None,
            worker_id: None,
            worker_name: None,
            pool: None,
            runner_id: None,
            schedule: None,
            bulk: None,
            count: None,
        }
    }
}
