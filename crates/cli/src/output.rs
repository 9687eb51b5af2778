//! What goes to the standard output.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use clap::Args;
use serde::Serialize;

/// Between two columns.
const GAP: usize = 2;
/// A column is not made wider than this for the sake of one long cell.
const WIDTH_MAX: usize = 200;

/// The choice between a table for people and JSON for programs.
#[derive(Args, Clone, Copy)]
pub struct Format {
    /// Print the answer as one JSON document.
    #[arg(long)]
    pub json: bool,
}

impl Format {
    /// Prints the answer as JSON, or as `human` writes it.
    pub fn print<T: Serialize>(self, answer: &T, human: impl FnOnce(&T) -> String) {
        if self.json {
            // The shapes of the wire always can be written as JSON.
            print_line(serde_json::to_string_pretty(answer).unwrap_or_default());
        } else {
            print_line(human(answer));
        }
    }
}

/// Prints text and ends the line, unless there is nothing to print.
pub fn print_line(text: impl Display) {
    let text = text.to_string();
    if text.is_empty() {
        return;
    }
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush());
    match written {
        Ok(()) => {}
        // The reader has seen enough, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("baton: cannot write to the standard output: {error}");
            std::process::exit(1);
        }
    }
}

/// Columns that line up.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table { rows: vec![headings.iter().map(|heading| heading.to_uppercase()).collect()] }
    }

    /// A table without headings.
    pub fn plain() -> Table {
        Table { rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<T: Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell.to_string())).collect());
    }

    /// Adds a row of a name and its value, unless there is none.
    pub fn field(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.row([name.to_owned(), value.to_string()]);
        }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).min(WIDTH_MAX)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                // Not by the formatter: it panics where a column is wider than 65,535 characters.
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count()) + GAP));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Text from elsewhere must not break the table or steer the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What may be there, or a dash.
pub fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_stay_lines() {
        let mut table = Table::new(&["name", "state"]);
        table.row(["long name", "a\nb\u{1b}[31m"]);
        table.row(["é", "-"]);
        assert_eq!(table.to_string(), "NAME       STATE\nlong name  a b [31m\né          -\n");
    }

    #[test]
    fn a_cell_of_any_length_is_shown_and_makes_no_other_row_long() {
        let long = "x".repeat(70_000);
        let mut table = Table::plain();
        table.row(["input", long.as_str(), "end"]);
        table.row(["id", "1", "end"]);
        let shown = table.to_string();
        let (first, second) = shown.split_once('\n').unwrap();
        assert_eq!(first, format!("input  {long}  end"));
        assert_eq!(second.trim_end(), format!("id     1{}  end", " ".repeat(WIDTH_MAX - 1)));
    }
}
