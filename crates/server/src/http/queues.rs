//! /api/v1/queues

use axum::extract::State;
use axum::response::Response;
use baton_proto::{NAMESPACE_DEFAULT, PAGE_MAX, PauseQueue, Problem, QueueLimits, QueueView, Queues};
use baton_store::Page;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Json, Params, Path};
use super::ok;
use super::runs::{cursor, page_size};
use crate::{App, Error, service};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct InNamespace {
    /// The namespace. [default: default]
    namespace: Option<String>,
}

impl InNamespace {
    pub(super) fn name(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT)
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQueues {
    /// Only queues of this namespace.
    namespace: Option<String>,
    /// 1 to 1,000. [default: 1000]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List queues with their depths and settings.
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues", security(("api_key" = ["read"])), params(ListQueues),
    responses((status = 200, body = Queues)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListQueues>,
) -> Result<Response, Error> {
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit: page_size(wanted.limit.or(Some(PAGE_MAX)))? };
    let (queues, next) = service::queues::list(&app, &caller, wanted.namespace.as_deref(), page).await?;
    Ok(ok(&Queues { queues, next_cursor: next.map(|id| id.to_string()) }))
}

/// Get one queue.
#[utoipa::path(get, path = "/api/v1/queues/{name}", tag = "queues", security(("api_key" = ["read"])), params(("name" = String, Path), InNamespace),
    responses((status = 200, body = QueueView), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&service::queues::get(&app, &caller, within.name(), &name).await?))
}

/// Change a queue's limits. A queue that does not exist yet is made, so that they hold from its first run on.
#[utoipa::path(patch, path = "/api/v1/queues/{name}", tag = "queues", security(("api_key" = ["admin"])), params(("name" = String, Path), InNamespace),
    request_body = QueueLimits, responses((status = 200, body = QueueView), (status = 422, body = Problem)))]
pub(super) async fn limit(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
    Params(within): Params<InNamespace>,
    Json(limits): Json<QueueLimits>,
) -> Result<Response, Error> {
    Ok(ok(&service::queues::limit(&app, &caller, within.name(), &name, limits).await?))
}

/// Stop a queue from handing out runs; what is held goes on. A queue that does not exist yet is made, so that it is paused
/// before its first run.
#[utoipa::path(post, path = "/api/v1/queues/{name}/pause", tag = "queues", security(("api_key" = ["admin"])), params(("name" = String, Path), InNamespace),
    request_body = PauseQueue, responses((status = 200, body = QueueView)))]
pub(super) async fn pause(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
    Params(within): Params<InNamespace>,
    Json(pause): Json<PauseQueue>,
) -> Result<Response, Error> {
    Ok(ok(&service::queues::pause(&app, &caller, within.name(), &name, pause).await?))
}

/// Let a queue hand out runs again.
#[utoipa::path(post, path = "/api/v1/queues/{name}/resume", tag = "queues", security(("api_key" = ["admin"])), params(("name" = String, Path), InNamespace),
    responses((status = 200, body = QueueView)))]
pub(super) async fn resume(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&service::queues::resume(&app, &caller, within.name(), &name).await?))
}
