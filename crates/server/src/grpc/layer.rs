//! What every call of ours goes through before it is decoded: who is calling, how long it may take, how large it is, and the counting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::HeaderMap;
use http::request::Parts;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::Instant as Moment;
use tonic::{Code, Status};

use super::error::code_name;
use crate::answers::{Answer, Route};
use crate::auth::Caller;
use crate::bodies::Share;
use crate::http::Peer;
use crate::to_its_end::to_its_end;
use crate::{App, Error};

/// The call whose messages flow in both directions.
pub(super) const STREAM: &str = "/baton.v1.WorkflowService/Work";
/// What stands before a message: a flag and its length.
const PREFIX_BYTES: usize = 5;

/// Calls that wait, and whose caller has to be there when they are answered.
const WAITING: [&str; 3] = [
    "/baton.v1.WorkflowService/PollActivity",
    "/baton.v1.WorkflowService/AwaitMessages",
    "/baton.v1.WorkflowService/WaitWorkflowRun",
];

/// Calls that bring a payload, and may be as large as that.
const PAYLOADS: [&str; 7] = [
    "/baton.v1.WorkflowService/StartWorkflow",
    "/baton.v1.WorkflowService/SignalWorkflowRun",
    "/baton.v1.WorkflowService/CompleteStep",
    "/baton.v1.WorkflowService/CompleteWorkflow",
    "/baton.v1.WorkflowService/ContinueAsNew",
    "/baton.v1.WorkflowService/StartChild",
    "/baton.v1.WorkflowService/Publish",
];

/// Who is calling, and with which key: a stream that lasts checks it again.
#[derive(Clone, Debug)]
pub(super) struct Authenticated {
    pub(super) caller: Arc<Caller>,
    pub(super) credential: String,
    pub(super) peer: Option<Peer>,
}

/// When the caller stops waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(pub(super) Option<Moment>);

/// Sees a call through.
pub(super) async fn call(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let path = request.uri().path().to_owned();
    let answer = request.extensions().get::<Answer>().cloned().unwrap_or_else(|| Answer::new(None, None));
    let from = request.extensions().get::<Peer>().map(|peer| peer.0);
    let method: Arc<str> = path.trim_start_matches('/').into();
    // Those whose callers hang up now and then. Of others it is known afterwards that they exist.
    if path == STREAM || WAITING.contains(&path.as_str()) {
        answer.is_about(Route::Method(method.clone()));
    }
    let response =
        admitted(&app, &path, request, next, &answer).await.unwrap_or_else(|error| answer.named(|| failed(&error)));
    let code = response.headers().get("grpc-status").map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()));
    if code == Code::PermissionDenied {
        app.keys.note_refusal(&answer, from, &path).await;
    }
    // Paths that clients make up would each be kept for good.
    let method = if code == Code::Unimplemented { "none".into() } else { method };
    answer.is_about(Route::Method(method.clone()));
    let seconds = (path != STREAM && !WAITING.contains(&path.as_str())).then(|| begun.elapsed().as_secs_f64());
    app.metrics.answered_call(&method, code_name(code), seconds);
    response
}

pub(super) fn failed(error: &Error) -> Response {
    super::error::status(error).into_http::<Body>().into_response()
}

async fn admitted(app: &App, path: &str, request: Request, next: Next, answer: &Answer) -> Result<Response, Error> {
    let (mut parts, body) = request.into_parts();
    let authenticated = answer.made_by(authenticate(app, &parts)).await?;
    answer.belongs_to(&authenticated.caller);
    let deadline = timeout(&parts.headers)?.map(|timeout| Moment::now() + timeout);
    parts.extensions.insert(authenticated);
    parts.extensions.insert(Deadline(deadline));
    if path == STREAM {
        return Ok(answer.made_by(next.run(Request::from_parts(parts, body))).await);
    }
    let share = Share::default();
    let limit = match PAYLOADS.contains(&path) {
        true => app.settings.payload_body_bytes_max(),
        false => app.settings.body_bytes_max,
    };
    let time = Duration::from_millis(app.settings.body_timeout_ms);
    let reading = tokio::time::timeout(time, answer.made_by(read(app, body, limit, &share)));
    let whole = within(deadline, reading).await;
    let Some(message) = whole else { return Ok(too_late()) };
    let message = message.map_err(|_| Error::TooSlow)??;
    if reads(path) {
        let make = async || {
            if !WAITING.contains(&path)
                && let Err(error) = app.answers.may_read().await
            {
                return (failed(&error), 0);
            }
            let request = Request::from_parts(parts.clone(), Body::from(message.clone()));
            weighed(next.clone().run(request).await).await
        };
        let answered = within(deadline, app.answers.fitting(answer, make)).await;
        return answered.unwrap_or_else(|| Ok(too_late()));
    }
    let call = next.run(Request::from_parts(parts, Body::from(message)));
    let call = answer.made_by(async { weighed(call.await).await });
    let answered = match WAITING.contains(&path) {
        true => within(deadline, call).await,
        // A change is carried to its end even when its caller hangs up or waits no longer: what was committed must still wake those
        // who wait for it.
        false => {
            let done = within(deadline, to_its_end(call)).await;
            done.map(|done| done.unwrap_or_else(|| (answer.named(|| failed(&Error::Internal)), 0)))
        }
    };
    drop(share);
    let Some((response, bytes)) = answered else { return Ok(too_late()) };
    app.answers.fit_or_wait(answer, bytes).await;
    Ok(response)
}

