//! `--watch`: a list that is shown again and again.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

use baton::ClientError;
use tokio::time::sleep;
use unicode_width::UnicodeWidthStr;

use super::list::{footer, json_line};
use super::look::terminal;
use super::{Format, List, Look, Output, Table, print_line, write_out};
use crate::exit::Exit;

/// How often a list is shown.
const EVERY: Duration = Duration::from_secs(2);

/// Shows a list until Ctrl-C: in place on a terminal, otherwise what is new in it. A server that
/// restarts is waited for, once it has answered.
pub(super) async fn watch<L: List>(
    format: Format,
    ask: impl AsyncFn() -> Result<L, ClientError>,
    table: impl Fn(&L, Look) -> Table,
) -> Result<(), Exit> {
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let is_live = !format.is_json() && std::io::stdout().is_terminal();
    let mut screen = if is_live { Screen::Live(Drawn::default()) } else { Screen::Lines(Known::default()) };
    let mut is_begun = false;
    let mut is_away = false;
    loop {
        let asked = tokio::select! {
            asked = ask() => asked,
            _ = &mut interrupted => return Ok(()),
        };
        match asked {
            Ok(list) => {
                is_begun = true;
                is_away = false;
                let look = format.look();
                screen.show(format.output(), &list, &table(&list, look), look);
            }
            Err(error) if is_begun && error.is_transient() => {
                if !is_away {
                    eprintln!("baton: {error}; still trying, until Ctrl-C");
                    screen.is_disturbed();
                }
                is_away = true;
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = sleep(EVERY) => {}
            _ = &mut interrupted => return Ok(()),
        }
    }
}

enum Screen {
    Live(Drawn),
    Lines(Known),
}

impl Screen {
    fn show<L: List>(&mut self, output: Output, list: &L, table: &Table, look: Look) {
        match self {
            Screen::Live(drawn) => {
                let (columns, lines) = terminal().unwrap_or((80, 24));
                let text = format!("{}{}", table.render(look), footer(list));
                write_out(&drawn.draw(&text, columns, lines));
            }
            Screen::Lines(known) => print_line(known.news(output, list, table, look)),
        }
    }

    /// Something else was written below.
    fn is_disturbed(&mut self) {
        if let Screen::Live(drawn) = self {
            drawn.lines = 0;
        }
    }
}

/// What stands on the terminal.
#[derive(Default)]
struct Drawn {
    /// Lines of the terminal that it takes.
    lines: usize,
}

impl Drawn {
    /// What to write so that `text` takes the place of what stands there.
    fn draw(&mut self, text: &str, columns: usize, height: usize) -> String {
        // A line more than there are would scroll away what is to be replaced.
        let room = height.saturating_sub(2).max(1);
        let (mut shown, mut used, mut left) = (String::new(), 0, 0);
        for line in text.lines() {
            let lines = visible(line).width().div_ceil(columns.max(1)).max(1);
            if used + lines > room {
                left += 1;
                continue;
            }
            used += lines;
            shown.push_str(line);
            shown.push('\n');
        }
        if left > 0 {
            shown.push_str(&format!("… {left} more lines\n"));
            used += 1;
        }
        let back = match self.lines {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        };
        self.lines = used;
        format!("{back}{shown}")
    }
}

/// A line without its colours.
fn visible(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + part.split_once('m').map_or(part, |(_, text)| text))
}

/// What was in the list when it was last shown. No more than a page.
#[derive(Default)]
struct Known {
    facts: Option<BTreeSet<Vec<String>>>,
}

impl Known {
    /// Rows that were not there the last time, or were others.
    fn news<L: List>(&mut self, output: Output, list: &L, table: &Table, look: Look) -> String {
        let facts = table.facts();
        let is_first = self.facts.is_none();
        let before = self.facts.take().unwrap_or_default();
        let is_news = |row: usize| facts.get(row).is_none_or(|facts| !before.contains(facts));
        let text = match output {
            Output::Table | Output::Wide => {
                let has_news = (0..facts.len()).any(is_news);
                if is_first || has_news { table.render_rows(look, is_first, is_news) } else { String::new() }
            }
            Output::Jsonl => {
                let entries = list.entries().iter().enumerate().filter(|(row, _)| is_news(*row));
                entries.map(|(_, entry)| json_line(entry)).collect::<Vec<_>>().join("\n")
            }
            Output::Json => {
                let is_same = !is_first && facts.iter().cloned().collect::<BTreeSet<_>>() == before;
                if is_same { String::new() } else { serde_json::to_string_pretty(list).unwrap_or_default() }
            }
        };
        self.facts = Some(facts.into_iter().collect());
        text
    }
}

#[cfg(test)]
mod tests {
    use baton::proto::Queues;
    use serde_json::json;

    use super::super::Column;
    use super::*;

    fn queues(ready: &[(&str, u64)]) -> Queues {
        let queue = |(name, ready): &(&str, u64)| {
            json!({"namespace": "default", "name": name, "ready": ready, "scheduled": 0, "held": 0, "sleeping": 0,
                   "paused": false, "backlog_max": 1})
        };
        serde_json::from_value(json!({"queues": ready.iter().map(queue).collect::<Vec<_>>()})).unwrap()
    }

    fn table(queues: &Queues) -> Table {
        let mut table = Table::of([Column::name("queue"), Column::number("ready"), Column::age("oldest")]);
        for (age, queue) in queues.queues.iter().enumerate() {
            table.row([queue.name.clone(), queue.ready.to_string(), format!("{age}s")]);
        }
        table
    }

    #[test]
    fn only_what_is_new_is_appended() {
        let mut known = Known::default();
        let look = Look::test(80, 0);
        let mut news = |ready: &[(&str, u64)], output| {
            let list = queues(ready);
            known.news(output, &list, &table(&list), look)
        };
        let first = news(&[("a", 1), ("b", 2)], Output::Table);
        assert_eq!(first, "QUEUE  READY  OLDEST\na          1      0s\nb          2      1s\n");
        assert_eq!(news(&[("b", 2), ("a", 1)], Output::Table), "", "ages and order are no news");
        assert_eq!(news(&[("b", 3), ("a", 1)], Output::Table), "b          3      0s\n");
        let lines = news(&[("c", 1), ("b", 3), ("a", 2)], Output::Jsonl);
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines}");
        assert_eq!(news(&[("c", 1), ("b", 3), ("a", 2)], Output::Json), "");
        assert!(news(&[], Output::Json).contains("queues"), "what has gone is news, too");
    }

    #[test]
    fn a_terminal_is_drawn_over() {
        let mut drawn = Drawn::default();
        assert_eq!(drawn.draw("A\nb\n", 80, 24), "A\nb\n");
        assert_eq!(drawn.draw("A\n", 80, 24), "\u{1b}[2A\r\u{1b}[JA\n");
        let long = "x".repeat(100);
        drawn.draw(&long, 80, 24);
        assert_eq!(drawn.lines, 2, "a line that is too long takes two");
        let many = drawn.draw(&"y\n".repeat(50), 80, 24);
        assert!(many.ends_with("… 28 more lines\n") && drawn.lines == 23, "{many}");
        assert_eq!(visible("\u{1b}[32mok\u{1b}[0m x"), "ok x");
    }
}
