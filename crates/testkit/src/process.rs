//! A program under test: started, watched, and ended in all the ways programs end.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::watchdog::Watchdog;

/// How long the last words of a program that has ended are waited for.
const READ_PATIENCE: Duration = Duration::from_secs(2);

/// A running child process, with everything it has printed so far.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: Arc<watch::Sender<Vec<String>>>,
    _watchdog: Watchdog,
}

impl Process {
    /// Starts a program with these arguments and, on top of our own, these environment variables.
    pub fn spawn<A: AsRef<OsStr>, K: AsRef<OsStr>, V: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        environment: impl IntoIterator<Item = (K, V)>,
    ) -> Process {
        let mut command = Command::new(&program);
        command.args(arguments).envs(environment);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{:?} cannot be started: {error}", program.as_ref()));
        let watchdog = Watchdog::over(child.id(), "KILL", None);
        let output = Arc::new(watch::Sender::new(Vec::new()));
        collect(child.stdout.take(), &output);
        collect(child.stderr.take(), &output);
        Process { child, output, _watchdog: watchdog }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has printed so far, on both of its outputs.
    pub fn output(&self) -> String {
        self.output.borrow().join("\n")
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// Waits until it prints a line that contains `text`, and returns that line.
    ///
    /// # Panics
    /// After `patience`, with what it printed instead.
    pub async fn wait_for_line(&self, text: &str, patience: Duration) -> String {
        let find = |lines: &Vec<String>| lines.iter().find(|line| line.contains(text)).cloned();
        let mut output = self.output.subscribe();
        let seen = timeout_at(Instant::now() + patience, output.wait_for(|lines| find(lines).is_some())).await;
        match seen {
            Ok(Ok(lines)) => find(&lines).unwrap_or_default(),
            Ok(Err(_)) | Err(_) => panic!("no line with {text:?} within {patience:?}; it printed:\n{}", self.output()),
        }
    }

    /// Waits until it ends by itself, and until all that it has printed is read.
    ///
    /// # Panics
    /// After `patience`, with what it printed.
    pub async fn wait(&mut self, patience: Duration) -> ExitStatus {
        let until = Instant::now() + patience;
        let mut read_until = None;
        loop {
            if let Some(status) = self.ended() {
                // Each reader has the output until the pipe ends. A process that it has left behind may keep that open.
                let now = Instant::now();
                if Arc::strong_count(&self.output) == 1 || now >= *read_until.get_or_insert(now + READ_PATIENCE) {
                    return status;
                }
            }
            assert!(Instant::now() < until, "still running after {patience:?}; it printed:\n{}", self.output());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// `kill -9`, and waits until it is gone.
    pub fn sigkill(&mut self) {
        // An error means that it has ended already, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Freezes it: it is alive, and gives no sign of life.
    pub fn sigstop(&self) {
        signal(self.pid(), libc::SIGSTOP);
    }

    /// Thaws it.
    pub fn sigcont(&self) {
        signal(self.pid(), libc::SIGCONT);
    }

    /// Asks it to end.
    pub fn sigterm(&self) {
        signal(self.pid(), libc::SIGTERM);
    }

    /// What Ctrl-C does.
    pub fn sigint(&self) {
        signal(self.pid(), libc::SIGINT);
    }

    /// Tells it that its terminal is gone.
    pub fn sighup(&self) {
        signal(self.pid(), libc::SIGHUP);
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Panics
    /// After `patience`, with what it printed.
    pub async fn sigterm_and_wait(&mut self, patience: Duration) -> ExitStatus {
        self.sigterm();
        self.wait(patience).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.sigkill();
    }
}

/// Gathers lines in a thread of its own, so that the child never waits for a reader.
fn collect(pipe: Option<impl Read + Send + 'static>, output: &Arc<watch::Sender<Vec<String>>>) {
    let Some(pipe) = pipe else { return };
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { return };
            output.send_modify(|lines| lines.push(String::from_utf8_lossy(&line).into_owned()));
        }
    });
}

/// Sends a signal to a process that we started and have not waited for, so that its id is still its own.
#[allow(unsafe_code)]
pub(crate) fn signal(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("process ids are small");
    // SAFETY: kill takes two numbers and touches no memory of ours.
    unsafe {
        libc::kill(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Process {
        Process::spawn("sh", ["-c", script], [("GREETING", "hello")])
    }

    #[tokio::test]
    async fn lines_and_the_exit_status_are_seen() {
        let mut process = shell("echo $GREETING there; echo oh no >&2; exit 3");
        assert_eq!(process.wait_for_line("hello", PATIENCE).await, "hello there");
        assert_eq!(process.wait_for_line("oh", PATIENCE).await, "oh no");
        assert_eq!(process.wait(PATIENCE).await.code(), Some(3));
    }

    #[tokio::test]
    async fn a_frozen_process_ends_only_after_it_is_thawed() {
        let mut process = shell("trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done");
        process.wait_for_line("up", PATIENCE).await;
        process.sigstop();
        process.sigterm();
        assert!(process.ended().is_none());
        process.sigcont();
        process.wait_for_line("asked", PATIENCE).await;
        assert_eq!(process.wait(PATIENCE).await.code(), Some(0));
    }

    #[tokio::test]
    async fn a_child_does_not_outlive_a_killed_parent() {
        // The parent is this same test binary, running the helper below, which starts a child and is killed.
        let program = std::env::current_exe().unwrap();
        let helper = "process::tests::helper_that_starts_a_child";
        let mut parent =
            Process::spawn(program, [helper, "--exact", "--ignored", "--nocapture"], [("BATON_TESTKIT_HELPER", "1")]);
        let line = parent.wait_for_line("child is", PATIENCE).await;
        let child: u32 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(alive(child));
        parent.sigkill();
        let until = Instant::now() + PATIENCE;
        while alive(child) {
            assert!(Instant::now() < until, "the child outlived its parent");
            sleep(Duration::from_millis(10)).await;
        }
    }

    #[test]
    #[ignore = "not a test: the parent in a_child_does_not_outlive_a_killed_parent"]
    fn helper_that_starts_a_child() {
        if std::env::var_os("BATON_TESTKIT_HELPER").is_none() {
            return;
        }
        let child = Process::spawn("sleep", ["60"], [("A", "b")]);
        println!("\nchild is {}", child.pid());
        std::thread::sleep(Duration::from_secs(60));
    }

    fn alive(pid: u32) -> bool {
        Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().is_ok_and(|answer| {
            let state = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            !state.is_empty() && !state.starts_with('Z')
        })
    }
}
