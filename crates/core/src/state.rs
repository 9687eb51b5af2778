//! The words for where a run stands and why it ended badly.

use serde::{Deserialize, Serialize};

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits to be claimed: now, or when it becomes due.
    Pending,
    /// A worker holds it and has not begun yet.
    Assigned,
    /// A worker holds it and works on it.
    Running,
    /// Put itself to sleep; becomes claimable when due.
    Sleeping,
    /// Done.
    Completed,
    /// Ended badly; [`Reason`] says why.
    Failed,
    /// Ended on request.
    Cancelled,
}

impl State {
    /// Every state, in the order of a run's life.
    pub const ALL: [State; 7] = [
        State::Pending,
        State::Assigned,
        State::Running,
        State::Sleeping,
        State::Completed,
        State::Failed,
        State::Cancelled,
    ];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Assigned => "assigned",
            State::Running => "running",
            State::Sleeping => "sleeping",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            State::Pending => 0,
            State::Assigned => 1,
            State::Running => 2,
            State::Sleeping => 3,
            State::Completed => 4,
            State::Failed => 5,
            State::Cancelled => 6,
        }
    }

    /// The state with this number, if there is one.
    pub fn from_code(code: i16) -> Option<State> {
        State::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The state with this word, if there is one.
    pub fn parse(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// True when nothing can happen to the run any more.
    pub fn is_ended(self) -> bool {
        match self {
            State::Completed | State::Failed | State::Cancelled => true,
            State::Pending | State::Assigned | State::Running | State::Sleeping => false,
        }
    }

    /// True while a worker holds the run.
    pub fn is_held(self) -> bool {
        match self {
            State::Assigned | State::Running => true,
            State::Pending | State::Sleeping | State::Completed | State::Failed | State::Cancelled => false,
        }
    }
}

/// Why an attempt, or a whole run, ended badly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The work itself said so.
    Error,
    /// The worker fell silent, or went away.
    WorkerLost,
    /// The attempt took longer than its execution timeout.
    Timeout,
    /// The worker will not do it and nobody should try: the input is wrong.
    Rejected,
    /// Somebody asked for it to stop.
    Cancelled,
    /// It lost more workers than its budget allows.
    Poison,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 6] =
        [Reason::Error, Reason::WorkerLost, Reason::Timeout, Reason::Rejected, Reason::Cancelled, Reason::Poison];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Error => "error",
            Reason::WorkerLost => "worker_lost",
            Reason::Timeout => "timeout",
            Reason::Rejected => "rejected",
            Reason::Cancelled => "cancelled",
            Reason::Poison => "poison",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            Reason::Error => 0,
            Reason::WorkerLost => 1,
            Reason::Timeout => 2,
            Reason::Rejected => 3,
            Reason::Cancelled => 4,
            Reason::Poison => 5,
        }
    }

    /// The reason with this number, if there is one.
    pub fn from_code(code: i16) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.code() == code)
    }
}
