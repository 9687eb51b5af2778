//! Answers on their way out: counted until their last byte has left, and given up when the client
//! takes nothing.
//!
//! A connection that takes nothing is cut off by [`crate::stall`]. A stream of HTTP/2 can be
//! stopped alone: the client opens no window for it while the connection goes on. hyper waits for
//! the window without asking the body again, so a body notes when it has handed out a piece, and
//! the task that sends it looks after each turn whether the piece is gone.

use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::answers::{Answer, SMALL_BYTES};
use crate::request_log::{self, RequestLog};
use crate::{App, Error};

/// What is handed to HTTP/2 at once: a frame. It keeps what it was handed until the client has made
/// room for it.
const PIECE_BYTES: usize = 16 * 1024;

thread_local! {
    /// When the body that is being sent on this thread handed out a piece that has not been taken
    /// yet.
    static HANDED_OUT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Pieces that were handed to HTTP/2 for answers that have ended, and that a client has not taken
/// yet.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<VecDeque<(Instant, Weak<()>)>>);

impl Leftovers {
    fn add(&self, left: Weak<()>) {
        let mut all = self.0.lock().expect("nobody panics while holding it");
        while all.front().is_some_and(|(_, left)| left.strong_count() == 0) {
            all.pop_front();
        }
        all.push_back((Instant::now(), left));
    }

    /// True when some have been there for this long.
    pub(crate) fn are_older_than(&self, limit: Duration) -> bool {
        let mut all = self.0.lock().expect("nobody panics while holding it");
        all.retain(|(_, left)| left.strong_count() > 0);
        all.front().is_some_and(|(since, _)| since.elapsed() >= limit)
    }
}

/// The body of an answer.
pub(crate) struct Outgoing<G> {
    body: Body,
    app: App,
    answer: Answer,
    /// True for bytes that are in memory once for everybody.
    is_shared: bool,
    /// Where it leaves what HTTP/2 still has when it ends.
    http2: Option<Arc<Leftovers>>,
    /// What is left of a large piece.
    rest: Bytes,
    /// Room that is being waited for.
    waiting: Option<BoxFuture<'static, Result<Bytes, Error>>>,
    /// Held by every large piece, to see whether they are gone.
    held: Option<Arc<()>>,
    /// What is logged of the request when all is sent.
    line: RequestLog,
    /// Dropped when all is sent.
    _guard: G,
}

impl<G> Outgoing<G> {
    pub(crate) fn new(
        body: Body,
        app: App,
        answer: Answer,
        is_shared: bool,
        http2: Option<Arc<Leftovers>>,
        line: RequestLog,
        guard: G,
    ) -> Outgoing<G> {
        let (rest, waiting, held) = (Bytes::new(), None, None);
        Outgoing { body, app, answer, is_shared, http2, rest, waiting, held, line, _guard: guard }
    }

    /// Hands out a piece, or the beginning of it.
    fn hand_out(&mut self, mut bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.http2.is_some() {
            HANDED_OUT.set(Some(Instant::now()));
            if bytes.len() > PIECE_BYTES {
                self.rest = bytes.split_off(PIECE_BYTES);
            }
        }
        self.line.taken(bytes.len());
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    /// Large bytes, from now on with the room that they take; `None` when they have to wait for it.
    fn with_room(&mut self, bytes: Bytes) -> Option<Bytes> {
        let bytes = match self.http2.is_some() {
            true => crate::answers::kept(bytes, self.held.get_or_insert_default().clone()),
            false => bytes,
        };
        if self.is_shared {
            return Some(bytes);
        }
        if self.answer.bytes() > 0 {
            return Some(self.answer.keep(bytes));
        }
        if let Some(kept) = self.app.answers.try_take_piece(&self.answer, &bytes) {
            return Some(kept);
        }
        let (app, answer) = (self.app.clone(), self.answer.clone());
        let wait = Duration::from_millis(app.settings.write_timeout_ms);
        self.waiting = Some(Box::pin(async move { app.answers.take_piece(&answer, bytes, wait).await }));
        None
    }
}

impl<G: Unpin> HttpBody for Outgoing<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let id = self.line.id.clone();
        request_log::during(id, || self.next_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.is_empty() && self.waiting.is_none() {
            true => self.body.size_hint(),
            false => SizeHint::default(),
        }
    }
}

impl<G> Outgoing<G> {
    fn next_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        HANDED_OUT.set(None);
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return self.hand_out(rest);
        }
        loop {
            if let Some(waiting) = &mut self.waiting {
                let room = std::task::ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
                return match room {
                    Ok(bytes) => self.hand_out(bytes),
                    Err(error) => Poll::Ready(Some(Err(axum::Error::new(error)))),
                };
            }
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.line.sent();
                    return Poll::Ready(None);
                }
            };
            let bytes = match frame.into_data() {
                Ok(bytes) => bytes,
                Err(trailers) => {
                    self.line.sent();
                    trailers.trailers_ref().inspect(|trailers| self.line.trailers(trailers));
                    return Poll::Ready(Some(Ok(trailers)));
                }
            };
            if bytes.len() <= SMALL_BYTES {
                return self.hand_out(bytes);
            }
            if let Some(bytes) = self.with_room(bytes) {
                return self.hand_out(bytes);
            }
        }
    }
}

impl<G> Drop for Outgoing<G> {
    fn drop(&mut self) {
        // hyper asks no further once a body says that it is at its end.
        if self.rest.is_empty() && self.waiting.is_none() && self.body.is_end_stream() {
            self.line.sent();
        }
        if let (Some(leftovers), Some(held)) = (&self.http2, self.held.take()) {
            leftovers.add(Arc::downgrade(&held));
        }
    }
}

/// Runs the streams of HTTP/2 connections, and resets those whose client takes nothing of its
/// answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    pub(crate) write_timeout: Duration,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(taken(stream, self.write_timeout));
    }
}

/// Ends when the answer is sent, or when nothing of it was taken for too long. Dropping hyper's
/// future resets the stream.
async fn taken(stream: impl Future, limit: Duration) {
    tokio::pin!(stream);
    let mut handed_out: Option<Instant> = None;
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    std::future::poll_fn(|cx| {
        HANDED_OUT.set(handed_out);
        let ended = stream.as_mut().poll(cx).is_ready();
        handed_out = HANDED_OUT.take();
        if ended {
            return Poll::Ready(());
        }
        let Some(since) = handed_out else { return Poll::Pending };
        let deadline = since + limit;
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        std::task::ready!(timer.as_mut().poll(cx));
        tracing::debug!("a stream is reset: its client takes nothing of the answer");
        Poll::Ready(())
    })
    .await;
}
