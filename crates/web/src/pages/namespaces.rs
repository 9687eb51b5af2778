//! `/namespaces`: parts of the installation that see nothing of each other, and what each may have.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use baton_proto::{ChangeNamespace, CreateNamespace, NAMESPACE_DEFAULT, NamespaceView};
use baton_server::service::namespaces::{self, USAGE_CAP, Usage};
use baton_server::{App, Error, Page as Rows};
use maud::{Markup, html};

use crate::ask::{self, Asking};
use crate::format;
use crate::forms::Form;
use crate::page::{Entry, Page, part};
use crate::parts::{self, Dialog, Tone, icon};
use crate::query::escape;
use crate::view::View;

/// How many namespaces a page has.
const NAMESPACES_MAX: usize = 50;
/// Limits: their names on the wire, and what people call them.
const LIMITS: [(&str, &str); 3] =
    [("live_runs_max", "Runs that have not ended"), ("workers_max", "Workers online"), ("schedules_max", "Schedules")];

/// Forms about namespaces.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/form/namespaces/new", get(ask_new).post(create))
        .route("/form/namespaces/{name}/edit", get(ask_edit).post(edit))
        .route("/form/namespaces/{name}/disable", get(ask_disable).post(disable))
        .route("/form/namespaces/{name}/enable", post(enable))
}

/// The page.
pub async fn page(view: &View) -> Result<Page, Error> {
    let after = view.query.get("after").map(str::to_owned);
    let rows = Rows { after, limit: NAMESPACES_MAX };
    let (shown, total) = namespaces::list(&view.app, &view.caller, rows).await?;
    let names: Vec<String> = shown.iter().map(|namespace| namespace.name.clone()).collect();
    let usage = namespaces::usage(&view.app, &view.caller, &names).await?;
    let next = names.last().filter(|_| names.len() == NAMESPACES_MAX).map(String::as_str);
    let list = html! {
        div.scroll-x id="namespaces-list" {
            @if shown.is_empty() {
                (parts::empty("ns", "No namespace here yet.", html! {
                    p.soft { "A namespace is made by the first run that is submitted to it." }
                    (parts::command(&view.command("run submit hello --namespace team-a", false)))
                }))
            } @else {
                table {
                    thead { tr {
                        th { "Name" } th { "State" } th { "Runs that have not ended" } th { "Workers online" } th { "Schedules" }
                        th { "Payloads" } th { "Made" } th { span.sr { "Actions" } }
                    } }
                    tbody { @for (namespace, usage) in shown.iter().zip(&usage) { (row(view, namespace, usage)) } }
                }
            }
        }
    };
    let main = html! {
        div.stack {
            div.page-head {
                p.lead {
                    (format::counted(total, "namespace", "namespaces")) ". What is in one sees nothing of the others: runs, workers, "
                    "schedules, pools and keys of its own. The name of one leads to it."
                }
                @if view.caller.is_administrator() {
                    div.end { (ask::link(view, "primary", "/form/namespaces/new", "New namespace")) }
                }
            }
            section.panel aria-label="Namespaces" {
                (part("namespaces-list", &list))
                (parts::pager(view, next))
            }
        }
    };
    Ok(Page::new(Entry::Namespaces, "Namespaces", main))
}

/// `/namespaces/choose`: which one is shown.
pub async fn choose(view: &View) -> Result<Page, Error> {
    let text = view.query.get("q").unwrap_or_default().to_lowercase();
    let every = Rows { after: None, limit: usize::MAX };
    let (all, _) = namespaces::list(&view.app, &view.caller, every).await?;
    let fit = all.iter().filter(|namespace| {
        [&namespace.name, &namespace.description].iter().any(|word| word.to_lowercase().contains(&text))
    });
    let shown: Vec<_> = fit.take(parts::ROWS_MAX).collect();
    let main = html! {
        section.panel aria-label="Namespaces" {
            (parts::filters(view, &["q"], parts::filter_text(&view.query, "q", "Name")))
            ul.menu {
                @for namespace in &shown {
                    li {
                        a href=(address(&namespace.name)) aria-current=[(namespace.name == view.namespace).then_some("true")] {
                            (icon("ns")) span.b dir="auto" { (format::visible(&namespace.name)) }
                            @if namespace.disabled { span.chip.warn { span { "disabled" } } }
                            span.soft.cut dir="auto" { (format::first_line(&namespace.description, 120)) }
                        }
                    }
                }
                @if shown.is_empty() { li { (parts::empty("ns", "No namespace is like this.", html! {})) } }
            }
        }
    };
    let page = Page::new(Entry::Namespaces, "Show another namespace", main);
    Ok(page.below("Namespaces", "/namespaces"))
}

