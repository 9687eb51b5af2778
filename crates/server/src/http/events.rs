//! /api/v1/events

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::Problem;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Auth, Params, credential};
use crate::events::EventFilter;
use crate::service::events::{self, Heard, Listen, Listening};
use crate::{App, Error};

/// When a client that was cut off is to come back.
const RETRY_MS: u64 = 1_000;
/// Longest time that somebody may ask to listen for: a day.
const WAIT_MS_MAX: u64 = 86_400_000;
/// What a client that comes back has seen last.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// In this namespace; all that the key is good for if not given.
    namespace: Option<String>,
    /// Of this queue.
    queue: Option<String>,
    /// Of runs of this type.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    run_type: Option<String>,
    /// Of this run.
    run: Option<String>,
    /// Of this worker.
    worker: Option<String>,
    /// Of this runner pool.
    pool: Option<String>,
    /// Of these kinds, parted by commas: `run.ended`, or all of a subject: `run`.
    kind: Option<String>,
    /// After the event with this id. The header `Last-Event-ID` says the same, and wins.
    after: Option<i64>,
    /// The stream ends after this long; when the client has enough if not given.
    wait_ms: Option<u64>,
}

/// Listen to what happens, as a stream of events.
///
/// The answer is `text/event-stream`: each event has its kind as `event`, its position as `id`, and an `Event` as
/// `data`. A client that was cut off goes on with `Last-Event-ID`, at any server. Whoever reads too slowly, or comes back too
/// late, is told with an event of the kind `missed`.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", security(("api_key" = ["read"])),
    params(EventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event seen")),
    responses((status = 200, body = String, content_type = "text/event-stream", description = "A stream of events"),
        (status = 422, body = Problem), (status = 429, body = Problem, description = "Too many listen with this key, or at this server")))]
pub(super) async fn listen(
    State(app): State<App>,
    Auth(caller): Auth,
    Params(query): Params<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let filter = EventFilter {
        namespace: query.namespace,
        queue: query.queue,
        run_type: query.run_type,
        run: query.run,
        worker: query.worker,
        pool: query.pool,
        ..EventFilter::default()
    };
    if query.wait_ms.is_some_and(|ms| ms > WAIT_MS_MAX) {
        return Err(Error::field("wait_ms", format!("must be at most {WAIT_MS_MAX}")));
    }
    let listening = Listen {
        filter: filter.of_kinds(query.kind.as_deref().unwrap_or_default())?,
        after: last_event_id(&headers)?.or(query.after),
        wait_ms: query.wait_ms,
        credential: credential(&headers).map(str::to_owned),
    };
    let listening = events::listen(&app, &caller, listening).await?;
    let head = format!("retry: {RETRY_MS}\nid: {}\n\n", listening.position());
    let body = stream::unfold((Some(Bytes::from(head)), listening), next);
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // Proxies are to pass on what there is.
        (http::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The number in the header `Last-Event-ID`, if a client that comes back sends one.
pub(super) fn last_event_id<N: std::str::FromStr>(headers: &HeaderMap) -> Result<Option<N>, Error> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let wrong = || Error::field("Last-Event-ID", "must be the id of an event");
    number.map(Some).ok_or_else(wrong)
}

type Following = (Option<Bytes>, Listening);

async fn next((head, mut listening): Following) -> Option<(Result<Bytes, Infallible>, Following)> {
    let frame = match head {
        Some(head) => head,
        None => written(&listening.next().await?),
    };
    Some((Ok(frame), (None, listening)))
}

/// Events as they go over the wire. The last id is where the client goes on, also when nothing was for it.
fn written(heard: &Heard) -> Bytes {
    let mut text = Vec::new();
    for event in &heard.events {
        text.extend_from_slice(format!("event: {}\nid: {}\ndata: ", event.kind, event.id).as_bytes());
        text.extend(serde_json::to_vec(event).unwrap_or_default());
        text.extend_from_slice(b"\n\n");
    }
    if heard.events.last().is_none_or(|last| last.id != heard.position) {
        text.extend_from_slice(format!(": heartbeat\nid: {}\n\n", heard.position).as_bytes());
    }
    text.into()
}
