//! Time zones, as spans with one offset from UTC each. The data of all zones is inside the program.

use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Seconds since 1970-01-01: in UTC, or on a clock on the wall.
pub(crate) type Seconds = i64;

/// A time zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Zone(TimeZone);

/// A span of time in which the clocks of a zone are not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// When it begins; `None` for the first.
    pub begins: Option<Seconds>,
    /// When the next one begins; `None` for the last.
    pub ends: Option<Seconds>,
    /// What clocks show beyond UTC.
    pub offset: Seconds,
    /// What they showed in the span before.
    pub offset_before: Seconds,
}

impl Zone {
    /// The zone with this IANA name.
    pub(crate) fn named(name: &str) -> Option<Zone> {
        static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();
        ZONES.get_or_init(TimeZoneDatabase::bundled).get(name).ok().map(Zone)
    }

    /// The span that a moment is in. Moments no calendar of ours knows are in none.
    pub(crate) fn span(&self, at: Seconds) -> Option<Span> {
        let moment = Timestamp::from_second(at).ok()?;
        let offset = |at: Timestamp| Seconds::from(self.0.to_offset(at).seconds());
        let after = Timestamp::from_second(at.checked_add(1)?).ok()?;
        let begins = self.0.preceding(after).next().map(|change| change.timestamp());
        let before = begins.and_then(|begins| Timestamp::from_second(begins.as_second() - 1).ok());
        Some(Span {
            begins: begins.map(Timestamp::as_second),
            ends: self.0.following(moment).next().map(|change| change.timestamp().as_second()),
            offset: offset(moment),
            offset_before: before.map_or_else(|| offset(moment), offset),
        })
    }
}
