//! `/find`: what the palette shows. Everything in it is bounded, and is what the caller may see.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use baton_server::service::lists::{self, ListFilter};
use baton_server::service::{pools, workers};
use baton_server::{App, Error, Page as Rows, Scope};
use http::{HeaderMap, StatusCode, Uri};
use maud::{Markup, html};

use super::runs::filter::Token;
use super::runs::row;
use super::written;
use crate::format;
use crate::page;
use crate::parts::{self, icon};
use crate::query::{Query, escape};
use crate::session::Visitor;
use crate::view::View;

/// Runs that are shown.
const RUNS: usize = 6;
/// Workers, queues, pools and types that are shown, of each.
const OTHERS: usize = 4;
/// Workers and pools among which they are looked for.
const LOOKED_MAX: usize = 1_000;
/// Longest text that is looked for, in characters.
const TEXT_MAX: usize = 200;

/// The route.
pub fn forms(router: Router<App>) -> Router<App> {
    router.route("/find", get(find))
}

/// One thing that was found.
struct Found {
    icon: &'static str,
    name: String,
    address: String,
    more: Markup,
}

async fn find(State(app): State<App>, visitor: Visitor, headers: HeaderMap, uri: Uri) -> Response {
    let found = async {
        let view = View::of(&app, &visitor, &headers, &uri).await?;
        let text: String = view.query.get("q").unwrap_or_default().trim().chars().take(TEXT_MAX).collect();
        sections(&view, &text).await
    };
    match found.await {
        Ok(found) => written(StatusCode::OK, found.0),
        Err(error) => written(StatusCode::OK, html! { p.body.c-bad { (error.to_string()) "." } }.0),
    }
}

async fn sections(view: &View, text: &str) -> Result<Markup, Error> {
    let go = pages(view, text);
    if text.is_empty() || !view.may(Scope::Read) {
        return Ok(html! { (section("Go to", &go)) });
    }
    let (runs, others) = (runs(view, text).await?, others(view, text).await?);
    let commands = commands(view, text, &others);
    // Somebody who types the name of a page wants to go there.
    let is_page = go.iter().any(|page| page.name.to_lowercase().starts_with(&text.to_lowercase()));
    let is_nothing = go.is_empty() && runs.is_empty() && others.is_empty() && commands.is_empty();
    Ok(html! {
        @if is_page { (section("Go to", &go)) }
        (section("Runs", &runs))
        (section("Found", &others))
        (section("Commands", &commands))
        @if !is_page { (section("Go to", &go)) }
        @if is_nothing { p.body.soft { "Nothing here is called so." } }
    })
}

fn section(title: &str, options: &[Found]) -> Markup {
    html! {
        @if !options.is_empty() {
            h3 { (title) }
            ul role="listbox" aria-label=(title) {
                @for option in options {
                    li role="option" aria-selected="false" {
                        (icon(option.icon))
                        a.cut href=(option.address) dir="auto" tabindex="-1" { (format::visible(&option.name)) }
                        span.push.dim.sm { (option.more) }
                    }
                }
            }
        }
    }
}

fn fits(name: &str, text: &str) -> bool {
    name.to_lowercase().contains(&text.to_lowercase())
}

fn pages(view: &View, text: &str) -> Vec<Found> {
    let all = page::links(view).into_iter().filter(|(name, ..)| fits(name, text));
    let option = |(name, path, icon): (&'static str, &'static str, &'static str)| Found {
        icon,
        name: name.to_owned(),
        address: view.href(path),
        more: html! {},
    };
    all.map(option).collect()
}

async fn runs(view: &View, text: &str) -> Result<Vec<Found>, Error> {
    let filter = ListFilter { namespace: view.namespace.clone(), ..ListFilter::default() };
    let found = lists::anywhere(&view.app, &view.caller, &filter, text, RUNS, false).await?;
    let option = |found: &lists::Listed| {
        let id = found.run.record.id.to_string();
        let (name, whose) = row::names(found);
        Found {
            icon: match found.kind {
                lists::ListedKind::Run => "plain",
                lists::ListedKind::Build => "build",
                lists::ListedKind::Workflow => "flow",
            },
            name: format!("{name} {whose}").trim().to_owned(),
            address: view.href(&format!("/runs/{id}")),
            more: html! { span.id { (format::short_id(&id)) } " " (parts::state(found.phase)) },
        }
    };
    Ok(found.runs.iter().map(option).collect())
}

