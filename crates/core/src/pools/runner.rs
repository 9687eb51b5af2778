//! The state machine of a runner: what each verb does to it, as pure functions.
//!
//! The epoch is the fence. It grows whenever the owner changes: with a claim, a release, and the beginning of the end. Whoever acts on what it
//! has seen names the epoch, and is refused when somebody else was faster. Signals of the agent carry the epoch it was told with its run.

use serde::{Deserialize, Serialize};

use super::{Cause, ClaimNo};
use crate::{Epoch, Millis};

/// Where a runner stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerState {
    /// Its machine was asked for, or starts.
    Creating,
    /// Waits to be claimed.
    Idle,
    /// A claim took it, and it registers for that.
    Claimed,
    /// Handed over.
    Running,
    /// Given back; still deregisters and cleans up.
    Releasing,
    /// To be ended; the machine may still be there.
    Terminating,
    /// Its machine is no more.
    Gone,
}

impl RunnerState {
    /// Every state, in the order of a runner's life.
    pub const ALL: [RunnerState; 7] = [
        RunnerState::Creating,
        RunnerState::Idle,
        RunnerState::Claimed,
        RunnerState::Running,
        RunnerState::Releasing,
        RunnerState::Terminating,
        RunnerState::Gone,
    ];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            RunnerState::Creating => "creating",
            RunnerState::Idle => "idle",
            RunnerState::Claimed => "claimed",
            RunnerState::Running => "running",
            RunnerState::Releasing => "releasing",
            RunnerState::Terminating => "terminating",
            RunnerState::Gone => "gone",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            RunnerState::Creating => 0,
            RunnerState::Idle => 1,
            RunnerState::Claimed => 2,
            RunnerState::Running => 3,
            RunnerState::Releasing => 4,
            RunnerState::Terminating => 5,
            RunnerState::Gone => 6,
        }
    }

    /// The state with this number, if there is one.
    pub fn from_code(code: i16) -> Option<RunnerState> {
        RunnerState::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The state with this word, if there is one.
    pub fn parse(word: &str) -> Option<RunnerState> {
        RunnerState::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// What the rules need to know of a runner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runner {
    /// Where it stands.
    pub state: RunnerState,
    /// The fence.
    pub epoch: Epoch,
    /// The claim that holds it.
    pub owner: Option<ClaimNo>,
    /// What it is in may not last longer.
    pub deadline: Option<Millis>,
    /// When its agent said that it is registered for its owner.
    pub registered_at: Option<Millis>,
    /// Why it is ended, once it is.
    pub cause: Option<Cause>,
}

/// Why a verb was not carried out. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The same was done before.
    #[error("this was done before")]
    AlreadyDone,
    /// The runner has moved on since it was seen.
    #[error("the runner has moved on since it was seen")]
    Stale,
    /// Its machine is not up yet, or still deregisters.
    #[error("the runner is not ready")]
    NotReady,
    /// A claim holds it.
    #[error("the runner is in use")]
    InUse,
    /// No claim holds it.
    #[error("no claim holds the runner")]
    NotHeld,
    /// Another claim holds it.
    #[error("another claim holds the runner")]
    NotOwner,
    /// It has not said that it is registered.
    #[error("the runner is not registered")]
    NotRegistered,
    /// It came after the deadline.
    #[error("that came too late")]
    TooLate,
    /// The deadline has not passed, or there is none.
    #[error("nothing is due")]
    NotDue,
    /// What is to be forgotten must be ended first.
    #[error("the runner is not being ended")]
    NotEnding,
    /// It is being ended.
    #[error("the runner is being ended")]
    Ending,
    /// It is no more.
    #[error("the runner is gone")]
    Gone,
}

impl Runner {
    /// A runner whose machine is to be created by then.
    pub fn ordered(deadline: Millis) -> Runner {
        Runner {
            state: RunnerState::Creating,
            epoch: Epoch::new(0),
            owner: None,
            deadline: Some(deadline),
            registered_at: None,
            cause: None,
        }
    }

    fn is_late(&self, now: Millis) -> bool {
        self.deadline.is_some_and(|deadline| deadline < now)
    }

    fn idle(self) -> Runner {
        Runner { state: RunnerState::Idle, owner: None, deadline: None, registered_at: None, ..self }
    }

    /// To be ended: at once, as far as anybody here is concerned.
    fn ending(self, cause: Cause, now: Millis) -> Runner {
        Runner {
            state: RunnerState::Terminating,
            epoch: self.epoch.next(),
            owner: None,
            deadline: Some(now),
            cause: Some(cause),
            ..self
        }
    }
}

