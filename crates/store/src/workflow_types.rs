//! What workflows have besides their runs: what is remembered, and messages.

use baton_core::retry::RetryPolicy;
pub use baton_core::step::{StepKind, StepState};
use baton_core::{Epoch, Millis, RunId, State, WorkerId};
use bytes::Bytes;

use crate::{Due, LeaseRef, NewRun, Submitted, Verdict, Woken};

/// Most positions of one run: endless workflows continue as new.
pub const POSITIONS_MAX: u32 = 50_000;
/// Positions that one call reads of several journals: as many as one alone may have.
pub const STEPS_AT_ONCE: u32 = POSITIONS_MAX;
/// Most messages that one run keeps.
pub const MESSAGES_MAX: i64 = 10_000;
/// When a run is due that only a message can wake: the end of the year 9999, which every clock and every sum can hold.
pub const FOR_GOOD: Millis = 253_402_300_799_000;
/// Messages that one answer holds; the reader asks again beyond the last.
pub const MESSAGES_AT_ONCE: usize = 1_000;
/// Bytes of payloads that one answer holds, and the message that goes beyond.
pub const MESSAGE_BYTES_AT_ONCE: usize = 2 << 20;

/// A remembered position.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Where.
    pub position: u32,
    /// What kind.
    pub kind: StepKind,
    /// The name that was given.
    pub name: String,
    /// How far it is.
    pub state: StepState,
    /// What came out.
    pub output: Option<Bytes>,
    /// What the last failed attempt said.
    pub error: Option<String>,
    /// A short word for the kind of error.
    pub code: Option<String>,
    /// Attempts that have ended, and the one that has begun.
    pub attempts: u32,
    /// When the (last) attempt began.
    pub begun_at: Millis,
    /// When it completed or failed.
    pub ended_at: Option<Millis>,
    /// When a sleep is over, or the next attempt is due.
    pub due_at: Option<Millis>,
    /// The number of the signal that was taken.
    pub message: Option<i64>,
    /// The run of the child.
    pub child: Option<RunId>,
}

/// A remembered position, without what came out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepOutline {
    /// Where.
    pub position: u32,
    /// What kind.
    pub kind: StepKind,
    /// The name that was given.
    pub name: String,
    /// How far it is.
    pub state: StepState,
    /// A short word for the error of the last failed attempt.
    pub code: Option<String>,
    /// All attempts, also those before the run was retried.
    pub attempts: u32,
    /// The lease that wrote last.
    pub epoch: Epoch,
    /// When the last attempt began.
    pub begun_at: Millis,
    /// When it completed or failed.
    pub ended_at: Option<Millis>,
    /// When a sleep is over, or the next attempt is due.
    pub due_at: Option<Millis>,
    /// The run of the child.
    pub child: Option<RunId>,
}

/// What a workflow that sleeps waits for, as far as the store knows: which signal is the workflow's own secret.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Steps that are tried again, and children that have not ended, by position.
    pub open: Vec<OpenStep>,
    /// Names of signals that it has not taken, and when they came, oldest first.
    pub signals: Vec<(String, Millis)>,
}

/// A step that is tried again, or a child that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenStep {
    /// What kind.
    pub kind: StepKind,
    /// The name that was given.
    pub name: String,
    /// Attempts that have ended.
    pub attempts: u32,
    /// When the next attempt is due.
    pub due_at: Option<Millis>,
    /// The run of the child.
    pub child: Option<RunId>,
    /// What the last attempt said.
    pub error: Option<String>,
}

/// An attempt of a step.
#[derive(Clone, PartialEq, Debug)]
pub struct StepAttempt {
    /// Where.
    pub position: u32,
    /// 1 for the first.
    pub attempt: u32,
    /// The step's name.
    pub name: String,
    /// The epoch of the lease it was made under.
    pub epoch: Epoch,
    /// Who made it.
    pub worker: Option<WorkerId>,
    /// How it went.
    pub state: StepState,
    /// What it said when it failed.
    pub error: Option<String>,
    /// A short word for that.
    pub code: Option<String>,
    /// When it began.
    pub begun_at: Millis,
    /// When it ended, if it has.
    pub ended_at: Option<Millis>,
}

