//! `/keys`: who may do what, and since when nobody has used it.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use baton_proto::{CreateKey, CreatedKey, KeyView, RotateKey};
use baton_server::{App, Error, Page as Rows, Scope, service};
use maud::{Markup, html};

use crate::ask::{self, Asking};
use crate::format;
use crate::forms::Form;
use crate::page::{Entry, Page, part};
use crate::parts::{self, Dialog, ROWS_MAX, icon};
use crate::view::View;

/// What keys may do, in the order of how much it is.
const SCOPES: [(&str, &str); 4] = [
    ("read", "see runs, queues, workers and the like"),
    ("submit", "see, submit, cancel and signal"),
    ("worker", "claim runs and report on them"),
    ("admin", "everything, also keys and settings"),
];
/// How long a key may live, as it is offered.
const LIVES: [(&str, u64); 5] = [("until revoked", 0), ("1 day", 1), ("30 days", 30), ("90 days", 90), ("1 year", 365)];
const DAY_MS: u64 = 86_400_000;

/// Forms about keys.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/form/keys/new", get(ask_new).post(create))
        .route("/form/keys/{id}/rotate", get(ask_rotate).post(rotate))
        .route("/form/keys/{id}/revoke", get(ask_revoke).post(revoke))
}

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let all = every(view).await?;
    let (text, state) = (view.query.get("q").unwrap_or_default().to_lowercase(), view.query.get("state"));
    let mut rows: Vec<&KeyView> = all.iter().filter(|key| fits(key, &text, state)).collect();
    // The one in use first, then the newest.
    rows.sort_by(|one, other| {
        let rank =
            |key: &KeyView| (key.id != view.caller.key_id, std::cmp::Reverse((key.created_at.0, key.id.clone())));
        rank(one).cmp(&rank(other))
    });
    let begin = view.query.get("after").and_then(|after| rows.iter().position(|key| key.id == after));
    let shown: Vec<&KeyView> = rows.iter().skip(begin.map_or(0, |at| at + 1)).take(ROWS_MAX).copied().collect();
    let is_last = shown.last().map(|key| &key.id) == rows.last().map(|key| &key.id);
    let next = shown.last().filter(|_| !is_last).map(|key| key.id.as_str());
    let main = html! {
        div.stack {
            div.page-head {
                p.lead { (said(&all)) }
                div.end { (ask::link(view, "primary", "/form/keys/new", "New key")) }
            }
            section.panel aria-label="Keys" {
                (parts::filters(view, &["q", "state"], html! {
                    (parts::filter_text(&view.query, "q", "Name, id or namespace"))
                    (parts::filter_choice(&view.query, "state", "State",
                        &[("", "good and ended"), ("good", "good"), ("over", "over"), ("revoked", "revoked")]))
                }))
                (part("keys-list", &table(view, &shown)))
                (parts::pager(view, next))
            }
            section.panel aria-label="On the command line" {
                header { h2 { "On the command line" } }
                div.body.stack {
                    p.soft { "A key for a worker, and one for a program that submits:" }
                    (parts::command(&view.command("key create worker-1 --scope worker", true)))
                    (parts::command(&view.command("key create shop --scope submit --expires-in 90d", true)))
                }
            }
        }
    };
    Ok(Page::new(Entry::Keys, "Keys", main))
}

/// All keys that the caller may see. They are few: the service reads them as a whole, too.
async fn every(view: &View) -> Result<Vec<KeyView>, Error> {
    let whole = Rows { after: None, limit: usize::MAX };
    Ok(service::keys::list(&view.app, &view.caller, whole).await?.0)
}

fn fits(key: &KeyView, text: &str, state: Option<&str>) -> bool {
    let words = [Some(&key.name), Some(&key.id), key.namespace.as_ref()];
    let has_text = words.into_iter().flatten().any(|word| word.to_lowercase().contains(text));
    has_text && state.is_none_or(|state| state == state_of(key))
}

fn state_of(key: &KeyView) -> &'static str {
    match (key.good, key.revoked_at) {
        (true, _) => "good",
        (false, Some(_)) => "revoked",
        (false, None) => "over",
    }
}

