//! Which part of a file a request asks for: RFC 9110, sections 13 and 14. Pure.

use std::ops::Range;

use http::{HeaderMap, Method, header};

/// What to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// All of it: 200.
    Whole,
    /// A part that is inside of it and not empty: 206.
    Part(Range<u64>),
    /// The client has it already: 304.
    NotModified,
    /// It is not what the client believes: 412.
    PreconditionFailed,
    /// There is no such part: 416.
    NotSatisfiable,
}

/// Decides, in the order that section 13.2.2 sets. `etag` is the file's, with its quotes.
pub(super) fn wanted(method: &Method, headers: &HeaderMap, size: u64, etag: &str) -> Wanted {
    if headers.contains_key(header::IF_MATCH) && !names(headers, header::IF_MATCH, etag, Comparison::Strong) {
        return Wanted::PreconditionFailed;
    }
    if names(headers, header::IF_NONE_MATCH, etag, Comparison::Weak) {
        return Wanted::NotModified;
    }
    // Ranges are defined for GET alone.
    if *method != Method::GET || !if_range_holds(headers, etag) {
        return Wanted::Whole;
    }
    let mut values = headers.get_all(header::RANGE).iter();
    match (values.next().and_then(|value| value.to_str().ok()), values.next()) {
        (Some(value), None) => range(value, size),
        _ => Wanted::Whole,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Strong,
    Weak,
}

/// True when a list of entity tags holds this one, or is `*`.
fn names(headers: &HeaderMap, name: header::HeaderName, etag: &str, comparison: Comparison) -> bool {
    let values = headers.get_all(name);
    // Our tags hold no commas, so cutting a list there cannot make one of ours out of another's.
    values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim).any(|tag| {
        let opaque = match comparison {
            Comparison::Strong => tag,
            Comparison::Weak => tag.strip_prefix("W/").unwrap_or(tag),
        };
        tag == "*" || opaque == etag
    })
}

/// Without `If-Range` a range is always wanted; with it, only from the file the client has a part of. A date says too little:
/// there is none of ours to compare it with.
fn if_range_holds(headers: &HeaderMap, etag: &str) -> bool {
    headers.get(header::IF_RANGE).is_none_or(|value| value.as_bytes() == etag.as_bytes())
}

/// Reads a `Range`. One that is not understood is passed over, as is one of several parts: section 14.2 allows both.
fn range(value: &str, size: u64) -> Wanted {
    let Some((unit, set)) = value.split_once('=') else { return Wanted::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Wanted::Whole;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return Wanted::Whole };
    match (number(first), number(last)) {
        (Number::Absent, Number::Value(0)) => Wanted::NotSatisfiable,
        // There are no last bytes of an empty file; all of it is the closest there is.
        (Number::Absent, Number::Value(_)) if size == 0 => Wanted::Whole,
        (Number::Absent, Number::Value(length)) => Wanted::Part(size.saturating_sub(length)..size),
        (Number::Value(first), Number::Value(last)) if first > last => Wanted::Whole,
        (Number::Value(first), Number::Absent | Number::Value(_)) if first >= size => Wanted::NotSatisfiable,
        (Number::Value(first), Number::Absent) => Wanted::Part(first..size),
        (Number::Value(first), Number::Value(last)) => Wanted::Part(first..size.min(last.saturating_add(1))),
        (Number::Absent, Number::Absent) | (Number::Wrong, _) | (_, Number::Wrong) => Wanted::Whole,
    }
}

enum Number {
    Absent,
    Value(u64),
    Wrong,
}

