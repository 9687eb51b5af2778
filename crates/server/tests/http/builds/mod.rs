//! Builds over the wire. The files mirror the routes.

mod clients;
mod contested;
pub mod files;
mod git;
mod logs;
mod machines;
mod overview;
mod pollers;
mod polls;
pub mod rig;
mod runs;
mod storage;
mod tokens;
mod workers;
