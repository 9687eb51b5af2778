//! Moments on the wire.

use std::fmt;

use baton_core::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, written as RFC 3339 in UTC with milliseconds; read as RFC 3339 in any offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Millis);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => f.write_str("never"),
        }
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
}
