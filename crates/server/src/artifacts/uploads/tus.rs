//! The tus protocol, version 1.0, with the extensions creation, termination, checksum and expiration:
//! headers in, an answer out. Authentication and routes are the caller's.

use axum::Json;
use axum::response::{IntoResponse, Response};
use baton_core::Millis;
use baton_proto::Problem;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::checksum::{ALGORITHMS, Checksum};
use super::{Piece, Upload, UploadError, UploadId, Uploads};
use crate::Error;
use crate::answers::Answer;
use crate::artifacts::error::StorageError;
use crate::artifacts::place::Source;

const VERSION: &str = "1.0.0";
const EXTENSIONS: &str = "creation,termination,checksum,expiration";
const PIECE: &str = "application/offset+octet-stream";

/// OPTIONS: what this server can do.
pub fn options(uploads: &Uploads) -> Response {
    let mut response = answer(StatusCode::NO_CONTENT);
    let fields = response.headers_mut();
    fields.insert("tus-version", HeaderValue::from_static(VERSION));
    fields.insert("tus-extension", HeaderValue::from_static(EXTENSIONS));
    fields.insert("tus-checksum-algorithm", HeaderValue::from_static(ALGORITHMS));
    fields.insert("tus-max-size", uploads.limits().bytes_max.into());
    response
}

/// POST: begins an upload. `location` says where it will be found.
pub async fn create(
    uploads: &Uploads,
    headers: &HeaderMap,
    owner: &str,
    location: impl FnOnce(UploadId) -> String,
    now: Millis,
) -> Result<(Upload, Response), UploadError> {
    check_version(headers)?;
    let length = number(headers, "upload-length")?
        .ok_or_else(|| UploadError::Invalid("the header Upload-Length says how many bytes will come".into()))?;
    let metadata = text(headers, "upload-metadata")?.unwrap_or_default();
    let upload = uploads.create(owner, length, metadata, now).await?;
    let mut response = answer(StatusCode::CREATED);
    let location = HeaderValue::from_str(&location(upload.id));
    let location = location.map_err(|error| StorageError::Failed(format!("the location is no header: {error}")))?;
    response.headers_mut().insert(LOCATION, location);
    expires(&mut response, &upload);
    Ok((upload, response))
}

/// HEAD: how far an upload is.
pub async fn head(
    uploads: &Uploads,
    headers: &HeaderMap,
    id: UploadId,
    owner: &str,
    now: Millis,
) -> Result<(Upload, Response), UploadError> {
    check_version(headers)?;
    let upload = uploads.get(id, owner, now).await?;
    let mut response = answer(StatusCode::OK);
    let fields = response.headers_mut();
    fields.insert("upload-offset", upload.offset.into());
    fields.insert("upload-length", upload.length.into());
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(metadata) = HeaderValue::from_str(&upload.metadata)
        && !upload.metadata.is_empty()
    {
        fields.insert("upload-metadata", metadata);
    }
    expires(&mut response, &upload);
    Ok((upload, response))
}

/// PATCH: adds a piece. When the upload that comes back is complete, it can be finished.
pub async fn patch(
    uploads: &Uploads,
    headers: &HeaderMap,
    body: Source<'_>,
    id: UploadId,
    owner: &str,
    now: Millis,
) -> Result<(Upload, Response), UploadError> {
    check_version(headers)?;
    if text(headers, CONTENT_TYPE.as_str())? != Some(PIECE) {
        return Err(UploadError::WrongType);
    }
    let offset = number(headers, "upload-offset")?
        .ok_or_else(|| UploadError::Invalid("the header Upload-Offset says where the piece begins".into()))?;
    let length = number(headers, CONTENT_LENGTH.as_str())?;
    let checksum = match text(headers, "upload-checksum")? {
        None => None,
        Some(value) => Some(Checksum::parse(value).ok_or_else(|| {
            UploadError::Invalid(format!("Upload-Checksum must be one of {ALGORITHMS}, a space, and the sum in base64"))
        })?),
    };
    let upload = uploads.append(id, owner, Piece { offset, length, checksum }, body, now).await?;
    let mut response = answer(StatusCode::NO_CONTENT);
    response.headers_mut().insert("upload-offset", upload.offset.into());
    expires(&mut response, &upload);
    Ok((upload, response))
}

/// DELETE: forgets an upload.
pub async fn delete(
    uploads: &Uploads,
    headers: &HeaderMap,
    id: UploadId,
    owner: &str,
    now: Millis,
) -> Result<Response, UploadError> {
    check_version(headers)?;
    uploads.delete(id, owner, now).await?;
    Ok(answer(StatusCode::NO_CONTENT))
}

fn answer(status: StatusCode) -> Response {
    let mut response = status.into_response();
    response.headers_mut().insert("tus-resumable", HeaderValue::from_static(VERSION));
    response
}

fn expires(response: &mut Response, upload: &Upload) {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(upload.expires_at.max(0) as u64);
    if let Ok(value) = HeaderValue::from_str(&httpdate::fmt_http_date(at)) {
        response.headers_mut().insert("upload-expires", value);
    }
}

fn check_version(headers: &HeaderMap) -> Result<(), UploadError> {
    match headers.get("tus-resumable").is_some_and(|version| version == VERSION) {
        true => Ok(()),
        false => Err(UploadError::WrongVersion),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, UploadError> {
    let wrong = |_| UploadError::Invalid(format!("the header {name} is not text"));
    headers.get(name).map(|value| value.to_str().map_err(wrong)).transpose()
}

fn number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, UploadError> {
    let wrong = || UploadError::Invalid(format!("the header {name} must be a whole number"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let read = |text: &str| text.parse().ok().filter(|_| digits(text)).ok_or_else(wrong);
    text(headers, name)?.map(read).transpose()
}

impl IntoResponse for UploadError {
    fn into_response(self) -> Response {
        let (status, code) = match &self {
            UploadError::Storage(error) => {
                let mut response = Error::from(error.clone()).into_response();
                response.headers_mut().insert("tus-resumable", HeaderValue::from_static(VERSION));
                return response;
            }
            UploadError::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            UploadError::Expired => (StatusCode::GONE, "upload_expired"),
            UploadError::WrongOffset { .. } => (StatusCode::CONFLICT, "upload_offset"),
            UploadError::Overtaken => (StatusCode::CONFLICT, "upload_overtaken"),
            UploadError::Incomplete { .. } => (StatusCode::CONFLICT, "upload_incomplete"),
            // The protocol has a number of its own for it.
            UploadError::WrongChecksum => {
                (StatusCode::from_u16(460).unwrap_or(StatusCode::BAD_REQUEST), "upload_checksum")
            }
            UploadError::Invalid(_) => (StatusCode::BAD_REQUEST, "malformed"),
            UploadError::WrongVersion => (StatusCode::PRECONDITION_FAILED, "upload_version"),
            UploadError::WrongType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "upload_type"),
        };
        let request_id = Answer::current_request_id().map(|id| id.to_string());
        let problem =
            Problem { request_id, trace_id: Answer::current_trace_id(), ..Problem::new(self.to_string(), code) };
        let mut response = (status, Json(problem)).into_response();
        let fields = response.headers_mut();
        fields.insert("tus-resumable", HeaderValue::from_static(VERSION));
        match self {
            UploadError::WrongOffset { offset } => drop(fields.insert("upload-offset", offset.into())),
            UploadError::WrongVersion => drop(fields.insert("tus-version", HeaderValue::from_static(VERSION))),
            _ => (),
        }
        response
    }
}
