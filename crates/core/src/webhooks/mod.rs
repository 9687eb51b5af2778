//! Webhooks: where one may call, when it tries again, and how it signs. docs/adr/0029 has the reasons.

mod address;
mod backoff;
mod signature;

pub use address::{AllowedTargets, is_public};
pub use backoff::{Answer, Backoff, DELAYS_MAX, NextStep};
pub use signature::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRET_PREFIX, signature};

use crate::Millis;

/// Deliveries that may wait for one receiver; what does not fit is counted, and told once there is room.
pub const BACKLOG_MAX: u64 = 10_000;
/// Once a receiver has missed something, it is told of new events when so many fit again.
pub const BACKLOG_ROOM_MIN: u64 = BACKLOG_MAX / 10;

/// How many of so many new events are delivered, and whether those that were missed before are told of now. The rest is
/// missed, and once one is missed so are all until there is room for many.
pub fn room(waiting: u64, missed: u64, new: u64) -> (u64, bool) {
    let room = BACKLOG_MAX.saturating_sub(waiting);
    match missed {
        0 => (room.min(new), false),
        _ if room < BACKLOG_ROOM_MIN => (0, false),
        // Telling takes one place itself.
        _ => ((room - 1).min(new), true),
    }
}

/// Whether a receiver that has not taken anything since `failing_since` is given up.
pub fn is_given_up(failing_since: Option<Millis>, now: Millis, disable_after_ms: Millis) -> bool {
    failing_since.is_some_and(|since| now.saturating_sub(since) >= disable_after_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_missed_until_there_is_room_for_many() {
        let cases = [
            ((0, 0, 10), (10, false)),
            ((BACKLOG_MAX - 3, 0, 10), (3, false)),
            ((BACKLOG_MAX, 0, 10), (0, false)),
            ((BACKLOG_MAX + 5, 0, 10), (0, false)),
            ((BACKLOG_MAX - 3, 7, 10), (0, false)),
            ((BACKLOG_MAX - BACKLOG_ROOM_MIN, 7, 10), (10, true)),
            ((BACKLOG_MAX - BACKLOG_ROOM_MIN, 7, 2_000), (BACKLOG_ROOM_MIN - 1, true)),
            ((0, 7, 0), (0, true)),
        ];
        for ((waiting, missed, new), expected) in cases {
            assert_eq!(room(waiting, missed, new), expected, "{waiting} wait, {missed} missed, {new} new");
        }
    }

    #[test]
    fn a_receiver_is_given_up_after_days_of_nothing_but_failures() {
        assert!(!is_given_up(None, 1_000, 10));
        assert!(!is_given_up(Some(991), 1_000, 10));
        assert!(is_given_up(Some(990), 1_000, 10));
    }
}
