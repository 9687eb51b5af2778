//! `/audit`: who did what, and what was refused.

use baton_core::Millis;
use baton_proto::AuditLine;
use baton_server::service::audit::{self, AuditFilter, LINES_LOOKED_AT_MAX};
use baton_server::{Error, Page as Rows};
use maud::{Markup, html};

use crate::format::{self, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, ROWS_MAX};
use crate::view::View;

/// The filters of the page.
const FIELDS: [&str; 5] = ["who", "what", "q", "of", "since"];
/// Subjects of acts, as they are offered.
const SUBJECTS: [(&str, &str); 17] = [
    ("", "anything"),
    ("refused", "what was refused"),
    ("key", "keys"),
    ("namespace", "namespaces"),
    ("setting", "settings"),
    ("webhook", "webhooks"),
    ("schedule", "schedules"),
    ("pool", "pools"),
    ("runner", "machines of pools"),
    ("queue", "queues"),
    ("worker", "workers"),
    ("builder", "builders"),
    ("run", "runs"),
    ("workflow", "workflows"),
    ("bulk", "bulk operations"),
    ("secret", "the master key"),
    ("storage", "storage"),
];
/// How far back one looks, as it is offered.
const SPANS: [(&str, &str); 6] = [
    ("", "any time"),
    ("1h", "the last hour"),
    ("1d", "the last day"),
    ("7d", "the last 7 days"),
    ("30d", "the last 30 days"),
    ("90d", "the last 90 days"),
];

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let query = &view.query;
    let filter = AuditFilter {
        actor: query.get("who").map(str::to_owned),
        action: query.get("what").map(str::to_owned),
        text: query.get("q").map(str::to_owned),
        namespace: query.get("of").map(str::to_owned),
        since: query.get("since").and_then(span).map(|ms| view.now.saturating_sub(ms)),
    };
    let rows = Rows { after: query.get("after").and_then(|after| after.parse().ok()), limit: ROWS_MAX };
    let found = audit::find(&view.app, &view.caller, &filter, rows).await?;
    let next = found.next.map(|next| next.to_string());
    let looked = format!("{} lines were looked at", format::number(LINES_LOOKED_AT_MAX as u64));
    let main = html! {
        div.stack {
            p.lead { "Every administrative act, and everything that was refused for want of a better key. Lines are kept for "
                (format::duration(i64::try_from(view.app.current().retention_audit_ms).unwrap_or(Millis::MAX))) "." }
            section.panel aria-label="Audit log" {
                (parts::filters(view, &FIELDS, html! {
                    (parts::filter_text(query, "who", "Who: the id of a key"))
                    (choice(query.get("what").unwrap_or_default(), query))
                    (parts::filter_text(query, "q", "On what, or a word of the details"))
                    (parts::filter_text(query, "of", "Namespace"))
                    (parts::filter_choice(query, "since", "Since", &SPANS))
                }))
                (part("audit-list", &table(view, &found.lines, found.is_cut)))
                @if found.is_cut {
                    p.body.soft { (looked) "; older ones may fit, too: the next page looks further." }
                }
                (parts::pager(view, next.as_deref()))
            }
        }
    };
    Ok(Page::new(Entry::Audit, "Audit", main))
}

/// The choice of what was done; an exact act, from a link, is one more.
fn choice(chosen: &str, query: &crate::query::Query) -> Markup {
    let mut choices = SUBJECTS.to_vec();
    if SUBJECTS.iter().all(|(value, _)| *value != chosen) {
        choices.push((chosen, chosen));
    }
    parts::filter_choice(query, "what", "What", &choices)
}

/// A span of the filter in milliseconds: `1h`, `7d`.
fn span(text: &str) -> Option<Millis> {
    let unit = match text.chars().last()? {
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return None,
    };
    text[..text.len() - 1].parse::<Millis>().ok().filter(|count| *count > 0)?.checked_mul(unit)
}

fn table(view: &View, lines: &[AuditLine], is_cut: bool) -> Markup {
    html! {
        div.scroll-x id="audit-list" {
            @if lines.is_empty() {
                (parts::empty("audit", if is_cut { "Nothing so far." } else { "No line is like this." },
                    html! { p.soft { "Acts of administrators and refusals are written here by themselves." } }))
            } @else {
                table {
                    thead { tr { th { "When" } th { "Who" } th { "What" } th { "On" } th { "Namespace" } th { "Details" } } }
                    tbody { @for line in lines { (row(view, line)) } }
                }
            }
        }
    }
}

fn row(view: &View, line: &AuditLine) -> Markup {
    let with = |name: &str, value: &str| view.here_with(name, value);
    let is_refusal = line.action.contains("refuse");
    html! {
        tr data-row data-key=(line.id) {
            td.nowrap { (parts::clock(view, line.at.0, Precision::Seconds)) }
            td { a.id href=(with("who", &line.actor)) dir="auto" { (format::visible(&line.actor)) } }
            td { a.b.c-bad[is_refusal] href=(with("what", &line.action)) { (format::visible(&line.action)) } }
            td { span.cut dir="auto" title=(format::visible(&line.subject)) { (format::first_line(&line.subject, 60)) } }
            td { @if let Some(namespace) = &line.namespace { a.cut href=(with("of", namespace)) dir="auto" { (format::visible(namespace)) } } @else { span.dim { (format::MISSING) } } }
            td { (details(line)) }
        }
    }
}

/// The rest of a line, folded when it is long.
fn details(line: &AuditLine) -> Markup {
    let short = format::first_line(&line.detail, 80);
    html! {
        details {
            summary { span dir="auto" { @if line.detail.is_empty() { span.dim { "more" } } @else { (short) } } }
            dl.kv {
                @if !line.detail.is_empty() { dt { "Details" } dd { (text(&line.detail)) } }
                dt { "On" } dd dir="auto" { (format::visible(&line.subject)) }
                dt { "Address" } dd { (line.address.as_deref().unwrap_or(format::MISSING)) }
                dt { "Request" } dd { code { (format::visible(line.request_id.as_deref().unwrap_or(format::MISSING))) } }
                dt { "Line" } dd { (line.id) }
            }
        }
    }
}

fn text(detail: &str) -> Markup {
    match detail.starts_with(['{', '[']) {
        true => parts::json_block(detail),
        false => html! { span dir="auto" { (format::visible(detail)) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_hours_and_days() {
        for (text, ms) in
            [("1h", Some(3_600_000)), ("7d", Some(604_800_000)), ("", None), ("d", None), ("-1d", None), ("9ä", None)]
        {
            assert_eq!(span(text), ms, "{text}");
        }
        assert_eq!(span("99999999999999999d"), None);
    }
}
