//! All that happened to a run, in words.

use baton_core::{LeaseEnd, Millis, State};
use baton_server::Error;
use baton_server::service::sheet::{About, Lease, Sheet};
use maud::{Markup, html};

use super::address;
use crate::format::{self, Precision};
use crate::parts::{self, icon};
use crate::view::View;

/// Events on a page.
const SHOWN_MAX: usize = 100;

/// Something that happened.
struct Event {
    at: Millis,
    icon: &'static str,
    tone: &'static str,
    epoch: Option<u32>,
    words: Markup,
}

/// The panel, newest first; `?history=` skips so many.
pub async fn section(view: &View, sheet: &Sheet, leases: &[Lease]) -> Result<Markup, Error> {
    let mut events = vec![submitted(view, sheet)];
    for (index, lease) in leases.iter().enumerate() {
        of_lease(view, lease, index.checked_sub(1).and_then(|before| leases.get(before)), &mut events);
    }
    for came in sheet.messages(&view.app).await? {
        let (icon, words) = match came.about {
            About::Signal(name) => ("signal", html! { "The signal " (parts::code(&name)) " came." }),
            About::Child(run, state) => (
                "child",
                html! {
                    "Its child " (child(view, &run)) " ended"
                    @if let Some(state) = state { " as " (state.as_str()) } "."
                },
            ),
            About::Cancel => ("stop", html! { "Somebody asked to cancel it." }),
        };
        events.push(Event { at: came.at, icon, tone: "sleep", epoch: None, words });
    }
    events.extend(end(sheet));
    // Events of one millisecond stay in the order they were listed in.
    events.sort_by_key(|event| event.at);
    let count = events.len();
    let skipped = view.query.get("history").and_then(|text| text.parse::<usize>().ok()).unwrap_or(0).min(count);
    let shown: Vec<Event> = events.into_iter().rev().skip(skipped).take(SHOWN_MAX).collect();
    let rest = count - skipped - shown.len();
    Ok(html! {
        section.panel id="history" aria-labelledby="history-title" {
            header {
                h2 id="history-title" { "History" }
                span.count { (format::counted(count as u64, "event", "events")) ", newest first" }
            }
            div.scroll-x {
                table {
                    thead { tr { th.w-l.num { "When" } th.w-s { "Epoch" } th { "What happened" } } }
                    tbody {
                        @for event in &shown {
                            tr {
                                td.num { (parts::clock(view, event.at, Precision::Tenths)) }
                                td { @if let Some(epoch) = event.epoch { (parts::epoch(epoch)) } }
                                td { span.row { span class={ "c-" (event.tone) } { (icon(event.icon)) } span { (event.words) } } }
                            }
                        }
                    }
                }
            }
            @if skipped > 0 || rest > 0 {
                footer.row {
                    @if skipped > 0 { a.link href={ (view.here_with("history", "")) "#history" } { "Newest" } }
                    @if rest > 0 {
                        a.link href={ (view.here_with("history", &(skipped + shown.len()).to_string())) "#history" } {
                            (format::counted(rest as u64, "older event", "older events"))
                        }
                    }
                }
            }
        }
    })
}

fn child(view: &View, run: &str) -> Markup {
    match run.parse() {
        Ok(id) => html! { a.link.id href=(address(view, id)) { (format::short_id(run)) } },
        Err(_) => html! { span.id { (format::short_id(run)) } },
    }
}

fn submitted(view: &View, sheet: &Sheet) -> Event {
    let record = &sheet.record;
    let words = html! {
        "It was submitted to the queue " (parts::code(&sheet.lane.queue))
        @if let Some(run) = record.retry_of { " to repeat " (super::run_link(view, run)) } "."
    };
    Event { at: record.submitted_at, icon: "list", tone: "wait", epoch: None, words }
}

/// Its end, or what will be.
fn end(sheet: &Sheet) -> Vec<Event> {
    let record = &sheet.record;
    let plain = |at, icon, tone, words| Event { at, icon, tone, epoch: None, words };
    let mut events = Vec::new();
    if let Some(by) = record.cancel_by.filter(|_| record.state.is_held()) {
        // When somebody asked is not kept.
        events.push(plain(by, "stop", "run", html! { "Somebody asked to cancel it: its worker has to stop by then." }));
    }
    if let Some(at) = record.ended_at {
        let (icon, tone, word) = match record.state {
            State::Failed => ("bad", "bad", "failed"),
            State::Cancelled => ("off", "wait", "was cancelled"),
            _ => ("ok", "ok", "completed"),
        };
        let message = record.error.as_deref().filter(|_| record.state != State::Completed);
        events.push(plain(at, icon, tone, html! {
            "It " (word)
            @if let Some(reason) = record.reason { " (" (reason.as_str()) ")" }
            @if let Some(message) = message { ": " span dir="auto" { (format::first_line(message, 300)) } } @else { "." }
        }));
    }
    events
}

fn of_lease(view: &View, lease: &Lease, before: Option<&Lease>, events: &mut Vec<Event>) {
    let event = |at, icon, tone, words| Event { at, icon, tone, epoch: Some(lease.epoch), words };
    let who = html! {
        @match (&lease.worker, &lease.worker_name) {
            (Some(id), Some(name)) => {
                a.link dir="auto" href=(view.href(&format!("/workers/{id}"))) { (format::visible(name)) }
            },
            (Some(id), None) => { "the worker " span.id title=(id) { (format::short_id(&id.to_string())) } },
            (None, _) => { "a worker" }
        }
    };
    // A worker that gets it after another one goes on with what that one had begun.
    let other = before.filter(|before| before.worker != lease.worker).and_then(|before| before.worker_name.as_deref());
    let (icon, tone) = if before.is_some() { ("hand", "warn") } else { ("start", "run") };
    events.push(event(
        lease.claimed_at,
        icon,
        tone,
        html! {
            "Handed to " (who)
            @if let Some(other) = other { ", after " span dir="auto" { (format::visible(other)) } } "."
        },
    ));
    if let Some(at) = lease.started_at {
        events.push(event(at, "run", "run", html! { "Work began." }));
    }
    let Some((at, end)) = lease.ended else { return };
    let held = format::duration(at - lease.claimed_at);
    let (icon, tone, words) = match end {
        LeaseEnd::Completed => ("ok", "ok", "The worker completed it"),
        LeaseEnd::Failed => ("bad", "bad", "The try failed"),
        LeaseEnd::GivenBack => ("later", "wait", "It was given back unfinished"),
        LeaseEnd::Slept => ("sleep", "sleep", "It went to sleep"),
        LeaseEnd::Lost => ("bad", "bad", "The worker was silent until its lease ended"),
        LeaseEnd::TimedOut => ("bad", "bad", "The try took longer than it may"),
        LeaseEnd::Cancelled => ("off", "wait", "The lease ended because the run was cancelled"),
    };
    events.push(event(
        at,
        icon,
        tone,
        html! {
            (words) " after " (held)
            @if let Some(error) = lease.error.as_deref().filter(|error| !error.is_empty()) {
                ": " span dir="auto" { (format::first_line(error, 300)) }
            } @else { "." }
        },
    ));
}
