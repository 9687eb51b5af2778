//! How many bytes of answers are in memory at once, and whose they are.
//!
//! A client decides how fast it takes an answer, and over HTTP/2 it may ask for a thousand of them
//! and take none. So an answer takes room when it is made and gives it back when its last byte has
//! left, and there is only so much room: for each connection, for each API key (or address, where
//! there is no key), and for the server. One that fills its own share waits for itself; nobody else
//! does. docs/adr/0020 has the reasons.

mod answer;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use answer::Route;
pub use answer::{Answer, Origin};

use crate::{Error, Settings};

/// What is shared out, in bytes: a semaphore cannot count as far as single bytes.
const UNIT: usize = 1024;
/// Answers up to this size are not counted: a connection itself costs more.
pub(crate) const SMALL_BYTES: usize = 1024;
/// How long an answer waits for its turn before it is refused.
const WAIT: Duration = Duration::from_secs(5);
/// What one API key may have of all the room.
const KEY_PART: usize = 2;
/// What one connection may have, and what those without a key may have at one address.
const CONNECTION_PART: usize = 8;
/// How long one waits until it may be made: it costs nothing meanwhile.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// Small answers that are read from the store and made at once for one connection, and for one key:
/// who asks for a thousand large ones must not be at the store with all of them.
const MAKING_MAX: [usize; 2] = [16, 64];
/// An answer over this many bytes is a large one.
const LARGE_BYTES: usize = 64 * 1024;
/// What a large one counts for in the making, of its connection and of its key. A connection whose
/// answers are not known yet may be about to ask for large ones, and is let in slowly; a key with
/// many new connections is not.
const LARGE_WEIGHTS: [u32; 2] = [4, 8];
/// Shares that are remembered before those nobody uses are forgotten.
const SHARES_MAX: usize = 1_000;

/// Whose answers are counted together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// An API key that was found good.
    Key(String),
    /// Whoever calls from this address without a key.
    Address(IpAddr),
}

/// The room for answers.
#[derive(Debug)]
pub struct Answers {
    server: Share,
    shares: Semaphores,
    making: Semaphores,
}

/// A semaphore for each owner that has something of it.
#[derive(Debug, Default)]
pub(crate) struct Semaphores(Mutex<HashMap<Owner, Weak<Semaphore>>>);

impl Semaphores {
    pub(crate) fn get(&self, owner: Owner, permits: usize) -> Arc<Semaphore> {
        let mut all = self.0.lock().expect("nobody panics while holding it");
        if all.len() >= SHARES_MAX {
            all.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        if let Some(found) = all.get(&owner).and_then(Weak::upgrade) {
            return found;
        }
        let new = Arc::new(Semaphore::new(permits));
        all.insert(owner, Arc::downgrade(&new));
        new
    }
}

/// What one connection may have.
#[derive(Clone, Debug)]
pub struct Connection {
    share: Share,
    making: Arc<Semaphore>,
    /// The last answer was a large one, and the next may be; nothing while there was none.
    is_large: Arc<AtomicU8>,
}

/// What is known of a connection's answers.
const UNKNOWN: u8 = 0;
const SMALL: u8 = 1;
const LARGE: u8 = 2;

/// A part of the room, of which no answer needs more than there is.
#[derive(Clone, Debug)]
pub struct Share {
    room: Arc<Semaphore>,
    units: usize,
}

impl Share {
    fn new(units: usize) -> Share {
        let units = units.clamp(1, Semaphore::MAX_PERMITS);
        Share { room: Arc::new(Semaphore::new(units)), units }
    }

    /// One that is larger than all there is goes alone.
    fn wanted(&self, units: usize) -> u32 {
        units.min(self.units).min(u32::MAX as usize) as u32
    }

    fn try_take(&self, units: usize) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_many_owned(self.wanted(units)).ok()
    }

    async fn take(&self, units: usize) -> Option<OwnedSemaphorePermit> {
        self.room.clone().acquire_many_owned(self.wanted(units)).await.ok()
    }
}

