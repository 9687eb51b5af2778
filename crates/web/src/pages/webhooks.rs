//! `/webhooks`: who is told of events by calls, and whether the calls arrive. `/webhooks/{id}` has the deliveries of one.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use baton_proto::{
    ChangeWebhook, CreateWebhook, ReplayWebhook, RotateWebhook, WebhookAttempt, WebhookDelivery, WebhookFilter,
    WebhookView,
};
use baton_server::service::webhooks::{self, control, deliveries};
use baton_server::{App, Error, Page as Rows, Scope};
use maud::{Markup, html};

use crate::ask::{self, Asking};
use crate::format::{self, Precision};
use crate::forms::Form;
use crate::page::{Entry, Page, part};
use crate::parts::{self, Dialog, ROWS_MAX, icon};
use crate::view::View;

/// How many attempts a row of the list shows.
const ATTEMPTS_SHOWN: usize = 20;
/// Fewer webhooks than this on a page have their last attempts shown: each costs a query.
const STRIPS_MAX: usize = 20;

/// Forms about webhooks.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/form/webhooks/new", get(ask_new).post(create))
        .route("/form/webhooks/{id}/edit", get(ask_edit).post(edit))
        .route("/form/webhooks/{id}/test", post(test))
        .route("/form/webhooks/{id}/pause", post(pause))
        .route("/form/webhooks/{id}/resume", post(resume))
        .route("/form/webhooks/{id}/rotate", get(ask_rotate).post(rotate))
        .route("/form/webhooks/{id}/replay", post(replay_all))
        .route("/form/webhooks/{id}/replay/{delivery}", post(replay))
        .route("/form/webhooks/{id}/remove", get(ask_remove).post(remove))
}

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

// ---- one webhook

