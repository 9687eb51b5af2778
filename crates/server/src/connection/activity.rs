//! What a connection is doing, and when it has been too slow or quiet for too long.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use baton_core::rate::{self, Bucket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::STREAMS_MAX;
use crate::Settings;
use crate::addresses::Address;
use crate::framing::Framing;
use crate::outgoing::Leftovers;

/// Streams that a connection may reset before they are answered, at once and a second. What goes
/// beyond is counted for its address.
const RESETS: f64 = 100.0;
/// The same for a trusted proxy, which speaks for many: twice as many at once as it can have open.
const PROXY_RESETS_MAX: f64 = 2.0 * STREAMS_MAX as f64;

/// What a connection is doing, in milliseconds since it was opened; 0 is "not".
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    in_flight: AtomicUsize,
    /// Since when a request's head has been coming in.
    head_since: AtomicU64,
    /// Since when there has been nothing to do.
    idle_since: AtomicU64,
    http2: AtomicBool,
    /// Where it comes from, unless that is a trusted proxy.
    address: Option<Arc<Address>>,
    /// Streams that the client may still reset before they are answered.
    resets: Mutex<Bucket>,
    resets_used_up: Notify,
    /// Told when the connection has to make room for another.
    pub(crate) closed: Notify,
    /// Where it stands among those of its address.
    pub(crate) turn: AtomicU64,
    /// What HTTP/2 has of answers that have ended.
    pub(super) leftovers: Arc<Leftovers>,
}

/// Why a connection is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// It was silent or slow.
    Silence,
    /// It does what no client needs to.
    Offence,
}

impl Activity {
    pub(crate) fn new(address: Option<Arc<Address>>) -> Activity {
        let resets = if address.is_some() { RESETS } else { PROXY_RESETS_MAX };
        Activity {
            opened: Instant::now(),
            in_flight: AtomicUsize::new(0),
            head_since: AtomicU64::new(0),
            idle_since: AtomicU64::new(1),
            http2: false.into(),
            address,
            resets: Mutex::new(Bucket { tokens: resets, at: 0 }),
            resets_used_up: Notify::new(),
            closed: Notify::new(),
            turn: AtomicU64::new(0),
            leftovers: Arc::default(),
        }
    }

    /// Closes the connection unless a request is being answered on it.
    pub(crate) fn close_if_idle(&self) -> bool {
        let is_idle = self.in_flight.load(Ordering::Relaxed) == 0;
        if is_idle {
            self.closed.notify_one();
        }
        is_idle
    }

    /// Notes that the client has reset a stream before it was answered. Starting work and throwing
    /// it away costs the client nothing, so it may not do so without end. A client that gives up
    /// many calls at once takes from what its address has, and one that comes back on a new
    /// connection finds that used up.
    fn reset(&self) {
        let full = if self.address.is_some() { RESETS } else { PROXY_RESETS_MAX };
        let mut bucket = self.resets.lock().expect("nobody panics while holding it");
        let (granted, left) = rate::take_of(*bucket, RESETS, full, self.now() as i64, 1);
        *bucket = left;
        if granted == 0 && !self.address.as_ref().is_some_and(|address| address.may_reset()) {
            self.resets_used_up.notify_one();
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

    /// Returns when the client has been too slow, or quiet for too long, or does what it must not.
    pub(super) async fn overdue(&self, settings: &Settings) -> Cut {
        // A head may begin to come in at any time, so its limit is also how long this may sleep.
        let look_again = settings.header_timeout_ms.min(settings.idle_timeout_ms).min(settings.write_timeout_ms);
        let write_timeout = Duration::from_millis(settings.write_timeout_ms);
        loop {
            let deadline = self.deadline(settings);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Cut::Silence;
            }
            if self.leftovers.are_older_than(write_timeout) {
                return Cut::Silence;
            }
            let latest = Instant::now() + Duration::from_millis(look_again);
            tokio::select! {
                () = tokio::time::sleep_until(deadline.unwrap_or(latest).min(latest)) => {}
                () = self.resets_used_up.notified() => return Cut::Offence,
            }
        }
    }
}

/// A request that is being answered, until all of the answer is sent.
pub(super) struct InFlight {
    pub(super) activity: Arc<Activity>,
    is_http2: bool,
    pub(super) is_answered: bool,
}

impl InFlight {
    pub(super) fn begin(activity: Arc<Activity>, is_http2: bool) -> InFlight {
        activity.in_flight.fetch_add(1, Ordering::Relaxed);
        activity.head_since.store(0, Ordering::Relaxed);
        InFlight { activity, is_http2, is_answered: false }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.is_http2 && !self.is_answered {
            self.activity.reset();
        }
        self.activity.idle_since.store(self.activity.now(), Ordering::Relaxed);
        self.activity.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that notes when bytes come in.
pub(super) struct Watched<I> {
    io: I,
    activity: Arc<Activity>,
    framing: Framing,
    first: bool,
}

impl<I> Watched<I> {
    pub(super) fn new(io: I, activity: Arc<Activity>) -> Watched<I> {
        Watched { io, activity, framing: Framing::new(), first: true }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buffer);
        let received = &mut buffer.filled_mut()[before..];
        if !received.is_empty() {
            if std::mem::take(&mut self.first) && received.starts_with(b"PRI") {
                self.activity.http2.store(true, Ordering::Relaxed);
                self.framing.lose();
            }
            self.framing.look(received);
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
