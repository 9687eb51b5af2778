//! /healthz, /readyz, /metrics: for machines that watch machines. No credential; nothing secret.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use baton_proto::Problem;
use http::{StatusCode, header};

use super::extract::{Peer, credential};
use super::ok;
use super::problem::refusal;
use crate::proxies::is_forwarded;
use crate::service::health::{self, Readiness};
use crate::{App, Error};

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200)))]
pub(super) async fn healthz() -> Response {
    ok(&serde_json::json!({"status": "ok"}))
}

/// The server can do its work: its store can be reached and was not changed by a newer version, and
/// the disks it writes to have room.
#[utoipa::path(get, path = "/readyz", tag = "operations", responses((status = 200), (status = 503, body = Problem)))]
pub(super) async fn readyz(State(app): State<App>) -> Result<Response, Error> {
    let unready = |error, code| Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, Problem::new(error, code)));
    match health::readiness(&app).await? {
        Readiness::Ready => {
            let store = health::store_kind(&app);
            Ok(ok(&serde_json::json!({"status": "ready", "store": store, "loops": app.loops.all()})))
        }
        Readiness::DiskFull(used) => {
            let error = format!("the disk of the {used} is full: nothing new can be written until there is room again");
            unready(error, Error::DiskFull.code())
        }
        Readiness::NewerSchema { version, known } => {
            let error = format!(
                "the database has schema version {version}, and this server knows versions up to {known}: \
                 stop it and start the newer version of Baton that changed the database"
            );
            unready(error, Error::Unavailable.code())
        }
    }
}

/// Explain the codes of refusals, as docs/errors.md does: `type` of a problem points here.
#[utoipa::path(get, path = "/docs/errors", tag = "operations",
    responses((status = 200, description = "A page in HTML", content_type = "text/html")))]
pub(super) async fn errors() -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], super::problem::page()).into_response()
}

/// Counters, for Prometheus.
///
/// They name namespaces, queues and pools, so they are for this machine,
/// and for others with the key of the setting `metrics_key` or an API key that may read everything.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, content((String = "application/openmetrics-text"), (String = "text/plain"))), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub(super) async fn metrics(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let from = request.extensions().get::<Peer>().map(|peer| peer.0);
    crate::service::metrics::may_read(&app, credential(request.headers()), from, is_forwarded(request.headers()))
        .await?;
    let accepts = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let text = crate::service::metrics::text(&app).await;
    let (kind, text) = match accepts.contains("application/openmetrics-text") {
        true => ("application/openmetrics-text; version=1.0.0; charset=utf-8", text),
        false => ("text/plain; version=0.0.4; charset=utf-8", super::plain_metrics::of(&text)),
    };
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], text).into_response())
}
