//! Who is to be told in this process that a workflow has got messages. Only hints: the store has the messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::{RunId, WorkerId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::watch::Watchers;

/// How long a new stream waits for the end of the one before.
const DISPLACE_TIME_MAX: Duration = Duration::from_secs(1);

/// Runs with news that one stream holds.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// Rung when there is something in it.
    pub bell: Notify,
    news: Mutex<News>,
}

/// What a stream has to look at.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// These runs.
    pub runs: Vec<RunId>,
    /// All it holds: some hints were missed.
    pub all: bool,
}

impl Mailbox {
    /// Takes out what is in it.
    pub fn take(&self) -> News {
        std::mem::take(&mut *self.news.lock().expect("nobody panics while holding it"))
    }

    fn put(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.news.lock().expect("nobody panics while holding it"));
        self.bell.notify_one();
    }
}

/// All who wait for messages in this process.
#[derive(Debug, Default)]
pub struct Inboxes {
    /// Calls that wait for messages of one run.
    pub callers: Watchers,
    held: Mutex<HashMap<RunId, Arc<Mailbox>>>,
    streams: Mutex<HashMap<WorkerId, Open>>,
}

/// A stream that is open.
#[derive(Debug)]
struct Open {
    mailbox: Arc<Mailbox>,
    displaced: CancellationToken,
    closed: CancellationToken,
}

impl Inboxes {
    /// A stream begins for this worker. One that it had before is told to end: its connection was lost.
    pub fn open(&self, worker: WorkerId, mailbox: &Arc<Mailbox>) -> CancellationToken {
        let (displaced, closed) = (CancellationToken::new(), CancellationToken::new());
        let open = Open { mailbox: mailbox.clone(), displaced: displaced.clone(), closed };
        let before = self.streams.lock().expect("nobody panics while holding it").insert(worker, open);
        if let Some(before) = before {
            before.displaced.cancel();
            before.closed.cancel();
        }
        displaced
    }

    /// Tells a stream that this worker has to end, and waits until it has given back what it did not send.
    pub async fn displace(&self, worker: WorkerId) {
        let closed = {
            let streams = self.streams.lock().expect("nobody panics while holding it");
            streams.get(&worker).map(|open| {
                open.displaced.cancel();
                open.closed.clone()
            })
        };
        if let Some(closed) = closed {
            // One that takes longer waits for the store, and finds its leases gone.
            let _ = tokio::time::timeout(DISPLACE_TIME_MAX, closed.cancelled()).await;
        }
    }

    /// A stream has ended.
    pub fn close(&self, worker: WorkerId, mailbox: &Arc<Mailbox>) {
        let mut streams = self.streams.lock().expect("nobody panics while holding it");
        if streams.get(&worker).is_some_and(|open| Arc::ptr_eq(&open.mailbox, mailbox))
            && let Some(open) = streams.remove(&worker)
        {
            open.closed.cancel();
        }
    }

    /// News of these runs goes to this mailbox from now on.
    pub fn hold(&self, runs: impl Iterator<Item = RunId>, mailbox: &Arc<Mailbox>) {
        let mut held = self.held.lock().expect("nobody panics while holding it");
        held.extend(runs.map(|run| (run, mailbox.clone())));
    }

    /// The mailbox does not care for these runs any more.
    pub fn let_go(&self, runs: impl Iterator<Item = RunId>, mailbox: &Arc<Mailbox>) {
        let mut held = self.held.lock().expect("nobody panics while holding it");
        for run in runs {
            if held.get(&run).is_some_and(|current| Arc::ptr_eq(current, mailbox)) {
                held.remove(&run);
            }
        }
    }

    /// There is news of this run: messages, or its end.
    pub fn news(&self, run: RunId) {
        self.callers.changed(run);
        let mailbox = self.held.lock().expect("nobody panics while holding it").get(&run).cloned();
        if let Some(mailbox) = mailbox {
            mailbox.put(|news| news.runs.push(run));
        }
    }

    /// Some news was missed.
    pub fn missed(&self) {
        let streams = self.streams.lock().expect("nobody panics while holding it");
        streams.values().for_each(|open| open.mailbox.put(|news| news.all = true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_goes_to_the_stream_that_holds_the_run_and_to_no_other() {
        let inboxes = Inboxes::default();
        let (first, second) = (Arc::new(Mailbox::default()), Arc::new(Mailbox::default()));
        let runs = [RunId::new(1, 1, 1), RunId::new(1, 2, 2)];
        inboxes.hold(runs.into_iter(), &first);
        inboxes.hold([runs[1]].into_iter(), &second);
        inboxes.let_go(runs[1..].iter().copied(), &first);
        runs.into_iter().for_each(|run| inboxes.news(run));
        assert_eq!(first.take(), News { runs: vec![runs[0]], all: false });
        assert_eq!(second.take(), News { runs: vec![runs[1]], all: false });
    }

    #[test]
    fn a_second_stream_of_a_worker_ends_the_first() {
        let (inboxes, worker) = (Inboxes::default(), WorkerId::from_random(7));
        let (first, second) = (Arc::new(Mailbox::default()), Arc::new(Mailbox::default()));
        let displaced = inboxes.open(worker, &first);
        let current = inboxes.open(worker, &second);
        assert!(displaced.is_cancelled() && !current.is_cancelled());
        // The end of the first is not the end of the second.
        inboxes.close(worker, &first);
        inboxes.missed();
        assert!(second.take().all && !first.take().all);
    }
}
