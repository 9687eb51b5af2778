//! Where a claim stands, who is served first, and who gets which idle runner.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ClaimNo, Machine, Usage, Wanted};
use crate::Millis;

/// Where a claim stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// It takes runners until it has enough that are alive and registered.
    Waiting,
    /// All of its runners were handed over together.
    Ready,
    /// Given back.
    Released,
    /// It could not be filled; what it took was given back.
    Failed,
}

impl ClaimState {
    /// Every state, in the order of a claim's life.
    pub const ALL: [ClaimState; 4] = [ClaimState::Waiting, ClaimState::Ready, ClaimState::Released, ClaimState::Failed];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            ClaimState::Waiting => "waiting",
            ClaimState::Ready => "ready",
            ClaimState::Released => "released",
            ClaimState::Failed => "failed",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            ClaimState::Waiting => 0,
            ClaimState::Ready => 1,
            ClaimState::Released => 2,
            ClaimState::Failed => 3,
        }
    }

    /// The state with this number, if there is one.
    pub fn from_code(code: i16) -> Option<ClaimState> {
        ClaimState::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The state with this word, if there is one.
    pub fn parse(word: &str) -> Option<ClaimState> {
        ClaimState::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// True when nothing can happen to the claim any more.
    pub fn is_ended(self) -> bool {
        match self {
            ClaimState::Released | ClaimState::Failed => true,
            ClaimState::Waiting | ClaimState::Ready => false,
        }
    }
}

/// Why a claim ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimReason {
    /// Its owner was done with it.
    Done,
    /// Its owner gave it up before it was filled.
    Cancelled,
    /// It kept its runners for as long as it may.
    RuntimeOver,
    /// It was not filled in the time that its owner would wait.
    WaitOver,
    /// The pool cannot have such machines, or not so many.
    Impossible,
    /// The pool is being deleted.
    PoolDeleted,
    /// The last of the runners that it was handed has ended.
    RunnersLost,
}

impl ClaimReason {
    /// Every reason.
    pub const ALL: [ClaimReason; 7] = [
        ClaimReason::Done,
        ClaimReason::Cancelled,
        ClaimReason::RuntimeOver,
        ClaimReason::WaitOver,
        ClaimReason::Impossible,
        ClaimReason::PoolDeleted,
        ClaimReason::RunnersLost,
    ];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            ClaimReason::Done => "done",
            ClaimReason::Cancelled => "cancelled",
            ClaimReason::RuntimeOver => "runtime_over",
            ClaimReason::WaitOver => "wait_over",
            ClaimReason::Impossible => "impossible",
            ClaimReason::PoolDeleted => "pool_deleted",
            ClaimReason::RunnersLost => "runners_lost",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            ClaimReason::Done => 0,
            ClaimReason::Cancelled => 1,
            ClaimReason::RuntimeOver => 2,
            ClaimReason::WaitOver => 3,
            ClaimReason::Impossible => 4,
            ClaimReason::PoolDeleted => 5,
            ClaimReason::RunnersLost => 6,
        }
    }

    /// The reason with this number, if there is one.
    pub fn from_code(code: i16) -> Option<ClaimReason> {
        ClaimReason::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

/// Why a verb about a claim was not carried out. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClaimRefused {
    /// The same was done before.
    #[error("this was done before")]
    AlreadyDone,
    /// Its runners were handed over: it can only be released.
    #[error("the claim is filled")]
    Filled,
    /// It has ended.
    #[error("the claim has ended")]
    Ended,
    /// Its deadline has not come.
    #[error("nothing is due")]
    NotDue,
}

/// All of its runners are verified.
pub fn fill(state: ClaimState) -> Result<ClaimState, ClaimRefused> {
    match state {
        ClaimState::Waiting => Ok(ClaimState::Ready),
        ClaimState::Ready => Err(ClaimRefused::AlreadyDone),
        ClaimState::Released | ClaimState::Failed => Err(ClaimRefused::Ended),
    }
}

/// Its owner does not want it any more.
pub fn release(state: ClaimState) -> Result<(ClaimState, ClaimReason), ClaimRefused> {
    match state {
        ClaimState::Waiting => Ok((ClaimState::Released, ClaimReason::Cancelled)),
        ClaimState::Ready => Ok((ClaimState::Released, ClaimReason::Done)),
        ClaimState::Released => Err(ClaimRefused::AlreadyDone),
        ClaimState::Failed => Err(ClaimRefused::Ended),
    }
}

