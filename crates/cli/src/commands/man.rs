//! `baton man`: pages of the manual.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::exit::Exit;

/// Where they go.
#[derive(Args)]
#[command(after_help = "Examples:
  baton man /usr/local/share/man/man1
  baton man ~/.local/share/man/man1      then: man baton-run-list")]
pub struct ManArgs {
    /// The directory, which is made if it is missing.
    directory: PathBuf,
}

/// Writes a page for each command.
pub fn man(args: ManArgs) -> Result<(), Exit> {
    let failed = |error: std::io::Error| Exit::failed(format!("{}: {error}", args.directory.display()));
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(crate::Cli::command(), &args.directory).map_err(failed)
}
