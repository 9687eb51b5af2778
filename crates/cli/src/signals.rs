//! When the program is asked to stop.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::os;

/// A SIGTERM that comes so soon after another signal says the same.
const ECHO: Duration = Duration::from_secs(1);

/// Resolves with SIGTERM, Ctrl-C, or SIGHUP of a terminal that is gone. All are caught from now on, not from the first poll; a second
/// SIGTERM or Ctrl-C ends the program at once, for those who do not want to wait for a drain.
pub fn shutdown() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Whoever starts a program with nohup wants it to outlive the terminal.
    let mut hangup = if os::is_ignored(libc::SIGHUP)? { None } else { Some(signal(SignalKind::hangup())?) };
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = hung_up(hangup.as_mut()) => {}
        }
        tokio::spawn(async move {
            // Shell and kernel may both tell of the same terminal: a second SIGHUP is nobody's impatience. Nor is a second
            // SIGTERM at once: programs like `timeout` send it to the process and to its group.
            let begun = Instant::now();
            loop {
                tokio::select! {
                    _ = terminate.recv() => if begun.elapsed() >= ECHO { break },
                    _ = interrupt.recv() => break,
                }
            }
            std::process::exit(130);
        });
    })
}

async fn hung_up(hangup: Option<&mut Signal>) {
    match hangup {
        Some(hangup) => _ = hangup.recv().await,
        None => std::future::pending().await,
    }
}