/// A write at a position, under a lease.
#[derive(Clone, PartialEq, Debug)]
pub struct StepWrite {
    /// The lease.
    pub lease: LeaseRef,
    /// Where.
    pub position: u32,
    /// The name that is or was given.
    pub name: String,
    /// What kind.
    pub kind: StepKind,
    /// What is written.
    pub what: StepChange,
    /// Look whether the run remembers more than this many bytes with it ([`StepAnswer::JournalFull`]). Looking means to count, so it is not
    /// asked for with every write.
    pub journal_bytes_max: Option<u64>,
}

/// What is written at a position.
#[derive(Clone, PartialEq, Debug)]
pub enum StepChange {
    /// An attempt begins, unless the step has ended.
    Begin,
    /// It is done.
    Complete {
        /// What came out.
        output: Bytes,
        /// The signal that is taken with it.
        message: Option<i64>,
        /// How long it took, unless it had begun before.
        took_ms: Millis,
    },
    /// An attempt failed.
    Fail {
        /// Which attempt; the same again is the same failure.
        attempt: u32,
        /// What it said.
        error: String,
        /// A short word for that.
        code: Option<String>,
        /// False: not again, whatever the policy says.
        retryable: bool,
        /// Not before this long from now.
        not_before_ms: Option<Millis>,
        /// When to try again.
        policy: RetryPolicy,
        /// A die from 0 to 1.
        jitter: f64,
        /// How long it took.
        took_ms: Millis,
    },
}

/// What became of a write at a position.
#[derive(Clone, PartialEq, Debug)]
pub enum StepAnswer {
    /// Written, or it was there before (`existed`); this is what is remembered now.
    Remembered {
        /// The position as it is now.
        step: Step,
        /// True when this write changed nothing.
        existed: bool,
    },
    /// Another kind or name is remembered there.
    Diverged {
        /// What kind.
        kind: StepKind,
        /// What name.
        name: String,
    },
    /// The signal was taken at another position.
    Taken {
        /// There.
        position: u32,
    },
    /// There are as many positions as a run may have.
    TooMany,
    /// The run would remember more bytes than the write allows; nothing was written.
    JournalFull {
        /// As many as it would.
        bytes: u64,
    },
    /// The lease is not the live one; nothing was written.
    Refused(baton_core::Refused),
    /// There is no such run.
    Unknown,
}

/// What a message is about. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i16)]
pub enum MessageKind {
    /// Somebody's signal.
    Signal = 0,
    /// A child has ended.
    Child = 1,
    /// Somebody wants the run cancelled.
    Cancel = 2,
}

impl MessageKind {
    /// The number kept in the store.
    pub(crate) fn code(self) -> i16 {
        self as i16
    }

    /// The kind with this number, if there is one.
    pub(crate) fn from_code(code: i16) -> Option<MessageKind> {
        [MessageKind::Signal, MessageKind::Child, MessageKind::Cancel].into_iter().find(|kind| kind.code() == code)
    }
}

/// A message in a run's inbox.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// Counts up from 1 in each run.
    pub number: i64,
    /// What it is about.
    pub kind: MessageKind,
    /// The signal's name, or the run of the child.
    pub name: String,
    /// The signal's payload, or the child's output.
    pub payload: Option<Bytes>,
    /// How the child ended.
    pub state: Option<State>,
    /// What the child said when it failed.
    pub error: Option<String>,
    /// Where the child was started.
    pub position: Option<u32>,
    /// When it came.
    pub at: Millis,
}

/// A message to be left.
#[derive(Clone, PartialEq, Debug)]
pub struct NewMessage {
    /// For whom.
    pub run: RunId,
    /// [`MessageKind::Signal`] or [`MessageKind::Cancel`]; there is one cancel at most.
    pub kind: MessageKind,
    /// The signal's name.
    pub name: String,
    /// What it brings.
    pub payload: Option<Bytes>,
    /// The same key again is the same message.
    pub key: Option<String>,
}

/// What became of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageAnswer {
    /// It is in the inbox under this number, now or since the same was sent before.
    Left(i64),
    /// The run has ended.
    Ended,
    /// The run has gone on as another one: leave it there.
    Continued(RunId),
    /// There are as many messages as a run may have.
    Full,
    /// There is no such run.
    Unknown,
}

