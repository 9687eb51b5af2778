//! Runs a command with a throw-away PostgreSQL that all its tests share. scripts/test uses it.

use std::process::ExitCode;

use tokio::process::Command;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let Some((program, arguments)) = arguments.split_first() else {
        eprintln!("usage: throwaway_postgres PROGRAM [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let postgres = baton_testkit::Postgres::start().await;
    let mut command = Command::new(program);
    command.args(arguments).env(baton_testkit::POSTGRES_VARIABLE, postgres.url());
    match command.status().await {
        // A command that a signal ended has no code of its own.
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("{} cannot be started: {error}", program.display());
            ExitCode::from(127)
        }
    }
}
