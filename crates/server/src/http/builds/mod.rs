//! Builds over HTTP: the protocol of Expo Free Agent under /api, and that of polling builders under /api/v1/builds.

mod credentials;
mod files;
mod follow;
mod git;
mod machines;
mod multipart;
mod overview;
mod runs;
mod storage;
mod workers;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, head, post};

use crate::App;

/// The routes of the protocol under /api. They are given by programs that exist, and are described in docs/expo.md.
pub(super) fn routes() -> Router<App> {
    let uploads = Router::new()
        .route("/api/builds", post(runs::submit))
        .route("/api/builds/submit", post(runs::submit))
        .route("/api/workers/upload", post(workers::upload))
        .route("/api/workers/result", post(workers::upload))
        .route("/api/builds/{id}/artifact", post(machines::artifact))
        .route("/api/v1/uploads", post(storage::create).options(storage::options))
        .route("/api/v1/uploads/{id}", head(storage::head).patch(storage::patch).delete(storage::delete))
        .route("/api/v1/cache/{sha256}", get(storage::get_cached).put(storage::put_cached))
        // They are streamed, and have limits of their own.
        .layer(DefaultBodyLimit::disable());
    Router::new()
        .merge(uploads)
        .route("/api/builds", get(runs::list))
        .route("/api/builds/active", get(runs::active))
        .route("/api/builds/statistics", get(runs::statistics))
        .route("/api/builds/{id}", get(runs::get))
        .route("/api/builds/{id}/status", get(runs::get))
        .route("/api/builds/{id}/logs", get(follow::logs).post(machines::logs))
        .route("/api/builds/{id}/download", get(files::result))
        .route("/api/builds/{id}/download/{which}", get(files::download))
        .route("/api/builds/{id}/cancel", post(runs::cancel))
        .route("/api/builds/{id}/retry", post(runs::retry))
        .route("/api/builds/{id}/source", get(files::source))
        .route("/api/builds/{id}/certs", get(files::certs))
        .route("/api/builds/{id}/certs-secure", get(files::certs_secure))
        .route("/api/builds/{id}/authenticate", post(machines::authenticate))
        .route("/api/builds/{id}/vm-ready", post(machines::ready))
        .route("/api/builds/{id}/vm-status", get(machines::status))
        .route("/api/builds/{id}/heartbeat", post(machines::heartbeat))
        .route("/api/builds/{id}/telemetry", get(machines::measurements).post(machines::telemetry))
        .route("/api/workers/register", post(workers::register))
        .route("/api/workers/poll", get(workers::poll))
        .route("/api/workers/unregister", post(workers::unregister))
        .route("/api/workers/fail", post(workers::fail))
        .route("/api/workers/abandon", post(workers::abandon))
        .route("/api/workers/heartbeat", post(workers::heartbeat))
        .route("/api/workers/{id}/stats", get(workers::stats))
        .route("/api/diagnostics/report", post(overview::report))
        .route("/api/diagnostics/{worker_id}", get(overview::diagnostics))
        .route("/api/diagnostics/{worker_id}/latest", get(overview::latest))
        .route("/health", get(overview::health))
        .route("/api/health", get(overview::health))
        .route("/api/stats", get(overview::stats))
        .route("/public/stats", get(overview::stats))
        .route("/api/v1/builds", post(git::submit))
        .route("/api/v1/builds/pending", get(git::pending))
        .route("/api/v1/builds/{id}/result", post(git::result))
}
