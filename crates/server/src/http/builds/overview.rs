//! Health, statistics for everybody, and what builders report of themselves.

use axum::extract::State;
use axum::response::Response;
use baton_proto::{BuildQueue, DiagnosticReports, Problem, PublicStats, ServerHealth, StoredReport};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::super::extract::{Auth, Json, Params, Path};
use super::super::ok;
use crate::service::builds::overview;
use crate::{App, Error};

/// See whether the server works, and how many builds wait.
#[utoipa::path(get, path = "/health", tag = "overview",
    responses((status = 200, body = ServerHealth), (status = 503, body = Problem)))]
pub(super) async fn health(State(app): State<App>) -> Result<Response, Error> {
    let health = overview::health(&app).await?;
    Ok(ok(&ServerHealth {
        status: "ok".into(),
        queue: BuildQueue { pending: health.pending, active: health.active },
        storage: health.storage.into(),
    }))
}

/// Numbers for everybody, a few seconds old.
#[utoipa::path(get, path = "/public/stats", tag = "overview",
    responses((status = 200, body = PublicStats), (status = 503, body = Problem)))]
pub(super) async fn stats(State(app): State<App>) -> Result<Response, Error> {
    let stats = overview::stats(&app).await?;
    Ok(ok(&PublicStats {
        nodes_online: stats.nodes_online,
        builds_queued: stats.builds_queued,
        active_builds: stats.active_builds,
        builds_today: stats.builds_today,
        total_builds: stats.total_builds,
    }))
}

/// Keep what a builder reports of itself; the last report of each day stays.
#[utoipa::path(post, path = "/api/diagnostics/report", tag = "overview", security(("api_key" = ["worker"])),
    request_body(content = Object, description = "`worker_id`, and anything else"),
    responses((status = 200, body = StoredReport), (status = 413, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn report(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(report): Json<Value>,
) -> Result<Response, Error> {
    let id = overview::report(&app, &caller, report).await?;
    Ok(ok(&StoredReport { success: true, id, status: "stored".into() }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ReportsQuery {
    /// At most this many.
    limit: Option<usize>,
}

/// Read the reports of a builder, one for each day, newest first.
#[utoipa::path(get, path = "/api/diagnostics/{worker_id}", tag = "overview", security(("api_key" = ["read"])),
    params(("worker_id" = String, Path, description = "The builder"), ReportsQuery),
    responses((status = 200, body = DiagnosticReports)))]
pub(super) async fn diagnostics(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(worker_id): Path<String>,
    Params(query): Params<ReportsQuery>,
) -> Result<Response, Error> {
    let reports = overview::reports(&app, &caller, &worker_id, query.limit).await?;
    Ok(ok(&DiagnosticReports { worker_id, reports }))
}

/// Read the last report of a builder.
#[utoipa::path(get, path = "/api/diagnostics/{worker_id}/latest", tag = "overview", security(("api_key" = ["read"])),
    params(("worker_id" = String, Path, description = "The builder")),
    responses((status = 200, body = Object), (status = 404, body = Problem)))]
pub(super) async fn latest(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(worker_id): Path<String>,
) -> Result<Response, Error> {
    let report = overview::reports(&app, &caller, &worker_id, Some(1)).await?.pop();
    report.map(|report| ok(&report)).ok_or(Error::NotFound { what: "report", id: format!("of the worker {worker_id}") })
}
