//! How workflows look to people.

use baton::State;
use baton::proto::Time;

use super::history::History;
use super::view::{Page, Run, Step, Steps};
use crate::output::{Column, Look, Table, or_dash};

/// What of an output is shown in a table.
const OUTPUT_CHARS_MAX: usize = 60;

/// A list of workflows.
pub fn page(page: &Page, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("id"),
        Column::namespace(page.runs.iter().map(|run| run.namespace.as_str())),
        Column::name("queue"),
        Column::name("type"),
        Column::state("state"),
        Column::text("reason"),
        Column::number("attempt"),
        Column::age("age"),
        Column::age("due"),
        Column::age("ended"),
        Column::id("worker").extra(),
        Column::id("parent").extra(),
        Column::text("error").extra(),
    ]);
    for run in &page.runs {
        table.row([
            look.id(&run.id),
            run.namespace.clone(),
            run.queue.clone(),
            run.kind.clone(),
            run.state.to_owned(),
            or_dash(run.reason.as_ref()),
            run.attempt.to_string(),
            look.age(run.submitted_at),
            or_dash(due(run, "message", |at| look.now.ahead(at)).filter(|due| due != "over")),
            or_dash(run.ended_at.map(|at| look.age(at))),
            or_dash(run.worker_id.as_ref().map(|worker| look.id(worker))),
            or_dash(run.parent_run_id.as_ref().map(|parent| look.id(parent))),
            or_dash(run.error.as_ref()),
        ]);
    }
    table
}

/// When a run that waits goes on.
fn due(run: &Run, message: &str, at: impl Fn(Time) -> String) -> Option<String> {
    match (run.state, run.due_at) {
        ("sleeping", None) => Some(message.into()),
        ("pending" | "sleeping", due) => due.map(at),
        _ => None,
    }
}

/// One workflow with everything that is known of it.
pub fn run(run: &Run, look: Look) -> String {
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
    table.field("submitted", Some(look.moment(run.submitted_at)));
    table.field("due", due(run, "when a message comes", |at| look.moment(at)));
    table.field("ended", run.ended_at.map(|at| look.moment(at)));
    table.field("cancel", run.cancel_requested.then_some("was asked for"));
    table.field("input", run.input.as_ref().map(|input| input.get()));
    table.field("output", run.output.as_ref().map(|output| output.get()));
    table.render(look)
}

/// What is remembered, position by position.
pub fn steps(steps: &Steps, look: Look) -> Table {
    let mut table = Table::of([
        Column::number("position"),
        Column::text("kind"),
        Column::name("name"),
        Column::state("state"),
        Column::number("attempts"),
        Column::age("age"),
        Column::name("at").extra(),
        Column::text("output"),
    ]);
    for step in &steps.steps {
        let at = step.ended_at.or(step.begun_at);
        table.row([
            step.position.to_string(),
            step.kind.to_owned(),
            step.name.clone(),
            step.state.to_owned(),
            step.attempts.to_string(),
            or_dash(at.map(|at| look.age(at))),
            or_dash(at),
            or_dash(outcome(step, look)),
        ]);
    }
    table
}

/// What came out at a position, or what is to come.
fn outcome(step: &Step, look: Look) -> Option<String> {
    let output = step.output.as_ref().map(|output| cut(output.get()));
    let output = output.or_else(|| step.output_bytes.map(|bytes| format!("{bytes} bytes")));
    let error = step.error.as_ref().filter(|_| output.is_none()).map(|error| cut(error));
    let due = step.due_at.filter(|_| output.is_none()).map(|due| match step.kind {
        "sleep" => format!("until {}", look.moment(due)),
        _ => format!("again at {}", look.moment(due)),
    });
    let parts: Vec<String> =
        [step.child_run_id.as_ref().map(|child| look.id(child)), output, error, due].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(OUTPUT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What happened, in order.
pub fn history(history: &History, look: Look) -> Table {
    let mut table = Table::of([
        Column::age("age"),
        Column::name("at").extra(),
        Column::name("event"),
        Column::number("pos"),
        Column::name("name"),
        Column::number("attempt").extra(),
        Column::number("epoch"),
        Column::id("worker"),
        Column::text("reason"),
        Column::text("message"),
    ]);
    for event in &history.events {
        table.row([
            look.age(event.at),
            event.at.to_string(),
            event.event.clone(),
            or_dash(event.position),
            or_dash(event.name.as_ref()),
            or_dash(event.attempt),
            or_dash(event.epoch),
            or_dash(event.worker_id.as_ref().map(|worker| look.id(worker))),
            or_dash(event.reason.as_ref()),
            or_dash(event.message.as_deref().map(|message| cut(&look.id(message)))),
        ]);
    }
    table
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
        assert_eq!(cut(&long), format!("{}…", "é".repeat(OUTPUT_CHARS_MAX)));
        assert_eq!(cut("short"), "short");
    }
}
