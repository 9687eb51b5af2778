//! When the program is asked to stop.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Resolves with SIGTERM or Ctrl-C. Both are caught from now on, not from the first poll; the second one ends the
/// program at once, for those who do not want to wait for a drain.
pub fn shutdown() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(130);
        });
    })
}
