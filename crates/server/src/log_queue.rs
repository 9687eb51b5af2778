//! Lines of the log on their way out. Who logs never waits for whoever reads the log: lines are
//! gathered in memory, one thread writes them, and what does not fit is dropped and counted.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of lines that wait to be written.
pub const LOG_BYTES_MAX: usize = 4 << 20;
/// What lines about requests may take of that: they must not push out what went wrong.
const REQUEST_BYTES_MAX: usize = LOG_BYTES_MAX / 2;
/// How long lines gather, so that a busy server does not wake the thread for each of them.
const GATHER: Duration = Duration::from_millis(20);
/// How long the end of the program waits for a reader that takes nothing.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Lines that this process has dropped.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines of the log that were dropped since the process started.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// One for each request: the first to be dropped.
    Request,
    /// Any other.
    Usual,
    /// A warning or an error, written without waiting for company.
    Urgent,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    dropped: u64,
    urgent: bool,
    closed: bool,
    /// True while the thread waits for the first line.
    idle: bool,
    /// True when all is written.
    done: bool,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nobody panics while holding it")
    }
}

/// Where lines are left. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogQueue(Arc<Shared>);

/// Writes what is left when it is dropped.
#[derive(Debug)]
pub struct LogWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl LogQueue {
    /// Starts the thread that writes lines to `out`.
    pub fn start(out: impl Write + Send + 'static) -> std::io::Result<(LogQueue, LogWriter)> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || write(&own, out))?;
        Ok((LogQueue(shared.clone()), LogWriter { shared, thread: Some(thread) }))
    }

    /// Leaves a line, unless there is no room for it.
    pub fn push(&self, line: &[u8], weight: Weight) {
        let most = if weight == Weight::Request { REQUEST_BYTES_MAX } else { LOG_BYTES_MAX };
        let mut waiting = self.0.lock();
        if waiting.lines.len() + line.len() > most {
            waiting.dropped += 1;
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.lines.extend_from_slice(line);
        waiting.urgent |= weight == Weight::Urgent;
        let is_awaited = waiting.idle || waiting.urgent;
        waiting.idle = false;
        drop(waiting);
        if is_awaited {
            self.0.news.notify_all();
        }
    }
}

fn write(shared: &Shared, mut out: impl Write) {
    let mut lines = Vec::new();
    loop {
        let mut waiting = shared.lock();
        while waiting.lines.is_empty() && !waiting.closed {
            waiting.idle = true;
            waiting = shared.news.wait(waiting).expect("nobody panics while holding it");
        }
        waiting.idle = false;
        waiting.urgent = false;
        std::mem::swap(&mut lines, &mut waiting.lines);
        let (dropped, closed) = (std::mem::take(&mut waiting.dropped), waiting.closed);
        drop(waiting);
        // Where nobody reads the log there is nobody to tell.
        let _ = out.write_all(&lines).and_then(|()| out.flush());
        lines.clear();
        if dropped > 0 {
            tracing::warn!(lines = dropped, "lines of the log were dropped: they are not read as fast as they come");
        }
        let mut waiting = shared.lock();
        if closed && waiting.lines.is_empty() {
            waiting.done = true;
            drop(waiting);
            shared.news.notify_all();
            return;
        }
        let until = Instant::now() + GATHER;
        while !waiting.urgent && !waiting.closed {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { break };
            waiting = shared.news.wait_timeout(waiting, left).expect("nobody panics while holding it").0;
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        let mut waiting = self.shared.lock();
        waiting.closed = true;
        self.shared.news.notify_all();
        let until = Instant::now() + CLOSE_WAIT;
        while !waiting.done {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return;
            };
            waiting = self.shared.news.wait_timeout(waiting, left).expect("nobody panics while holding it").0;
        }
        drop(waiting);
        if let Some(thread) = self.thread.take() {
            // It panics only when a subscriber does, and then there is nobody to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A reader that takes one write at a time, when it is told to.
    struct Slow {
        taken: Arc<Mutex<Vec<u8>>>,
        begun: mpsc::Sender<()>,
        go_on: mpsc::Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.begun.send(());
            // Whoever has gone lets everything through.
            let _ = self.go_on.recv();
            self.taken.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order_and_none_is_left_at_the_end() {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (begun, _begun) = mpsc::channel();
        let (_, go_on) = mpsc::channel();
        let (queue, writer) = LogQueue::start(Slow { taken: taken.clone(), begun, go_on }).unwrap();
        for number in 0..1_000 {
            queue.push(format!("{number}\n").as_bytes(), Weight::Usual);
        }
        drop(writer);
        let expected: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8(taken.lock().unwrap().clone()).unwrap(), expected);
    }

    #[test]
    fn nobody_waits_for_a_reader_that_takes_nothing_and_requests_are_dropped_first() {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (begun, has_begun) = mpsc::channel();
        let (go_on, let_through) = mpsc::channel();
        let (queue, writer) = LogQueue::start(Slow { taken: taken.clone(), begun, go_on: let_through }).unwrap();
        queue.push(b"first\n", Weight::Urgent);
        has_begun.recv().unwrap();
        // The thread is stuck with the first line, so these wait.
        let (before, line) = (dropped(), vec![b'x'; 1 << 20]);
        for _ in 0..4 {
            queue.push(&line, Weight::Request);
        }
        assert_eq!(dropped() - before, 2, "requests have half of the room");
        for _ in 0..4 {
            queue.push(&line, Weight::Urgent);
        }
        assert_eq!(dropped() - before, 4, "and others the rest");
        drop(go_on);
        drop(writer);
        assert_eq!(taken.lock().unwrap().len(), b"first\n".len() + (4 << 20));
    }
}
