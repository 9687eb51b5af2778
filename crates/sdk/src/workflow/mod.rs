//! Durable workflows: functions that survive the fall of whoever plays them.
//!
//! A workflow is an async function of a [`Context`] and an input. Whatever must not happen twice, or has to come out the same when the function is played
//! again, it asks of its context; the answers are remembered by position, in the order in which they were asked for. When all branches of the function
//! wait (for a sleep, a signal, a child, the next attempt of a step), its worker drops it and lets the run go; it is played again when there is news.

mod answers;
mod blocking;
mod child;
mod context;
pub(crate) mod driver;
mod error;
pub(crate) mod handler;
mod journal;
pub(crate) mod mailbox;
mod policy;
mod reports;
mod saga;
mod state;
mod step;
pub(crate) mod time;
mod turns;
mod wait;
mod writing;

#[cfg(test)]
mod tests;

pub use child::{Child, ChildResult, StartChild, StartedChild};
pub use context::Context;
pub use error::{Continuation, StepError, WorkflowError};
pub use policy::RetryPolicy;
pub use step::Step;
pub use wait::{Signal, SignalWithin, Sleep};
