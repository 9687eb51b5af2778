//! What is to be sent on a stream. The connection takes everything that is ready whenever it has room.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use baton_proto::v1;
use futures_util::Stream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Bytes of one message; the entry that goes beyond is its last.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// What an entry weighs besides its payload.
const ENTRY_BYTES: usize = 200;

/// The outgoing side of a stream.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Rung when the connection has taken something.
    pub(super) taken: Notify,
    /// Cancelled when nobody takes anything any more.
    pub(super) closed: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    registered: Option<v1::RegisterWorkerResponse>,
    heartbeat: Option<v1::WorkerHeartbeatResponse>,
    answers: Vec<v1::ReportAnswer>,
    messages: Vec<v1::RunMessages>,
    runs: Vec<v1::PollActivityResponse>,
    bytes: usize,
    end: Option<Result<(), Status>>,
    waker: Option<Waker>,
}

impl State {
    fn is_empty(&self) -> bool {
        self.registered.is_none()
            && self.heartbeat.is_none()
            && self.answers.is_empty()
            && self.messages.is_empty()
            && self.runs.is_empty()
    }

    /// The next message, if there is something to be said.
    fn next(&mut self) -> Option<v1::WorkResponse> {
        if self.is_empty() {
            return None;
        }
        let mut budget = MESSAGE_BYTES_MAX;
        // Answers first: they set the worker free for the runs.
        let answers = take(&mut self.answers, &mut budget, answer_bytes);
        let messages = take(&mut self.messages, &mut budget, messages_bytes);
        let runs = take(&mut self.runs, &mut budget, run_bytes);
        let (registered, heartbeat) = (self.registered.take(), self.heartbeat.take());
        let news = heartbeat.as_ref().map_or(0, heartbeat_bytes);
        self.bytes = self.bytes.saturating_sub(MESSAGE_BYTES_MAX.saturating_sub(budget) + news);
        if self.is_empty() {
            self.bytes = 0;
        }
        Some(v1::WorkResponse { registered, runs, answers, heartbeat, messages })
    }
}

/// Takes entries from the front until the budget is used up.
fn take<T>(entries: &mut Vec<T>, budget: &mut usize, bytes: impl Fn(&T) -> usize) -> Vec<T> {
    let mut count = 0;
    while count < entries.len() && *budget > 0 {
        *budget = budget.saturating_sub(bytes(&entries[count]));
        count += 1;
    }
    if count == entries.len() {
        return std::mem::take(entries);
    }
    entries.drain(..count).collect()
}

fn answer_bytes(answer: &v1::ReportAnswer) -> usize {
    use v1::report_answer::What;
    let payload = match &answer.what {
        Some(What::CompleteStep(kept)) => kept.output.len(),
        Some(What::Suspend(suspended)) => suspended.messages.iter().map(message_bytes).sum(),
        Some(What::Error(error)) => error.message.len(),
        _ => 0,
    };
    ENTRY_BYTES / 4 + payload
}

fn message_bytes(message: &v1::Message) -> usize {
    ENTRY_BYTES / 2 + message.name.len() + message.payload.len() + message.error.len()
}

fn messages_bytes(messages: &v1::RunMessages) -> usize {
    messages.messages.iter().map(message_bytes).sum()
}

fn run_bytes(run: &v1::PollActivityResponse) -> usize {
    let steps: usize = run.steps.iter().map(|step| ENTRY_BYTES / 2 + step.output.len() + step.error.len()).sum();
    let messages: usize = run.messages.iter().map(message_bytes).sum();
    ENTRY_BYTES + run.workflow_input.len() + steps + messages
}

fn heartbeat_bytes(answer: &v1::WorkerHeartbeatResponse) -> usize {
    ENTRY_BYTES / 2 * (answer.lost.len() + answer.cancelled.len())
}

impl Outbox {
    fn put(&self, change: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = self.state.lock().expect("nobody panics while holding it");
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The answer to the hello.
    pub(super) fn registered(&self, registered: v1::RegisterWorkerResponse) {
        self.put(|state| state.registered = Some(registered));
    }

    /// The answer to a heartbeat, or news that could not wait for one. Several that wait become one.
    pub(super) fn heartbeat(&self, answer: v1::WorkerHeartbeatResponse) {
        self.put(|state| {
            state.bytes += heartbeat_bytes(&answer);
            match &mut state.heartbeat {
                None => state.heartbeat = Some(answer),
                Some(before) => {
                    before.accepted |= answer.accepted;
                    before.should_drain |= answer.should_drain;
                    before.lost.extend(answer.lost);
                    before.cancelled.extend(answer.cancelled);
                }
            }
        });
    }

    /// Answers to reports.
    pub(super) fn answers(&self, answers: Vec<v1::ReportAnswer>) {
        self.put(|state| {
            state.bytes += answers.iter().map(answer_bytes).sum::<usize>();
            match state.answers.is_empty() {
                true => state.answers = answers,
                false => state.answers.extend(answers),
            }
        });
    }

    /// Messages for a run that the worker holds.
    pub(super) fn messages(&self, messages: v1::RunMessages) {
        self.put(|state| {
            state.bytes += messages_bytes(&messages);
            state.messages.push(messages);
        });
    }

    /// Runs for the worker.
    pub(super) fn runs(&self, runs: Vec<v1::PollActivityResponse>) {
        self.put(|state| {
            state.bytes += runs.iter().map(run_bytes).sum::<usize>();
            state.runs.extend(runs);
        });
    }

    /// Takes back the runs that were not sent.
    pub(super) fn unsent(&self) -> Vec<v1::PollActivityResponse> {
        std::mem::take(&mut self.state.lock().expect("nobody panics while holding it").runs)
    }

    /// About how many bytes wait to be sent.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().expect("nobody panics while holding it").bytes
    }

