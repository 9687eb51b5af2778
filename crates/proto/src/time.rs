//! Moments on the wire.

use std::cell::RefCell;
use std::fmt;

use baton_core::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, written as RFC 3339 in UTC with milliseconds; read as RFC 3339 in any offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Millis);

thread_local! {
    /// The last second that was written, and how. Most moments of an answer lie in the same one.
    static SECOND: RefCell<Option<(i64, String)>> = const { RefCell::new(None) };
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, millis) = (self.0.div_euclid(1_000), self.0.rem_euclid(1_000));
        SECOND.with_borrow_mut(|last| {
            if last.as_ref().is_none_or(|(known, _)| *known != second) {
                let Ok(at) = jiff::Timestamp::from_second(second) else { return f.write_str("never") };
                *last = Some((second, at.to_string()));
            }
            let text = last.as_ref().map_or("", |(_, text)| text.trim_end_matches('Z'));
            write!(f, "{text}.{millis:03}Z")
        })
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        if text == "never" {
            return Ok(Time(Millis::MAX));
        }
        let at: jiff::Timestamp =
            text.parse().map_err(|_| format!("{text:?} is not a time like 2026-01-31T09:30:00Z (RFC 3339)"))?;
        Ok(Time(at.as_millisecond()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a moment looks like that may never come.
#[cfg(feature = "schema")]
pub(crate) fn time_or_never() -> utoipa::openapi::schema::Schema {
    let never = utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::String)
        .enum_values(Some(["never"]));
    utoipa::openapi::OneOfBuilder::new().item(<Time as utoipa::PartialSchema>::schema()).item(never).build().into()
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(Time(1_767_225_600_000).to_string(), "2026-01-01T00:00:00.000Z");
        assert_eq!("2026-01-01T01:00:00.250+01:00".parse(), Ok(Time(1_767_225_600_250)));
        assert!("yesterday".parse::<Time>().unwrap_err().contains("RFC 3339"));
    }

    #[test]
    fn what_was_written_before_changes_nothing() {
        let moments =
            [0, 1, -1, 999, 1_000, 999, 1_767_225_600_250, i64::MAX, 1_767_225_600_251, i64::MIN, -62_167_219_200_001];
        for at in moments {
            let expected = jiff::Timestamp::from_millisecond(at).map(|at| format!("{at:.3}"));
            assert_eq!(Time(at).to_string(), expected.unwrap_or_else(|_| "never".into()), "{at}");
        }
    }
}
