//! How often, and how fast, something that failed is tried again.

use std::time::Duration;

use baton_proto::v1;

use super::time::duration;

/// How often, and how fast, a step or a workflow that failed is tried again. What is not given is the server's default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RetryPolicy {
    policy: v1::RetryPolicy,
}

impl RetryPolicy {
    /// The server's default: three attempts.
    pub fn new() -> RetryPolicy {
        RetryPolicy::default()
    }

    /// So many attempts in all, the first one included.
    pub fn attempts(attempts: u32) -> RetryPolicy {
        RetryPolicy { policy: v1::RetryPolicy { max_attempts: attempts.max(1), ..v1::RetryPolicy::default() } }
    }

    /// One attempt and no other.
    pub fn never() -> RetryPolicy {
        RetryPolicy::attempts(1)
    }

    /// The wait before the second attempt; 1 s unless given.
    pub fn first_interval(mut self, interval: Duration) -> RetryPolicy {
        self.policy.first_interval = Some(duration(interval));
        self
    }

    /// Each wait is this many times the one before; 1 to 100, 2 unless given.
    pub fn factor(mut self, factor: f64) -> RetryPolicy {
        self.policy.factor = factor;
        self
    }

    /// No wait is longer than this; 10 minutes unless given, or the first interval when that is longer.
    pub fn longest_interval(mut self, interval: Duration) -> RetryPolicy {
        self.policy.longest_interval = Some(duration(interval));
        self
    }

    /// The share of the wait that is left to chance, 0 to 1; a tenth unless given.
    pub fn jitter(mut self, jitter: f64) -> RetryPolicy {
        self.policy.jitter = Some(jitter);
        self
    }

    /// Codes of errors that are not tried again.
    pub fn non_retryable<C: Into<String>>(mut self, codes: impl IntoIterator<Item = C>) -> RetryPolicy {
        self.policy.non_retryable.extend(codes.into_iter().map(Into::into));
        self
    }

    pub(crate) fn to_wire(&self) -> v1::RetryPolicy {
        self.policy.clone()
    }
}
