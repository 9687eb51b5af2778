//! Logs of the commands that stay: one line each on the error output.

mod lines;

use std::io::{self, IsTerminal};

use baton_core::did_you_mean;
use baton_server::{LogQueue, LogWriter, REQUEST_TARGET, Weight};
use clap::{Args, ValueEnum};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::exit::Exit;

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// How much is logged, and how.
#[derive(Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// error, warn, info, debug, trace, or a filter like `warn,baton_server=debug`.
    #[arg(long, env = "BATON_LOG", default_value = "info", value_name = "LEVEL")]
    pub log: String,
    /// Lines for people, or JSON for programs.
    #[arg(long, env = "BATON_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// How a line of the log is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl LogArgs {
    /// Sends logs to the error output from now on.
    pub fn start(&self) -> Result<(), Exit> {
        self.start_with(io::stderr)
    }

    /// As [`LogArgs::start`], for a server: nobody waits until a line is written. What is left is
    /// written when the writer is dropped.
    pub fn start_queued(&self) -> Result<LogWriter, Exit> {
        let started = LogQueue::start(io::stderr());
        let (queue, writer) = started.map_err(|error| Exit::failed(format!("cannot start the log: {error}")))?;
        self.start_with(Lines(queue))?;
        Ok(writer)
    }

    fn start_with<W>(&self, writer: W) -> Result<(), Exit>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        for word in self.log.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains(['=', '['])) {
            // The filter would take any other word for the name of a module, and log nothing else.
            if word.parse::<LevelFilter>().is_err() {
                let near = did_you_mean::near(word, LEVELS);
                let meant = near.first().map_or_else(String::new, |near| format!(" Did you mean {near}?"));
                let levels = LEVELS.join(", ");
                return Err(Exit::usage(format!(
                    "--log {:?}: {word} is none of the levels {levels}.{meant} For a module write its level, too: \
                     baton_server=debug",
                    self.log
                )));
            }
        }
        let filter = EnvFilter::try_new(&self.log)
            .map_err(|error| Exit::usage(format!("--log {:?} is not a level or filter: {error}", self.log)))?;
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let started = match self.log_format {
            LogFormat::Text => lines.event_format(lines::Text { colours }).try_init(),
            LogFormat::Json => lines.event_format(lines::Json).try_init(),
        };
        started.map_err(|error| Exit::failed(format!("cannot start the log: {error}")))
    }
}

/// Leaves lines in a queue.
struct Lines(LogQueue);

/// One line, which is written in one go.
struct Line<'a> {
    queue: &'a LogQueue,
    weight: Weight,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { queue: &self.0, weight: Weight::Usual }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        let weight = match *meta.level() {
            Level::ERROR | Level::WARN => Weight::Urgent,
            _ if meta.target() == REQUEST_TARGET => Weight::Request,
            _ => Weight::Usual,
        };
        Line { queue: &self.0, weight }
    }
}

impl io::Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(line, self.weight);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
