//! When a failed run is tried again: arithmetic only.

use serde::{Deserialize, Serialize};

use crate::Millis;

/// How often, and how fast, a failed run is tried again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "Given")]
pub struct RetryPolicy {
    /// Attempts in all, the first one included. 1 means: never again.
    pub max_attempts: u32,
    /// Wait before the second attempt.
    pub first_interval_ms: u64,
    /// Each wait is this many times the one before.
    pub factor: f64,
    /// No wait is longer than this (jitter included).
    pub max_interval_ms: u64,
    /// Share of the wait that is left to chance: 0.1 spreads it over ±10 %.
    pub jitter: f64,
    /// Error codes that are never tried again.
    pub non_retryable: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 3,
            first_interval_ms: 1_000,
            factor: 2.0,
            max_interval_ms: 10 * 60 * 1_000,
            jitter: 0.1,
            non_retryable: Vec::new(),
        }
    }
}

/// A policy as people write it: what is left out fits what is given.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Given {
    max_attempts: Option<u32>,
    first_interval_ms: Option<u64>,
    factor: Option<f64>,
    max_interval_ms: Option<u64>,
    jitter: Option<f64>,
    non_retryable: Vec<String>,
}

impl From<Given> for RetryPolicy {
    fn from(given: Given) -> RetryPolicy {
        let default = RetryPolicy::default();
        let (first_interval_ms, max_interval_ms) =
            RetryPolicy::intervals(given.first_interval_ms, given.max_interval_ms);
        RetryPolicy {
            max_attempts: given.max_attempts.unwrap_or(default.max_attempts),
            first_interval_ms,
            factor: given.factor.unwrap_or(default.factor),
            max_interval_ms,
            jitter: given.jitter.unwrap_or(default.jitter),
            non_retryable: given.non_retryable,
        }
    }
}

/// Longest wait a policy may ask for: a year. Keeps every sum far from overflow.
pub const INTERVAL_MS_MAX: u64 = 365 * 24 * 3_600 * 1_000;
/// Most attempts a policy may ask for.
pub const ATTEMPTS_MAX: u32 = 10_000;
/// Most error codes a policy may list.
pub const NON_RETRYABLE_MAX: usize = 100;

impl RetryPolicy {
    /// The first and the longest interval, of which one or both may be left out. Whoever asks for an hour before the second attempt, and says
    /// nothing else, does not mean the default of ten minutes at most.
    pub fn intervals(first_ms: Option<u64>, longest_ms: Option<u64>) -> (u64, u64) {
        let default = RetryPolicy::default();
        let first = first_ms.unwrap_or(default.first_interval_ms.min(longest_ms.unwrap_or(u64::MAX)));
        (first, longest_ms.unwrap_or(default.max_interval_ms.max(first)))
    }

    /// Says what is wrong with the policy, in words for the person who wrote it.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=ATTEMPTS_MAX).contains(&self.max_attempts) {
            return Err(format!("retry.max_attempts must be 1 to {ATTEMPTS_MAX}, not {}", self.max_attempts));
        }
        if self.first_interval_ms > INTERVAL_MS_MAX || self.max_interval_ms > INTERVAL_MS_MAX {
            return Err("retry intervals must be at most 365 days".into());
        }
        if self.first_interval_ms > self.max_interval_ms {
            let Self { first_interval_ms: first, max_interval_ms: longest, .. } = self;
            return Err(format!("the first retry interval ({first} ms) is longer than the longest one ({longest} ms)"));
        }
        if !(1.0..=100.0).contains(&self.factor) {
            return Err(format!("retry.factor must be 1 to 100, not {}", self.factor));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(format!("retry.jitter must be 0 to 1, not {}", self.jitter));
        }
        if self.non_retryable.len() > NON_RETRYABLE_MAX {
            return Err(format!("retry.non_retryable may list at most {NON_RETRYABLE_MAX} codes"));
        }
        Ok(())
    }
}

