//! /api/v1/webhooks

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{
    ChangeWebhook, CreateWebhook, Problem, ReplayWebhook, ReplayedWebhook, RotateWebhook, WebhookDelivery,
    WebhookDeliveryPage, WebhookPage, WebhookTest, WebhookView,
};
use baton_store::{DeliveryId, Page, WebhookId};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::extract::{Auth, Json, Params, Path};
use super::runs::{cursor, page_size};
use super::{answer, ok};
use crate::service::webhooks;
use crate::{App, Error};

/// The routes of webhooks.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(get, change, delete))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(rotate))
        .routes(routes!(test))
        .routes(routes!(deliveries))
        .routes(routes!(replay_delivery))
        .routes(routes!(replay))
}

/// Make a webhook: events are sent to its URL as CloudEvents, signed by the Standard Webhooks specification.
///
/// The answer has its secret, which is never shown again. The same again, after a lost answer, does no harm, and shows no secret.
#[utoipa::path(post, path = "/api/v1/webhooks", tag = "webhooks", security(("api_key" = ["admin"])), request_body = CreateWebhook,
    responses((status = 201, body = WebhookView), (status = 200, body = WebhookView, description = "It was made before, the same"),
        (status = 409, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
async fn create(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(wanted): Json<CreateWebhook>,
) -> Result<Response, Error> {
    let (made, is_new) = webhooks::create(&app, &caller, wanted).await?;
    Ok(answer(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &made))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListWebhooks {
    /// Only this namespace.
    namespace: Option<String>,
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List webhooks, newest first, without their secrets.
#[utoipa::path(get, path = "/api/v1/webhooks", tag = "webhooks", security(("api_key" = ["read"])), params(ListWebhooks),
    responses((status = 200, body = WebhookPage)))]
async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListWebhooks>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = Page { after: cursor::<Uuid>(wanted.cursor.as_deref())?.map(WebhookId), limit };
    let webhooks = webhooks::list(&app, &caller, wanted.namespace.as_deref(), page).await?;
    let next_cursor = webhooks.last().filter(|_| webhooks.len() == limit).map(|last| last.id.clone());
    Ok(ok(&WebhookPage { webhooks, next_cursor }))
}

/// Get one webhook, without its secret.
#[utoipa::path(get, path = "/api/v1/webhooks/{id}", tag = "webhooks", security(("api_key" = ["read"])), params(("id" = String, Path)),
    responses((status = 200, body = WebhookView), (status = 404, body = Problem)))]
async fn get(State(app): State<App>, Auth(caller): Auth, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&webhooks::get(&app, &caller, &id).await?))
}

/// Change what a webhook calls, or which events it hears of.
#[utoipa::path(patch, path = "/api/v1/webhooks/{id}", tag = "webhooks", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    request_body = ChangeWebhook,
    responses((status = 200, body = WebhookView), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn change(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(wanted): Json<ChangeWebhook>,
) -> Result<Response, Error> {
    Ok(ok(&webhooks::change(&app, &caller, &id, wanted).await?))
}

/// Delete a webhook with all of its deliveries.
#[utoipa::path(delete, path = "/api/v1/webhooks/{id}", tag = "webhooks", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem)))]
async fn delete(State(app): State<App>, Auth(caller): Auth, Path(id): Path<String>) -> Result<Response, Error> {
    webhooks::delete(&app, &caller, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Pause a webhook: deliveries wait, and events of the meantime are not kept for it.
#[utoipa::path(post, path = "/api/v1/webhooks/{id}/pause", tag = "webhooks", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    responses((status = 200, body = WebhookView), (status = 404, body = Problem)))]
async fn pause(State(app): State<App>, Auth(caller): Auth, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&webhooks::control::pause(&app, &caller, &id).await?))
}

/// Resume a webhook that is paused or disabled. Its receiver is told that it has missed events.
#[utoipa::path(post, path = "/api/v1/webhooks/{id}/resume", tag = "webhooks", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    responses((status = 200, body = WebhookView), (status = 404, body = Problem)))]
async fn resume(State(app): State<App>, Auth(caller): Auth, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&webhooks::control::resume(&app, &caller, &id).await?))
}

/// Give a webhook another secret, which is shown once. Deliveries are signed with both for a while.
#[utoipa::path(post, path = "/api/v1/webhooks/{id}/rotate", tag = "webhooks", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    request_body = RotateWebhook,
    responses((status = 200, body = WebhookView), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn rotate(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(wanted): Json<RotateWebhook>,
) -> Result<Response, Error> {
    Ok(ok(&webhooks::control::rotate(&app, &caller, &id, wanted).await?))
}

/// Call the receiver now with an event of the kind `ping`, and say what came of it. Also while the webhook is paused.
#[utoipa::path(post, path = "/api/v1/webhooks/{id}/test", tag = "webhooks", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    responses((status = 200, body = WebhookTest), (status = 404, body = Problem),
        (status = 429, body = Problem, description = "Many tests are under way at this server")))]
async fn test(State(app): State<App>, Auth(caller): Auth, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&webhooks::control::test(&app, &caller, &id).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListDeliveries {
    /// Only those that are `waiting`, `delivered` or `dead`.
    state: Option<String>,
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List the deliveries of a webhook, newest first, with what came of each attempt.
#[utoipa::path(get, path = "/api/v1/webhooks/{id}/deliveries", tag = "webhooks", security(("api_key" = ["admin"])),
    params(("id" = String, Path), ListDeliveries),
    responses((status = 200, body = WebhookDeliveryPage), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn deliveries(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(wanted): Params<ListDeliveries>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = Page { after: cursor::<Uuid>(wanted.cursor.as_deref())?.map(DeliveryId), limit };
    let deliveries = webhooks::deliveries::list(&app, &caller, &id, wanted.state.as_deref(), page).await?;
    let next_cursor = deliveries.last().filter(|_| deliveries.len() == limit).map(|last| last.id.clone());
    Ok(ok(&WebhookDeliveryPage { deliveries, next_cursor }))
}

/// Have a delivery made again, whether it has arrived or is dead.
#[utoipa::path(post, path = "/api/v1/webhooks/{id}/deliveries/{delivery}/replay", tag = "webhooks", security(("api_key" = ["admin"])),
    params(("id" = String, Path), ("delivery" = String, Path)),
    responses((status = 200, body = WebhookDelivery), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "As many deliveries wait as may")))]
async fn replay_delivery(
    State(app): State<App>,
    Auth(caller): Auth,
    Path((id, delivery)): Path<(String, String)>,
) -> Result<Response, Error> {
    Ok(ok(&webhooks::deliveries::replay(&app, &caller, &id, &delivery).await?))
}

/// Have all dead deliveries of a webhook made again, or those that died since a moment.
#[utoipa::path(post, path = "/api/v1/webhooks/{id}/replay", tag = "webhooks", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    request_body = ReplayWebhook, responses((status = 200, body = ReplayedWebhook), (status = 404, body = Problem)))]
async fn replay(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(wanted): Json<ReplayWebhook>,
) -> Result<Response, Error> {
    Ok(ok(&webhooks::deliveries::replay_all(&app, &caller, &id, wanted).await?))
}
