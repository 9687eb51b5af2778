//! A line of a log as HTML: colours of terminals become classes of ours, and everything else a program may have sent to
//! its terminal is left out or shown.

use std::ops::Range;

use crate::format;

/// Characters of a line that are shown.
pub const SHOWN_MAX: usize = 4_000;

/// A part of a log that folds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// What it is called.
    pub name: String,
}

/// Where a section begins or ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Here.
    Begin(Section),
    /// Here.
    End,
}

/// Whether a line is the beginning or the end of a section, as CI systems write them.
pub fn section(message: &str) -> Option<Mark> {
    let begins = ["::group::", "##[group]", "--- ", "+++ ", "~~~ "].iter().find_map(|mark| message.strip_prefix(mark));
    if let Some(name) = begins.map(str::trim).filter(|name| !name.is_empty()) {
        let (plain, _) = plain(name);
        return Some(Mark::Begin(Section { name: format::visible(&plain).chars().take(200).collect() }));
    }
    ["::endgroup::", "##[endgroup]"].iter().any(|mark| message.starts_with(mark)).then_some(Mark::End)
}

/// How a piece of a line looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Style {
    /// One of the classes that the stylesheet has.
    colour: Option<char>,
    is_bold: bool,
    is_dim: bool,
}

impl Style {
    fn set(&mut self, code: u32) {
        match code {
            0 => *self = Style::default(),
            1 => self.is_bold = true,
            2 => self.is_dim = true,
            22 => (self.is_bold, self.is_dim) = (false, false),
            31 | 91 => self.colour = Some('e'),
            32 | 92 => self.colour = Some('g'),
            33 | 93 => self.colour = Some('w'),
            34 | 36 | 94 | 96 => self.colour = Some('r'),
            35 | 95 => self.colour = Some('s'),
            90 => self.colour = Some('d'),
            30 | 37 | 39 | 97 => self.colour = None,
            _ => {}
        }
    }

    fn class(self) -> Option<char> {
        self.colour.or(self.is_dim.then_some('d'))
    }
}

/// The text of a line, and from which byte on it looks how.
fn plain(message: &str) -> (String, Vec<(usize, Style)>) {
    let (mut text, mut styles) = (String::with_capacity(message.len()), Vec::new());
    let (mut style, mut shown) = (Style::default(), 0);
    let mut rest = message.trim_end_matches(['\r', '\n']).chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => escape(&mut rest, &mut style),
            // What a progress bar wrote over is gone.
            '\r' => {
                text.clear();
                styles.clear();
                shown = 0;
            }
            c => {
                shown += 1;
                if shown > SHOWN_MAX {
                    continue;
                }
                if styles.last().map_or(Style::default(), |(_, last)| *last) != style {
                    styles.push((text.len(), style));
                }
                text.push(c);
            }
        }
    }
    if shown > SHOWN_MAX {
        text.push_str(&format!("… {} more characters", format::number((shown - SHOWN_MAX) as u64)));
    }
    (text, styles)
}

/// Reads what comes after an escape: colours are taken, everything else is passed over.
fn escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, style: &mut Style) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            let mut codes = String::new();
            while let Some(c) = rest.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')) {
                codes.push(c);
            }
            if rest.next_if(|c| matches!(c, '\u{40}'..='\u{7e}')) == Some('m') {
                colours(&codes, style);
            }
        }
        // Titles and links end with a bell or an escape of their own.
        Some(']') => while rest.next().is_some_and(|c| c != '\u{7}' && c != '\u{1b}') {},
        Some('\\' | '(' | ')' | '=' | '>' | '7' | '8' | 'M' | 'c') => {
            rest.next();
        }
        Some(_) | None => {}
    }
}

fn colours(codes: &str, style: &mut Style) {
    let mut codes = codes.split([';', ':']).map(|code| if code.is_empty() { Some(0) } else { code.parse().ok() });
    while let Some(code) = codes.next() {
        match code {
            // One of 256 colours, or any: the first sixteen are those that have names.
            Some(38 | 48) => match codes.next() {
                Some(Some(5)) => {
                    let named = codes.next().flatten().filter(|_| code == Some(38));
                    match named {
                        Some(named @ 0..=7) => style.set(30 + named),
                        Some(named @ 8..=15) => style.set(82 + named),
                        _ => {}
                    }
                }
                Some(Some(2)) => {
                    codes.nth(2);
                }
                _ => {}
            },
            Some(code) => style.set(code),
            None => {}
        }
    }
}

/// A line as HTML. `find` is in lower case; `is_current` says that what is found is what one looks at now.
pub fn html(message: &str, level: &str, find: Option<&str>, is_current: bool) -> String {
    let (text, mut styles) = plain(message);
    if styles.is_empty() {
        let colour = match level.to_ascii_lowercase().as_str() {
            "error" | "fatal" | "critical" => Some('e'),
            "warn" | "warning" => Some('w'),
            "debug" | "trace" => Some('d'),
            _ => None,
        };
        styles.extend(colour.map(|colour| (0, Style { colour: Some(colour), ..Style::default() })));
    }
    let found = find.map_or_else(Vec::new, |find| matches(&text, find));
    let mut edges: Vec<usize> = styles.iter().map(|(at, _)| *at).collect();
    edges.extend(found.iter().flat_map(|range| [range.start, range.end]));
    edges.extend([0, text.len()]);
    edges.sort_unstable();
    edges.dedup();
    let mut out = String::with_capacity(text.len() + 64);
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let after = styles.partition_point(|(at, _)| *at <= from);
        let style = after.checked_sub(1).map_or(Style::default(), |index| styles[index].1);
        let is_found = found.iter().any(|range| range.contains(&from));
        piece(&mut out, &text[from..to], style, is_found.then_some(is_current));
    }
    out
}

