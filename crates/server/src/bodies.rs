//! How much of what clients send is in memory at once.
//!
//! Every body has its own limit, and there may be thousands of connections. Together they take at most what the settings
//! allow: a large body waits its turn before it is read, and keeps its share until the request is answered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

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
        // One that is larger than all there is goes alone.
        let units = bytes.div_ceil(UNIT).min(self.units).min(u32::MAX as usize);
        let taken = tokio::time::timeout(WAIT, self.room.clone().acquire_many_owned(units as u32)).await;
        let Ok(Ok(taken)) = taken else { return Err(Error::Overloaded) };
        if let Some(Share(share)) = share {
            *share.lock().expect("nobody panics while holding it") = Some(taken);
        }
        Ok(())
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
