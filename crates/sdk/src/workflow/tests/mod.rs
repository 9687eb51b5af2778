//! Workflows against a server that is a few maps in memory.

mod blocking;
mod branches;
mod cancel;
mod fake;
mod replay;
mod saga;
mod waits;
