//! What the drivers of a worker's runs share with its stream: reports that go out, answers that come back, and the runs that are held.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use baton_proto::v1::{self, report, report_answer};
use futures_util::Stream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::report::{ends_playing, passes, payload_bytes};
use crate::busy::LOOK_EVERY;
use crate::workflow::driver::Finished;
use crate::workflow::mailbox::{Event, Mailbox, Outbox};

/// Most reports of one message.
const MESSAGE_REPORTS_MAX: usize = 1_000;
/// Bytes of payload of one message; the report that goes beyond is its last.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of one report. A message of a stream may have 64 MiB with the server's own settings. What goes beyond cuts the stream before the server could
/// say so, again and again, and with it all runs of the worker.
const REPORT_BYTES_MAX: usize = 60 << 20;
/// Waits before a report is repeated that was refused for reasons that pass.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_LONGEST: Duration = Duration::from_secs(5);

struct Unanswered {
    what: report::What,
    mailbox: Arc<Mailbox>,
    /// The number that the driver gave it.
    number: u64,
    tries: u32,
}

struct Held {
    lease: String,
    mailbox: Arc<Mailbox>,
}

#[derive(Default)]
struct State {
    /// Numbers of reports that are to be sent.
    queue: VecDeque<u64>,
    unanswered: HashMap<u64, Unanswered>,
    /// Reports that are to be sent again then.
    again: BTreeSet<(Instant, u64)>,
    last_number: u64,
    hello: Option<v1::Hello>,
    heartbeat: Option<v1::WorkerHeartbeatRequest>,
    /// Slots that are to be granted.
    slots: u32,
    drain: bool,
    draining: bool,
    held: HashMap<String, Held>,
    completed: u64,
    failed: u64,
    /// Which stream is the current one; none of another one gets anything.
    stream: u64,
    waker: Option<Waker>,
}

/// What the drivers of a worker's runs share with its stream.
#[derive(Default)]
pub(super) struct Link {
    state: Mutex<State>,
    max_concurrent: u32,
    /// Told when a run was let go of.
    let_go: Notify,
    /// Told when a report is to be sent again later.
    later: Notify,
    /// Told when a run came.
    came: Notify,
    /// Told when there is nobody any more who could play runs.
    orphaned: Notify,
}

impl Link {
    pub(super) fn new(max_concurrent: u32) -> Link {
        Link { max_concurrent, ..Link::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete when the lock is let go of.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the stream

    /// Begins a stream with this hello: everything that has no answer is sent again, and the slots that are free are granted.
    pub(super) fn open(self: &Arc<Self>, mut hello: v1::Hello) -> Requests {
        let mut state = self.lock();
        let lease =
            |(run_id, held): (&String, &Held)| v1::RunLease { run_id: run_id.clone(), lease: held.lease.clone() };
        hello.leases = state.held.iter().map(lease).collect();
        state.hello = Some(hello);
        state.heartbeat = None;
        state.drain = state.draining;
        state.slots = match state.draining {
            true => 0,
            false => {
                let playing = state.held.values().filter(|held| !held.mailbox.is_played()).count();
                self.max_concurrent.saturating_sub(u32::try_from(playing).unwrap_or(u32::MAX))
            }
        };
        let waiting: BTreeSet<u64> = state.again.iter().map(|(_, number)| *number).collect();
        let mut numbers: Vec<u64> =
            state.unanswered.keys().copied().filter(|number| !waiting.contains(number)).collect();
        numbers.sort_unstable();
        state.queue = numbers.into();
        state.stream += 1;
        state.waker = None;
        Requests { link: self.clone(), stream: state.stream }
    }

    /// Ends the current stream.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.stream += 1;
        state.wake();
    }

    /// Has a heartbeat sent.
    pub(super) fn beat(&self, worker_id: &str) {
        let mut state = self.lock();
        let lease =
            |(run_id, held): (&String, &Held)| v1::RunLease { run_id: run_id.clone(), lease: held.lease.clone() };
        state.heartbeat = Some(v1::WorkerHeartbeatRequest {
            worker_id: worker_id.to_owned(),
            active_count: u32::try_from(state.held.len()).unwrap_or(u32::MAX),
            completed_delta: std::mem::take(&mut state.completed),
            failed_delta: std::mem::take(&mut state.failed),
            leases: state.held.iter().map(lease).collect(),
            all_leases: true,
            ..Default::default()
        });
        state.wake();
    }

    /// No more runs.
    pub(super) fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        state.drain = true;
        state.slots = 0;
        state.wake();
    }

