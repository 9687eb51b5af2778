//! The HTTP face: decode, authenticate, one service call, encode. The files mirror the routes.

mod builds;
mod error;
mod extract;
mod keys;
mod leases;
mod operations;
mod queues;
mod runs;
mod workers;

pub use extract::Peer;

use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use baton_proto::Problem;
use http::{Method, StatusCode, header};
use serde::Serialize;
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::bodies::Share;
use crate::metrics::RequestLabels;
use crate::{App, Error, grpc};

#[derive(OpenApi)]
#[openapi(
    info(title = "Baton", description = "Hands each piece of work to exactly one worker, and takes it back when that worker falls."),
    components(schemas(Problem)),
    tags(
        (name = "runs", description = "Submit and follow pieces of work"),
        (name = "leases", description = "What the holder of a run reports"),
        (name = "workers", description = "Register, claim, and administer workers"),
        (name = "queues", description = "Depth, pause and limits"),
        (name = "keys", description = "API keys and the audit log"),
        (name = "operations", description = "Health and metrics")
    )
)]
struct Document;

fn documented() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(runs::submit, runs::list))
        .routes(routes!(runs::submit_batch))
        .routes(routes!(runs::get))
        .routes(routes!(runs::history))
        .routes(routes!(runs::explain))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::retry))
        .routes(routes!(leases::start))
        .routes(routes!(leases::start_batch))
        .routes(routes!(leases::complete))
        .routes(routes!(leases::complete_batch))
        .routes(routes!(leases::fail))
        .routes(routes!(leases::fail_batch))
        .routes(routes!(leases::give_back))
        .routes(routes!(leases::give_back_batch))
        .routes(routes!(leases::sleep))
        .routes(routes!(workers::register, workers::list))
        .routes(routes!(workers::get))
        .routes(routes!(workers::heartbeat))
        .routes(routes!(workers::claim))
        .routes(routes!(workers::deregister))
        .routes(routes!(workers::drain))
        .routes(routes!(workers::force_offline))
        .routes(routes!(queues::list))
        .routes(routes!(queues::get, queues::limit))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::audit))
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::metrics))
}

/// The document behind `/openapi.json`.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let (_, mut document) = documented().split_for_parts();
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-Key")));
    document.components.get_or_insert_default().add_security_scheme("api_key", key);
    document
}

/// All routes of the HTTP face.
pub fn router(app: App) -> Router {
    let document = serde_json::to_vec(&openapi()).expect("the document is plain data");
    let (router, _) = documented().split_for_parts();
    router
        .route(
            "/openapi.json",
            axum::routing::get(move || async move { bytes_of_json(StatusCode::OK, document.clone()) }),
        )
        .merge(builds::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(|| async {
            let problem = Problem {
                error: "this path does not take that method; see /openapi.json".into(),
                code: "method_not_allowed".into(),
            };
            answer(StatusCode::METHOD_NOT_ALLOWED, &problem)
        })
        .layer(middleware::from_fn_with_state(app.clone(), count))
        .with_state(app)
}

async fn no_route(headers: http::HeaderMap) -> Response {
    match grpc::is_call(&headers) {
        true => grpc::unimplemented(),
        false => Error::NotFound { what: "route", id: "with this path; see /openapi.json".into() }.into_response(),
    }
}

/// Counts requests, times those that do not wait for work, and sees through those that change something.
async fn count(State(app): State<App>, path: Option<MatchedPath>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = method_label(request.method());
    let route = path.as_ref().map_or("none", MatchedPath::as_str).to_owned();
    let waits = route.ends_with("/claim") || request.uri().query().is_some_and(|query| query.contains("wait_ms"));
    // A claim's caller has to be there to take the runs. Every other change is carried to its end even when its caller hangs
    // up: what was committed must still wake those who wait for it, and be written down.
    let changes = request.method() != http::Method::GET && !route.ends_with("/claim");
    let share = Share::default();
    request.extensions_mut().insert(share.clone());
    let response = match changes {
        true => tokio::spawn(next.run(request)).await.unwrap_or_else(|_| Error::Internal.into_response()),
        false => next.run(request).await,
    };
    drop(share);
    let status = response.status().as_u16();
    app.metrics.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    if !waits {
        app.metrics.request_seconds.observe(begun.elapsed().as_secs_f64());
    }
    response
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

fn bytes_of_json(status: StatusCode, bytes: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}
