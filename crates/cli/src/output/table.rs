//! Columns that line up and fit the terminal.

use std::fmt::Display;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::color;
use super::harmless::one_line;
use super::look::Look;

/// Between two columns.
const GAP: usize = 2;
/// A column is not made wider than this for the sake of one long cell.
const WIDTH_MAX: usize = 200;
/// A column of text is not made narrower than this, as long as others can be.
const WIDTH_MIN: usize = 8;
/// As [`WIDTH_MIN`], for what a row is about.
const KEY_MIN: usize = 16;
const ELLIPSIS: char = '…';

/// Columns give way in rounds, until there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    Text,
    Keys,
    Headings,
    All,
}

/// What is in a column, which decides how it is aligned, cut and coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// What a row is about: cut after all other text.
    Key,
    /// Names, which begin and end alike: cut in the middle.
    Name,
    /// Sentences: cut at the end.
    Text,
    Number,
    State,
    /// Moments as distances from now, which change by themselves.
    Age,
    Id,
    Chart,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    kind: Kind,
    is_extra: bool,
}

impl Column {
    fn new(heading: &str, kind: Kind) -> Column {
        Column { heading: heading.to_uppercase(), kind, is_extra: false }
    }

    /// The name of what a row is about, which other commands take. Others are cut before it is.
    pub fn key(heading: &str) -> Column {
        Column::new(heading, Kind::Key)
    }

    /// Names; too long ones lose their middle.
    pub fn name(heading: &str) -> Column {
        Column::new(heading, Kind::Name)
    }

    /// Sentences; too long ones lose their end.
    pub fn text(heading: &str) -> Column {
        Column::new(heading, Kind::Text)
    }

    /// Numbers, which are aligned at their end.
    pub fn number(heading: &str) -> Column {
        Column::new(heading, Kind::Number)
    }

    /// States, which have colours.
    pub fn state(heading: &str) -> Column {
        Column::new(heading, Kind::State)
    }

    /// Distances from now.
    pub fn age(heading: &str) -> Column {
        Column::new(heading, Kind::Age)
    }

    /// Charts of bars, which are never cut: they end with what is newest.
    pub fn chart(heading: &str) -> Column {
        Column::new(heading, Kind::Chart)
    }

    /// Identifiers, as [`Look::id`] shortens them.
    pub fn id(heading: &str) -> Column {
        Column::new(heading, Kind::Id)
    }

    /// The namespaces of the rows, which need no column where they are all the same.
    pub fn namespace<'a>(mut namespaces: impl Iterator<Item = &'a str>) -> Column {
        let column = Column::name("namespace");
        match namespaces.next() {
            Some(first) if namespaces.any(|other| other != first) => column,
            Some(_) | None => column.extra(),
        }
    }

    /// Only in wide tables.
    pub fn extra(self) -> Column {
        Column { is_extra: true, ..self }
    }

    fn is_right(&self) -> bool {
        matches!(self.kind, Kind::Number | Kind::Age)
    }

    /// How narrow it may be made in each round in which columns give way; `None` if it does not.
    fn least(&self, round: Round) -> Option<usize> {
        let heading = self.heading.width();
        match (round, self.kind) {
            (Round::Text, Kind::Name | Kind::Text) => Some(heading.max(WIDTH_MIN)),
            (Round::Keys, Kind::Key) => Some(heading.max(KEY_MIN)),
            (Round::Headings, Kind::Key) => Some(WIDTH_MIN),
            (Round::Headings, Kind::Name | Kind::Text) => Some(3),
            (Round::All, _) => Some(1),
            _ => None,
        }
    }
}

/// Columns that line up.
pub struct Table {
    /// Empty where there are no headings: then nothing is cut.
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn of(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// A table of text under these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table::of(headings.iter().map(|heading| Column::text(heading)))
    }

