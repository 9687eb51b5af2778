//! What a worker tells whoever watches it.

use serde::{Deserialize, Serialize};

use super::Stop;

/// What a worker reported about a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The work is done.
    Complete,
    /// The attempt failed.
    Fail,
    /// The worker cannot go on.
    GiveBack,
}

/// Something that happened to a worker; for logs and screens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkerEvent {
    /// It registered, under this identifier.
    Registered {
        /// Names this incarnation.
        worker_id: String,
    },
    /// It got a run.
    Claimed {
        /// The run.
        run_id: String,
        /// The epoch of its lease.
        epoch: u32,
    },
    /// The server took its report.
    Reported {
        /// The run.
        run_id: String,
        /// The epoch of its lease.
        epoch: u32,
        /// What it said.
        report: Report,
    },
    /// The server refused its report: the lease was lost, or the run has ended.
    Refused {
        /// The run.
        run_id: String,
        /// The epoch of its lease.
        epoch: u32,
        /// What it said.
        report: Report,
        /// The server's word for why.
        code: String,
        /// For people.
        message: String,
    },
    /// A handler was told to stop.
    Stopping {
        /// The run.
        run_id: String,
        /// The epoch of its lease.
        epoch: u32,
        /// Why.
        why: Stop,
    },
    /// The server does not answer, or has a problem of its own. The worker keeps trying.
    Unreachable {
        /// What was tried.
        call: String,
        /// For people.
        message: String,
    },
    /// The server no longer knows this incarnation. The worker registers again.
    Forgotten {
        /// The incarnation that is over.
        worker_id: String,
    },
    /// It takes no new work and finishes what it holds.
    Draining,
    /// It said goodbye.
    Deregistered,
}
