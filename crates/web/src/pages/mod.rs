//! The pages. Each is a function from a view to a page, and some forms; a page that is followed is made by the same
//! function again and again.

pub mod audit;
pub mod find;
pub mod keys;
pub mod namespaces;
pub mod overview;
pub mod pools;
pub mod queues;
pub mod run;
pub mod runs;
pub mod schedules;
pub mod settings;
pub mod signin;
pub mod types;
pub mod webhooks;
pub mod workers;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_server::{App, Error, face};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode, Uri};
use maud::html;

use crate::guarded;
use crate::page::{self, Entry, Page, Split};
use crate::parts::{self, icon};
use crate::session::{CSRF_MARK, Visitor, wants_page};
use crate::view::View;

/// The routes that show pages. [`page`] has a line for each.
pub const PATHS: &[&str] = &[
    "/",
    "/start",
    "/more",
    "/audit",
    "/keys",
    "/namespaces",
    "/namespaces/choose",
    "/pools",
    "/pools/{name}",
    "/pools/{name}/machines/{id}",
    "/queues",
    "/queues/{name}",
    "/runs/{id}",
    "/schedules",
    "/schedules/{name}",
    "/settings",
    "/webhooks",
    "/webhooks/{id}",
    "/workers",
    "/workers/{id}",
    "/runs",
    "/runs/new",
    "/builds",
    "/workflows",
    "/workflows/runs",
    "/workflows/types/{name}",
    "/bulk/{id}",
];

/// Routes of what pages send, and of what is loaded into them.
pub fn forms(router: Router<App>) -> Router<App> {
    let router = keys::forms(router);
    let router = namespaces::forms(router);
    let router = pools::forms(router);
    let router = run::forms(router);
    let router = schedules::forms(router);
    let router = settings::forms(router);
    let router = webhooks::forms(router);
    let router = queues::forms(router);
    let router = workers::forms(router);
    let router = runs::forms(router);
    find::forms(router)
}

/// A page, by the parts of its path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place(Vec<String>);

impl Place {
    /// The page at a path; none when its parts cannot be read.
    pub fn of(path: &str) -> Option<Place> {
        let parts = path.trim_matches('/').split('/').filter(|part| !part.is_empty());
        parts.map(crate::query::unescape).collect::<Option<_>>().map(Place)
    }
}

/// Makes a page. What cannot be made is a page that says so.
pub async fn page(view: &View, place: &Place) -> Page {
    let parts: Vec<&str> = place.0.iter().map(String::as_str).collect();
    let made = match parts.as_slice() {
        [] => overview::page(view).await,
        ["queues"] => queues::page(view).await,
        ["queues", name] => queues::one(view, name).await,
        ["workers"] => workers::page(view).await,
        ["workers", id] => workers::one(view, id).await,
        ["start"] => overview::start(view).await,
        ["runs"] => runs::page(view, Entry::Runs).await,
        ["runs", "new"] => runs::submit::page(view).await,
        ["builds"] => runs::page(view, Entry::Builds).await,
        ["workflows"] => types::page(view).await,
        ["workflows", "runs"] => runs::page(view, Entry::Workflows).await,
        ["workflows", "types", name] => types::one(view, name).await,
        ["bulk", id] => runs::operation(view, id).await,
        ["more"] => Ok(Page::new(Entry::More, "More", page::all_pages(view))),
        ["audit"] => audit::page(view).await,
        ["keys"] => keys::page(view).await,
        ["namespaces"] => namespaces::page(view).await,
        ["namespaces", "choose"] => namespaces::choose(view).await,
        ["pools"] => pools::page(view).await,
        ["pools", name] => pools::one(view, name).await,
        ["pools", name, "machines", id] => pools::machine(view, name, id).await,
        ["runs", id] => run::page(view, id).await,
        ["schedules"] => schedules::page(view).await,
        ["schedules", id] => schedules::one(view, id).await,
        ["settings"] => settings::page(view).await,
        ["webhooks"] => webhooks::page(view).await,
        ["webhooks", id] => webhooks::one(view, id).await,
        _ => Err(Error::NotFound { what: "page", id: view.path.clone() }),
    };
    made.unwrap_or_else(|error| failed(&error))
}

/// A page that says why there is none.
fn failed(error: &Error) -> Page {
    let (title, body) = match error {
        Error::NotFound { what, .. } => (
            format!("No such {what}"),
            parts::empty(
                "find",
                "Not here.",
                html! {
                    p.soft { "There is no such " (what) ", or it was removed when its time was over (retention)." }
                },
            ),
        ),
        Error::Forbidden(why) => (
            "Not allowed".to_owned(),
            parts::empty("key", "This key may not see this.", html! { p.soft { (why) "." } }),
        ),
        error => ("Not loaded".to_owned(), parts::panel_error(error)),
    };
    let status = error.clone().into_response().status();
    Page { status, ..Page::new(Entry::More, title, html! { section.panel { (body) } }) }
}

/// Shows a page.
pub async fn show(State(app): State<App>, visitor: Visitor, headers: HeaderMap, uri: Uri) -> Response {
    let view = match View::of(&app, &visitor, &headers, &uri).await {
        Ok(view) => view,
        Err(error) => return refusal(&error),
    };
    let Some(place) = Place::of(uri.path()) else { return StatusCode::NOT_FOUND.into_response() };
    let page = page(&view, &place).await;
    let content = Split::of(&page::app(&view, &page).0).whole();
    let document = page::document(&view, &page, &content).0.replace(CSRF_MARK, &visitor.csrf);
    written(page.status, document)
}

/// A page for people who are at an address that nothing is at. Programs hear the same as where there is no dashboard.
pub async fn not_found(headers: HeaderMap) -> Response {
    if !wants_page(&headers) {
        return face::no_route(&headers);
    }
    let main = html! {
        div.panel.stack {
            h1 { "Nothing is here" }
            p.soft { "No page of the dashboard and no route of the API has this address." }
            p { a.link href="/" { "To the overview" } }
        }
    };
    guarded(written(StatusCode::NOT_FOUND, page::plain("Nothing is here", signin::theme(&headers), &main).0))
}

/// HTML as an answer.
pub fn written(status: StatusCode, document: String) -> Response {
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], document).into_response()
}

/// A page without the shell that says why something was refused.
pub fn refusal(error: &Error) -> Response {
    let main = html! {
        div.panel.stack {
            h1 { "This was not done" }
            p { (icon("bad")) " " (error.to_string()) "." }
            p { a.link href="/" { "To the overview" } }
        }
    };
    written(error.clone().into_response().status(), page::plain("Not done", None, &main).0)
}
