//! /api/v1/secrets

use axum::extract::State;
use axum::response::Response;
use baton_proto::{Problem, RotateSecret, RotatedSecret, SecretStatus};

use super::extract::{Auth, Json};
use super::ok;
use crate::{App, Error, service};

/// Show where the master key is and which generations of the installation's secret it wraps. Never what they are.
#[utoipa::path(get, path = "/api/v1/secrets", tag = "keys", security(("api_key" = ["admin"])),
    responses((status = 200, body = SecretStatus)))]
pub(super) async fn status(State(app): State<App>, Auth(caller): Auth) -> Result<Response, Error> {
    Ok(ok(&service::secrets::status(&app, &caller).await?))
}

/// Make a new generation of the installation's secret, wrapped with the first key of the master key's source. Leases and other tokens of
/// the generations before stay good for a while.
#[utoipa::path(post, path = "/api/v1/secrets/rotate", tag = "keys", security(("api_key" = ["admin"])), request_body = RotateSecret,
    responses((status = 200, body = RotatedSecret), (status = 422, body = Problem),
        (status = 409, body = Problem, description = "The master key cannot be read or written")))]
pub(super) async fn rotate(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(wanted): Json<RotateSecret>,
) -> Result<Response, Error> {
    Ok(ok(&service::secrets::rotate(&app, &caller, wanted).await?))
}
