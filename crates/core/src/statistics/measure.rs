//! What is measured, and how two measurements of the same time are put together.

use crate::Reason;

/// A number that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Measure {
    /// Runs that were taken in.
    Submitted,
    /// Runs that were handed to workers.
    Claimed,
    /// Runs that were completed.
    Completed,
    /// Runs that were cancelled.
    Cancelled,
    /// Attempts that failed or timed out, with another one to come.
    Retried,
    /// Runs that were given back.
    Returned,
    /// Leases that ended because their worker fell silent.
    Lost,
    /// Runs that failed.
    Failed(Reason),
    /// Runs that could be claimed.
    Ready,
    /// Runs that were due later.
    Scheduled,
    /// Runs that a worker had.
    Running,
    /// Runs that slept.
    Sleeping,
    /// How long the oldest run that could be claimed had been waiting, in milliseconds.
    OldestMs,
    /// Workers that got work.
    WorkersOnline,
    /// Workers that finished what they had.
    WorkersDraining,
    /// Workers that were gone.
    WorkersOffline,
    /// Machines that were being made.
    RunnersCreating,
    /// Machines that waited for a claim.
    RunnersIdle,
    /// Machines that were claimed and not handed over.
    RunnersClaimed,
    /// Machines that were handed over.
    RunnersRunning,
    /// Machines that were on their way back.
    RunnersReleasing,
    /// Machines that were being ended.
    RunnersTerminating,
    /// Claims that waited for machines.
    ClaimsWaiting,
    /// Claims that were filled from machines that were there already.
    WarmHits,
    /// Claims that had to wait for a machine to be made.
    ColdHits,
}

/// How two measurements of the same time are put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Together {
    /// Something happened: added up.
    Count,
    /// What was seen at looks: the mean of all looks, so that two servers that look see no more than one.
    Level,
    /// The largest.
    Peak,
}

/// How many numbers there are.
pub const MEASURES: usize = 30;

impl Measure {
    /// Every number. The place of a number is on disk: new ones go to the end.
    pub const ALL: [Measure; MEASURES] = [
        Measure::Submitted,
        Measure::Claimed,
        Measure::Completed,
        Measure::Cancelled,
        Measure::Retried,
        Measure::Returned,
        Measure::Lost,
        Measure::Failed(Reason::Error),
        Measure::Failed(Reason::WorkerLost),
        Measure::Failed(Reason::Timeout),
        Measure::Failed(Reason::Rejected),
        Measure::Failed(Reason::Cancelled),
        Measure::Failed(Reason::Poison),
        Measure::Ready,
        Measure::Scheduled,
        Measure::Running,
        Measure::Sleeping,
        Measure::OldestMs,
        Measure::WorkersOnline,
        Measure::WorkersDraining,
        Measure::WorkersOffline,
        Measure::RunnersCreating,
        Measure::RunnersIdle,
        Measure::RunnersClaimed,
        Measure::RunnersRunning,
        Measure::RunnersReleasing,
        Measure::RunnersTerminating,
        Measure::ClaimsWaiting,
        Measure::WarmHits,
        Measure::ColdHits,
    ];

    /// Its place among all.
    pub fn place(self) -> usize {
        match self {
            Measure::Submitted => 0,
            Measure::Claimed => 1,
            Measure::Completed => 2,
            Measure::Cancelled => 3,
            Measure::Retried => 4,
            Measure::Returned => 5,
            Measure::Lost => 6,
            Measure::Failed(Reason::Error) => 7,
            Measure::Failed(Reason::WorkerLost) => 8,
            Measure::Failed(Reason::Timeout) => 9,
            Measure::Failed(Reason::Rejected) => 10,
            Measure::Failed(Reason::Cancelled) => 11,
            Measure::Failed(Reason::Poison) => 12,
            Measure::Ready => 13,
            Measure::Scheduled => 14,
            Measure::Running => 15,
            Measure::Sleeping => 16,
            Measure::OldestMs => 17,
            Measure::WorkersOnline => 18,
            Measure::WorkersDraining => 19,
            Measure::WorkersOffline => 20,
            Measure::RunnersCreating => 21,
            Measure::RunnersIdle => 22,
            Measure::RunnersClaimed => 23,
            Measure::RunnersRunning => 24,
            Measure::RunnersReleasing => 25,
            Measure::RunnersTerminating => 26,
            Measure::ClaimsWaiting => 27,
            Measure::WarmHits => 28,
            Measure::ColdHits => 29,
        }
    }

    /// How two measurements of it are put together.
    pub fn together(self) -> Together {
        match self {
            Measure::Submitted
            | Measure::Claimed
            | Measure::Completed
            | Measure::Cancelled
            | Measure::Retried
            | Measure::Returned
            | Measure::Lost
            | Measure::Failed(_)
            | Measure::WarmHits
            | Measure::ColdHits => Together::Count,
            Measure::OldestMs => Together::Peak,
            Measure::Ready
            | Measure::Scheduled
            | Measure::Running
            | Measure::Sleeping
            | Measure::WorkersOnline
            | Measure::WorkersDraining
            | Measure::WorkersOffline
            | Measure::RunnersCreating
            | Measure::RunnersIdle
            | Measure::RunnersClaimed
            | Measure::RunnersRunning
            | Measure::RunnersReleasing
            | Measure::RunnersTerminating
            | Measure::ClaimsWaiting => Together::Level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        for (place, measure) in Measure::ALL.into_iter().enumerate() {
            assert_eq!(measure.place(), place, "{measure:?}");
        }
        let failed = Reason::ALL.map(|reason| Measure::ALL[Measure::Failed(reason).place()]);
        assert_eq!(failed, Reason::ALL.map(Measure::Failed));
    }
}
