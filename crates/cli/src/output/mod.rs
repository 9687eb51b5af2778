//! What goes to the standard output.

mod color;
pub mod harmless;
mod list;
mod look;
mod table;
mod watch;
mod when;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

use clap::{Args, ValueEnum};
use serde::Serialize;

pub use color::{ColorChoice, choose as choose_color, is_wanted as color_is_wanted};
pub use list::{List, Listing};
pub use look::Look;
pub use table::{Column, Table};

/// How an answer is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Output {
    /// For people, within the width of the terminal.
    #[default]
    Table,
    /// For people, with whole identifiers and more columns, however wide that is.
    Wide,
    /// One JSON document.
    Json,
    /// One JSON document a line, one for each entry of a list.
    Jsonl,
}

/// The choice between tables for people and JSON for programs.
#[derive(Args, Clone, Copy, Default)]
pub struct Format {
    /// How to print the answer.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Output,
    /// The same as `--output json`.
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// As [`Format`], for commands whose `--output` names a file.
#[derive(Args, Clone, Copy)]
pub struct JsonFlag {
    /// Print the answer as one JSON document.
    #[arg(long)]
    json: bool,
}

impl JsonFlag {
    /// The format that was asked for.
    pub fn format(self) -> Format {
        Format { output: Output::Table, json: self.json }
    }
}

impl Format {
    /// What was asked for, in whichever way.
    pub fn output(self) -> Output {
        if self.json { Output::Json } else { self.output }
    }

    /// Whether a program reads the answer.
    pub fn is_json(self) -> bool {
        matches!(self.output(), Output::Json | Output::Jsonl)
    }

    /// Prints the answer as JSON, or as `human` writes it.
    pub fn print<T: Serialize>(self, answer: &T, human: impl FnOnce(&T) -> String) {
        self.show(answer, |answer, _| human(answer));
    }

    /// As [`Format::print`], for what looks differently on another terminal.
    pub fn show<T: Serialize>(self, answer: &T, human: impl FnOnce(&T, Look) -> String) {
        // The shapes of the wire always can be written as JSON.
        print_line(match self.output() {
            Output::Json => serde_json::to_string_pretty(answer).unwrap_or_default(),
            Output::Jsonl => serde_json::to_string(answer).unwrap_or_default(),
            Output::Table | Output::Wide => harmless::lines(&human(answer, self.look())),
        });
    }

    /// How tables look on the standard output.
    pub fn look(self) -> Look {
        Look::of_stdout(self.output() == Output::Wide)
    }
}

/// Prints text and ends the line, unless there is nothing to print.
pub fn print_line(text: impl Display) {
    let text = text.to_string();
    if text.is_empty() {
        return;
    }
    write_out(&format!("{}\n", text.trim_end_matches('\n')));
}

/// Writes text to the standard output: as it is, for programs, and without what steers a terminal to one.
fn write_out(text: &str) {
    let is_terminal = std::io::stdout().is_terminal();
    let text = if is_terminal { Cow::Owned(harmless::lines(text)) } else { Cow::Borrowed(text) };
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        // The reader has seen enough, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("baton: cannot write to the standard output: {error}");
            std::process::exit(1);
        }
    }
}

/// Tells something on the error output, beside what the command prints.
pub fn print_note(text: impl Display) {
    eprintln!("baton: {}", harmless::lines(&text.to_string()));
}

/// What may be there, or a dash.
pub fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}
