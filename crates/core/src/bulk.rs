//! Bulk operations: one verb on all runs that a filter finds. Which runs a verb can act on, how fast an operation may go,
//! whose turn it is, and how it ends.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::uuid_text;
use crate::rate::{self, Bucket};
use crate::{Millis, RunId, State};

/// Turns that an operation with a capped rate has in a second, if it can be so many: few large ones are cheaper, many small
/// ones are smoother.
const TURNS_PER_SECOND: f64 = 5.0;
/// Turns in a row that may fail for a reason that does not pass.
pub const TROUBLES_MAX: u32 = 10;
/// Operations and namespaces whose last turn is remembered.
const REMEMBERED_MAX: usize = 4_096;

/// Names a bulk operation. It is made as a run's identifier is, from the same numbers, so that it is larger than those of
/// all runs that were submitted before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BulkId(pub Uuid);

uuid_text!(BulkId);

impl BulkId {
    /// Runs with smaller identifiers were submitted before the operation was made.
    pub fn as_bound(self) -> RunId {
        RunId(self.0)
    }
}

/// What is done to each run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BulkAction {
    /// Cancels it.
    Cancel,
    /// Submits it again.
    Retry,
}

impl BulkAction {
    /// All of them.
    pub const ALL: [BulkAction; 2] = [BulkAction::Cancel, BulkAction::Retry];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            BulkAction::Cancel => "cancel",
            BulkAction::Retry => "retry",
        }
    }

    /// The action with this word.
    pub fn parse(word: &str) -> Option<BulkAction> {
        BulkAction::ALL.into_iter().find(|action| action.as_str() == word)
    }

    /// As it is stored.
    pub const fn code(self) -> i16 {
        match self {
            BulkAction::Cancel => 0,
            BulkAction::Retry => 1,
        }
    }

    /// The action stored with this code.
    pub fn from_code(code: i16) -> Option<BulkAction> {
        BulkAction::ALL.into_iter().find(|action| action.code() == code)
    }

    /// True when it can be carried out on a run in this state.
    pub fn acts_on(self, state: State) -> bool {
        match self {
            BulkAction::Cancel => !state.is_ended(),
            BulkAction::Retry => state.is_ended(),
        }
    }

    /// The states that are meant where a filter names none. Retrying what completed or was cancelled has to be said.
    pub fn states_default(self) -> Vec<State> {
        match self {
            BulkAction::Cancel => State::ALL.into_iter().filter(|state| !state.is_ended()).collect(),
            BulkAction::Retry => vec![State::Failed],
        }
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BulkState {
    /// It goes on.
    Running,
    /// Every run was looked at.
    Completed,
    /// Somebody stopped it.
    Stopped,
    /// It could not go on.
    Failed,
}

impl BulkState {
    /// All of them.
    pub const ALL: [BulkState; 4] = [BulkState::Running, BulkState::Completed, BulkState::Stopped, BulkState::Failed];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            BulkState::Running => "running",
            BulkState::Completed => "completed",
            BulkState::Stopped => "stopped",
            BulkState::Failed => "failed",
        }
    }

    /// The state with this word.
    pub fn parse(word: &str) -> Option<BulkState> {
        BulkState::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// As it is stored.
    pub const fn code(self) -> i16 {
        match self {
            BulkState::Running => 0,
            BulkState::Completed => 1,
            BulkState::Stopped => 2,
            BulkState::Failed => 3,
        }
    }

    /// The state stored with this code.
    pub fn from_code(code: i16) -> Option<BulkState> {
        BulkState::ALL.into_iter().find(|state| state.code() == code)
    }

    /// True when nothing changes any more.
    pub const fn is_ended(self) -> bool {
        match self {
            BulkState::Running => false,
            BulkState::Completed | BulkState::Stopped | BulkState::Failed => true,
        }
    }
}

/// What became of the runs that an operation has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// The verb was carried out.
    pub done: u64,
    /// There was nothing to do, or nothing that could be done: it had ended, was gone, or cannot be retried.
    pub skipped: u64,
    /// The verb was refused for another reason.
    pub failed: u64,
}

impl Tally {
    /// All of them.
    pub fn sum(self) -> u64 {
        self.done + self.skipped + self.failed
    }

