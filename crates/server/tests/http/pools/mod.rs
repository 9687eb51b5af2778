//! /api/v1/pools and /api/v1/runners: what people, agents and providers do to each other.

mod agents;
mod claims;
mod definitions;
mod fake;
mod github;
mod keeper;
pub mod rig;
