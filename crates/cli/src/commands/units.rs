//! The units of the API, for people who type others.

use crate::duration;

/// What the API counts in and nobody types: the names of its fields end with it.
#[derive(Clone, Copy)]
pub enum Unit {
    Milliseconds,
    Mebibytes,
}

impl Unit {
    /// The unit of a field, by its name.
    pub fn of(field: &str) -> Option<Unit> {
        match field.rsplit('_').next() {
            Some("ms") => Some(Unit::Milliseconds),
            Some("mib") => Some(Unit::Mebibytes),
            Some(_) | None => None,
        }
    }

    /// A number with its unit. Numbers of milliseconds that are this small are something else, as in "365 days".
    pub fn write(self, word: &str) -> Option<String> {
        let number: u64 = word.parse().ok()?;
        match self {
            Unit::Milliseconds => (number >= 1_000).then(|| duration::exact(number)),
            Unit::Mebibytes => Some(format!("{number} MiB")),
        }
    }
}
