//! Acting on many runs: on those that were chosen, or on all that match a filter. What it would do is counted first.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use baton_core::{BulkAction, RunId};
use baton_proto::{BulkFilter, CreateBulk};
use baton_server::service::bulk::{self, Created};
use baton_server::service::lists::{Phase, PhaseCounts};
use baton_server::{App, Error};
use http::StatusCode;
use maud::{Markup, html};

use super::chosen::{Chosen, Counted, count};
use super::operation::{self, progress_of};
use super::{Asked, count_of, kept_fields, shown_count, submit};
use crate::format;
use crate::forms::{Form, own_path};
use crate::page;
use crate::pages::written;
use crate::parts::{self, Dialog, icon};
use crate::query::Query;
use crate::session::CSRF_MARK;

/// Above so many, the number has to be typed.
const TYPED_ABOVE: u64 = 100;
/// Refused runs that are named.
const REFUSED_MAX: usize = 20;

/// Routes of what lists send.
pub fn forms(router: Router<App>) -> Router<App> {
    operation::routes(router)
        .route("/runs/ask", post(ask))
        .route("/runs/act", post(act))
        .route("/runs/submit", post(submit::send))
}

/// The bar for what was chosen. Without the script it is always there.
pub fn bar(asked: &Asked, counts: Option<&PhaseCounts>) -> Markup {
    let all = counts.map(|counts| match asked.filter.phases.is_empty() {
        true => count_of(counts, &Phase::ALL),
        false => count_of(counts, &asked.filter.phases),
    });
    html! {
        form.bulk id="chosen" method="post" action="/runs/ask" aria-label="Selected runs" {
            (parts::hidden_csrf())
            input type="hidden" name="next" value=(asked.query.at(asked.path));
            (kept_fields(&asked.query, &["ns", "q", "state"]))
            @if let Some(kind) = asked.filter.kind { input type="hidden" name="kind" value=(super::kind_word(kind)); }
            @if let Some(since) = asked.filter.since { input type="hidden" name="since" value=(since); }
            span { b.b data-count { "0" } " selected" }
            @if asked.typed.words().is_none() {
                label.btn.small.ghost {
                    input type="checkbox" name="all" value="1" data-all;
                    " All " @if let Some(all) = all { (shown_count(all)) " " } "that match"
                }
            }
            span.sep {}
            button.btn.small name="verb" value="cancel" { "Cancel…" }
            button.btn.small name="verb" value="retry" { "Retry…" }
            button.btn.small.ghost.icon type="button" data-do="clear" aria-label="Clear selection" { (icon("x")) }
        }
    }
}

/// The namespace that a form is about.
pub fn namespace_of(form: &Form) -> String {
    let own = form.visitor.caller.namespace.clone();
    let asked = form.get("ns").map(str::to_owned);
    asked.or(own).unwrap_or_else(|| baton_proto::NAMESPACE_DEFAULT.to_owned())
}

fn verb_of(form: &Form) -> Result<BulkAction, Error> {
    let verb = form.get("verb").unwrap_or_default();
    BulkAction::parse(verb).ok_or_else(|| Error::field("verb", "must be cancel or retry"))
}

/// A verb as a button says it, and as it is said of runs.
pub fn words(verb: BulkAction) -> (&'static str, &'static str) {
    match verb {
        BulkAction::Cancel => ("Cancel", "cancelled"),
        BulkAction::Retry => ("Retry", "retried"),
    }
}

/// Counts what would be done, and asks.
async fn ask(State(app): State<App>, form: Form) -> Response {
    let asked = async {
        let verb = verb_of(&form)?;
        let counted = count(&app, &form, verb).await?;
        if counted.sum() == 0 {
            return Err(Error::Invalid(format!("none of them can be {}", words(verb).1)));
        }
        let once = format!("{:016x}", app.entropy.bits());
        Ok(question(&form, verb, &counted, &once))
    };
    match asked.await {
        Ok((title, body, confirm, is_dangerous)) => {
            let action = "/runs/act";
            if form.is_scripted {
                let asked = Dialog { id: "asked", title: &title, action, body, confirm: &confirm, is_dangerous };
                return html_answer(&form, &parts::dialog(&asked));
            }
            let class = if is_dangerous { "btn danger primary" } else { "btn primary" };
            alone(
                &form,
                &title,
                &html! {
                    form.panel.stack method="post" action=(action) {
                        (parts::hidden_csrf())
                        h1 { (title) }
                        (body)
                        p { button class=(class) { (confirm) } " " a.btn href=(own_path(form.get("next").unwrap_or("/runs"))) { "Leave it" } }
                    }
                },
            )
        }
        Err(error) => form.refused(&error),
    }
}

