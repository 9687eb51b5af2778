//! Submitting a run or starting a workflow by hand. What is wrong is said at the field.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use baton_core::Millis;
use baton_proto::{SubmitRun, Time};
use baton_server::service::lists::{Due, ListedKind};
use baton_server::service::workflows::start::{self, Start};
use baton_server::service::{lists, submit};
use baton_server::{App, Error, Scope};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::value::RawValue;

use super::act::{alone, html_answer, namespace_of};
use super::kept_fields;
use crate::forms::Form;
use crate::page::{Entry, Page};
use crate::parts;
use crate::query::Query;
use crate::view::View;

/// Names that are suggested.
const SUGGESTED_MAX: usize = 50;

/// The button that leads to the form.
pub fn button(view: &View, entry: Entry) -> Markup {
    let kind = if entry == Entry::Workflows { "workflow" } else { "" };
    let address = Query::default().with("kind", kind).at("/runs/new");
    html! { a.btn.primary href=(view.href(&address)) { "Submit…" } }
}

/// What makes the first run of a kind.
pub(super) fn teach(view: &View, kind: Option<ListedKind>) -> Markup {
    let (icon, what, wanted, commands) = match kind {
        Some(ListedKind::Build) => {
            let worker =
                view.command("worker build --platform linux --recipe 'make && cp app \"$BATON_OUTPUT_DIR\"'", true);
            (
                "build",
                "No build yet.",
                "build",
                vec![worker, view.command("submit --platform linux --output app", true)],
            )
        }
        Some(ListedKind::Workflow) => (
            "flow",
            "No workflow yet.",
            "workflow",
            vec![view.command("workflow start process_order --queue orders", true)],
        ),
        Some(ListedKind::Run) | None => {
            let worker = view.command("worker run --queue mail --type greet --exec 'cat'", true);
            let submit = view.command("run submit greet --queue mail --input '\"hello\"'", true);
            ("list", "No run yet.", "", vec![worker, submit])
        }
    };
    parts::empty(
        icon,
        what,
        html! {
            @match commands.as_slice() {
                [worker, submit] => {
                    p.soft { "Start a worker, in a terminal:" } (parts::command(worker))
                    p.soft { "and give it something to do, in another one:" } (parts::command(submit))
                }
                commands => {
                    p.soft { "This makes the first one:" }
                    @for command in commands { (parts::command(command)) }
                }
            }
            p { a.link href=(view.href(&Query::default().with("kind", wanted).at("/start"))) { "Step by step" } }
        },
    )
}

/// `/runs/new`
pub async fn page(view: &View) -> Result<Page, Error> {
    view.caller.may(Scope::Submit, &view.namespace)?;
    let lanes = match view.may(Scope::Read) {
        true => lists::lanes(&view.app, &view.caller, &view.namespace).await?,
        false => Vec::new(),
    };
    let names = |of: fn(&lists::LaneOf) -> String| {
        let mut names: Vec<String> = lanes.iter().map(of).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(SUGGESTED_MAX);
        names
    };
    let types = names(|lane| match lane.kind {
        ListedKind::Workflow => lane.name.kind.split('@').next().unwrap_or_default().to_owned(),
        ListedKind::Run | ListedKind::Build => lane.name.kind.clone(),
    });
    let queues = names(|lane| lane.name.queue.clone());
    let fields = view.query.with("zone", view.zone.iana_name().unwrap_or_default());
    let main = html! {
        form.panel.ask id="submit" method="post" action="/runs/submit" {
            div.body.stack {
                (form_fields(&fields, None))
                datalist id="types" { @for name in &types { option value=(name) {} } }
                datalist id="queues" { @for name in &queues { option value=(name) {} } }
            }
            footer.row { button.btn.primary { "Submit" } a.btn href=(view.href("/runs")) { "Leave it" } }
        }
    };
    Ok(Page::new(Entry::Runs, "Submit a run", main).below("Runs", view.href("/runs")))
}

