//! Builds over HTTP: the protocol of Expo Free Agent under /api, and that of polling builders under /api/v1/builds.

mod credentials;
mod files;
mod follow;
mod forms;
mod git;
mod machines;
mod multipart;
mod overview;
mod runs;
mod storage;
mod workers;

pub(crate) use files::named as build_file;

use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use utoipa::openapi::path::{HttpMethod, PathItem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;

/// Second names of routes, which programs that exist use as well: method, second name, first name.
const SECOND_NAMES: [(HttpMethod, &str, &str); 4] = [
    (HttpMethod::Post, "/api/builds/submit", "/api/builds"),
    (HttpMethod::Post, "/api/workers/result", "/api/workers/upload"),
    (HttpMethod::Get, "/api/health", "/health"),
    (HttpMethod::Get, "/api/stats", "/public/stats"),
];

/// The routes of builds. Those under /api are given by programs that exist, and are explained in docs/expo.md.
pub(super) fn routes() -> OpenApiRouter<App> {
    let uploads = OpenApiRouter::new()
        .routes(routes!(runs::submit))
        .route("/api/builds/submit", post(runs::submit))
        .routes(routes!(workers::upload))
        .route("/api/workers/result", post(workers::upload))
        .routes(routes!(machines::artifact))
        .routes(routes!(storage::create, storage::options))
        .routes(routes!(storage::head, storage::patch, storage::delete))
        .routes(routes!(storage::get_cached, storage::put_cached))
        // They are streamed, and have limits of their own.
        .layer(DefaultBodyLimit::disable());
    let mut all = OpenApiRouter::new()
        .merge(uploads)
        .routes(routes!(runs::list))
        .routes(routes!(runs::active))
        .routes(routes!(runs::statistics))
        .routes(routes!(runs::get))
        .routes(routes!(runs::status))
        .routes(routes!(follow::logs, machines::logs))
        .routes(routes!(files::result))
        .routes(routes!(files::download))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::retry))
        .routes(routes!(files::source))
        .routes(routes!(files::certs))
        .routes(routes!(files::certs_secure))
        .routes(routes!(machines::authenticate))
        .routes(routes!(machines::ready))
        .routes(routes!(machines::status))
        .routes(routes!(machines::heartbeat))
        .routes(routes!(machines::measurements, machines::telemetry))
        .routes(routes!(workers::register))
        .routes(routes!(workers::poll))
        .routes(routes!(workers::unregister))
        .routes(routes!(workers::fail))
        .routes(routes!(workers::abandon))
        .routes(routes!(workers::heartbeat))
        .routes(routes!(workers::stats))
        .routes(routes!(overview::report))
        .routes(routes!(overview::diagnostics))
        .routes(routes!(overview::latest))
        .routes(routes!(overview::health))
        .route("/api/health", get(overview::health))
        .routes(routes!(overview::stats))
        .route("/api/stats", get(overview::stats))
        .routes(routes!(git::submit))
        .routes(routes!(git::pending))
        .routes(routes!(git::result));
    let paths = &mut all.get_openapi_mut().paths;
    for (method, second, first) in SECOND_NAMES {
        let found = paths.get_path_operation(first, method.clone()).cloned();
        if let Some(mut operation) = found {
            operation.summary = Some(format!("Another name of {first}."));
            paths.paths.insert(second.into(), PathItem::new(method, operation));
        }
    }
    all
}
