//! Addresses of lists.

use crate::query::{Query, escape};
use crate::view::View;

/// The list of runs that these tokens find: a name and a value each.
pub fn runs(view: &View, tokens: &[(&str, &str)]) -> String {
    let words: Vec<String> = tokens.iter().map(|(name, value)| token(name, value)).collect();
    view.href(&Query::default().with("q", words.join(" ")).at("/runs"))
}

fn token(name: &str, value: &str) -> String {
    let is_plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\');
    match is_plain {
        true => format!("{name}:{value}"),
        false => format!("{name}:\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// The page of a queue, without the namespace.
pub fn queue_path(name: &str) -> String {
    format!("/queues/{}", escape(name))
}

/// A text as one word of a shell.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@[]".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_whatever_is_in_it() {
        assert_eq!(word("mail"), "mail");
        assert_eq!(word("two words"), "'two words'");
        assert_eq!(word("it's $(rm)"), r"'it'\''s $(rm)'");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn values_with_spaces_and_quotes_are_one_token() {
        let table = [
            ("mail", "queue:mail"),
            ("two words", r#"queue:"two words""#),
            ("a\"b\\", r#"queue:"a\"b\\""#),
            ("", r#"queue:"""#),
        ];
        table.iter().for_each(|(value, text)| assert_eq!(token("queue", value), *text));
    }
}