    /// Both together.
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            done: self.done + other.done,
            skipped: self.skipped + other.skipped,
            failed: self.failed + other.failed,
        }
    }
}

/// How an operation ends, if it does. Where everything was done, it does not matter that somebody wanted it stopped.
pub fn end(is_exhausted: bool, is_stopping: bool, troubles: u32) -> Option<BulkState> {
    match (is_exhausted, is_stopping) {
        (true, _) => Some(BulkState::Completed),
        (false, true) => Some(BulkState::Stopped),
        (false, false) if troubles >= TROUBLES_MAX => Some(BulkState::Failed),
        (false, false) => None,
    }
}

/// How many runs an operation may act on now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Allowance {
    /// So many, which are taken from the bucket already.
    Runs(u32, Bucket),
    /// None, for so long.
    Wait(Millis),
}

/// How many runs an operation with a capped rate may act on now: as many as the bucket has, once it has enough for a turn.
pub fn allowance(bucket: Bucket, per_second: f64, now: Millis, turn_max: u32) -> Allowance {
    let enough = (per_second / TURNS_PER_SECOND).floor().clamp(1.0, f64::from(turn_max));
    let (_, filled) = rate::take(bucket, per_second, now, 0);
    if filled.tokens >= enough {
        let (granted, bucket) = rate::take(bucket, per_second, now, turn_max);
        return Allowance::Runs(granted, bucket);
    }
    if per_second <= 0.0 {
        return Allowance::Wait(Millis::MAX);
    }
    Allowance::Wait((((enough - filled.tokens) / per_second * 1_000.0).ceil() as Millis).max(1))
}

/// Gives tokens back that were not used.
pub fn give_back(bucket: Bucket, unused: u32) -> Bucket {
    Bucket { tokens: bucket.tokens + f64::from(unused), ..bucket }
}

/// Who had a turn last. Namespaces take turns with each other, and operations with the others of their namespace.
#[derive(Debug, Default)]
pub struct Turns {
    number: u64,
    namespaces: HashMap<Option<String>, u64>,
    operations: HashMap<BulkId, u64>,
}

impl Turns {
    /// Whose turn it is: the namespace that has waited longest, and of its operations the one that has.
    pub fn next(&mut self, waiting: &[(BulkId, Option<&str>)]) -> Option<BulkId> {
        if self.namespaces.len() + self.operations.len() > REMEMBERED_MAX {
            self.namespaces.clear();
            self.operations.clear();
        }
        let last = |(id, namespace): &(BulkId, Option<&str>)| {
            let of_namespace = self.namespaces.get(&namespace.map(str::to_owned)).copied().unwrap_or_default();
            (of_namespace, self.operations.get(id).copied().unwrap_or_default(), *id)
        };
        let (id, namespace) = *waiting.iter().min_by_key(|one| last(one))?;
        self.number += 1;
        self.namespaces.insert(namespace.map(str::to_owned), self.number);
        self.operations.insert(id, self.number);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: u128) -> BulkId {
        BulkId(Uuid::from_u128(number))
    }

    #[test]
    fn an_action_acts_on_runs_that_have_ended_or_on_those_that_have_not() {
        for state in State::ALL {
            assert_eq!(BulkAction::Cancel.acts_on(state), !state.is_ended(), "{state:?}");
            assert_eq!(BulkAction::Retry.acts_on(state), state.is_ended(), "{state:?}");
        }
        for action in BulkAction::ALL {
            assert!(action.states_default().into_iter().all(|state| action.acts_on(state)), "{action:?}");
            assert_eq!(BulkAction::parse(action.as_str()), Some(action));
            assert_eq!(BulkAction::from_code(action.code()), Some(action));
        }
        for state in BulkState::ALL {
            assert_eq!(BulkState::parse(state.as_str()), Some(state));
            assert_eq!(BulkState::from_code(state.code()), Some(state));
        }
        assert_eq!((BulkAction::parse("resume"), BulkState::parse("done")), (None, None));
    }

