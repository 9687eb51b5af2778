//! Health, statistics for everybody, and what builders report of themselves.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::extract::{Auth, Json, Path};
use super::super::ok;
use crate::service::builds::overview;
use crate::{App, Error};

pub(super) async fn health(State(app): State<App>) -> Result<Response, Error> {
    let health = overview::health(&app).await?;
    Ok(ok(&json!({
        "status": "ok",
        "queue": {"pending": health.pending, "active": health.active},
        "storage": health.storage,
    })))
}

pub(super) async fn stats(State(app): State<App>) -> Result<Response, Error> {
    let stats = overview::stats(&app).await?;
    Ok(ok(&json!({
        "nodesOnline": stats.nodes_online,
        "buildsQueued": stats.builds_queued,
        "activeBuilds": stats.active_builds,
        "buildsToday": stats.builds_today,
        "totalBuilds": stats.total_builds,
    })))
}

pub(super) async fn report(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(report): Json<Value>,
) -> Result<Response, Error> {
    overview::report(&app, &caller, report).await?;
    Ok(ok(&json!({"success": true})))
}

pub(super) async fn diagnostics(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(worker_id): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&json!({"reports": overview::reports(&app, &caller, &worker_id).await?})))
}

pub(super) async fn latest(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(worker_id): Path<String>,
) -> Result<Response, Error> {
    let report = overview::reports(&app, &caller, &worker_id).await?.pop();
    report.map(|report| ok(&report)).ok_or(Error::NotFound { what: "report", id: format!("of the worker {worker_id}") })
}
