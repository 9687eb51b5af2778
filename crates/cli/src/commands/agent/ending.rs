//! The end of a machine, by its own hand.

use std::time::Duration;

use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::words::Why;
use crate::commands::worker::build::run::without_baton;
use crate::exit::Exit;

/// How long a command may take that ends the machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(5);

/// How a machine ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndWith {
    /// With the agent's process.
    Exit,
    /// With this shell command.
    Command(String),
}

impl EndWith {
    /// Reads `exit`, `shutdown`, or a shell command.
    pub fn parse(text: &str) -> Result<EndWith, String> {
        match text.trim() {
            "" => Err("exit, shutdown, or a shell command is wanted".into()),
            "exit" => Ok(EndWith::Exit),
            "shutdown" => Ok(EndWith::Command("shutdown -h now".into())),
            command => Ok(EndWith::Command(command.into())),
        }
    }

    /// Ends the machine. Returns what the agent's process ends with, should it live that long.
    pub async fn end(&self, why: Why) -> Result<(), Exit> {
        let (said, is_meant) = words(&why);
        tracing::info!("{said}");
        // Whoever stops the agent may want to start it again; the machine is not the agent's to end then.
        if let (EndWith::Command(command), false) = (self, why == Why::Stopped) {
            carry_out(command).await?;
        }
        match is_meant {
            true => Ok(()),
            false => Err(Exit::failed(said)),
        }
    }
}

/// Why in words, and whether that is how it should be.
fn words(why: &Why) -> (String, bool) {
    match why {
        Why::Told => ("the server ends this machine".into(), true),
        Why::Stopped => ("somebody stopped the agent".into(), true),
        Why::Overtime => ("the run's deadline has passed and nobody has ended this machine".into(), false),
        Why::Unreachable => ("the server was out of reach for too long".into(), false),
        Why::Disowned(message) => (format!("the server does not know this machine: {message}"), false),
        Why::Confused => ("the server takes this machine for one that is in another state".into(), false),
    }
}

/// A machine that nobody knows of costs money until it ends, so it is tried again.
async fn carry_out(command: &str) -> Result<(), Exit> {
    let mut wrong = String::new();
    for tried in 0..TRIES_MAX {
        if tried > 0 {
            sleep(PAUSE).await;
        }
        let mut shell = Command::new("/bin/sh");
        without_baton(&mut shell);
        shell.arg("-c").arg(command).kill_on_drop(true);
        match timeout(TIMEOUT, shell.status()).await {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => wrong = status.to_string(),
            Ok(Err(error)) => wrong = error.to_string(),
            Err(_) => wrong = format!("it took longer than {TIMEOUT:?}"),
        }
        tracing::error!(command, %wrong, "the machine could not be ended");
    }
    Err(Exit::failed(format!("the machine could not be ended with {command:?}: {wrong}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_end_is_a_word_or_a_command() {
        assert_eq!(EndWith::parse("exit"), Ok(EndWith::Exit));
        assert_eq!(EndWith::parse("shutdown"), Ok(EndWith::Command("shutdown -h now".into())));
        assert_eq!(EndWith::parse(" poweroff -f "), Ok(EndWith::Command("poweroff -f".into())));
        assert!(EndWith::parse(" ").is_err());
    }

    #[tokio::test]
    async fn a_stopped_agent_leaves_its_machine_alone_and_every_other_end_is_the_machines() {
        let directory = tempfile::tempdir().unwrap();
        let ended = directory.path().join("ended");
        let end_with = EndWith::Command(format!("echo x >> '{}'", ended.display()));
        assert_eq!(end_with.end(Why::Stopped).await, Ok(()));
        assert!(!ended.exists());
        assert_eq!(end_with.end(Why::Told).await, Ok(()));
        for why in [Why::Overtime, Why::Unreachable, Why::Confused, Why::Disowned("gone".into())] {
            assert!(end_with.end(why).await.is_err());
        }
        assert_eq!(std::fs::read_to_string(ended).unwrap().lines().count(), 5);
    }
}
