//! The state machine: what each verb does to a run, as pure functions.
//!
//! Every verb a worker calls carries the epoch of its lease. `past` is how the lease with that epoch ended, if it
//! did: it turns a repeated call into [`Refused::AlreadyDone`], so that a lost answer can be asked for again.

use serde::{Deserialize, Serialize};

pub use crate::lease_end::LeaseEnd;
use crate::retry::{self, RetryPolicy};
use crate::{Epoch, Millis, Reason, State};

/// What the rules need to know of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it stands.
    pub state: State,
    /// The epoch of its newest claim; 0 before the first.
    pub epoch: Epoch,
    /// Attempts that failed and used up the retry budget.
    pub failures: u32,
    /// Workers it has lost.
    pub losses: u32,
    /// Not to be claimed before this moment.
    pub due_at: Millis,
    /// A worker lost it or gave it back: it goes before runs of its priority that were never claimed.
    pub returned: bool,
    /// Somebody asked to cancel it; its worker has until then to stop.
    pub cancel_by: Option<Millis>,
    /// Why it failed or was cancelled, once it has.
    pub reason: Option<Reason>,
}

/// What a submitter may set about the end of attempts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What happens after a failed attempt.
    pub retry: RetryPolicy,
    /// How many workers may be lost before the run is called poison.
    pub max_losses: u32,
    /// How long one attempt may take, counted from its claim. None: as long as its worker lives.
    pub timeout_ms: Option<u64>,
    /// How long the whole run may take, counted from when it is due. Its deadline goes with its end; this stays for those who retry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
}

/// Workers a run may lose unless it says otherwise.
pub const LOSSES_DEFAULT: u32 = 3;

impl Default for Options {
    fn default() -> Options {
        Options { retry: RetryPolicy::default(), max_losses: LOSSES_DEFAULT, timeout_ms: None, run_timeout_ms: None }
    }
}

impl Options {
    /// Says what is wrong with the options, in words for the person who wrote them.
    pub fn check(&self) -> Result<(), String> {
        self.retry.check()?;
        if self.max_losses > retry::ATTEMPTS_MAX {
            return Err(format!("max_losses must be at most {}", retry::ATTEMPTS_MAX));
        }
        match self.timeout_ms {
            Some(0) => Err("timeout_ms must be at least 1".into()),
            Some(ms) if ms > retry::INTERVAL_MS_MAX => Err("timeout_ms must be at most 365 days".into()),
            Some(_) | None => Ok(()),
        }
    }
}

/// What a worker says when an attempt failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// [`Reason::Error`], or [`Reason::Rejected`] when nobody should try again.
    pub reason: Reason,
    /// A short word for the kind of error; policies list those that are not retried.
    pub code: Option<String>,
    /// For people.
    pub message: String,
    /// False: do not try again, whatever the policy says.
    pub retryable: bool,
    /// Do not try again before this moment.
    pub not_before: Option<Millis>,
}

/// What passed, when the reaper takes a run from its holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// The worker's lease.
    Lease,
    /// The attempt's execution timeout.
    Timeout,
    /// The grace time after a request to cancel.
    CancelGrace,
}

/// Why a verb was not carried out. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The caller's lease is not the current one.
    #[error("the lease is no longer yours: another worker may hold the run by now")]
    StaleLease,
    /// The same call was carried out before. The caller gets the answer it got then.
    #[error("this was done before")]
    AlreadyDone,
    /// The run has reached a terminal state, which never changes.
    #[error("the run has ended")]
    Ended,
    /// Nobody holds the run, so there is no lease to act on.
    #[error("nobody holds the run")]
    NotHeld,
    /// A worker holds the run.
    #[error("a worker holds the run")]
    Held,
    /// The run is not due yet.
    #[error("the run is not due yet")]
    NotDue,
    /// Somebody asked to cancel the run: finish or fail it, but do not put it to sleep.
    #[error("the run is being cancelled")]
    Cancelling,
}

impl Run {
    /// A run as it is submitted.
    pub fn submitted(due_at: Millis) -> Run {
        Run {
            state: State::Pending,
            epoch: Epoch::new(0),
            failures: 0,
            losses: 0,
            due_at,
            returned: false,
            cancel_by: None,
            reason: None,
        }
    }

    fn ended(self, state: State, reason: Option<Reason>) -> Run {
        Run { state, reason, ..self }
    }

    fn waiting(self, due_at: Millis, returned: bool) -> Run {
        Run { state: State::Pending, due_at, returned, ..self }
    }
}