/// One webhook, with what is delivered to it.
pub async fn one(view: &View, id: &str) -> Result<Page, Error> {
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

// ---- forms

fn fields(view: &View, known: Option<&WebhookView>) -> Markup {
    let filter = known.map(|known| known.filter.clone()).unwrap_or_default();
    let url = known.map_or("", |known| known.url.as_str());
    html! {
        @if known.is_none() {
            (parts::text_field("name", "Name", "", "", true))
            @if view.caller.namespace.is_none() {
                (parts::text_field("namespace", "Namespace", "Empty: events of all namespaces.", &view.namespace, false))
            }
        }
        (parts::text_field("url", "Calls", "https, and a public host; the setting webhook_allow makes exceptions.", url, true))
        (parts::text_field("kinds", "Kinds of events", "As run.ended, worker, schedule.fired, with commas. Empty: all.", &filter.kinds.join(", "), false))
        div.two {
            (parts::text_field("queue", "Only of the queue", "", filter.queue.as_deref().unwrap_or_default(), false))
            (parts::text_field("type", "Only of the type", "", filter.run_type.as_deref().unwrap_or_default(), false))
        }
    }
}

/// The filter of a form. What the form does not have stays as it is.
fn filter_of(form: &Form, known: WebhookFilter) -> WebhookFilter {
    let kinds = form.get("kinds").unwrap_or_default().split(',').map(str::trim).filter(|kind| !kind.is_empty());
    WebhookFilter {
        kinds: kinds.map(str::to_owned).collect(),
        queue: form.get("queue").map(str::to_owned),
        run_type: form.get("type").map(str::to_owned),
        ..known
    }
}

/// Errors at the fields of this form, which has those of the filter beside the others.
fn at_fields(error: Error) -> Error {
    match error {
        Error::InvalidField { field, why } => {
            let field = field.strip_prefix("filter.").map(str::to_owned).unwrap_or_else(|| field.into_owned());
            Error::field(field, why)
        }
        other => other,
    }
}

fn own(form: &Form) -> &baton_server::Caller {
    &form.visitor.caller
}

async fn ask_new(asking: Asking) -> Response {
    let dialog = Dialog {
        id: "new-webhook",
        title: "New webhook",
        action: "/form/webhooks/new",
        body: html! { (fields(&asking.view, None)) p.hint { "The secret that signs the calls is shown once, in the next step." } },
        confirm: "Make it",
        is_dangerous: false,
    };
    asking.answer(Entry::Webhooks, ("Webhooks", "/webhooks"), asking.view.caller.has(Scope::Admin).map(|()| dialog))
}

async fn create(State(app): State<App>, form: Form) -> Response {
    let wanted = CreateWebhook {
        name: form.get("name").unwrap_or_default().trim().to_owned(),
        namespace: form.get("namespace").map(str::to_owned),
        url: form.get("url").unwrap_or_default().trim().to_owned(),
        filter: filter_of(&form, WebhookFilter::default()),
        secret: None,
    };
    match webhooks::create(&app, own(&form), wanted).await.map_err(at_fields) {
        Ok((WebhookView { secret: Some(secret), .. }, _)) => once(&form, &secret),
        Ok((known, _)) => form.done("/webhooks", &format!("The webhook {} was there already.", known.name)),
        Err(error) => form.refused(&error),
    }
}

/// Shows a secret, this once.
fn once(form: &Form, secret: &str) -> Response {
    let body = html! {
        p { "Keep it now: it is not shown again. The receiver checks signatures with it (Standard Webhooks)." }
        (parts::command(secret))
    };
    ask::once(form.is_scripted, "The webhook's secret", &body, "/webhooks")
}

async fn ask_edit(asking: Asking, Path(id): Path<String>) -> Response {
    let action = format!("/form/webhooks/{id}/edit");
    let known = webhooks::get(&asking.view.app, &asking.view.caller, &id).await;
    let asked = known.and_then(|known| asking.view.caller.has(Scope::Admin).map(|()| known)).map(|known| Dialog {
        id: "edit-webhook",
        title: "Edit the webhook",
        action: &action,
        body: html! { p { bdi.b { (format::visible(&known.name)) } } (fields(&asking.view, Some(&known))) },
        confirm: "Save",
        is_dangerous: false,
    });
    asking.answer(Entry::Webhooks, ("Webhooks", "/webhooks"), asked)
}

async fn edit(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let changed = async {
        let known = webhooks::get(&app, own(&form), &id).await?;
        let wanted = ChangeWebhook {
            url: form.get("url").map(|url| url.trim().to_owned()),
            filter: Some(filter_of(&form, known.filter)),
        };
        webhooks::change(&app, own(&form), &id, wanted).await.map_err(at_fields)
    };
    let next = format!("/webhooks/{id}");
    form.answer(changed.await.map(|changed| format!("The webhook {} is changed.", changed.name)), &next)
}

async fn test(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let next = format!("/webhooks/{id}");
    let tested = control::test(&app, own(&form), &id).await.and_then(|test| match test.delivered {
        true => Ok(format!("It arrived: {}, after {} ms.", test.status.unwrap_or_default(), test.took_ms)),
        false => {
            let error = test.error.map(|error| format!(": {error}")).unwrap_or_default();
            let status = test.status.map(|status| format!(", the answer was {status}")).unwrap_or_default();
            Err(Error::Conflict(format!("the test did not arrive{status}{error} ({} ms)", test.took_ms)))
        }
    });
    form.answer(tested, &next)
}

async fn pause(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let paused = control::pause(&app, own(&form), &id).await;
    form.answer(paused.map(|paused| format!("The webhook {} is paused.", paused.name)), "/webhooks")
}

async fn resume(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let resumed = control::resume(&app, own(&form), &id).await;
    form.answer(resumed.map(|resumed| format!("The webhook {} hears of events again.", resumed.name)), "/webhooks")
}

async fn ask_rotate(asking: Asking, Path(id): Path<String>) -> Response {
    let action = format!("/form/webhooks/{id}/rotate");
    let known = webhooks::get(&asking.view.app, &asking.view.caller, &id).await;
    let asked = known.and_then(|known| asking.view.caller.has(Scope::Admin).map(|()| known)).map(|known| Dialog {
        id: "rotate-webhook",
        title: "Give the webhook another secret?",
        action: &action,
        body: html! {
            p { bdi.b { (format::visible(&known.name)) } " gets a new secret, which is shown once. For a day its calls are signed with both." }
        },
        confirm: "Make a new secret",
        is_dangerous: false,
    });
    asking.answer(Entry::Webhooks, ("Webhooks", "/webhooks"), asked)
}

async fn rotate(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    match control::rotate(&app, own(&form), &id, RotateWebhook::default()).await {
        Ok(WebhookView { secret: Some(secret), .. }) => once(&form, &secret),
        Ok(known) => form.done("/webhooks", &format!("The webhook {} has that secret already.", known.name)),
        Err(error) => form.refused(&error),
    }
}

async fn replay(State(app): State<App>, Path((id, delivery)): Path<(String, String)>, form: Form) -> Response {
    let replayed = deliveries::replay(&app, own(&form), &id, &delivery).await;
    form.answer(replayed.map(|_| "It is sent again.".to_owned()), &format!("/webhooks/{id}"))
}

async fn replay_all(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let replayed = deliveries::replay_all(&app, own(&form), &id, ReplayWebhook::default()).await;
    let said = replayed.map(|done| match done.dead {
        0 => format!("{} sent again.", format::counted(done.replayed, "delivery is", "deliveries are")),
        left => format!("{} are sent again; {left} wait until there is room.", done.replayed),
    });
    form.answer(said, &format!("/webhooks/{id}"))
}

async fn ask_remove(asking: Asking, Path(id): Path<String>) -> Response {
    let action = format!("/form/webhooks/{id}/remove");
    let known = webhooks::get(&asking.view.app, &asking.view.caller, &id).await;
    let asked = known.and_then(|known| asking.view.caller.has(Scope::Admin).map(|()| known)).map(|known| Dialog {
        id: "remove-webhook",
        title: "Remove the webhook?",
        action: &action,
        body: html! {
            p {
                bdi.b { (format::visible(&known.name)) } " is removed with all of its deliveries; "
                (format::counted(known.waiting, "that waits is", "that wait are")) " not made."
            }
        },
        confirm: "Remove it",
        is_dangerous: true,
    });
    asking.answer(Entry::Webhooks, ("Webhooks", "/webhooks"), asked)
}

async fn remove(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let removed = webhooks::delete(&app, own(&form), &id).await;
    form.answer(removed.map(|()| "The webhook is removed.".to_owned()), "/webhooks")
}
