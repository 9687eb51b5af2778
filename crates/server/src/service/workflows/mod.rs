//! The verbs of workflows, one file each. A workflow is a run of the kernel with a memory of positions and an inbox; docs/adr/0012 has the
//! reasons. What the kernel does for every run (register, renew, claim, complete, fail, give back) is done by its verbs.

pub mod cancel;
pub mod children;
pub mod claim;
pub mod continue_as_new;
pub mod finish;
pub mod messages;
pub mod publish;
pub mod read;
pub mod register;
pub mod retry;
pub mod signal;
pub mod start;
pub mod steps;
pub mod suspend;

use baton_core::{Refused, State};
use baton_store::{LaneName, POSITIONS_MAX, StepKind, Verdict};

use super::{Outcome, check_name, note_stale, settle};
use crate::refusals::LeaseWrite;
use crate::{App, Error};

/// Stands before the version in the type of a pinned run.
pub const VERSION_MARK: char = '@';

/// An error in a field with this name.
pub fn invalid(field: &'static str, why: impl Into<String>) -> Error {
    Error::field(field, why)
}

/// Checks a name that a person chose.
pub(crate) fn check_field(field: &'static str, name: &str) -> Result<(), Error> {
    check_name(field, name)
}

/// Says which field an error is about.
pub(crate) fn in_field(field: &'static str, error: Error) -> Error {
    match error {
        Error::Invalid(why) | Error::InvalidField { why, .. } => invalid(field, why),
        other => other,
    }
}

/// What a refusal means to the holder of a lease. A run that has ended has no lease any more, whatever it ended as.
pub(crate) fn refused(app: &App, write: LeaseWrite<'_>, refused: Refused) -> Error {
    note_stale(app, write, Verdict::Refused(refused));
    match refused {
        Refused::StaleLease | Refused::NotHeld | Refused::Ended | Refused::AlreadyDone => Error::LeaseLost,
        Refused::Cancelling => Error::Cancelling,
        Refused::Held | Refused::NotDue => Error::Conflict(refused.to_string()),
    }
}

/// As [`settle`], for the holder of a lease.
pub(crate) async fn settle_lease(app: &App, write: LeaseWrite<'_>, verdict: Verdict) -> Result<Outcome, Error> {
    match settle(app, write, verdict).await {
        Err(Error::Ended(_)) => Err(Error::LeaseLost),
        other => other,
    }
}

/// The error for something else at a position.
pub(crate) fn diverged(position: u32, remembered: (StepKind, &str), asked: (StepKind, &str)) -> Error {
    let words = |(kind, name): (StepKind, &str)| format!("{} {name:?}", kind_name(kind));
    Error::Diverged { position, remembered: words(remembered), asked: words(asked) }
}

/// The error for a run that has as many positions as it may.
pub(crate) fn too_many() -> Error {
    Error::TooManySteps { limit: POSITIONS_MAX }
}

fn kind_name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Step => "step",
        StepKind::Sleep => "sleep",
        StepKind::Signal => "signal",
        StepKind::Child => "child",
        StepKind::Fact => "fact",
    }
}

/// The type of a run: its name, and the version it is pinned to, if it is.
pub(crate) fn pinned(kind: &str, version: Option<&str>) -> String {
    match version.filter(|version| !version.is_empty()) {
        Some(version) => format!("{kind}{VERSION_MARK}{version}"),
        None => kind.to_owned(),
    }
}

/// The name of a workflow without the version it is pinned to.
pub(crate) fn plain(lane: &LaneName) -> &str {
    pinned_parts(&lane.kind).0
}

/// The name of a workflow, and the version it is pinned to.
pub(crate) fn pinned_parts(kind: &str) -> (&str, Option<&str>) {
    kind.split_once(VERSION_MARK).map_or((kind, None), |(name, version)| (name, Some(version)))
}

/// True when a run in this state was never begun by anybody.
pub(crate) fn never_begun(state: State, epoch: baton_core::Epoch) -> bool {
    state == State::Pending && epoch.number() == 0
}
