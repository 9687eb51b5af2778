//! Pages, the stylesheet and the script are sent compressed to browsers that accept it: a list of runs is a tenth as large then.
//! That the length of a page says something of what is in it is known; its forms are guarded by more than their mark.

use std::io::Write;

use axum::body::{Body, HttpBody, to_bytes};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

/// Smaller answers are sent as they are.
const BYTES_MIN: u64 = 1_024;
/// Larger ones, too: they are no pages.
const BYTES_MAX: u64 = 8 << 20;
/// Fast: most of what there is to save is saved at once.
const LEVEL: u32 = 3;

/// True for a request whose answer may be compressed.
pub fn accepts(headers: &HeaderMap) -> bool {
    let names = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    names.flat_map(|names| names.split(',')).any(|name| {
        let mut parts = name.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// The same answer, compressed if that is worth it. What is sent piece by piece stays as it is.
pub async fn compressed(response: Response) -> Response {
    let length = response.body().size_hint().exact().unwrap_or_default();
    let is_text = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/"));
    if !is_text || !(BYTES_MIN..BYTES_MAX).contains(&length) || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, BYTES_MAX as usize).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 6), Compression::new(LEVEL));
    let Ok(encoded) = encoder.write_all(&bytes).and_then(|()| encoder.finish()) else {
        return Response::from_parts(head, Body::from(bytes));
    };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(encoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_it_says_so() {
        let accepting = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts(&headers)
        };
        assert!(accepting("gzip, deflate, br") && accepting("br;q=1.0, GZIP;q=0.8"));
        assert!(!accepting("br") && !accepting("gzip;q=0") && !accepts(&HeaderMap::new()));
    }
}
