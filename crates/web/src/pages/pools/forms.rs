//! What is done to pools: made, changed, removed; machines claimed, released, ended.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use baton_core::pools::{RunnerState, Usage};
use baton_proto::{ChangePool, ClaimView, CreatePool, OpenClaim, PoolView, RunnerView};
use baton_server::service::pools::{self, claims, read, runners};
use baton_server::{App, Error, Scope};
use maud::{Markup, html};

use super::{as_lines, size};
use crate::ask::Asking;
use crate::format;
use crate::forms::Form;
use crate::page::Entry;
use crate::parts::{self, Dialog, icon};
use crate::query::escape;

/// Forms about pools.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/form/pools/new", get(ask_new).post(create))
        .route("/form/pools/{name}/edit", get(ask_edit).post(edit))
        .route("/form/pools/{name}/remove", get(ask_remove).post(remove))
        .route("/form/pools/{name}/claim", get(ask_claim).post(claim))
        .route("/form/pools/{name}/release", get(ask_release).post(release))
        .route("/form/pools/{name}/machines/{id}/end", get(ask_end).post(end))
}

fn pool_path(name: &str) -> String {
    format!("/pools/{}", escape(name))
}

/// Shows the form of a pool that is there.
async fn about(
    asking: &Asking,
    name: &str,
    scope: Scope,
    verb: &str,
    dialog: impl FnOnce(&PoolView) -> Dialog<'static>,
) -> Response {
    let view = &asking.view;
    let path = pool_path(name);
    let known = read::get(&view.app, &view.caller, &view.namespace, name);
    let action = format!("/form{path}/{verb}");
    asking.about(Entry::Pools, (name, &view.href(&path)), &action, scope, known, dialog).await
}

// ---- fields

/// A whole number of a form; none where the field is empty.
fn number<T: std::str::FromStr>(form: &Form, name: &'static str) -> Result<Option<T>, Error> {
    let Some(text) = form.get(name).map(|text| text.replace([',', ' '], "")).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| Error::field(name, "must be a whole number"))
}

/// A span of a form, in milliseconds.
fn span(form: &Form, name: &'static str) -> Result<Option<u64>, Error> {
    let Some(text) = form.get(name).map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    let read = baton_core::span::parse(text).ok().and_then(|span| u64::try_from(span.as_millis()).ok());
    read.map(Some).ok_or_else(|| Error::field(name, "must be a span like 90s, 30m or 6h"))
}

/// Options of a form: `name=value`, one a line.
fn options(form: &Form) -> Result<BTreeMap<String, String>, Error> {
    let lines = form.get("options").unwrap_or_default().lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let wrong = |line: &str| Error::field("options", format!("must have name=value in each line, not {line:?}"));
    lines.map(|line| pair(line).ok_or_else(|| wrong(line))).collect()
}

