//! Writes at positions: begin, complete and fail steps. Concurrent ones go to the store together.

use std::sync::Arc;

use baton_core::payload::REFERENCE_BYTES;
use baton_core::retry::{INTERVAL_MS_MAX, RetryPolicy};
use baton_core::{LateVerb, Millis};
use baton_store::{LeaseRef, Step, StepAnswer, StepChange, StepKind, StepWrite, Store};
use bytes::Bytes;

use super::super::{check_text, message, payloads};
use super::start::check_retry;
use super::{check_field, diverged, in_field, invalid, refused, too_many};
use crate::app::RESULT_BATCH;
use crate::coalesce::{Coalescer, Item};
use crate::metrics::Metrics;
use crate::refusals::LeaseWrite;
use crate::verb_metrics::timed_each;
use crate::{App, Error};

/// Largest number of an attempt that is believed: far more than policies allow, and so few that they can be added up.
const ATTEMPT_MAX: u32 = 1_000_000;

/// How often a run looks how many bytes it remembers until it remembers as many as it may. What has more than this part of them always looks.
const LOOKS: f64 = 256.0;

impl Item for StepWrite {
    fn bytes(&self) -> usize {
        match &self.what {
            StepChange::Begin => 0,
            StepChange::Complete { output, .. } => output.len(),
            StepChange::Fail { error, .. } => error.len(),
        }
    }
}

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    batch_max: usize,
) -> Coalescer<StepWrite, StepAnswer> {
    Coalescer::start(batch_max, None, move |writes: Vec<StepWrite>| {
        let (store, metrics) = (store.clone(), metrics.clone());
        async move {
            let answers = metrics.write_steps.at_store(store.write_steps(writes)).await?;
            let is_new = |answer: &&StepAnswer| matches!(answer, StepAnswer::Remembered { existed: false, .. });
            metrics.write_steps.runs.inc_by(answers.iter().filter(is_new).count() as u64);
            Ok(answers)
        }
    })
}

/// What is remembered after a write.
#[derive(Clone, PartialEq, Debug)]
pub struct Remembered {
    /// The position as it is now.
    pub step: Step,
    /// True when the write changed nothing.
    pub existed: bool,
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    /// Which; 1 is the first.
    pub attempt: u32,
    /// What it said.
    pub error: String,
    /// A short word for that.
    pub code: Option<String>,
    /// False: not again.
    pub retryable: bool,
    /// Not before this long from now.
    pub not_before_ms: Option<Millis>,
    /// When to try again.
    pub policy: RetryPolicy,
    /// How long it took.
    pub took_ms: Millis,
}

/// The write for an attempt that begins.
pub fn begin(lease: LeaseRef, position: u32, name: String) -> Result<StepWrite, Error> {
    check_field("name", &name)?;
    let (kind, what) = (StepKind::Step, StepChange::Begin);
    Ok(StepWrite { lease, position, name, kind, what, journal_bytes_max: None })
}

/// The write for something that is done: a step, a signal that is taken, a fact.
pub fn complete(
    app: &App,
    lease: LeaseRef,
    position: u32,
    (kind, name): (StepKind, String),
    output: Bytes,
    signal: Option<i64>,
    took_ms: Millis,
) -> Result<StepWrite, Error> {
    check_field("name", &name)?;
    payloads::check_output(app, &output)?;
    match kind {
        StepKind::Signal if signal.is_none() => return Err(invalid("message", "must be the number of the signal")),
        StepKind::Step | StepKind::Fact if signal.is_some() => {
            return Err(invalid("message", "goes with a signal only"));
        }
        StepKind::Sleep | StepKind::Child => {
            return Err(invalid("kind", "must be STEP, SIGNAL or FACT; sleeps and children have calls of their own"));
        }
        StepKind::Step | StepKind::Fact | StepKind::Signal => {}
    }
    let bytes = if payloads::is_large(app, &output) { REFERENCE_BYTES } else { output.len() };
    let what = StepChange::Complete { output, message: signal, took_ms };
    Ok(StepWrite { lease, position, name, kind, what, journal_bytes_max: look(app, bytes) })
}

