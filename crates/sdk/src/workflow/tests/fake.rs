//! A server that is a few maps in memory: it remembers, answers at once or when it is told to, and hands runs out again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_proto::v1::{self, MessageKind, RunState, StepKind, StepState, report, report_answer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::workflow::driver::{Driver, Finished};
use crate::workflow::handler::{Handler, handler};
use crate::workflow::mailbox::{Event, Mailbox, Outbox};
use crate::workflow::time::{duration, millis, span, timestamp};
use crate::workflow::{Context, WorkflowError};

/// When the world began.
const EPOCH: i64 = 1_800_000_000_000;

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Completed(String),
    Failed { error: String, code: String, retryable: bool },
    Cancelled(String),
    Continued(String),
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) steps: BTreeMap<u32, v1::Step>,
    pub(crate) messages: Vec<v1::Message>,
    pub(crate) published: Vec<String>,
    pub(crate) children: Vec<v1::StartChildRequest>,
    pub(crate) end: Option<End>,
    /// Every report, in the order in which they came.
    pub(crate) reports: Vec<report::What>,
    /// When the run is to be woken.
    wake: Option<i64>,
    asleep: bool,
    /// Attempts of a step before it fails for good.
    pub(crate) attempts_max: u32,
    /// Reports that are answered with this error, by a test that wants it.
    pub(crate) refuse: Option<fn(&report::What) -> Option<v1::ReportError>>,
    /// While true, reports are kept without an answer.
    pub(crate) silent: bool,
    kept: Vec<(u64, report::What)>,
    mailbox: Option<Arc<Mailbox>>,
}

/// A server with one run.
#[derive(Clone)]
pub(crate) struct Fake {
    memory: Arc<Mutex<Memory>>,
    begun: Instant,
    handler: Handler,
    input: String,
}

