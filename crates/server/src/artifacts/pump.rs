//! Moves bytes from a client to a place: while one batch is hashed and written, the next one gathers.
//!
//! So the network, the hash and the disk work at the same time, and an upload takes two batches of memory, however large it
//! is. Batches, and not a thread for each upload: a thousand slow clients would take all threads there are.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};

use super::error::StorageError;
use super::place::Source;

/// Bytes of a batch.
const BATCH_BYTES: usize = 512 << 10;

/// Takes batches.
#[async_trait]
pub(super) trait Sink: Send + 'static {
    /// Takes the next one.
    async fn take(&mut self, batch: Bytes) -> Result<(), StorageError>;
}

/// How it ended, and the sink, unless it was lost with a panic.
pub(super) type Pumped<S> = (Option<S>, Result<(), StorageError>);

/// Moves everything from the source into the sink. What came before the source failed is in the sink.
///
/// When this is dropped, the batch that is being written is still written, and then the sink is dropped.
pub(super) async fn pump<S: Sink>(source: Source<'_>, mut sink: S) -> Pumped<S> {
    let mut gatherer = Gatherer::new(source);
    loop {
        let batch = match gatherer.next().await {
            Ok(Some(batch)) => batch,
            Ok(None) => return (Some(sink), Ok(())),
            Err(error) => return (Some(sink), Err(StorageError::Source(error))),
        };
        let written = batch.clone();
        let mut busy = tokio::spawn(async move {
            let result = sink.take(batch).await;
            (sink, result)
        });
        let result = tokio::select! {
            // A sink that fails ends it at once, and not when a slow client has sent the next batch.
            biased;
            result = &mut busy => result,
            () = gatherer.fill() => busy.await,
        };
        sink = match result {
            Ok((sink, Ok(()))) => sink,
            Ok((sink, Err(error))) => return (Some(sink), Err(error)),
            Err(error) => return (None, Err(error.into())),
        };
        // Unless the sink has kept it, the memory is used again.
        gatherer.spare = written.try_into_mut().ok();
    }
}

/// Gathers a batch. Its state is outside of its futures, so that they can be dropped at any moment.
///
/// Chunks are copied together: many small ones are then one write, none keeps a larger buffer of the connection alive, and the
/// memory of a batch is used again.
struct Gatherer<'a> {
    source: Source<'a>,
    batch: BytesMut,
    /// The memory of a batch that was written.
    spare: Option<BytesMut>,
    /// Of a chunk that did not fit into the batch.
    rest: Bytes,
    failure: Option<crate::Error>,
    ended: bool,
}

impl<'a> Gatherer<'a> {
    fn new(source: Source<'a>) -> Gatherer<'a> {
        Gatherer { source, batch: BytesMut::new(), spare: None, rest: Bytes::new(), failure: None, ended: false }
    }

    /// Reads until the batch is full, or nothing more comes.
    async fn fill(&mut self) {
        while self.batch.len() < BATCH_BYTES {
            if self.rest.is_empty() {
                if self.ended {
                    return;
                }
                match self.source.next().await {
                    Some(Ok(chunk)) => self.rest = chunk,
                    Some(Err(error)) => (self.failure, self.ended) = (Some(error), true),
                    None => self.ended = true,
                }
            }
            let room = BATCH_BYTES - self.batch.len();
            self.batch.extend_from_slice(&self.rest.split_to(room.min(self.rest.len())));
        }
    }

    /// The next batch. An error is told after all that came before it.
    async fn next(&mut self) -> Result<Option<Bytes>, crate::Error> {
        self.fill().await;
        if self.batch.is_empty() {
            return self.failure.take().map_or(Ok(None), Err);
        }
        let mut next = self.spare.take().unwrap_or_default();
        next.clear();
        Ok(Some(std::mem::replace(&mut self.batch, next).freeze()))
    }
}

/// Hashes a batch, away from the threads that serve connections.
pub(super) async fn hash(mut hasher: Sha256, batch: Bytes) -> Result<Sha256, StorageError> {
    let hashing = tokio::task::spawn_blocking(move || {
        hasher.update(&batch);
        hasher
    });
    Ok(hashing.await?)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;
    use crate::Error;

    #[derive(Default)]
    struct Collected {
        bytes: Vec<u8>,
        batches: usize,
        fails_at: Option<usize>,
    }

    #[async_trait]
    impl Sink for Collected {
        async fn take(&mut self, batch: Bytes) -> Result<(), StorageError> {
            if self.fails_at == Some(self.batches) {
                return Err(StorageError::DiskFull);
            }
            self.batches += 1;
            self.bytes.extend_from_slice(&batch);
            Ok(())
        }
    }

    fn chunks(sizes: &[usize]) -> (Vec<u8>, Vec<Result<Bytes, Error>>) {
        let all: Vec<u8> = (0..sizes.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
        let mut begin = 0;
        let mut chunk = |size: &usize| {
            begin += size;
            Ok(Bytes::copy_from_slice(&all[begin - size..begin]))
        };
        let chunks = sizes.iter().map(&mut chunk).collect();
        (all, chunks)
    }

    #[tokio::test]
    async fn small_and_large_chunks_keep_their_order() {
        let sizes = [1, 0, BATCH_BYTES - 1, 3 * BATCH_BYTES, 5, 100_000, 2, 2, BATCH_BYTES, 1];
        let (all, chunks) = chunks(&sizes);
        let (sink, result) = pump(Box::pin(stream::iter(chunks)), Collected::default()).await;
        assert_eq!(result, Ok(()));
        assert!(sink.unwrap().bytes == all);
    }

    #[tokio::test]
    async fn many_small_chunks_are_few_batches() {
        let (all, chunks) = chunks(&vec![10; BATCH_BYTES / 10]);
        let (sink, _) = pump(Box::pin(stream::iter(chunks)), Collected::default()).await;
        let sink = sink.unwrap();
        assert!(sink.bytes == all && sink.batches == 1, "{}", sink.batches);
    }

    #[tokio::test]
    async fn what_came_before_a_failure_is_in_the_sink() {
        let (all, mut chunks) = chunks(&[100, BATCH_BYTES, 50]);
        chunks.push(Err(Error::TooSlow));
        let (sink, result) = pump(Box::pin(stream::iter(chunks)), Collected::default()).await;
        assert_eq!(result, Err(StorageError::Source(Error::TooSlow)));
        assert!(sink.unwrap().bytes == all);
    }

    #[tokio::test]
    async fn a_sink_that_fails_does_not_wait_for_a_client_that_says_nothing() {
        let (_, chunks) = chunks(&[BATCH_BYTES]);
        let silent = stream::iter(chunks).chain(stream::pending());
        let sink = Collected { fails_at: Some(0), ..Collected::default() };
        let (_, result) = pump(Box::pin(silent), sink).await;
        assert_eq!(result, Err(StorageError::DiskFull));
    }
}
