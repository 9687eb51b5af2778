//! What is remembered of workflows, in a store's words: from a row read under its run's lock to what is to be written. The rules
//! are those of `baton_core::step`.

use baton_core::step::{self, Change, Remembered, Unchanged, Writer};
use baton_core::{Epoch, Millis, RunId, WorkerId};
use bytes::Bytes;

use crate::decide::LiveRow;
use crate::{MESSAGES_MAX, POSITIONS_MAX, Step, StepAnswer, StepAttempt, StepChange, StepKind, StepState, StepWrite};

/// A row of `steps`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StepRow {
    pub run: RunId,
    pub position: u32,
    pub rules: Remembered,
    /// Attempts that were made before the run was retried, and are counted no more.
    pub earlier: u32,
    pub worker: Option<WorkerId>,
    pub output: Option<Bytes>,
    pub error: Option<String>,
    pub code: Option<String>,
    pub message: Option<i64>,
    pub child: Option<RunId>,
}

impl StepRow {
    /// What whoever takes up the run has to read of it, as far as users decide how much that is.
    pub(crate) fn bytes(&self) -> u64 {
        (self.output.as_ref().map_or(0, Bytes::len) + self.error.as_ref().map_or(0, String::len)) as u64
    }

    pub(crate) fn step(&self) -> Step {
        Step {
            position: self.position,
            kind: self.rules.kind,
            name: self.rules.name.clone(),
            state: self.rules.state,
            output: self.output.clone(),
            error: self.error.clone(),
            code: self.code.clone(),
            attempts: self.rules.attempts,
            begun_at: self.rules.begun_at,
            ended_at: self.rules.ended_at,
            due_at: self.rules.due_at,
            message: self.message,
            child: self.child,
        }
    }

    fn attempt(&self, state: StepState, ended_at: Option<Millis>) -> StepAttempt {
        StepAttempt {
            position: self.position,
            attempt: self.earlier.saturating_add(self.rules.attempts),
            name: self.rules.name.clone(),
            epoch: self.rules.writer.epoch,
            worker: self.worker,
            state,
            error: self.error.clone(),
            code: self.code.clone(),
            begun_at: self.rules.begun_at,
            ended_at,
        }
    }
}

/// Who writes under a lease that was found to be live.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Holder {
    pub run: RunId,
    pub worker: Option<WorkerId>,
    pub writer: Writer,
}

impl Holder {
    pub(crate) fn of(row: &LiveRow) -> Holder {
        Holder {
            run: row.run,
            worker: row.worker,
            writer: Writer { epoch: row.rules.epoch, failures: row.rules.failures },
        }
    }
}

/// What a write at a position comes to.
pub(crate) struct Written {
    pub row: StepRow,
    /// Attempts of which nothing will be left in the row.
    pub attempts: Vec<StepAttempt>,
}

/// What other things a write has to know of its run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Besides {
    /// Where the signal is remembered that is to be taken.
    pub taken_at: Option<u32>,
    /// How many bytes the run remembers, where the write asks for it.
    pub bytes: u64,
}

