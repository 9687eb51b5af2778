//! `/settings`: every setting, what it means and where its value comes from.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use baton_core::Millis;
use baton_proto::ChangeSettings;
use baton_server::service::settings::{self, ServerSetting};
use baton_server::{App, Error};
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use crate::ask::{self, Asking};
use crate::format;
use crate::forms::Form;
use crate::page::{Entry, Page, part};
use crate::parts::{self, Dialog};
use crate::view::View;

/// The page that says what each setting is.
const DOCUMENT: &str = include_str!("../../../../docs/settings.md");

/// What each setting means, and its place in the document.
static MEANINGS: LazyLock<HashMap<&'static str, (usize, &'static str)>> = LazyLock::new(|| {
    let cells = |line: &'static str| line.strip_prefix("| `")?.split_once("` | ")?.1.split_once(" | ");
    let rows = DOCUMENT.lines().filter_map(|line| {
        let name = line.strip_prefix("| `")?.split_once('`')?.0;
        let (_, rest) = cells(line)?;
        Some((name, rest.rsplit_once(" | ").map_or(rest, |(meaning, _)| meaning)))
    });
    rows.enumerate().map(|(place, (name, meaning))| (name, (place, meaning))).collect()
});

/// Forms about settings.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/form/settings/{name}/edit", get(ask_edit).post(edit))
        .route("/form/settings/{name}/reset", post(reset))
}

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let mut all = settings::all(&view.app, &view.caller).await?;
    all.sort_by_key(|setting| MEANINGS.get(setting.view.name.as_str()).map_or(usize::MAX, |(place, _)| *place));
    let changed = all.iter().filter(|setting| is_set(setting)).count();
    let live = all.iter().filter(|setting| setting.is_changeable).count();
    let (text, kind) = (view.query.get("q").unwrap_or_default().to_lowercase(), view.query.get("kind"));
    let shown: Vec<&ServerSetting> = all.iter().filter(|setting| fits(setting, &text, kind)).collect();
    let list = html! {
        div.scroll-x id="settings-list" {
            @if shown.is_empty() {
                (parts::empty("gear", "No setting is like this.", html! {}))
            } @else {
                table.settings {
                    thead { tr { th { "Setting" } th { "Value" } th { "Default" } th { "From" } th { span.sr { "Actions" } } } }
                    tbody { @for setting in &shown { (row(view, setting)) } }
                }
            }
        }
    };
    let main = html! {
        div.stack {
            p.lead {
                (all.len()) " settings, of which " (changed) (if changed == 1 { " is not as it is built in." } else { " are not as they are built in." })
                " " (live) " can be changed here, for all servers and at once; the others hold from the start of this server."
            }
            section.panel aria-label="Settings" {
                (parts::filters(view, &["q", "kind"], html! {
                    (parts::filter_text(&view.query, "q", "Name or meaning"))
                    (parts::filter_choice(&view.query, "kind", "Which",
                        &[("", "all"), ("set", "those that are set"), ("live", "those that can be changed here")]))
                }))
                (part("settings-list", &list))
            }
            section.panel aria-label="On the command line" {
                header { h2 { "On the command line" } }
                div.body { (parts::command(&view.command("settings set lease_ttl_ms=30s", false))) }
            }
        }
    };
    Ok(Page::new(Entry::Settings, "Settings", main))
}

fn is_set(setting: &ServerSetting) -> bool {
    setting.view.source != "built in"
}

fn fits(setting: &ServerSetting, text: &str, kind: Option<&str>) -> bool {
    let is_kind = match kind {
        Some("set") => is_set(setting),
        Some("live") => setting.is_changeable,
        _ => true,
    };
    is_kind && (setting.view.name.contains(text) || meaning(&setting.view.name).to_lowercase().contains(text))
}

fn meaning(name: &str) -> &'static str {
    MEANINGS.get(name).map_or("", |(_, meaning)| meaning)
}

