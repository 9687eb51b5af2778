//! How texts, numbers and times are written here. Nothing that comes from a server reaches the terminal any other way.

use baton_core::Millis;
pub use baton_core::readable::{counted, duration, number};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
/// Marks on top of one letter that are shown. Some texts pile up hundreds.
const MARKS_MAX: usize = 3;
/// Characters of one text that are looked at: no line of a terminal has room for more.
const CHARS_MAX: usize = 2_000;

/// What is missing, which is something else than 0.
pub const MISSING: &str = "–";

/// A text that may hold anything, as a terminal may have it: control characters as pictures, nothing that turns the
/// direction of a line, and only signs whose width terminals agree on.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(CHARS_MAX));
    let end = text.char_indices().nth(CHARS_MAX).map_or(text.len(), |(end, _)| end);
    for grapheme in text[..end].graphemes(true) {
        let mut chars = grapheme.chars();
        let Some(first) = chars.next() else { continue };
        // A line's end of two characters is one grapheme.
        if first.is_control() {
            shown.extend(grapheme.chars().map(picture));
            continue;
        }
        shown.push(picture(first));
        // Signs that are joined to one, like families and flags, are as wide as each terminal thinks.
        let is_joined = |c: char| matches!(c, '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f1e6}'..='\u{1f1ff}');
        let marks = chars.take_while(|c| !is_joined(*c)).filter(|c| !is_hidden(*c));
        shown.extend(marks.filter(|c| !is_wide(*c)).take(MARKS_MAX));
    }
    shown
}

fn is_wide(c: char) -> bool {
    c.to_string().width() > 0
}

/// Characters that one does not see and that change what one sees.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{e0000}'..='\u{e007f}' | '\u{fff9}'..='\u{fffb}')
}

fn picture(c: char) -> char {
    match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        // A flag is two of these, and each terminal shows them in its own way.
        '\u{1f1e6}'..='\u{1f1ff}' => char::from_u32(u32::from('A') + u32::from(c) - 0x1f1e6).unwrap_or('\u{fffd}'),
        c if is_hidden(c) => '\u{fffd}',
        c => c,
    }
}

/// How many columns a text takes that is [`visible`].
pub fn width(text: &str) -> usize {
    text.width()
}

/// A text that is [`visible`], in at most this many columns.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let (mut shown, mut used) = (String::new(), 0);
    for grapheme in text.graphemes(true) {
        let wide = grapheme.width();
        if used + wide > columns - 1 {
            break;
        }
        used += wide;
        shown.push_str(grapheme);
    }
    shown.push('…');
    shown
}

