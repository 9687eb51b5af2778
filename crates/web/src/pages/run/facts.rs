//! What is known of a run in short: where it is, who had it, when, and how often.

use baton_core::{Millis, State};
use baton_server::service::sheet::{Lease, Nature, Sheet};
use maud::{Markup, html};

use super::{address, run_link};
use crate::format::{self, Precision};
use crate::parts;
use crate::query::escape;
use crate::view::View;

/// The panel.
pub fn section(view: &View, sheet: &Sheet, leases: &[Lease]) -> Markup {
    let record = &sheet.record;
    let options = &record.options;
    let (kind, _) = sheet.kind();
    html! {
        section.panel id="run-facts" aria-label="Facts" {
            div.body {
                dl.facts {
                    (fact("Queue", html! {
                        a.link dir="auto" href=(view.href(&format!("/queues/{}", escape(&sheet.lane.queue)))) {
                            (format::visible(&sheet.lane.queue))
                        }
                    }))
                    (fact("Type", html! {
                        a.link dir="auto" href=(parts::runs(view, &[("type", kind)])) { (format::visible(kind)) }
                    }))
                    (held_by(view, sheet))
                    (fact("Submitted", moment(view, record.submitted_at)))
                    @if record.due_at != record.submitted_at && record.state == State::Pending {
                        (fact(if record.failures > 0 { "Next try" } else { "Due" }, moment(view, record.due_at)))
                    }
                    @if let Some(started) = leases.iter().find_map(|lease| lease.started_at) {
                        (fact("Started", moment(view, started)))
                    }
                    @if let Some(ended) = record.ended_at { (fact("Ended", moment(view, ended))) }
                    (fact("Held / waited", held_and_waited(view, sheet, leases)))
                    (fact("Tries", html! {
                        (tries(sheet, leases)) " of " (options.retry.max_attempts)
                        @if record.failures > 0 { span.dim { ", " (record.failures) " failed" } }
                        @if record.losses > 0 {
                            span.dim { ", " (format::counted(u64::from(record.losses), "worker", "workers")) " lost" }
                        }
                    }))
                    (fact("Priority", html! { (record.priority) }))
                    @if let Some(deadline) = sheet.deadline().filter(|_| !record.state.is_ended()) {
                        (fact("Deadline", moment(view, deadline)))
                    }
                    @if let Some(timeout) = record.timeout_at.filter(|_| record.state.is_held()) {
                        (fact("This try ends", moment(view, timeout)))
                    }
                    @if let Some(key) = &record.key {
                        (fact("Key", html! {
                            a.tag.cut dir="auto" href=(parts::runs(view, &[("key", key)])) { (format::visible(key)) }
                        }))
                    }
                    @if let Some(affinity) = record.affinity.as_ref().filter(|affinity| record.key.as_ref() != Some(affinity)) {
                        (fact("Prefers the worker of", html! { span.tag.cut dir="auto" { (format::visible(affinity)) } }))
                    }
                    @if let Some(run) = record.retry_of { (fact("Retry of", run_link(view, run))) }
                    @if let Nature::Workflow(relations) = &sheet.nature {
                        @if let Some(parent) = relations.parent { (fact("Parent", run_link(view, parent))) }
                        @if let Some(next) = relations.continued_to {
                            (fact("Goes on as", html! { a.link href=(address(view, next)) { "its next run" } " " (run_link(view, next)) }))
                        }
                    }
                    @if let Some(trace) = &record.trace {
                        (fact("Trace", html! {
                            span.row {
                                span.id title=(trace.trace_id) { (format::title_id(&trace.trace_id.to_string())) }
                                button.btn.small.icon.ghost type="button" data-do="copy" data-text=(trace.trace_id)
                                    aria-label="Copy the trace id" { (parts::icon("copy")) }
                            }
                        }))
                    }
                }
            }
        }
    }
}

/// How often it was tried. What a worker lost, gave back or put to sleep is the same try.
fn tries(sheet: &Sheet, leases: &[Lease]) -> u32 {
    if leases.is_empty() {
        return 0;
    }
    let record = &sheet.record;
    let goes_on = u32::from(!matches!(record.state, State::Failed | State::Pending) || record.failures == 0);
    (record.failures + goes_on).max(1)
}

fn fact(name: &str, value: Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn moment(view: &View, at: Millis) -> Markup {
    html! { (parts::clock(view, at, Precision::Seconds)) " " span.dim { (parts::ago(view, at)) } }
}

fn held_by(view: &View, sheet: &Sheet) -> Markup {
    let record = &sheet.record;
    let epoch = record.epoch.number();
    if epoch == 0 {
        return fact("Held by", html! { "nobody yet" });
    }
    let worker = sheet.worker.as_ref();
    let link = |name: &str| {
        html! {
            @match record.worker {
                Some(id) => a.link dir="auto" href=(view.href(&format!("/workers/{id}"))) { (format::visible(name)) },
                None => span dir="auto" { (format::visible(name)) }
            }
        }
    };
    let name = worker.map_or("a worker that is gone", |worker| worker.name.as_str());
    match record.state.is_held() {
        true => {
            let until = record.lease_until.or(worker.map(|worker| worker.lease_until));
            let ttl = worker.map_or(15_000, |worker| worker.lease_until - worker.seen_at);
            fact(
                "Held by",
                html! {
                    span.row {
                        (link(name)) (parts::epoch(epoch))
                        @if let Some(until) = until { (parts::lease(view, until, ttl)) }
                    }
                },
            )
        }
        false if record.state.is_ended() => fact(
            "Held last by",
            html! {
                @if record.worker.is_some() { (link(name)) " " } @else { "nobody " }
                (parts::epoch(epoch))
            },
        ),
        false => fact("Held by", html! { "nobody, " (parts::epoch(epoch)) " ended" }),
    }
}

/// How long somebody had it, and how long nobody.
fn held_and_waited(view: &View, sheet: &Sheet, leases: &[Lease]) -> Markup {
    let done: Millis = leases.iter().filter_map(|lease| Some(lease.ended?.0 - lease.claimed_at)).sum();
    let open = leases.iter().find(|lease| lease.ended.is_none()).map(|lease| lease.claimed_at);
    let record = &sheet.record;
    let held = html! {
        // What is held now ticks as if it had begun that much earlier.
        @match open {
            Some(since) => (parts::span(view, since - done, None)),
            None => (format::duration(done))
        }
    };
    let waited = match (record.ended_at, open) {
        (Some(end), _) => html! { (format::duration(end - record.submitted_at - done)) },
        (None, Some(since)) => html! { (format::duration(since - record.submitted_at - done)) },
        (None, None) => parts::span(view, record.submitted_at + done, None),
    };
    html! { (held) " / " (waited) }
}
