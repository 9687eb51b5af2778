//! `/webhooks`: who is told of events by calls, and whether the calls arrive. `/webhooks/{id}` has the deliveries of one.

mod forms;
mod one;

use baton_proto::{WebhookAttempt, WebhookDelivery, WebhookFilter, WebhookView};
use baton_server::service::webhooks::{self, deliveries};
use baton_server::{Error, Page as Rows, Scope};
use maud::{Markup, html};

use crate::ask;
use crate::format::{self, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, ROWS_MAX, icon};
use crate::view::View;

pub use forms::forms;
pub use one::page as one;

/// How many attempts a row of the list shows.
const ATTEMPTS_SHOWN: usize = 20;
/// Fewer webhooks than this on a page have their last attempts shown: each costs a query.
const STRIPS_MAX: usize = 20;

/// True when the caller may change webhooks like this one: those of all namespaces belong to administrators of everything.
fn may_change(view: &View) -> bool {
    view.caller.can(Scope::Admin)
}

/// The list.
pub async fn page(view: &View) -> Result<Page, Error> {
    let after = view.query.get("after").and_then(|after| after.parse().ok());
    let rows = Rows { after, limit: ROWS_MAX };
    let shown = webhooks::list(&view.app, &view.caller, None, rows).await?;
    let next = shown.last().filter(|_| shown.len() == ROWS_MAX).map(|last| last.id.as_str());
    let mut strips = Vec::with_capacity(shown.len());
    for webhook in &shown {
        let rows = Rows { after: None, limit: ATTEMPTS_SHOWN };
        strips.push(match may_change(view) && shown.len() <= STRIPS_MAX {
            true => deliveries::list(&view.app, &view.caller, &webhook.id, None, rows).await?,
            false => Vec::new(),
        });
    }
    let main = html! {
        div.stack {
            div.page-head {
                p.lead { (said(&shown)) }
                @if may_change(view) { div.end { (ask::link(view, "primary", "/form/webhooks/new", "New webhook")) } }
            }
            section.panel aria-label="Webhooks" {
                (part("webhooks-list", &list(view, &shown, &strips)))
                (parts::pager(view, next))
            }
        }
    };
    Ok(Page::new(Entry::Webhooks, "Webhooks", main))
}

fn said(shown: &[WebhookView]) -> String {
    let failing = shown.iter().filter(|webhook| webhook.failing_since.is_some()).count();
    let disabled = shown.iter().filter(|webhook| webhook.state == "disabled").count();
    match (shown.len(), failing, disabled) {
        (0, _, _) => "Nobody is told of events by calls.".to_owned(),
        (all, 0, 0) => format!("{}; all calls arrive.", format::counted(all as u64, "webhook", "webhooks")),
        (all, failing, disabled) => format!(
            "{}; {failing} of them {} not reached now, {disabled} {} been disabled for it.",
            format::counted(all as u64, "webhook", "webhooks"),
            if failing == 1 { "is" } else { "are" },
            if disabled == 1 { "has" } else { "have" },
        ),
    }
}

fn list(view: &View, shown: &[WebhookView], strips: &[Vec<WebhookDelivery>]) -> Markup {
    html! {
        div.scroll-x id="webhooks-list" {
            @if shown.is_empty() {
                (parts::empty("signal", "No webhook yet.", html! {
                    p.soft { "A webhook is called when a run ends, a worker is lost, a schedule fires, and so on. The calls are signed." }
                    (parts::command(&view.command("webhook create ci https://ci.example.org/baton --kind run.ended", true)))
                }))
            } @else {
                table {
                    thead { tr {
                        th { "Name" } th { "Calls" } th { "Of" } th { "State" } th { "Last attempts" } th.num { "Waiting" } th.num { "Dead" }
                        th { span.sr { "Actions" } }
                    } }
                    tbody { @for (webhook, strip) in shown.iter().zip(strips) { (row(view, webhook, strip)) } }
                }
            }
        }
    }
}

