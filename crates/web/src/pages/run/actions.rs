//! What one can do with a run. Each asks first; what the key may not do is not shown, and the service refuses it.

use std::borrow::Cow;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use baton_core::{Millis, State as Standing};
use baton_proto::SubmitRun;
use baton_server::service::builds::{self, Reader};
use baton_server::service::lists::Phase;
use baton_server::service::sheet::{self, Nature, Sheet, Which};
use baton_server::service::workflows::start::Start;
use baton_server::service::{self, cancel, retry, submit, workflows};
use baton_server::{App, Error, Scope};
use bytes::Bytes;
use maud::{Markup, html};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::state;
use crate::format;
use crate::forms::Form;
use crate::parts::{self, Dialog};
use crate::view::View;

/// The largest input that stands in a field where it can be changed.
const INPUT_SHOWN_MAX: usize = 4_096;

/// What can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Stop it.
    Cancel,
    /// Again, as a new run.
    Retry,
    /// Tell a workflow something.
    Signal,
    /// Another run like it, with changes.
    Copy,
}

impl Act {
    const ALL: [Act; 4] = [Act::Signal, Act::Copy, Act::Retry, Act::Cancel];

    fn path(self) -> &'static str {
        match self {
            Act::Cancel => "cancel",
            Act::Retry => "retry",
            Act::Signal => "signal",
            Act::Copy => "copy",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Act::Cancel => "Cancel…",
            Act::Retry => "Retry…",
            Act::Signal => "Send a signal…",
            Act::Copy => "Start a copy…",
        }
    }

    /// Whether there is anything to do for it, for somebody with this key.
    fn is_for(self, view: &View, sheet: &Sheet) -> bool {
        let has_ended = sheet.record.state.is_ended();
        let makes_sense = match self {
            Act::Cancel => !has_ended && state(view, sheet) != Phase::Cancelling,
            Act::Retry => has_ended,
            Act::Signal => !has_ended && sheet.relations().is_some(),
            Act::Copy => sheet.build().is_none(),
        };
        makes_sense && view.may(Scope::Submit)
    }
}

/// Routes of the forms.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/runs/{id}/cancel", post(cancelled))
        .route("/runs/{id}/retry", post(retried))
        .route("/runs/{id}/signal", post(signalled))
        .route("/runs/{id}/copy", post(copied))
}

/// A button that opens the dialog for it; nothing where it makes no sense or is not allowed.
pub fn button(view: &View, sheet: &Sheet, act: Act, is_first: bool) -> Markup {
    let class = match (is_first, act) {
        (true, _) => "btn primary",
        (false, Act::Cancel) => "btn danger",
        (false, _) => "btn",
    };
    html! {
        @if act.is_for(view, sheet) {
            button class=(class) type="button" data-do="open" data-what={ "#act-" (act.path()) } { (act.label()) }
        }
    }
}

/// All buttons, and their dialogs.
pub fn bar(view: &View, sheet: &Sheet) -> Markup {
    let acts: Vec<Act> = Act::ALL.into_iter().filter(|act| act.is_for(view, sheet)).collect();
    html! {
        @if !acts.is_empty() {
            div.end {
                // A failed run has this one where it says why.
                @for act in acts.iter().filter(|act| **act != Act::Retry || state(view, sheet) != Phase::Failed) {
                    (button(view, sheet, *act, false))
                }
            }
            @for act in &acts { (dialog(view, sheet, *act)) }
        }
    }
}

fn dialog(view: &View, sheet: &Sheet, act: Act) -> Markup {
    let action = view.href(&format!("/runs/{}/{}", sheet.record.id, act.path()));
    let (title, body, confirm) = match act {
        Act::Cancel => ("Cancel this run?", cancel_words(sheet), "Cancel it"),
        Act::Retry => ("Run it again?", retry_words(sheet), "Run it again"),
        Act::Signal => ("Send a signal", signal_fields(), "Send"),
        Act::Copy => ("Start a copy", copy_fields(sheet), "Start"),
    };
    parts::dialog(&Dialog {
        id: &format!("act-{}", act.path()),
        title,
        action: &action,
        body,
        confirm,
        is_dangerous: act == Act::Cancel,
    })
}