/// The overview of a namespace.
fn address(name: &str) -> String {
    if name == NAMESPACE_DEFAULT { "/".to_owned() } else { format!("/?ns={}", escape(name)) }
}

fn row(view: &View, namespace: &NamespaceView, usage: &Usage) -> Markup {
    let name = &namespace.name;
    html! {
        tr data-row data-key=(name) {
            td {
                a.b.cut dir="auto" href=(address(name)) { (format::visible(name)) }
                @if !namespace.description.is_empty() {
                    div.sm.soft.cut dir="auto" { (format::first_line(&namespace.description, 120)) }
                }
            }
            td {
                @if namespace.disabled {
                    span.st.held { (icon("pause")) "disabled " @if let Some(at) = namespace.disabled_at { (parts::ago(view, at.0)) } }
                    @if let Some(why) = &namespace.disabled_reason { div.sm.soft dir="auto" { (format::first_line(why, 120)) } }
                } @else { span.st.ok { (icon("ok")) "open" } }
            }
            td { (used(usage.live_runs, namespace.live_runs_max, usage.live_runs >= USAGE_CAP)) }
            td { (used(usage.workers, namespace.workers_max, false)) }
            td { (used(usage.schedules, namespace.schedules_max, false)) }
            td { @if namespace.seal_payloads { span.tag { "encrypted" } } @else { span.dim { "as they are" } } }
            td.nowrap.soft { (parts::ago(view, namespace.created_at.0)) }
            td {
                @if view.caller.is_administrator() {
                    div.actions {
                        (ask::link(view, "small", &format!("/form/namespaces/{}/edit", escape(name)), "Edit"))
                        @if namespace.disabled {
                            form method="post" action={ "/form/namespaces/" (escape(name)) "/enable" } {
                                (parts::hidden_csrf()) button.btn.small { "Enable" }
                            }
                        } @else {
                            (ask::link(view, "small danger", &format!("/form/namespaces/{}/disable", escape(name)), "Disable"))
                        }
                    }
                }
            }
        }
    }
}

/// How much is used of what there may be.
fn used(used: u64, limit: Option<u64>, is_capped: bool) -> Markup {
    let count = if is_capped { format!("{} and more", format::number(used)) } else { format::number(used) };
    let tone = |limit: u64| {
        if used >= limit {
            Tone::Bad
        } else if used * 10 >= limit * 9 {
            Tone::Warn
        } else {
            Tone::Run
        }
    };
    html! {
        @match limit {
            None => { (count) span.dim { ", no limit" } },
            Some(limit) => span.row {
                (parts::bar(used as f64 / limit.max(1) as f64, tone(limit)))
                span.nowrap { (count) span.dim { " of " (format::number(limit)) } }
            },
        }
    }
}

// ---- forms

fn limit_fields(given: &dyn Fn(&str) -> Option<u64>) -> Markup {
    html! {
        @for (name, label) in LIMITS {
            @let id = format!("field-{name}");
            (parts::field(&id, label, "", html! {
                input.input id=(id) name=(name) inputmode="numeric" pattern="[0-9,]*" placeholder="no limit"
                    value=(given(name).map_or_else(String::new, |limit| limit.to_string()));
            }))
        }
    }
}

fn seal_field(is_sealed: bool) -> Markup {
    html! {
        div.checks { label { input type="checkbox" name="seal" value="1" checked[is_sealed]; "Encrypt new payloads before they reach the database" } }
    }
}

/// A limit of a form: none where the field is empty.
fn limit_of(form: &Form, name: &'static str) -> Result<Option<u64>, Error> {
    let Some(text) = form.get(name).map(|text| text.replace([',', ' '], "")).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| Error::field(name, "must be a whole number, or empty for no limit"))
}

async fn ask_new(asking: Asking) -> Response {
    let body = html! {
        (parts::text_field("name", "Name", "It stands in addresses and in metrics, and stays.", "", true))
        (parts::text_field("description", "What it is for", "", "", false))
        (limit_fields(&|_| None))
        (seal_field(false))
    };
    let dialog = Dialog {
        id: "new-namespace",
        title: "New namespace",
        action: "/form/namespaces/new",
        body,
        confirm: "Make it",
        is_dangerous: false,
    };
    asking.answer(Entry::Namespaces, ("Namespaces", "/namespaces"), Ok(dialog))
}

