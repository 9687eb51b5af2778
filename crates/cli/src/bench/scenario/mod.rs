//! Scenarios: what has to hold under conditions, not only how fast it is.

mod blocking;
mod bulk;
mod dashboard;
mod fill;
mod flat;
mod hostile;
mod idle;
pub mod kills;
mod listeners;
mod pollers;
mod pools;
mod timers;
pub mod workflow_kills;

use clap::ValueEnum;

use super::Store;
use super::report::Report;
use crate::exit::Exit;

/// The scenarios.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Drains stay as fast with a million finished runs, and beside a long transaction.
    Flat,
    /// Hostile clients cost little memory, and others hardly any time.
    Hostile,
    /// A thousand waiting workers cost next to nothing.
    Idle,
    /// Nothing is lost or done twice when processes are killed.
    Kills,
    /// Every step of a workflow is remembered once, and every result is right, when processes are killed.
    WorkflowKills,
    /// Sleeping workflows go on in time, and cost nothing until then.
    Timers,
    /// Warm machines are handed over in a moment, and agents that wait cost next to nothing.
    Pools,
    /// Builders that poll get builds as fast as they ask, and none is sent away while one is left.
    Pollers,
    /// Steps that compute use the cores there are, and cost no lease.
    Blocking,
    /// Many sleeping runs are cancelled in a minute, and those who submit meanwhile hardly notice.
    Bulk,
    /// A thousand listeners cost next to nothing, and one of a busy server hears of every end, or what it missed.
    Listeners,
    /// Pages are made in a moment beside a million runs, and twenty that are open cost next to nothing.
    Dashboard,
}

/// What can be told of a scenario; what is not is as usual.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long it keeps up its load.
    pub seconds: Option<u64>,
    /// How many runs it has.
    pub runs: Option<usize>,
    /// What decides whatever is left to chance.
    pub seed: u64,
}

impl Scenario {
    /// Plays the scenario on one store.
    pub async fn play(self, store: &Store, options: Options, report: &mut Report) -> Result<(), Exit> {
        let Options { seconds, runs, seed } = options;
        match self {
            Scenario::Flat => flat::play(store, seconds.unwrap_or(300), report).await,
            Scenario::Hostile => hostile::play(store, seconds.unwrap_or(10), report).await,
            Scenario::Idle => idle::play(store, seconds.unwrap_or(30), report).await,
            Scenario::Kills => kills::play(store, report).await,
            Scenario::WorkflowKills => {
                workflow_kills::play(store, runs.unwrap_or(workflow_kills::WORKFLOWS), seed, report).await
            }
            Scenario::Timers => {
                timers::play(store, runs.unwrap_or(timers::SLEEPERS), seconds.unwrap_or(30), report).await
            }
            Scenario::Pools => pools::play(store, runs.unwrap_or(pools::ROUNDS), seconds.unwrap_or(30), report).await,
            Scenario::Pollers => pollers::play(store, runs.unwrap_or(pollers::BUILDS), report).await,
            Scenario::Blocking => blocking::play(store, report).await,
            Scenario::Bulk => bulk::play(store, runs.unwrap_or(bulk::SLEEPERS), seconds.unwrap_or(20), report).await,
            Scenario::Listeners => {
                listeners::play(store, runs.unwrap_or(listeners::RUNS), seconds.unwrap_or(30), report).await
            }
            Scenario::Dashboard => dashboard::play(store, seconds.unwrap_or(30), report).await,
        }
    }
}