fn row(view: &View, setting: &ServerSetting) -> Markup {
    let SettingShown { name, value, default, .. } = shown(setting);
    html! {
        tr id={ "setting-" (name) } data-row {
            td {
                code.b { (name) }
                div.sm.soft.words { (described(meaning(name))) }
            }
            td { (written(setting, value)) }
            td.soft { @if value == default { span.dim { "the same" } } @else { (written(setting, default)) } }
            td.nowrap {
                @match setting.view.source.as_str() {
                    "built in" => span.dim { "built in" },
                    "stored" => span.chip.run { span { "changed " @if let Some(at) = setting.view.changed_at { (parts::ago(view, at.0)) } } },
                    source => span.chip { span { (source) } },
                }
            }
            td {
                @if setting.is_changeable {
                    div.actions {
                        @if setting.view.source == "stored" {
                            form method="post" action={ "/form/settings/" (name) "/reset" } { (parts::hidden_csrf()) button.btn.small { "Reset" } }
                        }
                        (ask::link(view, "small", &format!("/form/settings/{name}/edit"), "Change"))
                    }
                }
            }
        }
    }
}

struct SettingShown<'a> {
    name: &'a str,
    value: &'a Value,
    default: &'a Value,
}

fn shown(setting: &ServerSetting) -> SettingShown<'_> {
    SettingShown { name: &setting.view.name, value: &setting.view.value, default: &setting.view.default }
}

/// A value, as it is written in a file of settings, and in words where those say more.
fn written(setting: &ServerSetting, value: &Value) -> Markup {
    let words = value.as_u64().and_then(|number| in_words(&setting.view.name, number));
    html! {
        @match value {
            Value::Null => span.dim { (format::MISSING) },
            Value::String(text) if text.is_empty() => span.dim { "empty" },
            Value::String(text) if setting.is_secret => { span.dim { (text) " hidden" } },
            Value::String(text) => code dir="auto" { (format::visible(text)) },
            Value::Object(all) if all.is_empty() => span.dim { "empty" },
            value => code { (format::visible(&value.to_string())) },
        }
        @if let Some(words) = words { div.sm.soft { (words) } }
    }
}

/// A span or an amount of bytes, by the end of the setting's name.
fn in_words(name: &str, number: u64) -> Option<String> {
    match name {
        _ if name.ends_with("_ms") || name.contains("_ms_") => {
            Some(format::duration(Millis::try_from(number).unwrap_or(Millis::MAX)))
        }
        _ if name.contains("bytes") && number >= 1_000 => Some(format::bytes(number)),
        _ if number >= 1_000 => Some(format::number(number)),
        _ => None,
    }
}

/// The meaning of a setting: code between backticks, and links as the words that they are.
fn described(meaning: &str) -> Markup {
    let mut out = String::with_capacity(meaning.len() + 32);
    for (index, piece) in meaning.split('`').enumerate() {
        let text = html! { (without_links(piece)) }.0;
        match index % 2 {
            1 => out.push_str(&format!("<code>{text}</code>")),
            _ => out.push_str(&text),
        }
    }
    PreEscaped(out)
}

