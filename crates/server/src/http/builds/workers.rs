//! /api/workers: builders.

use axum::extract::{Request, State};
use axum::response::Response;
use baton_proto::{
    BuilderStats, Done, EndedBuild, Polled, Problem, RegisterBuilder, RegisteredBuilder, UnregisteredBuilder,
};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::super::extract::{Auth, Json, Params, Path};
use super::super::{answer, ok};
use super::credentials::{Builds, Shown};
use super::forms::ResultForm;
use super::multipart;
use crate::artifacts::{Terms, announced};
use crate::service::builds::holder::Proof;
use crate::service::builds::{builders, results};
use crate::{App, Error};

/// Register a builder, or a new incarnation of one that is known.
#[utoipa::path(post, path = "/api/workers/register", tag = "builders", security(("api_key" = ["worker"])),
    request_body = RegisterBuilder,
    responses((status = 201, body = RegisteredBuilder), (status = 200, description = "Re-registered", body = RegisteredBuilder), (status = 422, body = Problem)))]
pub(super) async fn register(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(new): Json<RegisterBuilder>,
) -> Result<Response, Error> {
    let registered = builders::register(&app, &caller, new).await?;
    let status = if registered.status == "registered" { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &registered))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct PollQuery {
    /// The builder, where a setting allows it to poll without a token.
    worker_id: Option<String>,
}

/// Ask for a build, and for the next token. A builder that asks in a tight loop is told to slow down.
#[utoipa::path(get, path = "/api/workers/poll", tag = "builders", security(("api_key" = ["worker"], "worker_token" = [])),
    params(PollQuery),
    responses((status = 200, body = Polled), (status = 400, body = Problem), (status = 401, body = Problem), (status = 404, body = Problem), (status = 429, body = Problem)))]
pub(super) async fn poll(
    State(app): State<App>,
    Auth(caller): Auth,
    shown: Shown,
    Params(query): Params<PollQuery>,
) -> Result<Response, Error> {
    let name = query.worker_id.as_deref().or(shown.worker_id.as_deref());
    let proof = match (shown.worker_token(), name) {
        (Some(token), _) => Proof::BuilderToken(&caller, token),
        (None, Some(name)) if app.current().builders_by_id => Proof::BuilderName(&caller, name),
        (None, _) => {
            return Err(Error::Malformed(
                "send X-Worker-Token: registering gave the first, and every poll the next; the setting builders_by_id \
                 allows polls with worker_id alone"
                    .into(),
            ));
        }
    };
    Ok(ok(&builders::poll(&app, &caller, &proof).await?))
}

/// What a builder says about itself or one of its builds.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct About {
    /// The builder, unless a header names it.
    worker_id: Option<String>,
    /// The build.
    build_id: Option<String>,
    /// Why it failed.
    error: Option<String>,
    /// The same, under another name.
    error_message: Option<String>,
    /// Why it is given back.
    reason: Option<String>,
}

impl About {
    fn build_id(&self) -> Result<&str, Error> {
        self.build_id.as_deref().ok_or_else(|| Error::Malformed("build_id is missing".into()))
    }
}

/// Say goodbye; builds that the builder has go to others at once.
#[utoipa::path(post, path = "/api/workers/unregister", tag = "builders", security(("api_key" = ["worker"], "worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    request_body = About,
    responses((status = 200, body = UnregisteredBuilder), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn unregister(
    State(app): State<App>,
    Builds(shown): Builds,
    Json(about): Json<About>,
) -> Result<Response, Error> {
    shown.key()?;
    let proof = shown.proof(about.worker_id.as_deref())?;
    Ok(ok(&builders::unregister(&app, &proof).await?))
}

/// Say that a build failed.
#[utoipa::path(post, path = "/api/workers/fail", tag = "builders", security(("api_key" = ["worker"], "worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    request_body = About,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn fail(
    State(app): State<App>,
    Builds(shown): Builds,
    Json(about): Json<About>,
) -> Result<Response, Error> {
    let proof = shown.proof(about.worker_id.as_deref())?;
    let error = about.error.as_deref().or(about.error_message.as_deref()).unwrap_or("the build failed");
    results::fail(&app, &proof, about.build_id()?, error).await?;
    Ok(ok(&Done::YES))
}

