//! Builds over the wire. The files mirror the routes.

mod contested;
mod files;
mod git;
mod logs;
mod machines;
mod overview;
mod polls;
pub mod rig;
mod runs;
mod storage;
mod tokens;
mod workers;
