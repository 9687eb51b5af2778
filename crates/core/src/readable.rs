//! How lengths of time and counts are written for people, alike in the dashboard, the terminal and messages.

use crate::Millis;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// A length of time in two units at most: `0.4 s`, `58 s`, `2 min 14 s`, `3 h 02 min`, `17 d`.
pub fn duration(ms: Millis) -> String {
    let ms = ms.max(0);
    match ms {
        0..100 => format!("{ms} ms"),
        100..9_950 => format!("{}.{} s", (ms + 50) / SECOND, (ms + 50) % SECOND / 100),
        9_950..59_500 => format!("{} s", (ms + 500) / SECOND),
        59_500..HOUR => two(ms.max(MINUTE), MINUTE, "min", SECOND, "s"),
        HOUR..DAY => two(ms, HOUR, "h", MINUTE, "min"),
        _ if ms < 10 * DAY => two(ms, DAY, "d", HOUR, "h"),
        _ => format!("{} d", number((ms / DAY) as u64)),
    }
}

fn two(ms: Millis, large: Millis, large_name: &str, small: Millis, small_name: &str) -> String {
    match ms % large / small {
        0 => format!("{} {large_name}", ms / large),
        rest => format!("{} {large_name} {rest:02} {small_name}", ms / large),
    }
}

/// A count: `1,284`.
pub fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 run`, `2 runs`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let table = [
            (-5, "0 ms"),
            (0, "0 ms"),
            (99, "99 ms"),
            (100, "0.1 s"),
            (440, "0.4 s"),
            (8_149, "8.1 s"),
            (9_949, "9.9 s"),
            (9_950, "10 s"),
            (58_400, "58 s"),
            (59_500, "1 min"),
            (62_000, "1 min 02 s"),
            (134_000, "2 min 14 s"),
            (3_600_000, "1 h"),
            (10_920_000, "3 h 02 min"),
            (90_000_000, "1 d 01 h"),
            (17 * DAY + HOUR, "17 d"),
        ];
        table.iter().for_each(|(ms, text)| assert_eq!(duration(*ms), *text, "{ms}"));
    }

    #[test]
    fn numbers_are_grouped() {
        let table = [(0, "0"), (999, "999"), (1_284, "1,284"), (1_000_000, "1,000,000"), (1_018_306, "1,018,306")];
        table.iter().for_each(|(count, text)| assert_eq!(number(*count), *text));
        assert_eq!((counted(1, "run", "runs"), counted(2_000, "run", "runs")), ("1 run".into(), "2,000 runs".into()));
    }

    proptest! {
        #[test]
        fn every_length_can_be_written(ms in any::<Millis>()) {
            prop_assert!(!duration(ms).is_empty());
        }
    }
}