fn types(form: &Form) -> Vec<String> {
    let words = form.get("types").unwrap_or_default().split([',', ' ', '\n']);
    words.map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn usage(form: &Form) -> Usage {
    if form.get("usage") == Some("on_demand") { Usage::OnDemand } else { Usage::Spot }
}

/// Milliseconds as a span that is read again.
fn as_span(ms: u64) -> String {
    match ms {
        ms if ms > 0 && ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms > 0 && ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms > 0 && ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

/// A field whose value is a number or a span.
fn short(name: &str, label: &str, hint: &str, value: &str) -> Markup {
    parts::text_field(name, label, hint, value, true)
}

/// The fields that a new pool and one that is there have.
fn fields(known: Option<&PoolView>) -> Markup {
    let usage = known.map_or(Usage::OnDemand, |known| known.usage);
    let options = known.map_or_else(String::new, |known| as_lines(&known.options));
    let types = known.map_or_else(String::new, |known| known.types.join(", "));
    let text =
        |value: Option<u32>, otherwise: &str| value.map_or_else(|| otherwise.to_owned(), |value| value.to_string());
    let rules = known.map_or(0, |known| known.min_idle_rules.len());
    html! {
        div.two {
            (short("min_idle", "Ready at any time, at least", "", &text(known.map(|known| known.min_idle), "1")))
            (short("max_size", "Machines, at most", "", &text(known.map(|known| known.max_size), "10")))
        }
        @if rules > 0 { p.hint { (format::counted(rules as u64, "rule asks", "rules ask")) " for more at some times; they stay as they are." } }
        div.two {
            (short("idle_ms", "An idle one that nobody needs stays", "", &as_span(known.map_or(1_800_000, |known| known.idle_ms))))
            (short("runtime_ms", "A claim keeps them, at most", "", &as_span(known.map_or(21_600_000, |known| known.runtime_ms))))
        }
        div.two {
            (parts::text_field("types", "Types", "Patterns with * and ?; empty: any.", &types, false))
            (parts::field("field-usage", "Paid for", "", html! {
                select.input id="field-usage" name="usage" {
                    option value="on_demand" selected[usage == Usage::OnDemand] { "on demand" }
                    option value="spot" selected[usage == Usage::Spot] { "spot" }
                }
            }))
        }
        div.checks { label { input type="checkbox" name="spot_fallback" value="1" checked[known.is_some_and(|known| known.spot_fallback)]; "On demand while there are no spot machines" } }
        (parts::field("field-options", "Options", "name=value, one a line. *** is a secret that stays as it is.", html! {
            textarea.input.mono id="field-options" name="options" rows="4" { (options) }
        }))
    }
}

/// Fields that a complaint about a pool may begin with.
const COMPLAINTS: [&str; 8] =
    ["options", "min_idle", "max_size", "idle_ms", "runtime_ms", "types", "cpu", "memory_mib"];

/// What is wrong stands at its field. Providers find fault with options, and name no field.
fn at_fields(error: Error) -> Error {
    match error {
        Error::Invalid(why) => {
            let named = COMPLAINTS.iter().find(|name| why.starts_with(**name));
            Error::field(*named.unwrap_or(&"options"), format!("is not taken: {why}"))
        }
        other => other,
    }
}

// ---- make, change, remove

async fn ask_new(asking: Asking) -> Response {
    let view = &asking.view;
    let asked = view.caller.may(Scope::Admin, &view.namespace).map(|()| Dialog {
        id: "new-pool",
        title: "New pool",
        action: "/form/pools/new",
        body: html! {
            (parts::hidden_namespace(view))
            div.two {
                (parts::text_field("name", "Name", "", "", true))
                (parts::field("field-provider", "Who makes its machines", "", html! {
                    select.input id="field-provider" name="provider" {
                        @for name in view.app.pools.providers.names() { option value=(name) selected[name == "local"] { (name) } }
                    }
                }))
            }
            div.two {
                (short("cpu", "Cores of each", "", "1"))
                (short("memory_mib", "Memory of each, MiB", "", "1024"))
            }
            (fields(None))
        },
        confirm: "Make it",
        is_dangerous: false,
    });
    asking.answer(Entry::Pools, ("Pools", &view.href("/pools")), asked)
}

async fn create(State(app): State<App>, form: Form) -> Response {
    let name = form.get("name").unwrap_or_default().trim();
    let of = form.about(&pool_path(name));
    let made = async {
        let wanted = CreatePool {
            namespace: of.namespace.to_owned(),
            provider: form.get("provider").map(str::to_owned),
            options: options(&form)?,
            cpu: number(&form, "cpu")?,
            memory_mib: number(&form, "memory_mib")?,
            types: types(&form),
            usage: Some(usage(&form)),
            spot_fallback: form.get("spot_fallback").is_some(),
            min_idle: number(&form, "min_idle")?.unwrap_or(0),
            max_size: number(&form, "max_size")?,
            idle_ms: span(&form, "idle_ms")?,
            runtime_ms: span(&form, "runtime_ms")?,
            ..CreatePool::new(name)
        };
        pools::create(&app, of.caller, wanted).await.map_err(at_fields)
    };
    let said = made.await.map(|(made, is_new)| match is_new {
        true => format!("The pool {} is there.", made.name),
        false => format!("The pool {} was there already, the same.", made.name),
    });
    form.answer(said, &of.next)
}

async fn ask_edit(asking: Asking, Path(name): Path<String>) -> Response {
    about(&asking, &name, Scope::Admin, "edit", |known| Dialog {
        id: "edit-pool",
        title: "Edit the pool",
        action: "",
        body: html! {
            input type="hidden" name="revision" value=(known.revision);
            p { bdi.b { (format::visible(&known.name)) } }
            (fields(Some(known)))
            p.hint { "Machines that are there keep what they were made with." }
        },
        confirm: "Save",
        is_dangerous: false,
    })
    .await
}

async fn edit(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let of = form.about(&pool_path(&name));
    let changed = async {
        let wanted = ChangePool {
            revision: number(&form, "revision")?,
            options: Some(options(&form)?),
            types: Some(types(&form)),
            usage: Some(usage(&form)),
            spot_fallback: Some(form.get("spot_fallback").is_some()),
            min_idle: number(&form, "min_idle")?,
            min_idle_rules: None,
            max_size: number(&form, "max_size")?,
            idle_ms: span(&form, "idle_ms")?,
            runtime_ms: span(&form, "runtime_ms")?,
        };
        pools::change(&app, of.caller, of.namespace, &name, wanted).await.map_err(at_fields)
    };
    form.answer(changed.await.map(|_| format!("The pool {name} is changed.")), &of.next)
}

async fn ask_remove(asking: Asking, Path(name): Path<String>) -> Response {
    about(&asking, &name, Scope::Admin, "remove", |known| Dialog {
        id: "remove-pool",
        title: "Remove the pool?",
        action: "",
        body: html! {
            p {
                bdi.b { (format::visible(&known.name)) } " takes no claims any more. "
                (format::counted(known.waiting_claims, "claim that waits fails", "claims that wait fail")) ", idle machines end, and those that run finish."
            }
            @if known.deleting {
                div.checks { label { input type="checkbox" name="force" value="1"; "Give up the " (size(known)) " machines that have not ended" } }
                p.hint { "Nobody waits for the provider to say that they are gone; whether they cost still has to be looked up there." }
            }
        },
        confirm: "Remove it",
        is_dangerous: true,
    })
    .await
}

async fn remove(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let of = form.about("/pools");
    let is_forced = form.get("force").is_some();
    let removed = pools::delete(&app, of.caller, of.namespace, &name, is_forced).await;
    form.answer(removed.map(|_| format!("The pool {name} goes when its last machine has ended.")), &of.next)
}

// ---- claims and machines

async fn ask_claim(asking: Asking, Path(name): Path<String>) -> Response {
    about(&asking, &name, Scope::Submit, "claim", |known| Dialog {
        id: "claim-pool",
        title: "Claim machines",
        action: "",
        body: html! {
            (parts::text_field("run_id", "For the run", "Your own name for it: letters, digits, and . _ : -", "", true))
            div.two {
                (short("count", "Machines", &format!("1 to {}, all or none.", known.max_size), "1"))
                (short("priority", "Priority", "0 to 9; 9 goes first.", "5"))
            }
            (parts::text_field("max_runtime_ms", "Keeps them, at most", "Empty: as long as the pool allows.", "", false))
        },
        confirm: "Claim",
        is_dangerous: false,
    })
    .await
}

async fn claim(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let of = form.about(&pool_path(&name));
    let opened = async {
        let wanted = OpenClaim {
            priority: number(&form, "priority")?,
            max_runtime_ms: span(&form, "max_runtime_ms")?,
            ..OpenClaim::new(form.get("run_id").unwrap_or_default().trim(), number(&form, "count")?.unwrap_or(1))
        };
        claims::open(&app, of.caller, of.namespace, &name, wanted).await
    };
    let said = opened.await.map(|(claim, is_new)| match is_new {
        true => {
            format!("{} waits for {}.", claim.run_id, format::counted(u64::from(claim.count), "machine", "machines"))
        }
        false => format!("{} has this claim already: it is {}.", claim.run_id, claim.state.as_str()),
    });
    form.answer(said, &of.next)
}

async fn ask_release(asking: Asking, Path(name): Path<String>) -> Response {
    let view = &asking.view;
    let run = view.query.get("run").unwrap_or_default();
    let known = claims::get(&view.app, &view.caller, &view.namespace, &name, run, 0);
    let dialog = |claim: &ClaimView| Dialog {
        id: "release-claim",
        title: if claim.ready_at.is_some() { "Release the machines?" } else { "Give the claim up?" },
        action: "",
        body: html! {
            input type="hidden" name="run" value=(claim.run_id);
            p {
                bdi.b { (format::visible(&claim.run_id)) }
                @if claim.ready_at.is_some() { " gives back " (format::counted(claim.runners.len() as u64, "machine", "machines")) ". What runs there is cut off." }
                @else { " leaves the line, and gives back what it has taken." }
            }
        },
        confirm: if claim.ready_at.is_some() { "Release them" } else { "Give it up" },
        is_dangerous: true,
    };
    let (path, from) = (pool_path(&name), view.href(&pool_path(&name)));
    asking.about(Entry::Pools, (&name, &from), &format!("/form{path}/release"), Scope::Submit, known, dialog).await
}

async fn release(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let of = form.about(&pool_path(&name));
    let run = form.get("run").unwrap_or_default();
    let released = claims::release(&app, of.caller, of.namespace, &name, run).await;
    form.answer(released.map(|claim| format!("The claim of {} has ended.", claim.run_id)), &of.next)
}

async fn ask_end(asking: Asking, Path((name, id)): Path<(String, String)>) -> Response {
    let view = &asking.view;
    let path = format!("{}/machines/{}", pool_path(&name), escape(&id));
    let known = runners::get(&view.app, &view.caller, &view.namespace, &name, &id);
    let dialog = |runner: &RunnerView| Dialog {
        id: "end-machine",
        title: "End the machine?",
        action: "",
        body: html! {
            @match (runner.state, &runner.run_id) {
                (RunnerState::Running, Some(run)) => p.c-bad { (icon("warn")) " It runs " bdi.b { (format::visible(run)) } ", which is cut off." },
                (RunnerState::Claimed, Some(run)) => p { "The claim of " bdi.b { (format::visible(run)) } " takes another one in its place." },
                _ => p { "Nobody uses it." },
            }
            p.soft { "The provider is asked to end it. If the pool needs it, another one is made." }
        },
        confirm: "End it",
        is_dangerous: true,
    };
    asking
        .about(Entry::Pools, (&name, &view.href(&path)), &format!("/form{path}/end"), Scope::Admin, known, dialog)
        .await
}

async fn end(State(app): State<App>, Path((name, id)): Path<(String, String)>, form: Form) -> Response {
    let of = form.about(&format!("{}/machines/{}", pool_path(&name), escape(&id)));
    let ended = runners::end(&app, of.caller, of.namespace, &name, &id).await;
    form.answer(ended.map(|runner| format!("The machine {} is being ended.", format::short_id(&runner.id))), &of.next)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spans_are_read_again_as_they_were(ms in 0u64..400_000_000_000) {
            let read = baton_core::span::parse(&as_span(ms)).unwrap();
            prop_assert_eq!(u64::try_from(read.as_millis()).unwrap(), ms);
        }
    }
}