/// A text that is [`visible`], in lines of at most this many columns, broken between words where there are some.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split_inclusive(' ') {
        if used > 0 && used + width(word.trim_end()) > columns {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        }
        for grapheme in word.graphemes(true) {
            let wide = grapheme.width();
            if used + wide > columns {
                if grapheme == " " {
                    continue;
                }
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push_str(grapheme);
            used += wide;
        }
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// How long ago something was, in whole seconds: it ticks.
pub fn age(ms: Millis) -> String {
    match ms {
        ..SECOND => "now".into(),
        _ if ms < MINUTE => format!("{} s", ms / SECOND),
        _ if (10 * MINUTE..HOUR).contains(&ms) => format!("{} min", ms / MINUTE),
        _ => duration(ms),
    }
}

/// How long until a moment: tenths below ten seconds, so that one sees it move.
pub fn countdown(ms: Millis) -> String {
    match ms.max(0) {
        ms if ms < 10 * SECOND => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        ms if ms < MINUTE => format!("{} s", ms / SECOND),
        ms => duration(ms),
    }
}

/// Something that is measured and not counted: `0.02`, `5.0`, `1,240`.
pub fn amount(value: f64) -> String {
    match value {
        value if !value.is_finite() => MISSING.into(),
        0.0 => "0".into(),
        value if value < 0.1 => format!("{value:.2}"),
        value if value < 100.0 && value.fract() != 0.0 => format!("{value:.1}"),
        value => number(value.round().max(0.0) as u64),
    }
}

/// The end of an identifier, which is where those submitted together differ: `…e9d1aa`.
pub fn short_id(id: &str) -> String {
    let digits: String = id.chars().filter(|c| *c != '-').collect();
    let cut = digits.char_indices().rev().nth(5).map_or(0, |(at, _)| at);
    format!("…{}", visible(&digits[cut..]))
}

/// A moment in the reader's zone: `09:32:10`, with the day when that is another one than today.
pub fn clock(at: Millis, now: Millis, zone: &TimeZone) -> String {
    let zoned = |at| Some(Timestamp::from_millisecond(at).ok()?.to_zoned(zone.clone()));
    let (Some(at), Some(now)) = (zoned(at), zoned(now)) else { return "never".into() };
    match at.date() == now.date() {
        true => at.strftime("%H:%M:%S").to_string(),
        false if at.year() == now.year() => at.strftime("%-d %b %H:%M:%S").to_string(),
        false => at.strftime("%-d %b %Y %H:%M:%S").to_string(),
    }
}

/// Values as bars from nothing to the largest of them; the newest ones when there are more than columns.
pub fn sparkline(values: &[Option<f64>], columns: usize, is_ascii: bool) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 8] = ['_', '.', ',', '-', '=', '+', '*', '#'];
    let bars = if is_ascii { ASCII } else { BARS };
    let values = &values[values.len().saturating_sub(columns)..];
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) if *value <= 0.0 || most <= 0.0 => bars[0],
        // What is not nothing is more than the lowest bar.
        Some(value) => bars[((value / most * 7.0).round() as usize).clamp(1, 7)],
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Millis = 24 * HOUR;

    #[test]
    fn what_steers_a_terminal_becomes_a_picture() {
        let table = [
            ("mail", "mail"),
            ("a\u{1b}[31mred\u{7}\0", "a␛[31mred␇␀"),
            ("two\r\nlines\tand", "two␍␊lines␉and"),
            ("\u{7f}\u{9b}2J", "␡\u{fffd}2J"),
            ("\u{202e}olleh\u{2066}", "\u{fffd}olleh\u{fffd}"),
            ("שלום", "שלום"),
            ("e\u{301}a", "e\u{301}a"),
            ("漢字", "漢字"),
            ("👨\u{200d}👩\u{200d}👧!", "👨!"),
            ("🇩🇪", "D"),
            ("❤\u{fe0f}", "❤"),
            ("\u{200b}x\u{feff}", "\u{fffd}x\u{fffd}"),
        ];
        for (text, shown) in table {
            assert_eq!(visible(text), shown, "{text:?}");
        }
        let piled = format!("a{}b", "\u{301}".repeat(500));
        assert_eq!(visible(&piled).chars().count(), 2 + MARKS_MAX);
        assert!(visible(&"x".repeat(100_000)).len() <= CHARS_MAX);
    }

    #[test]
    fn texts_are_cut_by_columns_and_not_by_letters() {
        let table = [
            ("mail", 4, "mail"),
            ("mails", 4, "mai…"),
            ("漢字漢字", 5, "漢字…"),
            ("漢字漢字", 4, "漢…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("x", 0, ""),
        ];
        for (text, columns, shown) in table {
            assert_eq!(cut(text, columns), shown, "{text:?} in {columns}");
            assert!(width(&cut(text, columns)) <= columns);
        }
    }

    #[test]
    fn long_texts_are_broken_between_words_and_never_too_wide() {
        assert_eq!(wrap("no worker serves it", 10), ["no worker", "serves it"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("0123456789abc d", 5), ["01234", "56789", "abc d"]);
        for text in ["漢字漢字漢字 漢", "a b c d e f", "   x   ", "averyveryverylongword and"] {
            assert!(wrap(text, 5).iter().all(|line| width(line) <= 5), "{text:?}: {:?}", wrap(text, 5));
        }
    }

    #[test]
    fn times_and_numbers_are_short() {
        let ages = [(0, "now"), (59_999, "59 s"), (61_000, "1 min 01 s"), (700_000, "11 min")];
        for (ms, text) in ages {
            assert_eq!(age(ms), text);
        }
        let countdowns = [(-1, "0.0 s"), (2_449, "2.4 s"), (12_900, "12 s"), (90_000, "1 min 30 s")];
        for (ms, text) in countdowns {
            assert_eq!(countdown(ms), text);
        }
        assert_eq!(
            (amount(0.0), amount(0.04), amount(5.25), amount(12.0)),
            ("0".into(), "0.04".into(), "5.2".into(), "12".into())
        );
        assert_eq!(short_id("0199a3c4-1111-7222-8333-0c2be9d1aa01"), "…d1aa01");
        assert_eq!(short_id("x"), "…x");
    }

    #[test]
    fn a_moment_says_its_day_when_that_is_not_today() {
        let (noon, zone) = (1_700_222_400_000, TimeZone::UTC);
        assert_eq!(clock(noon, noon + 1, &zone), "12:00:00");
        assert_eq!(clock(noon - DAY, noon, &zone), "16 Nov 12:00:00");
        assert_eq!(clock(0, noon, &zone), "1 Jan 1970 00:00:00");
        assert_eq!(clock(Millis::MAX, noon, &zone), "never");
    }

    #[test]
    fn a_sparkline_is_as_wide_as_there_are_values() {
        assert_eq!(sparkline(&[Some(0.0), None, Some(1.0), Some(100.0)], 10, false), "▁ ▂█");
        assert_eq!(sparkline(&[Some(9.0), Some(0.0), Some(3.0)], 2, true), "_#");
        assert_eq!(sparkline(&[], 10, false), "");
    }
}