/// True for a call that changes nothing, so that its answer can be made again.
fn reads(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    ["Get", "List", "Wait"].iter().any(|verb| method.starts_with(verb))
}

/// A response to a call with one message, and how many bytes that has. It is encoded here: before,
/// nobody knows.
async fn weighed(response: Response) -> (Response, usize) {
    let (head, mut body) = response.into_parts();
    let Some(first) = body.frame().await else { return (Response::from_parts(head, Body::empty()), 0) };
    let bytes = first.as_ref().ok().and_then(|frame| frame.data_ref()).map_or(0, Bytes::len);
    let rest = stream::unfold(body, |mut body| async move { body.frame().await.map(|frame| (frame, body)) });
    let body = Body::new(StreamBody::new(stream::once(async { first }).chain(rest)));
    (Response::from_parts(head, body), bytes)
}

async fn within<T>(deadline: Option<Moment>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

fn too_late() -> Response {
    Status::deadline_exceeded("the time the caller gave has passed").into_http::<Body>().into_response()
}

/// Who is calling. Before the message is read, so that nobody's is without a key.
async fn authenticate(app: &App, parts: &Parts) -> Result<Authenticated, Error> {
    let peer = parts.extensions.get::<Peer>().copied();
    let credential = crate::http::credential(&parts.headers);
    let result = app.keys.check(credential, peer.map(|peer| peer.0)).await;
    if let Err(Error::BadCredential(_)) = &result {
        app.metrics.credential_refusals.inc();
    }
    Ok(Authenticated { caller: result?, credential: credential.unwrap_or_default().to_owned(), peer })
}

/// The one message of a call, whole, within its limits.
async fn read(app: &App, mut body: Body, limit: usize, share: &Share) -> Result<Bytes, Error> {
    let mut all = BytesMut::new();
    let mut first: Option<Bytes> = None;
    let mut admitted = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::Malformed("the message ended early".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = first.as_ref().map_or(all.len(), Bytes::len) + data.len();
        if length > limit + PREFIX_BYTES {
            return Err(Error::TooLarge { limit });
        }
        // Most messages come in one piece and need no copy.
        if all.is_empty() && first.is_none() {
            first = Some(data);
        } else {
            if let Some(first) = first.take() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        if !admitted && let Some(announced) = announced(first.as_deref().unwrap_or(&all)) {
            if announced > limit {
                return Err(Error::TooLarge { limit });
            }
            app.bodies.admit(announced, Some(share)).await?;
            admitted = true;
        }
    }
    Ok(first.unwrap_or_else(|| all.freeze()))
}

/// How long the message says it is.
fn announced(begin: &[u8]) -> Option<usize> {
    let (_, length) = begin.split_first()?;
    length.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)
}

/// The time the caller gives, from the header `grpc-timeout`: up to eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Error> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let read = || {
        let text = value.to_str().ok()?;
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8 && !digits.starts_with('+'))?;
        Some(match unit {
            "H" => Duration::from_secs(number * 3_600),
            "M" => Duration::from_secs(number * 60),
            "S" => Duration::from_secs(number),
            "m" => Duration::from_millis(number),
            "u" => Duration::from_micros(number),
            "n" => Duration::from_nanos(number),
            _ => return None,
        })
    };
    read()
        .map(Some)
        .ok_or_else(|| Error::Malformed("grpc-timeout must be up to eight digits and a unit like 100m".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_says() {
        let read =
            |text: &str| timeout(&[("grpc-timeout".parse().unwrap(), text.parse().unwrap())].into_iter().collect());
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
        assert_eq!(read("100m"), Ok(Some(Duration::from_millis(100))));
        assert_eq!(read("2H"), Ok(Some(Duration::from_secs(7_200))));
        assert_eq!(read("99999999n"), Ok(Some(Duration::from_nanos(99_999_999))));
        for wrong in ["", "m", "5", "-1S", "+1S", "123456789S", "1x", "1 S"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
