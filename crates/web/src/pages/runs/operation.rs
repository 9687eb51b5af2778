//! `/bulk/{id}`: how far a bulk operation has come, and how it is stopped.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use baton_core::BulkAction;
use baton_proto::BulkView;
use baton_server::service::bulk;
use baton_server::{App, Error, Scope};
use http::Uri;
use maud::{Markup, html};

use super::act::words;
use super::kept_fields;
use crate::format;
use crate::forms::Form;
use crate::page::{Entry, Page, part};
use crate::pages::refusal;
use crate::parts::{self, icon};
use crate::query::Query;
use crate::session::{CSRF_MARK, Visitor};
use crate::view::View;

/// Routes about operations that are under way.
pub fn routes(router: Router<App>) -> Router<App> {
    router.route("/bulk/{id}/stop", post(stop)).route("/bulk/{id}/progress", get(progress))
}

async fn stop(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let stopped = bulk::stop(&app, &form.visitor.caller, &id).await;
    let next = Query::default().with("ns", form.get("ns").unwrap_or_default()).at(&format!("/bulk/{id}"));
    match stopped {
        Ok(_) => form.done(&next, "It stops with the runs that are under way."),
        Err(error) if form.is_scripted => form.refused(&error),
        Err(error) => refusal(&error),
    }
}

/// How far an operation has come, for the script.
async fn progress(State(app): State<App>, visitor: Visitor, Path(id): Path<String>, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    match progress_of(&app, &visitor, query.get("ns").unwrap_or_default(), &id).await {
        Ok(told) => axum::Json(told).into_response(),
        Err(error) => error.into_response(),
    }
}

pub async fn progress_of(app: &App, visitor: &Visitor, ns: &str, id: &str) -> Result<serde_json::Value, Error> {
    let operation = bulk::get(app, &visitor.caller, id).await?;
    let at = |path: String| Query::default().with("ns", ns).at(&path);
    let looked = operation.done + operation.skipped + operation.failed;
    let matched = operation.matched.unwrap_or(looked).max(looked);
    let is_over = operation.ended_at.is_some();
    let html = html! {
        div.toast id={ "watch-" (id) } role="status" {
            @if !is_over { span.c-run { (icon("start")) } }
            @else if operation.failed > 0 { span.c-bad { (icon("bad")) } }
            @else { span.c-ok { (icon("ok")) } }
            span { (title_of(&operation)) }
            @if !is_over { (progress_bar(looked, matched)) }
            span.soft.nowrap { (format::number(operation.done)) " of " (format::number(matched)) }
            a.btn.small href=(at(format!("/bulk/{id}"))) { "Show" }
            @if !is_over && !operation.stopping {
                form.inline method="post" action={ "/bulk/" (id) "/stop" } {
                    (parts::hidden_csrf())
                    @if !ns.is_empty() { input type="hidden" name="ns" value=(ns); }
                    button.btn.small { "Stop" }
                }
            }
        }
    };
    let html = html.0.replace(CSRF_MARK, &visitor.csrf);
    Ok(serde_json::json!({ "toast": html, "watch": at(format!("/bulk/{id}/progress")), "over": is_over }))
}

fn title_of(operation: &BulkView) -> &'static str {
    match (operation.state.as_str(), operation.action.as_str()) {
        ("running", "cancel") => "Cancelling runs",
        ("running", _) => "Retrying runs",
        ("completed", "cancel") => "Runs cancelled",
        ("completed", _) => "Runs retried",
        ("stopped", _) => "Stopped",
        _ => "Could not go on",
    }
}

fn progress_bar(looked: u64, matched: u64) -> Markup {
    let share = looked as f64 * 100.0 / matched.max(1) as f64;
    html! {
        svg.bar aria-hidden="true" {
            rect.bg width="100%" height="8" {}
            rect.fill-run x="0%" width={ (format!("{share:.1}")) "%" } height="8" {}
        }
    }
}

/// `/bulk/{id}`: how far an operation has come.
pub async fn page(view: &View, id: &str) -> Result<Page, Error> {
    let operation = bulk::get(&view.app, &view.caller, id).await?;
    let verb = BulkAction::parse(&operation.action).unwrap_or(BulkAction::Cancel);
    let looked = operation.done + operation.skipped + operation.failed;
    let is_over = operation.ended_at.is_some();
    let matched = operation.matched.unwrap_or(looked).max(looked).max(1);
    let title = title_of(&operation);
    let filter = serde_json::to_string(&operation.filter).unwrap_or_default();
    let progress = html! {
        div.body.stack id="progress" {
            p.t18 {
                (format::number(operation.done)) " " (words(verb).1)
                @if operation.skipped > 0 { ", " (format::number(operation.skipped)) " left alone" }
                @if operation.failed > 0 { ", " span.c-bad { (format::number(operation.failed)) " refused" } }
                @if let Some(matched) = operation.matched { span.dim { " of " (format::number(matched)) } }
            }
            (progress_bar(looked, matched))
            @if let Some(waits) = &operation.waits_for { p.c-warn { "It waits: " (format::visible(waits)) } }
            @if operation.stopping { p.soft { "It stops with the runs that are under way." } }
            @if !operation.errors.is_empty() {
                h2 { "Refused" }
                table {
                    thead { tr { th { "Run" } th { "Why" } } }
                    tbody {
                        @for error in &operation.errors {
                            tr { td.id { a.link href=(view.href(&format!("/runs/{}", error.run_id))) { (format::short_id(&error.run_id)) } }
                                td dir="auto" { (format::visible(&error.error)) } }
                        }
                    }
                }
            }
        }
    };
    let main = html! {
        section.panel aria-label="Operation" {
            (part("progress", &progress))
            footer {
                "Runs that match " (parts::code(&filter)) ", at most " (format::amount(operation.rate_per_second)) " a second, by key "
                (format::visible(&operation.created_by)) ", " (parts::ago(view, operation.created_at.0))
            }
        }
        p.row {
            a.btn href=(view.href("/runs")) { "To the runs" }
            @if !is_over && !operation.stopping && view.may(Scope::Submit) {
                form.inline method="post" action={ "/bulk/" (id) "/stop" } {
                    (parts::hidden_csrf())
                    (kept_fields(&view.query, &["ns"]))
                    button.btn { "Stop" }
                }
            }
        }
    };
    Ok(Page::new(Entry::Runs, title, main).below("Runs", view.href("/runs")))
}
