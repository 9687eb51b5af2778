//! One module for each group of commands.

pub mod completion;
pub mod doctor;
pub mod key;
pub mod queue;
pub mod run;
pub mod serve;
pub mod worker;
