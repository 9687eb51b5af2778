//! The HTTP face: decode, authenticate, one service call, encode. The files mirror the routes.

mod attention;
mod builds;
mod bulk;
mod cors;
mod error;
mod etag;
mod events;
mod extract;
mod keys;
mod leases;
mod name_cursor;
mod namespaces;
mod openapi;
mod operations;
mod plain_metrics;
mod pools;
mod problem;
mod queues;
mod runs;
mod schedules;
mod secrets;
mod settings;
mod shape;
mod statistics;
mod webhooks;
mod workers;

pub(crate) use builds::build_file;
pub(crate) use cors::Origins;
pub use extract::{Peer, ThroughProxy};
pub(crate) use extract::{credential, whole_body};
pub use openapi::openapi;

use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use baton_proto::Problem;
use bytes::Bytes;
use http::{Method, StatusCode, Uri, header};
use serde::Serialize;

use crate::answers::{self, Answer, Route, SharedByAll};
use crate::bodies::Share;
use crate::to_its_end::to_its_end;
use crate::{App, Error, grpc};

/// Heartbeats of the native API gather, and may wait for news.
const HEARTBEAT: &str = "/api/v1/workers/{id}/heartbeat";
/// So do those of runners' agents.
const RUNNER_HEARTBEAT: &str = "/api/v1/runners/{id}/heartbeat";

/// Those who listen wait for what happens, and so do pages of the dashboard and followers of a log.
const STREAMS: [&str; 3] = ["/api/v1/events", "/live", "/runs/{id}/log/live"];

/// Routes that hand out work although they only seem to read.
const CLAIMING: [&str; 2] = ["/api/v1/builds/pending", "/api/workers/poll"];

/// All routes of the HTTP face.
pub fn router(app: App) -> Router {
    let (router, document) = openapi::documented();
    let document = Bytes::from(document.to_string());
    // The dashboard has a page for addresses that nothing is at.
    let router = match app.dashboard.get() {
        Some(dashboard) => router.merge(dashboard()),
        None => router.fallback(async |headers: http::HeaderMap| no_route(&headers)),
    };
    let router = router
        .route(
            "/openapi.json",
            axum::routing::get(async move || (Extension(SharedByAll), bytes_of_json(StatusCode::OK, document.clone()))),
        )
        .method_not_allowed_fallback(async || not_allowed("this path does not take that method; see /openapi.json"))
        // One layer for all that requests have in common: each moves the whole of a request's future.
        .layer(middleware::from_fn_with_state(app.clone(), count));
    match app.cors.is_empty() {
        true => router.with_state(app),
        false => router.layer(middleware::from_fn_with_state(app.clone(), cors::allow)).with_state(app),
    }
}

/// What is said where no route is.
pub(crate) fn no_route(headers: &http::HeaderMap) -> Response {
    match grpc::is_call(headers) {
        true => grpc::unimplemented(),
        false => Error::NotFound { what: "route", id: "with this path; see /openapi.json".into() }.into_response(),
    }
}

fn not_allowed(why: &str) -> Response {
    problem::refusal(StatusCode::METHOD_NOT_ALLOWED, Problem::new(why, "method_not_allowed"))
}

/// Counts requests, times those that do not wait for work, and sees through those that change something.
async fn count(State(app): State<App>, matched: Option<MatchedPath>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let in_detail = problem::accepts(request.headers());
    let method = method_label(request.method());
    let route = matched.as_ref().map_or("none", MatchedPath::as_str).to_owned();
    let is_head = request.method() == Method::HEAD;
    if is_head && CLAIMING.contains(&route.as_str()) {
        app.metrics.answered_request(method, route, StatusCode::METHOD_NOT_ALLOWED.as_u16(), None);
        return not_allowed("GET on this path hands out work, and nobody would see which: it does not take HEAD");
    }
    if is_head {
        // An answer to it is one to GET without its bytes.
        *request.method_mut() = Method::GET;
    }
    let waits = route.ends_with("/claim")
        || route == HEARTBEAT
        || route == RUNNER_HEARTBEAT
        || STREAMS.contains(&route.as_str())
        || self::waits(request.uri());
    // A claim's caller has to be there to take the runs. Every other change is carried to its end even when its caller hangs
    // up: what was committed must still wake those who wait for it, and be written down.
    let changes = request.method() != http::Method::GET && !route.ends_with("/claim");
    let (from, uri) = (request.extensions().get::<Peer>().map(|peer| peer.0), request.uri().clone());
    let share = Share::default();
    request.extensions_mut().insert(share.clone());
    let answer = request.extensions().get::<Answer>().cloned().unwrap_or_else(|| Answer::new(None, None));
    if let Some(matched) = matched {
        answer.is_about(Route::Path(matched));
    }
    // Those whose answer can be made again, because they change nothing.
    let repeats = request.method() == Method::GET && !CLAIMING.contains(&route.as_str());
    let response = match (repeats, changes) {
        (true, _) => {
            let (parts, _) = request.into_parts();
            let make = async || {
                // Those that wait for something do not keep others from reading meanwhile.
                if !waits && let Err(error) = app.answers.may_read().await {
                    return (error.into_response(), 0);
                }
                let mut response = next.clone().run(Request::from_parts(parts.clone(), Body::empty())).await;
                if etag::has_tags(&route) {
                    response = etag::tag(response, parts.headers.get(header::IF_NONE_MATCH)).await;
                }
                let size = answers::size(&response);
                (response, size)
            };
            app.answers.fitting(&answer, make).await.unwrap_or_else(|error| answer.named(|| error.into_response()))
        }
        (false, changes) => {
            let making = answer.made_by(next.run(request));
            let response = match changes {
                true => to_its_end(making).await.unwrap_or_else(|| answer.named(|| Error::Internal.into_response())),
                false => making.await,
            };
            app.answers.fit_or_wait(&answer, answers::size(&response)).await;
            answer.made();
            response
        }
    };
    drop(share);
    if response.status() == StatusCode::FORBIDDEN {
        app.keys.note_refusal(&answer, from, &format!("{method} {}", uri.path())).await;
    }
    let seconds = (!waits).then(|| begun.elapsed().as_secs_f64());
    app.metrics.answered_request(method, route, response.status().as_u16(), seconds);
    let response = if in_detail { problem::in_detail(response) } else { response };
    if is_head { without_bytes(response) } else { response }
}

/// The head of an answer.
fn without_bytes(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact()
        && !head.headers.contains_key(header::CONTENT_LENGTH)
    {
        head.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::empty())
}

/// True for a request that wants to wait for something.
fn waits(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| part == "wait_ms" || part.starts_with("wait_ms=")))
}

/// Few labels, whatever clients make up: each is kept for good.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// An answer as compact JSON.
fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => bytes_of_json(status, bytes),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn ok(body: &impl Serialize) -> Response {
    answer(StatusCode::OK, body)
}

fn bytes_of_json(status: StatusCode, bytes: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], bytes.into()).into_response()
}
