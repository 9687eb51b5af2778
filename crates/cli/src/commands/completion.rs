//! `baton completion`: scripts that complete the command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output::print_line;

/// Which shell.
#[derive(Args)]
#[command(after_help = "Examples:
  baton completion bash > ~/.local/share/bash-completion/completions/baton
  baton completion zsh > ~/.zfunc/_baton
  baton completion fish > ~/.config/fish/completions/baton.fish")]
pub struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
pub fn completion(args: CompletionArgs) -> Result<(), Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "baton", &mut script);
    print_line(String::from_utf8_lossy(&script));
    Ok(())
}
