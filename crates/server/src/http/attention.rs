//! /api/v1/attention

use axum::extract::State;
use axum::response::Response;
use baton_proto::{Attention, Problem};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Params};
use super::ok;
use crate::{App, Error, service};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AttentionQuery {
    /// Of this namespace; all that the key is good for if not given.
    namespace: Option<String>,
}

/// What is wrong now, worst first.
///
/// Types with work that no worker serves, queues that stand still, workers that are silent, pools that cannot make machines,
/// schedules that are late, webhooks that fail, and trouble of the server itself. An answer is told again for a second.
#[utoipa::path(get, path = "/api/v1/attention", tag = "operations", security(("api_key" = ["read"])), params(AttentionQuery),
    responses((status = 200, body = Attention), (status = 422, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(query): Params<AttentionQuery>,
) -> Result<Response, Error> {
    Ok(ok(&service::attention::get(&app, &caller, query.namespace.as_deref()).await?))
}
