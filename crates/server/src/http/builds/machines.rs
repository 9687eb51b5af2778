//! What virtual machines that build say and hear.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use baton_proto::{
    AddedLogs, BuildMeasurement, BuildTelemetry, Done, MachineToken, MachineView, NewLogs, NotedBuild, Problem, Time,
};
use baton_store::{Measured, NewMeasurement};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::super::extract::{Json, LogJson, Params, Path};
use super::super::ok;
use super::credentials::{Builds, Shown};
use super::{multipart, workers};
use crate::artifacts::Source;
use crate::service::builds::holder::Proof;
use crate::service::builds::machines::Watcher;
use crate::service::builds::results::Received;
use crate::service::builds::{logs, machines, results};
use crate::{App, Error};

/// What a machine shows to become known.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Otp {
    /// The one-time password of the job.
    otp: String,
}

/// Make a machine known with the one-time password of the job; once, within ten minutes.
#[utoipa::path(post, path = "/api/builds/{id}/authenticate", tag = "machines",
    params(("id" = String, Path, description = "The build")), request_body = Otp,
    responses((status = 200, body = MachineToken), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn authenticate(
    State(app): State<App>,
    Path(id): Path<String>,
    Json(Otp { otp }): Json<Otp>,
) -> Result<Response, Error> {
    let admitted = machines::authenticate(&app, &id, &otp).await?;
    Ok(ok(&MachineToken { vm_token: admitted.vm_token, expires_at: admitted.expires_at }))
}

/// Say that the machine is ready.
#[utoipa::path(post, path = "/api/builds/{id}/vm-ready", tag = "machines", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, body = Done), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn ready(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    machines::ready(&app, &shown.proof(None)?, &id).await?;
    Ok(ok(&Done::YES))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct HeartbeatQuery {
    /// The builder, unless a header names it.
    worker_id: Option<String>,
}

/// What comes with a heartbeat.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct MachineHeartbeat {
    /// How far it is, in per cent.
    progress: Option<f64>,
}

/// Say that the machine lives, and how far it is.
#[utoipa::path(post, path = "/api/builds/{id}/heartbeat", tag = "machines", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build"), HeartbeatQuery), request_body = MachineHeartbeat,
    responses((status = 200, body = NotedBuild), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn heartbeat(
    State(app): State<App>,
    Builds(shown): Builds,
    Path(id): Path<String>,
    Params(query): Params<HeartbeatQuery>,
    Json(said): Json<MachineHeartbeat>,
) -> Result<Response, Error> {
    machines::alive(&app, &shown.proof(query.worker_id.as_deref())?, &id, said.progress).await?;
    noted(&app).await
}

/// The answer to a sign of life.
async fn noted(app: &App) -> Result<Response, Error> {
    Ok(ok(&NotedBuild { success: true, status: "ok".into(), timestamp: app.time.now().await? }))
}

/// Ask whether the machine of a build is ready.
#[utoipa::path(get, path = "/api/builds/{id}/vm-status", tag = "machines", security(("worker_token" = []), ("api_key" = ["worker"]), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, body = MachineView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn status(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    let watcher = match (shown.proof(None), &shown.caller) {
        _ if shown.shows_nothing() => Watcher::Anybody,
        (Ok(proof), _) => Watcher::Holder(proof),
        (Err(_), Some(caller)) => Watcher::Key(caller),
        (Err(error), None) => return Err(error),
    };
    let (machine, vm_token) = machines::status(&app, &watcher, &id).await?;
    Ok(ok(&MachineView {
        vm_token,
        vm_ready: machine.ready_at.is_some(),
        vm_ready_at: machine.ready_at.map(Time),
        authenticated_at: machine.otp_used_at.map(Time),
        last_heartbeat_at: machine.seen_at.map(Time),
    }))
}

/// Add lines to the log.
#[utoipa::path(post, path = "/api/builds/{id}/logs", tag = "machines", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build")), request_body = NewLogs,
    responses((status = 200, body = AddedLogs), (status = 404, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem)))]
pub(super) async fn logs(
    State(app): State<App>,
    Builds(shown): Builds,
    Path(id): Path<String>,
    LogJson(new): LogJson<NewLogs>,
) -> Result<Response, Error> {
    let (count, last) = logs::add(&app, &shown.proof(None)?, &id, new).await?;
    Ok(ok(&AddedLogs { success: true, count: count as u64, last }))
}

