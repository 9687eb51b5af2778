//! Why a runner is ended, and in which states that is allowed.

use serde::{Deserialize, Serialize};

use super::RunnerState;

/// Why a runner is ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was idle for longer than the pool keeps machines that nobody needs.
    IdleTooLong,
    /// The pool has more machines than it may have, or others are needed in its place.
    Surplus,
    /// Its pool is being deleted.
    PoolDeleted,
    /// The provider refused to create its machine.
    CreateFailed,
    /// Its agent did not say in time that the machine is up.
    CreateTimeout,
    /// The agent's hook could not register it for a claim.
    RegisterFailed,
    /// It did not register for a claim in time.
    RegisterTimeout,
    /// Its agent sends no heartbeats.
    Silent,
    /// Its agent has been silent for longer than the time after which an agent ends its machine by itself.
    Abandoned,
    /// It ran for as long as it may.
    RuntimeOver,
    /// The agent's hook could not deregister it.
    ReleaseFailed,
    /// It did not deregister in time.
    ReleaseTimeout,
    /// The provider no longer lists its machine.
    Lost,
    /// Somebody asked for it by name.
    Asked,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 14] = [
        Cause::IdleTooLong,
        Cause::Surplus,
        Cause::PoolDeleted,
        Cause::CreateFailed,
        Cause::CreateTimeout,
        Cause::RegisterFailed,
        Cause::RegisterTimeout,
        Cause::Silent,
        Cause::Abandoned,
        Cause::RuntimeOver,
        Cause::ReleaseFailed,
        Cause::ReleaseTimeout,
        Cause::Lost,
        Cause::Asked,
    ];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::IdleTooLong => "idle_too_long",
            Cause::Surplus => "surplus",
            Cause::PoolDeleted => "pool_deleted",
            Cause::CreateFailed => "create_failed",
            Cause::CreateTimeout => "create_timeout",
            Cause::RegisterFailed => "register_failed",
            Cause::RegisterTimeout => "register_timeout",
            Cause::Silent => "silent",
            Cause::Abandoned => "abandoned",
            Cause::RuntimeOver => "runtime_over",
            Cause::ReleaseFailed => "release_failed",
            Cause::ReleaseTimeout => "release_timeout",
            Cause::Lost => "lost",
            Cause::Asked => "asked",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            Cause::IdleTooLong => 0,
            Cause::Surplus => 1,
            Cause::PoolDeleted => 2,
            Cause::CreateFailed => 3,
            Cause::CreateTimeout => 4,
            Cause::RegisterFailed => 5,
            Cause::RegisterTimeout => 6,
            Cause::Silent => 7,
            Cause::Abandoned => 8,
            Cause::RuntimeOver => 9,
            Cause::ReleaseFailed => 10,
            Cause::ReleaseTimeout => 11,
            Cause::Lost => 12,
            Cause::Asked => 13,
        }
    }

    /// The cause with this number, if there is one.
    pub fn from_code(code: i16) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.code() == code)
    }

    /// Whether a runner in this state may be ended for this cause. What is in use ends by its owner, its deadline, the loss of its machine or
    /// its agent, or the hand of an administrator, and never because the pool would rather have fewer machines.
    pub fn ends(self, state: RunnerState) -> bool {
        match state {
            RunnerState::Creating => matches!(
                self,
                Cause::Surplus
                    | Cause::PoolDeleted
                    | Cause::CreateFailed
                    | Cause::CreateTimeout
                    | Cause::Lost
                    | Cause::Asked
            ),
            RunnerState::Idle => matches!(
                self,
                Cause::IdleTooLong | Cause::Surplus | Cause::PoolDeleted | Cause::Silent | Cause::Lost | Cause::Asked
            ),
            RunnerState::Claimed => matches!(
                self,
                Cause::RegisterFailed | Cause::RegisterTimeout | Cause::Silent | Cause::Lost | Cause::Asked
            ),
            RunnerState::Running => {
                matches!(self, Cause::RuntimeOver | Cause::Abandoned | Cause::Lost | Cause::Asked)
            }
            RunnerState::Releasing => matches!(
                self,
                Cause::ReleaseFailed | Cause::ReleaseTimeout | Cause::Silent | Cause::Lost | Cause::Asked
            ),
            RunnerState::Terminating | RunnerState::Gone => false,
        }
    }
}
