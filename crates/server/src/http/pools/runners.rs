//! /api/v1/pools/{pool}/runners

use axum::extract::State;
use axum::response::Response;
use baton_core::pools::RunnerState;
use baton_proto::{NAMESPACE_DEFAULT, Problem, RunnerPage, RunnerView};
use baton_store::Page;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::extract::{Auth, Params, Path};
use super::super::ok;
use super::super::queues::InNamespace;
use super::super::runs::{cursor, page_size};
use crate::service::pools::runners;
use crate::{App, Error};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListRunners {
    /// The namespace; `default` unless given.
    namespace: Option<String>,
    /// Only this state; all but `gone` unless given.
    #[param(value_type = Option<baton_proto::words::RunnerState>)]
    state: Option<String>,
    /// 1 to 1,000; 50 unless given.
    limit: Option<usize>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
}

/// List the runners of a pool.
#[utoipa::path(get, path = "/api/v1/pools/{pool}/runners", tag = "pools", security(("api_key" = ["read"])), params(("pool" = String, Path), ListRunners),
    responses((status = 200, body = RunnerPage), (status = 404, body = Problem)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(pool): Path<String>,
    Params(wanted): Params<ListRunners>,
) -> Result<Response, Error> {
    let wrong = |word: &str| Error::Invalid(format!("{word:?} is no state of a runner"));
    let state = wanted.state.as_deref().map(|word| RunnerState::parse(word).ok_or_else(|| wrong(word))).transpose()?;
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit: page_size(wanted.limit)? };
    let namespace = wanted.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    let (runners, next) = runners::list(&app, &caller, namespace, &pool, state, page).await?;
    Ok(ok(&RunnerPage { runners, next_cursor: next.map(|id| id.to_string()) }))
}

/// Get one runner, with its moves.
#[utoipa::path(get, path = "/api/v1/pools/{pool}/runners/{id}", tag = "pools", security(("api_key" = ["read"])),
    params(("pool" = String, Path), ("id" = String, Path), InNamespace),
    responses((status = 200, body = RunnerView), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Auth(caller): Auth,
    Path((pool, id)): Path<(String, String)>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&runners::get(&app, &caller, within.name(), &pool, &id).await?))
}

/// End a runner, whatever it does. Again does no harm.
#[utoipa::path(delete, path = "/api/v1/pools/{pool}/runners/{id}", tag = "pools", security(("api_key" = ["admin"])),
    params(("pool" = String, Path), ("id" = String, Path), InNamespace),
    responses((status = 200, body = RunnerView), (status = 404, body = Problem)))]
pub(super) async fn end(
    State(app): State<App>,
    Auth(caller): Auth,
    Path((pool, id)): Path<(String, String)>,
    Params(within): Params<InNamespace>,
) -> Result<Response, Error> {
    Ok(ok(&runners::end(&app, &caller, within.name(), &pool, &id).await?))
}
