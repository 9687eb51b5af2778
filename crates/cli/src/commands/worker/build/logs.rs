//! The log of a build on its way to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton::Client;
use baton::proto::NewLogLine;
use baton::runs::Cancel;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::disk;

/// Lines that may wait. When the server is away, the build waits with them: memory is bounded.
const WAITING_LINES_MAX: usize = 4_096;
/// Lines in one call.
const CALL_LINES_MAX: usize = 1_000;
/// Text in one call, in bytes.
const CALL_BYTES_MAX: usize = 256 << 10;
/// A longer line is sent in pieces.
const LINE_BYTES_MAX: usize = 16 << 10;
/// How long lines gather before they are sent.
const GATHER: Duration = Duration::from_millis(100);
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long the last lines of a build that was stopped may take.
const LAST_LINES: Duration = Duration::from_secs(10);

/// Where the lines of one build go.
#[derive(Clone)]
pub struct Logs {
    lines: mpsc::Sender<NewLogLine>,
    spoke_of_full_disk: Arc<AtomicBool>,
}

/// Sends them.
pub struct Pump(JoinHandle<()>);

/// Begins to send the lines of a build.
pub fn start(client: Client, build: String, lease: String) -> (Logs, Pump) {
    let (sender, receiver) = mpsc::channel(WAITING_LINES_MAX);
    let logs = Logs { lines: sender, spoke_of_full_disk: Arc::default() };
    (logs, Pump(tokio::spawn(pump(client, build, lease, receiver))))
}

impl Logs {
    /// Says something of the worker's own.
    pub async fn say(&self, message: impl Into<String>) {
        self.add("info", message.into()).await;
    }

    /// Whether a command has said that the disk is full.
    pub fn spoke_of_full_disk(&self) -> bool {
        self.spoke_of_full_disk.load(Ordering::Relaxed)
    }

    async fn add(&self, level: &str, message: String) {
        // The pump ends only after the last of us.
        let _ = self.lines.send(NewLogLine { level: Some(level.into()), message, timestamp: None }).await;
    }

    /// Adds everything that comes out of a pipe, line by line.
    pub async fn read(self, mut pipe: impl AsyncRead + Unpin, level: &'static str) {
        let mut lines = Lines::default();
        let mut chunk = vec![0; LINE_BYTES_MAX];
        while let Ok(read) = pipe.read(&mut chunk).await
            && read > 0
        {
            for line in lines.add(&chunk[..read]) {
                if disk::is_said_in(&line) {
                    self.spoke_of_full_disk.store(true, Ordering::Relaxed);
                }
                self.add(level, line).await;
            }
        }
        if let Some(line) = lines.rest() {
            self.add(level, line).await;
        }
    }
}

impl Pump {
    /// Waits until the last lines are sent. A server that does not take them takes no result either, so there is no hurry
    /// unless the build was stopped.
    pub async fn finish(mut self, logs: Logs, cancel: &Cancel) {
        drop(logs);
        let too_long = async {
            cancel.stopped().await;
            sleep(LAST_LINES).await;
        };
        tokio::select! {
            _ = &mut self.0 => {}
            () = too_long => tracing::warn!("the last lines of a log could not be sent"),
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn pump(client: Client, build: String, lease: String, mut lines: mpsc::Receiver<NewLogLine>) {
    let mut is_wanted = true;
    let mut first_line = 1;
    while let Some(first) = lines.recv().await {
        // Who prints a lot must not wait for more.
        if lines.len() < CALL_LINES_MAX {
            sleep(GATHER).await;
        }
        let mut bytes = first.message.len();
        let mut batch = vec![first];
        while batch.len() < CALL_LINES_MAX && bytes < CALL_BYTES_MAX {
            let Ok(line) = lines.try_recv() else { break };
            bytes += line.message.len();
            batch.push(line);
        }
        while is_wanted {
            // Numbered: lines whose answer was lost are sent again, and must not be there twice.
            match client.add_build_logs(&build, &lease, Some(first_line), batch.clone()).await {
                Ok(()) => break,
                Err(error) if error.is_transient() => sleep(RETRY_PAUSE).await,
                Err(error) => {
                    // The build is no longer ours. Go on reading, so that nothing waits for us while it is stopped.
                    tracing::debug!(%build, %error, "the log is not wanted any more");
                    is_wanted = false;
                }
            }
        }
        first_line += batch.len() as u64;
    }
}

/// Cuts bytes into lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn add(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.0.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.0.pop();
                lines.push(self.take(self.0.len()));
            }
            while self.0.len() >= LINE_BYTES_MAX {
                let end = boundary(&self.0, LINE_BYTES_MAX);
                lines.push(self.take(end));
            }
        }
        lines
    }

    fn rest(&mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.take(self.0.len()))
    }

    fn take(&mut self, end: usize) -> String {
        let rest = self.0.split_off(end);
        let line = std::mem::replace(&mut self.0, rest);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        // Whoever draws over a line with carriage returns means its last picture.
        let last = line.rsplit(|byte| *byte == b'\r').next().unwrap_or_default();
        String::from_utf8_lossy(last).into_owned()
    }
}

/// The last end of a character at or before `end`.
fn boundary(bytes: &[u8], end: usize) -> usize {
    let is_inner = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let begin = (end.saturating_sub(3)..=end).rev().find(|at| !is_inner(at));
    begin.filter(|begin| *begin > 0).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_pipe_was() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"a\nb"), ["a"]);
        assert_eq!(lines.add(b"c\r\n\nd\xff\n1%\r2%\r"), ["bc", "", "d\u{fffd}"]);
        assert_eq!(lines.add(b"3%\n"), ["3%"]);
        assert_eq!(lines.rest(), None);
        assert_eq!(lines.add(b"end"), Vec::<String>::new());
        assert_eq!(lines.rest().as_deref(), Some("end"));
    }

    #[test]
    fn long_lines_come_in_whole_characters() {
        let mut lines = Lines::default();
        let text = format!("x{}", "ä".repeat(LINE_BYTES_MAX));
        let mut pieces = lines.add(text.as_bytes());
        pieces.extend(lines.rest());
        assert!(pieces.len() > 2 && pieces.iter().all(|piece| piece.len() <= LINE_BYTES_MAX));
        assert_eq!(pieces.concat(), text);
    }
}
