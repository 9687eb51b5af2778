//! Connections: HTTP/1.1, HTTP/2 and gRPC on one port, with limits on how long anything may take.
//!
//! hyper's own header timeout also counts the idle time between two requests, so it cannot tell a slow client
//! from a quiet one. Here a connection has three limits of its own: from the first byte of a request to its last header,
//! from one request to the next, and on how long its client may take nothing of an answer.

mod activity;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

pub(crate) use activity::Activity;
use activity::{Cut, InFlight, Watched};

use crate::addresses::{Addresses, Open, Shut};
use crate::answers::{Answer, Origin, SharedByAll};
use crate::http::{Peer, ThroughProxy};
use crate::outgoing::{Outgoing, Streams};
use crate::request_log::RequestLog;
use crate::stall::Unstalled;
use crate::tls::{self, Holder};
use crate::traces::{self, RequestSpan};
use crate::{App, Settings};

/// Largest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Requests at once on one HTTP/2 connection.
pub(crate) const STREAMS_MAX: u32 = 1_000;
/// How often a quiet HTTP/2 peer is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// What a request is called in the log, the audit log and in errors. A caller may name it.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest name that a caller may give.
const REQUEST_ID_MAX: usize = 128;
/// Pause after `accept` failed, which it does when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// What HTTP/2 takes of one answer before the client has made room for it.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// Open files that are no connections: the store's, artifacts, programs.
const OTHER_FILES: usize = 128;
/// How long a connection waits whose address has no room left and opens others all the time.
const HOLD: Duration = Duration::from_secs(5);
/// Connections that wait so at once.
const HELD_MAX: usize = 4_096;
/// What a connection that has to wait may send meanwhile: the system would take megabytes of each.
const WAITING_BYTES: usize = 4 << 10;
/// What it may send ahead when it has waited.
const WAITED_BYTES: usize = 256 << 10;

/// Where connections come from: a socket, or a simulator.
pub trait Listener: Send + 'static {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Waits for the next connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, SocketAddr)>> + Send;
    /// Says how many bytes may come in that nobody has read yet.
    fn set_receive_buffer(_io: &Self::Io, _bytes: usize) {}
}

impl Listener for tokio::net::TcpListener {
    type Io = tokio::net::TcpStream;

    async fn accept(&mut self) -> io::Result<(Self::Io, SocketAddr)> {
        let (stream, peer) = tokio::net::TcpListener::accept(self).await?;
        // Without it, small answers wait for the peer's delayed acknowledgements.
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }

    fn set_receive_buffer(io: &Self::Io, bytes: usize) {
        if let Err(error) = rustix::net::sockopt::set_socket_recv_buffer_size(io, bytes) {
            tracing::debug!(%error, "a receive buffer stays as it is");
        }
    }
}