/// Room that was taken, until it is dropped.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    _permits: [Option<OwnedSemaphorePermit>; 3],
}

/// Bytes that keep something until the last of them is dropped.
pub(crate) fn kept<K: Send + 'static>(bytes: Bytes, keeper: K) -> Bytes {
    struct Kept<K>(Bytes, K);
    impl<K> AsRef<[u8]> for Kept<K> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Kept(bytes, keeper))
}

/// Marks a response whose bytes are the same for everybody, and in memory once.
#[derive(Clone, Copy, Debug)]
pub struct SharedByAll;

impl Answers {
    /// Room for as many bytes as the settings say.
    pub fn new(settings: &Settings) -> Answers {
        let server = Share::new(settings.answers_bytes_max / UNIT);
        Answers { server, shares: Semaphores::default(), making: Semaphores::default() }
    }

    /// What a new connection may have.
    pub fn connection(&self) -> Connection {
        let making = Arc::new(Semaphore::new(MAKING_MAX[0]));
        Connection { share: Share::new(self.server.units / CONNECTION_PART), making, is_large: Arc::default() }
    }

    fn share(&self, owner: Owner) -> Share {
        let part = match owner {
            Owner::Key(_) => KEY_PART,
            Owner::Address(_) => CONNECTION_PART,
        };
        let units = (self.server.units / part).max(1);
        Share { room: self.shares.get(owner, units), units }
    }

    /// The shares that an answer takes of, the smallest first: who waits for its own holds nothing
    /// of others.
    fn shares_of(&self, answer: Option<&Answer>) -> [Option<Share>; 3] {
        let (connection, owner) =
            answer.map_or((None, None), |answer| (answer.with(|state| state.connection.clone()), answer.owner()));
        let connection = connection.map(|connection| connection.share);
        [connection, owner.map(|owner| self.share(owner)), Some(self.server.clone())]
    }

    fn try_take(&self, answer: Option<&Answer>, bytes: usize) -> Option<Room> {
        let mut permits = [None, None, None];
        for (permit, share) in permits.iter_mut().zip(self.shares_of(answer)) {
            *permit = match share {
                Some(share) => Some(share.try_take(bytes.div_ceil(UNIT))?),
                None => None,
            };
        }
        Some(Room { bytes, _permits: permits })
    }

    async fn take_within(&self, wait: Duration, answer: Option<&Answer>, bytes: usize) -> Result<Room, Error> {
        // An answer that has begun to take room is not held up by its own share: it would wait for
        // itself.
        let begun = answer.is_some_and(|answer| answer.bytes() > 0);
        let units = bytes.div_ceil(UNIT);
        let mut permits = [None, None, None];
        let taking = async {
            let last = permits.len() - 1;
            for (index, (permit, share)) in permits.iter_mut().zip(self.shares_of(answer)).enumerate() {
                let Some(share) = share else { continue };
                *permit = match begun && index < last {
                    true => share.try_take(units),
                    false => share.take(units).await,
                };
            }
        };
        match tokio::time::timeout(wait, taking).await {
            Ok(()) => Ok(Room { bytes, _permits: permits }),
            Err(_) => Err(Error::Overloaded),
        }
    }

    /// Waits until there is room for so many bytes of the answer that is being made, which keeps it
    /// until it is sent.
    pub async fn take(&self, bytes: usize) -> Result<Arc<Room>, Error> {
        let answer = Answer::current();
        let room = Arc::new(self.take_within(WAIT, answer.as_ref(), bytes).await?);
        // A stream is no answer that ends: its payloads keep the room themselves.
        if let Some(answer) = answer {
            answer.with(|state| state.rooms.push(room.clone()));
        }
        Ok(room)
    }

    /// Waits until something may be read for the answer that is being made: few are made at once
    /// for one connection and one key, and none while earlier ones that were not taken fill their
    /// share.
    pub async fn may_read(&self) -> Result<(), Error> {
        match Answer::current() {
            Some(answer) => self.may_read_for(&answer).await,
            None => Ok(()),
        }
    }

