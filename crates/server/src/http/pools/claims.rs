//! /api/v1/pools/{pool}/claims

use axum::extract::State;
use axum::response::Response;
use baton_core::pools::ClaimState;
use baton_proto::{ClaimPage, ClaimView, NAMESPACE_DEFAULT, OpenClaim, Problem};
use baton_store::Page;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::extract::{Auth, Json, Params, Path};
use super::super::queues::InNamespace;
use super::super::runs::{cursor, page_size};
use super::super::{answer, ok};
use crate::service::pools::claims;
use crate::{App, Error};

/// Claim machines for a run, all or none. The same run with the same words again is the same claim.
#[utoipa::path(post, path = "/api/v1/pools/{pool}/claims", tag = "pools", security(("api_key" = ["submit"])), params(("pool" = String, Path), InNamespace),
    request_body = OpenClaim,
    responses((status = 201, body = ClaimView), (status = 200, body = ClaimView, description = "It was opened before, the same"),
        (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem),
        (status = 503, body = Problem, description = "As many claims wait as may")))]
pub(super) async fn open(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(pool): Path<String>,
    Params(within): Params<InNamespace>,
    Json(wanted): Json<OpenClaim>,
) -> Result<Response, Error> {
    let (claim, is_new) = claims::open(&app, &caller, within.name(), &pool, wanted).await?;
    Ok(answer(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &claim))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListClaims {
    /// The namespace; `default` unless given.
    namespace: Option<String>,
    /// Only this state.
    #[param(value_type = Option<baton_proto::words::ClaimState>)]
    state: Option<String>,
    /// 1 to 1,000; 50 unless given.
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List the claims of a pool, newest first, without their runners and those they discarded.
#[utoipa::path(get, path = "/api/v1/pools/{pool}/claims", tag = "pools", security(("api_key" = ["read"])), params(("pool" = String, Path), ListClaims),
    responses((status = 200, body = ClaimPage), (status = 404, body = Problem)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(pool): Path<String>,
    Params(wanted): Params<ListClaims>,
) -> Result<Response, Error> {
    let wrong = |word: &str| Error::Invalid(format!("{word:?} is no state of a claim"));
    let state = wanted.state.as_deref().map(|word| ClaimState::parse(word).ok_or_else(|| wrong(word))).transpose()?;
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit: page_size(wanted.limit)? };
    let namespace = wanted.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    let (claims, next) = claims::list(&app, &caller, namespace, &pool, state, page).await?;
    Ok(ok(&ClaimPage { claims, next_cursor: next.map(|number| number.to_string()) }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GetClaim {
    /// The namespace; `default` unless given.
    namespace: Option<String>,
    /// Answer when the claim is filled or has ended, but not later than this; at most 60,000.
    wait_ms: u64,
}

/// Get one claim, with the phase of each of its runners and the reason of each failure.
#[utoipa::path(get, path = "/api/v1/pools/{pool}/claims/{run_id}", tag = "pools", security(("api_key" = ["read"])),
    params(("pool" = String, Path), ("run_id" = String, Path), GetClaim),
    responses((status = 200, body = ClaimView), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Path((pool, run_id)): Path<(String, String)>,
    Params(wanted): Params<GetClaim>,
) -> Result<Response, Error> {
    let namespace = wanted.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    Ok(ok(&claims::get(&app, &caller, namespace, &pool, &run_id, wanted.wait_ms).await?))
}

/// Give back the machines of a claim, or give it up. Again does no harm.
#[utoipa::path(delete, path = "/api/v1/pools/{pool}/claims/{run_id}", tag = "pools", security(("api_key" = ["submit"])),
    params(("pool" = String, Path), ("run_id" = String, Path), InNamespace),
    responses((status = 200, body = ClaimView), (status = 404, body = Problem)))]
pub(super) async fn release(
    State(app): State<App>,
    Auth(caller): Auth,
    Path((pool, run_id)): Path<(String, String)>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&claims::release(&app, &caller, within.name(), &pool, &run_id).await?))
}
