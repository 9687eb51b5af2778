//! /api/builds: submitting, listing, cancelling.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use baton_proto::{
    ActiveBuilds, BuildPage, BuildStatistics, BuildStatus, BuildView, CancelledBuild, FollowedBuild,
    IDEMPOTENCY_KEY_HEADER, PAGE_MAX, Problem, SubmittedBuild,
};
use baton_store::{ArtifactOwner, BuildCounts, Page};
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::super::extract::{Auth, Params, Path};
use super::super::runs::{cursor, page_size};
use super::super::{answer, ok};
use super::credentials::Shown;
use super::forms::BuildForm;
use super::multipart;
use crate::artifacts::{Terms, UploadId, announced};
use crate::auth::Caller;
use crate::service::builds::files::{self, File, NewFile, Origin};
use crate::service::builds::submit::Wishes;
use crate::service::builds::{self, control, read};
use crate::{App, Error, crash};

/// Submit a build: its source, and what its submitter wishes, as fields of one body.
#[utoipa::path(post, path = "/api/builds", tag = "builds", security(("api_key" = ["submit"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated submit harmless")), request_body(content = BuildForm, content_type = "multipart/form-data"),
    responses((status = 201, body = SubmittedBuild), (status = 400, body = Problem), (status = 404, body = Problem, description = "There is no such upload"), (status = 409, body = Problem, description = "The upload is not whole yet"),
        (status = 413, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem), (status = 507, body = Problem)))]
pub(super) async fn submit(State(app): State<App>, Auth(caller): Auth, request: Request) -> Response {
    match take(&app, &caller, request).await {
        Ok(submitted) => answer(StatusCode::CREATED, &submitted),
        // The words are part of the protocol.
        Err(full @ Error::QueueFull { .. }) => {
            let mut response = full.into_response();
            let body = json!({"error": "Build queue full, try again later", "code": "queue_full"}).to_string();
            response.headers_mut().remove(header::CONTENT_LENGTH);
            *response.body_mut() = body.into();
            response
        }
        Err(other) => other.into_response(),
    }
}

async fn take(app: &App, caller: &Caller, request: Request) -> Result<baton_proto::SubmittedBuild, Error> {
    let headers = request.headers().clone();
    let idempotency_key = header_text(&headers, IDEMPOTENCY_KEY_HEADER)?;
    let mut wishes = Wishes { idempotency_key, ..Wishes::default() };
    let mut body = multipart::open(app, request).await?;
    // A sum in the head of the request is the source's: it is the one large file.
    let sum = announced(&headers)?;
    let (mut source, mut certs): (Option<File>, Option<File>) = (None, None);
    let namespace = builds::namespace_of(caller);
    caller.may(baton_store::Scope::Submit, namespace)?;
    crash::point("submit.begun");
    while let Some(field) = multipart::next(app, &mut body).await? {
        let name = field.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "platform" => wishes.platform = multipart::text(app, field).await?,
            "project" => wishes.project = Some(multipart::text(app, field).await?).filter(|text| !text.is_empty()),
            "priority" => wishes.priority = Some(priority(&multipart::text(app, field).await?)?),
            "baseImageId" | "base_image" => {
                wishes.base_image = Some(multipart::text(app, field).await?).filter(|text| !text.is_empty());
            }
            "source_upload" => {
                if source.is_some() {
                    return Err(Error::Malformed("the source came twice".into()));
                }
                let upload = upload_id(&multipart::text(app, field).await?)?;
                let terms = Terms { sha256: sum, ..Terms::up_to(app.settings.artifact_bytes_max) };
                let new = NewFile { namespace, owner: ArtifactOwner::Source, name: None, terms };
                source = Some(files::adopt(app, new, caller, upload).await?);
            }
            "source" | "certs" => {
                let is_source = name == "source";
                if source.is_some() && is_source || certs.is_some() && !is_source {
                    return Err(Error::Malformed(format!("the field {name} came twice")));
                }
                let file_name = field.file_name().map(str::to_owned);
                let (owner, terms) = match is_source {
                    true => {
                        (ArtifactOwner::Source, Terms { sha256: sum, ..Terms::up_to(app.settings.artifact_bytes_max) })
                    }
                    false => (ArtifactOwner::Certs, Terms::up_to(app.settings.artifact_bytes_max)),
                };
                let new = NewFile { namespace, owner, name: file_name.as_deref(), terms };
                let file = files::take_in(app, new, multipart::bytes(app, field)).await?;
                *(if is_source { &mut source } else { &mut certs }) = Some(file);
            }
            // Others may send more than we know of.
            _ => multipart::skip(app, field).await?,
        }
    }
    let result = match source {
        None => Err(Error::Malformed("Source file required: the field source is missing, the archive to build".into())),
        Some(source) => builds::submit::files(app, caller, wishes, source, certs).await,
    };
    // When nobody knows whether the build was taken in, its files stay: the collector removes them if it was not.
    if result.as_ref().is_err_and(Error::is_refusal) {
        for (file, kind) in [(source, baton_store::ArtifactKind::Source), (certs, baton_store::ArtifactKind::Certs)] {
            if let Some(file) = file.filter(|file| file.origin == Origin::Body) {
                files::remove(app, file.id, &files::path_of(file.id, kind)).await;
            }
        }
    }
    result
}

