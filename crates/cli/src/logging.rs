//! Logs of the commands that stay: one line each on the error output.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::exit::Exit;

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
        use std::io::IsTerminal;
        let filter = EnvFilter::try_new(&self.log)
            .map_err(|error| Exit::usage(format!("--log {:?} is not a level or filter: {error}", self.log)))?;
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
        let started = match self.log_format {
            LogFormat::Text => lines.try_init(),
            LogFormat::Json => lines.json().try_init(),
        };
        started.map_err(|error| Exit::failed(format!("cannot start the log: {error}")))
    }
}
