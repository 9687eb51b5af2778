//! Colours and signs. Colour never says anything alone: states have a sign and a word besides.

use std::env;

use ratatui::style::{Color, Modifier, Style};

/// What a text means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    Plain,
    /// What matters less.
    Dim,
    /// What matters more.
    Strong,
    /// Titles of columns.
    Title,
    Good,
    Bad,
    Warn,
    Active,
    Asleep,
}

/// How this terminal is drawn on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Theme {
    pub has_color: bool,
    /// The terminal shows letters of ASCII only.
    pub is_ascii: bool,
}

impl Theme {
    /// What the environment says of the terminal: its locale says whether it knows signs beyond ASCII.
    pub fn of_environment(has_color: bool) -> Theme {
        let locale =
            ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| env::var(name).ok().filter(|v| !v.is_empty()));
        let term = env::var("TERM").unwrap_or_default();
        Theme { has_color: has_color && term != "dumb", is_ascii: is_ascii(locale.as_deref(), &term) }
    }

    /// Only the sixteen colours that every terminal has and that people choose to be readable on their background.
    pub fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let style = match tone {
            Tone::Plain | Tone::Good | Tone::Active | Tone::Asleep => style,
            Tone::Dim => style.add_modifier(Modifier::DIM),
            Tone::Strong | Tone::Bad | Tone::Warn => style.add_modifier(Modifier::BOLD),
            Tone::Title => style.add_modifier(Modifier::DIM | Modifier::UNDERLINED),
        };
        match tone {
            _ if !self.has_color => style,
            Tone::Plain | Tone::Dim | Tone::Strong | Tone::Title => style,
            Tone::Good => style.fg(Color::Green),
            Tone::Bad => style.fg(Color::Red),
            Tone::Warn => style.fg(Color::Yellow),
            Tone::Active => style.fg(Color::Blue),
            Tone::Asleep => style.fg(Color::Magenta),
        }
    }

    /// A sign, or what stands for it where there are only letters.
    pub fn sign(self, sign: char) -> char {
        if !self.is_ascii {
            return sign;
        }
        match sign {
            '○' | '◷' => 'o',
            '◐' => '>',
            '●' => '*',
            '▶' => '>',
            '◌' => 'x',
            '☾' => 'z',
            '✓' => '+',
            '✗' => '!',
            '⊘' => '/',
            '‖' => '=',
            '▰' => '#',
            '▱' => '.',
            '…' => '~',
            '–' => '-',
            '─' => '-',
            other if other.is_ascii() => other,
            _ => '?',
        }
    }

    /// A text of ours or of others, as this terminal can show it.
    pub fn text(self, text: &str) -> String {
        text.chars().map(|c| self.sign(c)).collect()
    }
}

/// A locale that names another charset than UTF-8 has a terminal for that one; without a locale one cannot tell, and terminals of today know UTF-8.
fn is_ascii(locale: Option<&str>, term: &str) -> bool {
    let is_utf8 = |locale: &str| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    };
    // The console of Linux has a font of 256 signs.
    term == "linux" || locale.is_some_and(|locale| locale.contains('.') && !is_utf8(locale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_only_where_the_locale_or_the_terminal_says_so() {
        assert!(!is_ascii(None, "xterm-256color"));
        assert!(!is_ascii(Some("C"), "xterm"));
        assert!(!is_ascii(Some("de_DE.UTF-8"), "screen"));
        assert!(is_ascii(Some("de_DE.ISO-8859-1"), "xterm"));
        assert!(is_ascii(None, "linux"));
    }

    #[test]
    fn without_colour_what_is_wrong_still_stands_out() {
        let theme = Theme { has_color: false, is_ascii: false };
        for tone in [Tone::Good, Tone::Bad, Tone::Warn, Tone::Active, Tone::Asleep, Tone::Dim] {
            assert_eq!(theme.style(tone).fg, None, "{tone:?}");
        }
        assert!(theme.style(Tone::Bad).add_modifier.contains(Modifier::BOLD));
    }
}