    pub(super) fn is_draining(&self) -> bool {
        self.lock().draining
    }

    // ---- answers

    /// Passes an answer on to whoever reported, unless the report is to be repeated.
    pub(super) fn answer(&self, answer: v1::ReportAnswer) {
        let Some(what) = answer.what else { return };
        let mut state = self.lock();
        if let report_answer::What::Error(error) = &what
            && passes(error)
            && let Some(unanswered) = state.unanswered.get_mut(&answer.number)
        {
            tracing::debug!(error = error.message, "a report is repeated");
            unanswered.tries += 1;
            let pause = AGAIN_FIRST.saturating_mul(1 << unanswered.tries.min(10)).min(AGAIN_LONGEST);
            state.again.insert((Instant::now() + pause, answer.number));
            self.later.notify_one();
            return;
        }
        let Some(unanswered) = state.unanswered.remove(&answer.number) else { return };
        drop(state);
        unanswered.mailbox.put(Event::Answer { number: unanswered.number, what });
    }

    /// Sends reports again whenever their time has come. Never returns.
    pub(super) async fn repeat(&self) {
        loop {
            let next = {
                let mut state = self.lock();
                let now = Instant::now();
                while let Some((due, number)) = state.again.first().copied().filter(|(due, _)| *due <= now) {
                    state.again.remove(&(due, number));
                    state.queue.push_back(number);
                    state.wake();
                }
                state.again.first().map(|(due, _)| *due)
            };
            match next {
                Some(due) => tokio::select! {
                    () = tokio::time::sleep_until(due) => {}
                    () = self.later.notified() => {}
                },
                None => self.later.notified().await,
            }
        }
    }

    // ---- runs

