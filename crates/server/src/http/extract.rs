//! What handlers take in: the caller first, then the query, then the body, bounded in size and time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Query, Request};
use baton_proto::API_KEY_HEADER;
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Uri};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::shape;
use crate::answers::Answer;
use crate::auth::Caller;
use crate::bodies::Share;
use crate::{App, Error};

/// Where a request comes from: the other end of the connection, or what a trusted proxy says.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Marks a request that a trusted proxy has passed on.
#[derive(Clone, Copy, Debug)]
pub struct ThroughProxy;

/// The authenticated caller. Comes before the body in every handler, so that nobody's body is read without a key.
pub struct Auth(pub Arc<Caller>);

impl FromRequestParts<App> for Auth {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Auth, Error> {
        let from = parts.extensions.get::<Peer>().map(|peer| peer.0);
        let result = app.keys.check(credential(&parts.headers), from).await;
        if let Err(Error::BadCredential(_)) = &result {
            app.metrics.credential_refusals.inc();
        }
        let caller = result.inspect(Answer::is_for)?;
        // What only reads is held up while its key reads a great deal; what waits for something
        // takes its turn later.
        let waits = super::waits(&parts.uri);
        let claims = parts.extensions.get::<MatchedPath>().is_some_and(|path| super::CLAIMING.contains(&path.as_str()));
        if parts.method == http::Method::GET && !waits && !claims {
            app.answers.may_read().await?;
        }
        Ok(Auth(caller))
    }
}

/// Who asks, where anybody may: a caller whose key is good is told more.
pub struct Asker(pub Option<Arc<Caller>>);

impl FromRequestParts<App> for Asker {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Asker, Error> {
        match credential(&parts.headers) {
            None => Ok(Asker(None)),
            Some(_) => Ok(Asker(Auth::from_request_parts(parts, app).await.ok().map(|Auth(caller)| caller))),
        }
    }
}

/// The API key that a request brings.
pub(crate) fn credential(headers: &HeaderMap) -> Option<&str> {
    // An empty one is what a client sends that was given none.
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.trim().is_empty());
    header(API_KEY_HEADER).or_else(|| {
        let (scheme, credential) = header(AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| credential.trim())
    })
}

/// The variable part of a path.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Path<T>, Error> {
        let wrong = || Error::Malformed("the path must be UTF-8 without NUL".into());
        if has_nul(parts.uri.path()) {
            return Err(wrong());
        }
        let path = axum::extract::Path::<T>::from_request_parts(parts, app).await;
        path.map(|axum::extract::Path(path)| Path(path)).map_err(|_| wrong())
    }
}

/// True when a part of a URL has a NUL in it, which PostgreSQL refuses in every text.
fn has_nul(encoded: &str) -> bool {
    encoded.contains("%00")
}

/// The query of a URL. Unknown parameters are errors.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Params<T>, Error> {
        if parts.uri.query().is_some_and(has_nul) {
            return Err(Error::Invalid("the query must not contain NUL".into()));
        }
        let joined = join_lists(&parts.uri);
        match Query::<T>::try_from_uri(joined.as_ref().unwrap_or(&parts.uri)) {
            Ok(Query(params)) => Ok(Params(params)),
            Err(rejection) => {
                let said = rejection.body_text();
                let said = said.rsplit_once("query string: ").map_or(said.as_str(), |(_, said)| said);
                Err(match said.split_once(": ") {
                    Some((place, said)) if !place.contains([' ', '`']) => shape::refusal(place, said),
                    Some(_) | None => shape::refusal("", said),
                })
            }
        }
    }
}

/// Parameters that are lists. Programs repeat them, people write commas.
const LISTS: [&str; 1] = ["state="];

/// The same URL with each repeated list in one parameter, separated by commas; `None` where none is repeated.
fn join_lists(uri: &Uri) -> Option<Uri> {
    let mut parts: Vec<String> = Vec::new();
    let mut has_joined = false;
    for part in uri.query()?.split('&') {
        let list = LISTS.iter().find(|name| part.starts_with(**name));
        match list.and_then(|name| Some((*name, parts.iter_mut().find(|other| other.starts_with(*name))?))) {
            Some((name, first)) => {
                first.push(',');
                first.push_str(&part[name.len()..]);
                has_joined = true;
            }
            None => parts.push(part.to_owned()),
        }
    }
    has_joined.then(|| format!("{}?{}", uri.path(), parts.join("&")).parse().ok())?
}

/// A JSON body about one run.
pub struct Json<T>(pub T);
/// A JSON body about one run that may bring a payload.
pub struct PayloadJson<T>(pub T);
/// A JSON body about many runs, which may be larger.
pub struct BatchJson<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Json<T>, Error> {
        read(request, app, app.settings.body_bytes_max).await.map(Json)
    }
}

impl<T: DeserializeOwned> FromRequest<App> for PayloadJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<PayloadJson<T>, Error> {
        read(request, app, app.settings.payload_body_bytes_max()).await.map(PayloadJson)
    }
}

