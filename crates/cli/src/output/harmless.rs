//! Words of other people, on somebody's terminal.

/// True for what a terminal obeys instead of showing it, and for what turns the direction of a line around.
pub fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The length of the colour sequence `ESC [ ... m` that the text begins with.
pub fn colour(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let length = parameters.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
    parameters[length..].starts_with('m').then_some(length + 3)
}

/// One line, without anything that steers the terminal.
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if steers(letter) { ' ' } else { letter }).collect()
}

/// Text of several lines that may be coloured, without anything else that steers the terminal.
pub fn lines(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = colour(rest).unwrap_or(letter.len_utf8());
        match length > letter.len_utf8() || matches!(letter, '\n' | '\t') || !steers(letter) {
            true => harmless.push_str(&rest[..length]),
            false => harmless.push(char::REPLACEMENT_CHARACTER),
        }
        rest = &rest[length..];
    }
    harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_nothing_that_does() {
        assert_eq!(lines("a\tb\né \u{1b}[1;31mred\u{1b}[0m"), "a\tb\né \u{1b}[1;31mred\u{1b}[0m");
        assert_eq!(lines("\u{1b}]0;title\u{7}\u{1b}[2J\r"), "\u{fffd}]0;title\u{fffd}\u{fffd}[2J\u{fffd}");
        assert_eq!(lines("a\u{9b}31m\u{202e}b\u{2028}c"), "a\u{fffd}31m\u{fffd}b\u{fffd}c");
        assert_eq!(one_line("a\u{202e}b\nc\u{1b}[31m"), "a b c [31m");
    }
}
