//! What goes into the store's verbs and what comes out.

use baton_core::machine::Options;
use baton_core::token::Hash;
use baton_core::{Epoch, LeaseEnd, Millis, Reason, Refused, RunId, State, WorkerId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

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

/// A waiting worker in a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimSlot {
    /// Who asks.
    pub worker: WorkerId,
    /// Its name, for affinity.
    pub name: String,
    /// The lanes it can take, sorted.
    pub lanes: Vec<LaneId>,
    /// How many runs it asks for.
    pub room: u32,
    /// The worker's number of this claim; the same number again finds the same runs.
    pub claim_no: i64,
    /// Claim and start in one (for callers that have no separate start).
    pub start: bool,
    /// A lease of its own for each run, for callers that never send heartbeats.
    pub lease_ms: Option<Millis>,
}

/// A claim: one queue, all who wait there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    /// The queue.
    pub queue: QueueId,
    /// Who waits, longest first.
    pub slots: Vec<ClaimSlot>,
    /// At most this many runs (and never more than [`crate::CLAIM_RUNS_MAX`]).
    pub limit: usize,
}

/// A run in the hands of a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct Claimed {
    /// Index of the slot that got it (0 in answers of `claimed`).
    pub slot: usize,
    /// The run.
    pub run: RunId,
    /// Its lane.
    pub lane: LaneId,
    /// The epoch of this lease.
    pub epoch: Epoch,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Its priority.
    pub priority: u8,
    /// When it was submitted.
    pub submitted_at: Millis,
    /// When this attempt times out, if it has a timeout.
    pub timeout_at: Option<Millis>,
    /// Its key, if any.
    pub key: Option<String>,
    /// The payload.
    pub input: Bytes,
}

/// Why a slot cannot get work at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotRefused {
    /// Not registered, or deleted since.
    Unknown,
    /// Draining: no new work.
    Draining,
    /// Offline: lost, deregistered or forced. It has to register again.
    Offline,
    /// Holds as many runs as it said it can.
    Full,
    /// Under a health floor.
    Unfit,
}

/// What a claim handed out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClaimAnswer {
    /// The runs.
    pub claimed: Vec<Claimed>,
    /// Slots (by index) whose workers were found unable to take work. Only workers that would have got a run are looked at.
    pub refused: Vec<(usize, SlotRefused)>,
    /// True when runs for these slots may be left: claim again at once.
    pub more: bool,
    /// How long until the next run of these lanes becomes due, or the queue's rate or pause allows one.
    pub next_in_ms: Option<Millis>,
}

/// A lease a caller says it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseRef {
    /// The run.
    pub run: RunId,
    /// The epoch of the claim.
    pub epoch: Epoch,
}

/// A completed run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The lease.
    pub lease: LeaseRef,
    /// What came out, if anything.
    pub output: Option<Bytes>,
}

/// What became of a verb on one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Carried out; the run is in this state now.
    Done {
        /// The state after the verb.
        state: State,
        /// True when somebody wants the run cancelled.
        cancelling: bool,
    },
    /// Refused; nothing changed.
    Refused(Refused),
    /// There is no such run.
    Unknown,
}

/// Lanes that have become claimable, to be woken after the commit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// Lanes with runs that can be claimed now.
    pub lanes: Vec<LaneId>,
    /// Lanes with runs due later, and how long until then.
    pub later: Vec<(LaneId, Millis)>,
}

/// What became of a verb on several runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// One for each run, in order.
    pub verdicts: Vec<Verdict>,
    /// Who is to be woken.
    pub woken: Woken,
}

/// What can be claimed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Lanes with runs that can be claimed now (a paused queue's are not among them).
    pub ready: Vec<LaneId>,
    /// How long until the next run of each lane becomes due, for those that have one.
    pub later: Vec<(LaneId, Millis)>,
}

/// What the reaper took back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expired {
    /// Each run: its holder, the epoch that ended, how it ended, and the state it is in now.
    pub runs: Vec<ExpiredRun>,
    /// Who is to be woken.
    pub woken: Woken,
    /// True when the limit was reached: call again.
    pub more: bool,
}

