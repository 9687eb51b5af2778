//! Whether a runner that a claim took is alive and registered. All of it is in the store; no provider is asked.

use serde::{Deserialize, Serialize};

use super::{Cause, Runner, RunnerState};
use crate::Millis;

/// How long a runner may take. Each is a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// From being taken to having registered.
    pub register_ms: Millis,
    /// How old its last heartbeat may be.
    pub heartbeat_ms: Millis,
    /// As `register_ms`, for a machine that no claim has had before, counted from when it was ordered.
    pub new_register_ms: Millis,
    /// As `heartbeat_ms`, for such a machine.
    pub new_heartbeat_ms: Millis,
    /// No setting: whoever looks could hear nobody until a moment ago, so silence proves nothing.
    #[serde(skip)]
    pub is_deaf: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            register_ms: 10_000,
            heartbeat_ms: 15_000,
            new_register_ms: 180_000,
            new_heartbeat_ms: 15_000,
            is_deaf: false,
        }
    }
}

/// A runner that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What the rules know of it.
    pub runner: Runner,
    /// No claim has had it before.
    pub is_new: bool,
    /// When its last heartbeat came.
    pub seen_at: Option<Millis>,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is registered and alive.
    Passed,
    /// It has time left to register, or to be heard.
    Waits,
    /// It is to be ended, and another one taken.
    Failed(Cause),
    /// No claim is about to get it.
    NotClaimed,
}

/// When a runner that is taken now has to have registered.
pub fn register_by(limits: &Limits, is_new: bool, ordered_at: Millis, now: Millis) -> Millis {
    let by = now.saturating_add(limits.register_ms);
    match is_new {
        true => by.max(ordered_at.saturating_add(limits.new_register_ms)),
        false => by,
    }
}

/// Whether a runner's last heartbeat is too old.
pub fn is_silent(limits: &Limits, is_new: bool, seen_at: Option<Millis>, now: Millis) -> bool {
    let most = if is_new { limits.new_heartbeat_ms } else { limits.heartbeat_ms };
    seen_at.is_none_or(|at| now.saturating_sub(at) > most)
}

/// Looks at a runner that a claim took.
pub fn verify(seen: &Seen, limits: &Limits, now: Millis) -> Verdict {
    match seen.runner.state {
        RunnerState::Claimed => {}
        RunnerState::Creating
        | RunnerState::Idle
        | RunnerState::Running
        | RunnerState::Releasing
        | RunnerState::Terminating
        | RunnerState::Gone => return Verdict::NotClaimed,
    }
    let is_late = seen.runner.deadline.is_some_and(|deadline| deadline < now);
    match seen.runner.registered_at {
        None if is_late && limits.is_deaf => Verdict::Waits,
        None if is_late => Verdict::Failed(Cause::RegisterTimeout),
        _ if is_silent(limits, seen.is_new, seen.seen_at, now) && limits.is_deaf => Verdict::Waits,
        _ if is_silent(limits, seen.is_new, seen.seen_at, now) => Verdict::Failed(Cause::Silent),
        Some(_) => Verdict::Passed,
        None => Verdict::Waits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::runner;

    const NOW: Millis = 1_000_000;

    fn taken(is_new: bool, ordered_at: Millis) -> Seen {
        let idle = runner::ready(&Runner::ordered(NOW), NOW).unwrap();
        let by = register_by(&Limits::default(), is_new, ordered_at, NOW);
        Seen { runner: runner::take(&idle, idle.epoch, 1, by).unwrap(), is_new, seen_at: Some(NOW) }
    }

    fn look(seen: &Seen, now: Millis) -> Verdict {
        verify(&Seen { seen_at: Some(now), ..*seen }, &Limits::default(), now)
    }

    #[test]
    fn a_warm_runner_has_ten_seconds_to_register() {
        let seen = taken(false, 0);
        assert_eq!(look(&seen, NOW + 10_000), Verdict::Waits);
        assert_eq!(look(&seen, NOW + 10_001), Verdict::Failed(Cause::RegisterTimeout));
    }

    #[test]
    fn a_new_machine_has_three_minutes_from_its_order_and_never_less_than_a_warm_one() {
        let seen = taken(true, NOW - 60_000);
        assert_eq!(look(&seen, NOW + 120_000), Verdict::Waits);
        assert_eq!(look(&seen, NOW + 120_001), Verdict::Failed(Cause::RegisterTimeout));
        let slow = taken(true, NOW - 179_000);
        assert_eq!(look(&slow, NOW + 10_000), Verdict::Waits);
        assert_eq!(look(&slow, NOW + 10_001), Verdict::Failed(Cause::RegisterTimeout));
    }

    #[test]
    fn whoever_registered_must_also_be_alive() {
        let seen = taken(false, 0);
        let registered = Seen { runner: runner::registered(&seen.runner, seen.runner.epoch, NOW).unwrap(), ..seen };
        let limits = Limits::default();
        assert_eq!(verify(&registered, &limits, NOW + 15_000), Verdict::Passed);
        assert_eq!(verify(&registered, &limits, NOW + 15_001), Verdict::Failed(Cause::Silent));
        assert_eq!(verify(&Seen { seen_at: None, ..registered }, &limits, NOW), Verdict::Failed(Cause::Silent));
        assert_eq!(look(&registered, NOW + 1_000_000), Verdict::Passed, "its claim's deadline counts from now on");
    }

    #[test]
    fn whoever_heard_nobody_calls_nobody_silent() {
        let seen = taken(false, 0);
        let registered = Seen { runner: runner::registered(&seen.runner, seen.runner.epoch, NOW).unwrap(), ..seen };
        let deaf = Limits { is_deaf: true, ..Limits::default() };
        assert_eq!(verify(&registered, &deaf, NOW + 75_000), Verdict::Waits);
        assert_eq!(verify(&registered, &deaf, NOW + 15_000), Verdict::Passed, "it has been heard");
        assert_eq!(verify(&seen, &deaf, NOW + 10_001), Verdict::Waits, "it may have registered, and nobody heard");
    }

    #[test]
    fn every_limit_is_a_setting() {
        let limits =
            Limits { register_ms: 1, heartbeat_ms: 2, new_register_ms: 3, new_heartbeat_ms: 4, is_deaf: false };
        assert_eq!((register_by(&limits, false, 0, 10), register_by(&limits, true, 10, 10)), (11, 13));
        assert_eq!((is_silent(&limits, false, Some(0), 2), is_silent(&limits, false, Some(0), 3)), (false, true));
        assert_eq!((is_silent(&limits, true, Some(0), 4), is_silent(&limits, true, Some(0), 5)), (false, true));
    }

    #[test]
    fn only_a_claimed_runner_is_looked_at() {
        for state in RunnerState::ALL.into_iter().filter(|state| *state != RunnerState::Claimed) {
            let seen = taken(false, 0);
            let seen = Seen { runner: Runner { state, ..seen.runner }, ..seen };
            assert_eq!(look(&seen, NOW), Verdict::NotClaimed, "{state:?}");
        }
    }
}