fn cancel_words(sheet: &Sheet) -> Markup {
    let is_held = sheet.record.state.is_held();
    html! {
        @match (&sheet.nature, is_held) {
            (Nature::Workflow(_), _) => p {
                "The workflow hears of it and has time to clean up; what it has completed stays. Its children are cancelled, too."
            },
            (_, true) => p { "Its worker is asked to stop. If it does not in time, the lease is taken from it." },
            (_, false) => p { "Nobody works on it, so it ends at once." },
        }
    }
}

fn retry_words(sheet: &Sheet) -> Markup {
    html! {
        p { "A new run is made of it with the same input. This one stays as it is." }
        @if sheet.relations().is_some() {
            div.field {
                label { input type="radio" name="from" value="completed" checked; " after the steps that it had completed" }
                label { input type="radio" name="from" value="start"; " from its start" }
            }
        }
    }
}

fn signal_fields() -> Markup {
    html! {
        div.field {
            label for="signal-name" { "Name" }
            input.input id="signal-name" name="name" required maxlength="200" autocomplete="off" placeholder="approved";
        }
        div.field {
            label for="signal-payload" { "Payload, as JSON" }
            textarea.input.mono id="signal-payload" name="payload" rows="5" spellcheck="false"
                placeholder="{\"by\": \"you\"}" aria-describedby="signal-hint" {}
            p.hint id="signal-hint" { "May be left empty. The workflow decides when it takes the signal." }
        }
    }
}

fn copy_fields(sheet: &Sheet) -> Markup {
    let record = &sheet.record;
    let input = sheet.input.bytes.as_ref().filter(|bytes| bytes.len() <= INPUT_SHOWN_MAX);
    let text = input.and_then(|bytes| std::str::from_utf8(bytes).ok());
    html! {
        p { "Another run on the queue " (parts::code(&sheet.lane.queue)) ", of the type " (parts::code(&sheet.lane.kind)) "." }
        @match text {
            Some(text) => div.field {
                label for="copy-input" { "Input, as JSON" }
                textarea.input.mono id="copy-input" name="input" rows="8" spellcheck="false" dir="auto" { (escaped(text)) }
            },
            None => p.hint {
                "It gets the same input (" (format::bytes(sheet.input.size)) ")."
                input type="hidden" name="same" value="yes";
            }
        }
        div.row {
            div.field {
                label for="copy-key" { "Key" }
                input.input id="copy-key" name="key" maxlength="200" autocomplete="off" dir="auto"
                    value=[record.key.as_deref()];
            }
            div.field {
                label for="copy-priority" { "Priority, 0 to 9" }
                input.input.n id="copy-priority" name="priority" type="number" min="0" max="9" value=(record.priority);
            }
        }
    }
}

/// Where one is after a form about this run.
fn back(form: &Form, id: &str) -> String {
    // The id comes from the address, and only what can be one has got here.
    let namespace = form.get("ns").map(|name| format!("?ns={}", crate::query::escape(name))).unwrap_or_default();
    format!("/runs/{id}{namespace}")
}

async fn cancelled(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let done = cancel_one(&app, &form, &id).await;
    form.answer(done, &back(&form, &id))
}

async fn cancel_one(app: &App, form: &Form, id: &str) -> Result<String, Error> {
    let caller = &form.visitor.caller;
    let run = service::run_id(id)?;
    let sheet = sheet::one(app, caller, run).await?;
    let state = match sheet.nature {
        Nature::Build(_) => {
            builds::control::cancel(app, &Reader::Key(caller), id).await?;
            sheet::one(app, caller, run).await?.record.state
        }
        Nature::Plain | Nature::Workflow(_) => cancel::one(app, caller, run).await?.state,
    };
    Ok(match state {
        Standing::Cancelled => "Cancelled.".into(),
        state if state.is_ended() => format!("It has ended as {} meanwhile.", state.as_str()),
        _ => "Its worker was asked to stop.".into(),
    })
}

async fn retried(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let made = retry_one(&app, &form, &id).await;
    moved_on(&form, made, "Runs again.")
}

async fn retry_one(app: &App, form: &Form, id: &str) -> Result<String, Error> {
    let caller = &form.visitor.caller;
    let run = service::run_id(id)?;
    Ok(match sheet::one(app, caller, run).await?.nature {
        Nature::Build(_) => builds::control::retry(app, &Reader::Key(caller), id, None).await?.id,
        Nature::Workflow(_) => {
            workflows::retry::one(app, caller, run, form.get("from") == Some("start")).await?.run.to_string()
        }
        Nature::Plain => retry::one(app, caller, run, None).await?.run.to_string(),
    })
}

