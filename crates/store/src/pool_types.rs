//! Pools, and claims of their runners, as the store keeps them.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::Millis;
use baton_core::pools::claim::{ClaimRefused, Waiting};
use baton_core::pools::keeper::Stock;
use baton_core::pools::{
    Backoff, ClaimNo, ClaimReason, ClaimState, Limits, PoolSpec, RunnerState, Verdict as RunnerVerdict, Wanted,
};

use crate::{PoolRunner, RunnerRef};

/// The store's number of a pool. Never used again, also when the pool is deleted.
pub type PoolNo = i64;

/// A pool to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct NewPool {
    /// Its namespace.
    pub namespace: String,
    /// Unique in its namespace.
    pub name: String,
    /// What it is to be.
    pub spec: PoolSpec,
}

/// A pool.
#[derive(Clone, PartialEq, Debug)]
pub struct Pool {
    /// Its number.
    pub number: PoolNo,
    /// Its namespace.
    pub namespace: String,
    /// Unique in its namespace.
    pub name: String,
    /// What it is to be.
    pub spec: PoolSpec,
    /// Grows with every change of its spec.
    pub revision: i64,
    /// When it was made.
    pub created_at: Millis,
    /// Since when it is being deleted: it takes no claims, and creates nothing.
    pub deleting_at: Option<Millis>,
    /// How creation fares.
    pub backoff: Backoff,
    /// What the provider said when it last refused, until it creates again.
    pub error: Option<String>,
}

/// What became of a pool to be made.
#[derive(Clone, PartialEq, Debug)]
pub enum PoolAnswer {
    /// It is there now.
    Made(Pool),
    /// One of this name was there before, perhaps another one.
    Exists(Pool),
}

/// A claim to be opened.
#[derive(Clone, PartialEq, Debug)]
pub struct NewPoolClaim {
    /// Of which pool.
    pub pool: PoolNo,
    /// For which run: the caller's own name for it.
    pub run_id: String,
    /// Stands for everything the caller said: the same claim again has the same one.
    pub fingerprint: [u8; 16],
    /// How many machines.
    pub count: u32,
    /// Of which kind.
    pub wanted: Wanted,
    /// 9 goes first.
    pub priority: u8,
    /// Claims of different owners take turns.
    pub owner: String,
    /// How long it may keep them.
    pub runtime_ms: Millis,
    /// How long it waits for them.
    pub wait_ms: Millis,
    /// How many claims of the pool may wait, this one included.
    pub waiting_max: u64,
}

/// A claim.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolClaim {
    /// Its number.
    pub number: ClaimNo,
    /// Of which pool.
    pub pool: PoolNo,
    /// For which run.
    pub run_id: String,
    /// Stands for everything the caller said.
    pub fingerprint: [u8; 16],
    /// How many machines.
    pub count: u32,
    /// Of which kind.
    pub wanted: Wanted,
    /// 9 goes first.
    pub priority: u8,
    /// Claims of different owners take turns.
    pub owner: String,
    /// How long it may keep them.
    pub runtime_ms: Millis,
    /// Where it stands.
    pub state: ClaimState,
    /// When it was opened.
    pub opened_at: Millis,
    /// Until when it waits, and once it is ready, until when it may keep its machines.
    pub deadline: Option<Millis>,
    /// When its machines were handed over.
    pub ready_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Why.
    pub reason: Option<ClaimReason>,
    /// The rest, for people.
    pub detail: String,
}

/// What became of a claim to be opened.
#[derive(Clone, PartialEq, Debug)]
pub enum OpenAnswer {
    /// It waits now.
    Opened(PoolClaim),
    /// The same claim was opened before.
    Known(PoolClaim),
    /// Another claim was opened for this run before.
    Conflict(PoolClaim),
    /// As many claims wait as may. Nothing has changed.
    Full,
    /// There is no such pool, or it is being deleted.
    NoPool,
}

