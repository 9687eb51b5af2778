//! Lines that a build printed, on somebody's terminal.

use crate::output::harmless::{colour, steers};

/// The line without what could steer a terminal. Colours stay: `ESC [ ... m`.
pub fn printable(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some(length) = colour(rest) {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        match c {
            '\t' => shown.push(c),
            c if steers(c) => {}
            c => shown.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    // A line that ends in a colour must not colour what comes after it.
    if shown.contains('\u{1b}') {
        shown.push_str("\u{1b}[0m");
    }
    shown
}

/// How many there are of something.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Bytes as people read them.
pub fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_stay_and_everything_else_that_steers_goes() {
        assert_eq!(printable("a\tb é"), "a\tb é");
        assert_eq!(printable("\u{1b}[1;31mred"), "\u{1b}[1;31mred\u{1b}[0m");
        assert_eq!(printable("\u{1b}[2J\u{1b}]0;title\u{7}x\r\n"), "[2J]0;titlex");
        assert_eq!(printable("\u{1b}["), "[");
        assert_eq!(printable("\u{9b}31m"), "31m");
    }
}