/// Queues, types, workers and pools by a part of their name.
async fn others(view: &View, text: &str) -> Result<Vec<Found>, Error> {
    let (app, caller) = (&view.app, &view.caller);
    let mut found = Vec::new();
    let lanes = lists::lanes(app, caller, &view.namespace).await?;
    let mut queues: Vec<&str> =
        lanes.iter().map(|lane| lane.name.queue.as_str()).filter(|name| fits(name, text)).collect();
    queues.dedup();
    found.extend(queues.iter().take(OTHERS).map(|name| Found {
        icon: "queue",
        name: (*name).to_owned(),
        address: view.href(&format!("/queues/{}", escape(name))),
        more: html! { "queue" },
    }));
    let mut types: Vec<&str> =
        lanes.iter().map(|lane| lane.name.kind.as_str()).filter(|name| fits(name, text)).collect();
    types.sort_unstable();
    types.dedup();
    found.extend(types.iter().take(OTHERS).map(|name| Found {
        icon: "list",
        name: (*name).to_owned(),
        address: view.href(&Query::default().with("q", Token::Type((*name).to_owned()).to_string()).at("/runs")),
        more: html! { "runs of this type" },
    }));
    let filter = workers::by_namespace(&view.namespace);
    let rows = Rows { after: None, limit: LOOKED_MAX };
    let (workers, _) = workers::list(app, caller, filter, rows, false).await?;
    found.extend(workers.into_iter().filter(|worker| fits(&worker.name, text)).take(OTHERS).map(|worker| Found {
        icon: "worker",
        address: view.href(&format!("/workers/{}", worker.id)),
        name: worker.name,
        more: html! { "worker" },
    }));
    let rows = Rows { after: None, limit: OTHERS * 10 };
    let pools = pools::read::list(app, caller, Some(&view.namespace), rows).await?;
    found.extend(pools.into_iter().filter(|pool| fits(&pool.name, text)).take(OTHERS).map(|pool| Found {
        icon: "pool",
        address: view.href(&format!("/pools/{}", escape(&pool.name))),
        name: pool.name,
        more: html! { "pool" },
    }));
    Ok(found)
}

/// What could be done with it. Each leads to where it is asked first.
fn commands(view: &View, text: &str, others: &[Found]) -> Vec<Found> {
    let runs = |icon, name: String, q: String| Found {
        icon,
        name,
        address: view.href(&Query::default().with("q", q).at("/runs")),
        more: html! {},
    };
    let mut found = vec![
        runs("list", format!("Runs whose key begins with {text}"), Token::Key(format!("{text}*")).to_string()),
        runs("bad", format!("Runs that failed with {text}"), Token::Error(text.to_owned()).to_string()),
    ];
    if view.may(Scope::Admin) {
        let queue = others.iter().find(|other| other.icon == "queue");
        found.extend(queue.map(|queue| Found {
            icon: "pause",
            name: format!("Pause or resume queue {}…", queue.name),
            address: queue.address.clone(),
            more: html! { "asks first" },
        }));
        let worker = others.iter().find(|other| other.icon == "worker");
        found.extend(worker.map(|worker| Found {
            icon: "stop",
            name: format!("Drain worker {}…", worker.name),
            address: worker.address.clone(),
            more: html! { "asks first" },
        }));
    }
    if view.may(Scope::Submit) && (fits("submit a run", text) || fits("start a workflow", text)) {
        found.push(Found {
            icon: "play",
            name: "Submit a run…".into(),
            address: view.href("/runs/new"),
            more: html! { "asks first" },
        });
    }
    found
}
