//! What tables adapt to: the width, the colours and the moment.

use baton::proto::Time;

use super::color;
use super::when::{self, Now};

/// Columns where nobody says how many there are.
const COLUMNS_DEFAULT: usize = 80;
/// No table is made narrower than this.
const COLUMNS_MIN: usize = 40;
/// Characters of an identifier that are shown. Identifiers are made from the time and begin alike,
/// so it is the last ones.
const ID_CHARACTERS: usize = 6;
/// Shorter than this, text is no identifier that could be shortened.
const ID_LENGTH: usize = 36;

/// What tables adapt to.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns of the terminal; `None` where lines may have any length.
    pub(super) columns: Option<usize>,
    pub(super) is_wide: bool,
    pub(super) is_coloured: bool,
    /// The moment at which it is shown.
    pub now: Now,
}

impl Look {
    /// How the standard output is looked at.
    pub fn of_stdout(is_wide: bool) -> Look {
        let columns = (!is_wide).then(columns);
        Look { columns, is_wide, is_coloured: color::is_wanted(), now: Now::read() }
    }

    /// Without any limit or colour.
    pub(super) fn plain() -> Look {
        Look { columns: None, is_wide: false, is_coloured: false, now: Now::read() }
    }

    /// Whether lines may be of any length.
    pub fn is_wide(self) -> bool {
        self.is_wide
    }

    /// An identifier: its end, or all of it in a wide table.
    pub fn id(self, id: &str) -> String {
        match id.len() {
            ID_LENGTH if !self.is_wide && id.is_ascii() => id[ID_LENGTH - ID_CHARACTERS..].to_owned(),
            _ => id.to_owned(),
        }
    }

    /// A span of time where there is no room for more than its largest unit: `3m`.
    pub fn span(ms: u64) -> String {
        when::span(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// How long ago something was: `3m`.
    pub fn age(self, at: Time) -> String {
        self.now.age(at)
    }

    /// A moment of which everything counts: `2026-01-31T09:30:00.000Z (3m ago)`.
    pub fn moment(self, at: Time) -> String {
        match self.now.ahead(at).as_str() {
            "over" => format!("{at} ({})", self.now.ago(at)),
            ahead => format!("{at} ({ahead})"),
        }
    }
}

#[cfg(test)]
impl Look {
    /// A terminal of so many columns, at a moment.
    pub fn test(columns: usize, now: baton_core::Millis) -> Look {
        Look { columns: Some(columns), is_wide: false, is_coloured: false, now: Now::at(now) }
    }

    pub fn wide(self) -> Look {
        Look { columns: None, is_wide: true, ..self }
    }

    pub fn coloured(self) -> Look {
        Look { is_coloured: true, ..self }
    }
}

/// Columns and lines of the terminal behind the standard output.
pub(super) fn terminal() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some((usize::from(width.0), usize::from(height.0)))
}

/// What the environment says, or the terminal has, or everybody has.
fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    said.filter(|columns| *columns > 0).or_else(|| Some(terminal()?.0)).unwrap_or(COLUMNS_DEFAULT).max(COLUMNS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_shown_by_their_end() {
        let look = Look::test(80, 0);
        assert_eq!(look.id("0198c1f2-0000-7000-8000-00000cafe123"), "afe123");
        assert_eq!(look.wide().id("0198c1f2-0000-7000-8000-00000cafe123"), "0198c1f2-0000-7000-8000-00000cafe123");
        assert_eq!(look.id("ci-17"), "ci-17", "a name stays a name");
        assert_eq!(look.id(&"é".repeat(18)), "é".repeat(18));
    }

    #[test]
    fn a_moment_is_shown_with_its_distance() {
        let look = Look::test(80, 120_000);
        assert_eq!(look.moment(Time(0)), "1970-01-01T00:00:00.000Z (2m ago)");
        assert_eq!(look.moment(Time(180_000)), "1970-01-01T00:03:00.000Z (in 1m)");
    }
}