    /// Notes a run that the worker now holds. Should it hold it already, the lease of that was lost.
    pub(super) fn hold(&self, run_id: &str, lease: &str) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        let held = Held { lease: lease.to_owned(), mailbox: mailbox.clone() };
        let before = self.lock().held.insert(run_id.to_owned(), held);
        self.came.notify_one();
        if let Some(before) = before {
            before.mailbox.put(Event::Lost);
        }
        mailbox
    }

    /// The worker holds a run no longer, and has room for another one.
    pub(super) fn let_go(&self, run_id: &str, mailbox: &Arc<Mailbox>, finished: Finished) {
        let mut state = self.lock();
        if state.held.get(run_id).is_some_and(|held| Arc::ptr_eq(&held.mailbox, mailbox)) {
            state.held.remove(run_id);
        }
        match finished {
            Finished::Completed => state.completed += 1,
            Finished::Failed => state.failed += 1,
            Finished::Suspended | Finished::GivenBack | Finished::Lost => {}
        }
        if finished == Finished::Lost {
            // Nobody waits for the answers any more, and the lease is not good for anything.
            state.unanswered.retain(|_, unanswered| !Arc::ptr_eq(&unanswered.mailbox, mailbox));
            let State { unanswered, again, .. } = &mut *state;
            again.retain(|(_, number)| unanswered.contains_key(number));
        }
        state.free(mailbox);
        drop(state);
        self.let_go.notify_waiters();
    }

    /// The lease of a run, if it is held.
    pub(super) fn lease_of(&self, run_id: &str) -> Option<v1::RunLease> {
        let held = self.lock().held.get(run_id).map(|held| held.lease.clone());
        held.map(|lease| v1::RunLease { run_id: run_id.to_owned(), lease })
    }

    /// The run that this report was about, if it waits for an answer.
    pub(super) fn run_of(&self, number: u64) -> Option<v1::RunLease> {
        match &self.lock().unanswered.get(&number)?.what {
            report::What::Suspend(report) => {
                Some(v1::RunLease { run_id: report.run_id.clone(), lease: report.lease.clone() })
            }
            // No other answer brings messages.
            _ => None,
        }
    }

    /// Tells the driver of a run, if it is held.
    pub(super) fn tell(&self, run_id: &str, event: Event) {
        let mailbox = self.lock().held.get(run_id).map(|held| held.mailbox.clone());
        if let Some(mailbox) = mailbox {
            mailbox.put(event);
        }
    }

    /// Tells the drivers of all runs.
    pub(super) fn tell_all(&self, event: impl Fn() -> Event) {
        let mailboxes: Vec<_> = self.lock().held.values().map(|held| held.mailbox.clone()).collect();
        mailboxes.iter().for_each(|mailbox| mailbox.put(event()));
    }

    /// Names in the log whatever keeps its thread for too long. Never returns.
    pub(super) async fn watch(&self) {
        loop {
            let mailboxes: Vec<_> = self.lock().held.values().map(|held| held.mailbox.clone()).collect();
            if mailboxes.is_empty() {
                // An idle worker is quiet.
                self.came.notified().await;
            }
            mailboxes.iter().filter_map(|mailbox| mailbox.workflow()).for_each(|workflow| workflow.look());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Lets go of all runs: nobody will answer what plays them.
    pub(super) fn over(&self) {
        self.tell_all(|| Event::Lost);
        self.close();
    }

    /// The runtime that plays runs has been shut down.
    pub(super) fn orphan(&self) {
        self.orphaned.notify_one();
    }

    /// Waits until there is nobody any more who could play runs.
    pub(super) async fn is_orphaned(&self) {
        self.orphaned.notified().await;
    }

    /// Waits until nothing is held.
    pub(super) async fn empty(&self) {
        loop {
            let let_go = self.let_go.notified();
            tokio::pin!(let_go);
            // Listens before it looks.
            let_go.as_mut().enable();
            if self.lock().held.is_empty() {
                return;
            }
            let_go.await;
        }
    }
}

impl Outbox for Link {
    fn send(&self, mailbox: &Arc<Mailbox>, reports: Vec<(u64, report::What)>) {
        let mut too_large = Vec::new();
        let mut state = self.lock();
        for (number, what) in reports {
            if payload_bytes(&what) > REPORT_BYTES_MAX {
                too_large.push(number);
                continue;
            }
            if ends_playing(&what) {
                // The next run may come with the answer to this report.
                state.free(mailbox);
            }
            state.last_number += 1;
            let last = state.last_number;
            state.unanswered.insert(last, Unanswered { what, mailbox: mailbox.clone(), number, tries: 0 });
            state.queue.push_back(last);
        }
        state.wake();
        drop(state);
        // In the words of the server, which never sees them.
        for number in too_large {
            let error = v1::ReportError {
                code: tonic::Code::ResourceExhausted as u32,
                reason: "TOO_LARGE".into(),
                message: format!("a payload may be at most {REPORT_BYTES_MAX} bytes on its way to the server"),
            };
            mailbox.put(Event::Answer { number, what: report_answer::What::Error(error) });
        }
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Grants the slot of a run that is not played any more, unless that was done before.
    fn free(&mut self, mailbox: &Mailbox) {
        if mailbox.played() && !self.draining {
            self.slots += 1;
            self.wake();
        }
    }

    /// Everything that is ready, in one message.
    fn next(&mut self) -> Option<v1::WorkRequest> {
        let mut request = v1::WorkRequest {
            hello: self.hello.take(),
            slots: std::mem::take(&mut self.slots),
            reports: Vec::new(),
            heartbeat: self.heartbeat.take(),
            drain: std::mem::take(&mut self.drain),
        };
        let mut bytes = 0;
        while bytes < MESSAGE_BYTES_MAX && request.reports.len() < MESSAGE_REPORTS_MAX {
            let Some(number) = self.queue.pop_front() else { break };
            let Some(unanswered) = self.unanswered.get(&number) else { continue };
            bytes += payload_bytes(&unanswered.what);
            request.reports.push(v1::Report { number, what: Some(unanswered.what.clone()) });
        }
        let empty = request.hello.is_none()
            && request.slots == 0
            && request.reports.is_empty()
            && request.heartbeat.is_none()
            && !request.drain;
        (!empty).then_some(request)
    }
}

/// What a stream sends.
pub(super) struct Requests {
    link: Arc<Link>,
    stream: u64,
}

impl Stream for Requests {
    type Item = v1::WorkRequest;

    fn poll_next(self: Pin<&mut Self>, polling: &mut Context<'_>) -> Poll<Option<v1::WorkRequest>> {
        let mut state = self.link.lock();
        if state.stream != self.stream {
            return Poll::Ready(None);
        }
        match state.next() {
            Some(request) => Poll::Ready(Some(request)),
            None => {
                state.waker = Some(polling.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
