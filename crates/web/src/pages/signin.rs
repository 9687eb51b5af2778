//! `/signin`: a key, or a link that signs in once, becomes a session.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use baton_server::{App, Error, face};
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode, Uri};
use maud::html;

use crate::forms::{Form, own_path};
use crate::page;
use crate::pages::written;
use crate::parts;
use crate::query::Query;
use crate::session::{self, cookie};

/// Asks for a key.
pub async fn form(headers: HeaderMap, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    shown(StatusCode::OK, &headers, query.get("next").unwrap_or("/"), None)
}

fn shown(status: StatusCode, headers: &HeaderMap, next: &str, wrong: Option<&str>) -> Response {
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or("this server");
    let main = html! {
        form.panel.stack method="post" action="/signin" {
            div { h1 { "Sign in" } p.soft { "to " (host) } }
            @if let Some(wrong) = wrong { p.c-bad id="wrong" role="alert" { (wrong) } }
            input type="hidden" name="next" value=(next);
            div.field {
                label for="key" { "API key" }
                input.input.big.mono id="key" name="key" type="password" autocomplete="current-password"
                    placeholder="baton_…" required autofocus aria-describedby="key-hint";
                p.hint id="key-hint" { "What you see and may do here is what the key may." }
            }
            button.btn.primary.wide { "Sign in" }
            div.alt {
                h2 { "No key at hand?" }
                p.soft { "On the machine that runs the server:" }
                (parts::command("baton open"))
                p.hint { "It opens this page with a link that signs in once, within ten minutes." }
            }
        }
    };
    written(status, page::plain("Sign in", theme(headers), &main).0)
}

/// Makes a session of a key.
pub async fn submit(State(app): State<App>, request: Request) -> Response {
    let (headers, from) = (request.headers().clone(), face::address(request.extensions()));
    let bytes = match face::body(&app, request).await {
        Ok(bytes) => bytes,
        Err(error) => return error.into_response(),
    };
    let fields = Query::parse(&String::from_utf8_lossy(&bytes));
    let next = own_path(fields.get("next").unwrap_or("/"));
    let key = fields.get("key").unwrap_or_default().trim();
    match app.keys.check(Some(key), from).await {
        Ok(_) => begin(&app, key, &next),
        Err(error) => {
            let status = error.clone().into_response().status();
            let wrong = match error {
                Error::BadCredential(_) | Error::NoCredential => "This key is not good here.".to_owned(),
                error => format!("{error}."),
            };
            shown(status, &headers, &next, Some(&wrong))
        }
    }
}

/// Asks whether to use a link: programs that look at links before people do must not use it up.
pub async fn once_form(headers: HeaderMap, Path(_): Path<String>) -> Response {
    let main = html! {
        form.panel.stack method="post" data-submit="" {
            h1 { "Sign in" }
            p.soft { "This link signs in once." }
            button.btn.primary.wide autofocus { "Go on" }
        }
    };
    written(StatusCode::OK, page::plain("Sign in", theme(&headers), &main).0)
}

/// Makes a session of a link.
pub async fn once(headers: HeaderMap, Path(_): Path<String>) -> Response {
    shown(StatusCode::FORBIDDEN, &headers, "/", Some("This link is not good any more."))
}

/// Ends the session.
pub async fn out(State(app): State<App>, _: Form) -> Response {
    match session::set_cookie(&app, "", 0) {
        Ok(value) => ([(SET_COOKIE, value)], Redirect::to("/signin")).into_response(),
        Err(error) => error.into_response(),
    }
}

fn begin(app: &App, token: &str, next: &str) -> Response {
    match session::set_cookie(app, token, 604_800) {
        Ok(value) => ([(SET_COOKIE, value)], Redirect::to(next)).into_response(),
        Err(error) => error.into_response(),
    }
}

fn theme(headers: &HeaderMap) -> Option<&'static str> {
    match cookie(headers, "baton_theme") {
        Some("dark") => Some("dark"),
        Some("light") => Some("light"),
        _ => None,
    }
}
