//! Operations on all runs that a filter finds.

use baton_core::State;
use serde::{Deserialize, Serialize};

use crate::Time;

/// Which runs, in the words of the list of runs. What is left out does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BulkFilter {
    /// Only this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(rename = "type"))]
    pub kind: Option<String>,
    /// Only these states. `cancel` takes those before the end of a run [default: all of them], `retry` those after it
    /// [default: failed].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<crate::words::State>))]
    pub state: Vec<String>,
    /// Only runs held (now, or at their end) by this worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Only runs with this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only runs submitted at this moment or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_after: Option<Time>,
    /// Only runs submitted before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_before: Option<Time>,
    /// Only runs whose identifier ends with these 4 to 12 hexadecimal digits, among the newest 1,000,000 runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-9A-Fa-f]{4,12}$"))]
    pub id_suffix: Option<String>,
}

impl BulkFilter {
    /// Runs in these states.
    pub fn in_states(states: impl IntoIterator<Item = State>) -> BulkFilter {
        BulkFilter {
            state: states.into_iter().map(|state| state.as_str().to_owned()).collect(),
            ..BulkFilter::default()
        }
    }

    /// True when it names nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == BulkFilter::default()
    }
}

/// What is to be done to all runs that a filter finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateBulk {
    /// `cancel` or `retry`: for each run as its single verb does it.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BulkAction))]
    pub action: String,
    /// Which runs. An empty filter is refused without `all`.
    #[serde(default)]
    pub filter: BulkFilter,
    /// An empty filter is meant: every run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Only count the runs, and show a few of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Most runs in a second; more than the setting `bulk_rate_max` is refused. [default: the setting `bulk_rate`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0))]
    pub rate_per_second: Option<f64>,
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CreateBulk {
    /// An operation at the usual rate.
    pub fn new(action: &str, filter: BulkFilter) -> CreateBulk {
        CreateBulk { action: action.into(), filter, all: false, dry_run: false, rate_per_second: None, reason: None }
    }
}

/// How many runs an operation would act on now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BulkCount {
    /// `cancel` or `retry`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BulkAction))]
    pub action: String,
    /// Which runs, with the states that are meant.
    pub filter: BulkFilter,
    /// How many there are.
    pub matched: u64,
    /// The newest of them.
    pub sample: Vec<String>,
}

/// An error that an operation met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BulkError {
    /// The run.
    pub run_id: String,
    /// A stable word for programs.
    pub code: String,
    /// For people.
    pub error: String,
}

/// An operation on all runs that a filter finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BulkView {
    /// Its identifier.
    pub id: String,
    /// `cancel` or `retry`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BulkAction))]
    pub action: String,
    /// Whose runs; absent for those of all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Which runs, with the states that are meant. Only runs submitted before `created_at`.
    pub filter: BulkFilter,
    /// Where it stands: `running`, `completed`, `stopped` or `failed`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BulkState))]
    pub state: String,
    /// Somebody has asked it to stop.
    #[serde(default)]
    pub stopping: bool,
    /// How many runs there were when it began; absent until they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Runs that the verb was carried out on.
    pub done: u64,
    /// Runs that had ended already, are gone, or cannot be retried.
    pub skipped: u64,
    /// Runs for which the verb was refused.
    pub failed: u64,
    /// The first errors.
    pub errors: Vec<BulkError>,
    /// What it waits for before it goes on: room in a queue, a database that can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Most runs in a second.
    pub rate_per_second: f64,
    /// Why, as whoever made it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The id of the API key that made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
}

impl BulkView {
    /// True when nothing changes any more.
    pub fn is_ended(&self) -> bool {
        self.state != "running"
    }
}

/// A page of bulk operations, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BulkPage {
    /// The operations.
    pub operations: Vec<BulkView>,
    /// Pass it as `cursor` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// How far an operation has come, as an event tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BulkProgress {
    /// The operation.
    pub id: String,
    /// `cancel` or `retry`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::BulkAction))]
    pub action: String,
    /// How many runs there were when it began, once they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Runs that the verb was carried out on.
    pub done: u64,
    /// Runs that had ended already, are gone, or cannot be retried.
    pub skipped: u64,
    /// Runs for which the verb was refused.
    pub failed: u64,
}
