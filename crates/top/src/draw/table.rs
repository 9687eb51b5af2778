//! Tables that fit any width: columns give way, and then go.

use ratatui::layout::Rect;

use super::canvas::{Canvas, Span, columns_of, span};
use crate::style::Tone;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    /// It is never narrower.
    pub least: u16,
    /// It is never wider.
    pub most: u16,
    pub is_right: bool,
    /// Who goes first when there is no room: the highest. 0 stays.
    pub leaves: u8,
}

impl Column {
    pub const fn text(title: &'static str, least: u16, most: u16) -> Column {
        Column { title, least, most, is_right: false, leaves: 0 }
    }

    pub const fn number(title: &'static str, least: u16) -> Column {
        Column { title, least, most: 12, is_right: true, leaves: 0 }
    }

    pub const fn leaves(self, leaves: u8) -> Column {
        Column { leaves, ..self }
    }
}

/// What stands in a row, by column.
pub type Row = Vec<Vec<Span>>;

/// Columns between two columns.
const GAP: u16 = 2;
/// A column of this width can be read, whatever is in it.
const COMFORT: u16 = 24;

/// How wide each column is; 0 for one that has gone.
pub fn widths(columns: &[Column], rows: &[Row], room: u16) -> Vec<u16> {
    let natural: Vec<u16> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| columns_of(cell)).max().unwrap_or(0);
            cells.max(column.title.len() as u16).clamp(column.least, column.most.max(column.least))
        })
        .collect();
    let least = |at: usize| columns[at].least.max(columns[at].title.len() as u16).min(natural[at]);
    let mut is_there = vec![true; columns.len()];
    let sum = |is_there: &[bool], of: &dyn Fn(usize) -> u16| {
        let each = (0..columns.len()).filter(|at| is_there[*at]).map(|at| u32::from(of(at)));
        each.map(|wide| wide + u32::from(GAP)).sum::<u32>().saturating_sub(u32::from(GAP))
    };
    // Columns that stay are read before those that may go are kept.
    let wanted = |at: usize| if columns[at].leaves == 0 { natural[at].min(COMFORT).max(least(at)) } else { least(at) };
    while sum(&is_there, &wanted) > u32::from(room) {
        let last = (0..columns.len()).filter(|at| is_there[*at] && columns[*at].leaves > 0);
        match last.max_by_key(|at| columns[*at].leaves) {
            Some(at) => is_there[at] = false,
            None => break,
        }
    }
    let mut widths: Vec<u16> = (0..columns.len()).map(|at| if is_there[at] { least(at) } else { 0 }).collect();
    let mut left = u32::from(room).saturating_sub(sum(&is_there, &|at| widths[at]));
    // The column that needs least more gets it first; a column at a time for the rest, so that no name takes it all.
    while left > 0 {
        let wanting: Vec<usize> = (0..columns.len()).filter(|at| is_there[*at] && widths[*at] < natural[*at]).collect();
        if wanting.is_empty() {
            break;
        }
        for at in wanting {
            if left > 0 {
                widths[at] += 1;
                left -= 1;
            }
        }
    }
    widths
}

/// Draws titles and rows. `chosen` is the row that is turned around, if it is among them.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, columns: &[Column], rows: &[Row], chosen: Option<usize>) {
    let widths = widths(columns, rows, area.width);
    let line = |canvas: &mut Canvas<'_>, y: u16, cells: &dyn Fn(usize) -> Vec<Span>| {
        let mut x = area.x;
        for (at, column) in columns.iter().enumerate() {
            let wide = widths[at].min(area.right().saturating_sub(x));
            if widths[at] == 0 || wide == 0 {
                continue;
            }
            let spans = cells(at);
            match column.is_right {
                true => canvas.put_right(x, y, wide, &spans),
                false => _ = canvas.put_all(x, y, wide, &spans),
            }
            x += widths[at] + GAP;
        }
    };
    line(canvas, area.y, &|at| vec![span(columns[at].title, Tone::Title)]);
    let room = usize::from(area.height.saturating_sub(1));
    for (at, row) in rows.iter().enumerate().take(room) {
        let y = area.y + 1 + at as u16;
        line(canvas, y, &|column| row.get(column).cloned().unwrap_or_default());
        if chosen == Some(at) {
            canvas.choose(Rect { y, height: 1, ..area });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::text("name", 6, 40),
        Column::number("n", 3),
        Column::text("host", 4, 20).leaves(2),
        Column::text("note", 4, 60).leaves(1),
    ];

    fn row(texts: [&str; 4]) -> Row {
        texts.map(|text| vec![span(text, Tone::Plain)]).to_vec()
    }

    #[test]
    fn columns_give_way_and_then_go() {
        let rows = [row(["a-name-of-20-columns", "12", "builder-7", "a note that is quite long"])];
        let table = [
            (80, vec![20, 3, 9, 25]),
            (44, vec![14, 3, 9, 12]),
            (35, vec![15, 3, 0, 13]),
            (28, vec![20, 3, 0, 0]),
            (12, vec![7, 3, 0, 0]),
            (5, vec![6, 3, 0, 0]),
        ];
        for (room, expected) in table {
            assert_eq!(widths(&COLUMNS, &rows, room), expected, "in {room}");
        }
    }
}