/// Markdown without the addresses of its links.
fn without_links(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        match after.split_once("](").and_then(|(words, after)| Some((words, after.split_once(')')?.1))) {
            Some((words, after)) => {
                out.push_str(words);
                rest = after;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

// ---- changes

async fn ask_edit(asking: Asking, Path(name): Path<String>) -> Response {
    let action = format!("/form/settings/{}/edit", crate::query::escape(&name));
    let found = settings::all(&asking.view.app, &asking.view.caller).await.and_then(|all| {
        let found = all.into_iter().find(|setting| setting.view.name == name && setting.is_changeable);
        found.ok_or(Error::NotFound { what: "setting that can be changed here", id: name.clone() })
    });
    let asked = found.map(|setting| Dialog {
        id: "edit-setting",
        title: "Change a setting",
        action: &action,
        body: html! {
            p { code.b { (setting.view.name) } }
            p.soft { (described(meaning(&setting.view.name))) }
            (input(&setting))
            p.hint { "It holds on every server of this store within seconds, and is written to the audit log." }
        },
        confirm: "Save",
        is_dangerous: false,
    });
    asking.answer(Entry::Settings, ("Settings", "/settings"), asked)
}

fn input(setting: &ServerSetting) -> Markup {
    let value = &setting.view.value;
    let hint = match &setting.view.name {
        name if name.ends_with("_ms") => "Milliseconds, or a span: 250ms, 30s, 5m, 1h30m, 2d.",
        _ if value.is_null() => "Empty: none.",
        _ => "",
    };
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    parts::field(
        "field-value",
        "Value",
        hint,
        match value {
            Value::Bool(is_on) => html! {
                select.input id="field-value" name="value" {
                    option value="true" selected[*is_on] { "true" }
                    option value="false" selected[!is_on] { "false" }
                }
            },
            _ => html! { input.input.mono id="field-value" name="value" value=(text) autocomplete="off" autofocus; },
        },
    )
}

async fn edit(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let changed = async {
        let all = settings::all(&app, &form.visitor.caller).await?;
        let setting = all.iter().find(|setting| setting.view.name == name && setting.is_changeable);
        let setting = setting.ok_or(Error::NotFound { what: "setting that can be changed here", id: name.clone() })?;
        let value =
            read(&name, form.get("value").unwrap_or_default().trim(), &setting.view.value, &setting.view.default)?;
        let wanted = ChangeSettings { set: [(name.clone(), value)].into(), reset: Vec::new() };
        let at_field = |error: Error| match error {
            Error::Invalid(why) => Error::field("value", format!("is not taken: {why}")),
            other => other,
        };
        settings::change(&app, &form.visitor.caller, wanted).await.map_err(at_field)
    };
    form.answer(changed.await.map(|_| format!("{name} is changed.")), "/settings")
}

/// What somebody has written, as a value of the type that the setting has.
fn read(name: &str, text: &str, now: &Value, default: &Value) -> Result<Value, Error> {
    let example = if now.is_null() { default } else { now };
    match example {
        Value::String(_) => Ok(text.into()),
        Value::Null if text.is_empty() => Ok(Value::Null),
        _ if text.is_empty() && default.is_null() => Ok(Value::Null),
        Value::Number(_) | Value::Null if name.ends_with("_ms") && text.parse::<u64>().is_err() => {
            let read = baton_core::span::parse(text).ok().and_then(|span| u64::try_from(span.as_millis()).ok());
            let wrong = || Error::field("value", "must be milliseconds, or a span like 250ms, 30s, 5m, 1h30m or 2d");
            read.map(Value::from).ok_or_else(wrong)
        }
        _ => match serde_json::from_str(&text.replace(',', "")) {
            Ok(value) => Ok(value),
            Err(_) if example.is_null() => Ok(text.into()),
            Err(_) => Err(Error::field("value", format!("must be of the kind that it is now, like {example}"))),
        },
    }
}

async fn reset(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let wanted = ChangeSettings { set: Default::default(), reset: vec![name.clone()] };
    let done = settings::change(&app, &form.visitor.caller, wanted).await;
    form.answer(done.map(|_| format!("{name} is again as the servers were started.")), "/settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_come_from_the_document() {
        assert!(MEANINGS.len() > 100);
        assert_eq!(meaning("listen"), "Address and port to listen on.");
        assert_eq!(described(meaning("tls")).0.matches("<code>").count(), 1);
        assert!(!described(meaning("bulk_rate")).0.contains("](") && described("a < b").0 == "a &lt; b");
    }

    #[test]
    fn links_become_words() {
        let table = [("a [b](c.md) d", "a b d"), ("[x]", "[x]"), ("[[x](y)", "[[x"), ("", "")];
        for (text, words) in &table[..2] {
            assert_eq!(without_links(text), *words);
        }
    }

    #[test]
    fn values_are_read_as_what_they_were() {
        let number = Value::from(5);
        assert_eq!(read("lease_ttl_ms", "30s", &number, &number).unwrap(), Value::from(30_000));
        assert_eq!(read("lease_ttl_ms", "30000", &number, &number).unwrap(), Value::from(30_000));
        assert_eq!(read("bulk_rate", "2,500", &number, &number).unwrap(), Value::from(2_500));
        assert!(read("bulk_rate", "many", &number, &number).is_err());
        assert_eq!(read("x", "", &number, &Value::Null).unwrap(), Value::Null);
        assert_eq!(read("x", "true", &Value::from(false), &Value::from(false)).unwrap(), Value::from(true));
        assert_eq!(read("x", "5", &Value::from("a"), &Value::from("")).unwrap(), Value::from("5"));
    }
}