/// Which claims to list. Empty finds all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClaimFilter {
    /// Of this pool.
    pub pool: Option<PoolNo>,
    /// In this state.
    pub state: Option<ClaimState>,
}

/// A runner that a claim took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakenRunner {
    /// The claim.
    pub claim: ClaimNo,
    /// For which run.
    pub run_id: String,
    /// The runner.
    pub runner: RunnerRef,
}

/// What became of a look for runners.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TakeAnswer {
    /// Who took what.
    pub taken: Vec<TakenRunner>,
    /// Runners that claims of a lower priority gave back.
    pub yielded: Vec<RunnerRef>,
    /// All claims that wait, oldest first.
    pub waiting: Vec<PoolClaim>,
    /// Those that have runners now. The others have nothing to be verified, and in a crowd that is most of them.
    pub holders: BTreeSet<ClaimNo>,
}

/// What became of a claim that was to be filled.
#[derive(Clone, PartialEq, Debug)]
pub enum CommitAnswer {
    /// All of its runners are running.
    Ready(PoolClaim),
    /// Nothing has changed.
    NotYet {
        /// What was found about each runner it has taken.
        verdicts: Vec<(RunnerRef, RunnerVerdict)>,
        /// How many more it has to take.
        missing: u32,
    },
    /// Nothing has changed, and will not.
    Refused(ClaimRefused, PoolClaim),
    /// There is no such claim.
    Unknown,
}

/// What became of a claim that was to be ended.
#[derive(Clone, PartialEq, Debug)]
pub enum EndClaimAnswer {
    /// It has ended, and these runners are releasing.
    Ended(PoolClaim, Vec<RunnerRef>),
    /// Nothing has changed.
    Refused(ClaimRefused, PoolClaim),
    /// There is no such claim.
    Unknown,
}

/// What is looked for by [`crate::Pools::expire_pools`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolExpiry {
    /// How long a releasing runner may take.
    pub release_ms: Millis,
    /// An idle, claimed or releasing runner is ended after this silence.
    pub silent_ms: Millis,
    /// A running one after this: longer than an agent lives that cannot reach a server.
    pub abandoned_ms: Millis,
    /// No server could hear agents until a moment ago, so what one has not said in time proves nothing: only runs end.
    pub is_deaf: bool,
    /// Most of each kind.
    pub limit: usize,
}

/// What has run out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExpiredPools {
    /// Claims that ended.
    pub claims: Vec<PoolClaim>,
    /// Runners that are terminating now, or releasing because their claim ended.
    pub runners: Vec<PoolRunner>,
}

/// What the keeper of a pool looks at.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolStock {
    /// The time on the store's clock.
    pub now: Millis,
    /// The pool.
    pub pool: Pool,
    /// What it has.
    pub stock: Stock,
    /// Claims that wait, in the order in which they are served.
    pub waiting: Vec<Waiting>,
}

/// Numbers about a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Runners by state.
    pub runners: BTreeMap<RunnerState, u64>,
    /// Claims that wait.
    pub waiting: u64,
    /// Sums since the pool was made, by name (see [`crate::pool_total`]).
    pub totals: BTreeMap<String, i64>,
    /// How long the last claims that were filled waited, newest first.
    pub waits_ms: Vec<Millis>,
}

/// How many rows went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetainedPools {
    /// Runners that were gone.
    pub runners: u64,
    /// Claims that had ended.
    pub claims: u64,
    /// Moves of runners.
    pub events: u64,
    /// Orders that were settled.
    pub orders: u64,
    /// Pools that were being deleted, and have nothing left.
    pub pools: u64,
}

/// What a claim's runners are held to, and how long they have to deregister when they are given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakeRules {
    /// How long a runner may take to register.
    pub limits: Limits,
    /// How long it may take to deregister.
    pub release_ms: Millis,
    /// Nobody takes anything now: whatever is taken would come to nothing.
    pub is_held: bool,
}
