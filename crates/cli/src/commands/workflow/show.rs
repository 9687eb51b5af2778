//! How workflows look to people.

use baton::State;

use super::history::History;
use super::view::{Page, Run, Step, Steps};
use crate::output::{Table, or_dash};

/// What of an output is shown in a table.
const OUTPUT_CHARS_MAX: usize = 60;

/// A list of workflows.
pub fn page(page: &Page) -> String {
    let mut table =
        Table::new(&["id", "namespace", "queue", "type", "state", "reason", "attempt", "submitted", "due", "ended"]);
    for run in &page.runs {
        table.row([
            run.id.clone(),
            run.namespace.clone(),
            run.queue.clone(),
            run.kind.clone(),
            run.state.to_owned(),
            or_dash(run.reason.as_ref()),
            run.attempt.to_string(),
            run.submitted_at.to_string(),
            or_dash(due(run)),
            or_dash(run.ended_at),
        ]);
    }
    let mut text = format!("{table}\n{} of {}\n", page.runs.len(), page.total);
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("\nmore: --cursor {cursor}\n"));
    }
    text
}

/// When a run that waits goes on.
fn due(run: &Run) -> Option<String> {
    match (run.state, run.due_at) {
        ("sleeping", None) => Some("when a message comes".into()),
        ("pending" | "sleeping", due) => due.map(|due| due.to_string()),
        _ => None,
    }
}

/// One workflow with everything that is known of it.
pub fn run(run: &Run) -> String {
    let mut table = Table::plain();
    table.field("id", Some(&run.id));
    table.field("namespace", Some(&run.namespace));
    table.field("queue", Some(&run.queue));
    table.field("type", Some(&run.kind));
    table.field("state", Some(run.state));
    table.field("reason", run.reason.as_ref());
    table.field("error", run.error.as_ref());
    table.field("attempt", Some(run.attempt));
    table.field("priority", Some(run.priority));
    table.field("parent", run.parent_run_id.as_ref());
    table.field("continued to", run.continued_to.as_ref());
    table.field("worker", run.worker_id.as_ref());
    table.field("submitted", Some(run.submitted_at));
    table.field("due", due(run));
    table.field("ended", run.ended_at);
    table.field("cancel", run.cancel_requested.then_some("was asked for"));
    table.field("input", run.input.as_ref().map(|input| input.get()));
    table.field("output", run.output.as_ref().map(|output| output.get()));
    table.to_string()
}

/// What is remembered, position by position.
pub fn steps(steps: &Steps) -> String {
    let mut table = Table::new(&["position", "kind", "name", "state", "attempts", "when", "output"]);
    for step in &steps.steps {
        table.row([
            step.position.to_string(),
            step.kind.to_owned(),
            step.name.clone(),
            step.state.to_owned(),
            step.attempts.to_string(),
            or_dash(step.ended_at.or(step.begun_at)),
            or_dash(outcome(step)),
        ]);
    }
    table.to_string()
}

/// What came out at a position, or what is to come.
fn outcome(step: &Step) -> Option<String> {
    let output = step.output.as_ref().map(|output| cut(output.get()));
    let output = output.or_else(|| step.output_bytes.map(|bytes| format!("{bytes} bytes")));
    let error = step.error.as_ref().filter(|_| output.is_none()).map(|error| cut(error));
    let due = step.due_at.filter(|_| output.is_none()).map(|due| match step.kind {
        "sleep" => format!("until {due}"),
        _ => format!("again at {due}"),
    });
    let parts: Vec<String> = [step.child_run_id.clone(), output, error, due].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(OUTPUT_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// What happened, in order.
pub fn history(history: &History) -> String {
    let mut table = Table::new(&["at", "event", "position", "name", "attempt", "epoch", "worker", "reason", "message"]);
    for event in &history.events {
        table.row([
            event.at.to_string(),
            event.event.clone(),
            or_dash(event.position),
            or_dash(event.name.as_ref()),
            or_dash(event.attempt),
            or_dash(event.epoch),
            or_dash(event.worker_id.as_ref()),
            or_dash(event.reason.as_ref()),
            or_dash(event.message.as_deref().map(cut)),
        ]);
    }
    table.to_string()
}

/// How a workflow ended that did not complete.
pub fn end(run: &Run) -> String {
    if run.state == State::Cancelled.as_str() {
        return format!("the workflow {} was cancelled", run.id);
    }
    let reason = run.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let error = run.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    format!("the workflow {} {}{reason}{error}", run.id, run.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_outputs_are_cut_between_characters() {
        let long = "é".repeat(OUTPUT_CHARS_MAX + 1);
        assert_eq!(cut(&long), format!("{}...", "é".repeat(OUTPUT_CHARS_MAX)));
        assert_eq!(cut("short"), "short");
    }
}
