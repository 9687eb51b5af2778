//! What the demo shows: on a terminal a table that lives below the log, otherwise the log alone.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::board::{Board, Fate, Row};
use crate::output::print_line;

/// How often progress is told where there is no table.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

const RED: &str = "\u{1b}[31m";
const BLUE: &str = "\u{1b}[34m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

pub struct Screen {
    log: Log,
    told: Instant,
    live: Option<Live>,
}

/// What happens, line by line. Clones write to the same screen.
#[derive(Clone)]
pub struct Log {
    begun: Instant,
    /// The table, which must not be torn by the log.
    table: Option<MultiProgress>,
}

impl Log {
    /// Adds a line.
    pub fn line(&self, line: impl AsRef<str>) {
        let line = format!("{:>6.1}s  {}", self.begun.elapsed().as_secs_f64(), line.as_ref());
        match &self.table {
            Some(table) => table.suspend(|| print_line(line)),
            None => print_line(line),
        }
    }
}

struct Live {
    all: MultiProgress,
    /// Kept because a line that nobody holds disappears.
    _headings: [ProgressBar; 2],
    rows: Vec<ProgressBar>,
    progress: ProgressBar,
}

impl Screen {
    /// A screen for this many workers and runs.
    pub fn new(workers: usize, runs: usize) -> Screen {
        let live = std::io::stdout().is_terminal().then(|| Live::new(workers, runs));
        let log = Log { begun: Instant::now(), table: live.as_ref().map(|live| live.all.clone()) };
        Screen { log, told: Instant::now(), live }
    }

    /// The log alone, for somebody else who tells of what happens.
    pub fn log_alone(&self) -> Log {
        self.log.clone()
    }

    /// Adds a line to the log.
    pub fn log(&self, line: impl AsRef<str>) {
        self.log.line(line);
    }

    /// Shows the board as it is now.
    pub fn show(&mut self, board: &Board, runs: usize) {
        match &self.live {
            Some(live) => live.show(board),
            None if self.told.elapsed() >= PROGRESS_EVERY => {
                self.told = Instant::now();
                self.log(format!("{} of {runs} runs completed", board.completions()));
            }
            None => {}
        }
    }

    /// Takes the table away; the log stays.
    pub fn close(&mut self) {
        if let Some(live) = self.live.take() {
            let _ = live.all.clear();
        }
    }

    /// How long the demo has been going on.
    pub fn elapsed(&self) -> Duration {
        self.log.begun.elapsed()
    }
}

impl Live {
    fn new(workers: usize, runs: usize) -> Live {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let line = || {
            let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            all.add(ProgressBar::new_spinner().with_style(style))
        };
        let headings = [line(), line()];
        headings[0].set_message(" ");
        headings[1].set_message(format!("{DIM}{:<8} {:>8}  {:<36} {:>4}{PLAIN}", "WORKER", "PID", "HOLDS", "DONE"));
        let rows = (0..workers).map(|_| line()).collect();
        let style = ProgressStyle::with_template("{bar:50.green} {pos}/{len} completed")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let progress = all.add(ProgressBar::new(runs as u64).with_style(style));
        Live { all, _headings: headings, rows, progress }
    }

    fn show(&self, board: &Board) {
        for (line, row) in self.rows.iter().zip(&board.rows) {
            line.set_message(row_text(board, row));
        }
        self.progress.set_position(u64::from(board.completions()));
    }
}

fn row_text(board: &Board, row: &Row) -> String {
    let mut held: Vec<String> =
        row.held.iter().map(|(run, epoch)| format!("{} (epoch {epoch})", board.name(run))).collect();
    held.sort_unstable();
    let (color, note) = match row.fate {
        Fate::Killed => (RED, "killed"),
        Fate::Frozen => (BLUE, "frozen"),
        Fate::Alive | Fate::Thawed => ("", ""),
    };
    let refused = if row.refused > 0 { format!("{} refused", row.refused) } else { String::new() };
    format!(
        "{color}{:<8} {:>8}  {:<36} {:>4}  {note}{refused}{PLAIN}",
        row.name,
        row.pid,
        held.join(", "),
        row.completed
    )
}
