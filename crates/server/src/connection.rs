//! Connections: HTTP/1.1, HTTP/2 and gRPC on one port, with limits on how long anything may take.
//!
//! hyper's own header timeout also counts the idle time between two requests, so it cannot tell a slow client
//! from a quiet one. Here a connection has three limits of its own: from the first byte of a request to its last header,
//! from one request to the next, and on how long its client may take nothing of an answer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::http::Peer;
use crate::stall::Unstalled;
use crate::{App, Settings};

/// Largest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_000;
/// How often a quiet HTTP/2 peer is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Pause after `accept` failed, which it does when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where connections come from: a socket, or a simulator.
pub trait Listener: Send + 'static {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Waits for the next connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, SocketAddr)>> + Send;
}

impl Listener for tokio::net::TcpListener {
    type Io = tokio::net::TcpStream;

    async fn accept(&mut self) -> io::Result<(Self::Io, SocketAddr)> {
        let (stream, peer) = tokio::net::TcpListener::accept(self).await?;
        // Without it, small answers wait for the peer's delayed acknowledgements.
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }
}

/// Accepts connections until `stop`, then lets those that are open finish what they are doing.
pub async fn serve(app: &App, mut listener: impl Listener, router: Router, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(app.settings.connections_max));
    let tasks = TaskTracker::new();
    loop {
        let place = places.clone().acquire_owned();
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async { (place.await, listener.accept().await) } => accepted,
        };
        match accepted {
            (Ok(place), Ok((io, peer))) => {
                let one = connection(app.clone(), io, peer, router.clone(), stop.clone());
                tasks.spawn(async move {
                    one.await;
                    drop(place);
                });
            }
            (_, Err(error)) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            (Err(_), Ok(_)) => break,
        }
    }
    // Refused at once, a new connection can go elsewhere; left in the backlog, it would only be cut off later.
    drop(listener);
    tasks.close();
    let time = Duration::from_millis(app.settings.shutdown_timeout_ms);
    if tokio::time::timeout(time, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "some calls did not finish in time and are cut off");
    }
}

async fn connection<I>(app: App, io: I, peer: SocketAddr, router: Router, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    app.metrics.connections.inc();
    let activity = Arc::new(Activity::new());
    let io = Unstalled::new(io, Duration::from_millis(app.settings.write_timeout_ms));
    let io = TokioIo::new(Watched { io, activity: activity.clone(), first: true });
    let service = service_fn({
        let activity = activity.clone();
        move |mut request: http::Request<Incoming>| {
            let guard = InFlight::begin(activity.clone());
            request.extensions_mut().insert(Peer(peer));
            let answer = router.clone().oneshot(request.map(Body::new));
            async move {
                let response = answer.await.unwrap_or_else(|never| match never {});
                Ok::<_, std::convert::Infallible>(response.map(|body| guard.until_sent(body)))
            }
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    let connection = builder.serve_connection(io, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = activity.overdue(&app.settings) => Ok(()),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
    app.metrics.connections.dec();
}

/// What a connection is doing, in milliseconds since it was opened; 0 is "not".
#[derive(Debug)]
struct Activity {
    opened: Instant,
    in_flight: AtomicUsize,
    /// Since when a request's head has been coming in.
    head_since: AtomicU64,
    /// Since when there has been nothing to do.
    idle_since: AtomicU64,
    http2: std::sync::atomic::AtomicBool,
}

impl Activity {
    fn new() -> Activity {
        Activity {
            opened: Instant::now(),
            in_flight: AtomicUsize::new(0),
            head_since: AtomicU64::new(0),
            idle_since: AtomicU64::new(1),
            http2: false.into(),
        }
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + 1
    }

    fn received(&self) {
        // On HTTP/2 bytes may be answers to our pings; heads come in one frame there.
        if self.in_flight.load(Ordering::Relaxed) == 0 && !self.http2.load(Ordering::Relaxed) {
            let _ = self.head_since.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// When the client will have been too slow or quiet for too long, if nothing happens until then.
    fn deadline(&self, settings: &Settings) -> Option<Instant> {
        let after = |mark: &AtomicU64, ms: u64| self.opened + Duration::from_millis(mark.load(Ordering::Relaxed) + ms);
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            None
        } else if self.head_since.load(Ordering::Relaxed) > 0 {
            Some(after(&self.head_since, settings.header_timeout_ms))
        } else {
            Some(after(&self.idle_since, settings.idle_timeout_ms))
        }
    }

    /// Returns when the client has been too slow, or quiet for too long.
    async fn overdue(&self, settings: &Settings) {
        // A head may begin to come in at any time, so its limit is also how long this may sleep.
        let look_again = Duration::from_millis(settings.header_timeout_ms.min(settings.idle_timeout_ms));
        loop {
            let deadline = self.deadline(settings);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return;
            }
            let latest = Instant::now() + look_again;
            tokio::time::sleep_until(deadline.unwrap_or(latest).min(latest)).await;
        }
    }
}

/// A request that is being answered.
struct InFlight(Arc<Activity>);

impl InFlight {
    fn begin(activity: Arc<Activity>) -> InFlight {
        activity.in_flight.fetch_add(1, Ordering::Relaxed);
        activity.head_since.store(0, Ordering::Relaxed);
        InFlight(activity)
    }

    /// Keeps the request in flight until its answer has been sent, also when that is a stream.
    fn until_sent(self, body: Body) -> UnsyncBoxBody<Bytes, axum::Error> {
        body.map_frame(move |frame| {
            let _ = &self;
            frame
        })
        .boxed_unsync()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that notes when bytes come in.
struct Watched<I> {
    io: I,
    activity: Arc<Activity>,
    first: bool,
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buffer);
        let received = &buffer.filled()[before..];
        if !received.is_empty() {
            if std::mem::take(&mut self.first) {
                self.activity.http2.store(received.starts_with(b"PRI"), Ordering::Relaxed);
            }
            self.activity.received();
        }
        result
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
