//! What is wrong with the shape of a body or a query, in the words of the API instead of those of the parser.

use crate::Error;

/// Most bytes of what somebody sent that are said again.
const SAID_BYTES_MAX: usize = 200;

/// The refusal of a shape. `path` is where the parser was (`retry.max_attempts`, `runs[1].type`), `said` is what it said.
pub(super) fn refusal(path: &str, said: &str) -> Error {
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    // Where a name is unknown, the parser is at the name that it does not know.
    let place = path.trim_end_matches('?').trim_end_matches('.');
    let named = |prefix: &str| said.strip_prefix(prefix)?.split_once('`');
    if let Some((name, _)) = named("missing field `") {
        return Error::field(joined(place, name), "is needed");
    }
    if let Some((name, _)) = named("duplicate field `") {
        return Error::field(joined(place, name), "is there more than once");
    }
    if let Some((name, rest)) = named("unknown field `") {
        let known = rest.strip_prefix(", expected ").map(|known| known.trim_start_matches("one of ").replace('`', ""));
        let why = match known.as_deref() {
            Some("there are no fields") | None => "is not known here".to_owned(),
            Some(known) => format!("is not known here; what is: {known}"),
        };
        let parent = place.strip_suffix(name).unwrap_or(place).trim_end_matches('.');
        return Error::field(joined(parent, &cut(name)), cut_to(&why, 4 * SAID_BYTES_MAX));
    }
    let why = why(said);
    match place.is_empty() {
        true => Error::Invalid(format!("the body {why}")),
        false => Error::field(cut(place), why),
    }
}

fn joined(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{}.{name}", cut(place)) }
}

fn cut(text: &str) -> String {
    cut_to(text, SAID_BYTES_MAX)
}

fn cut_to(text: &str, most: usize) -> String {
    match text.char_indices().find(|(index, letter)| index + letter.len_utf8() > most) {
        Some((index, _)) => format!("{}...", &text[..index]),
        None => text.to_owned(),
    }
}

fn why(said: &str) -> String {
    match said {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            return "must be a whole number".into();
        }
        "number too large to fit in target type" => return "is too large".into(),
        "provided string was not `true` or `false`" => return "must be true or false".into(),
        // Lists would do, too, for whoever knows the order of the fields.
        _ if said.starts_with("invalid length ") && said.contains(", expected struct ") => {
            return "must be an object".into();
        }
        _ => {}
    }
    let parts = said.strip_prefix("invalid type: ").or_else(|| said.strip_prefix("invalid value: "));
    match parts.and_then(|parts| parts.rsplit_once(", expected ")) {
        Some((found, expected)) => format!("must be {}, not {}", wanted(expected), cut(&what(found))),
        None => match said.strip_prefix("unknown variant ") {
            Some(rest) => format!("must not be {}", cut_to(&rest.replace('`', ""), 4 * SAID_BYTES_MAX)),
            None => cut_to(&format!("is wrong: {said}"), 4 * SAID_BYTES_MAX),
        },
    }
}

/// What a type of Rust is called in JSON.
fn wanted(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        struct_name if struct_name.starts_with("struct ") => "an object",
        other => other,
    }
}

/// What was found, as it stands in JSON.
fn what(found: &str) -> String {
    let kinds = ["integer ", "floating point ", "boolean ", "string ", "character "];
    match found {
        "map" => "an object".into(),
        "sequence" => "a list".into(),
        "unit value" => "null".into(),
        _ => {
            let value = kinds.iter().find_map(|kind| found.strip_prefix(kind)).unwrap_or(found);
            value.trim_matches('`').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_parser_become_those_of_the_api() {
        let cases = [
            ("priority", "invalid type: string \"high\", expected u8 at line 1 column 29", "priority", {
                "must be a whole number from 0 to 255, not \"high\""
            }),
            (
                "retry.max_attempts",
                "invalid value: integer `-1`, expected u32 at line 1 column 4",
                { "retry.max_attempts" },
                "must be a whole number, 0 or more, not -1",
            ),
            ("", "missing field `type` at line 1 column 2", "type", "is needed"),
            ("runs[1]", "missing field `type`", "runs[1].type", "is needed"),
            ("runs[1].type", "invalid type: integer `1`, expected a string", "runs[1].type", "must be a string, not 1"),
            ("bogus", "unknown field `bogus`, expected one of `a`, `b`", "bogus", "is not known here; what is: a, b"),
            ("retry.bogus", "unknown field `bogus`, expected `a`", "retry.bogus", "is not known here; what is: a"),
            ("retry.?", "unknown field `bogus`, there are no fields", "retry.bogus", "is not known here"),
            ("limit", "invalid digit found in string", "limit", "must be a whole number"),
            ("labels", "invalid type: sequence, expected a map", "labels", "must be an object, not a list"),
            ("total", "provided string was not `true` or `false`", "total", "must be true or false"),
        ];
        for (path, said, field, why) in cases {
            assert_eq!(refusal(path, said), Error::field(field, why), "{path}: {said}");
        }
        let body = refusal("", "invalid type: sequence, expected struct SubmitRun at line 1 column 0");
        assert_eq!(body, Error::Invalid("the body must be an object, not a list".into()));
        let list = refusal("retry", "invalid length 2, expected struct RetryPolicy with 5 elements");
        assert_eq!(list, Error::field("retry", "must be an object"));
    }

    #[test]
    fn little_of_what_was_sent_is_said_again() {
        let long = "é".repeat(100_000);
        for said in [
            format!("unknown field `{long}`, expected `a`"),
            format!("invalid type: string \"{long}\", expected u8"),
            format!("unknown variant `{long}`, expected `a`"),
            format!("anything else {long}"),
        ] {
            assert!(refusal(&long, &said).to_string().len() < 2_000);
        }
    }
}
