//! What was measured, as lines of JSON for programs and as a table for people.

use serde::Serialize;

use crate::output::{Table, print_line};

/// One figure. The drivers of the peers in bench/peers print the same shape.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Who was measured.
    pub peer: String,
    /// What of it.
    pub metric: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// Under which settings.
    pub settings: String,
}

/// What a figure has to keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Floor {
    fn met(self, value: f64) -> bool {
        match self {
            Floor::AtMost(most) => value <= most,
            Floor::AtLeast(least) => value >= least,
        }
    }
}

impl std::fmt::Display for Floor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Floor::AtMost(most) => write!(f, "at most {}", readable(*most)),
            Floor::AtLeast(least) => write!(f, "at least {}", readable(*least)),
        }
    }
}

/// Collects figures, and prints them as they come or at the end.
pub struct Report {
    json: bool,
    figures: Vec<Figure>,
    missed: bool,
}

impl Report {
    /// Nothing yet.
    pub fn new(json: bool) -> Report {
        Report { json, figures: Vec::new(), missed: false }
    }

    /// Adds a figure.
    pub fn add(&mut self, peer: &str, metric: &str, value: f64, unit: &'static str, settings: impl Into<String>) {
        let value = (value * 1e3).round() / 1e3;
        let figure = Figure { peer: peer.into(), metric: metric.into(), value, unit, settings: settings.into() };
        if self.json {
            print_line(serde_json::to_string(&figure).unwrap_or_default());
        }
        self.figures.push(figure);
    }

    /// Adds a figure that has a floor.
    pub fn check(&mut self, peer: &str, metric: &str, value: f64, unit: &'static str, floor: Floor) {
        let met = floor.met(value);
        self.missed |= !met;
        self.add(peer, metric, value, unit, format!("floor: {floor}: {}", if met { "met" } else { "MISSED" }));
    }

    /// What was measured so far.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// True when a floor was missed.
    pub fn missed(&self) -> bool {
        self.missed
    }

    /// Prints the table, unless the lines have been printed.
    pub fn print(&self) {
        if self.json {
            return;
        }
        let mut table = Table::new(&["who", "what", "value", "unit", "settings"]);
        for figure in &self.figures {
            let value = readable(figure.value);
            table.row([figure.peer.as_str(), &figure.metric, &format!("{value:>10}"), figure.unit, &figure.settings]);
        }
        print_line(table);
    }
}

/// A number with as many digits as mean something, in groups of three.
pub fn readable(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    if value < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let grouped: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    grouped.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let shown: Vec<_> = [0.456, 99.0, 100.0, 1_234.5, 1_000_000.0, f64::NAN].into_iter().map(readable).collect();
        assert_eq!(shown, ["0.46", "99.00", "100", "1,234", "1,000,000", "-"]);
    }

    #[test]
    fn a_figure_that_is_no_number_misses_its_floor() {
        for (value, floor, missed) in [
            (1.0, Floor::AtMost(1.0), false),
            (1.1, Floor::AtMost(1.0), true),
            (0.9, Floor::AtLeast(1.0), true),
            (f64::NAN, Floor::AtMost(1.0), true),
        ] {
            let mut report = Report::new(false);
            report.check("x", "y", value, "z", floor);
            assert_eq!(report.missed(), missed, "{value} {floor}");
        }
    }
}