/// Checks that the caller holds the current lease.
fn held(run: &Run, lease: Epoch) -> Result<(), Refused> {
    match run.state {
        State::Assigned | State::Running if run.epoch == lease => Ok(()),
        State::Assigned | State::Running => Err(Refused::StaleLease),
        State::Completed | State::Failed | State::Cancelled => Err(Refused::Ended),
        State::Pending | State::Sleeping if run.epoch == lease => Err(Refused::NotHeld),
        State::Pending | State::Sleeping => Err(Refused::StaleLease),
    }
}

/// As [`held`], for a verb that ends the lease: the same call again is [`Refused::AlreadyDone`].
fn held_to_end(run: &Run, lease: Epoch, past: Option<LeaseEnd>, end: LeaseEnd) -> Result<(), Refused> {
    if past.is_some_and(|past| is_repeat(past, end)) {
        return Err(Refused::AlreadyDone);
    }
    held(run, lease)
}

/// True when a verb that ends a lease with `end` is a repeated call, given that the lease ended with `past`.
///
/// To fail or give back a run that somebody wants cancelled ends its lease with [`LeaseEnd::Cancelled`]. Whoever does so
/// again gets the same answer, and so does a worker that the reaper was faster than: the run is cancelled either way.
pub fn is_repeat(past: LeaseEnd, end: LeaseEnd) -> bool {
    match past {
        LeaseEnd::Cancelled => matches!(end, LeaseEnd::Failed | LeaseEnd::GivenBack | LeaseEnd::Cancelled),
        LeaseEnd::Completed
        | LeaseEnd::Failed
        | LeaseEnd::GivenBack
        | LeaseEnd::Slept
        | LeaseEnd::Lost
        | LeaseEnd::TimedOut => past == end,
    }
}

/// Hands the run to a worker: the epoch moves on.
pub fn claim(run: &Run, now: Millis) -> Result<Run, Refused> {
    match run.state {
        State::Pending | State::Sleeping if run.due_at > now => Err(Refused::NotDue),
        State::Pending | State::Sleeping => Ok(Run { state: State::Assigned, epoch: run.epoch.next(), ..*run }),
        State::Assigned | State::Running => Err(Refused::Held),
        State::Completed | State::Failed | State::Cancelled => Err(Refused::Ended),
    }
}

/// The worker's first sign of work.
pub fn start(run: &Run, lease: Epoch) -> Result<Run, Refused> {
    held(run, lease)?;
    match run.state {
        State::Running => Err(Refused::AlreadyDone),
        State::Assigned | State::Pending | State::Sleeping | State::Completed | State::Failed | State::Cancelled => {
            Ok(Run { state: State::Running, ..*run })
        }
    }
}

/// The work is done. Also when somebody asked to cancel meanwhile: done is done.
pub fn complete(run: &Run, lease: Epoch, past: Option<LeaseEnd>) -> Result<Run, Refused> {
    held_to_end(run, lease, past, LeaseEnd::Completed)?;
    Ok(run.ended(State::Completed, None))
}

/// The attempt failed: try again by the policy, or end the run.
pub fn fail(
    run: &Run,
    lease: Epoch,
    past: Option<LeaseEnd>,
    failure: &Failure,
    policy: &RetryPolicy,
    now: Millis,
    jitter: f64,
) -> Result<Run, Refused> {
    held_to_end(run, lease, past, LeaseEnd::Failed)?;
    if run.cancel_by.is_some() {
        return Ok(run.ended(State::Cancelled, Some(Reason::Cancelled)));
    }
    let listed = failure.code.as_ref().is_some_and(|code| policy.non_retryable.contains(code));
    if !failure.retryable || listed || failure.reason == Reason::Rejected {
        return Ok(failed(run, failure.reason));
    }
    Ok(again(run, failure.reason, policy, now, failure.not_before, jitter))
}

fn failed(run: &Run, reason: Reason) -> Run {
    Run { failures: run.failures + 1, ..run.ended(State::Failed, Some(reason)) }
}

fn again(run: &Run, reason: Reason, policy: &RetryPolicy, now: Millis, not_before: Option<Millis>, jitter: f64) -> Run {
    match retry::next_retry(policy, run.failures + 1, now, jitter) {
        Some(at) => Run { failures: run.failures + 1, ..run.waiting(at.max(not_before.unwrap_or(at)), false) },
        None => failed(run, reason),
    }
}

