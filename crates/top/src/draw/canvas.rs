//! Putting texts on the screen.

use baton_core::Millis;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::style::{Theme, Tone};
use crate::text::{cut, visible, width};

/// A text in one tone. It is fit for a terminal: whatever it is made of went through [`visible`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub text: String,
    pub tone: Tone,
}

/// A text of ours or of others in this tone.
pub fn span(text: impl AsRef<str>, tone: Tone) -> Span {
    Span { text: visible(text.as_ref()), tone }
}

/// Where one draws, and how.
pub struct Canvas<'a> {
    pub buffer: &'a mut Buffer,
    pub theme: Theme,
    /// The server's clock.
    pub now: Millis,
    pub zone: &'a TimeZone,
}

impl Canvas<'_> {
    /// Puts a text into at most so many columns; returns the column after it.
    pub fn put(&mut self, x: u16, y: u16, columns: u16, span: &Span) -> u16 {
        self.put_styled(x, y, columns, &span.text, self.theme.style(span.tone))
    }

    fn put_styled(&mut self, x: u16, y: u16, columns: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if y >= area.bottom() || x >= area.right() {
            return x;
        }
        let text = self.theme.text(&cut(text, usize::from(columns)));
        self.buffer.set_stringn(x, y, text, usize::from(columns), style).0
    }

    /// Puts spans one after the other, until the columns are used up.
    pub fn put_all(&mut self, x: u16, y: u16, columns: u16, spans: &[Span]) -> u16 {
        let end = x.saturating_add(columns);
        spans.iter().fold(x, |x, span| self.put(x, y, end.saturating_sub(x), span))
    }

    /// Puts spans so that they end at the right edge of the columns.
    pub fn put_right(&mut self, x: u16, y: u16, columns: u16, spans: &[Span]) {
        let wide = columns_of(spans).min(columns);
        self.put_all(x + columns - wide, y, wide, spans);
    }

    /// Turns a line around: the chosen row.
    pub fn choose(&mut self, area: Rect) {
        self.buffer.set_style(area, Style::new().remove_modifier(Modifier::DIM).add_modifier(Modifier::REVERSED));
    }
}

/// How many columns spans take.
pub fn columns_of(spans: &[Span]) -> u16 {
    spans.iter().map(|span| width(&span.text) as u16).sum()
}
