//! Processes of this machine: whether one is still the one that was started, and how to end it.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

/// A process, told apart from a later one with the same number by when it was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Process {
    pub pid: i32,
    /// As the kernel counts. 0 where it does not say.
    pub started: u64,
}

impl Process {
    /// The process with this number, if there is one.
    pub fn of(pid: i32) -> Option<Process> {
        Some(Process { pid, started: started(pid)? })
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        Process::of(self.pid) == Some(*self)
    }

    /// Asks it to end.
    pub fn ask_to_end(&self) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) {
            // It may have ended since: that is what was wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends it.
    pub fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Ends its group: itself, and what it may have left behind there. To be called while it lives, or just after its end: as long as the group
    /// has somebody in it, its number is nobody else's.
    pub fn kill_group(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// When a process was started. `None`: there is none, or only its remains.
fn started(pid: i32) -> Option<u64> {
    let number = Pid::from_raw(pid)?;
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name of the program, in parentheses, may have anything in it.
        Ok(stat) => {
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let state = fields.next()?;
            let started = fields.nth(18)?.parse().ok()?;
            (!matches!(state, "Z" | "X")).then_some(started)
        }
        Err(_) if std::path::Path::new("/proc/self/stat").exists() => None,
        Err(_) => test_kill_process(number).is_ok().then_some(0),
    }
}

/// The process that was started under this name (its argument zero, which its children do not have), where the kernel says.
pub(super) fn named(name: &str) -> Option<Process> {
    let entries = std::fs::read_dir("/proc").ok()?;
    entries.flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let arguments = std::fs::read(entry.path().join("cmdline")).ok()?;
        (arguments.split(|byte| *byte == 0).next()? == name.as_bytes()).then_some(())?;
        Process::of(pid)
    })
}

/// Processes that have one of these in their environment (`NAME=value`), or work below one of these directories, where the kernel says.
pub(super) fn marked(marks: &[String], directories: &[PathBuf]) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let has_mark = |environment: &[u8]| {
        environment.split(|byte| *byte == 0).any(|variable| marks.iter().any(|mark| mark.as_bytes() == variable))
    };
    let found = |entry: std::fs::DirEntry| {
        // First who it is, then what it has: a later process with the number is not taken for it.
        let process = Process::of(entry.file_name().to_str()?.parse().ok()?)?;
        let is_marked = std::fs::read(entry.path().join("environ")).is_ok_and(|environment| has_mark(&environment));
        let works_in = std::fs::read_link(entry.path().join("cwd")).ok();
        let is_below = works_in.is_some_and(|place| directories.iter().any(|directory| place.starts_with(directory)));
        (is_marked || is_below).then_some(process)
    };
    entries.flatten().filter_map(found).collect()
}

/// Ends the group of a process when it is dropped, unless it was let go.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    /// The group that this process leads.
    pub fn led_by(pid: Option<u32>) -> Group {
        Group(pid.and_then(|pid| Pid::from_raw(pid.cast_signed())))
    }

    /// It may go on.
    pub fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_beginning() {
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive());
        assert!(!Process { started: own.started + 1, ..own }.is_alive(), "another one has the number now");
        assert_eq!(Process::of(i32::MAX), None);
        assert_eq!(Process::of(0), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_found_by_its_name_and_its_remains_are_not_it() {
        use std::os::unix::process::CommandExt;
        let name = format!("baton-test {}", std::process::id());
        let mut child = std::process::Command::new("sleep").arg0(&name).arg("1000").spawn().unwrap();
        let found = std::iter::repeat_with(|| named(&name)).find_map(|found| found).unwrap();
        assert_eq!(found.pid, child.id().cast_signed());
        kill_process(Pid::from_raw(found.pid).unwrap(), Signal::KILL).unwrap();
        // Until somebody waits for it, its number is taken.
        std::iter::repeat_with(|| found.is_alive()).find(|alive| !alive).unwrap();
        assert_eq!(named(&name), None);
        child.wait().unwrap();
    }
}