    async fn may_read_for(&self, answer: &Answer) -> Result<(), Error> {
        if answer.bytes() > 0 {
            return Ok(());
        }
        let (connection, key, has) = answer.with(|state| {
            let key = state.caller.as_ref().map(|caller| Owner::Key(caller.key_id.clone()));
            (state.connection.clone(), key, state.making.each_ref().map(Option::is_some))
        });
        let weights = match connection.as_ref().map_or(SMALL, |connection| connection.is_large.load(Ordering::Relaxed))
        {
            LARGE => LARGE_WEIGHTS,
            UNKNOWN => [LARGE_WEIGHTS[0], 1],
            _ => [1, 1],
        };
        let connection = connection.filter(|_| !has[0]).map(|connection| (connection.making, vec![connection.share]));
        let key = key.filter(|_| !has[1]).map(|key| {
            let making = self.making.get(key.clone(), MAKING_MAX[1]);
            (making, vec![self.share(key), self.server.clone()])
        });
        let taking = async {
            for (index, turn) in [connection, key].into_iter().enumerate() {
                let Some((making, shares)) = turn else { continue };
                let turn = making.acquire_many_owned(weights[index]).await.ok();
                for share in shares {
                    drop(share.take(1).await);
                }
                answer.with(|state| state.making[index] = turn);
            }
        };
        tokio::time::timeout(TURN_WAIT, taking).await.map_err(|_| Error::Overloaded)
    }

    /// Waits until the connection has taken enough of its earlier answers that another one fits, as
    /// a look at it tells.
    pub async fn may_answer(&self) -> Result<(), Error> {
        let connection = Answer::current().and_then(|answer| answer.with(|state| state.connection.clone()));
        match connection.map(|connection| connection.share) {
            Some(share) if share.room.available_permits() == 0 => {
                tokio::time::timeout(WAIT, share.take(1)).await.map(drop).map_err(|_| Error::Overloaded)
            }
            _ => Ok(()),
        }
    }

    /// Waits for room for a piece of a stream.
    pub async fn take_piece(&self, answer: &Answer, piece: Bytes, wait: Duration) -> Result<Bytes, Error> {
        let room = match self.try_take(Some(answer), piece.len()) {
            Some(room) => room,
            None => self.take_within(wait, Some(answer), piece.len()).await?,
        };
        Ok(kept(piece, room))
    }

    /// As [`Answers::take_piece`], for a piece that need not wait.
    pub fn try_take_piece(&self, answer: &Answer, piece: &Bytes) -> Option<Bytes> {
        self.try_take(Some(answer), piece.len()).map(|room| kept(piece.clone(), room))
    }

    /// Makes an answer that fits: `make` gives it, and its size. When there is no room for it, it
    /// is thrown away and made again once there is: answers that wait for room are not in memory
    /// meanwhile. `make` must change nothing.
    pub async fn fitting<M>(&self, answer: &Answer, make: impl Fn() -> M) -> Result<Response, Error>
    where
        M: Future<Output = (Response, usize)>,
    {
        let (response, bytes) = answer.made_by(make()).await;
        let fits = self.fit(answer, bytes);
        answer.made();
        if fits {
            return Ok(response);
        }
        drop(response);
        answer.release();
        let room = self.take_within(WAIT, Some(answer), bytes).await?;
        answer.with(|state| state.rooms.push(Arc::new(room)));
        let (response, _) = answer.made_by(make()).await;
        answer.made();
        Ok(response)
    }

    /// Takes room for an answer that cannot be made again.
    pub async fn fit_or_wait(&self, answer: &Answer, bytes: usize) {
        if !self.fit(answer, bytes)
            && let Ok(room) = self.take_within(WAIT, Some(answer), bytes).await
        {
            answer.with(|state| state.rooms.push(Arc::new(room)));
        }
    }

