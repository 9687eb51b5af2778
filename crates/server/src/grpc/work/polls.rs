//! The polls that a stream has parked.

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use crate::Error;
use crate::service::workflows::claim::Taken;

/// Polls of one stream: while what one has brought is on its way to the worker, the other one waits, and a submit finds
/// somebody to hand its runs to.
const POLLS_MAX: usize = 2;
/// Slots for which a second poll is worth it. What two polls bring at the same time may come in either order.
const SECOND_POLL_MIN: u32 = 16;

/// What a poll brings, and for how many runs it waited.
type Brought = (u32, Result<Vec<Taken>, Error>);

/// The polls of a stream that wait, and for how many runs.
#[derive(Default)]
pub(super) struct Polls {
    waiting: FuturesUnordered<BoxFuture<'static, Brought>>,
    room: u32,
}

impl Polls {
    /// Parks polls for so many slots in all.
    pub(super) fn park(&mut self, slots: u32, claim: impl Fn(u32) -> BoxFuture<'static, Result<Vec<Taken>, Error>>) {
        while self.waiting.len() < POLLS_MAX && slots > self.room {
            let left = slots - self.room;
            let room = match (self.waiting.is_empty(), left >= 2 * SECOND_POLL_MIN) {
                // The first one leaves half of it to another.
                (true, true) => left.div_ceil(2),
                (false, _) if left < SECOND_POLL_MIN => return,
                _ => left,
            };
            let claiming = claim(room);
            self.waiting.push(Box::pin(async move { (room, claiming.await) }));
            self.room += room;
        }
    }

    /// What the next of them brings; never, when none waits.
    pub(super) async fn next(&mut self) -> Result<Vec<Taken>, Error> {
        match self.waiting.next().await {
            Some((room, taken)) => {
                self.room -= room;
                taken
            }
            None => std::future::pending().await,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Withdraws all of them.
    pub(super) fn withdraw(&mut self) {
        self.waiting.clear();
        self.room = 0;
    }
}
