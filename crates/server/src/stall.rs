//! A stream whose peer has to take what it asked for. One that asks and never reads would keep its connection, and what is
//! buffered for it, for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Fails a write when the stream has not taken a byte for this long.
#[derive(Debug)]
pub(crate) struct Unstalled<I> {
    io: I,
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    /// There is something to write, and nothing has been taken since the timer was set.
    stalled: bool,
}

impl<I> Unstalled<I> {
    pub(crate) fn new(io: I, limit: Duration) -> Unstalled<I> {
        Unstalled { io, limit, timer: Box::pin(tokio::time::sleep(limit)), stalled: false }
    }

    /// Passes an outcome on, unless it is "not yet" for too long.
    fn within_limit<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = false;
            return outcome;
        }
        if !std::mem::replace(&mut self.stalled, true) {
            self.timer.as_mut().reset(Instant::now() + self.limit);
        }
        // Asking the timer has it wake the writer.
        self.timer.as_mut().poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Unstalled<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Unstalled<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.within_limit(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.within_limit(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(cx);
        self.within_limit(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_shutdown(cx);
        self.within_limit(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    /// Room in the pipe between the two ends.
    const ROOM: usize = 8;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_reads_is_given_up_after_the_limit() {
        let (ours, _theirs) = tokio::io::duplex(ROOM);
        let mut ours = Unstalled::new(ours, LIMIT);
        // Idle for longer than the limit: nothing was to be written.
        sleep(LIMIT * 3).await;
        let begun = Instant::now();
        let error = ours.write_all(&[0; ROOM + 1]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(ROOM);
        let mut ours = Unstalled::new(ours, LIMIT);
        let begun = Instant::now();
        let slow = async {
            for _ in 0..ROOM {
                sleep(LIMIT - Duration::from_secs(1)).await;
                theirs.read_u8().await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[0; 2 * ROOM]), slow);
        written.unwrap();
        assert!(begun.elapsed() > LIMIT * 7, "all in all it took {:?}", begun.elapsed());
        // A stall after it is measured anew.
        let begun = Instant::now();
        let error = ours.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn reading_has_no_limit() {
        let (ours, mut theirs) = tokio::io::duplex(ROOM);
        let mut ours = Unstalled::new(ours, LIMIT);
        let late = async {
            sleep(LIMIT * 3).await;
            theirs.write_u8(7).await.unwrap();
        };
        let (read, ()) = tokio::join!(ours.read_u8(), late);
        assert_eq!(read.unwrap(), 7);
    }
}
