//! /api/v1/builds: builders that poll with nothing but a key.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{BuildView, GitJob, GitResult, IDEMPOTENCY_KEY_HEADER, Problem, SubmitGitBuild};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::super::extract::{Auth, BatchJson, Json, Path};
use super::super::{answer, ok};
use super::runs::header_text;
use crate::service::builds::git;
use crate::{App, Error};

/// Submit a build from a repository.
#[utoipa::path(post, path = "/api/v1/builds", tag = "polling builders", security(("api_key" = ["submit"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated submit harmless")), request_body = SubmitGitBuild,
    responses((status = 201, body = BuildView), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn submit(
    State(app): State<App>,
    Auth(caller): Auth,
    headers: HeaderMap,
    Json(new): Json<SubmitGitBuild>,
) -> Result<Response, Error> {
    let key = header_text(&headers, IDEMPOTENCY_KEY_HEADER)?;
    Ok(answer(StatusCode::CREATED, &git::submit(&app, &caller, new, key.as_deref()).await?))
}

/// Claim the next build from a repository.
#[utoipa::path(get, path = "/api/v1/builds/pending", tag = "polling builders", security(("api_key" = ["worker"])),
    responses((status = 200, body = GitJob), (status = 204, description = "Nothing waits; Retry-After says when to ask again"), (status = 429, body = Problem)))]
pub(super) async fn pending(State(app): State<App>, Auth(caller): Auth) -> Result<Response, Error> {
    Ok(match git::claim(&app, &caller).await? {
        Some(job) => ok(&job),
        None => {
            let pause_s = app.polls.pause_ms(&app.current()).div_ceil(1_000);
            (StatusCode::NO_CONTENT, [(RETRY_AFTER, HeaderValue::from(pause_s))]).into_response()
        }
    })
}

/// End a build that was claimed.
#[utoipa::path(post, path = "/api/v1/builds/{id}/result", tag = "polling builders", security(("api_key" = ["worker"])),
    params(("id" = String, Path, description = "The build")), request_body = GitResult,
    responses((status = 200, body = BuildView), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn result(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    BatchJson(said): BatchJson<GitResult>,
) -> Result<Response, Error> {
    Ok(ok(&git::result(&app, &caller, &id, said).await?))
}
