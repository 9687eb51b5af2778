//! Cross-origin requests: pages of the origins in the setting `cors_origins` may call the API from a browser. No cookies are
//! involved: such a page has an API key, and shows it.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};

use crate::App;

/// Methods that the API has.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
/// Headers that callers send.
const SENT: HeaderValue = HeaderValue::from_static(
    "Accept, Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Range, X-API-Key, X-Request-Id, \
     X-Build-Token, X-Worker-Token, X-Worker-Id, X-VM-Token, X-Lease, Tus-Resumable, Upload-Length, Upload-Metadata, \
     Upload-Offset, Upload-Checksum",
);
/// Headers of answers that a page may read.
const SHOWN: HeaderValue = HeaderValue::from_static(
    "ETag, Retry-After, X-Request-Id, Location, Content-Range, Tus-Resumable, Upload-Length, Upload-Offset",
);
/// How long a browser remembers what it was told, in seconds.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// Caches must not give one origin what another was answered.
const VARIES: HeaderValue = HeaderValue::from_static("Origin");

/// Origins whose pages may call the API.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins(Vec<String>);

impl Origins {
    /// Reads the setting: origins with commas between them, or `*` for all.
    pub(crate) fn parse(text: &str) -> Result<Origins, String> {
        let origins = text.split(',').map(str::trim).filter(|origin| !origin.is_empty());
        let origin = |origin: &str| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let is_host = |host: &str| {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
                let port = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map(|(_, port)| port);
                !host.is_empty() && host.bytes().all(is_plain) && port.is_none_or(|port| port.parse::<u16>().is_ok())
            };
            match origin == "*" || host.is_some_and(is_host) {
                true => Ok(origin.to_ascii_lowercase()),
                false => Err(format!("cors_origins must be origins like https://ci.example.org, or *, not {origin:?}")),
            }
        };
        origins.map(origin).collect::<Result<_, _>>().map(Origins)
    }

    /// True when no page may call the API.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn allow(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let asked = origin.to_str().ok()?;
        let is_allowed = self.0.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(asked));
        is_allowed.then(|| origin.clone())
    }
}

/// Answers what a browser asks before it sends a request of such a page, and lets the page read the answer.
pub(super) async fn allow(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(origin) = app.cors.allow(request.headers()) else {
        let mut response = next.run(request).await;
        response.headers_mut().append(header::VARY, VARIES);
        return response;
    };
    let asks_first =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match asks_first {
        // Without a credential: browsers never send one with this question.
        true => {
            let answers: [(HeaderName, HeaderValue); 3] = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, SENT),
                (header::ACCESS_CONTROL_MAX_AGE, REMEMBERED),
            ];
            (StatusCode::NO_CONTENT, answers).into_response()
        }
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN);
    headers.append(header::VARY, VARIES);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_and_compared() {
        let origins = Origins::parse("https://ci.example.org, http://localhost:3000").unwrap();
        let allows = |origins: &Origins, origin: &'static str| {
            origins.allow(&HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))])).is_some()
        };
        assert!(allows(&origins, "https://ci.example.org") && allows(&origins, "http://localhost:3000"));
        for other in ["http://ci.example.org", "https://ci.example.org:8443", "https://example.org", "null"] {
            assert!(!allows(&origins, other), "{other}");
        }
        assert!(allows(&Origins::parse("*").unwrap(), "https://anywhere.example"));
        assert!(Origins::parse("http://[::1]:3000, http://[::1], http://a:80").is_ok());
        assert!(!allows(&Origins::parse("").unwrap(), "https://ci.example.org"));
        for wrong in
            ["ci.example.org", "https://", "https://a/b", "https://a b", "ftp://a", "https://a:b", "https://a:"]
        {
            assert!(Origins::parse(wrong).is_err(), "{wrong}");
        }
    }
}