fn row(view: &View, webhook: &WebhookView, strip: &[WebhookDelivery]) -> Markup {
    html! {
        tr data-row data-key=(webhook.id) {
            td {
                a.b.cut dir="auto" href=(view.href(&format!("/webhooks/{}", webhook.id))) { (format::visible(&webhook.name)) }
                div.sm.soft { @match &webhook.namespace { Some(namespace) => bdi { (format::visible(namespace)) }, None => "all namespaces" } }
            }
            td { span.id.cut dir="auto" title=(format::visible(&webhook.url)) { (format::first_line(&webhook.url, 60)) } }
            td { (filter_tags(&webhook.filter)) }
            td { (state(view, webhook)) }
            td { (attempts_strip(strip)) }
            td.num { (format::number(webhook.waiting)) }
            td.num { @if webhook.dead > 0 { span.c-bad.b { (format::number(webhook.dead)) } } @else { "0" } }
            td { @if may_change(view) { (actions(view, webhook)) } }
        }
    }
}

fn actions(view: &View, webhook: &WebhookView) -> Markup {
    let is_active = webhook.state == "active";
    let turn = if is_active { "pause" } else { "resume" };
    html! {
        div.actions {
            form method="post" action={ "/form/webhooks/" (webhook.id) "/test" } { (parts::hidden_csrf()) button.btn.small { "Test" } }
            form method="post" action={ "/form/webhooks/" (webhook.id) "/" (turn) } {
                (parts::hidden_csrf()) button.btn.small { (if is_active { "Pause" } else { "Resume" }) }
            }
            (ask::link(view, "small danger", &format!("/form/webhooks/{}/remove", webhook.id), "Remove"))
        }
    }
}

fn filter_tags(filter: &WebhookFilter) -> Markup {
    let of = [
        ("queue", &filter.queue),
        ("type", &filter.run_type),
        ("run", &filter.run),
        ("worker", &filter.worker),
        ("pool", &filter.pool),
    ];
    let is_all = filter.kinds.is_empty() && of.iter().all(|(_, word)| word.is_none());
    html! {
        span.row.wrap {
            @for kind in &filter.kinds { span.tag { (format::visible(kind)) } }
            @for (name, word) in of { @if let Some(word) = word { span.tag dir="auto" { (name) ":" (format::visible(word)) } } }
            @if is_all { span.dim { "every event" } }
        }
    }
}

fn state(view: &View, webhook: &WebhookView) -> Markup {
    html! {
        @match (webhook.state.as_str(), webhook.failing_since) {
            ("active", None) => span.st.ok { (icon("ok")) "active" },
            ("active", Some(since)) => span.st.bad { (icon("warn")) "failing for " (parts::ago(view, since.0)) },
            ("paused", _) => span.st.held { (icon("pause")) "paused" },
            _ => span.st.bad { (icon("bad")) "disabled" },
        }
        @if let Some(why) = &webhook.why { div.sm.soft dir="auto" { (format::first_line(why, 160)) } }
        @if let Some(until) = webhook.held_until { div.sm.soft { "the receiver asked for quiet until " (parts::clock(view, until.0, Precision::Seconds)) } }
    }
}

/// The last attempts, the newest at the right: height is how long it took, shape is how it went.
fn attempts_strip(newest_first: &[WebhookDelivery]) -> Markup {
    let mut attempts: Vec<&WebhookAttempt> = newest_first.iter().flat_map(|delivery| &delivery.attempts).collect();
    attempts.sort_by_key(|attempt| attempt.at.0);
    let last = attempts.iter().rev().take(ATTEMPTS_SHOWN).rev();
    let failed = last.clone().filter(|attempt| !arrived(attempt)).count();
    let count = last.len();
    let longest = last.clone().map(|attempt| attempt.took_ms).max().unwrap_or(0).max(1);
    let label = format!("{count} attempts, {failed} failed");
    html! {
        @if count == 0 { span.dim { "none yet" } } @else {
            svg.strip role="img" aria-label=(label) viewBox={ "0 0 " (ATTEMPTS_SHOWN * 6) " 18" } {
                title { (label) }
                @for (index, attempt) in last.enumerate() {
                    @let height = 3 + attempt.took_ms * 13 / longest;
                    @let x = (ATTEMPTS_SHOWN - count + index) * 6;
                    @if arrived(attempt) { rect.fill-ok x=(x) y=(17 - height) width="4" height=(height) {} }
                    @else { path.cross d={ "M" (x) " 5l4 8m0-8l-4 8" } {} }
                }
            }
        }
    }
}

fn arrived(attempt: &WebhookAttempt) -> bool {
    attempt.status.is_some_and(|status| (200..300).contains(&status))
}
