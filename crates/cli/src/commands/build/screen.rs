//! What somebody sees who follows a build: its log, what becomes of it, and how far files are.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use baton::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::print_line;

const SPIN: Duration = Duration::from_millis(100);
const BAR: &str = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";

/// The log goes to the standard output, everything else to the error output. On a terminal there is also a last line that
/// lives.
pub struct Screen {
    live: Option<ProgressBar>,
    json: bool,
}

impl Screen {
    /// With `json` the standard output is left to one document, and the log goes to the error output.
    pub fn new(json: bool) -> Screen {
        let live = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_style(style("{spinner:.cyan} {msg} {elapsed:.dim}"));
            bar.enable_steady_tick(SPIN);
            bar
        });
        Screen { live, json }
    }

    /// A line of the build's log.
    pub fn log(&self, line: &str) {
        // The end of the line is given with it: an empty line is one, too.
        self.above(|| if self.json { eprintln!("{line}") } else { print_line(format!("{line}\n")) });
    }

    /// Something happened to the build.
    pub fn note(&self, note: &str) {
        self.above(|| eprintln!("-- {note}"));
    }

    /// Where it stands; only where a line can live.
    pub fn status(&self, status: String) {
        if let Some(bar) = &self.live {
            bar.set_message(status);
        }
    }

    /// Leaves the terminal to somebody who asks a question on it, until [`Screen::resume`].
    pub fn pause(&self) {
        if let Some(bar) = &self.live {
            bar.disable_steady_tick();
            bar.suspend(|| {});
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
    }

    /// Takes the terminal back.
    pub fn resume(&self) {
        if let Some(bar) = &self.live {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            bar.enable_steady_tick(SPIN);
        }
    }

    /// Does something with the terminal while the living line is away.
    fn above<T>(&self, act: impl FnOnce() -> T) -> T {
        match &self.live {
            Some(bar) => bar.suspend(act),
            None => act(),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(bar) = &self.live {
            bar.finish_and_clear();
        }
    }
}

/// How far a file is. Nothing is shown where nobody looks.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar of this many bytes.
    pub fn new(what: &'static str, bytes: u64) -> Bar {
        match std::io::stderr().is_terminal() {
            true => Bar(ProgressBar::new(bytes).with_style(style(BAR)).with_message(what)),
            false => Bar(ProgressBar::hidden()),
        }
    }

    /// To be told how far it is.
    pub fn progress(&self) -> Progress {
        let bar = self.0.clone();
        Arc::new(move |bytes| bar.set_position(bytes))
    }

    /// To be told also how much there is, which may turn out on the way.
    pub fn set(&self, bytes: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(bytes);
    }
}

impl Clone for Bar {
    fn clone(&self) -> Bar {
        Bar(self.0.clone())
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
