//! /api/v1/settings

use axum::extract::State;
use axum::response::Response;
use baton_proto::{ChangeSettings, Problem, SettingList};

use super::extract::{Auth, Json};
use super::ok;
use crate::{App, Error, service};

/// List the settings that can be changed while the servers run: what holds now, and what this server was started with.
#[utoipa::path(get, path = "/api/v1/settings", tag = "settings", security(("api_key" = ["admin"])),
    responses((status = 200, body = SettingList)))]
pub(super) async fn list(State(app): State<App>, Auth(caller): Auth) -> Result<Response, Error> {
    Ok(ok(&service::settings::list(&app, &caller).await?))
}

/// Change settings while the servers run, all or none. They are kept, and hold on every server within seconds.
#[utoipa::path(patch, path = "/api/v1/settings", tag = "settings", security(("api_key" = ["admin"])),
    request_body = ChangeSettings, responses((status = 200, body = SettingList), (status = 422, body = Problem)))]
pub(super) async fn change(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(wanted): Json<ChangeSettings>,
) -> Result<Response, Error> {
    Ok(ok(&service::settings::change(&app, &caller, wanted).await?))
}
