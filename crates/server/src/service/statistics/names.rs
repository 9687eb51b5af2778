//! What series are called.

use baton_core::Reason;
use baton_core::statistics::{Kind, Measure};

use super::Named;
use crate::Error;

/// What a series shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Name {
    /// A number.
    Number(Measure),
    /// All runs that failed, for whatever reason.
    Failed,
    /// How long runs had been due when they were claimed: no longer than this, for this part of them.
    Wait(f64),
    /// The same of how long runs took.
    Duration(f64),
}

/// Every series. A name that was released never changes.
pub(super) const ALL: [Named; 36] = [
    ("submitted", Name::Number(Measure::Submitted)),
    ("claimed", Name::Number(Measure::Claimed)),
    ("completed", Name::Number(Measure::Completed)),
    ("failed", Name::Failed),
    ("failed.error", Name::Number(Measure::Failed(Reason::Error))),
    ("failed.rejected", Name::Number(Measure::Failed(Reason::Rejected))),
    ("failed.timeout", Name::Number(Measure::Failed(Reason::Timeout))),
    ("failed.worker_lost", Name::Number(Measure::Failed(Reason::WorkerLost))),
    ("failed.poison", Name::Number(Measure::Failed(Reason::Poison))),
    ("cancelled", Name::Number(Measure::Cancelled)),
    ("retried", Name::Number(Measure::Retried)),
    ("returned", Name::Number(Measure::Returned)),
    ("lost", Name::Number(Measure::Lost)),
    ("wait.p50_ms", Name::Wait(0.5)),
    ("wait.p95_ms", Name::Wait(0.95)),
    ("wait.p99_ms", Name::Wait(0.99)),
    ("duration.p50_ms", Name::Duration(0.5)),
    ("duration.p95_ms", Name::Duration(0.95)),
    ("duration.p99_ms", Name::Duration(0.99)),
    ("ready", Name::Number(Measure::Ready)),
    ("scheduled", Name::Number(Measure::Scheduled)),
    ("running", Name::Number(Measure::Running)),
    ("sleeping", Name::Number(Measure::Sleeping)),
    ("oldest_ms", Name::Number(Measure::OldestMs)),
    ("workers.online", Name::Number(Measure::WorkersOnline)),
    ("workers.draining", Name::Number(Measure::WorkersDraining)),
    ("workers.offline", Name::Number(Measure::WorkersOffline)),
    ("runners.creating", Name::Number(Measure::RunnersCreating)),
    ("runners.idle", Name::Number(Measure::RunnersIdle)),
    ("runners.claimed", Name::Number(Measure::RunnersClaimed)),
    ("runners.running", Name::Number(Measure::RunnersRunning)),
    ("runners.releasing", Name::Number(Measure::RunnersReleasing)),
    ("runners.terminating", Name::Number(Measure::RunnersTerminating)),
    ("pool_claims.waiting", Name::Number(Measure::ClaimsWaiting)),
    ("hits.warm", Name::Number(Measure::WarmHits)),
    ("hits.cold", Name::Number(Measure::ColdHits)),
];

impl Name {
    /// What it is about.
    pub(super) fn kind(self) -> Kind {
        match self {
            Name::Failed | Name::Wait(_) | Name::Duration(_) => Kind::Queue,
            Name::Number(measure) => match measure {
                Measure::Submitted
                | Measure::Claimed
                | Measure::Completed
                | Measure::Cancelled
                | Measure::Retried
                | Measure::Returned
                | Measure::Lost
                | Measure::Failed(_)
                | Measure::Ready
                | Measure::Scheduled
                | Measure::Running
                | Measure::Sleeping
                | Measure::OldestMs => Kind::Queue,
                Measure::WorkersOnline | Measure::WorkersDraining | Measure::WorkersOffline => Kind::Workers,
                Measure::RunnersCreating
                | Measure::RunnersIdle
                | Measure::RunnersClaimed
                | Measure::RunnersRunning
                | Measure::RunnersReleasing
                | Measure::RunnersTerminating
                | Measure::ClaimsWaiting
                | Measure::WarmHits
                | Measure::ColdHits => Kind::Pool,
            },
        }
    }
}

/// The series that somebody asks for, in the order of all. One queue or one pool has only its own.
pub(super) fn chosen(asked: Option<&str>, one_queue: bool, one_pool: bool) -> Result<Vec<Named>, Error> {
    let asked: Vec<&str> =
        asked.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_asked_for =
        |name: &str, by: &str| name == by || name.strip_prefix(by).is_some_and(|rest| rest.starts_with('.'));
    for by in &asked {
        if !ALL.iter().any(|(name, _)| is_asked_for(name, by)) {
            let all: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            return Err(Error::field("series", format!("must be of {}, not {by:?}", all.join(", "))));
        }
    }
    let is_about_it = |kind: Kind| match kind {
        Kind::Queue => one_queue || !one_pool,
        Kind::Pool => one_pool || !one_queue,
        Kind::Workers => !one_queue && !one_pool,
    };
    let fits = |named: &&Named| {
        let is_named = asked.is_empty() || asked.iter().any(|by| is_asked_for(named.0, by));
        is_named && is_about_it(named.1.kind())
    };
    Ok(ALL.iter().filter(fits).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_chosen_by_name_or_by_the_first_part_of_names() {
        let names = |asked: &str, queue, pool| -> Vec<&str> {
            chosen(Some(asked), queue, pool).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("wait, ready", false, false), ["wait.p50_ms", "wait.p95_ms", "wait.p99_ms", "ready"]);
        assert_eq!(names("failed", true, false)[..2], ["failed", "failed.error"]);
        assert_eq!(names("workers", true, false), [""; 0], "workers are not of a queue");
        assert_eq!(names("hits", false, true), ["hits.warm", "hits.cold"]);
        assert_eq!(names("", false, false).len(), ALL.len());
        assert!(chosen(Some("rea"), false, false).is_err() && chosen(Some("wait."), false, false).is_err());
    }
}