/// Accepts connections until `stop`, then lets those that are open finish what they are doing.
pub async fn serve<L: Listener>(app: &App, mut listener: L, router: Router, stop: CancellationToken) {
    let most = connections_max(&app.settings);
    let addresses = Arc::new(Addresses::new(&app.settings, most));
    let held = Arc::new(Semaphore::new((files_max().saturating_sub(most) / 2).min(HELD_MAX)));
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((io, peer)) => {
                let is_proxy = app.proxies.trust(peer.ip());
                let server = Served { app: app.clone(), addresses: addresses.clone(), router: router.clone() };
                let accepted = Accepted { io, peer, is_proxy, set_buffer: L::set_receive_buffer };
                match addresses.open(peer.ip(), is_proxy) {
                    Ok(open) => drop(tasks.spawn(connection(server, accepted, open, stop.clone()))),
                    Err(Shut::ForNow) => match held.clone().try_acquire_owned() {
                        Ok(place) => drop(tasks.spawn(hold(server, accepted, place, stop.clone()))),
                        Err(_) => refuse(app, peer),
                    },
                    Err(Shut::Full) => refuse(app, peer),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                addresses.relieve();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
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

/// Lets a connection wait whose address puts new ones in the place of old ones too fast, and then
/// in, if it may. Turned away, it would be back at once.
async fn hold<I>(server: Served, accepted: Accepted<I>, place: OwnedSemaphorePermit, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    accepted.set_buffer(WAITING_BYTES);
    tokio::select! {
        () = tokio::time::sleep(HOLD) => {}
        () = stop.cancelled() => return,
    }
    accepted.set_buffer(WAITED_BYTES);
    drop(place);
    match server.addresses.open(accepted.peer.ip(), false) {
        // In a box: those that wait need no room for it yet.
        Ok(open) => Box::pin(connection(server, accepted, open, stop)).await,
        Err(_) => refuse(&server.app, accepted.peer),
    }
}

fn refuse(app: &App, peer: SocketAddr) {
    app.metrics.connections_refused.inc();
    tracing::debug!(%peer, "a connection is refused: there is no room for it, and none is idle");
}

/// Connections that the system allows.
fn files_max() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = files.map_or(Semaphore::MAX_PERMITS, |files| usize::try_from(files).unwrap_or(Semaphore::MAX_PERMITS));
    most.saturating_sub(OTHER_FILES).clamp(1, Semaphore::MAX_PERMITS)
}

/// Connections that there may be: as many as the settings say, and the system allows.
fn connections_max(settings: &Settings) -> usize {
    let most = files_max();
    if most < settings.connections_max {
        tracing::warn!(
            connections_max = settings.connections_max,
            connections = most,
            "the system allows fewer open files than connections_max needs; raise the limit (ulimit -n, LimitNOFILE)"
        );
    }
    settings.connections_max.min(most)
}

/// What all connections of a server share.
struct Served {
    app: App,
    addresses: Arc<Addresses>,
    router: Router,
}

/// A connection that nothing was read from yet.
struct Accepted<I> {
    io: I,
    peer: SocketAddr,
    is_proxy: bool,
    set_buffer: fn(&I, usize),
}

impl<I> Accepted<I> {
    fn set_buffer(&self, bytes: usize) {
        (self.set_buffer)(&self.io, bytes);
    }
}

async fn connection<I>(server: Served, accepted: Accepted<I>, open: Open, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = open.activity.clone();
    if !accepted.is_proxy
        && let Some(delay) = open.address.delay()
    {
        accepted.set_buffer(WAITING_BYTES);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = activity.closed.notified() => return,
            () = stop.cancelled() => return,
        }
        accepted.set_buffer(WAITED_BYTES);
    }
    let Accepted { io, peer, is_proxy, .. } = accepted;
    let from = Other { peer, is_proxy, holder: None };
    let Some(tls) = server.app.tls.get() else { return carry(server, io, from, open, stop).await };
    // Until the handshake is over the connection is idle: it makes room for others like any. In
    // boxes, so that connections without TLS need no room for this.
    let shaken = tokio::select! {
        shaken = Box::pin(tls::shake(&server.app, tls, io, &open.address, is_proxy)) => shaken,
        () = activity.closed.notified() => None,
        () = stop.cancelled() => None,
    };
    if let Some((io, holder)) = shaken {
        Box::pin(carry(server, io, Other { holder, ..from }, open, stop)).await;
    }
}

/// Who is at the other end of a connection.
struct Other {
    peer: SocketAddr,
    is_proxy: bool,
    /// Whom its certificate shows it to be.
    holder: Option<Holder>,
}

async fn carry<I>(server: Served, io: I, from: Other, open: Open, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Served { app, addresses, router } = server;
    let Other { peer, is_proxy, holder } = from;
    let activity = open.activity.clone();
    app.metrics.connections.inc();
    let write_timeout = Duration::from_millis(app.settings.write_timeout_ms);
    let io = Unstalled::new(io, write_timeout);
    let io = TokioIo::new(Watched::new(io, activity.clone()));
    let service = service_fn({
        let (app, activity, address, share) =
            (app.clone(), activity.clone(), open.address.clone(), app.answers.connection());
        move |mut request: http::Request<Incoming>| {
            let is_http2 = request.version() == http::Version::HTTP_2;
            let mut guard = InFlight::begin(activity.clone(), is_http2);
            let client = app.proxies.client(peer.ip(), request.headers());
            if let Some(holder) = &holder {
                app.keys.stand_in(holder, request.headers_mut());
            }
            let admitted = match is_proxy {
                true => addresses.get(client).admit(&app.settings, request.headers()),
                false => address.admit(&app.settings, request.headers()),
            };
            request.extensions_mut().insert(Peer(client));
            if is_proxy {
                request.extensions_mut().insert(ThroughProxy);
            }
            let request_id = request_id(request.headers(), &app);
            let trace = traces::context_of(request.headers());
            let span = RequestSpan::begin(&app, trace.as_ref());
            let origin = Origin { address: Some(client), request_id: request_id.clone(), trace };
            let answer = Answer::new(Some(share.clone()), Some(origin));
            request.extensions_mut().insert(answer.clone());
            let is_call = crate::grpc::is_call(request.headers());
            let mut line =
                RequestLog::begin(&app.settings, request_id.clone(), &answer, request.method(), is_call, span);
            let routed = admitted.map(|admitted| (admitted, router.clone().oneshot(request.map(Body::new))));
            let app = app.clone();
            async move {
                let (admitted, mut response) = match routed {
                    Ok((admitted, answer)) => (Some(admitted), answer.await.unwrap_or_else(|never| match never {})),
                    Err(error) if is_call => (None, answer.named(|| crate::grpc::refused(&error))),
                    Err(error) => (None, answer.named(|| error.into_response())),
                };
                guard.is_answered = true;
                if let Ok(id) = HeaderValue::from_str(&request_id) {
                    response.headers_mut().insert(REQUEST_ID, id);
                }
                line.answered(&response);
                let is_shared = response.extensions().get::<SharedByAll>().is_some();
                let leftovers = is_http2.then(|| guard.activity.leftovers.clone());
                let guard = (guard, admitted);
                Ok::<_, std::convert::Infallible>(
                    response.map(|body| Outgoing::new(body, app, answer, is_shared, leftovers, line, guard)),
                )
            }
        }
    });
    let mut builder = auto::Builder::new(Streams { write_timeout });
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    let connection = builder.serve_connection(io, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended.inspect_err(|error| if breaks_rules(error.as_ref()) { open.address.offend() }),
        cut = activity.overdue(&app.settings) => {
            if cut == Cut::Offence {
                open.address.offend();
            }
            Ok(())
        }
        () = activity.closed.notified() => Ok(()),
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

/// What its caller calls a request, or a name of our own.
fn request_id(headers: &HeaderMap, app: &App) -> Arc<str> {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_plain =
        |id: &&str| (1..=REQUEST_ID_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    given.filter(is_plain).map_or_else(|| digits(app.entropy.bits()), Arc::from)
}

/// A number as 16 hexadecimal digits. Without the detours of a formatter: every request has one.
fn digits(number: u64) -> Arc<str> {
    let digit = |place: usize| b"0123456789abcdef"[(number >> (60 - 4 * place)) as usize & 15];
    let digits: [u8; 16] = std::array::from_fn(digit);
    str::from_utf8(&digits).unwrap_or_default().into()
}

/// True for an error that only a client makes that does not keep to the protocol: no accident of
/// the network.
fn breaks_rules(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_parse)
        || format!("{error:?}").contains("GoAway")
}