    /// A table without headings: names and their values, which are shown whole.
    pub fn plain() -> Table {
        Table::of([])
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

    /// Each row without what changes by itself as time goes by.
    pub(super) fn facts(&self) -> Vec<Vec<String>> {
        let is_fact = |place: usize| self.columns.get(place).is_none_or(|column| column.kind != Kind::Age);
        let facts = |row: &Vec<String>| {
            row.iter().enumerate().filter(|(place, _)| is_fact(*place)).map(|(_, cell)| cell.clone()).collect()
        };
        self.rows.iter().map(facts).collect()
    }

    /// The table as it is seen.
    pub fn render(&self, look: Look) -> String {
        self.render_rows(look, !self.columns.is_empty(), |_| true)
    }

    /// Some of its rows, as wide as all of them together would be.
    pub(super) fn render_rows(&self, look: Look, headings: bool, is_wanted: impl Fn(usize) -> bool) -> String {
        let places: Vec<usize> = match self.columns.is_empty() {
            true => (0..self.rows.iter().map(Vec::len).max().unwrap_or(0)).collect(),
            false => (0..self.columns.len()).filter(|place| look.is_wide || !self.columns[*place].is_extra).collect(),
        };
        let (places, widths) = self.fitting(places, look.columns);
        let mut text = String::new();
        if headings {
            let cell = |place: usize| self.columns[place].heading.as_str();
            text.push_str(&self.line(&places, &widths, cell, Look { is_coloured: false, ..look }));
        }
        for (_, row) in self.rows.iter().enumerate().filter(|(number, _)| is_wanted(*number)) {
            let cell = |place: usize| row.get(place).map_or("", String::as_str);
            text.push_str(&self.line(&places, &widths, cell, look));
        }
        text
    }

    /// The columns that are shown, and how wide. Where the terminal has not even room for narrow ones, the last are left out,
    /// but for what tells a row from others and how it stands.
    fn fitting(&self, mut places: Vec<usize>, limit: Option<usize>) -> (Vec<usize>, Vec<usize>) {
        let rounds = [Round::Text, Round::Keys, Round::Headings];
        loop {
            let widths = self.widths(&places, limit, &rounds);
            if limit.is_none_or(|limit| total(&widths) <= limit) {
                return (places, widths);
            }
            let kind = |place: usize| self.columns.get(place).map(|column| column.kind);
            let is_needed = |place: usize| matches!(kind(place), None | Some(Kind::Key | Kind::State));
            match places.iter().rposition(|place| *place != places[0] && !is_needed(*place)) {
                Some(last) => drop(places.remove(last)),
                None => {
                    return (places.clone(), self.widths(&places, limit, &[rounds.as_slice(), &[Round::All]].concat()));
                }
            }
        }
    }

    /// How wide each column is: as its widest cell, or less where the terminal has no room for that.
    fn widths(&self, places: &[usize], limit: Option<usize>, rounds: &[Round]) -> Vec<usize> {
        let natural = |place: &usize| {
            let heading = self.columns.get(*place).map_or(0, |column| column.heading.width());
            self.rows.iter().filter_map(|row| row.get(*place)).map(|cell| cell.width()).fold(heading, usize::max)
        };
        let mut widths: Vec<usize> = places.iter().map(|place| natural(place).min(WIDTH_MAX)).collect();
        let Some(limit) = limit.filter(|_| !self.columns.is_empty()) else { return widths };
        for round in rounds {
            let least: Vec<_> = places.iter().map(|place| self.columns[*place].least(*round)).collect();
            while total(&widths) > limit {
                let may = |(place, width): &(usize, &mut usize)| least[*place].is_some_and(|least| **width > least);
                // Of two that are as wide the last gives way: the first columns say what the row is about.
                match widths.iter_mut().enumerate().filter(may).max_by_key(|(_, width)| **width) {
                    Some((_, width)) => *width -= 1,
                    None => break,
                }
            }
        }
        widths
    }

    fn line<'a>(&self, places: &[usize], widths: &[usize], cell: impl Fn(usize) -> &'a str, look: Look) -> String {
        let mut line = String::new();
        for (place, width) in places.iter().zip(widths) {
            let whole = cell(*place);
            let column = self.columns.get(*place);
            let shown = match column {
                Some(Column { kind: Kind::Key | Kind::Name | Kind::Id, .. }) if look.columns.is_some() => {
                    cut_middle(whole, *width)
                }
                Some(_) if look.columns.is_some() => cut_end(whole, *width),
                Some(_) | None => whole.to_owned(),
            };
            // Not by the formatter: it panics where a column is wider than 65,535 characters.
            let padding = " ".repeat(width.saturating_sub(shown.width()));
            let is_state = match column {
                Some(column) => column.kind == Kind::State,
                None => *place == 1 && cell(0) == "state",
            };
            let shown = if is_state && look.is_coloured { color::paint(whole, &shown) } else { shown };
            let (before, after) =
                if column.is_some_and(Column::is_right) { (padding, "".into()) } else { ("".into(), padding) };
            line.extend([before, shown, after, " ".repeat(GAP)]);
        }
        format!("{}\n", line.trim_end())
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(Look::plain()))
    }
}

/// How wide a line is with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// As many of the first characters as fit.
fn head(text: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.take_while(fits).collect()
}

/// The text, or its beginning and an ellipsis.
fn cut_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown: String = head(text.chars(), width.saturating_sub(1)).into_iter().collect();
    shown.push(ELLIPSIS);
    shown
}

