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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_with_two_units() {
        assert_eq!(
            [850, 12_345, 250_000, 7_500_000, 273_600_000].map(show),
            ["850ms", "12.3s", "4m 10s", "2h 5m", "3d 4h"]
        );
    }
}