impl Fake {
    pub(crate) fn new<I, O, E, F, R>(input: impl Serialize, function: F) -> Fake
    where
        F: Fn(Context, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        E: Into<WorkflowError>,
    {
        let memory = Memory { attempts_max: 3, ..Memory::default() };
        let input = serde_json::to_string(&input).unwrap();
        Fake { memory: Arc::new(Mutex::new(memory)), begun: Instant::now(), handler: handler(function), input }
    }

    /// The same memory, played by another function: code that was changed.
    pub(crate) fn played_by<I, O, E, F, R>(&self, function: F) -> Fake
    where
        F: Fn(Context, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        E: Into<WorkflowError>,
    {
        Fake { handler: handler(function), ..self.clone() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> i64 {
        EPOCH + self.begun.elapsed().as_millis() as i64
    }

    /// A claim of the run: a driver with all that is remembered.
    pub(crate) fn claim(&self) -> Driver {
        let mailbox = Arc::new(Mailbox::default());
        let mut memory = self.lock();
        memory.mailbox = Some(mailbox.clone());
        memory.asleep = false;
        memory.kept.clear();
        let run = v1::PollActivityResponse {
            run_id: "run".into(),
            lease: "lease".into(),
            workflow_type: "test".into(),
            workflow_input: self.input.clone().into(),
            attempt: 1,
            steps: memory.steps.values().cloned().collect(),
            messages: memory.messages.clone(),
            now: Some(timestamp(self.now())),
            ..Default::default()
        };
        drop(memory);
        Driver::new(run, &self.handler, mailbox, Arc::new(self.clone()), Arc::new(Semaphore::new(2)), None)
    }

    /// Plays the run to its end, through sleeps and wake-ups. Fails when it sleeps for good.
    pub(crate) async fn play(&self) -> End {
        for _ in 0..100 {
            match self.claim().await {
                Finished::Suspended => {
                    let wake = self.lock().wake.expect("the run sleeps for good");
                    tokio::time::sleep(Duration::from_millis((wake - self.now()).max(0) as u64)).await;
                }
                _ => return self.lock().end.clone().expect("the run has ended"),
            }
        }
        panic!("the run does not come to an end");
    }

    /// Plays the run until it is suspended.
    pub(crate) async fn play_until_asleep(&self) {
        let finished = self.claim().await;
        assert_eq!(finished, Finished::Suspended, "{:?}", self.lock().end);
    }

    /// Plays the run from its beginning again, as after the loss of its worker, and demands that nothing new is written down.
    pub(crate) async fn replay_is_quiet(&self) {
        let (reports, end) = {
            let mut memory = self.lock();
            (memory.reports.len(), memory.end.take())
        };
        let finished = self.claim().await;
        let memory = self.lock();
        let news = &memory.reports[reports..];
        match finished {
            Finished::Completed | Finished::Failed => {
                assert_eq!(memory.end, end);
                assert_eq!(news.len(), 1, "only the end is reported again: {news:?}");
            }
            other => panic!("{other:?}, {news:?}"),
        }
    }

    pub(crate) fn signal(&self, name: &str, payload: &str) {
        self.message(v1::Message {
            kind: MessageKind::Signal.into(),
            name: name.into(),
            payload: payload.to_owned().into(),
            ..Default::default()
        });
    }

    pub(crate) fn cancel(&self) {
        self.message(v1::Message { kind: MessageKind::Cancel.into(), ..Default::default() });
    }

    /// The child that was started at this position ends.
    pub(crate) fn child_ends(&self, position: u32, state: RunState, payload: &str, error: &str) {
        self.message(v1::Message {
            kind: MessageKind::Child.into(),
            name: format!("child-{position}"),
            payload: payload.to_owned().into(),
            state: state.into(),
            error: error.into(),
            position,
            ..Default::default()
        });
    }

    fn message(&self, mut message: v1::Message) {
        let mut memory = self.lock();
        message.number = memory.messages.len() as u64 + 1;
        message.at = Some(timestamp(self.now()));
        memory.messages.push(message.clone());
        if let Some(mailbox) = memory.mailbox.clone().filter(|_| !memory.asleep) {
            mailbox.put(Event::Messages(vec![message]));
        }
    }

    /// Tells the driver something.
    pub(crate) fn tell(&self, event: Event) {
        self.lock().mailbox.clone().expect("somebody drives").put(event);
    }

    /// Answers what was kept, and from now on everything at once.
    pub(crate) fn speak(&self) {
        let (mailbox, kept) = {
            let mut memory = self.lock();
            memory.silent = false;
            (memory.mailbox.clone().expect("somebody drives"), std::mem::take(&mut memory.kept))
        };
        self.send(&mailbox, kept);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().steps.values().map(|step| step.name.clone()).collect()
    }

    fn answer(&self, memory: &mut Memory, what: report::What) -> report_answer::What {
        memory.reports.push(what.clone());
        if let Some(error) = memory.refuse.and_then(|refuse| refuse(&what)) {
            return report_answer::What::Error(error);
        }
        let now = self.now();
        match what {
            report::What::CompleteStep(said) => {
                let before = memory.steps.get(&said.position).filter(|step| step.state() != StepState::Begun);
                if let Some(before) = before {
                    return report_answer::What::CompleteStep(v1::CompleteStepResponse {
                        output: before.output.clone(),
                        existed: true,
                    });
                }
                let step = v1::Step {
                    position: said.position,
                    kind: said.kind,
                    name: said.name,
                    state: StepState::Completed.into(),
                    output: said.output.clone(),
                    ended_at: Some(timestamp(now)),
                    message: said.message,
                    ..Default::default()
                };
                memory.steps.insert(said.position, step);
                report_answer::What::CompleteStep(v1::CompleteStepResponse { output: said.output, existed: false })
            }
            report::What::FailStep(said) => {
                let again = !said.non_retryable && said.attempt < memory.attempts_max;
                let due = again.then(|| timestamp(now + 10_000));
                let state = if again { StepState::Begun } else { StepState::Failed };
                let step = v1::Step {
                    position: said.position,
                    kind: StepKind::Step.into(),
                    name: said.name,
                    state: state.into(),
                    error: said.error,
                    code: said.code,
                    attempts: said.attempt,
                    ended_at: (!again).then(|| timestamp(now)),
                    due_at: due,
                    ..Default::default()
                };
                memory.steps.insert(said.position, step);
                report_answer::What::FailStep(v1::FailStepResponse {
                    retry: again,
                    retry_at: due,
                    retry_after: again.then(|| duration(Duration::from_secs(10))),
                })
            }
            report::What::Suspend(said) => self.suspend(memory, said),
            report::What::StartChild(said) => {
                let run_id = format!("child-{}", said.position);
                let step = v1::Step {
                    position: said.position,
                    kind: StepKind::Child.into(),
                    name: said.name.clone(),
                    state: StepState::Begun.into(),
                    begun_at: Some(timestamp(now)),
                    child_run_id: run_id.clone(),
                    ..Default::default()
                };
                memory.steps.insert(said.position, step);
                memory.children.push(said);
                report_answer::What::StartChild(v1::StartChildResponse { run_id })
            }
            report::What::Publish(said) => {
                memory.published.push(text(&said.value));
                report_answer::What::Publish(v1::PublishResponse {})
            }
            report::What::CompleteWorkflow(said) => {
                memory.ended(End::Completed(text(&said.output)), RunState::Completed)
            }
            report::What::FailWorkflow(said) => {
                let end = End::Failed { error: said.error, code: said.code, retryable: !said.non_retryable };
                memory.ended(end, RunState::Failed)
            }
            report::What::CancelledWorkflow(said) => memory.ended(End::Cancelled(said.message), RunState::Cancelled),
            report::What::ContinueAsNew(said) => memory.ended(End::Continued(text(&said.input)), RunState::Completed),
            report::What::GiveBack(_) => report_answer::What::State(RunState::Pending.into()),
        }
    }

    fn suspend(&self, memory: &mut Memory, said: v1::SuspendRequest) -> report_answer::What {
        let now = self.now();
        let mut wake = said.wake_at.as_ref().map(millis);
        for sleep in said.sleeps {
            let due = match (&sleep.duration, &sleep.until) {
                (Some(duration), _) => now + span(duration).as_millis() as i64,
                (None, until) => until.as_ref().map_or(now, millis),
            };
            let step = memory.steps.entry(sleep.position).or_insert_with(|| v1::Step {
                position: sleep.position,
                kind: StepKind::Sleep.into(),
                name: sleep.name,
                state: StepState::Begun.into(),
                begun_at: Some(timestamp(now)),
                due_at: Some(timestamp(due)),
                ..Default::default()
            });
            let due = step.due_at.as_ref().map_or(due, millis);
            wake = Some(wake.map_or(due, |first| first.min(due)));
        }
        let news: Vec<_> = memory.messages.iter().filter(|message| message.number > said.seen).cloned().collect();
        let suspended = news.is_empty();
        memory.asleep = suspended;
        memory.wake = wake;
        report_answer::What::Suspend(v1::SuspendResponse { suspended, messages: news, wake_at: wake.map(timestamp) })
    }
}

impl Memory {
    /// True while nothing was reported.
    pub(crate) fn mailbox_is_idle(&self) -> bool {
        self.kept.is_empty() && self.reports.is_empty()
    }

    fn ended(&mut self, end: End, state: RunState) -> report_answer::What {
        self.end = Some(end);
        report_answer::What::State(state.into())
    }
}

impl Outbox for Fake {
    fn send(&self, mailbox: &Arc<Mailbox>, reports: Vec<(u64, report::What)>) {
        let mut memory = self.lock();
        if memory.silent {
            memory.kept.extend(reports);
            return;
        }
        for (number, what) in reports {
            let what = self.answer(&mut memory, what);
            mailbox.put(Event::Answer { number, what });
        }
    }
}

fn text(bytes: &bytes::Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Counts, from anywhere.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<std::sync::atomic::AtomicU32>);

impl Counter {
    pub(crate) fn up(&self) -> u32 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
