//! /api/v1/runners: what the agents on machines of pools say and hear.

use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use baton_core::pools::RunnerId;
use baton_proto::{
    JoinRunner, JoinedRunner, Problem, RegisterRunner, RunnerOrder, RunnerRegistration, SignalRunner, SignalledRunner,
};
use http::header::CACHE_CONTROL;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::extract::{Json, Params, Path, Peer, credential};
use super::super::ok;
use crate::service::pools::{agents, github};
use crate::{App, Error};

/// The runner whose agent calls. Comes before the body, so that nobody's is read without a token.
pub(super) struct Agent(RunnerId);

impl FromRequestParts<App> for Agent {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Agent, Error> {
        let from = parts.extensions.get::<Peer>().map(|peer| peer.0);
        agents::runner_of(app, credential(&parts.headers), from).await.map(Agent)
    }
}

/// The order whose join token is shown.
pub(super) struct Joining(agents::JoinToken);

impl FromRequestParts<App> for Joining {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Joining, Error> {
        let from = parts.extensions.get::<Peer>().map(|peer| peer.0);
        agents::order_of(app, credential(&parts.headers), from).await.map(Joining)
    }
}

/// The agent of a new machine makes itself known, and gets a token of its own. Again with the same nonce gives the same answer.
#[utoipa::path(post, path = "/api/v1/runners/join", tag = "runners", security(("join_token" = [])), request_body = JoinRunner,
    responses((status = 200, body = JoinedRunner), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn join(
    State(app): State<App>,
    Joining(shown): Joining,
    Json(wanted): Json<JoinRunner>,
) -> Result<Response, Error> {
    Ok(ok(&agents::join(&app, shown, wanted).await?))
}

/// A sign of life of an agent, which is told what to do.
#[utoipa::path(post, path = "/api/v1/runners/{id}/heartbeat", tag = "runners", security(("runner_token" = [])), params(("id" = String, Path)),
    responses((status = 200, body = RunnerOrder), (status = 403, body = Problem)))]
pub(super) async fn heartbeat(
    State(app): State<App>,
    Agent(runner): Agent,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    agents::is_own(runner, &id)?;
    Ok(ok(&agents::heartbeat(&app, runner).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct NextOrder {
    /// The serial of the order that the agent knows.
    after: Option<String>,
    /// Answer when there is another one, but not later than this; at most 60,000.
    wait_ms: u64,
}

/// What an agent is to do, once that is something else than it knows.
#[utoipa::path(get, path = "/api/v1/runners/{id}/next", tag = "runners", security(("runner_token" = [])), params(("id" = String, Path), NextOrder),
    responses((status = 200, body = RunnerOrder), (status = 403, body = Problem)))]
pub(super) async fn next(
    State(app): State<App>,
    Agent(runner): Agent,
    Path(id): Path<String>,
    Params(wanted): Params<NextOrder>,
) -> Result<Response, Error> {
    agents::is_own(runner, &id)?;
    Ok(ok(&agents::next(&app, runner, wanted.after.as_deref(), wanted.wait_ms).await?))
}

/// A signal of an agent. One that changes nothing is no error.
#[utoipa::path(post, path = "/api/v1/runners/{id}/signals", tag = "runners", security(("runner_token" = [])), params(("id" = String, Path)),
    request_body = SignalRunner, responses((status = 200, body = SignalledRunner), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn signal(
    State(app): State<App>,
    Agent(runner): Agent,
    Path(id): Path<String>,
    Json(said): Json<SignalRunner>,
) -> Result<Response, Error> {
    agents::is_own(runner, &id)?;
    Ok(ok(&agents::signal(&app, runner, said).await?))
}

/// What the agent of a claimed machine needs to register it at GitHub, with the run's id as the only label. Again gives another one, and takes the first away.
#[utoipa::path(post, path = "/api/v1/runners/{id}/registration", tag = "runners", security(("runner_token" = [])), params(("id" = String, Path)),
    request_body = RegisterRunner,
    responses((status = 200, body = RunnerRegistration), (status = 403, body = Problem), (status = 409, body = Problem), (status = 502, body = Problem)))]
pub(super) async fn register(
    State(app): State<App>,
    Agent(runner): Agent,
    Path(id): Path<String>,
    Json(wanted): Json<RegisterRunner>,
) -> Result<Response, Error> {
    agents::is_own(runner, &id)?;
    let mut response = ok(&github::register(&app, runner, &wanted).await?);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Take back what an agent has registered at GitHub. Again does no harm.
#[utoipa::path(delete, path = "/api/v1/runners/{id}/registration", tag = "runners", security(("runner_token" = [])), params(("id" = String, Path)),
    responses((status = 204), (status = 403, body = Problem)))]
pub(super) async fn deregister(
    State(app): State<App>,
    Agent(runner): Agent,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    agents::is_own(runner, &id)?;
    github::deregister(&app, runner).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