/// The question: title, body, what the button says, and whether it ends something.
fn question(form: &Form, verb: BulkAction, counted: &Counted, once: &str) -> (String, Markup, String, bool) {
    let sum = counted.sum();
    let runs = format::counted(sum, "run", "runs");
    let label = format!("{} {runs}", words(verb).0);
    let body = html! {
        @if let Some(filter) = &counted.filter {
            p { "All runs that match " (parts::code(filter)) " and were submitted before now." }
        }
        ul { @for (phase, count) in &counted.counts { li { (parts::state(*phase)) " " (format::number(*count)) ": " (what_happens(verb, *phase)) } } }
        @if counted.left_out > 0 {
            p { (format::counted(counted.left_out, "other one", "other ones")) " cannot be " (words(verb).1) " and " (if counted.left_out == 1 { "is" } else { "are" }) " left alone." }
        }
        p { (match verb {
            BulkAction::Cancel => "This cannot be undone; a cancelled run can be retried as a new one.",
            BulkAction::Retry => "Each is submitted again as a new run with the same input.",
        }) }
        input type="hidden" name="verb" value=(verb.as_str());
        input type="hidden" name="once" value=(once);
        (kept_fields(&form.fields, &["ns", "next"]))
        @match &counted.chosen {
            Chosen::Runs(ids) => @for id in ids { input type="hidden" name="id" value=(id); },
            Chosen::All(filter) => input type="hidden" name="filter" value=(serde_json::to_string(filter).unwrap_or_default());,
        }
        @if sum > TYPED_ABOVE {
            input type="hidden" name="count" value=(sum);
            div.field {
                label for="typed" { "Type " (format::number(sum)) " to go on" }
                input.input.n id="typed" name="typed" inputmode="numeric" autocomplete="off" required data-type-this=(sum);
            }
        }
    };
    (format!("{label}?"), body, label, verb == BulkAction::Cancel)
}

fn what_happens(verb: BulkAction, phase: Phase) -> &'static str {
    match (verb, phase) {
        (BulkAction::Retry, _) => "submitted again",
        (BulkAction::Cancel, Phase::Waiting | Phase::Later) => "end at once",
        (BulkAction::Cancel, Phase::Sleeping) => "may clean up, then end",
        (BulkAction::Cancel, _) => "their workers are asked to stop",
    }
}

/// Does it.
async fn act(State(app): State<App>, form: Form) -> Response {
    let next = own_path(form.get("next").unwrap_or("/runs"));
    let acted = async {
        let verb = verb_of(&form)?;
        let caller = &form.visitor.caller;
        if let Some(count) = form.get("count") {
            let digits: String = form.get("typed").unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
            if digits != count {
                return Err(Error::field("typed", format!("must be {count}, the number of runs; nothing was done")));
            }
        }
        if let Some(filter) = form.get("filter") {
            let filter: BulkFilter =
                serde_json::from_str(filter).map_err(|_| Error::Malformed("the form cannot be read".into()))?;
            let create = CreateBulk::new(verb.as_str(), filter);
            let once = form.get("once").unwrap_or_default();
            let Created::Begun(begun) = bulk::create(&app, caller, create, Some(once)).await? else {
                return Err(Error::Internal);
            };
            return Ok(Done::Begun(begun.id));
        }
        let ids: Vec<RunId> = form.fields.all("id").filter_map(|id| id.parse().ok()).collect();
        Ok(Done::Each(verb, bulk::these(&app, caller, verb, &ids).await?))
    };
    match acted.await {
        Err(error) => form.refused(&error),
        Ok(Done::Begun(id)) => {
            let address = Query::default().with("ns", form.get("ns").unwrap_or_default()).at(&format!("/bulk/{id}"));
            if !form.is_scripted {
                return Redirect::to(&address).into_response();
            }
            let ns = form.get("ns").unwrap_or_default();
            match progress_of(&app, &form.visitor, ns, &id).await {
                Ok(told) => axum::Json(told).into_response(),
                Err(error) => form.refused(&error),
            }
        }
        Ok(Done::Each(verb, fates)) => {
            let done = fates.iter().filter(|(_, why)| why.is_none()).count() as u64;
            let said = format!("{} {}.", format::counted(done, "run", "runs"), words(verb).1);
            let refused: Vec<_> = fates.into_iter().filter_map(|(run, why)| Some((run, why?))).collect();
            if refused.is_empty() {
                return form.done(&next, &said);
            }
            let body = html! {
                p { (said) }
                p.b { (format::counted(refused.len() as u64, "was refused", "were refused")) ":" }
                ul {
                    @for (run, why) in refused.iter().take(REFUSED_MAX) {
                        li { a.link.id href={ "/runs/" (run) } { (format::short_id(&run.to_string())) } " " (format::visible(why)) }
                    }
                    @if refused.len() > REFUSED_MAX { li { "and " (format::number((refused.len() - REFUSED_MAX) as u64)) " more" } }
                }
            };
            if form.is_scripted {
                let dialog = html! {
                    dialog id="refused" aria-labelledby="refused-title" {
                        header id="refused-title" { "Not all could be " (words(verb).1) }
                        div.body.stack { (body) }
                        footer { button.btn type="button" data-do="close" { "Close" } }
                    }
                };
                return html_answer(&form, &dialog);
            }
            alone(
                &form,
                "Done",
                &html! { div.panel.stack { h1 { "Not all could be " (words(verb).1) } (body) p { a.link href=(next) { "Back" } } } },
            )
        }
    }
}

enum Done {
    Begun(String),
    Each(BulkAction, Vec<(RunId, Option<String>)>),
}

/// HTML for the script.
pub fn html_answer(form: &Form, html: &Markup) -> Response {
    let html = html.0.replace(CSRF_MARK, &form.visitor.csrf);
    axum::Json(serde_json::json!({ "html": html })).into_response()
}

/// A page of its own, for those without the script.
pub fn alone(form: &Form, title: &str, main: &Markup) -> Response {
    let document = page::plain(title, None, main).0.replace(CSRF_MARK, &form.visitor.csrf);
    written(StatusCode::OK, document)
}
