//! What a pool does after its provider has refused to create machines.

use serde::{Deserialize, Serialize};

use super::{PoolSpec, Usage};
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
        let policy = RetryPolicy {
            max_attempts: u32::MAX,
            first_interval_ms: rule.first_ms,
            max_interval_ms: rule.max_ms,
            jitter: 0.2,
            ..RetryPolicy::default()
        };
        Backoff { failures, create_after: retry::next_retry(&policy, failures, now, jitter), ..*self }
    }

    /// An order was carried out.
    pub fn succeeded(&self) -> Backoff {
        Backoff { failures: 0, create_after: None, ..*self }
    }
}
