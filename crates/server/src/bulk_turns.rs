//! What this server remembers of bulk operations. Only hints: what counts is in the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_core::BulkId;
use baton_core::bulk::Turns;
use baton_store::Clock;

use crate::bell::Bell;

/// How often those who listen are told how far an operation has come.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Operations of which is remembered when somebody was told of them.
const TOLD_MAX: usize = 4_096;

/// Who had a turn, and of which operations those who listen were told.
#[derive(Debug)]
pub struct BulkTurns {
    /// Rung when an operation is to be looked at.
    pub bell: Bell,
    turns: Mutex<Turns>,
    told: Mutex<HashMap<BulkId, Instant>>,
}

impl BulkTurns {
    /// Nothing is known yet, so all operations are to be looked at.
    pub fn new(clock: Clock) -> BulkTurns {
        let bell = Bell::new(clock);
        bell.ring();
        BulkTurns { bell, turns: Mutex::default(), told: Mutex::default() }
    }

    /// Whose turn it is.
    pub(crate) fn next(&self, waiting: &[(BulkId, Option<&str>)]) -> Option<BulkId> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).next(waiting)
    }

    /// True when those who listen may be told of an operation again, which they are then.
    pub(crate) fn may_tell(&self, id: BulkId) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&id).is_some_and(|at| at.elapsed() < TELL_EVERY) {
            return false;
        }
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(id, Instant::now());
        true
    }

    /// The operation has ended.
    pub(crate) fn forget(&self, id: BulkId) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[tokio::test]
    async fn those_who_listen_are_told_of_an_operation_once_a_second() {
        let turns = BulkTurns::new(Clock::manual(1_000));
        turns.bell.rung().await;
        let (one, two) = (BulkId(Uuid::from_u128(1)), BulkId(Uuid::from_u128(2)));
        assert_eq!((turns.may_tell(one), turns.may_tell(one), turns.may_tell(two)), (true, false, true));
        turns.forget(one);
        assert!(turns.may_tell(one));
    }
}