/// What was measured, as different programs send it: plain, as `data` of an event, or as `metrics`
/// of that.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read wherever it is found")]
pub(super) struct Telemetry {
    /// Share of the processors in use, also as `cpu_percent`.
    cpu: Option<f64>,
    /// Share of the memory in use, also as `memory_percent`.
    memory: Option<f64>,
    /// Memory in use, in megabytes.
    memory_mb: Option<f64>,
    /// What an event of the monitor of a virtual machine brings.
    data: Option<Value>,
}

/// Finds what was measured. Whatever else an event says is not for this place.
fn measurement(said: &Value) -> NewMeasurement {
    let places = [Some(said), said.get("data"), said.get("metrics"), said.pointer("/data/metrics")];
    let number = |names: &[&str]| {
        let found = places.into_iter().flatten().flat_map(|place| names.iter().filter_map(|name| place.get(*name)));
        found.into_iter().find_map(|value| value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()))
    };
    NewMeasurement {
        cpu: number(&["cpu", "cpu_percent", "cpuPercent"]),
        memory: number(&["memory", "memory_percent", "memoryPercent"]),
        memory_mb: number(&["memory_mb", "memoryMB", "memoryMb"]),
    }
}

/// Add a measurement.
#[utoipa::path(post, path = "/api/builds/{id}/telemetry", tag = "machines", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build")), request_body = Telemetry,
    responses((status = 200, body = NotedBuild), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn telemetry(
    State(app): State<App>,
    Builds(shown): Builds,
    Path(id): Path<String>,
    Json(said): Json<Value>,
) -> Result<Response, Error> {
    let event = said.get("type").and_then(Value::as_str);
    // The monitors of existing workers name the worker, and show nothing.
    let watcher = match (&shown.worker_id, shown.shows_nothing()) {
        (Some(name), true) => Watcher::Monitor(name),
        _ => Watcher::Holder(shown.proof(None)?),
    };
    machines::measured(&app, &watcher, &id, measurement(&said), event).await?;
    noted(&app).await
}

/// Read what was measured while it was built.
#[utoipa::path(get, path = "/api/builds/{id}/telemetry", tag = "builds", security(("build_token" = []), ("api_key" = ["read"])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, body = BuildTelemetry), (status = 404, body = Problem)))]
pub(super) async fn measurements(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let all = machines::measurements(&app, &shown.reader()?, &id).await?;
    let shown = |one: Measured| BuildMeasurement {
        timestamp: Time(one.at),
        cpu: one.cpu,
        memory: one.memory,
        memory_mb: one.memory_mb,
    };
    Ok(ok(&BuildTelemetry { telemetry: all.into_iter().map(shown).collect() }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ArtifactQuery {
    /// Whether the build is completed with it; yes unless told otherwise.
    complete: Option<bool>,
    /// What the file is called.
    name: Option<String>,
    /// An upload that came in pieces, instead of a body.
    upload: Option<String>,
}

/// Upload the file that came out: as the body, as the first file of a form, or as an upload that came in pieces.
#[utoipa::path(post, path = "/api/builds/{id}/artifact", tag = "machines", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build"), ArtifactQuery),
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 422, body = Problem), (status = 507, body = Problem)))]
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
    if !is_form {
        multipart::check_length(&headers, app.settings.artifact_bytes_max)?;
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
    match (query.complete.unwrap_or(true), received) {
        (true, received) => results::complete(app, proof, id, Some(received)).await?,
        (false, Received::Draft(draft)) => {
            results::bind(app, proof, id, draft).await?;
        }
        (false, Received::New(_) | Received::Known) => {}
    }
    Ok(ok(&Done::YES))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn measurements_are_found_in_every_spelling() {
        let found = |cpu, memory, memory_mb| NewMeasurement { cpu, memory, memory_mb };
        for (said, expected) in [
            (json!({"cpu": 0.5, "memory": 0.25}), found(Some(0.5), Some(0.25), None)),
            (json!({"cpu_percent": 40, "memory_percent": 12.5}), found(Some(40.0), Some(12.5), None)),
            (
                json!({"type": "cpu_snapshot", "timestamp": "now", "data": {"cpu_percent": 12.5, "memory_mb": 2048}}),
                found(Some(12.5), None, Some(2048.0)),
            ),
            (
                json!({"type": "heartbeat", "data": {"stage": "linking", "metrics": {"cpu_percent": "7", "memoryMB": 9}}}),
                found(Some(7.0), None, Some(9.0)),
            ),
            (json!({"type": "monitor_started", "data": {}}), found(None, None, None)),
            (json!({"data": "text", "cpu": "fast"}), found(None, None, None)),
            (json!([1, 2]), found(None, None, None)),
        ] {
            assert_eq!(measurement(&said), expected, "{said}");
        }
    }
}
