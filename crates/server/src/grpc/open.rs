//! What calls that need no key go through: nobody knows who makes them, so they must not stay for good, nor be many that stay long.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::Semaphore;
use tonic::Status;

use crate::App;
use crate::answers::{Answer, Route};

/// The call that tells of the server's health.
const CHECK: &str = "/grpc.health.v1.Health/Check";
/// The call that tells of the server's health until its caller has heard enough.
const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// Calls that answer questions until their caller has no more.
const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Most streams of each kind at once.
const STREAMS_MAX: usize = 100;
/// How long a caller may say nothing, unless bodies have even less time.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How many streams may begin, and how long their callers may be silent.
#[derive(Clone)]
struct Room {
    watches: Arc<Semaphore>,
    reflections: Arc<Semaphore>,
    silence: Duration,
}

/// Sets limits to services that are open to all.
pub(super) fn limited(open: Router, app: &App) -> Router {
    let room = Room {
        watches: Arc::new(Semaphore::new(STREAMS_MAX)),
        reflections: Arc::new(Semaphore::new(STREAMS_MAX)),
        silence: SILENCE_MAX.min(Duration::from_millis(app.settings.body_timeout_ms)),
    };
    open.layer(middleware::from_fn_with_state(room, call))
}

async fn call(State(room): State<Room>, request: Request, next: Next) -> Response {
    let known = [CHECK, WATCH].into_iter().chain(REFLECTION).find(|known| *known == request.uri().path());
    if let (Some(known), Some(answer)) = (known, request.extensions().get::<Answer>()) {
        answer.is_about(Route::Method(known.trim_start_matches('/').into()));
    }
    let streams = match request.uri().path() {
        WATCH => Some(room.watches),
        path if REFLECTION.contains(&path) => Some(room.reflections),
        _ => None,
    };
    let request = request.map(|body| until_silent(body, room.silence));
    let Some(streams) = streams else { return next.run(request).await };
    let Ok(place) = streams.try_acquire_owned() else { return too_many() };
    let kept = |body: Body| {
        // Whoever sends the answer has the place, until all of it is sent or nobody wants it any more.
        Body::new(body.map_frame(move |frame| {
            let _place = &place;
            frame
        }))
    };
    next.run(request).await.map(kept)
}

fn too_many() -> Response {
    let words = format!(
        "{STREAMS_MAX} callers without a key have a stream of this kind, which is as many as may have one; try again later"
    );
    Status::resource_exhausted(words).into_http::<Body>().into_response()
}

/// A body that ends when nothing more has come for so long.
fn until_silent(body: Body, silence: Duration) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let frames = stream::unfold(body, move |mut body| async move {
        let frame = tokio::time::timeout(silence, body.frame()).await.ok()??;
        Some((frame, body))
    });
    Body::new(StreamBody::new(frames))
}
