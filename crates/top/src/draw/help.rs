//! All keys, on top of everything.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::canvas::{Canvas, span};
use crate::style::Tone;

const KEYS: [(&str, &str); 18] = [
    ("1 2 3 4  Tab", "queues, runs, workers, pools"),
    ("j k  ↓ ↑", "next and previous row"),
    ("PgDn PgUp  g G", "a screen further, first, last"),
    ("Enter", "details; once more: the runs of a queue or worker"),
    ("Esc", "back, then without the filter"),
    ("/", "filter: words, and for runs queue: type: state:"),
    ("", "worker: key: id: ns:   state: waiting, live, failed …"),
    ("s S", "runs of the next, the previous state"),
    ("n N", "next and previous page of runs"),
    ("l", "follow the log of a run (builds have one)"),
    ("c", "cancel a run"),
    ("r", "retry a run that has ended"),
    ("d", "drain a worker"),
    ("p", "pause or resume a queue"),
    ("R", "ask the server now"),
    ("Ctrl-L  Ctrl-Z", "redraw, suspend"),
    ("q  Ctrl-C", "leave"),
    ("", "What changes something asks first."),
];

pub fn draw(canvas: &mut Canvas<'_>, area: Rect) {
    let (width, height) = (68.min(area.width), (KEYS.len() as u16 + 2).min(area.height));
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    for y in place.top()..place.bottom() {
        for x in place.left()..place.right() {
            canvas.buffer[(x, y)].reset();
        }
    }
    canvas.buffer.set_style(Rect { height: 1, ..place }, Style::new());
    canvas.put(place.x, place.y, width, &span(" Keys", Tone::Strong));
    canvas.choose(Rect { height: 1, ..place });
    for (at, (keys, what)) in KEYS.iter().enumerate() {
        let y = place.y + 1 + at as u16;
        if y + 1 >= place.bottom() {
            break;
        }
        canvas.put(place.x + 1, y, 16, &span(*keys, Tone::Strong));
        canvas.put(place.x + 18, y, width.saturating_sub(19), &span(*what, Tone::Plain));
    }
    canvas.choose(Rect { y: place.bottom() - 1, height: 1, ..place });
}
