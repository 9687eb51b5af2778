//! Ctrl-C while somebody follows a build: what to do with it?

use std::io::{BufRead, IsTerminal, Write};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What to do with a build whose follower was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Stop it.
    Cancel,
    /// Leave it alone, and stop following it.
    Detach,
    /// Go on following.
    Stay,
}

/// Ctrl-C, caught from now on.
pub struct Interrupts(Signal);

impl Interrupts {
    pub fn catch() -> std::io::Result<Interrupts> {
        Ok(Interrupts(signal(SignalKind::interrupt())?))
    }

    /// Waits for Ctrl-C.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            // No more signals will come.
            std::future::pending().await
        }
    }

    /// Asks what to do. Whoever cannot answer, or interrupts again, is detached: a build is not stopped by accident.
    pub async fn ask(&mut self) -> Choice {
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Choice::Detach;
        }
        loop {
            eprint!("\n[c]ancel the build, [d]etach and let it run, or [g]o on following? ");
            let _ = std::io::stderr().flush();
            let read = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line).map(|_| line)
            });
            let answer = tokio::select! {
                answer = read => answer,
                () = self.next() => return Choice::Detach,
            };
            match answer {
                Ok(Ok(line)) if line.is_empty() => return Choice::Detach,
                Ok(Ok(line)) => match understand(&line) {
                    Some(choice) => return choice,
                    None => continue,
                },
                Ok(Err(_)) | Err(_) => return Choice::Detach,
            }
        }
    }
}

fn understand(line: &str) -> Option<Choice> {
    match line.trim().to_lowercase().as_str() {
        "c" | "cancel" => Some(Choice::Cancel),
        "d" | "detach" => Some(Choice::Detach),
        "g" | "go" | "go on" => Some(Choice::Stay),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_clearly_said_cancels() {
        assert_eq!(understand("C\n"), Some(Choice::Cancel));
        assert_eq!(understand(" cancel "), Some(Choice::Cancel));
        assert_eq!(understand("d\n"), Some(Choice::Detach));
        assert_eq!(understand("g\n"), Some(Choice::Stay));
        for unclear in ["\n", "yes\n", "cd\n"] {
            assert_eq!(understand(unclear), None, "{unclear:?}");
        }
    }
}
