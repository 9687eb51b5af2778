//! From the state of the screen to the screen. Draws whatever it is given, at any size.

mod canvas;
mod details;
mod header;
mod help;
mod lists;
mod table;

use baton_core::Millis;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::{App, Link, Mode, Mood, View};
use crate::filter::Tab;
use crate::rows;
use crate::style::{Theme, Tone};
use crate::text::{number, visible};
use canvas::{Canvas, Span, span};

/// A smaller screen shows nothing but that it is too small.
pub const COLUMNS_MIN: u16 = 40;
pub const LINES_MIN: u16 = 10;

/// How the screen looks besides what is on it.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub theme: Theme,
    pub zone: &'a TimeZone,
    /// On the server's clock.
    pub now: Millis,
}

/// Draws all of it. Where it is scrolled to is kept in the state.
pub fn draw(app: &mut App, buffer: &mut Buffer, look: Look<'_>) {
    let area = buffer.area;
    let Look { theme, zone, now } = look;
    let mut canvas = Canvas { buffer, theme, now, zone };
    if area.width < COLUMNS_MIN || area.height < LINES_MIN {
        let words = format!("At least {COLUMNS_MIN}x{LINES_MIN}, please.");
        canvas.put(area.x, area.y, area.width, &span(words, Tone::Bad));
        return;
    }
    app.drawn_at = now;
    let line = |y: u16| Rect { y, height: 1, ..area };
    header::draw(&mut canvas, app, Rect { height: 2, ..area });
    draw_tabs(&mut canvas, app, line(area.y + 2));
    let body = Rect { y: area.y + 3, height: area.height - 5, ..area };
    match app.open().is_some() {
        true => details::draw(&mut canvas, app, body),
        false => draw_list(&mut canvas, app, body),
    }
    draw_said(&mut canvas, app, line(area.bottom() - 2));
    draw_keys(&mut canvas, app, line(area.bottom() - 1));
    if app.mode == Mode::Help {
        help::draw(&mut canvas, area);
    }
}

/// One frame of a list as lines of text, with all of its rows.
pub fn plain(app: &mut App, columns: u16, look: Look<'_>) -> String {
    let rows = rows::subjects(app).len().max(2) as u16;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns.max(COLUMNS_MIN), rows.saturating_add(6).max(LINES_MIN)));
    app.rows_shown = usize::from(rows);
    draw(app, &mut buffer, look);
    let lines = lines(&buffer);
    // What people press, and what lies open, says nothing in a file.
    let mut text: Vec<String> = lines[..lines.len() - 2].iter().map(|line| line.trim_end().to_owned()).collect();
    while text.last().is_some_and(String::is_empty) {
        text.pop();
    }
    text.join("\n")
}

/// What a screen says, line by line.
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    (area.top()..area.bottom())
        .map(|y| {
            let (mut line, mut x) = (String::new(), area.left());
            while x < area.right() {
                let symbol = buffer[(x, y)].symbol();
                line.push_str(symbol);
                x += (crate::text::width(symbol) as u16).max(1);
            }
            line
        })
        .collect()
}

fn draw_tabs(canvas: &mut Canvas<'_>, app: &App, area: Rect) {
    let mut x = area.x;
    for (at, view) in View::ALL.into_iter().enumerate() {
        let is_shown = view == app.view;
        let tone = if is_shown { Tone::Strong } else { Tone::Dim };
        let begin = x;
        x = canvas.put(x, area.y, area.right() - x, &span(format!(" {} {} ", at + 1, view.name()), tone));
        if is_shown {
            canvas.choose(Rect { x: begin, width: x - begin, ..area });
        }
    }
    let mut right = Vec::new();
    let filter = visible(app.filter_text());
    let is_typing = matches!(app.mode, Mode::Filter { .. });
    if app.open().is_none() && app.view == View::Runs {
        let name = if app.pages.is_empty() { String::new() } else { format!("page {}  ", app.pages.len() + 1) };
        right.push(span(name, Tone::Plain));
        if app.tab != Tab::All {
            right.push(span(format!("{} only  ", app.tab.name()), Tone::Warn));
        }
    }
    if is_typing {
        // The end of what is typed is what one wants to see.
        let room = usize::from(area.right().saturating_sub(x)).saturating_sub(4);
        let skip = filter.chars().count().saturating_sub(room);
        right.push(span("/", Tone::Strong));
        right.push(span(filter.chars().skip(skip).collect::<String>(), Tone::Plain));
        right.push(span("_ ", Tone::Strong));
    } else if app.open().is_none() && !filter.is_empty() {
        right.push(span(format!("/{filter} "), Tone::Warn));
    }
    canvas.put_right(x + 1, area.y, area.right().saturating_sub(x + 1), &right);
}

