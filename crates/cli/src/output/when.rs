//! Moments as tables show them: how long ago, or how far ahead. By the clock of this machine, which need not be the server's.

use std::time::{SystemTime, UNIX_EPOCH};

use baton::proto::Time;
use baton_core::Millis;

/// The moment at which something is shown.
#[derive(Clone, Copy, Debug)]
pub struct Now(Millis);

impl Now {
    pub fn read() -> Now {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now(Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX))
    }

    /// `12s`, where there is no room for more.
    pub fn age(self, at: Time) -> String {
        span(self.0.saturating_sub(at.0))
    }

    /// `12s ago`.
    pub fn ago(self, at: Time) -> String {
        format!("{} ago", self.age(at))
    }

    /// `in 5h`, or `over`, where there is no room for more.
    pub fn until(self, at: Time) -> String {
        match at.0.saturating_sub(self.0) {
            ..=0 => "over".into(),
            ms => format!("in {}", span(ms)),
        }
    }

    /// `in 5h59m`, or `over`. With a second unit, because whoever waits for a moment wants to know it better.
    pub fn ahead(self, at: Time) -> String {
        match at.0.saturating_sub(self.0) {
            ..=0 => "over".into(),
            ms => format!("in {}{}", span(ms), rest(ms)),
        }
    }
}

/// The largest unit that fits.
pub(super) fn span(ms: Millis) -> String {
    match ms.max(0) / 1_000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// What [`span`] leaves over, in the unit below; nothing when that is nothing.
fn rest(ms: Millis) -> String {
    let (number, unit) = match ms.max(0) / 1_000 {
        0..60 => (0, ""),
        seconds @ 60..3_600 => (seconds % 60, "s"),
        seconds @ 3_600..86_400 => (seconds % 3_600 / 60, "m"),
        seconds => (seconds % 86_400 / 3_600, "h"),
    };
    if number == 0 { String::new() } else { format!("{number}{unit}") }
}

#[cfg(test)]
impl Now {
    pub fn at(ms: Millis) -> Now {
        Now(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_near_or_far() {
        let now = Now(100_000_000);
        let ago = |ms: Millis| now.ago(Time(100_000_000 - ms));
        assert_eq!([ago(0), ago(59_999), ago(60_000), ago(7_200_000)], ["0s ago", "59s ago", "1m ago", "2h ago"]);
        assert_eq!([ago(90_000_000), ago(-5_000)], ["1d ago", "0s ago"], "another clock may be ahead");
        let ahead = |ms: Millis| now.ahead(Time(100_000_000 + ms));
        assert_eq!([ahead(240_000), ahead(0), ahead(-1)], ["in 4m", "over", "over"]);
        assert_eq!([ahead(21_599_999), ahead(250_000), ahead(9_500)], ["in 5h59m", "in 4m10s", "in 9s"]);
        assert_eq!([ahead(90_000_000), ahead(86_400_000)], ["in 1d1h", "in 1d"]);
        let until = |ms: Millis| now.until(Time(100_000_000 + ms));
        assert_eq!([until(90_000_000), until(250_000), until(0)], ["in 1d", "in 4m", "over"]);
    }
}
