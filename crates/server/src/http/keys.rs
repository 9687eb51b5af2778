//! /api/v1/keys, /api/v1/signin-links, /api/v1/whoami and /api/v1/audit

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{
    AuditPage, CreateKey, CreatedKey, EndedSessions, Keys, PAGE_MAX, Problem, RotateKey, SigninLink, Whoami,
};
use baton_store::Page;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Json, Params, Path, credential};
use super::runs::{cursor, page_size};
use super::{answer, ok};
use crate::{App, Error, service};

/// Make an API key. The key is shown this once.
#[utoipa::path(post, path = "/api/v1/keys", tag = "keys", security(("api_key" = ["admin"])), request_body = CreateKey,
    responses((status = 201, body = CreatedKey), (status = 422, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(wanted): Json<CreateKey>,
) -> Result<Response, Error> {
    Ok(answer(StatusCode::CREATED, &service::keys::create(&app, &caller, wanted).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListKeys {
    /// 1 to 1,000. [default: 1000]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List API keys, oldest first.
#[utoipa::path(get, path = "/api/v1/keys", tag = "keys", security(("api_key" = ["admin"])), params(ListKeys),
    responses((status = 200, body = Keys)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListKeys>,
) -> Result<Response, Error> {
    let page = Page { after: wanted.cursor, limit: page_size(wanted.limit.or(Some(PAGE_MAX)))? };
    let (keys, next_cursor) = service::keys::list(&app, &caller, page).await?;
    Ok(ok(&Keys { keys, next_cursor }))
}

/// Say who is calling: the API key, what it may do and where. Any key may ask.
#[utoipa::path(get, path = "/api/v1/whoami", tag = "keys", security(("api_key" = [])), responses((status = 200, body = Whoami)))]
pub(super) async fn whoami(State(app): State<App>, Auth(caller): Auth) -> Result<Response, Error> {
    Ok(ok(&service::keys::whoami(&app, &caller).await?))
}

/// Give an API key another secret, shown this once. The one before stays good for a while.
#[utoipa::path(post, path = "/api/v1/keys/{id}/rotate", tag = "keys", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    request_body = RotateKey,
    responses((status = 200, body = CreatedKey), (status = 404, body = Problem), (status = 422, body = Problem),
        (status = 409, body = Problem, description = "It was revoked, or its time is over")))]
pub(super) async fn rotate(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Json(wanted): Json<RotateKey>,
) -> Result<Response, Error> {
    Ok(ok(&service::keys::rotate(&app, &caller, &id, wanted).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RevokeKey {
    /// Revoke it even if it is the last admin key.
    force: bool,
}

/// Revoke an API key.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "keys", security(("api_key" = ["admin"])), params(("id" = String, Path), RevokeKey),
    responses((status = 204), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "It is the last admin key: make another first, or force it")))]
pub(super) async fn revoke(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    Params(wanted): Params<RevokeKey>,
) -> Result<Response, Error> {
    service::keys::revoke(&app, &caller, &id, wanted.force).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Sign out of the dashboard: end all sessions of an API key, and take back its links. Any key may for itself.
#[utoipa::path(delete, path = "/api/v1/keys/{id}/sessions", tag = "keys", security(("api_key" = ["admin"])), params(("id" = String, Path)),
    responses((status = 200, body = EndedSessions), (status = 404, body = Problem)))]
pub(super) async fn end_sessions(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&EndedSessions { ended: service::sessions::end_all(&app, &caller, &id).await? }))
}

/// Make a link that signs in to the dashboard once, as the key that asks. Any key may.
#[utoipa::path(post, path = "/api/v1/signin-links", tag = "keys", security(("api_key" = [])),
    responses((status = 201, body = SigninLink)))]
pub(super) async fn create_link(
    State(app): State<App>,
    Auth(caller): Auth,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let key = app.keys.secret(credential(&headers));
    Ok(answer(StatusCode::CREATED, &service::sessions::create_link(&app, &caller, key).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListAudit {
    /// 1 to 1,000. [default: 50]
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
    /// The oldest line first, to follow the log: the number of the last line is the next cursor.
    oldest_first: bool,
}

/// Read the audit log, newest first unless asked otherwise.
#[utoipa::path(get, path = "/api/v1/audit", tag = "keys", security(("api_key" = ["admin"])), params(ListAudit),
    responses((status = 200, body = AuditPage)))]
pub(super) async fn audit(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListAudit>,
) -> Result<Response, Error> {
    let limit = page_size(wanted.limit)?;
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit };
    let lines = service::audit::list(&app, &caller, page, wanted.oldest_first).await?;
    let next_cursor = if lines.len() == limit { lines.last().map(|line| line.id.to_string()) } else { None };
    Ok(ok(&AuditPage { lines, next_cursor }))
}
