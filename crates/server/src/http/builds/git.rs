//! /api/v1/builds: builders that poll with nothing but a key.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{GitResult, IDEMPOTENCY_KEY_HEADER, SubmitGitBuild};
use http::{HeaderMap, StatusCode};

use super::super::extract::{Auth, BatchJson, Json, Path};
use super::super::{answer, ok};
use super::runs::header_text;
use crate::service::builds::git;
use crate::{App, Error};

pub(super) async fn submit(
    State(app): State<App>,
    Auth(caller): Auth,
    headers: HeaderMap,
    Json(new): Json<SubmitGitBuild>,
) -> Result<Response, Error> {
    let key = header_text(&headers, IDEMPOTENCY_KEY_HEADER)?;
    Ok(answer(StatusCode::CREATED, &git::submit(&app, &caller, new, key.as_deref()).await?))
}

pub(super) async fn pending(State(app): State<App>, Auth(caller): Auth) -> Result<Response, Error> {
    Ok(match git::claim(&app, &caller).await? {
        Some(job) => ok(&job),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

pub(super) async fn result(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    BatchJson(said): BatchJson<GitResult>,
) -> Result<Response, Error> {
    Ok(ok(&git::result(&app, &caller, &id, said).await?))
}