/// When the attempt after number `attempt` (1 is the first) may begin, or `None` when there is none.
///
/// `jitter` is a die from 0 to 1; 0.5 gives the plain interval.
pub fn next_retry(policy: &RetryPolicy, attempt: u32, now: Millis, jitter: f64) -> Option<Millis> {
    if attempt >= policy.max_attempts {
        return None;
    }
    let longest = policy.max_interval_ms.min(INTERVAL_MS_MAX) as f64;
    let plain = policy.first_interval_ms as f64 * policy.factor.powf(f64::from(attempt.saturating_sub(1)));
    let spread = 1.0 + policy.jitter * (2.0 * jitter.clamp(0.0, 1.0) - 1.0);
    let wait = (plain.min(longest) * spread).clamp(0.0, longest);
    Some(now.saturating_add(wait.round() as Millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy() -> RetryPolicy {
        RetryPolicy { jitter: 0.0, max_attempts: 6, max_interval_ms: 5_000, ..RetryPolicy::default() }
    }

    #[test]
    fn waits_double_until_the_longest() {
        let waits: Vec<_> = (1..7).map(|attempt| next_retry(&policy(), attempt, 0, 0.5)).collect();
        assert_eq!(waits, [Some(1_000), Some(2_000), Some(4_000), Some(5_000), Some(5_000), None]);
    }

    #[test]
    fn jitter_spreads_both_ways() {
        let policy = RetryPolicy { jitter: 0.5, ..policy() };
        let waits = [0.0, 0.5, 1.0].map(|dice| next_retry(&policy, 1, 100, dice));
        assert_eq!(waits, [Some(600), Some(1_100), Some(1_600)]);
    }

    #[test]
    fn what_is_left_out_fits_what_is_given() {
        const HOUR: u64 = 3_600_000;
        let (first, longest) = (RetryPolicy::default().first_interval_ms, RetryPolicy::default().max_interval_ms);
        assert_eq!(RetryPolicy::intervals(None, None), (first, longest));
        assert_eq!(RetryPolicy::intervals(Some(HOUR), None), (HOUR, HOUR));
        assert_eq!(RetryPolicy::intervals(Some(5), None), (5, longest));
        assert_eq!(RetryPolicy::intervals(None, Some(500)), (500, 500));
        assert_eq!(RetryPolicy::intervals(Some(HOUR), Some(5)), (HOUR, 5), "said by hand: somebody has to look");
        let read: RetryPolicy = serde_json::from_str(&format!(r#"{{"first_interval_ms":{HOUR}}}"#)).unwrap();
        assert_eq!(next_retry(&RetryPolicy { jitter: 0.0, ..read }, 1, 0, 0.5), Some(HOUR as Millis));
        assert!(serde_json::from_str::<RetryPolicy>(r#"{"first_interval":1}"#).is_err());
    }

    #[test]
    fn a_policy_says_what_is_wrong_with_it() {
        let wrong = |change: fn(&mut RetryPolicy)| {
            let mut policy = RetryPolicy::default();
            change(&mut policy);
            policy.check().unwrap_err()
        };
        assert!(wrong(|p| p.max_attempts = 0).contains("max_attempts"));
        assert!(wrong(|p| p.factor = 0.5).contains("factor"));
        assert!(wrong(|p| p.factor = f64::NAN).contains("factor"));
        assert!(wrong(|p| p.jitter = 1.5).contains("jitter"));
        assert!(wrong(|p| p.max_interval_ms = u64::MAX).contains("365 days"));
        assert!(wrong(|p| p.first_interval_ms = 600_001).contains("is longer than the longest one (600000 ms)"));
        assert!(wrong(|p| p.non_retryable = vec![String::new(); 101]).contains("non_retryable"));
        assert_eq!(RetryPolicy::default().check(), Ok(()));
    }

    proptest! {
        #[test]
        fn a_retry_is_never_early_nor_beyond_the_longest_interval(
            attempt in 0u32..20_000, first in 0u64..INTERVAL_MS_MAX, longest in 0u64..INTERVAL_MS_MAX,
            factor in 1.0f64..100.0, jitter in 0.0f64..1.0, dice in 0.0f64..1.0, now in 0i64..1 << 45,
        ) {
            let policy = RetryPolicy {
                max_attempts: ATTEMPTS_MAX, first_interval_ms: first, factor, max_interval_ms: longest, jitter,
                non_retryable: vec![],
            };
            match next_retry(&policy, attempt, now, dice) {
                Some(at) => prop_assert!(at >= now && at <= now + longest as i64 + 1),
                None => prop_assert!(attempt >= ATTEMPTS_MAX),
            }
        }
    }
}
