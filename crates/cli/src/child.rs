//! Children of this program that are this program again: the servers and workers of the demo and the benchmark.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::exit::Exit;
use crate::os;

/// This executable, started so that it dies with its parent and knows nothing of the user's own settings.
pub fn own_executable() -> Result<Command, Exit> {
    let mut command = Command::new(std::env::current_exe()?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BATON_")) {
        command.env_remove(name);
    }
    // In a group of its own: Ctrl-C is for the parent, which then stops its children.
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    os::die_with_parent(&mut command);
    Ok(command)
}

/// Asks a child to stop, waits for it, and kills it when it takes longer than this.
pub async fn stop(child: &mut Child, patience: Duration) {
    let Some(pid) = child.id() else { return };
    let _ = os::signal_process(pid, libc::SIGTERM);
    if timeout(patience, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