impl<T: DeserializeOwned> FromRequest<App> for BatchJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<BatchJson<T>, Error> {
        read(request, app, app.settings.payload_batch_bytes_max()).await.map(BatchJson)
    }
}

/// Lines of a log as JSON. Programs that paste what another one printed between two quotes send
/// control characters as they are, which JSON forbids; and a shape that does not fit is as bad to
/// them as no JSON at all.
pub struct LogJson<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for LogJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<LogJson<T>, Error> {
        let bytes = read_bytes(request, app, app.settings.payload_batch_bytes_max()).await?;
        // On another thread: a batch of lines may be large, and be read twice.
        let parsed = tokio::task::spawn_blocking(move || parse_lines(&bytes)).await;
        parsed.unwrap_or(Err(Error::Internal)).map(LogJson)
    }
}

fn parse_lines<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let parsed = parse(bytes).or_else(|error| match (error, escape_controls(bytes)) {
        (Error::Malformed(_), Some(escaped)) => parse(&escaped),
        (error, _) => Err(error),
    });
    parsed.map_err(|error| match error {
        Error::Invalid(_) => Error::Malformed(
            "send {\"level\", \"message\"}, or many of them as {\"logs\": [...]}; each needs its message".into(),
        ),
        other => other,
    })
}

/// Most control characters that are escaped in one body: each takes six bytes instead of one.
const CONTROLS_MAX: usize = 1_000_000;

/// The same JSON, with the control characters inside its strings written as JSON wants them. `None`
/// when there are none, or more than any program prints.
fn escape_controls(bytes: &[u8]) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let controls = bytes.iter().filter(|byte| **byte < 0x20).count();
    if !(1..=CONTROLS_MAX).contains(&controls) {
        return None;
    }
    let mut escaped = Vec::with_capacity(bytes.len() + 6 * controls);
    let (mut in_string, mut after_backslash) = (false, false);
    for byte in bytes {
        match byte {
            0..0x20 if in_string => {
                // A backslash before one was meant as itself.
                if after_backslash {
                    escaped.push(b'\\');
                }
                escaped.extend_from_slice(b"\\u00");
                escaped.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
                after_backslash = false;
                continue;
            }
            b'"' if !after_backslash => in_string = !in_string,
            _ => {}
        }
        after_backslash = in_string && *byte == b'\\' && !after_backslash;
        escaped.push(*byte);
    }
    Some(escaped)
}

async fn read<T: DeserializeOwned>(request: Request, app: &App, limit: usize) -> Result<T, Error> {
    parse(&read_bytes(request, app, limit).await?)
}

/// The whole body, within its limits in size and time; an empty one stands for an empty object.
async fn read_bytes(request: Request, app: &App, limit: usize) -> Result<Bytes, Error> {
    let kind = request.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    // curl -d says form-urlencoded unless told otherwise; what counts is that the body is JSON.
    if kind.is_some_and(|kind| kind.starts_with("multipart/")) {
        return Err(Error::Malformed("the body must be JSON (Content-Type: application/json)".into()));
    }
    let bytes = whole_body(request, app, limit).await?;
    Ok(if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes })
}

/// The whole body, within its limits in size and time.
pub(crate) async fn whole_body(request: Request, app: &App, limit: usize) -> Result<Bytes, Error> {
    let (parts, body) = request.into_parts();
    let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        return Err(Error::TooLarge { limit });
    }
    let share = parts.extensions.get::<Share>();
    app.bodies.admit(length.unwrap_or(unannounced(app, limit)), share).await?;
    let time = Duration::from_millis(app.settings.body_timeout_ms);
    let collecting = collect(app, body, length, limit, share);
    tokio::time::timeout(time, collecting).await.map_err(|_| Error::TooSlow)?
}

/// What a body that does not say how long it is may have before it has to wait for the room of the largest.
fn unannounced(app: &App, limit: usize) -> usize {
    limit.min(app.settings.body_bytes_max)
}

async fn collect(
    app: &App,
    mut body: Body,
    length: Option<usize>,
    limit: usize,
    share: Option<&Share>,
) -> Result<Bytes, Error> {
    let mut admitted = length.unwrap_or(unannounced(app, limit));
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::Malformed("the body ended early".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if all.len() + data.len() > limit {
            return Err(Error::TooLarge { limit });
        }
        if all.len() + data.len() > admitted {
            // Nobody waits here for others who wait for the same.
            share.inspect(|share| share.release());
            app.bodies.admit(limit, share).await?;
            admitted = limit;
        }
        // Most bodies come in one piece and need no copy.
        if all.is_empty() && Some(data.len()) == length {
            return Ok(data);
        }
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => misshapen::<T>(bytes, &error),
        _ => Error::Malformed(format!("the body is not JSON: {error}")),
    })
}

/// Says which part of a body does not fit. It is read once more: to know where one is costs more than to read.
fn misshapen<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> Error {
    let again = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_slice(bytes));
    match again {
        Err(found) => {
            let place = found.path().to_string();
            shape::refusal(if place == "." { "" } else { &place }, &found.inner().to_string())
        }
        Ok(_) => shape::refusal("", &error.to_string()),
    }
}
