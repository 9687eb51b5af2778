//! Workers: what they say of themselves, their signs of life, and how they are shown.

use baton_core::{Millis, WorkerId};
use serde::{Deserialize, Serialize};

use super::{LeaseRef, Woken};

/// Where a worker stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WorkerStatus {
    /// Alive and taking work.
    Online,
    /// Finishes what it holds and takes nothing new.
    Draining,
    /// Gone, or thought to be.
    Offline,
}

impl WorkerStatus {
    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            WorkerStatus::Online => 0,
            WorkerStatus::Draining => 1,
            WorkerStatus::Offline => 2,
        }
    }

    /// The status with this number.
    pub fn from_code(code: i16) -> Option<WorkerStatus> {
        [WorkerStatus::Online, WorkerStatus::Draining, WorkerStatus::Offline].into_iter().find(|s| s.code() == code)
    }
}

/// What a worker says about itself when it registers. Never changes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerInfo {
    /// Queues it serves.
    pub queues: Vec<String>,
    /// Types it can do.
    pub types: Vec<String>,
    /// Where it runs.
    pub hostname: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Its version.
    pub version: String,
    /// Free labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// A worker to be registered.
#[derive(Clone, PartialEq, Debug)]
pub struct NewWorker {
    /// Its identifier, made by the caller.
    pub id: WorkerId,
    /// Chosen by the worker for this incarnation: the same again gives the same worker.
    pub instance: Option<String>,
    /// Its namespace.
    pub namespace: String,
    /// Its name; survives restarts.
    pub name: String,
    /// What else it says.
    pub info: WorkerInfo,
    /// Runs it can hold at once.
    pub max_concurrent: u32,
    /// How long its leases live after each sign of life.
    pub ttl_ms: Millis,
    /// The API key it came with.
    pub key_id: Option<String>,
}

/// A registered worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registered {
    /// Its identifier: the caller's, or that of the same instance before.
    pub id: WorkerId,
    /// True when this call made it.
    pub is_new: bool,
    /// When.
    pub at: Millis,
}

/// What a worker measured on its machine.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// Share of the processors in use, 0 to 1.
    pub cpu: Option<f64>,
    /// Share of the memory in use, 0 to 1.
    pub memory: Option<f64>,
    /// Bytes free on the disk it works on.
    pub disk_free_bytes: Option<u64>,
}

/// A worker's sign of life.
#[derive(Clone, PartialEq, Debug)]
pub struct Beat {
    /// Who.
    pub worker: WorkerId,
    /// Health, if it says so.
    pub health: Option<Health>,
    /// Why it gets no new work because of its health, if so. Only looked at together with `health`.
    pub unfit: Option<String>,
    /// How long its leases live from now on after each sign of life, if that is to change.
    pub ttl_ms: Option<Millis>,
    /// Leases it believes to hold; the answer says which are not.
    pub leases: Vec<LeaseRef>,
}

/// The answer to a sign of life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BeatAnswer {
    /// Renewed.
    Alive {
        /// Online or draining.
        status: WorkerStatus,
        /// Until when its leases live now.
        lease_until: Millis,
        /// How many runs it holds, as far as the store knows.
        held: u32,
        /// Those of its leases that are lost.
        lost: Vec<LeaseRef>,
        /// Those of the runs it holds that somebody wants cancelled.
        cancelling: Vec<LeaseRef>,
    },
    /// It was lost, deregistered or forced offline: it has to register again.
    Offline,
    /// There is no such worker.
    Unknown,
}

/// What a change of a worker's status did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerChange {
    /// Runs that were given back.
    pub given_back: u64,
    /// Who is to be woken.
    pub woken: Woken,
}

/// A worker as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Worker {
    /// Its identifier.
    pub id: WorkerId,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it said about itself.
    pub info: WorkerInfo,
    /// Where it stands.
    pub status: WorkerStatus,
    /// Why, if somebody or something changed it.
    pub status_reason: Option<String>,
    /// Runs it can hold at once.
    pub max_concurrent: u32,
    /// Runs it holds.
    pub active: u32,
    /// Runs it has completed.
    pub completed: u64,
    /// Attempts of it that failed.
    pub failed: u64,
    /// When it registered.
    pub registered_at: Millis,
    /// Its last sign of life.
    pub seen_at: Millis,
    /// Until when its leases live.
    pub lease_until: Millis,
    /// Its last measurements.
    pub health: Option<Health>,
    /// Why it gets no new work because of its health.
    pub unfit: Option<String>,
    /// The API key it came with.
    pub key_id: Option<String>,
}

/// Which workers to list. Empty finds all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WorkerFilter {
    /// Of this namespace.
    pub namespace: Option<String>,
    /// With this status.
    pub status: Option<WorkerStatus>,
    /// Serving this queue.
    pub queue: Option<String>,
}
