//! What hooks print: passed on to the agent's own error output, and the end of it kept to say why one failed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

const BYTES_MAX: usize = 4 << 10;
const LINES_MAX: usize = 20;

/// Reads for as long as anybody can write, also when it is dropped: whoever goes on after its hook must not get stuck on a full pipe.
pub struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    readers: JoinSet<()>,
    /// Whether what is looked for was printed.
    found: watch::Receiver<bool>,
}

impl Tail {
    pub fn of(stdout: Option<ChildStdout>, stderr: Option<ChildStderr>) -> Tail {
        Tail::looking_for("", stdout, stderr)
    }

    /// As `of`; these words are looked for.
    pub fn looking_for(words: &'static str, stdout: Option<ChildStdout>, stderr: Option<ChildStderr>) -> Tail {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let (say, found) = watch::channel(false);
        let say = Arc::new(say);
        let mut readers = JoinSet::new();
        if let Some(pipe) = stdout {
            readers.spawn(read(pipe, kept.clone(), words, say.clone()));
        }
        if let Some(pipe) = stderr {
            readers.spawn(read(pipe, kept.clone(), words, say));
        }
        Tail { kept, readers, found }
    }

    /// Waits until the words were printed; for ever when nobody can print them any more.
    pub async fn found(&self) {
        if self.found.clone().wait_for(|found| *found).await.is_err() {
            std::future::pending().await
        }
    }

    /// The last lines, once nobody can write any more or the time is over.
    pub async fn end(mut self, patience: Duration) -> String {
        let _ = timeout(patience, async { while self.readers.join_next().await.is_some() {} }).await;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        last_lines(&kept)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.readers.detach_all();
    }
}

async fn read(
    mut pipe: impl AsyncRead + Unpin,
    kept: Arc<Mutex<Vec<u8>>>,
    words: &'static str,
    found: Arc<watch::Sender<bool>>,
) {
    let mut chunk = vec![0; BYTES_MAX];
    while let Ok(read) = pipe.read(&mut chunk).await
        && read > 0
    {
        // Nobody may be there to read it; the hook goes on all the same.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), &chunk[..read]);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&chunk[..read]);
        // Before anything of it is dropped. Words that come in two pieces are whole with the second.
        if !*found.borrow() && !words.is_empty() && String::from_utf8_lossy(&kept).contains(words) {
            found.send_replace(true);
        }
        let surplus = kept.len().saturating_sub(BYTES_MAX);
        kept.drain(..surplus);
    }
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}
