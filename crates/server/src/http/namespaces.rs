//! /api/v1/namespaces

use axum::extract::State;
use axum::response::Response;
use baton_proto::{ChangeNamespace, CreateNamespace, DisableNamespace, NamespacePage, NamespaceView, Problem};
use baton_store::Page;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Json, Params, Path};
use super::runs::page_size;
use super::{answer, ok};
use crate::{App, Error, service};

/// Make a namespace. It would also be made on first use; this sets its description and limits from the start.
#[utoipa::path(post, path = "/api/v1/namespaces", tag = "namespaces", security(("api_key" = ["admin"])), request_body = CreateNamespace,
    responses((status = 201, body = NamespaceView), (status = 200, body = NamespaceView, description = "It was made before, the same"),
        (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(wanted): Json<CreateNamespace>,
) -> Result<Response, Error> {
    let (made, is_new) = service::namespaces::create(&app, &caller, wanted).await?;
    Ok(answer(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &made))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListNamespaces {
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
    /// Count all.
    total: bool,
}

/// List namespaces by name. A key for one namespace sees that one.
#[utoipa::path(get, path = "/api/v1/namespaces", tag = "namespaces", security(("api_key" = ["read"])), params(ListNamespaces),
    responses((status = 200, body = NamespacePage)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListNamespaces>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let (namespaces, total) = service::namespaces::list(&app, &caller, Page { after: wanted.cursor, limit }).await?;
    let next_cursor = namespaces.last().filter(|_| namespaces.len() == limit).map(|last| last.name.clone());
    Ok(ok(&NamespacePage { namespaces, next_cursor, total: wanted.total.then_some(total) }))
}

/// Get one namespace.
#[utoipa::path(get, path = "/api/v1/namespaces/{name}", tag = "namespaces", security(("api_key" = ["read"])), params(("name" = String, Path)),
    responses((status = 200, body = NamespaceView), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&service::namespaces::get(&app, &caller, &name).await?))
}

/// Change a namespace's description and limits.
#[utoipa::path(patch, path = "/api/v1/namespaces/{name}", tag = "namespaces", security(("api_key" = ["admin"])), params(("name" = String, Path)),
    request_body = ChangeNamespace,
    responses((status = 200, body = NamespaceView), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn change(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
    Json(wanted): Json<ChangeNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&service::namespaces::change(&app, &caller, &name, wanted).await?))
}

/// Let a namespace take nothing new. What is under way may finish.
#[utoipa::path(post, path = "/api/v1/namespaces/{name}/disable", tag = "namespaces", security(("api_key" = ["admin"])),
    params(("name" = String, Path)), request_body = DisableNamespace,
    responses((status = 200, body = NamespaceView), (status = 404, body = Problem)))]
pub(super) async fn disable(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
    Json(wanted): Json<DisableNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&service::namespaces::disable(&app, &caller, &name, &wanted.reason).await?))
}

/// Let a namespace take things again.
#[utoipa::path(post, path = "/api/v1/namespaces/{name}/enable", tag = "namespaces", security(("api_key" = ["admin"])),
    params(("name" = String, Path)), responses((status = 200, body = NamespaceView), (status = 404, body = Problem)))]
pub(super) async fn enable(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&service::namespaces::enable(&app, &caller, &name).await?))
}