pub(super) fn upload_id(text: &str) -> Result<UploadId, Error> {
    text.trim().parse().map_err(|_| Error::NotFound { what: "upload", id: text.trim().to_owned() })
}

fn priority(text: &str) -> Result<u8, Error> {
    text.trim().parse().map_err(|_| Error::field("priority", "must be 0 to 9"))
}

pub(super) fn header_text(headers: &HeaderMap, name: &str) -> Result<Option<String>, Error> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    value.to_str().map(|text| Some(text.to_owned())).map_err(|_| Error::field(name.to_owned(), "must be plain text"))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListBuilds {
    /// Only with this status.
    status: Option<BuildStatus>,
    /// Only for this platform.
    platform: Option<String>,
    /// Only those that this builder has, or had at their end.
    worker_id: Option<String>,
    /// At most this many.
    limit: Option<usize>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// List builds, newest first.
#[utoipa::path(get, path = "/api/builds", tag = "builds", security(("api_key" = ["read"])),
    params(ListBuilds),
    responses((status = 200, body = BuildPage), (status = 422, body = Problem)))]
pub(super) async fn list(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(wanted): Params<ListBuilds>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let wants_array = wants_array(&uri, &headers);
    let limit = wanted.limit.or(wants_array.then_some(PAGE_MAX));
    let page = Page { after: cursor(wanted.cursor.as_deref())?, limit: page_size(limit)? };
    let worker = match wanted.worker_id.as_deref() {
        Some(name) => Some(builds::builders::worker_named(&app, &caller, name).await?),
        None => None,
    };
    let filter = read::Filter { status: wanted.status, platform: wanted.platform, worker };
    let page = read::list(&app, &caller, &filter, page).await?;
    Ok(if wants_array { ok(&page.builds) } else { ok(&page) })
}

/// True for the first command line of Expo Free Agent, which takes an array and nothing else. All
/// that tells it from others is that it sends no query, and the name of the program that runs it.
fn wants_array(uri: &Uri, headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    uri.query().is_none() && (agent == "node" || agent.starts_with("Bun/"))
}

/// List the builds that somebody has.
#[utoipa::path(get, path = "/api/builds/active", tag = "builds", security(("api_key" = ["read"])),
    responses((status = 200, body = ActiveBuilds)))]
pub(super) async fn active(State(app): State<App>, Auth(caller): Auth) -> Result<Response, Error> {
    Ok(ok(&ActiveBuilds { builds: read::active(&app, &caller).await? }))
}

/// Count builds by their status.
#[utoipa::path(get, path = "/api/builds/statistics", tag = "builds", security(("api_key" = ["read"])),
    responses((status = 200, body = BuildStatistics)))]
pub(super) async fn statistics(State(app): State<App>, Auth(caller): Auth) -> Result<Response, Error> {
    let counts = read::counts(&app, &caller).await?;
    let BuildCounts { pending, assigned, building, completed, failed, cancelled, since: _ } = counts;
    let total = pending + assigned + building + completed + failed + cancelled;
    Ok(ok(&BuildStatistics { pending, assigned, building, completed, failed, cancelled, total }))
}

/// Get one build.
#[utoipa::path(get, path = "/api/builds/{id}", tag = "builds", security(("build_token" = []), ("api_key" = ["read"])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, body = BuildView), (status = 404, body = Problem)))]
pub(super) async fn get(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&read::one(&app, &shown.reader()?, &id).await?))
}

/// Follow one build: times in milliseconds since 1970, in the words of existing clients.
#[utoipa::path(get, path = "/api/builds/{id}/status", tag = "builds", security(("build_token" = []), ("api_key" = ["read"])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, body = FollowedBuild), (status = 404, body = Problem)))]
pub(super) async fn status(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&read::followed(&app, &shown.reader()?, &id).await?))
}

/// Cancel a build: at once when nobody has it, otherwise its builder is told.
#[utoipa::path(post, path = "/api/builds/{id}/cancel", tag = "builds", security(("build_token" = []), ("api_key" = ["submit"])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, body = CancelledBuild), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn cancel(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(ok(&control::cancel(&app, &shown.reader()?, &id).await?))
}

/// Make a new build of the same source.
#[utoipa::path(post, path = "/api/builds/{id}/retry", tag = "builds", security(("build_token" = []), ("api_key" = ["submit"])),
    params(("id" = String, Path, description = "The build"), ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated retry harmless")),
    responses((status = 201, body = SubmittedBuild), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn retry(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let key = header_text(&headers, IDEMPOTENCY_KEY_HEADER)?;
    let submitted = control::retry(&app, &shown.reader()?, &id, key.as_deref()).await?;
    Ok(answer(StatusCode::CREATED, &submitted))
}
