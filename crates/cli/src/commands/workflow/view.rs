//! Workflows as the JSON that commands print.

use std::time::{SystemTime, UNIX_EPOCH};

use baton::proto::Time;
use baton::{StepKind, StepState, StepView, WorkflowHandle, WorkflowPage, WorkflowRun};
use baton_store::FOR_GOOD;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::List;

/// A run that was started.
#[derive(Serialize)]
pub struct Started {
    pub id: String,
    /// True when there was a run with this idempotency key before.
    pub existed: bool,
}

impl From<&WorkflowHandle> for Started {
    fn from(handle: &WorkflowHandle) -> Started {
        Started { id: handle.run_id().to_owned(), existed: handle.existed() }
    }
}

/// A run of a workflow. Its fields are called as those of `baton run` are.
#[derive(Serialize)]
pub struct Run {
    pub id: String,
    pub namespace: String,
    pub queue: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub attempt: u32,
    pub priority: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_to: Option<String>,
    pub cancel_requested: bool,
    pub submitted_at: Time,
    /// Missing when only a message can wake it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
}

impl From<WorkflowRun> for Run {
    fn from(run: WorkflowRun) -> Run {
        Run {
            id: run.run_id,
            namespace: run.namespace,
            queue: run.queue,
            kind: run.workflow_type,
            state: run.state.as_str(),
            reason: some(run.reason),
            error: some(run.error),
            attempt: run.attempt,
            priority: run.priority,
            worker_id: run.worker_id,
            parent_run_id: run.parent_run_id,
            continued_to: run.continued_to,
            cancel_requested: run.cancel_requested,
            submitted_at: time(run.submitted_at),
            due_at: run.due_at.map(time).filter(|due| due.0 < FOR_GOOD),
            ended_at: run.ended_at.map(time),
            input: json(&run.input),
            output: json(&run.output),
        }
    }
}

/// A page of runs.
#[derive(Serialize)]
pub struct Page {
    pub runs: Vec<Run>,
    pub total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl List for Page {
    type Entry = Run;

    fn entries(&self) -> &[Run] {
        &self.runs
    }

    fn next_cursor(&self) -> Option<&str> {
        self.next_cursor.as_deref()
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }
}

impl From<WorkflowPage> for Page {
    fn from(page: WorkflowPage) -> Page {
        Page { runs: page.runs.into_iter().map(Run::from).collect(), total: page.total, next_cursor: page.next }
    }
}

/// Everything that is remembered of a workflow.
#[derive(Serialize)]
pub struct Steps {
    pub steps: Vec<Step>,
}

impl List for Steps {
    type Entry = Step;

    fn entries(&self) -> &[Step] {
        &self.steps
    }
}

/// What is remembered at a position.
#[derive(Serialize)]
pub struct Step {
    pub position: u32,
    pub kind: &'static str,
    pub name: String,
    pub state: &'static str,
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// When a sleep is over, or the next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// How large an output is that is too large for a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
}

impl From<StepView> for Step {
    fn from(step: StepView) -> Step {
        Step {
            position: step.position,
            kind: kind(step.kind),
            name: step.name,
            state: state(step.state),
            attempts: step.attempts,
            begun_at: step.begun_at.map(time),
            ended_at: step.ended_at.map(time),
            due_at: step.due_at.map(time),
            child_run_id: step.child_run_id,
            error: step.error,
            code: step.code,
            output: json(&step.output),
            output_bytes: Some(step.output_bytes).filter(|bytes| *bytes > 0),
        }
    }
}

pub fn kind(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Step => "step",
        StepKind::Sleep => "sleep",
        StepKind::Signal => "signal",
        StepKind::Child => "child",
        StepKind::Fact => "fact",
        // A kind of a later version.
        _ => "unknown",
    }
}

pub fn state(state: StepState) -> &'static str {
    match state {
        StepState::Begun => "begun",
        StepState::Completed => "completed",
        StepState::Failed => "failed",
        // A state of a later version.
        _ => "unknown",
    }
}

/// A moment as it is printed.
pub fn time(at: SystemTime) -> Time {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// A payload, if there is one. Workers of other languages may send what is no JSON: that is shown as text.
fn json(payload: &[u8]) -> Option<Box<RawValue>> {
    if payload.is_empty() {
        return None;
    }
    let text = || serde_json::value::to_raw_value(&String::from_utf8_lossy(payload)).ok();
    serde_json::from_slice(payload).ok().or_else(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_stay_as_they_are_and_what_is_no_json_becomes_text() {
        let shown = |payload: &[u8]| json(payload).map(|value| value.get().to_owned());
        assert_eq!(shown(b""), None);
        assert_eq!(shown(b"{\"b\": 1.0, \"a\":2}").as_deref(), Some("{\"b\": 1.0, \"a\":2}"));
        assert_eq!(shown(b"not \xff").as_deref(), Some("\"not \u{fffd}\""));
    }
}
