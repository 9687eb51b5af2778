//! The query of an address: what a page shows is in it, so that it can be sent to a colleague.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What is escaped in a part of an address.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':').remove(b'*');

/// Names and values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads what stands behind the `?`, or the body of a form.
    pub fn parse(text: &str) -> Query {
        let decode = |part: &str| {
            let spaced = part.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8_lossy().replace('\0', "\u{fffd}")
        };
        let pairs = text.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(value))
        });
        Query(pairs.collect())
    }

    /// The first value with this name, unless it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, value)| own == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// All values with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// True when there is such a name, with whatever value.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }

    /// The same with this value instead of those with its name; without them when it is empty.
    #[must_use]
    pub fn with(&self, name: &str, value: impl Into<String>) -> Query {
        let mut all = self.without(name);
        let value = value.into();
        if !value.is_empty() {
            all.0.push((name.to_owned(), value));
        }
        all
    }

    /// The same without the values with this name.
    #[must_use]
    pub fn without(&self, name: &str) -> Query {
        Query(self.0.iter().filter(|(own, _)| own != name).cloned().collect())
    }

    /// The address of a path with this query.
    pub fn at(&self, path: &str) -> String {
        match self.0.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{self}"),
        }
    }
}

impl std::fmt::Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let parted = if index > 0 { "&" } else { "" };
            write!(f, "{parted}{}={}", escape(name), escape(value))?;
        }
        Ok(())
    }
}

/// A text as a part of an address.
pub fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// A part of a path, as it was meant.
pub fn unescape(part: &str) -> Option<String> {
    let text = percent_decode_str(part).decode_utf8().ok()?;
    (!text.contains('\0')).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_replaced_and_removed() {
        let query = Query::parse("state=waiting&q=a+b%20c&empty=");
        assert_eq!(query.get("q"), Some("a b c"));
        assert_eq!(query.get("empty"), None);
        assert!(query.has("empty"));
        let changed = query.without("empty").with("state", "failed");
        assert_eq!(changed.at("/runs"), "/runs?q=a%20b%20c&state=failed");
        assert_eq!(changed.with("state", "").with("q", "").at("/runs"), "/runs");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(pairs in prop::collection::vec(("[^\0]{1,9}", "[^\0]{1,20}"), 0..5)) {
            let query = Query(pairs);
            prop_assert_eq!(Query::parse(&query.to_string()), query);
        }
    }
}
