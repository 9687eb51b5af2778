//! Runners, their machines, and what their agents say, as the store keeps them.

use baton_core::pools::{Cause, ClaimNo, Machine, OrderId, Refused, Runner, RunnerId, RunnerState, Signal, Usage};
use baton_core::token::Hash;
use baton_core::{Epoch, Millis};

use crate::PoolNo;

/// A runner, as somebody has seen it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunnerRef {
    /// Which.
    pub runner: RunnerId,
    /// Its fence.
    pub epoch: Epoch,
}

/// A runner.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolRunner {
    /// Its identifier.
    pub id: RunnerId,
    /// Its pool.
    pub pool: PoolNo,
    /// The order its machine was, or is to be, created with.
    pub order: OrderId,
    /// What the rules know of it.
    pub rules: Runner,
    /// The run that it is for, or was for last.
    pub run_id: Option<String>,
    /// Since when it is in its state.
    pub since: Millis,
    /// When its machine was ordered.
    pub ordered_at: Millis,
    /// The provider's name for its machine, once there is one.
    pub machine_id: Option<String>,
    /// What its machine is; what was ordered, until the provider says more.
    pub machine: Machine,
    /// When its last heartbeat came.
    pub seen_at: Option<Millis>,
    /// How many claims have taken it.
    pub uses: u32,
    /// Why it is ended, for people.
    pub detail: String,
    /// The hash of its agent's token, once that has joined.
    pub token: Option<Hash>,
}

impl PoolRunner {
    /// As it is now.
    pub fn reference(&self) -> RunnerRef {
        RunnerRef { runner: self.id, epoch: self.rules.epoch }
    }
}

/// Which runners to list. Empty finds all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunnerFilter {
    /// Of this pool.
    pub pool: Option<PoolNo>,
    /// In this state.
    pub state: Option<RunnerState>,
    /// Not in this state.
    pub not_state: Option<RunnerState>,
    /// Held by this claim.
    pub claim: Option<ClaimNo>,
}

/// What a heartbeat tells the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunnerNews {
    /// Where its runner stands.
    pub state: RunnerState,
    /// The fence, which its signals have to carry.
    pub epoch: Epoch,
    /// The run it is for, while it is claimed, running or releasing.
    pub run_id: Option<String>,
    /// Until when that may last.
    pub deadline: Option<Millis>,
}

/// A signal of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunnerSignal {
    /// From which runner.
    pub runner: RunnerRef,
    /// What it says.
    pub signal: Signal,
    /// About which run.
    pub run_id: Option<String>,
    /// The rest, for people.
    pub detail: String,
    /// No server could hear its agent until a moment ago, so it does not come too late.
    pub was_unheard: bool,
}

/// What became of a signal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SignalAnswer {
    /// The runner is in this state now.
    Noted(RunnerNews),
    /// It changes nothing.
    Refused(Refused),
    /// It is about another run than the runner is for: ignored, and to be audited.
    OtherRun(Option<String>),
    /// There is no such runner.
    Unknown,
}

/// What became of a runner that somebody wanted to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunnerAnswer {
    /// It is in this state now, with this epoch.
    Moved(RunnerState, Epoch),
    /// Nothing has changed.
    Refused(Refused),
    /// There is no such runner.
    Unknown,
}

/// A runner to be ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunnerEnd {
    /// As it was seen.
    pub runner: RunnerRef,
    /// Why.
    pub cause: Cause,
    /// The rest, for people.
    pub detail: String,
}

/// Machines to be ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewOrder {
    /// For which pool.
    pub pool: PoolNo,
    /// The token that makes asking again harmless.
    pub order: OrderId,
    /// A runner for each machine.
    pub runners: Vec<RunnerId>,
    /// How they are paid for.
    pub usage: Usage,
    /// Of these types, as patterns, besides being of the pool's. None: any of those.
    pub types: Vec<String>,
    /// How long a machine may take until its agent says that it is up.
    pub create_ms: Millis,
    /// How long the caller has to ask the provider before another server does.
    pub ask_ms: Millis,
}

/// An order of machines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Its token.
    pub id: OrderId,
    /// For which pool.
    pub pool: PoolNo,
    /// How many machines.
    pub count: u32,
    /// How they are paid for.
    pub usage: Usage,
    /// Of these types, as patterns, besides being of the pool's. None: any of those.
    pub types: Vec<String>,
    /// When it was made.
    pub ordered_at: Millis,
    /// When a server is to ask the provider (again).
    pub ask_at: Millis,
    /// How often the provider was to be asked.
    pub asked: u32,
    /// When it was settled: nobody asks any more.
    pub closed_at: Option<Millis>,
    /// What the provider said when it refused.
    pub error: Option<String>,
}

/// An order, and whether anybody waits for what it brings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedOrder {
    /// The order.
    pub order: Order,
    /// A runner waits for a machine of it.
    pub is_awaited: bool,
}

impl PlacedOrder {
    /// Whether machines of it may still come that nobody knows of: its last call was not answered, and may have gone on for `grace_ms` after its time.
    pub fn may_bring_more(&self, grace_ms: Millis, now: Millis) -> bool {
        let Order { closed_at, ask_at, .. } = self.order;
        // Whatever is settled before it is to be asked for again was answered.
        let is_answered = closed_at.is_some_and(|at| at < ask_at);
        !is_answered && now < ask_at.saturating_add(grace_ms)
    }
}

/// What became of machines to be ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderAnswer {
    /// They may be asked for: perhaps fewer, because the pool has no room for more.
    Ordered(Order),
    /// The same order was made before.
    Known(Order),
    /// The pool has as many machines as it may have.
    Full,
    /// There is no such pool, or it is being deleted.
    NoPool,
}

/// A machine that the provider made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewMachine {
    /// The provider's name for it.
    pub id: String,
    /// What it is.
    pub machine: Machine,
}

/// What became of a machine that was made for an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachineAnswer {
    /// It belongs to this runner.
    Bound(RunnerId),
    /// Nobody waits for it: to be terminated.
    Surplus,
}

/// What became of an agent that wanted to join.
#[derive(Clone, PartialEq, Debug)]
pub enum JoinAnswer {
    /// It speaks for this runner.
    Joined(Box<PoolRunner>),
    /// Another agent speaks for the runner of this machine.
    Taken,
    /// A runner of the order waits for a machine, and the provider has not said yet that it is this one.
    NotYet,
    /// There is no such order, or no runner of it waits for this machine.
    Unknown,
}

/// A move of a runner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunnerEvent {
    /// Counts up.
    pub number: i64,
    /// When.
    pub at: Millis,
    /// Of which pool.
    pub pool: PoolNo,
    /// Which runner.
    pub runner: RunnerId,
    /// The claim that held it before, or holds it now.
    pub claim: Option<ClaimNo>,
    /// From which state; none when it was ordered.
    pub from: Option<RunnerState>,
    /// To which; the same when it registered.
    pub to: RunnerState,
    /// Why it is ended.
    pub cause: Option<Cause>,
    /// The rest, for people.
    pub detail: String,
}

/// Which moves to list. Empty finds all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventFilter {
    /// Of this pool.
    pub pool: Option<PoolNo>,
    /// Of this runner.
    pub runner: Option<RunnerId>,
    /// About this claim.
    pub claim: Option<ClaimNo>,
}
