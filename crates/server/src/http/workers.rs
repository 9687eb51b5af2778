//! /api/v1/workers

use axum::extract::State;
use axum::response::Response;
use baton_proto::{
    Claim, ClaimedRuns, Deregistered, Heartbeat, HeartbeatAnswer, Problem, RegisterWorker, RegisteredWorker,
    WorkerPage, WorkerView,
};
use baton_store::{Page, WorkerFilter};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Json, Params, Path};
use super::runs::{cursor, page_size};
use super::{answer, ok};
use crate::service::{self, worker_id};
use crate::{App, Error};

/// Register a worker. Every start is a new one.
#[utoipa::path(post, path = "/api/v1/workers", tag = "workers", security(("api_key" = ["worker"])), request_body = RegisterWorker,
    responses((status = 201, body = RegisteredWorker), (status = 422, body = Problem)))]
pub(super) async fn register(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(worker): Json<RegisterWorker>,
) -> Result<Response, Error> {
    Ok(answer(StatusCode::CREATED, &service::register::one(&app, &caller, worker).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListWorkers {
    /// Only this namespace.
    namespace: Option<String>,
    /// Only ONLINE, DRAINING or OFFLINE ones.
    #[param(value_type = Option<baton_proto::words::WorkerStatus>)]
    status: Option<String>,
    /// Only those serving this queue.
    queue: Option<String>,
    /// 1 to 1,000; 50 unless given.
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
    /// Count all.
    total: bool,
}

/// List workers, newest first.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", security(("api_key" = ["read"])), params(ListWorkers),
    responses((status = 200, body = WorkerPage)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListWorkers>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit };
    let status = wanted.status.as_deref().map(|word| {
        service::workers::status_named(word)
            .ok_or_else(|| Error::Invalid(format!("{word:?} is no status; there are ONLINE, DRAINING and OFFLINE")))
    });
    let filter = WorkerFilter { namespace: wanted.namespace, status: status.transpose()?, queue: wanted.queue };
    let (workers, total) = service::workers::list(&app, &caller, filter, page, wanted.total).await?;
    let next_cursor = if workers.len() == limit { workers.last().map(|worker| worker.id.clone()) } else { None };
    Ok(ok(&WorkerPage { workers, next_cursor, total }))
}

/// Get one worker.
#[utoipa::path(get, path = "/api/v1/workers/{id}", tag = "workers", security(("api_key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, body = WorkerView), (status = 404, body = Problem)))]
pub(super) async fn get(State(app): State<App>, Auth(caller): Auth, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&service::workers::get(&app, &caller, worker_id(&id)?).await?))
}

/// A sign of life: renews all leases of the worker.
#[utoipa::path(post, path = "/api/v1/workers/{id}/heartbeat", tag = "workers", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    request_body = Heartbeat, responses((status = 200, body = HeartbeatAnswer),
        (status = 409, body = Problem, description = "The worker is offline: register again")))]
pub(super) async fn heartbeat(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(beat): Json<Heartbeat>,
) -> Result<Response, Error> {
    Ok(ok(&service::renew::one(&app, &caller, worker_id(&id)?, beat).await?))
}

/// Ask for work, and wait for it.
#[utoipa::path(post, path = "/api/v1/workers/{id}/claim", tag = "workers", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    request_body = Claim, responses((status = 200, body = ClaimedRuns),
        (status = 409, body = Problem, description = "The worker is offline, draining, full or unfit")))]
pub(super) async fn claim(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(claim): Json<Claim>,
) -> Result<Response, Error> {
    let runs = service::claim::many(&app, &caller, worker_id(&id)?, claim).await?;
    Ok(ok(&ClaimedRuns { runs }))
}

/// The worker goes away and gives back what it holds.
#[utoipa::path(post, path = "/api/v1/workers/{id}/deregister", tag = "workers", security(("api_key" = ["worker"])), params(("id" = String, Path)),
    responses((status = 200, body = Deregistered), (status = 404, body = Problem)))]
pub(super) async fn deregister(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let given_back = service::workers::deregister(&app, &caller, worker_id(&id)?).await?;
    Ok(ok(&Deregistered { given_back }))
}

/// Tell a worker to take no new work.
#[utoipa::path(post, path = "/api/v1/workers/{id}/drain", tag = "workers", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    responses((status = 200, body = WorkerView), (status = 409, body = Problem, description = "It is offline")))]
pub(super) async fn drain(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&service::workers::drain(&app, &caller, worker_id(&id)?).await?))
}

/// Take everything from a worker, at once.
#[utoipa::path(post, path = "/api/v1/workers/{id}/offline", tag = "workers", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    responses((status = 200, body = Deregistered), (status = 404, body = Problem)))]
pub(super) async fn force_offline(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let given_back = service::workers::force_offline(&app, &caller, worker_id(&id)?).await?;
    Ok(ok(&Deregistered { given_back }))
}
