//! What a workflow remembers, position by position: what a write there means.
//!
//! Positions count up in the order in which a workflow asks for things. A write at a position that is remembered is a repeat, the
//! next thing that happens to it, or a divergence: the workflow is not the one that wrote there before.

use serde::{Deserialize, Serialize};

use crate::retry::{self, RetryPolicy};
use crate::{Epoch, Millis};

/// What kind of thing is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Code of the workflow that was executed.
    Step,
    /// A sleep.
    Sleep,
    /// A signal that was taken.
    Signal,
    /// A child.
    Child,
    /// Whatever was decided once: a moment, a number, a version.
    Fact,
}

impl StepKind {
    /// Every kind.
    pub const ALL: [StepKind; 5] = [StepKind::Step, StepKind::Sleep, StepKind::Signal, StepKind::Child, StepKind::Fact];

    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            StepKind::Step => "step",
            StepKind::Sleep => "sleep",
            StepKind::Signal => "signal",
            StepKind::Child => "child",
            StepKind::Fact => "fact",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            StepKind::Step => 0,
            StepKind::Sleep => 1,
            StepKind::Signal => 2,
            StepKind::Child => 3,
            StepKind::Fact => 4,
        }
    }

    /// The kind with this number, if there is one.
    pub fn from_code(code: i16) -> Option<StepKind> {
        StepKind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// How far a step is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Somebody said that it began, or an attempt failed and there will be another; a sleep or a child that was started.
    Begun,
    /// It has an output.
    Completed,
    /// It has failed for good, as far as this attempt of the run goes.
    Failed,
}

impl StepState {
    /// Every state.
    pub const ALL: [StepState; 3] = [StepState::Begun, StepState::Completed, StepState::Failed];

    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            StepState::Begun => "begun",
            StepState::Completed => "completed",
            StepState::Failed => "failed",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            StepState::Begun => 0,
            StepState::Completed => 1,
            StepState::Failed => 2,
        }
    }

    /// The state with this number, if there is one.
    pub fn from_code(code: i16) -> Option<StepState> {
        StepState::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// What the rules need to know of a remembered position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// What kind.
    pub kind: StepKind,
    /// The name that was given.
    pub name: String,
    /// How far it is.
    pub state: StepState,
    /// Attempts that have ended, and the one that has begun; counted anew when the run is retried after it failed for good.
    pub attempts: u32,
    /// When the last attempt began.
    pub begun_at: Millis,
    /// When it completed or failed for good.
    pub ended_at: Option<Millis>,
    /// When a sleep is over, or the next attempt is due.
    pub due_at: Option<Millis>,
    /// Who wrote last.
    pub writer: Writer,
}

/// Who writes: a lease, in an attempt of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    /// The lease.
    pub epoch: Epoch,
    /// Attempts of the run that had failed before.
    pub failures: u32,
}

/// What happens at a position.
#[derive(Clone, PartialEq, Debug)]
pub enum Change<'a> {
    /// An attempt begins.
    Begin,
    /// It is done.
    Complete {
        /// How long it took, unless it is known when it began.
        took_ms: Millis,
    },
    /// An attempt failed.
    Fail {
        /// Which attempt.
        attempt: u32,
        /// A short word for the error.
        code: Option<&'a str>,
        /// False: not again, whatever the policy says.
        retryable: bool,
        /// Not before this moment.
        not_before: Option<Millis>,
        /// When to try again.
        policy: &'a RetryPolicy,
        /// A die from 0 to 1.
        jitter: f64,
        /// How long it took, unless it is known when it began.
        took_ms: Millis,
    },
    /// A sleep begins.
    Sleep {
        /// When it is over.
        until: Millis,
    },
    /// A child was started.
    Start,
}

/// Why a write changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unchanged {
    /// What was written before is the answer.
    Repeat,
    /// Another kind or name is remembered.
    Diverged,
}

impl Remembered {
    /// True when it failed in an earlier attempt of the run, and so may be executed again.
    pub fn is_forgotten(&self, failures: u32) -> bool {
        self.state == StepState::Failed && self.writer.failures < failures
    }

    /// True while an attempt is being made, as far as anybody has said.
    pub fn is_in_attempt(&self) -> bool {
        self.kind == StepKind::Step && self.state == StepState::Begun && self.due_at.is_none()
    }

    /// True when an attempt failed and the next one has not begun.
    fn waits_for_attempt(&self) -> bool {
        self.kind == StepKind::Step && self.state == StepState::Begun && self.due_at.is_some()
    }
}

/// What is remembered after a write, or why nothing changes.
pub fn write(
    known: Option<&Remembered>,
    writer: Writer,
    kind: StepKind,
    name: &str,
    change: &Change<'_>,
    now: Millis,
) -> Result<Remembered, Unchanged> {
    let known = known.filter(|known| !known.is_forgotten(writer.failures));
    if known.is_some_and(|known| known.kind != kind || known.name != name) {
        return Err(Unchanged::Diverged);
    }
    let known = match known.map(|known| known.state) {
        Some(StepState::Completed | StepState::Failed) => return Err(Unchanged::Repeat),
        Some(StepState::Begun) | None => known,
    };
    let before = known.map_or(0, |known| known.attempts);
    // An attempt that an earlier lease began is lost with it; whoever goes on makes another one.
    let begun = known.filter(|known| !known.waits_for_attempt());
    let mine = begun.filter(|known| kind != StepKind::Step || known.writer.epoch == writer.epoch);
    let began = |took_ms: Millis| mine.map_or(now.saturating_sub(took_ms.max(0)), |known| known.begun_at);
    let this_attempt = if mine.is_some() { before } else { before.saturating_add(1) };
    let fresh = Remembered {
        kind,
        name: name.to_owned(),
        state: StepState::Begun,
        attempts: this_attempt,
        begun_at: now,
        ended_at: None,
        due_at: None,
        writer,
    };
    match change {
        Change::Begin | Change::Sleep { .. } | Change::Start if mine.is_some() => Err(Unchanged::Repeat),
        Change::Begin | Change::Start => Ok(fresh),
        Change::Sleep { until } => Ok(Remembered { due_at: Some(*until), ..fresh }),
        Change::Complete { took_ms } => Ok(Remembered {
            state: StepState::Completed,
            begun_at: began(*took_ms),
            ended_at: Some(now),
            due_at: known.and_then(|known| known.due_at).filter(|_| kind != StepKind::Step),
            ..fresh
        }),
        Change::Fail { attempt, code, retryable, not_before, policy, jitter, took_ms } => {
            // The attempt after the last that ended, or a later one: earlier ones were made by workers that are lost.
            let ended = if begun.is_some() { before.saturating_sub(1) } else { before };
            if *attempt <= ended && ended > 0 {
                return Err(Unchanged::Repeat);
            }
            let attempts = (*attempt).max(before).max(1);
            let failed = Remembered { attempts, begun_at: began(*took_ms), ..fresh };
            let listed = code.is_some_and(|code| policy.non_retryable.iter().any(|other| other == code));
            let again = *retryable && !listed && kind == StepKind::Step;
            let next = if again { retry::next_retry(policy, attempts, now, *jitter) } else { None };
            Ok(match next {
                Some(at) => Remembered { due_at: Some(at.max(not_before.unwrap_or(at))), ..failed },
                None => Remembered { state: StepState::Failed, ended_at: Some(now), ..failed },
            })
        }
    }
}
