//! What an agent hears, and what it does about it.

use baton::proto::{RunnerOrder, SignalRunner, Time};
use baton_core::Millis;
use baton_core::pools::Signal;

/// A run that this machine is for, as long as an epoch lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// The run.
    pub run_id: Option<String>,
    /// The fence: what the agent says about it carries this.
    pub epoch: u32,
    /// Until when it may last, by the agent's own clock.
    pub deadline: Option<Millis>,
    /// The same by the server's clock, for hooks.
    pub until: Option<Time>,
}

impl Job {
    /// The run that an order is about.
    pub fn of(order: &RunnerOrder, now: Millis) -> Job {
        let left = |ms: u64| now.saturating_add(Millis::try_from(ms).unwrap_or(Millis::MAX));
        Job {
            run_id: order.run_id.clone(),
            epoch: order.epoch,
            deadline: order.remaining_ms.map(left),
            until: order.deadline,
        }
    }

    /// Says something about it.
    pub fn say(&self, signal: Signal, detail: String) -> Action {
        Action::Say(SignalRunner { signal, epoch: self.epoch, run_id: self.run_id.clone(), detail })
    }
}

/// The user's commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// Registers the machine for a run.
    Register,
    /// Takes that back.
    Deregister,
}

/// What an agent hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The server's word.
    Order(RunnerOrder),
    /// A hook has ended, or was stopped; and why it did not work.
    Hook(Hook, Result<(), String>),
    /// What a run left was removed, or could not be.
    Cleaned(Result<(), String>),
    /// The server does not know this agent any more.
    Disowned(String),
    /// Somebody asks the agent to stop.
    Stop,
    /// Nothing but time went by.
    Time,
}

/// Why the agent ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The server wants it.
    Told,
    /// Its run has lasted longer than it may, and nobody ended it.
    Overtime,
    /// The server was out of reach for too long.
    Unreachable,
    /// The server does not know it any more.
    Disowned(String),
    /// Agent and server are not of one mind about which run this machine is for.
    Confused,
    /// Somebody on this machine stopped the agent.
    Stopped,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Run the hook that registers, in a fresh directory.
    Register(Job),
    /// Stop that hook if it still runs, then run the one that deregisters.
    Deregister(Job),
    /// End whatever the run has left, and remove its directory.
    Clean,
    /// Tell the server, until it has answered. What was to be said before is no longer of interest.
    Say(SignalRunner),
    /// End the machine.
    End(Why),
}

/// How long things may last. Each is a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// A run after its deadline.
    pub overtime_ms: Millis,
    /// Without an answer of the server.
    pub unreachable_ms: Millis,
}