fn said(all: &[KeyView]) -> String {
    let good = all.iter().filter(|key| key.good);
    let administrators = good.clone().filter(|key| key.scopes.iter().any(|scope| scope == "admin")).count();
    let unused = good.clone().filter(|key| key.used_at.is_none()).count();
    let count = good.count();
    let mut said = format!("{} good", format::counted(count as u64, "key is", "keys are"));
    if administrators > 0 {
        said.push_str(&format!(", {administrators} of them for administrators"));
    }
    if unused > 0 {
        said.push_str(&format!("; {unused} {} never been used", if unused == 1 { "has" } else { "have" }));
    }
    said + "."
}

fn table(view: &View, keys: &[&KeyView]) -> Markup {
    html! {
        div.scroll-x id="keys-list" {
            @if keys.is_empty() {
                (parts::empty("key", "No key is like this.", html! { p.soft { "Other words may find one." } }))
            } @else {
                table {
                    thead { tr {
                        th { "Name" } th { "Id" } th { "May" } th { "Namespace" } th { "State" } th { "Last used" }
                        th { "Made" } th { span.sr { "Actions" } }
                    } }
                    tbody { @for key in keys { (row(view, key)) } }
                }
            }
        }
    }
}

fn row(view: &View, key: &KeyView) -> Markup {
    let is_own = key.id == view.caller.key_id;
    html! {
        tr data-row data-key=(key.id) {
            td { span.row { span.b.cut dir="auto" { (format::visible(&key.name)) } @if is_own { span.chip.run { span { "this key" } } } } }
            td { code.id { (key.id) } }
            td { span.row { @for scope in &key.scopes { span.tag { (scope) } } } }
            td { @if let Some(namespace) = &key.namespace { span.cut dir="auto" { (format::visible(namespace)) } } @else { span.dim { "all" } } }
            td.nowrap { (state(view, key)) }
            td.nowrap { @if let Some(at) = key.used_at { (parts::ago(view, at.0)) } @else { span.dim { "never" } } }
            td.nowrap.soft { (parts::ago(view, key.created_at.0)) }
            td {
                @if key.revoked_at.is_none() {
                    div.actions {
                        (ask::link(view, "small", &format!("/form/keys/{}/rotate", key.id), "New secret"))
                        (ask::link(view, "small danger", &format!("/form/keys/{}/revoke", key.id), "Revoke"))
                    }
                }
            }
        }
    }
}

fn state(view: &View, key: &KeyView) -> Markup {
    html! {
        @match (state_of(key), key.expires_at) {
            ("good", None) => span.st.ok { (icon("ok")) "good" },
            ("good", Some(at)) => span.st.ok { (icon("later")) "ends " (parts::ago(view, at.0)) },
            ("revoked", _) => span.st.off { (icon("off")) "revoked " @if let Some(at) = key.revoked_at { (parts::ago(view, at.0)) } },
            _ => span.st.held { (icon("held")) "over" @if let Some(at) = key.expires_at { " " (parts::ago(view, at.0)) } },
        }
        @if let Some(until) = key.old_until.filter(|until| until.0 > view.now) {
            span.sm.soft { " · the secret before is good " (parts::ago(view, until.0)) }
        }
    }
}

// ---- a new key

async fn ask_new(asking: Asking) -> Response {
    let view = &asking.view;
    let body = html! {
        input type="hidden" name="ns" value=(view.namespace);
        (parts::text_field("name", "Name", "Who will use it: a person, a program, a machine.", "", true))
        fieldset {
            legend { "What it may do" }
            div {
                @for (scope, what) in SCOPES {
                    div.checks { label { input type="checkbox" name="scopes" value=(scope) checked[scope == "read"]; span { span.b { (scope) } " – " (what) } } }
                }
            }
        }
        div.two {
            @match &view.caller.namespace {
                Some(own) => (parts::field("field-namespace", "Namespace", "As this key.",
                    html! { input.input id="field-namespace" value=(own) disabled dir="auto"; })),
                None => (parts::text_field("namespace", "Namespace", "Empty: all of them.", &view.namespace, false)),
            }
            (parts::field("field-days", "Good for", "", html! {
                select.input id="field-days" name="days" {
                    @for (word, days) in LIVES { option value=(days) selected[days == 90] { (word) } }
                }
            }))
        }
        p.hint { "The key is shown once, in the next step." }
    };
    let dialog = Dialog {
        id: "new-key",
        title: "New key",
        action: "/form/keys/new",
        body,
        confirm: "Make the key",
        is_dangerous: false,
    };
    let address = view.href("/keys");
    asking.answer(Entry::Keys, ("Keys", &address), view.caller.has(Scope::Admin).map(|()| dialog))
}

