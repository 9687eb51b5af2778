//! Workflows as users write them, over the wire, on both stores.

#[path = "../http/harness.rs"]
#[allow(dead_code, reason = "the harness has words for the HTTP face, too")]
mod harness;

mod blocking;
mod cut;
mod kept;
mod large;
mod site;
mod stop;
mod talk;
mod traces;
mod work;
