//! Logs of builds: all of it, a page, a page that waits, or a stream that follows.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use baton_core::RunId;
use baton_proto::{BuildLogLine, BuildLogs, Problem};
use baton_store::Scope;
use futures_util::stream::{self, Stream, StreamExt};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::super::events::last_event_id;
use super::super::extract::{Params, Path};
use super::super::ok;
use super::credentials::Shown;
use crate::service;
use crate::service::builds::{self, logs};
use crate::{App, Error};

/// How often a log is looked at that another server may write.
const LOOK: Duration = Duration::from_secs(1);
/// How long the last line of a build that has ended may take.
const SETTLES: Duration = Duration::from_millis(250);
/// Longest time a page waits for lines.
const WAIT_MS_MAX: u64 = 60_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct LogsQuery {
    /// At most this many lines; all of them unless it is given.
    limit: Option<usize>,
    /// Only lines after the one with this number.
    after: Option<u64>,
    /// Waits this long for lines when there are none.
    wait_ms: Option<u64>,
    /// Answer with a stream of events, as `Accept: text/event-stream` does.
    follow: Option<bool>,
}

/// Read a log: all of it, a page, a page that waits for lines, or a stream of events that follows.
#[utoipa::path(get, path = "/api/builds/{id}/logs", tag = "builds", security(("build_token" = []), ("api_key" = ["read"])),
    params(("id" = String, Path, description = "The build"), LogsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last line seen, as a stream that was cut off goes on")),
    responses((status = 200, body = BuildLogs), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn logs(
    State(app): State<App>,
    shown: Shown,
    Path(id): Path<String>,
    Params(query): Params<LogsQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let reader = shown.reader()?;
    let limit = query.limit.unwrap_or(logs::PAGE_LINES);
    if !(1..=logs::LINES_MAX).contains(&limit) {
        return Err(Error::field("limit", format!("must be 1 to {}", logs::LINES_MAX)));
    }
    let after = last_event_id(&headers)?.or(query.after).unwrap_or(0);
    let wants_stream = headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/event-stream"));
    if wants_stream || query.follow == Some(true) {
        let found = builds::visible(&app, &reader, Scope::Read, &id).await?;
        let events = follow(app, found.record.id, after);
        return Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response());
    }
    if query.limit.is_none() && query.wait_ms.is_none() {
        let found = builds::visible(&app, &reader, Scope::Read, &id).await?;
        return Ok(([(CONTENT_TYPE, "application/json")], whole(app, found.record.id, after)).into_response());
    }
    let mut page = logs::read(&app, &reader, &id, after, limit).await?;
    if page.logs.is_empty() && query.wait_ms.is_some_and(|wait| wait > 0) {
        let deadline = Instant::now() + Duration::from_millis(query.wait_ms.unwrap_or(0).min(WAIT_MS_MAX));
        let found = builds::visible(&app, &reader, Scope::Read, &id).await?;
        page.logs = next_lines(&app, found.record.id, after, limit, deadline).await?;
    }
    Ok(ok(&page))
}

/// All lines after this number, as one JSON document that is made while it is sent: a log may be
/// larger than an answer in memory should be.
fn whole(app: App, run: RunId, after: u64) -> Body {
    let head = format!(r#"{{"build_id":"{run}","logs":["#);
    let lines = stream::try_unfold((after, true), move |(after, is_first)| {
        let app = app.clone();
        async move {
            let lines = logs::lines(&app, run, after, logs::PAGE_LINES).await?;
            let Some(last) = lines.last().map(|line| line.number) else { return Ok::<_, Error>(None) };
            let mut text = String::new();
            for (index, line) in lines.into_iter().enumerate() {
                if index > 0 || !is_first {
                    text.push(',');
                }
                text.push_str(&serde_json::to_string(&line).unwrap_or_default());
            }
            Ok(Some((text, (last, false))))
        }
    });
    let (head, tail) = (stream::iter([Ok(head)]), stream::iter([Ok("]}".to_owned())]));
    Body::from_stream(head.chain(lines).chain(tail))
}

/// Waits for lines after this number; none when the time is over or the build has ended.
async fn next_lines(
    app: &App,
    run: RunId,
    after: u64,
    limit: usize,
    deadline: Instant,
) -> Result<Vec<BuildLogLine>, Error> {
    let mut is_settled = false;
    loop {
        // Watch before looking: a line between the look and the wait would wake nobody.
        let (written, ended) = (app.log_news.watch(run), app.watchers.watch(run));
        let (written, ended) = (written.notified(), ended.notified());
        tokio::pin!(written, ended);
        written.as_mut().enable();
        ended.as_mut().enable();
        let over = service::read::has_ended(app, run).await?;
        let lines = logs::lines(app, run, after, limit).await?;
        if over && lines.is_empty() && !is_settled {
            // The line about its end is written right after it.
            is_settled = true;
            let _ = tokio::time::timeout(SETTLES, written).await;
            continue;
        }
        if !lines.is_empty() || over || Instant::now() >= deadline {
            return Ok(lines);
        }
        let look = Instant::now() + LOOK;
        tokio::select! {
            () = written => {}
            () = ended => {}
            () = tokio::time::sleep_until(look.min(deadline)) => {}
        }
    }
}

/// Every line as an event, with its number as the event's id, until the build has ended.
fn follow(app: App, run: RunId, after: u64) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(Some((app, after)), move |state| async move {
        let (app, after) = state?;
        let deadline = Instant::now() + Duration::from_millis(WAIT_MS_MAX);
        match next_lines(&app, run, after, logs::PAGE_LINES, deadline).await {
            Ok(lines) => {
                let last = lines.last().map_or(after, |line| line.number);
                let mut events: Vec<_> = lines.iter().map(line_event).collect();
                let over = lines.is_empty() && service::read::has_ended(&app, run).await.unwrap_or(true);
                if over {
                    events.push(Event::default().event("end").data("{}"));
                }
                Some((stream::iter(events), (!over).then_some((app, last))))
            }
            Err(error) => {
                let problem = Event::default().event("error").data(error.to_string());
                Some((stream::iter(vec![problem]), None))
            }
        }
    })
    .flatten()
    .map(Ok)
}

fn line_event(line: &BuildLogLine) -> Event {
    let data = serde_json::to_string(line).unwrap_or_default();
    Event::default().id(line.number.to_string()).data(data)
}
