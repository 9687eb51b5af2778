//! Sizes as people write them.

const UNITS: [(char, u64); 4] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];

/// Reads `512M` or `8G`; units are powers of 1024. A bare number is bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size like 512M, 8G or 1T");
    let trimmed = text.trim().trim_end_matches(['B', 'b', 'i']);
    let last = trimmed.chars().next_back().ok_or_else(wrong)?.to_ascii_uppercase();
    let (number, scale) = match UNITS.iter().find(|(unit, _)| *unit == last) {
        Some((_, scale)) => (&trimmed[..trimmed.len() - 1], *scale),
        None => (trimmed, 1),
    };
    if !number.chars().all(|c| c.is_ascii_digit()) {
        return Err(wrong());
    }
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(wrong)
}

/// As [`parse`], for what makes no sense when it is nothing.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    parse(text).and_then(|bytes| if bytes == 0 { Err("it must be more than nothing".into()) } else { Ok(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("1000"), Ok(1_000));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("8g"), Ok(8 << 30));
        assert_eq!(parse("1TiB"), Ok(1 << 40));
        for wrong in ["", "G", "-1G", "+1", "1.5G", "1X", "99999999999T"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(parse_positive("0G").is_err());
    }
}
