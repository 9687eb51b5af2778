//! /api/v1/pools

mod agents;
mod claims;
mod runners;

use axum::extract::State;
use axum::response::Response;
use baton_proto::{ChangePool, CreatePool, NAMESPACE_DEFAULT, PoolPage, PoolView, Problem};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Auth, Json, Params, Path};
use super::queues::InNamespace;
use super::runs::page_size;
use super::{answer, name_cursor, ok};
use crate::service::pools;
use crate::{App, Error};

/// The routes of pools, claims, runners and agents.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(get, change, delete))
        .routes(routes!(claims::open, claims::list))
        .routes(routes!(claims::get, claims::release))
        .routes(routes!(runners::list))
        .routes(routes!(runners::get, runners::end))
        .routes(routes!(agents::join))
        .routes(routes!(agents::heartbeat))
        .routes(routes!(agents::next))
        .routes(routes!(agents::signal))
        .routes(routes!(agents::register, agents::deregister))
}

/// Make a pool. The same again, after a lost answer, does no harm.
#[utoipa::path(post, path = "/api/v1/pools", tag = "pools", security(("api_key" = ["admin"])), request_body = CreatePool,
    responses((status = 201, body = PoolView), (status = 200, body = PoolView, description = "It was made before, the same"),
        (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn create(State(app): State<App>, Auth(caller): Auth, Json(wanted): Json<CreatePool>) -> Result<Response, Error> {
    let (made, is_new) = pools::create(&app, &caller, wanted).await?;
    Ok(answer(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &made))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListPools {
    /// Only this namespace.
    namespace: Option<String>,
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List pools by namespace and name.
#[utoipa::path(get, path = "/api/v1/pools", tag = "pools", security(("api_key" = ["read"])), params(ListPools),
    responses((status = 200, body = PoolPage)))]
async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListPools>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = name_cursor::page(wanted.cursor.as_deref(), limit)?;
    let mut found = pools::read::list(&app, &caller, wanted.namespace.as_deref(), page).await?;
    let next_cursor = name_cursor::next(&mut found, limit, |pool| (&pool.namespace, &pool.name));
    Ok(ok(&PoolPage { pools: found, next_cursor }))
}

/// Get one pool, with its numbers.
#[utoipa::path(get, path = "/api/v1/pools/{pool}", tag = "pools", security(("api_key" = ["read"])), params(("pool" = String, Path), InNamespace),
    responses((status = 200, body = PoolView), (status = 404, body = Problem)))]
async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(pool): Path<String>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&pools::read::get(&app, &caller, within.name(), &pool).await?))
}

/// Change a pool. Options, types and rules are replaced as a whole; machines that are there already keep what they were made with.
#[utoipa::path(patch, path = "/api/v1/pools/{pool}", tag = "pools", security(("api_key" = ["admin"])), params(("pool" = String, Path), InNamespace),
    request_body = ChangePool,
    responses((status = 200, body = PoolView), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn change(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(pool): Path<String>,
    Params(within): Params<InNamespace>,
    Json(wanted): Json<ChangePool>,
) -> Result<Response, Error> {
    Ok(ok(&pools::change(&app, &caller, within.name(), &pool, wanted).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DeletePool {
    /// The namespace; `default` unless given.
    namespace: Option<String>,
    /// Give up machines that are being ended: for a provider that does not say any more what it has.
    #[serde(default)]
    force: bool,
}

/// Begin to delete a pool: claims that wait fail, idle runners end, running ones finish. With `force`, machines that are being ended are taken for gone, and
/// whoever forces it sees to it that they are; the audit log names them.
#[utoipa::path(delete, path = "/api/v1/pools/{pool}", tag = "pools", security(("api_key" = ["admin"])), params(("pool" = String, Path), DeletePool),
    responses((status = 200, body = PoolView), (status = 404, body = Problem)))]
async fn delete(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(pool): Path<String>,
    Params(wanted): Params<DeletePool>,
) -> Result<Response, Error> {
    let namespace = wanted.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    Ok(ok(&pools::delete(&app, &caller, namespace, &pool, wanted.force).await?))
}
