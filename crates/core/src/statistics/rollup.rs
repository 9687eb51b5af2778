//! How long statistics are kept at which resolution, and what is put together when.
//!
//! Statistics are written in blocks of a minute with buckets of 10 seconds. What is too old for these is put together to blocks of
//! an hour with buckets of a minute, and later to blocks of a day with buckets of an hour. Blocks of the same time add up, whoever
//! wrote them and at whatever resolution, so nothing depends on who puts which together in which order.

use super::floor;
use crate::Millis;

/// A second.
const SECOND: Millis = 1_000;
/// A minute.
pub const MINUTE: Millis = 60 * SECOND;
/// An hour.
pub const HOUR: Millis = 60 * MINUTE;
/// A day.
pub const DAY: Millis = 24 * HOUR;
/// The length of the shortest buckets.
pub const STEP: Millis = 10 * SECOND;
/// What is looked back on is kept for so much longer: the first step of a chart may begin up to an hour earlier, and clocks and
/// passes are not exact.
const SLACK: Millis = HOUR + 5 * MINUTE;
/// The longest stretch that is shown.
pub const KEPT: Millis = 31 * DAY;

/// A resolution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Resolution {
    /// Buckets of 10 seconds, in blocks of a minute.
    Seconds,
    /// Buckets of a minute, in blocks of an hour.
    Minutes,
    /// Buckets of an hour, in blocks of a day.
    Hours,
}

impl Resolution {
    /// All of them, finest first.
    pub const ALL: [Resolution; 3] = [Resolution::Seconds, Resolution::Minutes, Resolution::Hours];

    /// The length of a bucket.
    pub fn step_ms(self) -> Millis {
        match self {
            Resolution::Seconds => STEP,
            Resolution::Minutes => MINUTE,
            Resolution::Hours => HOUR,
        }
    }

    /// The length of a block.
    pub fn block_ms(self) -> Millis {
        match self {
            Resolution::Seconds => MINUTE,
            Resolution::Minutes => HOUR,
            Resolution::Hours => DAY,
        }
    }

    /// The stretch for which it is shown.
    pub fn shown_ms(self) -> Millis {
        match self {
            Resolution::Seconds => HOUR,
            Resolution::Minutes => DAY,
            Resolution::Hours => KEPT,
        }
    }

    /// The resolution whose buckets have this length.
    pub fn of_step(step_ms: Millis) -> Option<Resolution> {
        Resolution::ALL.into_iter().find(|resolution| resolution.step_ms() == step_ms)
    }

    /// What is put together to blocks of this resolution: finer blocks, and further ones of it, that began before this moment.
    pub fn takes_before(self, now: Millis) -> Option<Millis> {
        let finer = match self {
            Resolution::Seconds => return None,
            Resolution::Minutes => Resolution::Seconds,
            Resolution::Hours => Resolution::Minutes,
        };
        Some(floor(now - finer.shown_ms() - SLACK, self.block_ms()))
    }
}

/// What ended before this moment is deleted.
pub fn kept_since(now: Millis) -> Millis {
    floor(now - KEPT - SLACK, DAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_shown_is_still_there(now in 0_i64..10_000_000_000_000) {
            for coarser in [Resolution::Minutes, Resolution::Hours] {
                let before = coarser.takes_before(now).unwrap();
                let finer = if coarser == Resolution::Minutes { Resolution::Seconds } else { Resolution::Minutes };
                // A whole block of the coarser resolution is taken, and all of it is out of sight.
                prop_assert_eq!(before, floor(before, coarser.block_ms()));
                prop_assert!(before <= floor(now, finer.step_ms()) - finer.shown_ms());
                // And it does not stay much longer.
                prop_assert!(before > now - finer.shown_ms() - SLACK - coarser.block_ms());
            }
            prop_assert!(kept_since(now) <= floor(now, HOUR) - KEPT);
            prop_assert_eq!(Resolution::Seconds.takes_before(now), None);
        }
    }
}