async fn create(State(app): State<App>, form: Form) -> Response {
    let made = async {
        let wanted = CreateNamespace {
            name: form.get("name").unwrap_or_default().trim().to_owned(),
            description: form.get("description").unwrap_or_default().to_owned(),
            live_runs_max: limit_of(&form, "live_runs_max")?,
            workers_max: limit_of(&form, "workers_max")?,
            schedules_max: limit_of(&form, "schedules_max")?,
            seal_payloads: form.get("seal").is_some(),
        };
        namespaces::create(&app, &form.visitor.caller, wanted).await
    };
    let said = made.await.map(|(made, is_new)| match is_new {
        true => format!("The namespace {} is there.", made.name),
        false => format!("The namespace {} was there already.", made.name),
    });
    form.answer(said, "/namespaces")
}

async fn ask_edit(asking: Asking, Path(name): Path<String>) -> Response {
    let action = format!("/form/namespaces/{}/edit", escape(&name));
    let asked = namespaces::get(&asking.view.app, &asking.view.caller, &name).await;
    let asked = asked.map(|namespace| Dialog {
        id: "edit-namespace",
        title: "Edit the namespace",
        action: &action,
        body: html! {
            p { bdi.b { (format::visible(&namespace.name)) } }
            (parts::text_field("description", "What it is for", "", &namespace.description, false))
            (limit_fields(&|limit| match limit {
                "live_runs_max" => namespace.live_runs_max,
                "workers_max" => namespace.workers_max,
                _ => namespace.schedules_max,
            }))
            p.hint { "Empty is no limit. What there is already stays when a limit is lower." }
            (seal_field(namespace.seal_payloads))
        },
        confirm: "Save",
        is_dangerous: false,
    });
    asking.answer(Entry::Namespaces, ("Namespaces", "/namespaces"), asked)
}

async fn edit(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let changed = async {
        let wanted = ChangeNamespace {
            description: Some(form.get("description").unwrap_or_default().to_owned()),
            live_runs_max: Some(limit_of(&form, "live_runs_max")?),
            workers_max: Some(limit_of(&form, "workers_max")?),
            schedules_max: Some(limit_of(&form, "schedules_max")?),
            seal_payloads: Some(form.get("seal").is_some()),
        };
        namespaces::change(&app, &form.visitor.caller, &name, wanted).await
    };
    form.answer(changed.await.map(|changed| format!("The namespace {} is changed.", changed.name)), "/namespaces")
}

async fn ask_disable(asking: Asking, Path(name): Path<String>) -> Response {
    let action = format!("/form/namespaces/{}/disable", escape(&name));
    let asked = async {
        let namespace = namespaces::get(&asking.view.app, &asking.view.caller, &name).await?;
        let usage = namespaces::usage(&asking.view.app, &asking.view.caller, std::slice::from_ref(&name)).await?;
        Ok((namespace, usage.first().copied().unwrap_or_default()))
    };
    let asked = asked.await.map(|(namespace, usage)| Dialog {
        id: "disable-namespace",
        title: "Disable the namespace?",
        action: &action,
        body: html! {
            p {
                bdi.b { (format::visible(&namespace.name)) } " takes no new runs, workers and schedules, and hands nothing out. "
                "What is under way may finish."
            }
            p.soft {
                (format::counted(usage.live_runs, "run has", "runs have")) " not ended, "
                (format::counted(usage.workers, "worker is", "workers are")) " online."
            }
            (parts::text_field("reason", "Why", "Shown to callers that are refused.", "", false))
        },
        confirm: "Disable it",
        is_dangerous: true,
    });
    asking.answer(Entry::Namespaces, ("Namespaces", "/namespaces"), asked)
}

async fn disable(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let reason = form.get("reason").unwrap_or_default();
    let disabled = namespaces::disable(&app, &form.visitor.caller, &name, reason).await;
    form.answer(disabled.map(|_| format!("The namespace {name} takes nothing new.")), "/namespaces")
}

async fn enable(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let enabled = namespaces::enable(&app, &form.visitor.caller, &name).await;
    form.answer(enabled.map(|_| format!("The namespace {name} is open again.")), "/namespaces")
}