    /// Nothing more will come.
    pub(super) fn end(&self, end: Result<(), Status>) {
        self.put(|state| state.end = Some(end));
    }
}

/// What the connection takes from.
#[derive(Debug)]
pub struct Outgoing(Arc<Outbox>);

impl Outgoing {
    pub(super) fn new(outbox: Arc<Outbox>) -> Outgoing {
        Outgoing(outbox)
    }
}

impl Stream for Outgoing {
    type Item = Result<v1::WorkResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.state.lock().expect("nobody panics while holding it");
        if let Some(message) = state.next() {
            self.0.taken.notify_one();
            return Poll::Ready(Some(Ok(message)));
        }
        match state.end.take() {
            Some(Err(status)) => {
                state.end = Some(Ok(()));
                Poll::Ready(Some(Err(status)))
            }
            Some(Ok(())) => {
                state.end = Some(Ok(()));
                Poll::Ready(None)
            }
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.0.closed.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::{FutureExt, StreamExt};

    fn run(bytes: usize) -> v1::PollActivityResponse {
        v1::PollActivityResponse { workflow_input: Bytes::from(vec![0; bytes]), ..Default::default() }
    }

    #[tokio::test]
    async fn what_is_ready_goes_together_and_large_things_apart() {
        let outbox = Arc::new(Outbox::default());
        let mut outgoing = Outgoing::new(outbox.clone());
        assert!(outgoing.next().now_or_never().is_none());
        outbox.answers(vec![v1::ReportAnswer::default()]);
        outbox.answers(vec![v1::ReportAnswer::default()]);
        outbox.runs(vec![run(MESSAGE_BYTES_MAX / 2), run(MESSAGE_BYTES_MAX), run(1)]);
        assert!(outbox.bytes() > MESSAGE_BYTES_MAX);
        let first = outgoing.next().await.unwrap().unwrap();
        assert_eq!((first.answers.len(), first.runs.len()), (2, 2));
        assert_eq!(outgoing.next().await.unwrap().unwrap().runs.len(), 1);
        assert_eq!(outbox.bytes(), 0);
        assert!(outgoing.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn news_that_nobody_takes_weighs_too() {
        let outbox = Arc::new(Outbox::default());
        let mut outgoing = Outgoing::new(outbox.clone());
        let news = || v1::WorkerHeartbeatResponse { lost: vec!["a".into(); 1_000], ..Default::default() };
        outbox.heartbeat(news());
        let one = outbox.bytes();
        outbox.heartbeat(news());
        assert_eq!(
            (one > 1_000, outbox.bytes()),
            (true, 2 * one),
            "a worker that never reads must not fill the memory"
        );
        outbox.answers(vec![v1::ReportAnswer::default()]);
        outgoing.next().await.unwrap().unwrap();
        assert_eq!(outbox.bytes(), 0);
    }

    #[tokio::test]
    async fn everything_is_sent_before_the_end_and_what_is_not_comes_back() {
        let outbox = Arc::new(Outbox::default());
        let mut outgoing = Outgoing::new(outbox.clone());
        outbox.heartbeat(v1::WorkerHeartbeatResponse { lost: vec!["a".into()], ..Default::default() });
        outbox.heartbeat(v1::WorkerHeartbeatResponse {
            should_drain: true,
            lost: vec!["b".into()],
            ..Default::default()
        });
        outbox.runs(vec![run(1)]);
        assert_eq!(outbox.unsent().len(), 1);
        outbox.end(Err(Status::unavailable("stopping")));
        let last = outgoing.next().await.unwrap().unwrap();
        assert_eq!((last.runs.len(), last.heartbeat.unwrap().lost), (0, vec!["a".into(), "b".into()]));
        assert_eq!(outgoing.next().await.unwrap().unwrap_err().code(), tonic::Code::Unavailable);
        assert!(outgoing.next().await.is_none());
        drop(outgoing);
        assert!(outbox.closed.is_cancelled());
    }
}