async fn create(State(app): State<App>, form: Form) -> Response {
    let days = form.get("days").and_then(|days| days.parse::<u64>().ok()).filter(|days| *days > 0);
    let wanted = CreateKey {
        name: form.get("name").unwrap_or_default().trim().to_owned(),
        scopes: form.fields.all("scopes").map(str::to_owned).collect(),
        namespace: form.get("namespace").map(str::to_owned),
        expires_in_ms: days.map(|days| days.saturating_mul(DAY_MS)),
    };
    match service::keys::create(&app, &form.visitor.caller, wanted).await {
        Ok(created) => once(&form, "The new key", &created),
        Err(error) => form.refused(&error),
    }
}

/// Shows a key, this once.
fn once(form: &Form, title: &str, created: &CreatedKey) -> Response {
    let body = html! {
        p { "Keep it now: it is not shown again, and nobody can look it up." }
        (parts::command(&created.key))
        p.hint { "Programs find it in " code { "BATON_API_KEY" } ", the command line with " code { "baton login" } ". Its id is " code { (created.id) } "." }
    };
    ask::once(form.is_scripted, title, &body, "/keys")
}

// ---- another secret, and the end

async fn known(asking: &Asking, id: &str) -> Result<KeyView, Error> {
    let found = every(&asking.view).await?.into_iter().find(|key| key.id == id);
    found.ok_or_else(|| Error::NotFound { what: "key", id: id.to_owned() })
}

async fn ask_rotate(asking: Asking, Path(id): Path<String>) -> Response {
    let action = format!("/form/keys/{id}/rotate");
    let asked = known(&asking, &id).await.map(|key| Dialog {
        id: "rotate-key",
        title: "Give the key another secret?",
        action: &action,
        body: html! {
            p { bdi.b { (format::visible(&key.name)) } " gets a new secret, which is shown once. What it has done and holds stays its own." }
            (parts::field("field-hours", "The secret it has now stays good for", "Time for its users to change to the new one.", html! {
                select.input id="field-hours" name="hours" {
                    @for (word, hours) in [("no time: it has leaked", 0), ("1 hour", 1), ("1 day", 24), ("7 days", 168)] {
                        option value=(hours) selected[hours == 24] { (word) }
                    }
                }
            }))
        },
        confirm: "Make a new secret",
        is_dangerous: false,
    });
    let address = asking.view.href("/keys");
    asking.answer(Entry::Keys, ("Keys", &address), asked)
}

async fn rotate(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let hours = form.get("hours").and_then(|hours| hours.parse::<u64>().ok()).unwrap_or(24);
    let wanted = RotateKey { overlap_ms: Some(hours.saturating_mul(3_600_000)), expires_in_ms: None };
    match service::keys::rotate(&app, &form.visitor.caller, &id, wanted).await {
        Ok(created) => once(&form, "The new secret", &created),
        Err(error) => form.refused(&error),
    }
}

async fn ask_revoke(asking: Asking, Path(id): Path<String>) -> Response {
    let action = format!("/form/keys/{id}/revoke");
    let is_own = id == asking.view.caller.key_id;
    let asked = known(&asking, &id).await.map(|key| Dialog {
        id: "revoke-key",
        title: "Revoke the key?",
        action: &action,
        body: html! {
            p { bdi.b { (format::visible(&key.name)) } " " code.id { (key.id) } " is refused from now on. Its workers go offline, and what they hold is given to others." }
            @if is_own { p.c-bad { (icon("warn")) "This is the key you are signed in with: you are signed out." } }
            @match key.used_at {
                Some(at) => p.soft { "It was last used " (parts::ago(&asking.view, at.0)) " ago." },
                None => p.soft { "It has never been used." },
            }
        },
        confirm: "Revoke it",
        is_dangerous: true,
    });
    let address = asking.view.href("/keys");
    asking.answer(Entry::Keys, ("Keys", &address), asked)
}

async fn revoke(State(app): State<App>, Path(id): Path<String>, form: Form) -> Response {
    let revoked = service::keys::revoke(&app, &form.visitor.caller, &id, false).await;
    form.answer(revoked.map(|()| format!("The key {id} is revoked.")), "/keys")
}
