//! How much of what clients send is in memory at once.
//!
//! Every body has its own limit, and there may be thousands of connections. Together they take at most what the settings
//! allow: a large body waits its turn before it is read, and keeps its share until the request is
//! answered. Answers have room of their own (`answers.rs`), so that no request waits for another
//! while it holds what that one waits for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;
use crate::answers::{Answer, Semaphores};

/// What is shared out, in bytes: a semaphore cannot count as far as single bytes.
const UNIT: usize = 1024;
/// Bodies up to this size are not counted: they are the rule, and the number of connections bounds them.
const SMALL_BYTES: usize = 16 * 1024;
/// How long a large body waits for its turn.
const WAIT: Duration = Duration::from_secs(5);
/// What one API key, or one address without a key, may have of all the room: others find some even
/// when its bodies never come.
const OWNER_PART: usize = 2;

/// The room for large bodies.
#[derive(Debug)]
pub struct Bodies {
    room: Arc<Semaphore>,
    units: usize,
    shares: Semaphores,
}

/// Room of the server, and of the one it was taken for.
type Taken = [Option<OwnedSemaphorePermit>; 2];

/// Keeps the share of a request until it is answered.
#[derive(Clone, Debug, Default)]
pub struct Share(Arc<Mutex<Taken>>);

impl Share {
    /// Gives the share back.
    pub fn release(&self) {
        *self.0.lock().expect("nobody panics while holding it") = [None, None];
    }
}

impl Bodies {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Bodies {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Bodies { room: Arc::new(Semaphore::new(units)), units, shares: Semaphores::default() }
    }

    /// Waits until there is room for a body of this size, and puts it into the share.
    pub async fn admit(&self, bytes: usize, share: Option<&Share>) -> Result<(), Error> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let taken = self.acquire(bytes).await?;
        if let Some(Share(share)) = share {
            *share.lock().expect("nobody panics while holding it") = taken;
        }
        Ok(())
    }

    async fn acquire(&self, bytes: usize) -> Result<Taken, Error> {
        let units = bytes.div_ceil(UNIT);
        let take = async |room: Arc<Semaphore>, all: usize| {
            // One that is larger than all there is goes alone.
            room.acquire_many_owned(units.min(all).min(u32::MAX as usize) as u32).await.ok()
        };
        let taking = async {
            // Its own share first: who fills that waits for itself, and holds nothing of others
            // meanwhile.
            let part = (self.units / OWNER_PART).max(1);
            let own = match Answer::current_owner() {
                Some(owner) => take(self.shares.get(owner, part), part).await,
                None => None,
            };
            [take(self.room.clone(), self.units).await, own]
        };
        tokio::time::timeout(WAIT, taking).await.map_err(|_| Error::Overloaded)
    }
}

#[cfg(test)]
mod tests {
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
    async fn one_that_is_larger_than_all_there_is_goes_alone() {
        let bodies = Bodies::new(LARGE);
        let share = Share::default();
        assert_eq!(bodies.admit(10 * LARGE, Some(&share)).await, Ok(()));
        assert_eq!(bodies.admit(LARGE, None).await, Err(Error::Overloaded));
    }
}
