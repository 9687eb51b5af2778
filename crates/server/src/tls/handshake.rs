//! Handshakes: within their time, a few at once, and with words for those who speak no TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Holder, Tls};
use crate::App;
use crate::addresses::Address;

/// What every handshake begins with.
const HANDSHAKE: u8 = 0x16;
/// What is read to see who speaks.
const FIRST_BYTES: usize = 16;
/// How a client that speaks HTTP/2 at once begins.
const HTTP2: &[u8] = b"PRI";
const HTTP2_PREFACE_BYTES: usize = 24;
const HTTP2_FRAME_HEAD_BYTES: usize = 9;
const HTTP2_HEADERS: u8 = 1;
/// How long a client may take to read why it is turned away.
const FAREWELL: Duration = Duration::from_secs(1);
/// What is read of a client that is turned away, so that it gets to read why.
const FAREWELL_BYTES: u64 = 64 << 10;
/// What whoever speaks no TLS is told.
const USE_HTTPS: &str =
    "This port speaks TLS: use https:// instead of http:// in the address (--url or BATON_URL for baton's commands).\n";

/// A connection whose handshake is over, and whom its client has shown itself to be.
pub(crate) type Shaken<I> = (TlsStream<Begun<I>>, Option<Holder>);

/// Carries a handshake out. Nothing when it came to nothing.
pub(crate) async fn shake<I>(app: &App, tls: &Tls, io: I, address: &Arc<Address>, is_proxy: bool) -> Option<Shaken<I>>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let limit = Duration::from_millis(app.settings.tls_handshake_timeout_ms);
    let shaken = match tokio::time::timeout(limit, attempt(app, tls, io, address, is_proxy)).await {
        Ok(shaken) => shaken,
        Err(_) => Err(Failed::Slow),
    };
    let why = match shaken {
        Ok(stream) => {
            let holder = tls.holder(stream.get_ref().1.peer_certificates());
            return Some((stream, holder));
        }
        Err(why) => why,
    };
    app.metrics.tls_handshakes_failed.inc();
    tracing::debug!(?why, "a TLS handshake came to nothing");
    if let Failed::Garbage = why {
        address.offend();
    }
    None
}

/// Why there is no connection.
#[derive(Debug)]
enum Failed {
    /// It took too long.
    Slow,
    /// What came is no handshake.
    Garbage,
    /// Somebody speaks HTTP.
    Plain,
    /// The client left, or one of both does not trust the other.
    #[allow(dead_code, reason = "for the log")]
    Refused(io::Error),
}

async fn attempt<I>(
    app: &App,
    tls: &Tls,
    mut io: I,
    address: &Arc<Address>,
    is_proxy: bool,
) -> Result<TlsStream<Begun<I>>, Failed>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let mut first = [0; FIRST_BYTES];
    let length = io.read(&mut first).await.map_err(Failed::Refused)?;
    match first[..length].first() {
        None => return Err(Failed::Refused(io::ErrorKind::UnexpectedEof.into())),
        Some(&HANDSHAKE) => {}
        Some(byte) if byte.is_ascii_alphabetic() => {
            // As many of these as requests without a credential.
            if address.admit(&app.settings, &HeaderMap::new()).is_ok() {
                if first[..length].starts_with(HTTP2) {
                    // A client that is told before it has asked gives its request up without a word.
                    let _ = tokio::time::timeout(FAREWELL, request_of_http2(&mut io, length)).await;
                }
                farewell(&mut io, &answer(&first[..length])).await;
            }
            return Err(Failed::Plain);
        }
        Some(_) => return Err(Failed::Garbage),
    }
    let begun = Begun { first, read: 0, length, io };
    let mut hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), begun);
    let started = Pin::new(&mut hello).await.map_err(failed)?;
    let mut shaking;
    let early = {
        // What costs time is done from here to the first wait. Of each address one computes, and of
        // all a few: whoever opens connections without end waits for itself, and others go on.
        let _own = if is_proxy { None } else { address.handshakes.acquire().await.ok() };
        let _turn = tls.computing.acquire().await.ok();
        shaking = Box::pin(started.into_stream(tls.config()).into_fallible());
        poll_fn(|cx| Poll::Ready(shaking.as_mut().poll(cx))).await
    };
    let ended = match early {
        Poll::Ready(ended) => ended,
        Poll::Pending => shaking.await,
    };
    match ended {
        Ok(stream) => Ok(stream),
        Err((error, mut io)) => {
            // Why it is turned away has been sent. Closed at once, the connection would take that along.
            farewell(&mut io, &[]).await;
            Err(failed(error))
        }
    }
}

