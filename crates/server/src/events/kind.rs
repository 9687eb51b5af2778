//! Kinds of events, and who wants them.

use std::time::Instant;

use super::GRACE;

/// What kind of thing has happened. Each is a bit that servers tell each other: never change one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    RunSubmitted,
    RunClaimed,
    RunReturned,
    RunSuspended,
    RunCancelRequested,
    RunEnded,
    WorkerRegistered,
    WorkerDraining,
    WorkerOffline,
    QueuePaused,
    QueueResumed,
    ScheduleFired,
    RunnerChanged,
    ClaimChanged,
    BulkChanged,
    RunWriteRefused,
}

impl Kind {
    pub(crate) const ALL: [Kind; 16] = [
        Kind::RunSubmitted,
        Kind::RunClaimed,
        Kind::RunReturned,
        Kind::RunSuspended,
        Kind::RunCancelRequested,
        Kind::RunEnded,
        Kind::WorkerRegistered,
        Kind::WorkerDraining,
        Kind::WorkerOffline,
        Kind::QueuePaused,
        Kind::QueueResumed,
        Kind::ScheduleFired,
        Kind::RunnerChanged,
        Kind::ClaimChanged,
        Kind::BulkChanged,
        Kind::RunWriteRefused,
    ];
    /// Those that a verb on a run that is there can bring about.
    pub(crate) const CHANGES: u32 =
        Kind::RunReturned.bit() | Kind::RunSuspended.bit() | Kind::RunCancelRequested.bit() | Kind::RunEnded.bit();

    /// Its bit.
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Its name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::RunSubmitted => "run.submitted",
            Kind::RunClaimed => "run.claimed",
            Kind::RunReturned => "run.returned",
            Kind::RunSuspended => "run.suspended",
            Kind::RunCancelRequested => "run.cancel_requested",
            Kind::RunEnded => "run.ended",
            Kind::WorkerRegistered => "worker.registered",
            Kind::WorkerDraining => "worker.draining",
            Kind::WorkerOffline => "worker.offline",
            Kind::QueuePaused => "queue.paused",
            Kind::QueueResumed => "queue.resumed",
            Kind::ScheduleFired => "schedule.fired",
            Kind::RunnerChanged => "runner.changed",
            Kind::ClaimChanged => "claim.changed",
            Kind::BulkChanged => "bulk.changed",
            Kind::RunWriteRefused => "run.write_refused",
        }
    }

    /// The bits of the kinds with this name: one, or all of a subject (`run`).
    pub(crate) fn named(word: &str) -> Option<u32> {
        let is_named = |kind: &Kind| kind.as_str() == word || kind.as_str().split('.').next() == Some(word);
        let bits = Kind::ALL.into_iter().filter(is_named).fold(0, |bits, kind| bits | kind.bit());
        (bits != 0).then_some(bits)
    }

    /// All of them.
    pub(crate) fn all() -> u32 {
        Kind::ALL.into_iter().fold(0, |bits, kind| bits | kind.bit())
    }
}

/// How many listen for each kind at this server, and until when those who left may come back.
#[derive(Debug)]
pub(super) struct Wants {
    listeners: [usize; Kind::ALL.len()],
    until: [Option<Instant>; Kind::ALL.len()],
}

impl Default for Wants {
    fn default() -> Wants {
        Wants { listeners: [0; Kind::ALL.len()], until: [None; Kind::ALL.len()] }
    }
}

impl Wants {
    /// Somebody listens for these kinds.
    pub(super) fn come(&mut self, kinds: u32) {
        for kind in Kind::ALL.into_iter().filter(|kind| kinds & kind.bit() != 0) {
            self.listeners[kind as usize] += 1;
        }
    }

    /// Somebody does no longer.
    pub(super) fn go(&mut self, kinds: u32) {
        for kind in Kind::ALL.into_iter().filter(|kind| kinds & kind.bit() != 0) {
            let listeners = &mut self.listeners[kind as usize];
            *listeners = listeners.saturating_sub(1);
            self.until[kind as usize] = Some(Instant::now() + GRACE);
        }
    }

    /// The kinds that somebody listens for, or may come back for.
    pub(super) fn now(&mut self) -> u32 {
        let now = Instant::now();
        let is_wanted = |kind: &Kind| {
            self.listeners[*kind as usize] > 0 || self.until[*kind as usize].is_some_and(|until| until > now)
        };
        Kind::ALL.into_iter().filter(is_wanted).fold(0, |bits, kind| bits | kind.bit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_name_and_by_subject() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.as_str()), Some(kind.bit()));
        }
        assert_eq!(Kind::named("queue"), Some(Kind::QueuePaused.bit() | Kind::QueueResumed.bit()));
        for wrong in ["", "run.", "runs", "ended", "missed"] {
            assert_eq!(Kind::named(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_kind_is_wanted_for_a_while_after_its_last_listener_has_gone() {
        let mut wants = Wants::default();
        assert_eq!(wants.now(), 0);
        wants.come(3);
        wants.come(2);
        wants.go(3);
        assert_eq!(wants.now(), 3);
        wants.until = [None; Kind::ALL.len()];
        assert_eq!(wants.now(), 2);
    }
}
