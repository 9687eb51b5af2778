//! Payloads, as people read them.

use maud::{Markup, PreEscaped, html};

use crate::format;

/// How much of a payload a page shows.
const PAYLOAD_SHOWN: usize = 4_096;

/// A payload: JSON with its parts coloured, cut where it is large.
pub fn json_block(text: &str) -> Markup {
    let pretty = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|value| serde_json::to_string_pretty(&value).ok())
        .unwrap_or_else(|| text.to_owned());
    let cut = pretty.char_indices().map(|(at, _)| at).find(|at| *at >= PAYLOAD_SHOWN);
    let shown = cut.map_or(pretty.as_str(), |at| &pretty[..at]);
    html! {
        pre.code dir="auto" { (PreEscaped(coloured(shown))) @if cut.is_some() { "…" } }
        @if cut.is_some() { p.hint { (format::bytes(text.len() as u64)) " in all; this is the beginning." } }
    }
}

/// JSON with classes for names, texts and the rest: the stylesheet has their colours.
fn coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (tag, end) = match first {
            '"' => {
                let end = end_of_string(rest);
                let is_name = rest[end..].trim_start().starts_with(':');
                (Some(if is_name { "k" } else { "s" }), end)
            }
            c if c.is_alphanumeric() || c == '-' => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len());
                (Some("d"), end)
            }
            c => (None, c.len_utf8()),
        };
        let (part, after) = rest.split_at(end);
        let part = part.chars().map(|c| if c == '\n' { "\n".into() } else { escaped(c) }).collect::<String>();
        match tag {
            Some(tag) => out.push_str(&format!("<span class=\"{tag}\">{part}</span>")),
            None => out.push_str(&part),
        }
        rest = after;
    }
    out
}

fn escaped(c: char) -> String {
    match c {
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        '&' => "&amp;".into(),
        '"' => "&quot;".into(),
        c => format::visible(c.encode_utf8(&mut [0; 4])).into_owned(),
    }
}

/// The byte behind the string that the text begins with; all of it when it does not end.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_is_coloured_and_escaped() {
        let shown = coloured(r#"{"a<b":"</script>\"","n":-1.5e3,"t":true}"#);
        assert!(shown.contains(r#"<span class="k">&quot;a&lt;b&quot;</span>:"#), "{shown}");
        assert!(shown.contains(r#"<span class="s">&quot;&lt;/script&gt;\&quot;&quot;</span>"#), "{shown}");
        assert!(shown.contains(r#"<span class="d">-1.5e3</span>"#), "{shown}");
    }

    proptest! {
        #[test]
        fn no_payload_becomes_an_element(text in any::<String>()) {
            let shown = json_block(&text).into_string();
            let tags = shown.matches('<').count();
            let own = ["<span", "</span", "<pre", "</pre", "<p", "</p"];
            prop_assert_eq!(tags, own.iter().map(|tag| shown.matches(&format!("{tag} ")).count()
                + shown.matches(&format!("{tag}>")).count()).sum::<usize>());
        }
    }
}
