//! What a pool does after its provider has refused to create machines, or after machines that came to nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::keeper::Unmet;
use super::{Cause, PoolSpec, RunnerId, RunnerState, Usage};
use crate::retry::{self, RetryPolicy};
use crate::{Millis, retry::ATTEMPTS_MAX};

/// How creation fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backoff {
    /// Orders that failed since the last that did not.
    pub failures: u32,
    /// Nothing is ordered before this moment.
    pub create_after: Option<Millis>,
    /// Spot machines are not tried again before this moment.
    pub spot_after: Option<Millis>,
}

/// How long to wait. Each is a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackoffRule {
    /// After the first failure; doubles with each.
    pub first_ms: u64,
    /// Longest wait.
    pub max_ms: u64,
    /// How long a pool that may do so has machines on demand after spot machines were refused. 0: those were refused for another reason, and
    /// would be, too.
    pub spot_ms: Millis,
}

impl Default for BackoffRule {
    fn default() -> BackoffRule {
        BackoffRule { first_ms: 5_000, max_ms: 300_000, spot_ms: 600_000 }
    }
}

/// A move of a runner, as far as it says whether its machine was of use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// When.
    pub at: Millis,
    /// Whose.
    pub runner: RunnerId,
    /// From which state; none when it was ordered.
    pub from: Option<RunnerState>,
    /// To which.
    pub to: RunnerState,
    /// Why it is ended.
    pub cause: Option<Cause>,
}

impl Turn {
    /// Whether a machine was made for nothing: it never came up, or could not be registered. The next one may well fare the same.
    fn is_waste(&self) -> bool {
        if self.to != RunnerState::Terminating {
            return false;
        }
        match self.cause {
            // Those that are not created count by themselves.
            Some(Cause::CreateFailed) | None => false,
            Some(Cause::RegisterFailed | Cause::RegisterTimeout) => true,
            Some(Cause::CreateTimeout | Cause::Silent | Cause::Abandoned | Cause::Lost) => {
                self.from == Some(RunnerState::Creating)
            }
            Some(Cause::IdleTooLong | Cause::Surplus | Cause::PoolDeleted | Cause::Asked | Cause::RuntimeOver) => false,
            Some(Cause::ReleaseFailed | Cause::ReleaseTimeout) => false,
        }
    }
}

impl BackoffRule {
    fn next(&self, failures: u32, now: Millis, jitter: f64) -> Option<Millis> {
        let policy = RetryPolicy {
            max_attempts: u32::MAX,
            first_interval_ms: self.first_ms,
            max_interval_ms: self.max_ms,
            jitter: 0.2,
            ..RetryPolicy::default()
        };
        retry::next_retry(&policy, failures.clamp(1, ATTEMPTS_MAX), now, jitter)
    }

    /// When machines may be ordered again after some that came to nothing: a machine that does not come up costs as much as one that does. `turns` are
    /// the last ones of a pool, newest first. Whatever was handed over shows that machines are well, and what was before it does not matter. While
    /// claims lack machines, those that came up and were not taken are waste, too: they do not fit,
    /// and the next ones may not, either. Except for the first of them, as many as are idle because
    /// `min_idle` asks for them: nobody made those for the claims.
    pub fn after_waste(&self, turns: impl IntoIterator<Item = Turn>, unmet: &Unmet) -> Option<Millis> {
        let since = turns.into_iter().take_while(|turn| turn.to != RunnerState::Running);
        let mut taken: BTreeSet<RunnerId> = unmet.taken.iter().copied().collect();
        let (mut wasted, mut untaken) = (Vec::new(), Vec::new());
        for turn in since {
            if turn.to == RunnerState::Claimed {
                taken.insert(turn.runner);
            }
            let came_up = turn.from == Some(RunnerState::Creating) && turn.to == RunnerState::Idle;
            if turn.is_waste() {
                wasted.push(turn.at);
            } else if unmet.lacking > 0 && came_up && !taken.contains(&turn.runner) {
                untaken.push(turn.at);
            }
        }
        untaken.truncate(untaken.len().saturating_sub(unmet.kept as usize));
        wasted.extend(untaken);
        wasted.sort_unstable();
        let mut wasted = wasted.into_iter().rev();
        let newest = wasted.next()?;
        // Machines of one order fall together, and count once.
        let mut waves = 1;
        wasted.fold(newest, |later, at| {
            if later.saturating_sub(at).unsigned_abs() > self.first_ms / 2 {
                waves += 1;
            }
            at
        });
        self.next(waves, newest, 0.5)
    }
}

impl Backoff {
    /// What kind of machine to order now.
    pub fn usage(&self, spec: &PoolSpec, now: Millis) -> Usage {
        match spec.usage {
            Usage::Spot if spec.spot_fallback && self.spot_after.is_some_and(|after| after > now) => Usage::OnDemand,
            usage @ (Usage::Spot | Usage::OnDemand) => usage,
        }
    }

    /// An order was refused. `jitter` is a die from 0 to 1.
    pub fn failed(&self, rule: &BackoffRule, spec: &PoolSpec, usage: Usage, now: Millis, jitter: f64) -> Backoff {
        if usage == Usage::Spot && spec.spot_fallback && rule.spot_ms > 0 {
            return Backoff { spot_after: Some(now.saturating_add(rule.spot_ms)), ..*self };
        }
        let failures = self.failures.saturating_add(1).min(ATTEMPTS_MAX);
        Backoff { failures, create_after: rule.next(failures, now, jitter), ..*self }
    }

    /// An order was carried out.
    pub fn succeeded(&self) -> Backoff {
        Backoff { failures: 0, create_after: None, ..*self }
    }
}
