//! What happened to a workflow: the leases of its run, and in between what it did under them.

use baton::proto::{HistoryEvent, Time};
use baton::{Client, ClientError, StepAttempt, StepKind, StepState, StepView};
use serde::Serialize;

use super::view;
use crate::output::List;

/// What happened to a workflow, oldest first.
#[derive(Serialize)]
pub struct History {
    pub events: Vec<Event>,
}

impl List for History {
    type Entry = Event;

    fn entries(&self) -> &[Event] {
        &self.events
    }
}

/// One thing that happened.
#[derive(Serialize, Debug)]
pub struct Event {
    pub at: Time,
    /// As in the history of a run; or `step_completed`, `step_failed`, `step_begun` for an attempt, `sleep`, `signal`, `child`, `fact`.
    pub event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Asks for everything that happened to a workflow.
pub async fn read(client: &Client, run: &str) -> Result<History, ClientError> {
    let handle = client.workflow(run);
    let (attempts, steps) = (handle.step_attempts().await?, handle.steps().await?);
    let run = client.history(run).await?.events.into_iter().map(of_run).collect();
    // Steps are there with all of their attempts.
    let others = steps.into_iter().filter(|step| step.kind != StepKind::Step).filter_map(of_position);
    let mut done: Vec<Event> = attempts.into_iter().filter_map(of_attempt).chain(others).collect();
    done.sort_by_key(|event| (event.at, event.position));
    Ok(History { events: merge(run, done) })
}

fn of_run(event: HistoryEvent) -> Event {
    Event {
        at: event.at,
        event: event.event,
        position: None,
        name: None,
        attempt: None,
        epoch: event.epoch.map(u64::from),
        worker_id: event.worker_id,
        reason: event.reason,
        message: event.message,
    }
}

fn of_attempt(attempt: StepAttempt) -> Option<Event> {
    let (event, at) = match attempt.state {
        StepState::Completed => ("step_completed", attempt.ended_at),
        StepState::Failed => ("step_failed", attempt.ended_at),
        _ => ("step_begun", attempt.begun_at),
    };
    Some(Event {
        at: at.or(attempt.begun_at).map(view::time)?,
        event: event.into(),
        position: Some(attempt.position),
        name: Some(attempt.name),
        attempt: Some(attempt.attempt),
        epoch: Some(attempt.epoch),
        worker_id: attempt.worker_id,
        reason: attempt.code,
        message: attempt.error,
    })
}

/// A sleep or a child when it began, a signal when it was taken.
fn of_position(step: StepView) -> Option<Event> {
    let message = match step.kind {
        StepKind::Sleep => step.due_at.map(|due| format!("until {}", view::time(due))),
        StepKind::Child => step.child_run_id,
        _ => Some(String::from_utf8_lossy(&step.output).into_owned()).filter(|output| !output.is_empty()),
    };
    Some(Event {
        at: step.begun_at.map(view::time)?,
        event: view::kind(step.kind).into(),
        position: Some(step.position),
        name: Some(step.name),
        attempt: None,
        epoch: None,
        worker_id: None,
        reason: None,
        message,
    })
}

/// Puts what a workflow did between the events of its run, which keep their order. What was done in the millisecond in which a lease ended was
/// done before that.
fn merge(run: Vec<Event>, done: Vec<Event>) -> Vec<Event> {
    let mut merged = Vec::with_capacity(run.len() + done.len());
    let mut done = done.into_iter().peekable();
    for event in run {
        let opens = matches!(event.event.as_str(), "submitted" | "claimed" | "started");
        while let Some(before) = done.next_if(|done| if opens { done.at < event.at } else { done.at <= event.at }) {
            merged.push(before);
        }
        merged.push(event);
    }
    merged.extend(done);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: i64, word: &str) -> Event {
        of_run(HistoryEvent {
            at: Time(at),
            event: word.into(),
            epoch: None,
            worker_id: None,
            reason: None,
            message: None,
        })
    }

    #[test]
    fn what_was_done_stands_between_the_leases_it_was_done_under() {
        let run = [(1, "submitted"), (2, "claimed"), (3, "lease_ended"), (3, "claimed"), (5, "completed")];
        let done = [(2, "a"), (3, "b"), (4, "c"), (5, "d")];
        let events = |events: &[(i64, &str)]| events.iter().map(|(at, word)| event(*at, word)).collect();
        let merged = merge(events(&run), events(&done));
        let words: Vec<&str> = merged.iter().map(|event| event.event.as_str()).collect();
        assert_eq!(
            words,
            ["submitted", "claimed", "a", "b", "lease_ended", "claimed", "c", "d", "completed"],
            "{merged:?}"
        );
    }
}
