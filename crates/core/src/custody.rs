//! Writes that came too late: what they wanted, and which of them are kept on record.

use crate::LeaseEnd;

/// What a write under a lease that was over wanted to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum LateVerb {
    /// Mark the run as started.
    Start,
    /// Complete the run.
    Complete,
    /// Fail the attempt.
    Fail,
    /// Give the run back.
    GiveBack,
    /// Put the run to sleep, or suspend the workflow.
    Sleep,
    /// Say that the run has stopped after it was cancelled.
    Cancelled,
    /// Renew the lease.
    Renew,
    /// Write at a position of a workflow.
    Step,
    /// Start a child of a workflow.
    Child,
    /// Publish what a workflow shows.
    Publish,
    /// Go on as another run.
    ContinueAsNew,
    /// Read messages or secrets under the lease.
    Read,
    /// Add lines to the log.
    Log,
    /// Upload a file.
    Artifact,
    /// Add measurements.
    Measure,
}

impl LateVerb {
    /// Every verb.
    pub const ALL: [LateVerb; 15] = [
        LateVerb::Start,
        LateVerb::Complete,
        LateVerb::Fail,
        LateVerb::GiveBack,
        LateVerb::Sleep,
        LateVerb::Cancelled,
        LateVerb::Renew,
        LateVerb::Step,
        LateVerb::Child,
        LateVerb::Publish,
        LateVerb::ContinueAsNew,
        LateVerb::Read,
        LateVerb::Log,
        LateVerb::Artifact,
        LateVerb::Measure,
    ];

    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            LateVerb::Start => "start",
            LateVerb::Complete => "complete",
            LateVerb::Fail => "fail",
            LateVerb::GiveBack => "give_back",
            LateVerb::Sleep => "sleep",
            LateVerb::Cancelled => "cancelled",
            LateVerb::Renew => "renew",
            LateVerb::Step => "step",
            LateVerb::Child => "child",
            LateVerb::Publish => "publish",
            LateVerb::ContinueAsNew => "continue_as_new",
            LateVerb::Read => "read",
            LateVerb::Log => "log",
            LateVerb::Artifact => "artifact",
            LateVerb::Measure => "measure",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            LateVerb::Start => 0,
            LateVerb::Complete => 1,
            LateVerb::Fail => 2,
            LateVerb::GiveBack => 3,
            LateVerb::Sleep => 4,
            LateVerb::Cancelled => 5,
            LateVerb::Renew => 6,
            LateVerb::Step => 7,
            LateVerb::Child => 8,
            LateVerb::Publish => 9,
            LateVerb::ContinueAsNew => 10,
            LateVerb::Read => 11,
            LateVerb::Log => 12,
            LateVerb::Artifact => 13,
            LateVerb::Measure => 14,
        }
    }

    /// The verb with this number, if there is one.
    pub fn from_code(code: i16) -> Option<LateVerb> {
        LateVerb::ALL.into_iter().find(|verb| verb.code() == code)
    }

    /// True for what holders send all the time, so that some of it is always under way when they end a lease themselves.
    fn is_chatter(self) -> bool {
        match self {
            LateVerb::Start | LateVerb::Renew | LateVerb::Read | LateVerb::Log | LateVerb::Measure => true,
            LateVerb::Complete
            | LateVerb::Fail
            | LateVerb::GiveBack
            | LateVerb::Sleep
            | LateVerb::Cancelled
            | LateVerb::Step
            | LateVerb::Child
            | LateVerb::Publish
            | LateVerb::ContinueAsNew
            | LateVerb::Artifact => false,
        }
    }
}

/// Whether a refused write is kept on record, by how the lease that it showed had ended. A database that was restored may
/// know nothing of that lease.
pub fn is_kept(verb: LateVerb, past: Option<LeaseEnd>) -> bool {
    match past {
        None | Some(LeaseEnd::Lost | LeaseEnd::TimedOut | LeaseEnd::Cancelled) => true,
        Some(LeaseEnd::Completed | LeaseEnd::Failed | LeaseEnd::GivenBack | LeaseEnd::Slept) => !verb.is_chatter(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_comes_back_from_its_number() {
        for verb in LateVerb::ALL {
            assert_eq!(LateVerb::from_code(verb.code()), Some(verb));
            assert_eq!(LateVerb::ALL.iter().filter(|other| other.as_str() == verb.as_str()).count(), 1);
        }
        assert_eq!(LateVerb::from_code(99), None);
    }

    #[test]
    fn what_a_holder_sent_while_it_ended_its_lease_itself_is_no_news() {
        let chatter = [LateVerb::Start, LateVerb::Renew, LateVerb::Read, LateVerb::Log, LateVerb::Measure];
        for verb in LateVerb::ALL {
            for end in LeaseEnd::ALL {
                let was_taken = matches!(end, LeaseEnd::Lost | LeaseEnd::TimedOut | LeaseEnd::Cancelled);
                assert_eq!(is_kept(verb, Some(end)), was_taken || !chatter.contains(&verb), "{verb:?} {end:?}");
            }
            assert!(is_kept(verb, None));
        }
    }
}
