//! /api/v1/uploads: files in pieces, so that a cut connection does not start over (tus 1.0). /api/v1/cache: files named by their sum.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use baton_proto::{CachedFile, Problem};
use baton_store::Scope;
use http::{HeaderMap, Method, StatusCode};

use super::super::answer;
use super::super::extract::{Auth, Path};
use super::machines::whole;
use super::runs::upload_id;
use crate::artifacts::{Download, Sha256Sum, Upload, UploadError, tus};
use crate::auth::Caller;
use crate::service::builds::cache;
use crate::service::health::store_now;
use crate::{App, Error};

/// Who brings a file: a submitter, or a worker with a result.
fn may_bring(caller: &Caller) -> Result<(), Error> {
    caller.has(Scope::Submit).or_else(|_| caller.has(Scope::Worker))
}

/// The protocol has answers of its own for what it refuses.
fn said(outcome: Result<(Upload, Response), UploadError>) -> Response {
    outcome.map_or_else(IntoResponse::into_response, |(_, response)| response)
}

/// Ask what the server knows of the protocol (tus 1.0).
#[utoipa::path(options, path = "/api/v1/uploads", tag = "uploads",
    responses((status = 204, description = "In the headers")))]
pub(super) async fn options(State(app): State<App>) -> Response {
    tus::options(&app.uploads)
}

/// Begin an upload that comes in pieces (tus 1.0).
#[utoipa::path(post, path = "/api/v1/uploads", tag = "uploads", security(("api_key" = ["submit"]), ("api_key" = ["worker"])),
    params(("Upload-Length" = u64, Header, description = "Bytes in all")),
    responses((status = 201, description = "Where it is, in Location"), (status = 400, description = "Not the protocol"), (status = 412, description = "Another version"), (status = 413, description = "Too large"), (status = 507, body = Problem)))]
pub(super) async fn create(State(app): State<App>, Auth(caller): Auth, headers: HeaderMap) -> Result<Response, Error> {
    may_bring(&caller)?;
    let now = store_now(&app).await?;
    let location = |id| format!("/api/v1/uploads/{id}");
    let created = tus::create(&app.uploads, &headers, &caller.key_id, location, now).await;
    Ok(said(created))
}

/// Ask how much of an upload has come. Only for the key that began it.
#[utoipa::path(head, path = "/api/v1/uploads/{id}", tag = "uploads", security(("api_key" = [])),
    params(("id" = String, Path, description = "The upload")),
    responses((status = 200, description = "In Upload-Offset"), (status = 404, description = "None, or not yours"), (status = 410, description = "Expired")))]
pub(super) async fn head(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (id, now) = (upload_id(&id)?, store_now(&app).await?);
    let found = tus::head(&app.uploads, &headers, id, &caller.key_id, now).await;
    Ok(said(found))
}

/// Send the next piece. Only for the key that began it.
#[utoipa::path(patch, path = "/api/v1/uploads/{id}", tag = "uploads", security(("api_key" = [])),
    params(("id" = String, Path, description = "The upload"), ("Upload-Offset" = u64, Header, description = "Where the piece begins")),
    responses((status = 204, description = "In Upload-Offset"), (status = 400, description = "Not the protocol"), (status = 404, description = "None, or not yours"), (status = 409, description = "Another offset"), (status = 410, description = "Expired"), (status = 412, description = "Another version"), (status = 415, description = "Another type"), (status = 460, description = "Another checksum")))]
pub(super) async fn patch(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Error> {
    let (id, now) = (upload_id(&id)?, store_now(&app).await?);
    let headers = request.headers().clone();
    let added = tus::patch(&app.uploads, &headers, whole(&app, request), id, &caller.key_id, now).await;
    Ok(said(added))
}

/// Give an upload up. Only for the key that began it.
#[utoipa::path(delete, path = "/api/v1/uploads/{id}", tag = "uploads", security(("api_key" = [])),
    params(("id" = String, Path, description = "The upload")),
    responses((status = 204, description = "Gone"), (status = 404, description = "None, or not yours")))]
pub(super) async fn delete(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (id, now) = (upload_id(&id)?, store_now(&app).await?);
    Ok(tus::delete(&app.uploads, &headers, id, &caller.key_id, now).await.unwrap_or_else(IntoResponse::into_response))
}

fn sum_of(text: &str) -> Result<Sha256Sum, Error> {
    text.parse()
        .map_err(|_| Error::Invalid("the last part of the path must be a SHA-256 sum in hexadecimal digits".into()))
}

/// Put a file into the cache. What is there already is not read again.
#[utoipa::path(put, path = "/api/v1/cache/{sha256}", tag = "cache", security(("api_key" = ["worker"])),
    params(("sha256" = String, Path, description = "The sum of the file, in hexadecimal digits")),
    responses((status = 201, body = CachedFile), (status = 400, body = Problem), (status = 413, body = Problem), (status = 422, body = Problem), (status = 507, body = Problem)))]
pub(super) async fn put_cached(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(sum): Path<String>,
    request: Request,
) -> Result<Response, Error> {
    caller.has(Scope::Worker)?;
    let sum = sum_of(&sum)?;
    super::multipart::check_length(request.headers(), app.settings.artifact_bytes_max)?;
    let length = request.headers().get(http::header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let stored = cache::put(&app, &caller, sum, whole(&app, request), length).await?;
    Ok(answer(StatusCode::CREATED, &CachedFile { sha256: sum.to_string(), size: stored.size }))
}

/// Get a file from the cache.
#[utoipa::path(get, path = "/api/v1/cache/{sha256}", tag = "cache", security(("api_key" = ["worker"])),
    params(("sha256" = String, Path, description = "The sum of the file, in hexadecimal digits")),
    responses((status = 200, description = "The file"), (status = 206, description = "A part of it"), (status = 304, description = "Not changed"), (status = 412, description = "Changed"), (status = 416, description = "No such part"), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn get_cached(
    State(app): State<App>,
    Auth(caller): Auth,
    Path(sum): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Error> {
    caller.has(Scope::Worker)?;
    let sum = sum_of(&sum)?;
    let (file, size) = cache::find(&app, &caller, sum).await?;
    let (path, name) = (file.path(), sum.to_string());
    let content_type = "application/octet-stream";
    Download { path: &path, size, sha256: sum, file_name: &name, content_type }
        .answer(&app.storage, &method, &headers)
        .await
}
