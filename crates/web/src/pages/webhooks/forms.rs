//! What is done to webhooks: made, changed, tested, paused, given another secret, removed; and what is sent again.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use baton_proto::{ChangeWebhook, CreateWebhook, ReplayWebhook, RotateWebhook, WebhookFilter, WebhookView};
use baton_server::service::webhooks::{self, control, deliveries};
use baton_server::{App, Caller, Error, Scope};
use maud::{Markup, html};

use crate::ask::{self, Asking};
use crate::format;
use crate::forms::Form;
use crate::page::Entry;
use crate::parts::{self, Dialog};
use crate::view::View;

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

fn own(form: &Form) -> &Caller {
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

/// A webhook that the caller may change.
async fn known(asking: &Asking, id: &str) -> Result<WebhookView, Error> {
    let known = webhooks::get(&asking.view.app, &asking.view.caller, id).await?;
    asking.view.caller.has(Scope::Admin)?;
    Ok(known)
}

async fn ask_edit(asking: Asking, Path(id): Path<String>) -> Response {
    let action = format!("/form/webhooks/{id}/edit");
    let asked = known(&asking, &id).await.map(|known| Dialog {
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
    let asked = known(&asking, &id).await.map(|known| Dialog {
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
    let asked = known(&asking, &id).await.map(|known| Dialog {
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
