//! Queues and lanes, their settings and how much is in them.

use baton_core::Millis;

/// The store's number of a queue.
pub type QueueId = i32;
/// The store's number of a lane.
pub type LaneId = i32;

/// A lane: all runs of one type on one queue. Claims are made by lane, so that a type nobody can do never
/// stands in the way of another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LaneName {
    /// Namespace of the queue.
    pub namespace: String,
    /// Name of the queue.
    pub queue: String,
    /// Type of the runs.
    pub kind: String,
}

/// The numbers of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lane {
    /// Its own.
    pub lane: LaneId,
    /// Its queue's.
    pub queue: QueueId,
}

/// A queue and its settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Queue {
    /// Its number.
    pub id: QueueId,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Handing out is paused until this moment; `Millis::MAX` means until resumed.
    pub paused_until: Option<Millis>,
    /// Most runs that may wait (`None`: the server's default).
    pub backlog_max: Option<u64>,
    /// Most runs handed out in a second (`None`: no limit).
    pub rate_per_second: Option<f64>,
    /// Most runs of one key that may be held at once (`None`: no limit).
    pub key_limit: Option<u32>,
}

/// A change of a queue's settings. An outer `None` leaves a setting as it is; an inner one clears it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct QueueChange {
    /// Pause until, or resume.
    pub paused_until: Option<Option<Millis>>,
    /// Longest backlog.
    pub backlog_max: Option<Option<u64>>,
    /// Rate.
    pub rate_per_second: Option<Option<f64>>,
    /// Limit per key.
    pub key_limit: Option<Option<u32>>,
}

/// How much is in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depth {
    /// The queue.
    pub queue: QueueId,
    /// Claimable now (or waiting only for a pause, a rate or a key).
    pub ready: u64,
    /// Pending, but due later.
    pub scheduled: u64,
    /// Held by workers.
    pub held: u64,
    /// Sleeping.
    pub sleeping: u64,
    /// How long the oldest claimable run has been due.
    pub oldest_ms: Option<Millis>,
}

/// What could be claimed in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneDepth {
    /// The lane.
    pub lane: LaneId,
    /// Claimable now (or waiting only for a pause, a rate or a key).
    pub ready: u64,
    /// How long the oldest of them has been due.
    pub oldest_ms: Option<Millis>,
}