/// The write for an attempt that failed.
pub fn fail(
    app: &App,
    lease: LeaseRef,
    position: u32,
    name: String,
    failed: FailedAttempt,
) -> Result<StepWrite, Error> {
    check_field("name", &name)?;
    if !(1..=ATTEMPT_MAX).contains(&failed.attempt) {
        return Err(invalid("attempt", format!("must be 1 for the first attempt, and at most {ATTEMPT_MAX}")));
    }
    failed.code.as_deref().map_or(Ok(()), |code| check_text("", code).map_err(|error| in_field("code", error)))?;
    if failed.not_before_ms.is_some_and(|ms| ms > INTERVAL_MS_MAX as Millis) {
        return Err(invalid("not_before", "must be at most 365 days"));
    }
    check_retry(&failed.policy)?;
    let error = message(&failed.error);
    let journal_bytes_max = look(app, error.len());
    let what = StepChange::Fail {
        attempt: failed.attempt,
        error,
        code: failed.code,
        retryable: failed.retryable,
        not_before_ms: failed.not_before_ms,
        policy: failed.policy,
        jitter: app.entropy.die(),
        took_ms: failed.took_ms,
    };
    Ok(StepWrite { lease, position, name, kind: StepKind::Step, what, journal_bytes_max })
}

/// Whether a write of so many bytes looks how many its run remembers, and how many it may. The store would have to count with every one, and
/// a run has up to [`baton_store::POSITIONS_MAX`]; so dice decide, the larger the write the sooner, and a run looks some [`LOOKS`] times until
/// it is full, whatever its steps give back. By then it may have gone beyond by as much as lies between two looks.
fn look(app: &App, bytes: usize) -> Option<u64> {
    if bytes == 0 {
        return None;
    }
    let limit = app.current().journal_bytes_max;
    (app.entropy.die() * (limit as f64) < bytes as f64 * LOOKS).then_some(limit)
}

/// Carries out one write.
pub async fn one(app: &App, write: StepWrite) -> Result<Remembered, Error> {
    many(app, vec![write]).await?.pop().ok_or(Error::Internal)?
}

/// Carries out writes; one answer for each.
pub async fn many(app: &App, writes: Vec<StepWrite>) -> Result<Vec<Result<Remembered, Error>>, Error> {
    timed_each!(app.metrics.write_steps, each_held(app, writes))
}

async fn each_held(app: &App, mut writes: Vec<StepWrite>) -> Result<Vec<Result<Remembered, Error>>, Error> {
    let sent: Vec<_> = writes.iter_mut().map(|write| output(write).cloned()).collect();
    let mut answers =
        payloads::keep_each(app, writes, |write| write.lease.run, output, async |writes| write(app, writes).await)
            .await?;
    for (answer, sent) in answers.iter_mut().zip(sent) {
        if let Ok(Remembered { step, existed: false }) = answer {
            // What was just written need not be fetched.
            step.output = sent.or(step.output.take());
        }
    }
    let remembered = answers.iter_mut().filter_map(|answer| answer.as_mut().ok()?.step.output.as_mut());
    let remembered = payloads::fitting(app, remembered);
    payloads::fill(app, remembered).await?;
    for answer in &mut answers {
        if let Ok(Remembered { step, .. }) = answer
            && step.output.as_deref().is_some_and(payloads::is_left_out)
        {
            // Many large ones at once, all remembered before: whoever asks again gets it.
            *answer = Err(Error::Overloaded);
        }
    }
    Ok(answers)
}

fn output(write: &mut StepWrite) -> Option<&mut Bytes> {
    match &mut write.what {
        StepChange::Complete { output, .. } => Some(output),
        StepChange::Begin | StepChange::Fail { .. } => None,
    }
}

async fn write(app: &App, writes: Vec<StepWrite>) -> Result<Vec<Result<Remembered, Error>>, Error> {
    let asked: Vec<_> = writes
        .iter()
        .map(|write| {
            let asked = (write.lease, write.position, write.kind, write.name.clone(), write.journal_bytes_max);
            (asked, write.bytes())
        })
        .collect();
    let mut answers = Vec::with_capacity(writes.len());
    let mut writes = writes.into_iter().peekable();
    while writes.peek().is_some() {
        answers.extend(app.step_writes.call(writes.by_ref().take(RESULT_BATCH).collect()).await?);
    }
    let settled = answers.into_iter().zip(asked).map(|(answer, (asked, bytes))| {
        let (lease, position, kind, name, limit) = asked;
        match answer {
            StepAnswer::Remembered { step, existed } => Ok(Remembered { step, existed }),
            StepAnswer::Diverged { kind: other, name: remembered } => {
                Err(diverged(position, (other, &remembered), (kind, &name)))
            }
            StepAnswer::Taken { position } => Err(Error::SignalTaken { position }),
            StepAnswer::TooMany => Err(too_many()),
            StepAnswer::JournalFull { bytes } => Err(Error::JournalFull { bytes, limit: limit.unwrap_or_default() }),
            StepAnswer::Refused(why) => {
                let write = LeaseWrite { lease, verb: LateVerb::Step, position: Some(position), name: &name, bytes };
                Err(refused(app, write, why))
            }
            StepAnswer::Unknown => Err(Error::no_run(lease.run)),
        }
    });
    Ok(settled.collect())
}