/// The fields, with what was typed and what is wrong with one of them.
fn form_fields(typed: &Query, wrong: Option<(&str, &str)>) -> Markup {
    let value = |name: &str| typed.get(name).unwrap_or_default().to_owned();
    let why = |name: &str| wrong.filter(|(field, _)| *field == name).map(|(_, why)| why.to_owned());
    let said = |name: &'static str| {
        html! { @if let Some(why) = why(name) { p.c-bad.sm id={ "wrong-" (name) } role="alert" { (name) " " (why) } } }
    };
    let described = |name: &str| why(name).map(|_| format!("wrong-{name}"));
    let is_workflow = typed.get("kind") == Some("workflow");
    let is_known = |name: &str| ["kind", "type", "queue", "key", "input", "priority", "due_at"].contains(&name);
    html! {
        (parts::hidden_csrf())
        (kept_fields(typed, &["ns", "zone"]))
        @if let Some((field, why)) = wrong.filter(|(field, _)| !is_known(field)) { p.c-bad role="alert" { (field) " " (why) } }
        div.field {
            label for="kind" { "What" }
            select.input id="kind" name="kind" {
                option value="run" { "A run" }
                option value="workflow" selected[is_workflow] { "A workflow" }
            }
        }
        div.field {
            label for="type" { "Type" }
            input.input id="type" name="type" value=(value("type")) list="types" required dir="auto" autocomplete="off"
                aria-describedby=[described("type")] placeholder="digest";
            (said("type"))
        }
        div.field {
            label for="queue" { "Queue" }
            input.input id="queue" name="queue" value=(value("queue")) list="queues" dir="auto" autocomplete="off"
                aria-describedby=[described("queue")] placeholder="default";
            (said("queue"))
        }
        div.field {
            label for="key" { "Key" }
            input.input id="key" name="key" value=(value("key")) dir="auto" autocomplete="off" aria-describedby=[described("key")];
            p.hint { "Runs of one key take turns with those of others, and a queue may limit how many of them run at once." }
            (said("key"))
        }
        div.field {
            label for="input" { "Input, as JSON" }
            textarea.input.code.tall id="input" name="input" rows="6" spellcheck="false" dir="auto" aria-describedby=[described("input")] { (value("input")) }
            (said("input"))
        }
        div.field {
            label for="priority" { "Priority, 0 to 9; 9 goes first" }
            input.input.n id="priority" name="priority" type="number" min="0" max="9" value=(value("priority")) placeholder="5"
                aria-describedby=[described("priority")];
            (said("priority"))
        }
        div.field {
            label for="due_at" { "Not before" }
            input.input id="due_at" name="due_at" type="datetime-local" value=(value("due_at")) aria-describedby=[described("due_at")];
            (said("due_at"))
        }
    }
}

/// Takes the form in.
pub async fn send(State(app): State<App>, form: Form) -> Response {
    match taken_in(&app, &form).await {
        Ok(id) => {
            let address = Query::default().with("ns", form.get("ns").unwrap_or_default()).at(&format!("/runs/{id}"));
            match form.is_scripted {
                true => axum::Json(serde_json::json!({ "go": address })).into_response(),
                false => Redirect::to(&address).into_response(),
            }
        }
        Err(Error::InvalidField { field, why }) => {
            let field = field.rsplit('.').next().unwrap_or_default().to_owned();
            let fields = form_fields(&form.fields, Some((&field, &why)));
            if form.is_scripted {
                let dialog = html! {
                    dialog id="submit-again" aria-labelledby="submit-title" data-stays="1" {
                        form method="post" action="/runs/submit" {
                            header id="submit-title" { "Submit a run" }
                            div.body.stack { (fields) }
                            footer {
                                button.btn type="button" data-do="close" { "Leave it" }
                                button.btn.primary { "Submit" }
                            }
                        }
                    }
                };
                return html_answer(&form, &dialog);
            }
            alone(
                &form,
                "Submit a run",
                &html! {
                    form.panel.stack method="post" action="/runs/submit" {
                        h1 { "Submit a run" }
                        (fields)
                        button.btn.primary { "Submit" }
                    }
                },
            )
        }
        Err(error) => form.refused(&error),
    }
}

async fn taken_in(app: &App, form: &Form) -> Result<String, Error> {
    let caller = &form.visitor.caller;
    let text = |name: &str| form.get(name).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let kind = text("type").ok_or_else(|| Error::field("type", "is missing"))?;
    let queue = text("queue").unwrap_or_else(|| "default".into());
    let input = match text("input") {
        None => None,
        Some(input) => {
            let wrong = |error: serde_json::Error| Error::field("input", format!("is no JSON: {error}"));
            Some(RawValue::from_string(input).map_err(wrong)?)
        }
    };
    let priority = match text("priority") {
        None => None,
        Some(text) => Some(text.parse::<u8>().map_err(|_| Error::field("priority", "must be 0 to 9"))?),
    };
    let due_at = text("due_at").map(|text| due(&text, form.get("zone"))).transpose()?;
    let namespace = namespace_of(form);
    if form.get("kind") == Some("workflow") {
        let start = Start {
            namespace,
            queue,
            kind,
            version: None,
            input: input.map(|input| input.get().to_owned().into_bytes().into()).unwrap_or_default(),
            idempotency_key: None,
            fingerprint: [0; 16],
            priority: priority.map(u32::from),
            due: due_at.map_or(Due::Now, Due::At),
            retry: None,
            timeout_ms: None,
            key: text("key"),
            trace: None,
        };
        return Ok(start::one(app, caller, start).await?.run.to_string());
    }
    let run = SubmitRun {
        namespace,
        input,
        priority,
        due_at: due_at.map(Time),
        key: text("key"),
        ..SubmitRun::new(queue, kind)
    };
    Ok(submit::one(app, caller, run).await?.run.to_string())
}

/// The moment of a field for date and time, in the reader's zone.
fn due(text: &str, zone: Option<&str>) -> Result<Millis, Error> {
    let zone = zone.and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    let at = text.parse::<DateTime>().ok().and_then(|at| at.to_zoned(zone).ok());
    let at = at.ok_or_else(|| Error::field("due_at", "must be a date and a time, as 2026-11-14T09:30"))?;
    Ok(at.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_one_of_the_readers_zone() {
        assert_eq!(due("1970-01-01T02:00", Some("Europe/Berlin")).ok(), Some(3_600_000));
        assert_eq!(due("1970-01-01T02:00", Some("nowhere")).ok(), Some(7_200_000));
        assert!(due("soon", None).is_err());
    }
}
