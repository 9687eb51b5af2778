//! Every rpc over the wire, on both stores. The files mirror the service; `rig` has the words to talk to it briefly.

#[path = "../http/harness.rs"]
#[allow(dead_code, reason = "the harness has words for the HTTP face, too")]
mod harness;
mod rig;

mod bulk;
mod cancel;
mod children;
mod face;
mod journal;
mod matrix;
mod open;
mod payloads;
mod runs;
mod schedules;
mod sealed;
mod servers;
mod stale;
mod steps;
mod suspend;
mod time;
mod traces;
mod work;
mod work_cut;
mod workers;
