//! /healthz, /readyz, /metrics: for machines that watch machines. No credential; nothing secret.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::Problem;
use http::{StatusCode, header};

use super::ok;
use crate::{App, Error};

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200)))]
pub(super) async fn healthz() -> Response {
    ok(&serde_json::json!({"status": "ok"}))
}

/// The server can do its work: its store can be reached.
#[utoipa::path(get, path = "/readyz", tag = "operations", responses((status = 200), (status = 503, body = Problem)))]
pub(super) async fn readyz(State(app): State<App>) -> Result<Response, Error> {
    app.store.now().await?;
    Ok(ok(&serde_json::json!({"status": "ready", "store": app.store.kind(), "loops": app.loops.all()})))
}

/// Counters, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations", responses((status = 200, content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    app.metrics.polls_waiting.set(app.dispatcher.waiting() as i64);
    app.metrics.store_statements.set(app.store.statements());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (StatusCode::OK, [(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response()
}
