//! A command with everything it started.

use std::time::Duration;

use baton::runs::Stop;
use tokio::process::{Child, Command};

use crate::own::Own;
use crate::{os, own};

/// How long a command has to end by itself after it was asked to.
pub const TERMINATE_GRACE: Duration = Duration::from_secs(5);

/// A command with everything it started, in a group of its own. Dropping it kills the whole group.
pub struct Group {
    pub child: Child,
    /// The number of the group is that of its first process.
    number: Option<u32>,
    _own: Option<Own>,
}

impl Group {
    /// Starts a command. It does not outlive this program.
    pub fn start(mut command: Command) -> std::io::Result<Group> {
        command.process_group(0);
        os::die_with_parent(&mut command);
        let (child, own) = own::spawn(&mut command)?;
        let number = child.id();
        Ok(Group { child, number, _own: own })
    }

    /// The number of the group.
    pub fn number(&self) -> Option<u32> {
        self.number
    }

    /// Reaches also what the command has left behind. A group whose last member ended a moment ago is no stranger's
    /// yet: the system hands out numbers in turn.
    pub fn signal(&self, signal: i32) {
        if let Some(number) = self.number {
            // It may be gone already.
            let _ = os::signal_group(number, signal);
        }
    }

    /// Ends the command: at once when somebody else may work on the run already, otherwise with time to clean up.
    pub async fn stop(&mut self, why: Stop) {
        if why != Stop::LeaseLost {
            self.signal(libc::SIGTERM);
            let _ = tokio::time::timeout(TERMINATE_GRACE, self.child.wait()).await;
        }
        self.signal(libc::SIGKILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
    }
}
