//! Ends a child when this process is gone, also after `kill -9`, when no destructor runs.
//!
//! A shell waits on a pipe whose other end only this process holds. The kernel closes it whatever happens to us.
//! (The kernel's own death signal follows the thread that started the child, and test threads come and go.)

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// First politely, so that PostgreSQL frees its shared memory, then by force; the directory goes last.
const SCRIPT: &str = r#"
read -r _
kill -s "$1" "$2" 2>/dev/null
tries=0
while kill -0 "$2" 2>/dev/null && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -9 "$2" 2>/dev/null
[ -z "$3" ] || rm -rf "$3"
"#;

/// Watches over one child. Dropping it calls the watch off.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// When this process is gone, sends `signal` to `pid` and removes `directory`.
    pub(crate) fn over(pid: u32, signal: &str, directory: Option<&Path>) -> Watchdog {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog", signal, &pid.to_string()])
            .arg(directory.map(Path::as_os_str).unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal goes to the whole group; the watchdog has to survive it.
            .process_group(0)
            .spawn()
            .expect("sh cannot be started");
        Watchdog { shell }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Killed before its pipe closes, so that it does not act. An error means that it is gone already.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
