//! How numbers, times and names are written, everywhere alike.

use std::borrow::Cow;

use baton_core::Millis;
pub use baton_core::readable::{counted, duration, number};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// What is missing, which is something else than 0.
pub const MISSING: &str = "–";
const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;

/// How long ago something was: as [`duration`], without the seconds once there are ten minutes.
pub fn age(ms: Millis) -> String {
    match ms {
        ..SECOND => "now".into(),
        _ if (10 * MINUTE..HOUR).contains(&ms) => format!("{} min", ms / MINUTE),
        _ => duration(ms),
    }
}

/// A count where there is little room: `1.0 M` from a million on.
pub fn short_number(count: u64) -> String {
    match count {
        ..1_000_000 => number(count),
        1_000_000..1_000_000_000 => format!("{:.1} M", count as f64 / 1e6),
        _ => format!("{:.1} G", count as f64 / 1e9),
    }
}

/// Something that is measured and not counted: `5.0`, `0.02`, `1,240`.
pub fn amount(value: f64) -> String {
    match value {
        value if !value.is_finite() => MISSING.into(),
        0.0 => "0".into(),
        value if value < 0.1 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => number(value.round().max(0.0) as u64),
    }
}

/// A share of a whole, with one digit below ten per cent.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return MISSING.into();
    }
    match part as f64 * 100.0 / whole as f64 {
        share if share > 0.0 && share < 10.0 => format!("{share:.1} %"),
        share => format!("{share:.0} %"),
    }
}

/// Bytes in decimal units: `212 kB`, `48.1 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1_000 {
        return format!("{count} B");
    }
    let (mut value, mut unit) = (count as f64 / 1e3, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1e3, unit + 1);
    }
    if unit == 0 { format!("{value:.0} {}", UNITS[unit]) } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// The end of an identifier, which is where those submitted together differ: `…e9d1aa`.
pub fn short_id(id: &str) -> String {
    let digits: String = id.chars().filter(|c| *c != '-').collect();
    let cut = digits.char_indices().rev().nth(5).map_or(0, |(at, _)| at);
    format!("…{}", &digits[cut..])
}

/// Beginning and end of an identifier, for a title: `0199a3c4…0c2be9d1aa`.
pub fn title_id(id: &str) -> String {
    let digits: Vec<char> = id.chars().filter(|c| *c != '-').collect();
    if digits.len() <= 20 {
        return digits.into_iter().collect();
    }
    let (head, tail) = (&digits[..8], &digits[digits.len() - 10..]);
    head.iter().chain(['…'].iter()).chain(tail).collect()
}

/// A name or a line that may hold anything, with control characters as pictures.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_shown = |c: char| !c.is_control() && !is_direction(c);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let picture = |c: char| match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        c if is_shown(c) => c,
        _ => '\u{fffd}',
    };
    Cow::Owned(text.chars().map(picture).collect())
}

/// Characters that turn the text around them, also beyond the element they stand in.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The first line of a message, at most this many characters of it.
pub fn first_line(text: &str, chars_max: usize) -> Cow<'_, str> {
    let line = text.trim_start().lines().next().unwrap_or_default();
    match line.char_indices().nth(chars_max) {
        Some((cut, _)) => Cow::Owned(format!("{}…", visible(&line[..cut]))),
        None => visible(line),
    }
}

/// How exact a clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// `09:32`
    Minutes,
    /// `09:32:10`
    Seconds,
    /// `09:32:10.6`
    Tenths,
}

/// A moment in the reader's zone: `09:32:10`, with the day when that is another one than today.
pub fn clock(at: Millis, now: Millis, zone: &TimeZone, precision: Precision) -> String {
    let (Some(at), Some(now)) = (zoned(at, zone), zoned(now, zone)) else { return MISSING.into() };
    let time = match precision {
        Precision::Minutes => at.strftime("%H:%M").to_string(),
        Precision::Seconds => at.strftime("%H:%M:%S").to_string(),
        Precision::Tenths => format!("{}.{}", at.strftime("%H:%M:%S"), at.millisecond() / 100),
    };
    let (day, today) = (at.date(), now.date());
    if day == today {
        return time;
    }
    if today.yesterday().is_ok_and(|other| other == day) {
        return format!("yesterday {time}");
    }
    if today.tomorrow().is_ok_and(|other| other == day) {
        return format!("tomorrow {time}");
    }
    let date = if day.year() == today.year() { at.strftime("%-d %b") } else { at.strftime("%-d %b %Y") };
    format!("{date} {time}")
}

/// A moment with everything: for titles.
pub fn full_time(at: Millis, zone: &TimeZone) -> String {
    zoned(at, zone).map_or_else(|| MISSING.into(), |at| at.strftime("%Y-%m-%d %H:%M:%S.%3f %Z").to_string())
}

/// A moment for programs.
pub fn iso(at: Millis) -> String {
    Timestamp::from_millisecond(at).map_or_else(|_| String::new(), |at| at.to_string())
}

fn zoned(at: Millis, zone: &TimeZone) -> Option<jiff::Zoned> {
    Some(Timestamp::from_millisecond(at).ok()?.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Millis = 24 * HOUR;

    #[test]
    fn ages_leave_out_seconds_after_ten_minutes() {
        assert_eq!(age(200), "now");
        assert_eq!(age(250_000), "4 min 10 s");
        assert_eq!(age(32 * MINUTE + 9_000), "32 min");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short_number(1_018_306), "1.0 M");
        assert_eq!(percent(207, 18_125), "1.1 %");
        assert_eq!(percent(0, 0), MISSING);
        assert_eq!(bytes(212_000), "212 kB");
        assert_eq!(bytes(48_100_000), "48.1 MB");
        assert_eq!(bytes(999_999), "1.0 MB");
        assert_eq!(amount(0.02), "0.02");
        assert_eq!(amount(5.0), "5.0");
    }

    #[test]
    fn identifiers_are_known_by_their_end() {
        let id = "0199a3c4-7d21-7aaa-8b0c-0c2be9d1aa55";
        assert_eq!(short_id(id), "…d1aa55");
        assert_eq!(title_id(id), "0199a3c4…2be9d1aa55");
        assert_eq!(short_id("x"), "…x");
    }

    #[test]
    fn clocks_name_the_day_when_it_is_another_one() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let now = "2026-11-14T08:46:31Z".parse::<Timestamp>().unwrap().as_millisecond();
        let at = |offset| clock(now + offset, now, &zone, Precision::Seconds);
        assert_eq!(at(0), "09:46:31");
        assert_eq!(at(-DAY), "yesterday 09:46:31");
        assert_eq!(at(DAY), "tomorrow 09:46:31");
        assert_eq!(at(-10 * DAY), "4 Nov 09:46:31");
        assert_eq!(at(-400 * DAY), "10 Oct 2025 10:46:31");
    }

    proptest! {
        #[test]
        fn no_text_keeps_a_control_character(text in any::<String>()) {
            let shown = visible(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_direction(c)));
            prop_assert_eq!(shown.chars().count(), text.chars().count());
        }

        #[test]
        fn every_moment_can_be_shown(at in any::<i64>(), now in any::<i64>()) {
            let _ = (clock(at, now, &TimeZone::UTC, Precision::Tenths), full_time(at, &TimeZone::UTC), iso(at));
            let _ = age(at);
        }
    }
}