/// A lease that is to end until something happens.
#[derive(Clone, PartialEq, Debug)]
pub struct Suspension {
    /// The lease.
    pub lease: LeaseRef,
    /// Sleeps that begin, or go on: position, name, until when. One that is remembered ends when it was to end.
    pub sleeps: Vec<(u32, String, Due)>,
    /// Wake it then at the latest.
    pub wake_at: Option<Millis>,
    /// The last message that was seen.
    pub seen: i64,
}

/// What became of a suspension.
#[derive(Clone, PartialEq, Debug)]
pub enum SuspendAnswer {
    /// It sleeps until then, or until a message comes. The same call again gets the same answer.
    Suspended {
        /// [`FOR_GOOD`] when only a message can wake it.
        until: Millis,
    },
    /// There are messages beyond those seen, and the lease goes on. The sleeps were written.
    News(Vec<Message>),
    /// Another kind or name is remembered at one of the positions; nothing was written.
    Diverged {
        /// There.
        position: u32,
        /// What kind.
        kind: StepKind,
        /// What name.
        name: String,
    },
    /// There are as many positions as a run may have.
    TooMany,
    /// The lease is not the live one; nothing was written.
    Refused(baton_core::Refused),
    /// There is no such run.
    Unknown,
}

/// A child to be started under its parent's lease.
#[derive(Clone, PartialEq, Debug)]
pub struct NewChild {
    /// The parent's lease.
    pub lease: LeaseRef,
    /// Where in the parent.
    pub position: u32,
    /// The name that is remembered there.
    pub name: String,
    /// The child. Its idempotency is made from the parent and the position.
    pub run: NewRun,
    /// For its identifier.
    pub die: u64,
    /// When it is ended, in milliseconds from now.
    pub timeout_ms: Option<Millis>,
}

/// What became of a child.
#[derive(Clone, PartialEq, Debug)]
pub enum ChildAnswer {
    /// It is there, now or since the same was asked before.
    Started(Submitted),
    /// Another kind or name is remembered at the position.
    Diverged {
        /// What kind.
        kind: StepKind,
        /// What name.
        name: String,
    },
    /// There are as many positions as a run may have.
    TooMany,
    /// The lease is not the live one; nothing was written.
    Refused(baton_core::Refused),
    /// There is no such run.
    Unknown,
}

/// Everything a worker needs to go on with a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Journal {
    /// By position. Steps that failed in an earlier attempt of the run, and may be executed again, are not among them.
    pub steps: Vec<Step>,
    /// By number, beginning with the first; at most [`MESSAGES_AT_ONCE`] and [`MESSAGE_BYTES_AT_ONCE`].
    pub messages: Vec<Message>,
}

impl Journal {
    /// About how many bytes it holds.
    pub fn bytes(&self) -> usize {
        let of = |payload: &Option<Bytes>, error: &Option<String>| {
            payload.as_ref().map_or(0, Bytes::len) + error.as_ref().map_or(0, String::len)
        };
        let steps: usize = self.steps.iter().map(|step| size_of::<Step>() + of(&step.output, &step.error)).sum();
        steps + self.messages.iter().map(|message| of(&message.payload, &message.error)).sum::<usize>()
    }
}

/// What a workflow run has to do with others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Relations {
    /// Who started it.
    pub parent: Option<RunId>,
    /// Which run goes on in its place.
    pub continued_to: Option<RunId>,
    /// Whether somebody asked to cancel it.
    pub cancel_requested: bool,
}

/// What became of a run that continues as another.
#[derive(Clone, PartialEq, Debug)]
pub struct ContinueAnswer {
    /// What became of the run that ends: completed, or refused.
    pub verdict: Verdict,
    /// The run that goes on, now or since the same was asked before.
    pub next: Option<Submitted>,
    /// Who is to be woken.
    pub woken: Woken,
}

/// What passing on the ends of relatives, or the end of deadlines, has changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// Runs with new messages.
    pub messaged: Vec<RunId>,
    /// Runs that were to be cancelled because their parent has ended.
    pub orphaned: Vec<RunId>,
    /// Runs that have ended because their time was over.
    pub ended: Vec<RunId>,
    /// Who is to be woken.
    pub woken: Woken,
    /// True when the limit was reached: call again.
    pub more: bool,
}
