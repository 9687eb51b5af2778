//! One module for each group of commands.

pub mod agent;
pub mod audit;
pub mod build;
pub mod completion;
pub mod context;
pub mod doctor;
pub mod events;
mod explained;
mod ids;
pub mod key;
pub mod login;
pub mod man;
pub mod namespace;
pub mod patience;
pub mod pool;
pub mod queue;
pub mod run;
pub mod schedule;
pub mod secret;
pub mod serve;
pub mod settings;
pub mod storage;
pub mod submit;
pub mod webhook;
pub mod worker;
pub mod workflow;