    #[test]
    fn an_operation_ends_once_nothing_is_left_or_somebody_stops_it_or_it_cannot_go_on() {
        let cases = [
            (false, false, 0, None),
            (false, false, TROUBLES_MAX - 1, None),
            (false, false, TROUBLES_MAX, Some(BulkState::Failed)),
            (false, true, 0, Some(BulkState::Stopped)),
            (false, true, TROUBLES_MAX, Some(BulkState::Stopped)),
            (true, false, 0, Some(BulkState::Completed)),
            (true, true, 0, Some(BulkState::Completed)),
        ];
        for (exhausted, stopping, troubles, expected) in cases {
            assert_eq!(end(exhausted, stopping, troubles), expected, "{exhausted} {stopping} {troubles}");
        }
    }

    #[test]
    fn a_slow_operation_acts_on_one_run_at_a_time_and_a_fast_one_on_many() {
        let full = |per_second: f64| Bucket { tokens: per_second.max(1.0), at: 0 };
        let Allowance::Runs(1, bucket) = allowance(full(0.5), 0.5, 0, 500) else { panic!("one at once") };
        assert_eq!(allowance(bucket, 0.5, 0, 500), Allowance::Wait(2_000));
        assert!(matches!(allowance(bucket, 0.5, 2_000, 500), Allowance::Runs(1, _)));
        let Allowance::Runs(500, bucket) = allowance(full(1_000.0), 1_000.0, 0, 500) else { panic!("a whole turn") };
        let Allowance::Runs(500, bucket) = allowance(bucket, 1_000.0, 0, 500) else { panic!("and another") };
        assert_eq!(allowance(bucket, 1_000.0, 0, 500), Allowance::Wait(200), "a fifth of a second's worth");
        assert!(matches!(allowance(bucket, 1_000.0, 200, 500), Allowance::Runs(200, _)));
    }

    #[test]
    fn namespaces_take_turns_however_many_operations_they_have() {
        let mut turns = Turns::default();
        let waiting = [(id(1), Some("a")), (id(2), Some("a")), (id(3), Some("a")), (id(4), Some("b")), (id(5), None)];
        let served: Vec<BulkId> = (0..9).filter_map(|_| turns.next(&waiting)).collect();
        assert_eq!(served, [1, 4, 5, 2, 4, 5, 3, 4, 5].map(id));
        assert_eq!(turns.next(&[]), None);
    }

    proptest! {
        #[test]
        fn an_operation_is_never_faster_than_its_cap(
            per_second in 0.1f64..5_000.0, pauses in proptest::collection::vec(0i64..1_500, 1..80)
        ) {
            let (mut bucket, mut now, mut sum) = (Bucket { tokens: per_second.max(1.0), at: 0 }, 0, 0u64);
            for pause in pauses {
                now += pause;
                match allowance(bucket, per_second, now, 512) {
                    Allowance::Runs(granted, left) => {
                        prop_assert!((1..=512).contains(&granted));
                        let unused = granted / 3;
                        bucket = give_back(left, unused);
                        sum += u64::from(granted - unused);
                    }
                    Allowance::Wait(ms) => prop_assert!(ms >= 1),
                }
            }
            prop_assert!(sum as f64 <= per_second.max(1.0) + per_second * now as f64 / 1_000.0 + 0.001);
        }

        #[test]
        fn after_the_wait_there_is_a_turn(per_second in 0.1f64..5_000.0, tokens in 0.0f64..100.0) {
            let bucket = Bucket { tokens: tokens.min(per_second.max(1.0)), at: 0 };
            if let Allowance::Wait(ms) = allowance(bucket, per_second, 0, 512) {
                prop_assert!(matches!(allowance(bucket, per_second, ms, 512), Allowance::Runs(..)));
            }
        }

        #[test]
        fn nobody_who_waits_is_left_out(namespaces in proptest::collection::vec(0u8..4, 1..12)) {
            let names: Vec<String> = namespaces.iter().map(u8::to_string).collect();
            let waiting: Vec<_> = names.iter().enumerate().map(|(n, name)| (id(n as u128), Some(name.as_str()))).collect();
            let mut turns = Turns::default();
            let rounds = waiting.len() * waiting.len();
            let served: Vec<BulkId> = (0..rounds).filter_map(|_| turns.next(&waiting)).collect();
            prop_assert!(waiting.iter().all(|(id, _)| served.contains(id)));
        }
    }
}
