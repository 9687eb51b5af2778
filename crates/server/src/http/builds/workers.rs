//! /api/workers: builders.

use axum::extract::{Request, State};
use axum::response::Response;
use baton_proto::RegisterBuilder;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::super::extract::{Auth, Json, Params, Path};
use super::super::{answer, ok};
use super::credentials::Shown;
use super::multipart;
use crate::artifacts::{Terms, announced};
use crate::service::builds::holder::Proof;
use crate::service::builds::{builders, results};
use crate::{App, Error};

pub(super) async fn register(
    State(app): State<App>,
    Auth(caller): Auth,
    Json(new): Json<RegisterBuilder>,
) -> Result<Response, Error> {
    let registered = builders::register(&app, &caller, new).await?;
    let status = if registered.status == "registered" { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &registered))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PollQuery {
    worker_id: Option<String>,
}

pub(super) async fn poll(
    State(app): State<App>,
    Auth(caller): Auth,
    shown: Shown,
    Params(query): Params<PollQuery>,
) -> Result<Response, Error> {
    let name = query.worker_id.as_deref().or(shown.worker_id.as_deref());
    let proof = match (shown.worker_token(), name) {
        (Some(token), _) => Proof::BuilderToken(&caller, token),
        (None, Some(name)) if app.settings.builders_by_id => Proof::BuilderName(&caller, name),
        (None, _) => {
            return Err(Error::Malformed(
                "send X-Worker-Token: registering gave the first, and every poll the next".into(),
            ));
        }
    };
    Ok(ok(&builders::poll(&app, &caller, &proof).await?))
}

/// What a builder says about itself or one of its builds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct About {
    worker_id: Option<String>,
    build_id: Option<String>,
    error: Option<String>,
    error_message: Option<String>,
    reason: Option<String>,
}

impl About {
    fn build_id(&self) -> Result<&str, Error> {
        self.build_id.as_deref().ok_or_else(|| Error::Malformed("build_id is missing".into()))
    }
}

pub(super) async fn unregister(
    State(app): State<App>,
    shown: Shown,
    Json(about): Json<About>,
) -> Result<Response, Error> {
    shown.key()?;
    let proof = shown.proof(about.worker_id.as_deref())?;
    Ok(ok(&builders::unregister(&app, &proof).await?))
}

pub(super) async fn fail(State(app): State<App>, shown: Shown, Json(about): Json<About>) -> Result<Response, Error> {
    let proof = shown.proof(about.worker_id.as_deref())?;
    let error = about.error.as_deref().or(about.error_message.as_deref()).unwrap_or("the build failed");
    results::fail(&app, &proof, about.build_id()?, error).await?;
    Ok(ok(&json!({"success": true})))
}

pub(super) async fn abandon(State(app): State<App>, shown: Shown, Json(about): Json<About>) -> Result<Response, Error> {
    let proof = shown.proof(about.worker_id.as_deref())?;
    let reason = about.reason.as_deref().unwrap_or("no reason given");
    results::abandon(&app, &proof, about.build_id()?, reason).await?;
    Ok(ok(&json!({"success": true})))
}

pub(super) async fn heartbeat(
    State(app): State<App>,
    shown: Shown,
    Json(about): Json<About>,
) -> Result<Response, Error> {
    let proof = shown.proof(about.worker_id.as_deref())?;
    builders::heartbeat(&app, &proof, about.build_id()?).await?;
    Ok(ok(&json!({"success": true})))
}

pub(super) async fn stats(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    Ok(ok(&builders::stats(&app, &caller, &id).await?))
}

/// The end of a build, with or without a file. The fields that say which build come before the file.
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
    Ok(ok(&json!({"success": true, "message": "the build has ended"})))
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
