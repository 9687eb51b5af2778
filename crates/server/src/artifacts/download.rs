//! A file as an HTTP answer. The body is read as fast as the client takes it, and no faster.

use std::ops::Range;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::Storage;
use super::digest::Sha256Sum;
use super::error::StorageError;
use super::path::ArtifactPath;
use super::ranges::{Wanted, wanted};
use crate::crash;

/// A file to send, as the store knows it.
#[derive(Clone, PartialEq, Debug)]
pub struct Download<'a> {
    /// Where it is.
    pub path: &'a ArtifactPath,
    /// In bytes.
    pub size: u64,
    /// Its sum, which is also its entity tag.
    pub sha256: Sha256Sum,
    /// What it is to be called where it is saved; any text.
    pub file_name: &'a str,
    /// Its media type.
    pub content_type: &'a str,
}

impl Download<'_> {
    /// Answers GET and HEAD: whole, in part, or why not.
    pub async fn answer(
        &self,
        storage: &Storage,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Response, crate::Error> {
        let etag = format!("\"{}\"", self.sha256);
        let (status, range) = match wanted(method, headers, self.size, &etag) {
            Wanted::Whole => (StatusCode::OK, 0..self.size),
            Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
            Wanted::NotModified => return Ok(self.empty(StatusCode::NOT_MODIFIED, &etag)),
            Wanted::PreconditionFailed => return Ok(self.empty(StatusCode::PRECONDITION_FAILED, &etag)),
            Wanted::NotSatisfiable => {
                let mut response = self.empty(StatusCode::RANGE_NOT_SATISFIABLE, &etag);
                response.headers_mut().insert(header::CONTENT_RANGE, text(format!("bytes */{}", self.size)));
                return Ok(response);
            }
        };
        let body = match *method == Method::HEAD {
            true => self.look(storage).await?,
            false => {
                let sent = |_: &_| crash::point("download.part");
                Body::from_stream(storage.read(self.path, range.clone()).await?.inspect_ok(sent))
            }
        };
        let mut response = (status, body).into_response();
        let fields = response.headers_mut();
        self.describe(fields, &etag);
        fields.insert(header::CONTENT_LENGTH, (range.end - range.start).into());
        if status == StatusCode::PARTIAL_CONTENT {
            fields.insert(header::CONTENT_RANGE, content_range(&range, self.size));
        }
        Ok(response)
    }

    /// HEAD must not promise what GET could not keep.
    async fn look(&self, storage: &Storage) -> Result<Body, StorageError> {
        match storage.stat(self.path).await? {
            None => Err(StorageError::NotFound),
            Some(found) if found.size != self.size => {
                Err(StorageError::Damaged(format!("{:?} has {} bytes, not {}", self.path, found.size, self.size)))
            }
            Some(_) => Ok(Body::empty()),
        }
    }

    fn describe(&self, fields: &mut HeaderMap, etag: &str) {
        fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        fields.insert(header::ETAG, text(etag.to_owned()));
        let content_type = HeaderValue::from_str(self.content_type);
        fields
            .insert(header::CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
        fields.insert(header::CONTENT_DISPOSITION, content_disposition(self.file_name));
        fields.insert("repr-digest", text(self.sha256.as_field()));
        fields.insert("x-checksum-sha256", text(self.sha256.to_string()));
        // What a user uploaded must not run in a browser as if it were ours.
        fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }

    fn empty(&self, status: StatusCode, etag: &str) -> Response {
        let mut response = status.into_response();
        response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        response.headers_mut().insert(header::ETAG, text(etag.to_owned()));
        response
    }
}

fn content_range(range: &Range<u64>, size: u64) -> HeaderValue {
    text(format!("bytes {}-{}/{size}", range.start, range.end - 1))
}

/// For text that we made of digits and letters.
fn text(value: String) -> HeaderValue {
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static(""))
}

/// `Content-Disposition` for any file name: plain text for old clients, all of it for others (RFC 6266, RFC 8187).
pub fn content_disposition(name: &str) -> HeaderValue {
    // Only the last step of a path, and nothing a terminal or a shell could take amiss.
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|character| !character.is_control()).take(200).collect();
    let name = match name.trim_matches(['.', ' ']) {
        "" => "artifact",
        name => name,
    };
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.+ ".contains(character);
    let simple: String = name.chars().map(|character| if plain(character) { character } else { '_' }).collect();
    if simple == name {
        return text(format!("attachment; filename=\"{simple}\""));
    }
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            true => encoded.push(byte.into()),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    text(format!("attachment; filename=\"{simple}\"; filename*=UTF-8''{encoded}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn file_names_are_safe_and_whole() {
        let is = |name: &str, expected: &str| assert_eq!(content_disposition(name).to_str().unwrap(), expected);
        is("app-release.ipa", "attachment; filename=\"app-release.ipa\"");
        is("größe.ipa", "attachment; filename=\"gr__e.ipa\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.ipa");
        is("a\"; x=\"b", "attachment; filename=\"a__ x__b\"; filename*=UTF-8''a%22%3B%20x%3D%22b");
        is("../../etc/passwd", "attachment; filename=\"passwd\"");
        is("C:\\x\\y.zip", "attachment; filename=\"y.zip\"");
        is("a\r\nSet-Cookie: x", "attachment; filename=\"aSet-Cookie_ x\"; filename*=UTF-8''aSet-Cookie%3A%20x");
        is("..", "attachment; filename=\"artifact\"");
        is("", "attachment; filename=\"artifact\"");
    }

    proptest! {
        #[test]
        fn any_name_makes_one_field(name: String) {
            let value = content_disposition(&name);
            let value = value.to_str().unwrap();
            prop_assert!(value.starts_with("attachment; filename=\""));
            prop_assert_eq!(value.matches('"').count(), 2);
        }
    }
}
