//! What goes into a submit and what comes out.

use baton_core::machine::Options;
use baton_core::trace::RunTrace;
use baton_core::{Millis, RunId};
use bytes::Bytes;

use super::Lane;

/// When a run is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// At once.
    Now,
    /// This long after the store's now.
    After(Millis),
    /// At this moment.
    At(Millis),
}

impl Due {
    /// The moment, given the store's now. Never in the past.
    pub fn at(self, now: Millis) -> Millis {
        match self {
            Due::Now => now,
            Due::After(ms) => now.saturating_add(ms.max(0)),
            Due::At(at) => at.max(now),
        }
    }
}

/// Makes a repeated submit harmless.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idempotency {
    /// Namespace and key in one string.
    pub key: String,
    /// Hash of everything the submitter said: the same key with another body is refused.
    pub fingerprint: [u8; 16],
}

/// A run to be submitted.
#[derive(Clone, PartialEq, Debug)]
pub struct NewRun {
    /// Where to.
    pub lane: Lane,
    /// 0 to 9; 9 first.
    pub priority: u8,
    /// When.
    pub due: Due,
    /// Key for limits and fair turns.
    pub key: Option<String>,
    /// Key for warm caches.
    pub affinity: Option<String>,
    /// Makes a repeated submit harmless.
    pub idempotency: Option<Idempotency>,
    /// Retries, losses, timeout. `None` is the default, and costs nothing to keep.
    pub options: Option<Options>,
    /// The run this one repeats, if it was retried by hand.
    pub retry_of: Option<RunId>,
    /// The trace that it is part of.
    pub trace: Option<RunTrace>,
    /// The payload, as it came (JSON text on the HTTP face).
    pub input: Bytes,
}

/// One call of submit: all of its runs, or none.
#[derive(Clone, PartialEq, Debug)]
pub struct Submission {
    /// The runs, in order.
    pub runs: Vec<NewRun>,
    /// Low bits of the run identifiers; one 64-bit die for each run.
    pub dice: Vec<u64>,
}

/// A run that was taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submitted {
    /// Its identifier.
    pub run: RunId,
    /// When it was submitted, on the store's clock.
    pub submitted_at: Millis,
    /// When it is due.
    pub due_at: Millis,
    /// False when an earlier call with the same idempotency key made it.
    pub is_new: bool,
}

/// Why a submission was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubmitRefused {
    /// The idempotency key of the run with this index belongs to a run with another body.
    KeyReused(usize),
}

/// What became of one submission.
pub type SubmitAnswer = Result<Vec<Submitted>, SubmitRefused>;