fn draw_list(canvas: &mut Canvas<'_>, app: &mut App, area: Rect) {
    app.rows_shown = usize::from(area.height.saturating_sub(1)).max(1);
    rows::keep_place(app);
    let count = rows::subjects(app).len();
    let room = app.rows_shown;
    let place = app.place_mut();
    let most = count.saturating_sub(room);
    place.offset = place.offset.min(most).clamp((place.row + 1).saturating_sub(room), place.row);
    let (offset, row) = (place.offset, place.row);
    let (columns, rows) = lists::rows(canvas, app, offset, room);
    if count == 0 {
        lists::draw_empty(canvas, app, area);
        return;
    }
    table::draw(canvas, area, &columns, &rows, row.checked_sub(offset));
}

/// The line for what has to be said: a question, an outcome, or why the chosen row waits.
fn draw_said(canvas: &mut Canvas<'_>, app: &App, area: Rect) {
    let spans = said(canvas, app);
    canvas.put_all(area.x, area.y, area.width, &spans);
    if matches!(app.mode, Mode::Confirm { .. }) {
        canvas.choose(area);
    }
}

fn said(canvas: &Canvas<'_>, app: &App) -> Vec<Span> {
    if let Mode::Confirm { question, .. } = &app.mode {
        return vec![span(format!(" {question} "), Tone::Strong), span("y/n ", Tone::Strong)];
    }
    if let Some(said) = app.said.as_ref().filter(|said| said.until > canvas.now) {
        let (sign, tone) = match said.mood {
            Mood::Good => ("✓ ", Tone::Good),
            Mood::Bad => ("✗ ", Tone::Bad),
            Mood::Note => ("", Tone::Plain),
        };
        return vec![span(sign, tone), span(&said.text, tone)];
    }
    match &app.link {
        Link::Lost { why, .. } => return vec![span("✗ ", Tone::Bad), span(why, Tone::Bad)],
        Link::Refused(why) => return vec![span("✗ ", Tone::Bad), span(why, Tone::Bad)],
        Link::Live => {}
    }
    if app.open().is_none() { lists::remark(canvas, app) } else { vec![] }
}

fn draw_keys(canvas: &mut Canvas<'_>, app: &App, area: Rect) {
    let mut x = area.x;
    for (key, what) in keys(app) {
        if x + (key.len() + what.len() + 2) as u16 > area.right() {
            break;
        }
        x = canvas.put(x, area.y, area.right() - x, &span(key, Tone::Strong));
        x = canvas.put(x, area.y, area.right() - x, &span(format!(" {what}  "), Tone::Dim));
    }
    if app.open().is_none() {
        let count = rows::subjects(app).len();
        let of = if count == 0 { String::new() } else { format!("{}/{}", app.place().row + 1, number(count as u64)) };
        let more = if app.view == View::Runs && app.facts.next.is_some() { "+" } else { "" };
        canvas.put_right(x, area.y, area.right().saturating_sub(x), &[span(format!("{of}{more}"), Tone::Dim)]);
    }
}

/// The keys that mean something here.
fn keys(app: &App) -> Vec<(&'static str, &'static str)> {
    match app.mode {
        Mode::Filter { .. } => vec![("Enter", "keep"), ("Esc", "leave"), ("Ctrl-U", "clear")],
        Mode::Confirm { .. } => vec![("y", "yes"), ("n", "no")],
        Mode::Help => vec![("any key", "back")],
        Mode::Normal if app.open().is_some() => details::keys(app),
        Mode::Normal => lists::keys(app.view),
    }
}

#[cfg(test)]
mod tests;