/// One run the reaper took back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiredRun {
    /// The run.
    pub run: RunId,
    /// Who held it.
    pub worker: Option<WorkerId>,
    /// The epoch that ended.
    pub epoch: Epoch,
    /// How.
    pub end: LeaseEnd,
    /// The state it is in now.
    pub state: State,
}

// ---- queues

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

// ---- workers

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

// ---- reading

/// A page: `limit` entries that come after (that is, are older than) `after`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<K> {
    /// Where the page before ended.
    pub after: Option<K>,
    /// How many.
    pub limit: usize,
}

/// Which runs to list. Empty finds all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunFilter {
    /// Of these lanes; `None` means all.
    pub lanes: Option<Vec<LaneId>>,
    /// In this state.
    pub state: Option<State>,
    /// Held (now, or at its end) by this worker.
    pub worker: Option<WorkerId>,
    /// With this key.
    pub key: Option<String>,
}

/// Everything there is to know of a run, but for its past attempts.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRecord {
    /// Its identifier.
    pub id: RunId,
    /// Its lane.
    pub lane: LaneId,
    /// Where it stands.
    pub state: State,
    /// The epoch of its newest claim.
    pub epoch: Epoch,
    /// Its priority.
    pub priority: u8,
    /// Attempts that used up the retry budget.
    pub failures: u32,
    /// Workers it lost.
    pub losses: u32,
    /// When it was submitted.
    pub submitted_at: Millis,
    /// When it is or was due.
    pub due_at: Millis,
    /// Its key, if any.
    pub key: Option<String>,
    /// Its affinity key, if any.
    pub affinity: Option<String>,
    /// The run it repeats, if any.
    pub retry_of: Option<RunId>,
    /// Its options.
    pub options: Options,
    /// Who holds it, or held it at its end.
    pub worker: Option<WorkerId>,
    /// When that worker claimed it.
    pub claimed_at: Option<Millis>,
    /// When that worker started it.
    pub started_at: Option<Millis>,
    /// When the attempt times out.
    pub timeout_at: Option<Millis>,
    /// A lease of its own, apart from its worker's.
    pub lease_until: Option<Millis>,
    /// Until when its worker may stop by itself after a request to cancel.
    pub cancel_by: Option<Millis>,
    /// It waits for room under its key's limit.
    pub blocked: bool,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Why it failed or was cancelled.
    pub reason: Option<Reason>,
    /// The last error message.
    pub error: Option<String>,
    /// The payload (empty in lists).
    pub input: Bytes,
    /// What came out (`None` in lists).
    pub output: Option<Bytes>,
}

/// A lease that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// Its epoch.
    pub epoch: Epoch,
    /// Who held it.
    pub worker: Option<WorkerId>,
    /// From when.
    pub claimed_at: Millis,
    /// When work began, if it did.
    pub started_at: Option<Millis>,
    /// Until when.
    pub ended_at: Millis,
    /// How it ended.
    pub end: LeaseEnd,
    /// What was said about it.
    pub error: Option<String>,
}

// ---- keys and audit

/// What an API key may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    Admin,
    /// Submit, cancel and retry runs, and read.
    Submit,
    /// Register, claim and report.
    Worker,
    /// Read.
    Read,
}

/// An API key to be added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewKey {
    /// A public name for it.
    pub id: String,
    /// Its hash.
    pub hash: Hash,
    /// What a person calls it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where; `None` is everywhere.
    pub namespace: Option<String>,
}

/// An API key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// A public name for it.
    pub id: String,
    /// What a person calls it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where; `None` is everywhere.
    pub namespace: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
}

/// A line for the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Who: a key's id, or what was known of the caller.
    pub actor: String,
    /// What: a verb.
    pub action: String,
    /// On what.
    pub subject: String,
    /// The rest, for people.
    pub detail: String,
    /// The namespace it belongs to, if it belongs to one.
    pub namespace: Option<String>,
}

/// A line of the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditRecord {
    /// Its number; grows.
    pub id: i64,
    /// When.
    pub at: Millis,
    /// The line.
    pub entry: AuditEntry,
}

/// What retention deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    /// Runs.
    pub runs: u64,
    /// Workers.
    pub workers: u64,
    /// Audit lines.
    pub audit: u64,
}
