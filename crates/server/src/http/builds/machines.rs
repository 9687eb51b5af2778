//! What virtual machines that build say and hear.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use baton_proto::{NewLogs, Time};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::json;

use super::super::extract::{BatchJson, Json, Params, Path};
use super::super::ok;
use super::credentials::Shown;
use super::{multipart, workers};
use crate::artifacts::Source;
use crate::service::builds::holder::Proof;
use crate::service::builds::results::Received;
use crate::service::builds::{logs, machines, results};
use crate::{App, Error};

#[derive(Debug, Deserialize)]
pub(super) struct Otp {
    otp: String,
}

pub(super) async fn authenticate(
    State(app): State<App>,
    Path(id): Path<String>,
    Json(Otp { otp }): Json<Otp>,
) -> Result<Response, Error> {
    let admitted = machines::authenticate(&app, &id, &otp).await?;
    Ok(ok(&json!({"vm_token": admitted.vm_token, "expires_at": admitted.expires_at})))
}

pub(super) async fn ready(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    machines::seen(&app, &shown.proof(None)?, &id, true).await?;
    Ok(ok(&json!({"success": true})))
}

pub(super) async fn heartbeat(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    machines::seen(&app, &shown.proof(None)?, &id, false).await?;
    Ok(ok(&json!({"success": true})))
}

pub(super) async fn status(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    let machine = machines::status(&app, &shown.proof(None)?, &id).await?;
    Ok(ok(&json!({
        "vm_ready": machine.ready_at.is_some(),
        "vm_ready_at": machine.ready_at.map(Time),
        "authenticated_at": machine.otp_used_at.map(Time),
        "last_heartbeat_at": machine.seen_at.map(Time),
    })))
}

pub(super) async fn logs(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    BatchJson(new): BatchJson<NewLogs>,
) -> Result<Response, Error> {
    let last = logs::add(&app, &shown.proof(None)?, &id, new).await?;
    Ok(ok(&json!({"success": true, "last": last})))
}

/// Names as different programs send them. Percentages and shares of one are told apart by their size.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Telemetry {
    #[serde(alias = "cpu_percent", alias = "cpuPercent")]
    cpu: Option<f64>,
    #[serde(alias = "memory_percent", alias = "memoryPercent", alias = "memory_mb", alias = "memoryMB")]
    memory: Option<f64>,
}

pub(super) async fn telemetry(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    Json(said): Json<Telemetry>,
) -> Result<Response, Error> {
    machines::measured(&app, &shown.proof(None)?, &id, said.cpu, said.memory).await?;
    Ok(ok(&json!({"success": true})))
}

pub(super) async fn measurements(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let all = machines::measurements(&app, &shown.reader()?, &id).await?;
    let shown: Vec<_> =
        all.iter().map(|one| json!({"timestamp": Time(one.at), "cpu": one.cpu, "memory": one.memory})).collect();
    Ok(ok(&json!({"telemetry": shown})))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ArtifactQuery {
    /// Whether the build is completed with it; yes unless told otherwise.
    complete: Option<bool>,
    name: Option<String>,
    /// An upload that came in pieces, instead of a body.
    upload: Option<String>,
}

/// The file that came out: as the body, or as the first file of a form.
pub(super) async fn artifact(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    Params(query): Params<ArtifactQuery>,
    request: Request,
) -> Result<Response, Error> {
    let proof = shown.proof(None)?;
    let headers = request.headers().clone();
    let terms = workers::terms(&app, &headers)?;
    let is_form = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/"));
    if let Some(upload) = &query.upload {
        let pieces = (&**shown.key()?, super::runs::upload_id(upload)?);
        let received = results::receive_upload(&app, &proof, &id, query.name.as_deref(), terms, pieces).await?;
        return done(&app, &proof, &id, &query, received).await;
    }
    let received = match is_form {
        false => results::receive(&app, &proof, &id, query.name.as_deref(), terms, whole(&app, request)).await?,
        true => {
            let mut body = multipart::open(&app, request).await?;
            loop {
                let Some(field) = multipart::next(&app, &mut body).await? else {
                    return Err(Error::Malformed("there is no file in the body".into()));
                };
                if field.file_name().is_none() {
                    multipart::text(&app, field).await?;
                    continue;
                }
                let name = field.file_name().map(str::to_owned);
                let source = multipart::bytes(&app, field);
                break results::receive(&app, &proof, &id, name.as_deref(), terms, source).await?;
            }
        }
    };
    done(&app, &proof, &id, &query, received).await
}

async fn done(
    app: &App,
    proof: &Proof<'_>,
    id: &str,
    query: &ArtifactQuery,
    received: Received,
) -> Result<Response, Error> {
    if query.complete.unwrap_or(true) {
        results::complete(app, proof, id, Some(received)).await?;
    }
    Ok(ok(&json!({"success": true})))
}

/// The body of a request as it comes.
pub(super) fn whole(app: &App, request: Request) -> Source<'static> {
    let patience = Duration::from_millis(app.settings.body_timeout_ms);
    stream::try_unfold(request.into_body(), move |mut body| async move {
        loop {
            let frame = tokio::time::timeout(patience, body.frame()).await.map_err(|_| Error::TooSlow)?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| Error::Malformed("the body ended early".into()))?;
            if let Ok(data) = frame.into_data() {
                return Ok::<Option<(Bytes, _)>, Error>(Some((data, body)));
            }
        }
    })
    .boxed()
}
