//! `baton top`: the dashboard in a terminal. Queues, runs, workers and pools, live, over the server's public API.
//!
//! * [`app`]: the state of the screen, and what keys ([`keys`]) and answers make of it. Pure.
//! * [`ask`]: what is asked of the server; [`poll`]: when.
//! * [`draw`]: from the state to the screen. Pure as well.
//! * [`terminal`]: the terminal is given back however the program ends.

mod app;
mod ask;
mod draw;
mod filter;
#[cfg(test)]
mod fixture;
mod keys;
mod poll;
mod rows;
mod run;
mod style;
mod terminal;
mod text;

use std::time::{SystemTime, UNIX_EPOCH};

use baton_core::Millis;

pub use app::View;
pub use run::{Error, Options, once, top};

/// This machine's clock.
fn clock() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
}
