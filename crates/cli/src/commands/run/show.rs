//! How runs look to people.

use baton::proto::{Explanation, History, HistoryEvent, RunPage, RunView};

use crate::output::{Column, Look, Table, harmless, or_dash};

/// A list of runs.
pub fn page(page: &RunPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("id"),
        Column::namespace(page.runs.iter().map(|run| run.namespace.as_str())),
        Column::name("queue"),
        Column::name("type"),
        Column::state("state"),
        Column::text("reason"),
        Column::number("epoch").extra(),
        Column::number("priority").extra(),
        Column::age("age"),
        Column::age("ended"),
        Column::id("worker"),
        Column::name("key").extra(),
        Column::text("error").extra(),
    ]);
    for run in &page.runs {
        table.row([
            look.id(&run.id),
            run.namespace.clone(),
            run.queue.clone(),
            run.kind.clone(),
            run.state.as_str().to_owned(),
            or_dash(run.reason.map(|reason| reason.as_str())),
            run.epoch.to_string(),
            run.priority.to_string(),
            look.age(run.submitted_at),
            or_dash(run.ended_at.map(|at| look.age(at))),
            or_dash(run.worker_id.as_ref().map(|worker| look.id(worker))),
            or_dash(run.key.as_ref()),
            or_dash(run.error.as_ref()),
        ]);
    }
    table
}

/// One run with everything that is known of it.
pub fn run(run: &RunView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("id", Some(&run.id));
    table.field("namespace", Some(&run.namespace));
    table.field("queue", Some(&run.queue));
    table.field("type", Some(&run.kind));
    table.field("state", Some(run.state.as_str()));
    table.field("reason", run.reason.map(|reason| reason.as_str()));
    table.field("error", run.error.as_ref());
    table.field("epoch", Some(run.epoch));
    table.field("failures", Some(run.failures));
    table.field("losses", Some(run.losses));
    table.field("priority", Some(run.priority));
    table.field("key", run.key.as_ref());
    table.field("affinity", run.affinity.as_ref());
    table.field("retry of", run.retry_of.as_ref());
    table.field("worker", run.worker_id.as_ref());
    table.field("trace", run.trace_id.as_ref());
    table.field("submitted", Some(look.moment(run.submitted_at)));
    table.field("due", Some(look.moment(run.due_at)));
    table.field("claimed", run.claimed_at.map(|at| look.moment(at)));
    table.field("started", run.started_at.map(|at| look.moment(at)));
    table.field("ended", run.ended_at.map(|at| look.moment(at)));
    table.field(
        "cancel by",
        run.cancel_by.map(|by| format!("{by} (it was asked for; its worker has until then to stop)")),
    );
    table.field("input", run.input.as_ref().map(|input| input.get()));
    table.field("output", run.output.as_ref().map(|output| output.get()));
    table.render(look)
}

/// What happened to a run.
pub fn history(history: &History, look: Look) -> Table {
    let mut table = Table::of([
        Column::age("age"),
        Column::name("at").extra(),
        Column::name("event"),
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
            or_dash(event.epoch),
            or_dash(event.worker_id.as_ref().map(|worker| look.id(worker))),
            or_dash(event.reason.as_ref()),
            or_dash(event.message.as_ref()),
        ]);
    }
    table
}

/// One thing that happened, as a line of its own.
pub fn event(event: &HistoryEvent) -> String {
    let mut line = format!("{}  {}", event.at, event.event);
    if let Some(epoch) = event.epoch {
        line.push_str(&format!("  epoch {epoch}"));
    }
    for part in [&event.worker_id, &event.reason, &event.message].into_iter().flatten() {
        line.push_str(&format!("  {part}"));
    }
    harmless::lines(&line)
}

/// Why a run is where it is.
pub fn explanation(explanation: &Explanation, look: Look) -> String {
    let mut text = format!("{}: {}\n", explanation.state.as_str(), explanation.summary);
    // The summary often is the first reason in the same words.
    for reason in explanation.reasons.iter().filter(|reason| reason.message != explanation.summary) {
        text.push_str(&format!("  - {} ({})\n", reason.message, reason.code));
    }
    if let Some(position) = explanation.position {
        text.push_str(&format!("  before it: {position}\n"));
    }
    if let Some(holder) = &explanation.holder {
        text.push_str(&format!(
            "  held by {} ({}), epoch {}, lease until {}\n",
            holder.worker_name,
            holder.worker_id,
            holder.epoch,
            look.moment(holder.lease_until)
        ));
    }
    text
}

/// How a run ended that did not complete.
pub fn end(run: &RunView) -> String {
    let reason = run.reason.map(|reason| format!(" ({})", reason.as_str())).unwrap_or_default();
    let error = run.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    format!("the run {} {}{reason}{error}", run.id, run.state.as_str())
}
