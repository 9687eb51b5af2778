//! /api/v1/bulk

use axum::extract::State;
use axum::response::Response;
use baton_proto::{BulkCount, BulkPage, BulkView, CreateBulk, Problem};
use baton_store::Page;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Json, Params, Path};
use super::runs::{cursor, idempotency_key, page_size};
use super::{answer, ok};
use crate::service::bulk::{self, Created};
use crate::{App, Error};

/// Begin an operation on all runs that a filter finds, or count them (`dry_run`).
///
/// It covers runs that were submitted before, and comes to each of them once. The same key with the same body gives the same
/// operation.
#[utoipa::path(post, path = "/api/v1/bulk", tag = "bulk", security(("api_key" = ["submit"])), request_body = CreateBulk,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body gives the same operation")),
    responses((status = 201, body = BulkView, description = "The operation"),
        (status = 200, body = BulkCount, description = "How many runs it would act on; nothing was changed"),
        (status = 422, body = Problem), (status = 429, body = Problem, description = "The namespace has as many operations that go on as it may")))]
pub(super) async fn create(
    State(app): State<App>,
    Auth(caller): Auth,
    headers: HeaderMap,
    Json(wanted): Json<CreateBulk>,
) -> Result<Response, Error> {
    match bulk::create(&app, &caller, wanted, idempotency_key(&headers)?).await? {
        Created::Counted(count) => Ok(ok(&count)),
        Created::Begun(operation) => Ok(answer(StatusCode::CREATED, &operation)),
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListBulks {
    /// Only this namespace.
    namespace: Option<String>,
    /// Only this state.
    #[param(value_type = Option<baton_proto::words::BulkState>)]
    state: Option<String>,
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List bulk operations, newest first.
#[utoipa::path(get, path = "/api/v1/bulk", tag = "bulk", security(("api_key" = ["read"])), params(ListBulks),
    responses((status = 200, body = BulkPage)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListBulks>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit };
    let (namespace, state) = (wanted.namespace.as_deref(), wanted.state.as_deref());
    let operations = bulk::list(&app, &caller, namespace, state, page).await?;
    let next_cursor = operations.last().filter(|_| operations.len() == limit).map(|last| last.id.clone());
    Ok(ok(&BulkPage { operations, next_cursor }))
}

/// Get one bulk operation.
#[utoipa::path(get, path = "/api/v1/bulk/{id}", tag = "bulk", security(("api_key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, body = BulkView), (status = 404, body = Problem)))]
pub(super) async fn get(State(app): State<App>, Auth(caller): Auth, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&bulk::get(&app, &caller, &id).await?))
}

/// Stop a bulk operation. Runs that it has acted on stay as they are; one that has ended does, too.
#[utoipa::path(post, path = "/api/v1/bulk/{id}/stop", tag = "bulk", security(("api_key" = ["submit"])), params(("id" = String, Path)),
    responses((status = 200, body = BulkView), (status = 404, body = Problem)))]
pub(super) async fn stop(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&bulk::stop(&app, &caller, &id).await?))
}