/// Digits only. A number too large to hold is larger than any file.
fn number(text: &str) -> Number {
    match text {
        "" => Number::Absent,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => Number::Value(digits.parse().unwrap_or(u64::MAX)),
        _ => Number::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ETAG: &str = "\"abc\"";

    fn ask(method: Method, fields: &[(header::HeaderName, &str)], size: u64) -> Wanted {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.parse().unwrap());
        }
        wanted(&method, &headers, size, ETAG)
    }

    fn get(range: &str, size: u64) -> Wanted {
        ask(Method::GET, &[(header::RANGE, range)], size)
    }

    #[test]
    fn single_ranges_are_cut_to_the_file() {
        assert_eq!(get("bytes=0-0", 10), Wanted::Part(0..1));
        assert_eq!(get("bytes=3-", 10), Wanted::Part(3..10));
        assert_eq!(get("bytes=3-99", 10), Wanted::Part(3..10));
        assert_eq!(get("bytes=-4", 10), Wanted::Part(6..10));
        assert_eq!(get("bytes=-99", 10), Wanted::Part(0..10));
        assert_eq!(get("BYTES=9-9", 10), Wanted::Part(9..10));
        assert_eq!(get("bytes=0-99999999999999999999999", 10), Wanted::Part(0..10));
        assert_eq!(get("bytes=0-18446744073709551615", 10), Wanted::Part(0..10));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for range in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(get(range, 10), Wanted::NotSatisfiable, "{range}");
        }
        assert_eq!(get("bytes=0-", 0), Wanted::NotSatisfiable);
        assert_eq!(get("bytes=-5", 0), Wanted::Whole);
    }

    #[test]
    fn what_is_not_understood_is_passed_over() {
        for range in
            ["bytes=5-4", "bytes=-", "bytes=a-b", "bytes=+1-2", "bytes", "lines=1-2", "bytes=0-1,3-4", "bytes=1"]
        {
            assert_eq!(get(range, 10), Wanted::Whole, "{range}");
        }
        assert_eq!(ask(Method::HEAD, &[(header::RANGE, "bytes=0-0")], 10), Wanted::Whole);
        assert_eq!(ask(Method::GET, &[(header::RANGE, "bytes=0-0"), (header::RANGE, "bytes=1-1")], 10), Wanted::Whole);
    }

    #[test]
    fn conditions_come_before_ranges() {
        let range = (header::RANGE, "bytes=99-");
        let ask = |name: header::HeaderName, value: &str| ask(Method::GET, &[(name, value), range.clone()], 10);
        assert_eq!(ask(header::IF_MATCH, "\"other\""), Wanted::PreconditionFailed);
        assert_eq!(ask(header::IF_MATCH, "W/\"abc\""), Wanted::PreconditionFailed, "weak tags never match strongly");
        assert_eq!(ask(header::IF_MATCH, "\"other\", \"abc\""), Wanted::NotSatisfiable);
        assert_eq!(ask(header::IF_MATCH, "*"), Wanted::NotSatisfiable);
        assert_eq!(ask(header::IF_NONE_MATCH, "W/\"abc\""), Wanted::NotModified);
        assert_eq!(ask(header::IF_NONE_MATCH, "\"x\",\"abc\""), Wanted::NotModified);
        assert_eq!(ask(header::IF_NONE_MATCH, "*"), Wanted::NotModified);
        assert_eq!(ask(header::IF_NONE_MATCH, "\"other\""), Wanted::NotSatisfiable);
        assert_eq!(ask(header::IF_RANGE, ETAG), Wanted::NotSatisfiable);
        assert_eq!(ask(header::IF_RANGE, "\"other\""), Wanted::Whole);
        assert_eq!(ask(header::IF_RANGE, "W/\"abc\""), Wanted::Whole);
        assert_eq!(ask(header::IF_RANGE, "Wed, 21 Oct 2015 07:28:00 GMT"), Wanted::Whole);
    }

    proptest! {
        /// The answer is what taking bytes of a vector would give.
        #[test]
        fn a_range_is_what_a_slice_is(size in 0u64..50, first in proptest::option::of(0u64..60), last in proptest::option::of(0u64..60)) {
            let text = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
            let file: Vec<u64> = (0..size).collect();
            let expected: Option<Vec<u64>> = match (first, last) {
                (None, None) => None,
                (Some(first), Some(last)) if first > last => None,
                (None, Some(length)) => Some(file.iter().rev().take(length as usize).rev().copied().collect()),
                (Some(first), last) => {
                    Some(file.iter().copied().filter(|at| *at >= first && last.is_none_or(|last| *at <= last)).collect())
                }
            };
            match (get(&format!("bytes={}-{}", text(first), text(last)), size), expected) {
                (Wanted::Part(range), Some(bytes)) => {
                    prop_assert!(!range.is_empty());
                    prop_assert_eq!(range.collect::<Vec<_>>(), bytes);
                }
                (Wanted::NotSatisfiable, Some(bytes)) => prop_assert!(bytes.is_empty()),
                (Wanted::Whole, None) => (),
                (Wanted::Whole, Some(_)) => prop_assert!(size == 0 && first.is_none()),
                (other, expected) => prop_assert!(false, "{other:?} for {expected:?}"),
            }
        }

        #[test]
        fn no_header_makes_a_part_that_is_not_there(value in "[ -~]{0,30}", size: u64) {
            if let Wanted::Part(range) = get(&value, size) {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }
    }
}