/// The holder cannot go on and says so: the run waits again, at the front, and no budget is used up.
pub fn give_back(run: &Run, lease: Epoch, past: Option<LeaseEnd>, now: Millis) -> Result<Run, Refused> {
    held_to_end(run, lease, past, LeaseEnd::GivenBack)?;
    match run.cancel_by {
        Some(_) => Ok(run.ended(State::Cancelled, Some(Reason::Cancelled))),
        None => Ok(run.waiting(now, true)),
    }
}

/// The run waits until `until` without a worker.
pub fn sleep(run: &Run, lease: Epoch, past: Option<LeaseEnd>, until: Millis) -> Result<Run, Refused> {
    held_to_end(run, lease, past, LeaseEnd::Slept)?;
    match run.cancel_by {
        Some(_) => Err(Refused::Cancelling),
        None => Ok(Run { state: State::Sleeping, ..run.waiting(until, false) }),
    }
}

/// Something has happened that a sleeping run waits for: it becomes due. A run that is awake finds out by itself.
pub fn wake(run: &Run, now: Millis) -> Result<Run, Refused> {
    match run.state {
        State::Sleeping if run.due_at > now => Ok(Run { due_at: now, ..*run }),
        State::Sleeping | State::Pending => Err(Refused::AlreadyDone),
        State::Assigned | State::Running => Err(Refused::Held),
        State::Completed | State::Failed | State::Cancelled => Err(Refused::Ended),
    }
}

/// The holder has heard that the run is to stop, has cleaned up, and says so.
pub fn cancelled(run: &Run, lease: Epoch, past: Option<LeaseEnd>) -> Result<Run, Refused> {
    held_to_end(run, lease, past, LeaseEnd::Cancelled)?;
    Ok(run.ended(State::Cancelled, Some(Reason::Cancelled)))
}

/// The time of the whole run is over, whatever it does. One that somebody wants cancelled is cancelled, as with every other end.
pub fn time_out(run: &Run) -> Result<Run, Refused> {
    match run.state {
        State::Assigned | State::Running if run.cancel_by.is_some() => {
            Ok(run.ended(State::Cancelled, Some(Reason::Cancelled)))
        }
        State::Pending | State::Assigned | State::Running | State::Sleeping => {
            Ok(run.ended(State::Failed, Some(Reason::Timeout)))
        }
        State::Completed | State::Failed | State::Cancelled => Err(Refused::Ended),
    }
}

/// Somebody wants the run stopped: at once when nobody holds it, otherwise its worker has until `by`.
pub fn cancel(run: &Run, by: Millis) -> Result<Run, Refused> {
    match run.state {
        State::Pending | State::Sleeping => Ok(run.ended(State::Cancelled, Some(Reason::Cancelled))),
        State::Assigned | State::Running if run.cancel_by.is_some() => Err(Refused::AlreadyDone),
        State::Assigned | State::Running => Ok(Run { cancel_by: Some(by), ..*run }),
        State::Cancelled => Err(Refused::AlreadyDone),
        State::Completed | State::Failed => Err(Refused::Ended),
    }
}

/// The reaper takes the run from its holder because something has passed.
pub fn expire(run: &Run, what: Expiry, options: &Options, now: Millis, jitter: f64) -> Result<Run, Refused> {
    held(run, run.epoch)?;
    if run.cancel_by.is_some() || what == Expiry::CancelGrace {
        return Ok(run.ended(State::Cancelled, Some(Reason::Cancelled)));
    }
    match what {
        Expiry::Timeout => Ok(again(run, Reason::Timeout, &options.retry, now, None, jitter)),
        Expiry::Lease | Expiry::CancelGrace if run.losses >= options.max_losses => {
            Ok(Run { losses: run.losses + 1, ..run.ended(State::Failed, Some(Reason::Poison)) })
        }
        Expiry::Lease | Expiry::CancelGrace => Ok(Run { losses: run.losses + 1, ..run.waiting(now, true) }),
    }
}

/// How the lease ended when a verb moved a held run to `next`.
pub fn lease_end(what: LeaseEnd, next: &Run) -> LeaseEnd {
    match next.state {
        State::Cancelled => LeaseEnd::Cancelled,
        State::Pending | State::Assigned | State::Running | State::Sleeping | State::Completed | State::Failed => what,
    }
}

impl Expiry {
    /// How a lease ends that this expiry takes away.
    pub fn lease_end(self) -> LeaseEnd {
        match self {
            Expiry::Lease => LeaseEnd::Lost,
            Expiry::Timeout => LeaseEnd::TimedOut,
            Expiry::CancelGrace => LeaseEnd::Cancelled,
        }
    }
}
