//! The words for how a lease ended.

use serde::{Deserialize, Serialize};

/// How a lease ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEnd {
    /// The holder completed the run.
    Completed,
    /// The holder said the attempt failed.
    Failed,
    /// The holder, or an administrator, gave it back unfinished.
    GivenBack,
    /// The holder put the run to sleep.
    Slept,
    /// The holder fell silent.
    Lost,
    /// The attempt took too long.
    TimedOut,
    /// It was cancelled.
    Cancelled,
}

impl LeaseEnd {
    /// Every way a lease can end.
    pub const ALL: [LeaseEnd; 7] = [
        LeaseEnd::Completed,
        LeaseEnd::Failed,
        LeaseEnd::GivenBack,
        LeaseEnd::Slept,
        LeaseEnd::Lost,
        LeaseEnd::TimedOut,
        LeaseEnd::Cancelled,
    ];

    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            LeaseEnd::Completed => "completed",
            LeaseEnd::Failed => "failed",
            LeaseEnd::GivenBack => "given_back",
            LeaseEnd::Slept => "slept",
            LeaseEnd::Lost => "lost",
            LeaseEnd::TimedOut => "timed_out",
            LeaseEnd::Cancelled => "cancelled",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            LeaseEnd::Completed => 0,
            LeaseEnd::Failed => 1,
            LeaseEnd::GivenBack => 2,
            LeaseEnd::Slept => 3,
            LeaseEnd::Lost => 4,
            LeaseEnd::TimedOut => 5,
            LeaseEnd::Cancelled => 6,
        }
    }

    /// The end with this number, if there is one.
    pub fn from_code(code: i16) -> Option<LeaseEnd> {
        LeaseEnd::ALL.into_iter().find(|end| end.code() == code)
    }
}
