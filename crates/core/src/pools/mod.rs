//! Runner pools: warm machines that are claimed, verified, handed over, given back. docs/adr/0016 has the reasons.
//!
//! * [`runner`]: what each verb does to a runner in each state, and what may end it.
//! * [`spec`]: what a pool is to be, what a claim wants, and which runner fits it.
//! * [`claim`]: where a claim stands, and who is served first.
//! * [`verify`]: whether a runner is alive and registered.
//! * [`why`]: why a claim waits.
//! * [`keeper`]: how many machines to create, and which idle ones to end.

mod backoff;
mod cause;
pub mod claim;
pub mod keeper;
pub mod runner;
mod signal;
pub mod spec;
pub mod verify;
pub mod why;

pub use backoff::{Backoff, BackoffRule, Turn};
pub use cause::Cause;
pub use claim::{ClaimReason, ClaimState};
pub use runner::{Refused, Runner, RunnerState};
pub use signal::Signal;
pub use spec::{Machine, PoolSpec, Usage, Wanted};
pub use verify::{Limits, Verdict};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The store's number of a claim. Never used again.
pub type ClaimNo = i64;

/// Names one runner: a machine, or the place for one. Never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunnerId(pub Uuid);

/// Names one order of machines. The provider gets it as the token that makes a repeated order harmless.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderId(pub Uuid);

impl RunnerId {
    /// Builds an identifier from 128 random bits.
    pub fn from_random(random: u128) -> RunnerId {
        RunnerId(uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid())
    }
}

impl OrderId {
    /// Builds an identifier from 128 random bits.
    pub fn from_random(random: u128) -> OrderId {
        OrderId(uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid())
    }
}

crate::id::uuid_text!(RunnerId, OrderId);