/// `UD_OK`: the machine is up and its agent runs.
pub fn ready(runner: &Runner, now: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Creating if runner.is_late(now) => Err(Refused::TooLate),
        RunnerState::Creating => Ok(runner.idle()),
        RunnerState::Idle => Err(Refused::AlreadyDone),
        RunnerState::Claimed | RunnerState::Running => Err(Refused::InUse),
        RunnerState::Releasing => Err(Refused::NotReady),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// A claim takes a runner that it has seen idle with this epoch. It has to register by then.
pub fn take(runner: &Runner, seen: Epoch, owner: ClaimNo, deadline: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Idle if runner.epoch == seen => Ok(Runner {
            state: RunnerState::Claimed,
            epoch: runner.epoch.next(),
            owner: Some(owner),
            deadline: Some(deadline),
            registered_at: None,
            cause: None,
        }),
        RunnerState::Idle => Err(Refused::Stale),
        RunnerState::Claimed | RunnerState::Running => Err(Refused::InUse),
        RunnerState::Creating | RunnerState::Releasing => Err(Refused::NotReady),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// `UD_REG_OK`: it is registered for the claim that took it with this epoch.
pub fn registered(runner: &Runner, lease: Epoch, now: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Claimed | RunnerState::Running if runner.epoch != lease => Err(Refused::Stale),
        RunnerState::Claimed | RunnerState::Running if runner.registered_at.is_some() => Err(Refused::AlreadyDone),
        RunnerState::Claimed if runner.is_late(now) => Err(Refused::TooLate),
        // From now on the claim's own deadline counts.
        RunnerState::Claimed => Ok(Runner { registered_at: Some(now), deadline: None, ..*runner }),
        RunnerState::Running => Err(Refused::InUse),
        RunnerState::Creating | RunnerState::Idle | RunnerState::Releasing => Err(Refused::NotHeld),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// `UD_REG_FAILED`: it could not be registered, so it is not to be trusted.
pub fn register_failed(runner: &Runner, lease: Epoch, now: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Claimed | RunnerState::Running if runner.epoch != lease => Err(Refused::Stale),
        RunnerState::Claimed => Ok(runner.ending(Cause::RegisterFailed, now)),
        RunnerState::Running => Err(Refused::InUse),
        RunnerState::Creating | RunnerState::Idle | RunnerState::Releasing => Err(Refused::NotHeld),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// The claim is filled: its runner is handed over, until then.
pub fn commit(runner: &Runner, owner: ClaimNo, until: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Claimed | RunnerState::Running if runner.owner != Some(owner) => Err(Refused::NotOwner),
        RunnerState::Claimed if runner.registered_at.is_none() => Err(Refused::NotRegistered),
        RunnerState::Claimed => Ok(Runner { state: RunnerState::Running, deadline: Some(until), ..*runner }),
        RunnerState::Running => Err(Refused::AlreadyDone),
        RunnerState::Creating | RunnerState::Idle | RunnerState::Releasing => Err(Refused::NotHeld),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// Its claim gives it back, committed or not: it has to deregister by then.
pub fn release(runner: &Runner, owner: ClaimNo, by: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Claimed | RunnerState::Running if runner.owner != Some(owner) => Err(Refused::NotOwner),
        RunnerState::Claimed | RunnerState::Running => Ok(Runner {
            state: RunnerState::Releasing,
            epoch: runner.epoch.next(),
            owner: None,
            deadline: Some(by),
            ..*runner
        }),
        RunnerState::Creating | RunnerState::Idle | RunnerState::Releasing => Err(Refused::NotHeld),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// `UD_REMOVE_REG_OK`: it has deregistered after the release with this epoch, and is clean.
pub fn deregistered(runner: &Runner, lease: Epoch, now: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Releasing | RunnerState::Idle if runner.epoch != lease => Err(Refused::Stale),
        RunnerState::Releasing if runner.is_late(now) => Err(Refused::TooLate),
        RunnerState::Releasing => Ok(runner.idle()),
        RunnerState::Idle => Err(Refused::AlreadyDone),
        RunnerState::Creating => Err(Refused::NotHeld),
        RunnerState::Claimed | RunnerState::Running => Err(Refused::Stale),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// `UD_REMOVE_REG_FAILED`: it could not deregister, so nobody else may get it.
pub fn deregister_failed(runner: &Runner, lease: Epoch, now: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Releasing if runner.epoch != lease => Err(Refused::Stale),
        RunnerState::Releasing => Ok(runner.ending(Cause::ReleaseFailed, now)),
        RunnerState::Creating | RunnerState::Idle => Err(Refused::NotHeld),
        RunnerState::Claimed | RunnerState::Running => Err(Refused::Stale),
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
    }
}

/// Begins to end a runner that was seen with this epoch. The machine is touched only after this is written down.
pub fn end(runner: &Runner, seen: Epoch, cause: Cause, now: Millis) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Terminating => Err(Refused::Ending),
        RunnerState::Gone => Err(Refused::Gone),
        RunnerState::Creating
        | RunnerState::Idle
        | RunnerState::Claimed
        | RunnerState::Running
        | RunnerState::Releasing
            if runner.epoch != seen =>
        {
            Err(Refused::Stale)
        }
        state if cause.ends(state) => Ok(runner.ending(cause, now)),
        RunnerState::Claimed | RunnerState::Running => Err(Refused::InUse),
        RunnerState::Creating | RunnerState::Idle | RunnerState::Releasing => Err(Refused::NotReady),
    }
}

/// What it is in has lasted too long.
pub fn expire(runner: &Runner, now: Millis) -> Result<Runner, Refused> {
    let cause = match runner.state {
        RunnerState::Creating => Cause::CreateTimeout,
        RunnerState::Claimed => Cause::RegisterTimeout,
        RunnerState::Running => Cause::RuntimeOver,
        RunnerState::Releasing => Cause::ReleaseTimeout,
        RunnerState::Idle => return Err(Refused::NotDue),
        RunnerState::Terminating => return Err(Refused::Ending),
        RunnerState::Gone => return Err(Refused::Gone),
    };
    match runner.is_late(now) {
        true => Ok(runner.ending(cause, now)),
        false => Err(Refused::NotDue),
    }
}

/// The provider says that the machine is no more.
pub fn gone(runner: &Runner) -> Result<Runner, Refused> {
    match runner.state {
        RunnerState::Terminating => Ok(Runner { state: RunnerState::Gone, deadline: None, ..*runner }),
        RunnerState::Gone => Err(Refused::AlreadyDone),
        RunnerState::Creating
        | RunnerState::Idle
        | RunnerState::Claimed
        | RunnerState::Running
        | RunnerState::Releasing => Err(Refused::NotEnding),
    }
}
