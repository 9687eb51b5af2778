//! Health, statistics for everybody, and what builders report of themselves.

use axum::extract::State;
use axum::response::Response;
use baton_proto::{BuildQueue, DiagnosticReports, Problem, PublicStats, ServerHealth, StorageState, StoredReport};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::super::extract::{Asker, Auth, Json, Params, Path};
use super::super::{answer, ok};
use crate::artifacts::StorageHealth;
use crate::service::builds::overview;
use crate::{App, Error};

/// See whether the server works, and how many builds wait. Where storages are and why they fail is
/// told to administrators only.
#[utoipa::path(get, path = "/health", tag = "overview",
    responses((status = 200, body = ServerHealth), (status = 503, description = "The database cannot be reached; or a storage, and then the answer also has all that 200 has", body = Problem)))]
pub(super) async fn health(State(app): State<App>, Asker(caller): Asker) -> Result<Response, Error> {
    let health = overview::health(&app).await?;
    let knows_all = caller.is_some_and(|caller| caller.is_administrator());
    let queue = BuildQueue { pending: health.pending, active: health.active };
    let storages: Vec<_> = health.storages.into_iter().map(|found| storage_state(found, knows_all)).collect();
    let failed: Vec<_> = storages.iter().filter(|storage| storage.status != OK).map(what_failed).collect();
    let (status, storage) = (if failed.is_empty() { OK } else { UNAVAILABLE }.into(), health.storage.into());
    let mut health = ServerHealth { status, queue, storage, storages, error: None, code: None };
    if failed.is_empty() {
        return Ok(ok(&health));
    }
    health.error = Some(format!("{}; no file can be stored until it is back", failed.join(", and ")));
    health.code = Some(Error::StorageUnavailable.code().into());
    Ok(answer(StatusCode::SERVICE_UNAVAILABLE, &health))
}

const OK: &str = "ok";
const UNAVAILABLE: &str = "unavailable";

fn storage_state(found: StorageHealth, knows_all: bool) -> StorageState {
    StorageState {
        role: found.role.into(),
        kind: found.kind.into(),
        status: if found.error.is_none() { OK } else { UNAVAILABLE }.into(),
        url: knows_all.then(|| found.url.to_string()),
        error: found.error.filter(|_| knows_all),
    }
}

/// What to say of a storage that cannot be used.
fn what_failed(storage: &StorageState) -> String {
    let name = if storage.role == "mirror" { "the mirror of the artifact storage" } else { "the artifact storage" };
    match &storage.error {
        Some(why) => format!("{name} cannot be used: {why}"),
        None => format!("{name} ({}) cannot be used", storage.kind),
    }
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
