//! Entity tags: whoever reads the same thing again and again is told that it has not changed, without its bytes.

use axum::body::{Body, HttpBody, to_bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::Error;

/// Routes that answer with one thing.
const SINGLE: [&str; 7] = [
    "/api/v1/runs/{id}",
    "/api/v1/workers/{id}",
    "/api/v1/queues/{name}",
    "/api/v1/schedules/{id}",
    "/api/v1/pools/{pool}",
    "/api/v1/namespaces/{name}",
    "/api/v1/bulk/{id}",
];
/// Larger answers have no tag: it would have to be computed each time, for payloads that nobody polls.
const TAGGED_BYTES_MAX: u64 = 256 * 1024;

/// True when answers of this route have a tag.
pub(super) fn has_tags(route: &str) -> bool {
    SINGLE.contains(&route)
}

/// Tags the answer of a single read, and leaves out its bytes if the caller has them: `known` is what
/// it said with If-None-Match.
pub(super) async fn tag(response: Response, known: Option<&HeaderValue>) -> Response {
    let is_small = response.body().size_hint().upper().is_some_and(|bytes| bytes <= TAGGED_BYTES_MAX);
    if !is_small || response.status() != StatusCode::OK {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, TAGGED_BYTES_MAX as usize).await else { return Error::Internal.into_response() };
    let tag = tag_of(&bytes);
    let is_known = known.is_some_and(|known| known.to_str().is_ok_and(|known| names(known, &tag)));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        head.headers.insert(header::ETAG, tag);
    }
    if !is_known {
        return Response::from_parts(head, Body::from(bytes));
    }
    head.status = StatusCode::NOT_MODIFIED;
    head.headers.remove(header::CONTENT_TYPE);
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::empty())
}

/// Weak, because something on the way may send the same answer in other bytes.
fn tag_of(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    let digits: String = sum[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("W/\"{digits}\"")
}

/// True when the tags of an `If-None-Match` have this one among them.
fn names(known: &str, tag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    known.trim() == "*" || known.split(',').any(|one| bare(one) == bare(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly() {
        let tag = tag_of(b"{}");
        assert_ne!(tag, tag_of(b"{ }"));
        let strong = tag.trim_start_matches("W/").to_owned();
        for known in [tag.clone(), strong, format!("\"other\", {tag}"), "*".into()] {
            assert!(names(&known, &tag), "{known}");
        }
        assert!(!names("W/\"other\"", &tag));
        assert!(!names("", &tag));
    }
}