fn piece(out: &mut String, text: &str, style: Style, found: Option<bool>) {
    match found {
        Some(true) => out.push_str("<mark class=\"cur\">"),
        Some(false) => out.push_str("<mark>"),
        None => {}
    }
    let tag = if style.is_bold { "b" } else { "span" };
    let is_styled = style.is_bold || style.class().is_some();
    match (style.class(), style.is_bold) {
        (Some(class), _) => out.push_str(&format!("<{tag} class=\"{class}\">")),
        (None, true) => out.push_str("<b>"),
        (None, false) => {}
    }
    let shown = text.replace('\t', "    ");
    for c in format::visible(&shown).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    if is_styled {
        out.push_str(&format!("</{tag}>"));
    }
    if found.is_some() {
        out.push_str("</mark>");
    }
}

/// Where a text has another one, whatever the case of ASCII letters.
fn matches(text: &str, find: &str) -> Vec<Range<usize>> {
    if find.is_empty() {
        return Vec::new();
    }
    let lower = text.to_ascii_lowercase();
    lower.match_indices(find).map(|(at, part)| at..at + part.len()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(message: &str) -> String {
        html(message, "info", None, false)
    }

    #[test]
    fn colours_of_terminals_become_classes() {
        let table = [
            ("plain <b>", "plain &lt;b&gt;"),
            ("\u{1b}[31mred\u{1b}[0m not", "<span class=\"e\">red</span> not"),
            ("\u{1b}[1;32mok\u{1b}[m", "<b class=\"g\">ok</b>"),
            ("\u{1b}[1mbold\u{1b}[22m", "<b>bold</b>"),
            ("\u{1b}[38;5;9mx\u{1b}[39my", "<span class=\"e\">x</span>y"),
            ("\u{1b}[38;2;1;2;3mx", "x"),
            ("\u{1b}[48;5;1mx", "x"),
            ("\u{1b}[2K\u{1b}[1Gdone", "done"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("10 %\r20 %\r\u{1b}[34m30 %", "<span class=\"r\">30 %</span>"),
            ("ends so\r\n", "ends so"),
            ("a\u{0}b\tc", "a\u{2400}b    c"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}[31", ""),
        ];
        table.iter().for_each(|(message, expected)| assert_eq!(shown(message), *expected, "{message:?}"));
        assert_eq!(html("no", "ERROR", None, false), "<span class=\"e\">no</span>");
    }

    #[test]
    fn what_is_found_is_marked_through_colours() {
        let found = html("a \u{1b}[32mRef\u{1b}[0mund <b>", "info", Some("refund"), true);
        assert_eq!(
            found,
            "a <mark class=\"cur\"><span class=\"g\">Ref</span></mark><mark class=\"cur\">und</mark> &lt;b&gt;"
        );
        assert_eq!(html("<<", "info", Some("<"), false), "<mark>&lt;</mark><mark>&lt;</mark>");
    }

    #[test]
    fn sections_are_those_of_ci_systems() {
        let name = |message| match section(message) {
            Some(Mark::Begin(section)) => Some(section.name),
            _ => None,
        };
        assert_eq!(name("::group::build \u{1b}[1mit"), Some("build it".into()));
        assert_eq!(name("--- :rust: test"), Some(":rust: test".into()));
        assert_eq!(name("---"), None);
        assert_eq!(name("--- "), None);
        assert_eq!(section("::endgroup::"), Some(Mark::End));
        assert_eq!(section("group"), None);
    }

    #[test]
    fn a_long_line_is_cut() {
        let text = shown(&"x".repeat(5_000));
        assert!(text.ends_with("… 1,000 more characters") && text.len() < 4_100, "{}", text.len());
    }

    proptest! {
        #[test]
        fn no_line_becomes_an_element(message in any::<String>(), find in "[a-z<>\u{e4}]{0,2}") {
            let shown = html(&message, "info", Some(&find), false);
            let own = ["<span class=\"", "</span>", "<b>", "<b class=\"", "</b>", "<mark>", "</mark>"];
            let tags: usize = own.iter().map(|tag| shown.matches(tag).count()).sum();
            prop_assert_eq!(shown.matches('<').count(), tags);
            prop_assert!(!shown.chars().any(char::is_control));
        }

        #[test]
        fn escapes_never_break_a_line(codes in "(\u{1b}\\[[0-9;:?]{0,9}[a-zA-Z]?|\u{1b}[\\]()=M][a-z]?|\r|x){0,20}") {
            let _ = shown(&codes);
        }
    }
}