/// Give a build back.
#[utoipa::path(post, path = "/api/workers/abandon", tag = "builders", security(("api_key" = ["worker"], "worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    request_body = About,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn abandon(
    State(app): State<App>,
    Builds(shown): Builds,
    Json(about): Json<About>,
) -> Result<Response, Error> {
    let proof = shown.proof(about.worker_id.as_deref())?;
    let reason = about.reason.as_deref().unwrap_or("no reason given");
    results::abandon(&app, &proof, about.build_id()?, reason).await?;
    Ok(ok(&Done::YES))
}

/// Say that a build is still worked on.
#[utoipa::path(post, path = "/api/workers/heartbeat", tag = "builders", security(("api_key" = ["worker"], "worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    request_body = About,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn heartbeat(
    State(app): State<App>,
    Builds(shown): Builds,
    Json(about): Json<About>,
) -> Result<Response, Error> {
    let proof = shown.proof(about.worker_id.as_deref())?;
    builders::heartbeat(&app, &proof, about.build_id()?).await?;
    Ok(ok(&Done::YES))
}

/// See what a builder did so far.
#[utoipa::path(get, path = "/api/workers/{id}/stats", tag = "builders", security(("api_key" = ["read"])),
    params(("id" = String, Path, description = "The builder")),
    responses((status = 200, body = BuilderStats), (status = 404, body = Problem)))]
pub(super) async fn stats(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&builders::stats(&app, &caller, &id).await?))
}

/// End a build, with or without a file. The fields that say which build come before the file.
#[utoipa::path(post, path = "/api/workers/upload", tag = "builders", security(("api_key" = ["worker"], "worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    request_body(content = ResultForm, content_type = "multipart/form-data"),
    responses((status = 200, body = EndedBuild), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 507, body = Problem)))]
pub(super) async fn upload(State(app): State<App>, shown: Shown, request: Request) -> Result<Response, Error> {
    shown.key()?;
    let headers = request.headers().clone();
    let mut body = multipart::open(&app, request).await?;
    let (mut said, mut success, mut received) = (About::default(), None, None);
    while let Some(field) = multipart::next(&app, &mut body).await? {
        let name = field.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "build_id" => said.build_id = Some(multipart::text(&app, field).await?),
            "worker_id" => said.worker_id = Some(multipart::text(&app, field).await?),
            "success" => success = Some(truth(&multipart::text(&app, field).await?)?),
            "error_message" => said.error_message = Some(multipart::text(&app, field).await?),
            "result" => {
                let Some(build_id) = said.build_id.as_deref() else {
                    return Err(Error::Malformed("the field build_id must come before the file".into()));
                };
                if received.is_some() {
                    return Err(Error::Malformed("the field result came twice".into()));
                }
                let terms = terms(&app, &headers)?;
                let file_name = field.file_name().map(str::to_owned);
                let source = multipart::bytes(&app, field);
                let proof = shown.proof(said.worker_id.as_deref())?;
                received = Some(results::receive(&app, &proof, build_id, file_name.as_deref(), terms, source).await?);
            }
            _ => drop(multipart::text(&app, field).await?),
        }
    }
    let build_id = said.build_id()?;
    let proof = shown.proof(said.worker_id.as_deref())?;
    match success {
        Some(true) => results::complete(&app, &proof, build_id, received).await?,
        Some(false) => {
            let error = said.error_message.as_deref().unwrap_or("the build failed");
            results::fail(&app, &proof, build_id, error).await?;
        }
        None => return Err(Error::Malformed("the field success is missing: true or false".into())),
    }
    Ok(ok(&EndedBuild { success: true, message: "the build has ended".into() }))
}

pub(super) fn terms(app: &App, headers: &HeaderMap) -> Result<Terms, Error> {
    Ok(Terms { sha256: announced(headers)?, ..Terms::up_to(app.settings.artifact_bytes_max) })
}

fn truth(text: &str) -> Result<bool, Error> {
    match text.trim() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(Error::Malformed(format!("success must be true or false, not {other:?}"))),
    }
}