fn failed(error: io::Error) -> Failed {
    use rustls::Error;
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. },
        ) => Failed::Garbage,
        Some(Error::PeerMisbehaved(_) | Error::DecryptError | Error::PeerSentOversizedRecord) => Failed::Garbage,
        _ => Failed::Refused(error),
    }
}

/// The last words to a client, which has a moment to read them.
/// Reads until a client that speaks HTTP/2 has asked for something. So many bytes of it were read
/// before.
async fn request_of_http2(io: &mut (impl AsyncRead + Unpin), read: usize) -> io::Result<()> {
    let mut left = io.take(FAREWELL_BYTES);
    let mut skipped = HTTP2_PREFACE_BYTES.saturating_sub(read);
    loop {
        let mut skip = vec![0; skipped];
        left.read_exact(&mut skip).await?;
        let mut head = [0; HTTP2_FRAME_HEAD_BYTES];
        left.read_exact(&mut head).await?;
        if head[3] == HTTP2_HEADERS {
            return Ok(());
        }
        skipped = u32::from_be_bytes([0, head[0], head[1], head[2]]).min(FAREWELL_BYTES as u32) as usize;
    }
}

async fn farewell(io: &mut (impl AsyncRead + AsyncWrite + Unpin), words: &[u8]) {
    let said = async {
        io.write_all(words).await?;
        io.shutdown().await?;
        tokio::io::copy(&mut io.take(FAREWELL_BYTES), &mut tokio::io::sink()).await
    };
    // It may have gone already.
    let _ = tokio::time::timeout(FAREWELL, said).await;
}

/// What is said to somebody who speaks HTTP without TLS.
fn answer(first: &[u8]) -> Vec<u8> {
    if first.starts_with(HTTP2) {
        // No settings, and then: go away (7), because of inadequate security (12).
        let mut frames = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
        frames.extend([0, 0, 8 + USE_HTTPS.len() as u8, 7, 0, 0, 0, 0, 0]);
        frames.extend([0, 0, 0, 0, 0, 0, 0, 12]);
        frames.extend(USE_HTTPS.as_bytes());
        return frames;
    }
    let length = USE_HTTPS.len();
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{USE_HTTPS}"
    )
    .into_bytes()
}

/// A stream of which a few bytes have been read already.
#[derive(Debug)]
pub(crate) struct Begun<I> {
    first: [u8; FIRST_BYTES],
    read: usize,
    length: usize,
    io: I,
}

impl<I: AsyncRead + Unpin> AsyncRead for Begun<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read < self.length {
            let count = (self.length - self.read).min(buffer.remaining());
            buffer.put_slice(&self.first[self.read..self.read + count]);
            self.read += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Begun<I> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_speaks_no_tls_is_told_in_its_own_words() {
        let text = String::from_utf8(answer(b"GET / HTTP/1.1\r\n")).unwrap();
        assert!(text.starts_with("HTTP/1.1 400 ") && text.ends_with(USE_HTTPS), "{text}");
        let frames = answer(b"PRI * HTTP/2.0\r\n");
        assert_eq!(usize::from(frames[11]), frames.len() - 18);
        assert!(USE_HTTPS.len() + 8 <= u8::MAX.into());
    }

    #[tokio::test]
    async fn a_client_of_http2_is_heard_out_until_it_asks() {
        let frame = |kind: u8, payload: &[u8]| [&[0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 1], payload].concat();
        let sent = [b" HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, &[1; 6]), frame(8, &[2; 4]), frame(1, b"ask")];
        let sent = sent.concat();
        let mut io = &sent[..];
        request_of_http2(&mut io, HTTP2_PREFACE_BYTES - 19).await.unwrap();
        assert_eq!(io, b"ask");
        assert!(request_of_http2(&mut &sent[..40], HTTP2_PREFACE_BYTES - 19).await.is_err(), "it never asks");
    }

    #[tokio::test]
    async fn what_was_read_to_see_who_speaks_is_read_again() {
        let (theirs, io) = tokio::io::duplex(64);
        let mut first = [0; FIRST_BYTES];
        first[..3].copy_from_slice(b"abc");
        let mut begun = Begun { first, read: 0, length: 3, io };
        let mut theirs = theirs;
        theirs.write_all(b"def").await.unwrap();
        drop(theirs);
        let mut all = String::new();
        begun.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "abcdef");
    }
}