/// It cannot be filled.
pub fn fail(state: ClaimState, reason: ClaimReason) -> Result<(ClaimState, ClaimReason), ClaimRefused> {
    match state {
        ClaimState::Waiting => Ok((ClaimState::Failed, reason)),
        ClaimState::Ready => Err(ClaimRefused::Filled),
        ClaimState::Failed => Err(ClaimRefused::AlreadyDone),
        ClaimState::Released => Err(ClaimRefused::Ended),
    }
}

/// Its time is over: to wait until `deadline`, or to keep its runners until then.
pub fn expire(
    state: ClaimState,
    deadline: Option<Millis>,
    now: Millis,
) -> Result<(ClaimState, ClaimReason), ClaimRefused> {
    let is_due = deadline.is_some_and(|deadline| deadline < now);
    match state {
        ClaimState::Waiting if is_due => Ok((ClaimState::Failed, ClaimReason::WaitOver)),
        ClaimState::Ready if is_due => Ok((ClaimState::Released, ClaimReason::RuntimeOver)),
        ClaimState::Waiting | ClaimState::Ready => Err(ClaimRefused::NotDue),
        ClaimState::Released | ClaimState::Failed => Err(ClaimRefused::Ended),
    }
}

/// The last of its runners has ended: there is nothing left to be kept.
pub fn lose(state: ClaimState) -> Result<(ClaimState, ClaimReason), ClaimRefused> {
    match state {
        ClaimState::Ready => Ok((ClaimState::Released, ClaimReason::RunnersLost)),
        // Others take their places.
        ClaimState::Waiting => Err(ClaimRefused::NotDue),
        ClaimState::Released | ClaimState::Failed => Err(ClaimRefused::Ended),
    }
}

/// A claim that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Which. Smaller is older.
    pub claim: ClaimNo,
    /// 9 goes first.
    pub priority: u8,
    /// Claims of different owners take turns.
    pub owner: String,
    /// How many runners it lacks.
    pub missing: u32,
    /// What it wants.
    pub wanted: Wanted,
}

/// Puts claims in the order in which they are served: by priority, then in turns between their owners, then by age.
pub fn in_order(mut waiting: Vec<Waiting>) -> Vec<Waiting> {
    waiting.sort_by_key(|claim| claim.claim);
    let mut turns = BTreeMap::<(u8, String), u32>::new();
    let mut turned: Vec<(u32, Waiting)> = Vec::with_capacity(waiting.len());
    for claim in waiting {
        let turn = turns.entry((claim.priority, claim.owner.clone())).or_default();
        turned.push((*turn, claim));
        *turn += 1;
    }
    turned.sort_by_key(|(turn, claim)| (std::cmp::Reverse(claim.priority), *turn, claim.claim));
    turned.into_iter().map(|(_, claim)| claim).collect()
}

/// Gives idle machines to claims, which stand in the order in which they are served. Returns places in both lists. Each claim takes all it lacks
/// before the next one gets anything that would fit it.
pub fn assign(waiting: &[Waiting], idle: &[&Machine]) -> Vec<(usize, usize)> {
    let mut is_free = vec![true; idle.len()];
    let mut given = Vec::new();
    for (who, claim) in waiting.iter().enumerate() {
        let mut fitting: Vec<usize> =
            (0..idle.len()).filter(|place| is_free[*place] && claim.wanted.fits(idle[*place])).collect();
        // What others may not be able to use goes first: spot machines, and small ones. The sort is stable, so that of equal ones the
        // first in the list is taken.
        fitting.sort_by_key(|place| (idle[*place].usage != Usage::Spot, idle[*place].memory_mib));
        for place in fitting.into_iter().take(claim.missing as usize) {
            is_free[place] = false;
            given.push((who, place));
        }
    }
    given
}

/// A runner that a waiting claim has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken<'a> {
    /// The claim.
    pub owner: ClaimNo,
    /// What it is.
    pub machine: &'a Machine,
}

/// Which runners (places in `taken`) waiting claims of a lower priority give back, because the first claim that lacks some cannot be helped otherwise:
/// `room` more can be created, and `coming` are on their way. The last in the order give first.
pub fn yields(waiting: &[Waiting], taken: &[Taken<'_>], room: u32, coming: u32) -> Vec<usize> {
    let Some(first) = waiting.iter().find(|claim| claim.missing > 0) else { return Vec::new() };
    let short = first.missing.saturating_sub(room.saturating_add(coming)) as usize;
    let lower = waiting.iter().rev().take_while(|claim| claim.claim != first.claim);
    lower
        .filter(|claim| claim.priority < first.priority)
        .flat_map(|claim| (0..taken.len()).filter(move |place| taken[*place].owner == claim.claim))
        .filter(|place| first.wanted.fits(taken[*place].machine))
        .take(short)
        .collect()
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
