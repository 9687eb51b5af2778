//! Spans of time as people write and read them.

pub use baton_core::span::{parse, parse_positive};

/// Writes milliseconds with the two largest units that matter: `850ms`, `12.3s`, `4m 10s`, `2h 5m`, `3d 4h`.
pub fn show(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{}m {}s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000..86_400_000 => format!("{}h {}m", ms / 3_600_000, ms % 3_600_000 / 60_000),
        _ => format!("{}d {}h", ms / 86_400_000, ms % 86_400_000 / 3_600_000),
    }
}

/// Writes milliseconds as `parse` reads them, without loss: `6h`, `1h30m`, `1500ms`.
pub fn exact(ms: u64) -> String {
    if ms == 0 || !ms.is_multiple_of(1_000) {
        return format!("{ms}ms");
    }
    let seconds = ms / 1_000;
    let units = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    units.iter().filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_exactly_is_read_as_the_same() {
        for (ms, text) in [(21_600_000, "6h"), (5_400_000, "1h30m"), (1_500, "1500ms"), (31_536_000_000, "365d")] {
            assert_eq!(exact(ms), text);
            assert_eq!(parse(text).map(|span| span.as_millis()), Ok(u128::from(ms)));
        }
    }

    #[test]
    fn spans_are_shown_with_two_units() {
        assert_eq!(
            [850, 12_345, 250_000, 7_500_000, 273_600_000].map(show),
            ["850ms", "12.3s", "4m 10s", "2h 5m", "3d 4h"]
        );
    }
}
