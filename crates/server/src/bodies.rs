//! How much of what clients send, and of what they are sent, is in memory at once.
//!
//! Every body has its own limit, and there may be thousands of connections. Together they take at most what the settings
//! allow: a large body waits its turn before it is read, and keeps its share until the request is answered. Large payloads on their way
//! out have room of their own, so that no request waits for another while it holds what that one waits for.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;

/// What is shared out, in bytes: a semaphore cannot count as far as single bytes.
const UNIT: usize = 1024;
/// Bodies up to this size are not counted: they are the rule, and the number of connections bounds them.
const SMALL_BYTES: usize = 16 * 1024;
/// How long a large body waits for its turn.
const WAIT: Duration = Duration::from_secs(5);

/// The room for large bodies.
#[derive(Debug)]
pub struct Bodies {
    room: Arc<Semaphore>,
    units: usize,
}

/// Keeps the share of a request until it is answered.
#[derive(Clone, Debug, Default)]
pub struct Share(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Share {
    /// Gives the share back.
    pub fn release(&self) {
        *self.0.lock().expect("nobody panics while holding it") = None;
    }
}

/// Room that was taken, until all clones are dropped.
pub type Room = Arc<OwnedSemaphorePermit>;

tokio::task_local! {
    /// What the answer that this task makes has taken.
    static ANSWER: Answer;
}

/// The room that an answer takes while it is made and sent. Payloads are copied on the way, so it is not enough that they keep their
/// own.
#[derive(Clone, Debug, Default)]
pub struct Answer(Arc<Mutex<Vec<Room>>>);

impl Answer {
    /// Makes an answer, for which room is noted here.
    pub fn made_by<F: Future>(&self, making: F) -> impl Future<Output = F::Output> + use<F> {
        ANSWER.scope(self.clone(), making)
    }

    /// Keeps the room until all of the answer is sent.
    pub fn sent_with(self, response: Response) -> Response {
        match self.0.lock().expect("nobody panics while holding it").is_empty() {
            true => response,
            false => response.map(|body| Body::new(Counted { body, _answer: self.clone() })),
        }
    }
}

/// The body of an answer that takes room.
struct Counted {
    body: Body,
    _answer: Answer,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Bodies {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Bodies {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Bodies { room: Arc::new(Semaphore::new(units)), units }
    }

    /// Waits until there is room for a body of this size, and puts it into the share.
    pub async fn admit(&self, bytes: usize, share: Option<&Share>) -> Result<(), Error> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let taken = self.acquire(bytes).await?;
        if let Some(Share(share)) = share {
            *share.lock().expect("nobody panics while holding it") = Some(taken);
        }
        Ok(())
    }

    /// Waits until there is room for so many bytes of an answer, which keeps it until it is sent.
    pub async fn take(&self, bytes: usize) -> Result<Room, Error> {
        let room = Arc::new(self.acquire(bytes).await?);
        // A stream is no answer that ends: its payloads keep the room themselves.
        let _ = ANSWER.try_with(|answer| answer.0.lock().expect("nobody panics while holding it").push(room.clone()));
        Ok(room)
    }

    async fn acquire(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Error> {
        // One that is larger than all there is goes alone.
        let units = bytes.div_ceil(UNIT).min(self.units).min(u32::MAX as usize);
        match tokio::time::timeout(WAIT, self.room.clone().acquire_many_owned(units as u32)).await {
            Ok(Ok(taken)) => Ok(taken),
            Ok(Err(_)) | Err(_) => Err(Error::Overloaded),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const LARGE: usize = 100 * 1024;

    #[tokio::test(start_paused = true)]
    async fn a_large_body_waits_for_its_turn_and_not_for_ever() {
        let bodies = Bodies::new(2 * LARGE);
        let shares: Vec<Share> = (0..3).map(|_| Share::default()).collect();
        assert_eq!(bodies.admit(LARGE, Some(&shares[0])).await, Ok(()));
        assert_eq!(bodies.admit(LARGE, Some(&shares[1])).await, Ok(()));
        assert_eq!(bodies.admit(SMALL_BYTES, None).await, Ok(()), "small ones always get in");
        assert_eq!(bodies.admit(LARGE, Some(&shares[2])).await, Err(Error::Overloaded));
        drop(shares);
        assert_eq!(bodies.admit(2 * LARGE, Some(&Share::default())).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_keeps_its_room_until_it_is_sent() {
        let answers = Bodies::new(LARGE);
        let answer = Answer::default();
        let made = answer.made_by(async { answers.take(LARGE).await.map(|_| Response::new(Body::from("sent"))) });
        let response = answer.clone().sent_with(made.await.unwrap());
        drop(answer);
        assert_eq!(answers.take(LARGE).await.map(drop), Err(Error::Overloaded));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "sent");
        assert_eq!(answers.take(LARGE).await.map(drop), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_larger_than_all_there_is_goes_alone() {
        let bodies = Bodies::new(LARGE);
        let share = Share::default();
        assert_eq!(bodies.admit(10 * LARGE, Some(&share)).await, Ok(()));
        assert_eq!(bodies.admit(LARGE, None).await, Err(Error::Overloaded));
    }
}
