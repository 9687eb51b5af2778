//! Threads that do a store's jobs: one that writes, several that read.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::connection::Sql;
use super::job::{self, Job};
use crate::{StoreError, StoreResult};

/// Jobs that may wait for a crew; who comes after them waits outside.
const JOBS_WAITING_MAX: usize = 1_024;

/// What a thread of a crew finds in its inbox.
enum Message {
    Work(Box<dyn Job>),
    /// Stop; the answer is the end of the channel.
    Stop(oneshot::Sender<()>),
}

/// What one thread does with its jobs.
pub(super) trait Hand: Send + 'static {
    /// The most jobs it takes at once.
    const JOBS_AT_ONCE: usize;
    /// Does these jobs and answers them all.
    fn work(&mut self, jobs: Vec<Box<dyn Job>>);
}

/// A crew: who has the same inbox.
pub(super) struct Crew {
    inbox: Option<mpsc::Sender<Message>>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    /// Starts a thread for each hand.
    pub(super) fn start<H: Hand>(name: &str, hands: Vec<H>) -> StoreResult<Crew> {
        let (sender, receiver) = mpsc::channel(JOBS_WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut crew = Crew { inbox: Some(sender), threads: Vec::with_capacity(hands.len()) };
        for hand in hands {
            let receiver = Arc::clone(&receiver);
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || serve(hand, &receiver))
                .map_err(|error| StoreError::Unavailable(format!("no thread for the store: {error}")))?;
            crew.threads.push(thread);
        }
        Ok(crew)
    }

    /// Has a job done, and waits for the answer.
    pub(super) async fn run<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Sql<'_>) -> StoreResult<T> + Send + 'static,
    {
        let (job, answer) = job::task(work);
        self.send(Message::Work(job)).await?;
        answer.await.map_err(|_| closed())?
    }

    /// Finishes the jobs that wait and stops the threads. Jobs that come later are refused.
    pub(super) async fn stop(&self) {
        for _ in &self.threads {
            let (stopped, done) = oneshot::channel();
            if self.send(Message::Stop(stopped)).await.is_ok() {
                // The thread lets go of its end when it has closed its connection.
                let _ = done.await;
            }
        }
    }

    async fn send(&self, message: Message) -> StoreResult<()> {
        let inbox = self.inbox.as_ref().ok_or_else(closed)?;
        inbox.send(message).await.map_err(|_| closed())
    }
}

impl Drop for Crew {
    /// Waits for the threads, so that whoever opens the same file next finds it free.
    fn drop(&mut self) {
        self.inbox = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("it has been closed".into())
}

fn serve<H: Hand>(mut hand: H, inbox: &Mutex<mpsc::Receiver<Message>>) {
    loop {
        let (jobs, stop) = take(inbox, H::JOBS_AT_ONCE);
        let last = jobs.is_empty() || stop.is_some();
        hand.work(jobs);
        if last {
            drop(hand);
            drop(stop);
            return;
        }
    }
}

/// Waits for a job and takes those that wait with it. No job at all means that nobody can send any more.
fn take(inbox: &Mutex<mpsc::Receiver<Message>>, most: usize) -> (Vec<Box<dyn Job>>, Option<oneshot::Sender<()>>) {
    let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
    let mut jobs = Vec::new();
    let mut next = inbox.blocking_recv();
    while let Some(message) = next {
        match message {
            Message::Work(job) => jobs.push(job),
            Message::Stop(stopped) => return (jobs, Some(stopped)),
        }
        next = if jobs.len() < most { inbox.try_recv().ok() } else { None };
    }
    (jobs, None)
}