/// The text, or its beginning and its end with an ellipsis in between.
fn cut_middle(text: &str, width: usize) -> String {
    if text.width() <= width || width < 3 {
        return cut_end(text, width);
    }
    let end = (width - 1) / 2;
    let mut shown: String = head(text.chars(), width - 1 - end).into_iter().collect();
    shown.push(ELLIPSIS);
    shown.extend(head(text.chars().rev(), end).into_iter().rev());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Table {
        Table::of([
            Column::id("id"),
            Column::name("queue"),
            Column::name("type"),
            Column::state("state"),
            Column::number("attempt"),
            Column::age("age"),
            Column::name("namespace").extra(),
            Column::text("error"),
        ])
    }

    #[test]
    fn columns_line_up_and_lines_stay_lines() {
        let mut table = Table::new(&["name", "state"]);
        table.row(["long name", "a\nb\u{1b}[31m"]);
        table.row(["é", "-"]);
        assert_eq!(table.to_string(), "NAME       STATE\nlong name  a b [31m\né          -\n");
    }

    #[test]
    fn a_value_of_any_length_is_shown_and_makes_no_other_row_long() {
        let long = "x".repeat(70_000);
        let mut table = Table::plain();
        table.row(["input", long.as_str(), "end"]);
        table.row(["id", "1", "end"]);
        for shown in [table.to_string(), table.render(Look::test(80, 0))] {
            let (first, second) = shown.split_once('\n').unwrap();
            assert_eq!(first, format!("input  {long}  end"));
            assert_eq!(second.trim_end(), format!("id     1{}  end", " ".repeat(WIDTH_MAX - 1)));
        }
    }

    #[test]
    fn what_is_short_is_shown_whole() {
        let mut table = runs();
        table.row(["afe123", "work", "greet", "completed", "1", "3m", "default", "-"]);
        table.row(["0be9d1", "work", "build", "failed", "12", "14s", "default", "exit status: 1"]);
        let expected = "ID      QUEUE  TYPE   STATE      ATTEMPT  AGE  ERROR\n\
                        afe123  work   greet  completed        1   3m  -\n\
                        0be9d1  work   build  failed          12  14s  exit status: 1\n";
        assert_eq!(table.render(Look::test(80, 0)), expected);
    }

    #[test]
    fn absurd_names_fit_eighty_columns() {
        let absurd = ["a".repeat(255), "語".repeat(100), "é\u{301}".repeat(90), "x".repeat(70_000), String::new()];
        for columns in [40, 80, 81, 132] {
            for name in &absurd {
                let mut table = runs();
                table.row(["afe123", name, name, "completed", "4294967295", "9999d", name, name]);
                table.row(["0be9d1", "q", "t", "pending", "1", "0s", "n", "-"]);
                let shown = table.render(Look::test(columns, 0));
                assert!(shown.lines().all(|line| line.width() <= columns), "{columns}\n{shown}");
                assert!(shown.contains("afe123") && shown.contains("completed"), "{shown}");
            }
        }
    }

    #[test]
    fn long_text_gives_way_before_short_text_and_names_keep_both_ends() {
        let mut table = runs();
        table.row(["afe123", "default", "a-type-of-a-name-1", "running", "1", "3m", "", &"why ".repeat(50)]);
        let shown = table.render(Look::test(80, 0));
        assert!(shown.contains("  default  a-type-of-a-name-1  running"), "{shown}");
        assert!(shown.lines().nth(1).unwrap().ends_with('…'), "{shown}");
        assert_eq!(cut_middle("a-very-long-name-17", 9), "a-ve…e-17");
        assert_eq!(cut_middle("語語語語", 5), "語…語");
        assert_eq!((cut_end("語語語語", 4).as_str(), cut_end("abc", 3).as_str()), ("語…", "abc"));
        assert_eq!((cut_end("abc", 1).as_str(), cut_middle("abc", 2).as_str()), ("…", "a…"));
    }

    #[test]
    fn wide_tables_have_more_columns_and_cut_nothing() {
        let mut table = runs();
        let long = "why ".repeat(50);
        table.row(["afe123", "work", "greet", "running", "1", "3m", "mobile", &long]);
        let shown = table.render(Look::test(80, 0).wide());
        assert!(shown.contains("NAMESPACE") && shown.contains("mobile") && shown.contains(long.trim_end()), "{shown}");
    }

    #[test]
    fn only_states_are_coloured_and_columns_still_line_up() {
        let mut table = Table::of([Column::state("state"), Column::name("name")]);
        table.row(["completed", "failed"]);
        let shown = table.render(Look::test(80, 0).coloured());
        assert_eq!(shown, "STATE      NAME\n\u{1b}[32mcompleted\u{1b}[0m  failed\n");
        let mut details = Table::plain();
        details.field("id", Some("failed"));
        details.field("state", Some("failed"));
        let shown = details.render(Look::test(80, 0).coloured());
        assert_eq!(shown, "id     failed\nstate  \u{1b}[31mfailed\u{1b}[0m\n");
    }

    #[test]
    fn what_a_row_is_about_is_cut_last_and_headings_late() {
        let mut table = Table::of([Column::key("setting"), Column::name("started with"), Column::text("from")]);
        table.row(["pool_new_heartbeat_timeout_ms", &"x".repeat(40), &"built in ".repeat(9)]);
        let shown = table.render(Look::test(80, 0));
        assert!(shown.contains("pool_new_heartbeat_timeout_ms") && shown.contains("STARTED WITH"), "{shown}");
        assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");
    }

    #[test]
    fn namespaces_are_shown_where_there_are_several() {
        assert!(Column::namespace(["a", "a"].into_iter()).is_extra && Column::namespace([].into_iter()).is_extra);
        assert!(!Column::namespace(["a", "b"].into_iter()).is_extra);
    }

    #[test]
    fn ages_are_no_news() {
        let mut table = runs();
        table.row(["afe123", "q", "t", "running", "1", "3m", "n", ""]);
        assert_eq!(table.facts(), [["afe123", "q", "t", "running", "1", "n", ""]]);
    }
}
