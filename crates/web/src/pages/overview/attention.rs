//! What needs somebody, worst first.

use baton_proto::{Attention, Finding};
use maud::{Markup, html};

use crate::format;
use crate::parts::{self, icon};
use crate::view::View;

/// Findings that are shown at once.
const SHOWN: usize = 8;

/// The panel.
pub fn panel(view: &View, attention: &Attention) -> Markup {
    let count = attention.findings.len() as u64 + attention.more;
    html! {
        section.panel id="wrong" aria-labelledby="wrong-title" {
            header {
                h2 id="wrong-title" { "Needs attention" }
                @if count > 0 {
                    span.count { (format::number(count)) }
                    span.end.dim.sm { "everything else is as it should be" }
                }
            }
            @if attention.findings.is_empty() {
                div.body {
                    p.row {
                        span.c-ok { (icon("ok")) }
                        span {
                            "Nothing needs attention. "
                            @match attention.last_failure_at {
                                Some(at) => { "Last failure " (parts::ago(view, at.0)) " ago." }
                                None => "No run has failed in the last day."
                            }
                        }
                    }
                }
            } @else {
                ul.alerts { @for finding in attention.findings.iter().take(SHOWN) { (line(view, finding)) } }
                @if attention.findings.len() > SHOWN {
                    details {
                        summary { (format::number(count - SHOWN as u64)) " more" }
                        ul.alerts { @for finding in &attention.findings[SHOWN..] { (line(view, finding)) } }
                    }
                }
            }
        }
    }
}

fn line(view: &View, finding: &Finding) -> Markup {
    let (tone, name) = match (finding.severity.as_str(), finding.code.as_str()) {
        ("fail", _) => ("c-bad", "bad"),
        (_, "queue_paused") => ("c-warn", "pause"),
        (_, "worker_silent" | "schedule_late") => ("c-warn", "later"),
        (_, _) => ("c-warn", "held"),
    };
    html! {
        li {
            span class=(tone) { (icon(name)) }
            span.what dir="auto" { b { (format::visible(&finding.subject)) ":" } " " (format::visible(&finding.message)) }
            span.dim.sm.nowrap { @if let Some(at) = finding.since { (parts::ago(view, at.0 - at.0.rem_euclid(1_000))) } }
            @if let Some(link) = &finding.link { a.btn.small href=(view.href(link)) { (go(&finding.code)) } }
            @else { span {} }
        }
    }
}

/// What stands on the button.
fn go(code: &str) -> &'static str {
    match code.split('_').next() {
        Some("type" | "queue" | "namespace") => "See queue",
        Some("worker") => "See worker",
        Some("pool") => "See pool",
        Some("schedule") => "See schedule",
        Some("webhook") => "See webhook",
        _ => "See",
    }
}
