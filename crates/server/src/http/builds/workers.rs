//! /api/workers: builders.

use axum::extract::multipart::{Field, Multipart};
use axum::extract::{Request, State};
use axum::response::Response;
use baton_proto::{
    BuilderStats, Done, EndedBuild, Polled, Problem, RegisterBuilder, RegisteredBuilder, UnregisteredBuilder,
};
use http::HeaderMap;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::super::extract::{Auth, Json, Params, Path};
use super::super::ok;
use super::credentials::{Builds, Registers, Shown};
use super::forms::ResultForm;
use super::multipart;
use crate::artifacts::{Terms, announced};
use crate::service::builds::files::File;
use crate::service::builds::holder::Proof;
use crate::service::builds::results::Received;
use crate::service::builds::{builders, results};
use crate::{App, Error};

/// Register a builder, or a new incarnation of one that is known.
#[utoipa::path(post, path = "/api/workers/register", tag = "builders", security(("api_key" = ["worker"])),
    request_body = RegisterBuilder,
    responses((status = 200, body = RegisteredBuilder), (status = 400, body = Problem), (status = 403, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn register(
    State(app): State<App>,
    Registers(caller): Registers,
    Json(new): Json<RegisterBuilder>,
) -> Result<Response, Error> {
    Ok(ok(&builders::register(&app, &caller, new).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct PollQuery {
    /// The builder. Required without `X-Worker-Token`.
    worker_id: Option<String>,
}

/// Ask for a build, and for the next token. A builder that asks in a tight loop is told to slow down.
#[utoipa::path(get, path = "/api/workers/poll", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    params(PollQuery),
    responses((status = 200, body = Polled), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 429, body = Problem)))]
pub(super) async fn poll(
    State(app): State<App>,
    shown: Shown,
    Params(query): Params<PollQuery>,
) -> Result<Response, Error> {
    let name = query.worker_id.as_deref().or(shown.worker_id.as_deref());
    let proof = match (shown.worker_token(), name) {
        (Some(token), _) => Proof::BuilderToken(shown.caller.as_deref(), token),
        (None, Some(name)) => Proof::BuilderName(shown.worker_caller()?, name),
        (None, None) => {
            shown.worker_caller()?;
            return Err(Error::Malformed(
                "send X-Worker-Token (registering gave the first, and every poll the next) or worker_id in the query"
                    .into(),
            ));
        }
    };
    Ok(ok(&builders::poll(&app, &proof).await?))
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
        self.build_id
            .as_deref()
            .ok_or_else(|| Error::Malformed("the field build_id is missing: which build is meant?".into()))
    }
}

/// Say goodbye; builds that the builder has go to others at once.
#[utoipa::path(post, path = "/api/workers/unregister", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    request_body = About,
    responses((status = 200, body = UnregisteredBuilder), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn unregister(
    State(app): State<App>,
    Builds(shown): Builds,
    Json(about): Json<About>,
) -> Result<Response, Error> {
    let proof = shown.proof(about.worker_id.as_deref())?;
    Ok(ok(&builders::unregister(&app, &proof).await?))
}

/// Say that a build failed.
#[utoipa::path(post, path = "/api/workers/fail", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
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
#[utoipa::path(post, path = "/api/workers/abandon", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
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
#[utoipa::path(post, path = "/api/workers/heartbeat", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
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

/// End a build, with or without a file. The fields may come in any order.
#[utoipa::path(post, path = "/api/workers/upload", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = [])),
    request_body(content = ResultForm, content_type = "multipart/form-data"),
    responses((status = 200, body = EndedBuild), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 507, body = Problem)))]
pub(super) async fn upload(State(app): State<App>, Builds(shown): Builds, request: Request) -> Result<Response, Error> {
    let headers = request.headers().clone();
    let mut body = multipart::open(&app, request).await?;
    let mut form = Upload::default();
    let ended = match form.read(&app, &shown, &headers, &mut body).await {
        Ok(()) => form.end(&app, &shown).await,
        Err(error) => Err(error),
    };
    // Whatever is still a draft came out of no build.
    results::discard(&app, form.draft.take()).await;
    let (status, message) = match ended? {
        true => ("success", "Build completed successfully"),
        false => ("failed", "Build marked as failed"),
    };
    Ok(ok(&EndedBuild { success: true, status: status.into(), message: message.into() }))
}

/// The form of a result, as far as it was read.
#[derive(Default)]
struct Upload {
    about: About,
    success: Option<bool>,
    /// The file, if the fields before it said which build it came out of.
    received: Option<Received>,
    /// The file, if they did not.
    draft: Option<File>,
}

impl Upload {
    async fn read(&mut self, app: &App, shown: &Shown, headers: &HeaderMap, body: &mut Multipart) -> Result<(), Error> {
        while let Some(field) = multipart::next(app, body).await? {
            let name = field.name().unwrap_or_default().to_owned();
            match name.as_str() {
                "build_id" => self.about.build_id = Some(multipart::text(app, field).await?),
                "worker_id" => self.about.worker_id = Some(multipart::text(app, field).await?),
                "success" => self.success = Some(truth(&multipart::text(app, field).await?)?),
                "error_message" => self.about.error_message = Some(multipart::text(app, field).await?),
                "result" => self.file(app, shown, headers, field).await?,
                _ => multipart::skip(app, field).await?,
            }
        }
        Ok(())
    }

    /// Ends the build, and says whether it succeeded.
    async fn end(&mut self, app: &App, shown: &Shown) -> Result<bool, Error> {
        let build_id = self.about.build_id()?;
        let missing = || Error::Malformed("the field success is missing: true or false".into());
        let success = self.success.ok_or_else(missing)?;
        let proof = shown.proof(self.about.worker_id.as_deref())?;
        if success {
            let received = match self.draft.take() {
                Some(draft) => Some(results::bind(app, &proof, build_id, draft).await?),
                None => self.received.take(),
            };
            results::complete(app, &proof, build_id, received).await?;
        } else {
            let error = self.about.error_message.as_deref().unwrap_or("the build failed");
            results::fail(app, &proof, build_id, error).await?;
        }
        Ok(success)
    }

    /// Stores the file as it comes: under the lease of its build, or as a draft while nobody knows
    /// which that is.
    async fn file(&mut self, app: &App, shown: &Shown, headers: &HeaderMap, field: Field<'_>) -> Result<(), Error> {
        if self.received.is_some() || self.draft.is_some() {
            return Err(Error::Malformed("the field result came twice".into()));
        }
        let terms = terms(app, headers)?;
        let file_name = field.file_name().map(str::to_owned);
        let source = multipart::bytes(app, field);
        let proof = shown.proof(self.about.worker_id.as_deref());
        match (self.about.build_id.as_deref(), proof) {
            (Some(build_id), Ok(proof)) => {
                match results::receive(app, &proof, build_id, file_name.as_deref(), terms, source).await? {
                    Received::Draft(draft) => self.draft = Some(draft),
                    received => self.received = Some(received),
                }
            }
            // The key is good, and a later field may name the worker.
            (_, proof) => {
                let caller = shown.worker_caller().ok().map(|caller| &**caller);
                let draft = results::draft(app, (caller, proof), file_name.as_deref(), terms, source).await?;
                self.draft = Some(draft);
            }
        }
        Ok(())
    }
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
