//! A token bucket: how many runs a rate-limited queue may hand out now.

use crate::Millis;

/// What a rate-limited queue remembers between two claims.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// Tokens left at `at`.
    pub tokens: f64,
    /// When `tokens` was true.
    pub at: Millis,
}

/// Takes up to `wanted` tokens from a bucket that fills with `per_second` and holds at most one second's worth
/// (at least one token). Returns how many were granted and the bucket afterwards.
pub fn take(bucket: Bucket, per_second: f64, now: Millis, wanted: u32) -> (u32, Bucket) {
    take_of(bucket, per_second, per_second.max(1.0), now, wanted)
}

/// As [`take`], from a bucket that holds at most `full` tokens.
pub fn take_of(bucket: Bucket, per_second: f64, full: f64, now: Millis, wanted: u32) -> (u32, Bucket) {
    // A clock that went backwards must not drain the bucket.
    let elapsed = (now - bucket.at).max(0) as f64 / 1_000.0;
    let tokens = (bucket.tokens + elapsed * per_second).min(full);
    let granted = (tokens.floor().max(0.0) as u32).min(wanted);
    (granted, Bucket { tokens: tokens - f64::from(granted), at: now })
}

/// How long until the bucket holds a whole token again.
pub fn wait_ms(bucket: Bucket, per_second: f64, now: Millis) -> Millis {
    let (_, bucket) = take(bucket, per_second, now, 0);
    if bucket.tokens >= 1.0 || per_second <= 0.0 {
        return 0;
    }
    ((1.0 - bucket.tokens) / per_second * 1_000.0).ceil() as Millis
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_bucket_allows_a_burst_and_fills_at_its_rate() {
        let (granted, bucket) = take_of(Bucket { tokens: 10.0, at: 0 }, 2.0, 10.0, 0, 20);
        assert_eq!(granted, 10);
        assert_eq!(wait_ms(bucket, 2.0, 0), 500);
        assert_eq!(take_of(bucket, 2.0, 10.0, 2_000, 20).0, 4);
        assert_eq!(take_of(bucket, 2.0, 10.0, 60_000, 20).0, 10, "and never holds more");
    }

    #[test]
    fn a_slow_rate_hands_out_one_at_a_time() {
        let (granted, bucket) = take(Bucket { tokens: 1.0, at: 0 }, 0.5, 0, 10);
        assert_eq!(granted, 1);
        assert_eq!(wait_ms(bucket, 0.5, 0), 2_000);
        assert_eq!(take(bucket, 0.5, 1_999, 10).0, 0);
        assert_eq!(take(bucket, 0.5, 2_000, 10).0, 1);
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_plus_one_burst(
            rate in 0.1f64..1_000.0, steps in proptest::collection::vec((0i64..500, 0u32..200), 1..60)
        ) {
            let (mut bucket, mut now, mut sum) = (Bucket { tokens: rate.max(1.0), at: 0 }, 0, 0u32);
            for (pause, wanted) in steps {
                now += pause;
                let (granted, left) = take(bucket, rate, now, wanted);
                bucket = left;
                sum += granted;
            }
            prop_assert!(f64::from(sum) <= rate.max(1.0) + rate * now as f64 / 1_000.0 + 0.001);
        }
    }
}