    /// Takes the room that an answer needs, if it is there.
    fn fit(&self, answer: &Answer, bytes: usize) -> bool {
        answer.with(|state| {
            if let Some(connection) = &state.connection {
                connection.is_large.store(if bytes > LARGE_BYTES { LARGE } else { SMALL }, Ordering::Relaxed);
            }
        });
        // What was taken for payloads is what their answer needs; what it says besides them is
        // small.
        if bytes <= SMALL_BYTES || answer.bytes() > 0 {
            return true;
        }
        let room = self.try_take(Some(answer), bytes);
        let fits = room.is_some();
        answer.with(|state| state.rooms.extend(room.map(Arc::new)));
        fits
    }
}

/// How many bytes of memory a response takes until it is sent. Streams do not know their length:
/// they take room piece by piece.
pub fn size(response: &Response) -> usize {
    match response.extensions().get::<SharedByAll>() {
        Some(SharedByAll) => 0,
        None => response.body().size_hint().exact().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Caller;

    const MANY: usize = 64 * UNIT;

    fn answers(bytes: usize) -> Answers {
        Answers::new(&Settings { answers_bytes_max: bytes, ..Settings::default() })
    }

    fn of_key(answers: &Answers, key_id: &str) -> Answer {
        let answer = Answer::new(Some(answers.connection()), None);
        answer.belongs_to(&Arc::new(Caller { key_id: key_id.into(), scopes: vec![], namespace: None }));
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_keeps_its_room_until_its_last_byte_is_dropped() {
        let answers = answers(MANY);
        let answer = Answer::new(None, None);
        answer.made_by(async { answers.take(MANY).await.map(drop) }).await.unwrap();
        let mut sent = answer.keep(Bytes::from(vec![0; MANY]));
        drop(answer);
        let last = sent.split_off(MANY - 1);
        drop(sent);
        assert_eq!(answers.take(MANY).await.map(drop), Err(Error::Overloaded));
        drop(last);
        assert_eq!(answers.take(MANY).await.map(drop), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_and_a_key_that_take_nothing_leave_room_for_others() {
        let answers = answers(8 * CONNECTION_PART * MANY);
        let connection = answers.connection();
        let mut held = Vec::new();
        let on_one_connection = || {
            let answer = of_key(&answers, "greedy");
            answer.with(|state| state.connection = Some(connection.clone()));
            answer
        };
        while let Some(room) = answers.try_take(Some(&on_one_connection()), MANY) {
            held.push(room);
        }
        assert_eq!(held.len(), 8, "a connection has its share");
        while let Some(room) = answers.try_take(Some(&of_key(&answers, "greedy")), MANY) {
            held.push(room);
        }
        assert_eq!(held.len(), 8 * CONNECTION_PART / KEY_PART, "and a key has another");
        assert!(answers.try_take(Some(&of_key(&answers, "other")), MANY).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_no_room_is_thrown_away_and_made_again() {
        let answers = answers(MANY);
        let made = std::sync::atomic::AtomicUsize::new(0);
        let make = async || {
            made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (Response::default(), MANY)
        };
        let first = Answer::new(None, None);
        answers.fitting(&first, make).await.unwrap();
        let refused = answers.fitting(&Answer::new(None, None), make).await.map(drop);
        assert_eq!((refused, made.load(std::sync::atomic::Ordering::Relaxed)), (Err(Error::Overloaded), 2));
        let second = Answer::new(None, None);
        let waiting = answers.fitting(&second, make);
        let (done, ()) = tokio::join!(waiting, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            first.release();
        });
        assert!(done.is_ok());
        assert_eq!(made.load(std::sync::atomic::Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_larger_than_all_there_is_goes_alone() {
        let answers = answers(MANY);
        let answer = of_key(&answers, "a");
        let room = answers.take_within(WAIT, Some(&answer), 10 * MANY).await.unwrap();
        assert!(answers.try_take(Some(&answer), MANY).is_none());
        drop(room);
        assert!(answers.try_take(Some(&answer), MANY).is_some());
    }
}
