//! Why a run is not done, in one sentence; and what would help.

use baton_core::{Millis, Reason, State};
use baton_proto::WaitReason;
use baton_server::service::explain;
use baton_server::service::lists::Phase;
use baton_server::service::sheet::{Nature, Sheet};
use baton_server::{Error, Scope};
use maud::{Markup, html};

use super::actions::{self, Act};
use super::{run_link, state};
use crate::format::{self, Precision};
use crate::parts::{self, icon};
use crate::query::escape;
use crate::view::View;

/// Due dates from here on mean that only a message wakes a workflow.
const FOR_GOOD: Millis = 253_402_300_799_000;

/// What is said, and how it looks.
struct Said {
    /// `bad`, `warn`, `run`, `ok`, `off` or nothing.
    tone: &'static str,
    icon: &'static str,
    sentence: Markup,
    others: Vec<Markup>,
    helps: Markup,
}

/// The banner.
pub async fn section(view: &View, sheet: &Sheet) -> Result<Markup, Error> {
    let said = match state(view, sheet) {
        Phase::Completed | Phase::Failed | Phase::Cancelled => ended(view, sheet),
        Phase::Starting | Phase::Running | Phase::Cancelling => held(view, sheet),
        Phase::Waiting | Phase::Later | Phase::Sleeping => {
            let explanation = explain::one(&view.app, &view.caller, sheet.run()).await?;
            waiting(view, sheet, &explanation.reasons)
        }
    };
    let class = if said.tone.is_empty() { "explain".to_owned() } else { format!("explain {}", said.tone) };
    let colour = match (said.tone, state(view, sheet)) {
        ("ok", _) => "c-ok",
        ("off", _) => "c-wait",
        ("", Phase::Sleeping) => "c-sleep",
        ("", _) => "c-wait",
        ("bad", _) => "c-bad",
        ("warn", _) => "c-warn",
        (_, _) => "c-run",
    };
    Ok(html! {
        section class=(class) id="run-why" aria-label="How it stands, and why" {
            span class=(colour) { (icon(said.icon)) }
            p { (said.sentence) }
            span.btns.row { (said.helps) }
            @if !said.others.is_empty() { ul { @for other in &said.others { li { (other) } } } }
        }
    })
}

fn ended(view: &View, sheet: &Sheet) -> Said {
    let record = &sheet.record;
    let end = record.ended_at.unwrap_or(record.submitted_at);
    let took = html! { b.b { (format::duration(end - record.submitted_at)) } };
    let when = parts::clock(view, end, Precision::Seconds);
    let tries = record.epoch.number();
    match state(view, sheet) {
        Phase::Failed => {
            let why = match record.reason {
                Some(Reason::WorkerLost) => "its worker was lost, and it may not be tried again",
                Some(Reason::Timeout) => "it took longer than it may",
                Some(Reason::Rejected) => "its worker rejected it, so another try would not help",
                Some(Reason::Poison) => "it lost as many workers as it may: perhaps it is what kills them",
                Some(Reason::Cancelled) => "it was cancelled",
                Some(Reason::Error) | None => "the work itself said so",
            };
            let message = record.error.as_deref().map(|error| format::first_line(error, 240));
            Said {
                tone: "bad",
                icon: "bad",
                sentence: html! {
                    "It failed at " (when) " after " (took)
                    @if tries > 1 { " and " (format::counted(u64::from(tries), "lease", "leases")) }
                    ": " (why) "."
                },
                others: message.into_iter().map(|text| html! { code dir="auto" { (text) } }).collect(),
                helps: actions::button(view, sheet, Act::Retry, true),
            }
        }
        Phase::Cancelled => Said {
            tone: "off",
            icon: "off",
            sentence: html! { "It was cancelled at " (when) ", " (took) " after it was submitted." },
            others: record
                .error
                .iter()
                .map(|text| html! { span dir="auto" { (format::first_line(text, 240)) } })
                .collect(),
            helps: html! {},
        },
        _ => {
            let next = match &sheet.nature {
                Nature::Workflow(relations) => relations.continued_to,
                Nature::Plain | Nature::Build(_) => None,
            };
            Said {
                tone: "ok",
                icon: "ok",
                sentence: html! {
                    "It completed at " (when) ", " (took) " after it was submitted."
                    @if let Some(next) = next { " It goes on as " (run_link(view, next)) "." }
                },
                others: match tries {
                    0 | 1 => vec![],
                    tries => vec![html! { "It took " (tries) " leases." }],
                },
                helps: html! {},
            }
        }
    }
}

