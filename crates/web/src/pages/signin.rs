//! `/signin`: a key, or a link that signs in once, becomes a session.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use baton_server::service::sessions;
use baton_server::{App, Error, face};
use http::header::{REFERRER_POLICY, SET_COOKIE};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, Uri};
use maud::{Markup, html};

use crate::forms::{Form, own_path};
use crate::page;
use crate::pages::written;
use crate::parts;
use crate::query::Query;
use crate::session::{self, cookie};

/// Asks for a key.
pub async fn form(headers: HeaderMap, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    asked(StatusCode::OK, &headers, &own_path(query.get("next").unwrap_or("/")), None)
}

fn asked(status: StatusCode, headers: &HeaderMap, next: &str, wrong: Option<&str>) -> Response {
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or("this server");
    let described = if wrong.is_some() { "wrong key-hint" } else { "key-hint" };
    let main = html! {
        form.panel.stack method="post" action="/signin" {
            div { h1 { "Sign in" } p.soft { "to " (host) } }
            @if let Some(wrong) = wrong { p.c-bad id="wrong" role="alert" { (wrong) } }
            input type="hidden" name="next" value=(next);
            div.field {
                label for="key" { "API key" }
                input.input.big.mono id="key" name="key" type="password" autocomplete="current-password"
                    placeholder="bk_…" required autofocus aria-describedby=(described)
                    aria-invalid=[wrong.map(|_| "true")];
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
    page_of(status, headers, &main)
}

fn page_of(status: StatusCode, headers: &HeaderMap, main: &Markup) -> Response {
    written(status, page::plain("Sign in", theme(headers), main).0)
}

/// Makes a session of a key.
pub async fn submit(State(app): State<App>, request: Request) -> Response {
    let (headers, extensions) = (request.headers().clone(), request.extensions().clone());
    let bytes = match face::body(&app, request).await {
        Ok(bytes) => bytes,
        Err(error) => return error.into_response(),
    };
    let fields = Query::parse(&String::from_utf8_lossy(&bytes));
    let next = own_path(fields.get("next").unwrap_or("/"));
    if session::is_foreign(&headers) {
        return asked(StatusCode::FORBIDDEN, &headers, &next, Some("Another page has sent this key: type it here."));
    }
    let key = fields.get("key").unwrap_or_default().trim();
    if key.is_empty() {
        return asked(StatusCode::UNPROCESSABLE_ENTITY, &headers, &next, Some("Type the key."));
    }
    let before = session::shown(&app, &headers, &extensions);
    match sessions::sign_in(&app, key, face::address(&extensions), before).await {
        Ok(token) => begin(&app, &extensions, &headers, &token, &next),
        Err(error) => refused(&headers, &next, error, "This key is not good here."),
    }
}

/// One sentence, and nothing about whether there is such a key or link.
fn refused(headers: &HeaderMap, next: &str, error: Error, wrong: &str) -> Response {
    let why = match &error {
        Error::BadCredential(_) | Error::NoCredential | Error::NoCertifiedKey => wrong.to_owned(),
        error => format!("{error}."),
    };
    asked(error.into_response().status(), headers, next, Some(&why))
}

/// Asks whether to use a link: programs that look at links before people do must not use it up.
pub async fn once_form(headers: HeaderMap, Path(_): Path<String>) -> Response {
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or("this server");
    let main = html! {
        form.panel.stack method="post" {
            div { h1 { "Sign in" } p.soft { "to " (host) } }
            p.soft { "This link signs in once, within ten minutes of its making." }
            button.btn.primary.wide autofocus { "Sign in" }
        }
    };
    hidden(page_of(StatusCode::OK, &headers, &main))
}

/// Makes a session of a link.
pub async fn once(State(app): State<App>, Path(link): Path<String>, request: Request) -> Response {
    let (headers, extensions) = (request.headers(), request.extensions());
    if session::is_foreign(headers) {
        let wrong = "Another page has sent this link: open it here.";
        return hidden(asked(StatusCode::FORBIDDEN, headers, "/", Some(wrong)));
    }
    let before = session::shown(&app, headers, extensions);
    let next = own_path(Query::parse(request.uri().query().unwrap_or_default()).get("next").unwrap_or("/"));
    hidden(match sessions::sign_in_once(&app, &link, face::address(extensions), before).await {
        Ok(token) => begin(&app, extensions, headers, &token, &next),
        Err(error) => refused(headers, "/", error, "This link is not good any more. Ask for another one."),
    })
}

/// Keeps the address of a link from other pages.
fn hidden(mut response: Response) -> Response {
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Ends the session, or all sessions of its key.
pub async fn out(State(app): State<App>, form: Form) -> Response {
    let ended = match form.get("all") {
        Some(_) => sessions::end_all(&app, &form.visitor.caller, &form.visitor.caller.key_id).await.map(drop),
        None => sessions::sign_out(&app, &form.visitor.signed_in).await,
    };
    match ended.and_then(|()| session::no_cookie(&app, &form.extensions, &form.headers)) {
        Ok(value) => ([(SET_COOKIE, value)], Redirect::to("/signin")).into_response(),
        Err(error) => form.refused(&error),
    }
}

fn begin(app: &App, extensions: &Extensions, headers: &HeaderMap, token: &str, next: &str) -> Response {
    match session::set_cookie(app, extensions, headers, token) {
        Ok(value) => ([(SET_COOKIE, value)], Redirect::to(next)).into_response(),
        Err(error) => error.into_response(),
    }
}

/// The theme that the cookie of the script says.
pub fn theme(headers: &HeaderMap) -> Option<&'static str> {
    match cookie(headers, "baton_theme") {
        Some("dark") => Some("dark"),
        Some("light") => Some("light"),
        _ => None,
    }
}