/// Goes on to the page of a run that was made.
fn moved_on(form: &Form, made: Result<String, Error>, said: &str) -> Response {
    match made {
        Ok(run) => form.go(&back(form, &run), said),
        Err(error) => form.refused(&error),
    }
}

async fn signalled(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let sent = signal_one(&app, &form, &id).await;
    form.answer(sent, &back(&form, &id))
}

async fn signal_one(app: &App, form: &Form, id: &str) -> Result<String, Error> {
    let name = form.get("name").unwrap_or_default().trim().to_owned();
    let payload = json(form.get("payload").unwrap_or_default(), "payload")?;
    let run = service::run_id(id)?;
    workflows::signal::one(app, &form.visitor.caller, run, name.clone(), payload, None).await?;
    Ok(format!("Sent {name}."))
}

async fn copied(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let made = copy_one(&app, &form, &id).await;
    moved_on(&form, made, "Started.")
}

async fn copy_one(app: &App, form: &Form, id: &str) -> Result<String, Error> {
    let caller = &form.visitor.caller;
    let run = service::run_id(id)?;
    let sheet = sheet::one(app, caller, run).await?;
    let input = match form.get("same") {
        Some(_) => sheet::payload(app, caller, run, Which::Input).await?,
        None => json(form.get("input").unwrap_or_default(), "input")?,
    };
    let priority = form.get("priority").map(str::parse::<u8>).transpose();
    let priority = priority.map_err(|_| Error::field("priority", "must be 0 to 9"))?;
    let key = form.get("key").map(str::to_owned);
    let options = &sheet.record.options;
    let submitted = match &sheet.nature {
        Nature::Workflow(_) => {
            let (kind, version) = sheet.kind();
            let start = Start {
                namespace: sheet.lane.namespace.clone(),
                queue: sheet.lane.queue.clone(),
                kind: kind.to_owned(),
                version: version.map(str::to_owned),
                input,
                idempotency_key: None,
                fingerprint: [0; 16],
                priority: priority.map(u32::from),
                due: workflows::start::Due::Now,
                retry: Some(options.retry.clone()),
                timeout_ms: options.run_timeout_ms.and_then(|ms| Millis::try_from(ms).ok()),
                key,
                trace: None,
            };
            workflows::start::one(app, caller, start).await?
        }
        Nature::Build(_) => {
            return Err(Error::Invalid("a build is retried, not copied: its files are its input".into()));
        }
        Nature::Plain => {
            let raw = |bytes: Bytes| {
                let text = String::from_utf8(bytes.into()).map_err(|_| Error::field("input", "must be JSON"))?;
                RawValue::from_string(text).map_err(|_| Error::field("input", "must be JSON"))
            };
            let submit = SubmitRun {
                namespace: sheet.lane.namespace.clone(),
                input: if input.is_empty() { None } else { Some(raw(input)?) },
                priority,
                key,
                affinity: sheet.record.affinity.clone(),
                retry: Some(options.retry.clone()),
                max_losses: Some(options.max_losses),
                timeout_ms: options.timeout_ms,
                ..SubmitRun::new(sheet.lane.queue.clone(), sheet.lane.kind.clone())
            };
            submit::one(app, caller, submit).await?
        }
    };
    Ok(submitted.run.to_string())
}

/// JSON that means the same, where characters that cannot be seen are written as such.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match format::visible(c.encode_utf8(&mut [0; 4])) {
            Cow::Owned(_) if !matches!(c, '\n' | '\r' | '\t') => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            Cow::Owned(_) | Cow::Borrowed(_) => out.push(c),
        }
    }
    out
}

/// What somebody typed as JSON, or nothing.
fn json(text: &str, field: &'static str) -> Result<Bytes, Error> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Bytes::new());
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| Error::field(field, format!("must be JSON: {error}")))?;
    Ok(Bytes::from(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(escaped("{\"a\":\t\"x\u{202e}\u{7f}y\"}\n"), "{\"a\":\t\"x\\u202e\\u007fy\"}\n");
    }

    #[test]
    fn what_is_typed_has_to_be_json() {
        assert_eq!(json("  ", "payload").unwrap(), Bytes::new());
        assert_eq!(json(" {\"a\": 1}\n", "payload").unwrap(), Bytes::from_static(b"{\"a\": 1}"));
        let error = json("{a: 1}", "payload").unwrap_err().to_string();
        assert!(error.contains("payload") && error.contains("JSON"), "{error}");
    }
}
