//! Files of builds: for their submitters, and for whoever builds them.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_core::LateVerb;
use baton_proto::{BUILD_ID_HEADER, Problem, SigningParts};
use baton_store::{Artifact, ArtifactKind, Scope};
use http::{HeaderMap, HeaderValue, Method, header};

use super::super::extract::Path;
use super::super::ok;
use super::credentials::Shown;
use crate::artifacts::{Download, Sha256Sum};
use crate::service::builds::holder::Proof;
use crate::service::builds::{self, Found, Reader, files, holder, machines};
use crate::{App, Error, crash};

async fn send(
    app: &App,
    found: &Found,
    file: Artifact,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let (size, sum) = file.stored.ok_or(Error::Internal)?;
    let path = files::path_of(file.id, file.kind);
    let file_name = download_name(found, &file);
    let content_type = match file_name.rsplit('.').next() {
        Some("zip") => "application/zip",
        // Sources are called one thing and are another: what counts is what they begin with.
        _ if file.kind == ArtifactKind::Source => files::content_type(app, &path, size).await?,
        _ => "application/octet-stream",
    };
    let download = Download { path: &path, size, sha256: Sha256Sum(sum), file_name: &file_name, content_type };
    download.answer(&app.storage, method, headers).await
}

/// What a file is called where it is downloaded: as its sender called it, or else by its build and
/// platform.
fn download_name(found: &Found, file: &Artifact) -> String {
    let ending = match found.build.submitted.platform.as_str() {
        "ios" => "ipa",
        "android" => "apk",
        _ => return file.name.clone(),
    };
    match file.kind == ArtifactKind::Result && !file.name.contains('.') {
        true => format!("{}.{ending}", found.record.id),
        false => file.name.clone(),
    }
}

/// Download what came out of a build.
#[utoipa::path(get, path = "/api/builds/{id}/download", tag = "builds", security(("build_token" = []), ("api_key" = ["read"])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, description = "The file"), (status = 206, description = "A part of it"), (status = 304, description = "Not changed"), (status = 412, description = "Changed"), (status = 416, description = "No such part"), (status = 400, description = "Not completed", body = Problem), (status = 404, body = Problem)))]
pub(super) async fn result(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Error> {
    submitted_or_built(&app, &shown.reader()?, &id, ArtifactKind::Result, &method, &headers).await
}

/// Download a file of a build.
#[utoipa::path(get, path = "/api/builds/{id}/download/{which}", tag = "builds", security(("build_token" = []), ("api_key" = ["read"])),
    params(("id" = String, Path, description = "The build"), ("which" = String, Path, description = "`source` or `result`")),
    responses((status = 200, description = "The file"), (status = 206, description = "A part of it"), (status = 304, description = "Not changed"), (status = 412, description = "Changed"), (status = 416, description = "No such part"), (status = 400, description = "Not completed", body = Problem), (status = 404, body = Problem)))]
pub(super) async fn download(
    State(app): State<App>,
    shown: Shown,
    Path((id, which)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Error> {
    named(&app, &shown.reader()?, &id, &which, &method, &headers).await
}

/// Sends a file of a build by the word for its kind.
pub(crate) async fn named(
    app: &App,
    reader: &Reader<'_>,
    id: &str,
    which: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let kind = match which {
        "source" => ArtifactKind::Source,
        "result" => ArtifactKind::Result,
        other => return Err(Error::Malformed(format!("Invalid file type {other:?}: there are source and result"))),
    };
    submitted_or_built(app, reader, id, kind, method, headers).await
}

async fn submitted_or_built(
    app: &App,
    reader: &Reader<'_>,
    id: &str,
    kind: ArtifactKind,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let found = builds::visible(app, reader, Scope::Read, id).await?;
    let file = files::published(app, &found, kind).await?.ok_or_else(|| {
        let status = builds::status_of(found.record.state).as_str();
        match found.record.state == baton_core::State::Completed {
            true => Error::NotFound { what: "file", id: "to download: the build was completed without one".into() },
            false => Error::Malformed(format!("Build not completed: it is {status}, so there is no result")),
        }
    })?;
    send(app, &found, file, method, headers).await
}

/// Get the source, for whoever builds it. Fetching it is a sign of work.
#[utoipa::path(get, path = "/api/builds/{id}/source", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, description = "The file"), (status = 206, description = "A part of it"), (status = 304, description = "Not changed"), (status = 412, description = "Changed"), (status = 416, description = "No such part"), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn source(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (found, lease) = holder::lease(&app, &shown.proof(None)?, &id, LateVerb::Read).await?;
    let file = files::published(&app, &found, ArtifactKind::Source).await?;
    let file = file.ok_or(Error::NotFound { what: "file", id: "to build: the build is from a repository".into() })?;
    machines::begun(&app, lease).await?;
    crash::point("download.begun");
    send(&app, &found, file, &method, &headers).await
}

/// Get the archive with the certificates, for whoever builds. Every read is written to the audit log.
#[utoipa::path(get, path = "/api/builds/{id}/certs", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build")),
    responses((status = 200, description = "The archive"), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn certs(State(app): State<App>, shown: Shown, Path(id): Path<String>) -> Result<Response, Error> {
    let archive = machines::certs(&app, &shown.proof(None)?, &id).await?;
    let mut response = archive.into_response();
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Get the parts of that archive, and a password for a fresh keychain.
#[utoipa::path(get, path = "/api/builds/{id}/certs-secure", tag = "builders", security(("worker_token" = []), ("api_key" = ["worker"], "worker_id" = []), ("vm_token" = []), ("api_key" = ["worker"], "lease" = [])),
    params(("id" = String, Path, description = "The build"), ("X-Build-Id" = Option<String>, Header, description = "The build, again; needed with a worker's credentials")),
    responses((status = 200, body = SigningParts), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn certs_secure(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let proof = shown.proof(None)?;
    let repeated = headers.get(BUILD_ID_HEADER).and_then(|value| value.to_str().ok());
    match (repeated, &proof) {
        (Some(repeated), _) if repeated != id => {
            return Err(Error::Forbidden("X-Build-Id must repeat the build's id".into()));
        }
        (None, Proof::BuilderToken(..) | Proof::BuilderName(..)) => {
            return Err(Error::Forbidden("send X-Build-Id: it must repeat the build's id".into()));
        }
        // The token of a machine or a lease is good for one build only.
        (Some(_), _) | (None, Proof::Machine(_) | Proof::Lease(..)) => {}
    }
    let archive = machines::certs(&app, &proof, &id).await?;
    let certs = baton_archive::certs(std::io::Cursor::new(&archive[..]))
        .map_err(|error| Error::Invalid(format!("the certs archive cannot be used: {error}")))?;
    let mut random = [0; 24];
    app.entropy.fill(&mut random);
    let profiles: Vec<String> =
        certs.provisioning_profiles.iter().map(|(_, bytes)| STANDARD.encode(bytes.expose())).collect();
    let mut response = ok(&SigningParts {
        p12: STANDARD.encode(certs.p12.expose()),
        p12_password: certs.p12_password.expose().to_owned(),
        keychain_password: STANDARD.encode(random),
        provisioning_profiles: profiles,
    });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
