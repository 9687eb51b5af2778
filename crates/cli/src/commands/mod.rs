//! One module for each group of commands.

pub mod audit;
pub mod build;
pub mod completion;
pub mod doctor;
pub mod flags;
pub mod key;
pub mod near;
pub mod queue;
pub mod run;
pub mod serve;
pub mod submit;
pub mod worker;
