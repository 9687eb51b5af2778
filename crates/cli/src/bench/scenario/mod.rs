//! Scenarios: what has to hold under conditions, not only how fast it is.

mod fill;
mod flat;
mod idle;
pub mod kills;

use clap::ValueEnum;

use super::Store;
use super::report::Report;
use crate::exit::Exit;

/// The scenarios.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Drains stay as fast with a million finished runs, and beside a long transaction.
    Flat,
    /// A thousand waiting workers cost next to nothing.
    Idle,
    /// Nothing is lost or done twice when processes are killed.
    Kills,
}

impl Scenario {
    /// Plays the scenario on one store.
    pub async fn play(self, store: &Store, seconds: Option<u64>, report: &mut Report) -> Result<(), Exit> {
        match self {
            Scenario::Flat => flat::play(store, seconds.unwrap_or(300), report).await,
            Scenario::Idle => idle::play(store, seconds.unwrap_or(30), report).await,
            Scenario::Kills => kills::play(store, report).await,
        }
    }
}