/// Applies a write.
pub(crate) fn write(
    known: Option<&StepRow>,
    holder: Holder,
    write: &StepWrite,
    besides: Besides,
    now: Millis,
) -> Result<Written, Box<StepAnswer>> {
    let change = match &write.what {
        StepChange::Begin => Change::Begin,
        StepChange::Complete { took_ms, .. } => Change::Complete { took_ms: *took_ms },
        StepChange::Fail { attempt, code, retryable, not_before_ms, policy, jitter, took_ms, .. } => Change::Fail {
            attempt: *attempt,
            code: code.as_deref(),
            retryable: *retryable,
            not_before: not_before_ms.map(|ms| now.saturating_add(ms.max(0))),
            policy,
            jitter: *jitter,
            took_ms: *took_ms,
        },
    };
    let mut row = match place(known, holder, write.position, write.kind, &write.name, &change, now) {
        Ok(row) => row,
        Err(Refusal::Same(step)) => return Err(Box::new(StepAnswer::Remembered { step: *step, existed: true })),
        Err(Refusal::Diverged { kind, name }) => return Err(Box::new(StepAnswer::Diverged { kind, name })),
        Err(Refusal::TooMany) => return Err(Box::new(StepAnswer::TooMany)),
    };
    let lost = known.filter(|known| known.rules.is_in_attempt() && known.rules.attempts < row.rules.attempts);
    let mut attempts: Vec<_> = lost.map(|known| known.attempt(StepState::Begun, None)).into_iter().collect();
    match &write.what {
        StepChange::Begin => {}
        StepChange::Complete { output, message, .. } => {
            if let Some(position) = besides.taken_at.filter(|position| message.is_some() && *position != write.position)
            {
                return Err(Box::new(StepAnswer::Taken { position }));
            }
            row.output = Some(output.clone());
            row.message = *message;
        }
        StepChange::Fail { error, code, .. } => {
            row.error = Some(error.clone());
            row.code = code.clone();
            attempts.push(row.attempt(StepState::Failed, Some(now)));
        }
    }
    let before = known.map_or(0, StepRow::bytes);
    let bytes = besides.bytes.saturating_sub(before) + row.bytes();
    // What makes the journal no longer is taken, however full that is by now: the limit may have been lowered.
    if row.bytes() > before && write.journal_bytes_max.is_some_and(|bytes_max| bytes > bytes_max) {
        return Err(Box::new(StepAnswer::JournalFull { bytes }));
    }
    Ok(Written { row, attempts })
}

/// Why nothing is to be written at a position.
pub(crate) enum Refusal {
    /// This is remembered.
    Same(Box<Step>),
    Diverged {
        kind: StepKind,
        name: String,
    },
    TooMany,
}

/// The row that a change at a position leaves, without what the change brings.
pub(crate) fn place(
    known: Option<&StepRow>,
    holder: Holder,
    position: u32,
    kind: StepKind,
    name: &str,
    change: &Change<'_>,
    now: Millis,
) -> Result<StepRow, Refusal> {
    if position >= POSITIONS_MAX {
        return Err(Refusal::TooMany);
    }
    let rules = match (step::write(known.map(|known| &known.rules), holder.writer, kind, name, change, now), known) {
        (Ok(rules), _) => rules,
        (Err(Unchanged::Repeat), Some(known)) => return Err(Refusal::Same(Box::new(known.step()))),
        (Err(Unchanged::Diverged), Some(known)) => {
            return Err(Refusal::Diverged { kind: known.rules.kind, name: known.rules.name.clone() });
        }
        (Err(_), None) => unreachable!("nothing is remembered that could be in the way"),
    };
    let empty = StepRow {
        run: holder.run,
        position,
        rules,
        earlier: 0,
        worker: holder.worker,
        output: None,
        error: None,
        code: None,
        message: None,
        child: None,
    };
    Ok(match known {
        None => empty,
        Some(known) if known.rules.is_forgotten(holder.writer.failures) => {
            StepRow { earlier: known.earlier.saturating_add(known.rules.attempts), ..empty }
        }
        Some(known) => StepRow { rules: empty.rules, worker: holder.worker, ..known.clone() },
    })
}

/// The number of a new message after the one with the number `last`, unless the inbox is full. Whoever wants a run cancelled, and ends of children,
/// are always let in.
pub(crate) fn next_number(last: i64, may_be_refused: bool) -> Option<i64> {
    (!may_be_refused || last < MESSAGES_MAX).then_some(last + 1)
}

/// Until when a run sleeps: the first of its sleeps, or when it is to be woken anyway.
pub(crate) fn sleeps_until(sleeps: impl Iterator<Item = Option<Millis>>, wake_at: Option<Millis>) -> Millis {
    sleeps.flatten().chain(wake_at).min().unwrap_or(crate::FOR_GOOD).min(crate::FOR_GOOD)
}

/// Stands for the lease in a verb that needs none; the first claim of a run has epoch 1.
pub(crate) const NO_LEASE: Epoch = Epoch::new(0);