fn held(view: &View, sheet: &Sheet) -> Said {
    let record = &sheet.record;
    let worker = sheet.worker.as_ref();
    let name = worker.map_or("A worker", |worker| worker.name.as_str());
    let until = record.lease_until.or(worker.map(|worker| worker.lease_until));
    let ttl = worker.map_or(15_000, |worker| worker.lease_until - worker.seen_at);
    let who = html! { b.b dir="auto" { (format::visible(name)) } };
    let lease = html! { @if let Some(until) = until { (parts::lease(view, until, ttl)) } };
    let epoch = parts::epoch(record.epoch.number());
    let sentence = match (state(view, sheet), record.cancel_by) {
        (Phase::Cancelling, Some(by)) => html! {
            "Somebody asked to cancel it. " (who) " has it with " (epoch) " and has until "
            b.b { (parts::clock(view, by, Precision::Seconds)) } " to stop."
        },
        (Phase::Starting, _) => html! {
            (who) " was handed it with " (epoch) " and has not begun yet. It is handed to another one unless the lease is renewed " (lease)
        },
        _ => html! { (who) " works on it with " (epoch) " and renews its lease " (lease) },
    };
    let mut others = Vec::new();
    if record.losses > 0 {
        let lost = format::counted(u64::from(record.losses), "worker", "workers");
        others.push(html! { "it has lost " (lost) " of at most " (record.options.max_losses) });
    }
    if record.failures > 0 {
        let failed = format::counted(u64::from(record.failures), "try", "tries");
        others.push(html! {
            (failed) " failed before"
            @if let Some(error) = &record.error { ": " code dir="auto" { (format::first_line(error, 160)) } }
        });
    }
    Said { tone: "run", icon: "run", sentence, others, helps: html! {} }
}

fn waiting(view: &View, sheet: &Sheet, reasons: &[WaitReason]) -> Said {
    let record = &sheet.record;
    let mut said = Vec::new();
    for reason in reasons {
        said.push(words(view, sheet, reason));
    }
    let first = reasons.first().map_or("", |reason| reason.code.as_str());
    let (tone, icon) = match first {
        "no_worker" => ("bad", "worker"),
        "queue_paused" | "namespace_disabled" => ("warn", "pause"),
        "message" | "signal_not_taken" => ("", "signal"),
        "child" => ("", "child"),
        "due_later" if record.state == State::Sleeping => ("", "sleep"),
        "due_later" | "step_retry" => ("", "later"),
        _ => ("", "wait"),
    };
    let mut said = said.into_iter();
    let sentence = said.next().unwrap_or_else(|| html! { "Nothing keeps it: a worker should take it at any moment." });
    let mut others: Vec<Markup> = said.collect();
    if let Some(error) = record.error.as_ref().filter(|_| record.failures > 0) {
        others.push(html! { "The last try failed: " code dir="auto" { (format::first_line(error, 240)) } });
    }
    let queue = view.href(&format!("/queues/{}", escape(&sheet.lane.queue)));
    let helps = match first {
        "no_worker" => html! { a.btn.primary href=(queue) { "Who could take it" } },
        "queue_paused" | "rate_limit" if view.may(Scope::Admin) => {
            html! { a.btn.primary href=(queue) { "To the queue" } }
        }
        "message" | "signal_not_taken" => actions::button(view, sheet, Act::Signal, true),
        _ => html! {},
    };
    Said { tone, icon, sentence, others, helps }
}

/// A reason in words whose times tick in the page.
fn words(view: &View, sheet: &Sheet, reason: &WaitReason) -> Markup {
    let record = &sheet.record;
    let due = record.due_at;
    match reason.code.as_str() {
        "due_later" if due < FOR_GOOD => {
            let what = match (record.state, record.failures) {
                (State::Sleeping, _) => "It sleeps until",
                (_, 0) => "It is due at",
                _ => "Its next try is due at",
            };
            html! {
                (what) " " b.b { (parts::clock(view, due, Precision::Seconds)) } " " span.dim { (parts::ago(view, due)) }
                ". No worker is needed until then"
                // Which signal it would take is the workflow's own secret.
                @if record.state == State::Sleeping && sheet.relations().is_some() {
                    ", unless a signal or the end of a child wakes it"
                }
                "."
            }
        }
        "message" => html! {
            "It sleeps until a message comes: a signal, or the end of a child. No worker is needed meanwhile."
        },
        _ => html! { span dir="auto" { (format::visible(&reason.message)) } },
    }
}
