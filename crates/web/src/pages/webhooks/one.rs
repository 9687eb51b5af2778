//! One webhook, with what is delivered to it.

use baton_proto::{WebhookAttempt, WebhookDelivery, WebhookView};
use baton_server::service::webhooks::{self, deliveries};
use baton_server::{Error, Page as Rows};
use maud::{Markup, html};

use super::{actions, arrived, filter_tags, may_change, state};
use crate::ask;
use crate::format::{self, Precision};
use crate::page::{Entry, Page, part};
use crate::parts::{self, ROWS_MAX, icon};
use crate::view::View;

/// One webhook, with what is delivered to it.
pub async fn page(view: &View, id: &str) -> Result<Page, Error> {
    let webhook = webhooks::get(&view.app, &view.caller, id).await?;
    let after = view.query.get("after").and_then(|after| after.parse().ok());
    let rows = Rows { after, limit: ROWS_MAX };
    let state_asked = view.query.get("state").filter(|word| ["waiting", "delivered", "dead"].contains(word));
    let shown = match may_change(view) {
        true => deliveries::list(&view.app, &view.caller, id, state_asked, rows).await?,
        false => Vec::new(),
    };
    let next = shown.last().filter(|_| shown.len() == ROWS_MAX).map(|last| last.id.as_str());
    let main = html! {
        div.stack {
            (part("webhook-head", &head(view, &webhook)))
            @if may_change(view) {
                section.panel aria-label="Deliveries" {
                    header { h2 { "Deliveries" } }
                    (parts::filters(view, &["state"], parts::filter_choice(&view.query, "state", "State",
                        &[("", "all"), ("waiting", "waiting"), ("delivered", "delivered"), ("dead", "dead")])))
                    (part("deliveries-list", &delivered(view, id, &shown)))
                    (parts::pager(view, next))
                }
            }
        }
    };
    Ok(Page::new(Entry::Webhooks, webhook.name.clone(), main).below("Webhooks", "/webhooks"))
}

fn head(view: &View, webhook: &WebhookView) -> Markup {
    html! {
        section.panel id="webhook-head" aria-label="Webhook" {
            header {
                (state(view, webhook))
                @if may_change(view) {
                    span.end {
                        (ask::link(view, "small", &format!("/form/webhooks/{}/edit", webhook.id), "Edit"))
                        (ask::link(view, "small", &format!("/form/webhooks/{}/rotate", webhook.id), "New secret"))
                        (actions(view, webhook))
                    }
                }
            }
            div.body {
                dl.facts {
                    div { dt { "Calls" } dd { code dir="auto" { (format::visible(&webhook.url)) } } }
                    div { dt { "Of" } dd { (filter_tags(&webhook.filter)) } }
                    div { dt { "Waiting" } dd { (format::number(webhook.waiting)) } }
                    div { dt { "Dead" } dd { (format::number(webhook.dead)) } }
                    div { dt { "Missed" } dd { (format::number(webhook.missed)) } }
                    div { dt { "Last arrived" } dd { @if let Some(at) = webhook.last_success_at { (parts::ago(view, at.0)) } @else { "never" } } }
                    div { dt { "Made" } dd { (parts::ago(view, webhook.created_at.0)) " by " code { (format::visible(&webhook.created_by)) } } }
                    @if let Some(until) = webhook.secret_before_until {
                        div { dt { "Signed with both secrets" } dd { "until " (parts::clock(view, until.0, Precision::Seconds)) } }
                    }
                }
                @if may_change(view) && webhook.dead > 0 {
                    form method="post" action={ "/form/webhooks/" (webhook.id) "/replay" } {
                        (parts::hidden_csrf())
                        p { button.btn { "Send " (format::counted(webhook.dead, "dead delivery", "dead deliveries")) " again" } }
                    }
                }
            }
        }
    }
}

fn delivered(view: &View, id: &str, shown: &[WebhookDelivery]) -> Markup {
    html! {
        div.scroll-x id="deliveries-list" {
            @if shown.is_empty() {
                (parts::empty("signal", "No delivery is like this.", html! { p.soft { "Events are delivered as they happen." } }))
            } @else {
                table {
                    thead { tr { th { "Made" } th { "Event" } th { "Subject" } th { "State" } th { "Attempts" } th { span.sr { "Actions" } } } }
                    tbody {
                        @for delivery in shown {
                            tr data-row data-key=(delivery.id) {
                                td.nowrap { (parts::ago(view, delivery.created_at.0)) }
                                td { span.tag { (format::visible(&delivery.kind)) } }
                                td { span.id.cut dir="auto" { (format::visible(delivery.subject.as_deref().unwrap_or(format::MISSING))) } }
                                td.nowrap { (delivery_state(view, delivery)) }
                                td { (attempts(view, &delivery.attempts)) }
                                td {
                                    @if delivery.state != "waiting" {
                                        form.actions method="post" action={ "/form/webhooks/" (id) "/replay/" (delivery.id) } {
                                            (parts::hidden_csrf()) button.btn.small { "Send again" }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn delivery_state(view: &View, delivery: &WebhookDelivery) -> Markup {
    html! {
        @match (delivery.state.as_str(), delivery.next_attempt_at) {
            ("delivered", _) => span.st.ok { (icon("ok")) "delivered" },
            ("dead", _) => span.st.bad { (icon("bad")) "dead" },
            (_, Some(at)) => span.st.wait { (icon("later")) "next try " (parts::ago(view, at.0)) },
            _ => span.st.wait { (icon("wait")) "waiting" },
        }
    }
}

fn attempts(view: &View, attempts: &[WebhookAttempt]) -> Markup {
    let Some(last) = attempts.last() else { return html! { span.dim { "none yet" } } };
    let said = |attempt: &WebhookAttempt| match (attempt.status, &attempt.error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => format::first_line(error, 120).into_owned(),
        (None, None) => format::MISSING.to_owned(),
    };
    html! {
        details {
            summary { (last.number) ": " span.c-bad[!arrived(last)] dir="auto" { (said(last)) } }
            ol {
                @for attempt in attempts {
                    li {
                        (attempt.number) ". " (parts::clock(view, attempt.at.0, Precision::Seconds)) ", "
                        (format::duration(i64::try_from(attempt.took_ms).unwrap_or(i64::MAX))) ": " span dir="auto" { (said(attempt)) }
                        @if let Some(response) = &attempt.response { pre.code dir="auto" { (format::visible(response)) } }
                    }
                }
            }
        }
    }
}
