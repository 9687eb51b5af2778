//! What is done to workers: drain, take offline. Both ask first, with the number of runs.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use baton_server::service::{self, worker_id};
use baton_server::{App, Error};
use http::StatusCode;
use maud::{Markup, html};

use crate::forms::Form;
use crate::pages::written;
use crate::parts::hidden_csrf;
use crate::session::CSRF_MARK;
use crate::{format, page};

/// The routes.
pub fn forms(router: Router<App>) -> Router<App> {
    router.route("/workers/{id}/drain", post(drain)).route("/workers/{id}/offline", post(offline))
}

async fn drain(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    if form.get("sure").is_none() {
        return asked(&app, &form, &id, Act::Drain).await;
    }
    let drained = async {
        let worker = service::workers::drain(&app, &form.visitor.caller, worker_id(&id)?).await?;
        Ok(format!("{} drains; it holds {}.", format::visible(&worker.name), runs(worker.active)))
    };
    let drained = drained.await;
    form.answer(drained, form.get("next").unwrap_or("/workers"))
}

async fn offline(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    if form.get("sure").is_none() {
        return asked(&app, &form, &id, Act::Offline).await;
    }
    let taken = async {
        let given_back = service::workers::force_offline(&app, &form.visitor.caller, worker_id(&id)?).await?;
        Ok(format!("It is offline; {} went back.", format::counted(given_back, "run", "runs")))
    };
    let taken = taken.await;
    form.answer(taken, form.get("next").unwrap_or("/workers"))
}

fn runs(count: u32) -> String {
    format::counted(u64::from(count), "run", "runs")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Drain,
    Offline,
}

/// The question, as a dialog for the script and as a page otherwise.
async fn asked(app: &App, form: &Form, id: &str, act: Act) -> Response {
    let found = async { service::workers::get(app, &form.visitor.caller, worker_id(id)?).await };
    let worker = match found.await {
        Ok(worker) => worker,
        Err(error) => return form.refused(&error),
    };
    if worker.status == "OFFLINE" {
        return form.refused(&Error::WorkerOffline);
    }
    let (verb, title, confirm) = match act {
        Act::Drain => ("drain", "Drain this worker?", "Drain"),
        Act::Offline => ("offline", "Take this worker offline at once?", "Take offline"),
    };
    let what = match act {
        Act::Drain => html! {
            p { "It takes nothing new, finishes " b.b { (runs(worker.active)) } " that it holds, and ends. Start it again when it is wanted." }
        },
        Act::Offline => html! {
            p { "Its leases end now: " b.b { (runs(worker.active)) } " that it holds go back and are handed to others. \
                What it still does for them is refused." }
        },
    };
    let body = html! {
        p dir="auto" { b.b { (format::visible(&worker.name)) } }
        (what)
        input type="hidden" name="sure" value="1";
        input type="hidden" name="next" value=(form.get("next").unwrap_or("/workers"));
    };
    let action = format!("/workers/{}/{verb}", worker.id);
    let class = if act == Act::Offline { "btn danger primary" } else { "btn primary" };
    let own = |markup: Markup| markup.0.replace(CSRF_MARK, &form.visitor.csrf);
    if form.is_scripted {
        let dialog = html! {
            dialog id="ask" aria-labelledby="ask-title" {
                form method="post" action=(action) {
                    (hidden_csrf())
                    header id="ask-title" { (title) }
                    div.body.stack { (body) }
                    footer { button.btn type="button" data-do="close" { "Leave it" } button class=(class) { (confirm) } }
                }
            }
        };
        return axum::Json(serde_json::json!({ "html": own(dialog) })).into_response();
    }
    let main = html! {
        form.panel.stack method="post" action=(action) {
            (hidden_csrf())
            h1 { (title) }
            (body)
            button class=(class) { (confirm) }
            a.btn href=(crate::forms::own_path(form.get("next").unwrap_or("/workers"))) { "Leave it" }
        }
    };
    written(StatusCode::OK, own(page::plain(title, None, &main)))
}
