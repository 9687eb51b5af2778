//! Spans of time as people write them.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 24 * 3_600_000)];

/// Reads `250ms`, `10s`, `1h30m`. A bare number is refused: it would mean seconds to one and milliseconds to another.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a span of time like 250ms, 10s, 5m, 1h30m or 2d");
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        total = number.checked_mul(*scale).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(Duration::from_millis(total))
}

/// As [`parse`], for what makes no sense when it takes no time.
pub fn parse_positive(text: &str) -> Result<Duration, String> {
    parse(text).and_then(|span| if span.is_zero() { Err("it must be longer than nothing".into()) } else { Ok(span) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_units() {
        let ms = |text| parse(text).map(|span| span.as_millis());
        assert_eq!(ms("250ms"), Ok(250));
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("1h30m"), Ok(5_400_000));
        assert_eq!(ms("2d"), Ok(172_800_000));
        for wrong in ["", "10", "s", "10 s", "-1s", "1.5s", "10parsecs", "99999999999999999999s", "9999999999999999d"] {
            assert!(ms(wrong).is_err(), "{wrong:?}");
        }
        assert!(parse_positive("0s").is_err() && parse_positive("1ms").is_ok());
    }
}
