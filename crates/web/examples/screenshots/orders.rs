//! Workflows, written as their workers would: steps, sleeps, signals, children.

use baton_core::retry::RetryPolicy;
use baton_core::{Millis, RunId};
use baton_server::service::workflows::children::{self, StartChild};
use baton_server::service::workflows::start::{self, Start};
use baton_server::service::workflows::{finish, signal, suspend};
use baton_server::{Caller, Scope};
use baton_store::{Due, LeaseRef, StepChange, StepKind, StepWrite, Suspension};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::crew::Crew;

/// A workflow that a worker holds.
#[derive(Clone, Debug)]
pub struct Flow {
    pub run: RunId,
    pub lease: LeaseRef,
    pub token: String,
    pub hand: usize,
}

pub fn caller() -> Caller {
    Caller { key_id: "example".into(), scopes: vec![Scope::Admin], namespace: None }
}

fn wanted(kind: &str, version: &str, key: &str, input: &Value) -> Start {
    Start {
        namespace: "default".into(),
        queue: "orders".into(),
        kind: kind.into(),
        version: Some(version.into()),
        input: Bytes::from(input.to_string()),
        idempotency_key: None,
        fingerprint: [0; 16],
        priority: None,
        due: Due::Now,
        retry: None,
        timeout_ms: Some(86_400_000),
        key: Some(key.into()),
        trace: None,
    }
}

fn done(output: &Value) -> StepChange {
    StepChange::Complete { output: Bytes::from(output.to_string()), message: None, took_ms: 0 }
}

impl Crew<'_> {
    /// Starts a workflow that waits for a worker.
    pub async fn start_flow(&self, kind: &str, version: &str, key: &str, input: &Value) -> RunId {
        let start = wanted(kind, version, key, input);
        start::one(&self.site.app, &caller(), start).await.expect("a workflow starts").run
    }

    /// A worker takes the workflow that waits.
    pub async fn take_flow(&mut self, hand: usize) -> Flow {
        let (run, token) = self.take(hand).await;
        let run: RunId = run.parse().expect("a run has an identifier");
        let record = self.site.app.store.run(run).await.expect("the store answers").expect("the run is there");
        Flow { run, lease: LeaseRef { run, epoch: record.epoch }, token, hand }
    }

    async fn write(&self, flow: &Flow, position: u32, name: &str, kind: StepKind, what: StepChange) {
        let write = StepWrite { lease: flow.lease, position, name: name.into(), kind, what, journal_bytes_max: None };
        self.site.app.store.write_steps(vec![write]).await.expect("the store writes");
    }

    pub async fn fact(&self, flow: &Flow, position: u32, name: &str, value: &Value) {
        self.write(flow, position, name, StepKind::Fact, done(value)).await;
    }

    /// A step that takes some time.
    pub async fn step(&mut self, flow: &Flow, position: u32, name: &str, takes: Millis, output: &Value) {
        self.begin(flow, position, name).await;
        self.pass(takes).await;
        self.write(flow, position, name, StepKind::Step, done(output)).await;
    }

    pub async fn begin(&self, flow: &Flow, position: u32, name: &str) {
        self.write(flow, position, name, StepKind::Step, StepChange::Begin).await;
    }

    /// A try that fails, and the time until the next one.
    pub async fn fails(&mut self, flow: &Flow, position: u32, name: &str, attempt: u32, takes: Millis, error: &str) {
        self.begin(flow, position, name).await;
        self.pass(takes).await;
        let policy = RetryPolicy { max_attempts: 5, ..RetryPolicy::default() };
        let what = StepChange::Fail {
            attempt,
            error: error.into(),
            code: Some("unavailable".into()),
            retryable: true,
            not_before_ms: None,
            policy,
            jitter: 0.0,
            took_ms: takes,
        };
        self.write(flow, position, name, StepKind::Step, what).await;
        self.pass(i64::from(attempt) * 900).await;
    }

    /// Children are started; their worker is somebody else.
    pub async fn children(&self, flow: &Flow, first: u32, kind: &str, count: u32) -> Vec<RunId> {
        let one = |number: u32| {
            let mut start = wanted(kind, "3", &format!("parcel-{}", number + 1), &json!({ "box": number + 1 }));
            start.queue = "packing".into();
            start.timeout_ms = None;
            StartChild { lease: flow.lease, lane: None, position: first + number, name: kind.into(), start }
        };
        let wanted = (0..count).map(one).collect();
        let started = children::many(&self.site.app, &caller(), wanted).await.expect("children are started");
        started.into_iter().map(|child| child.expect("a child starts").run).collect()
    }

    /// A child has ended, and its parent knows what came out.
    pub async fn child_ended(&self, flow: &Flow, position: u32, kind: &str, output: &Value) {
        self.write(flow, position, kind, StepKind::Child, done(output)).await;
    }

    /// Returns the number of the signal.
    pub async fn send_signal(&self, run: RunId, name: &str, payload: &Value) -> i64 {
        let payload = Bytes::from(payload.to_string());
        signal::one(&self.site.app, &caller(), run, name.into(), payload, None).await.expect("a signal is taken")
    }

    /// The signal that came is taken.
    pub async fn take_signal(&self, flow: &Flow, position: u32, name: &str, number: i64, payload: &Value) {
        let output = Bytes::from(payload.to_string());
        let what = StepChange::Complete { output, message: Some(number), took_ms: 0 };
        self.write(flow, position, name, StepKind::Signal, what).await;
    }

    /// The lease ends: a sleep, or whatever else there is to wait for. `seen` counts the messages that are known.
    pub async fn suspend(&mut self, flow: &Flow, sleep: Option<(u32, &str, Millis)>, wake: Option<Millis>, seen: i64) {
        let sleeps = sleep.map(|(position, name, ms)| (position, name.to_owned(), Due::After(ms)));
        let wake_at = wake.map(|ms| self.now() + ms);
        let wanted = Suspension { lease: flow.lease, sleeps: sleeps.into_iter().collect(), wake_at, seen };
        suspend::one(&self.site.app, wanted).await.expect("a workflow sleeps");
        self.drop_taken(flow.hand, &flow.run.to_string());
    }

    /// A sleep is over.
    pub async fn woke(&self, flow: &Flow, position: u32, name: &str) {
        self.write(flow, position, name, StepKind::Sleep, done(&Value::Null)).await;
    }

    pub async fn complete_flow(&mut self, flow: &Flow, output: &Value) {
        let done = baton_store::Completion { lease: flow.lease, output: Some(Bytes::from(output.to_string())) };
        finish::complete(&self.site.app, vec![done]).await.expect("a workflow completes");
        self.drop_taken(flow.hand, &flow.run.to_string());
    }

    pub async fn fail_flow(&mut self, flow: &Flow, code: &str, error: &str) {
        let failed =
            finish::Failed { error: error.into(), code: Some(code.into()), retryable: false, not_before_ms: None };
        let failure = finish::failure(failed, self.now()).expect("a failure is right");
        finish::fail(&self.site.app, vec![(flow.lease, failure)]).await.expect("a workflow fails");
        self.drop_taken(flow.hand, &flow.run.to_string());
    }
}
