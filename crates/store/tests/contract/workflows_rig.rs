//! Words for workflows.

use baton_core::{Millis, RetryPolicy, RunId};
use baton_store::{
    ChildAnswer, Delivered, Due, Lane, LeaseRef, MessageAnswer, MessageKind, NewChild, NewMessage, Page, Step,
    StepAnswer, StepAttempt, StepChange, StepKind, StepState, StepWrite, SuspendAnswer, Suspension,
};
use bytes::Bytes;

use crate::rig::{Rig, dice, lease, run};

/// How long whoever is to stop has, unless a case says otherwise.
pub const GRACE_MS: Millis = 5_000;
/// More than any case writes.
pub const ALL: usize = 100_000;

impl Rig {
    pub async fn write(&self, write: StepWrite) -> StepAnswer {
        self.store.write_steps(vec![write]).await.unwrap().remove(0)
    }

    /// Remembers the result of a step that nobody has written before.
    pub async fn step(&self, lease: LeaseRef, position: u32, name: &str, output: &str) -> Step {
        written(self.write(completed(lease, position, name, output)).await)
    }

    pub async fn suspend(&self, suspension: Suspension) -> SuspendAnswer {
        self.store.suspend(vec![suspension]).await.unwrap().0.remove(0)
    }

    /// Lets a run sleep until a message comes.
    pub async fn wait(&self, lease: LeaseRef, seen: i64) -> SuspendAnswer {
        self.suspend(Suspension { lease, sleeps: vec![], wake_at: None, seen }).await
    }

    pub async fn leave(&self, message: NewMessage) -> MessageAnswer {
        self.store.leave_messages(vec![message]).await.unwrap().0.remove(0)
    }

    pub async fn signal(&self, run: RunId, name: &str) -> MessageAnswer {
        self.leave(signal(run, name, None)).await
    }

    /// Claims the only run of a lane that can be claimed.
    pub async fn claim_again(&self, lane: Lane) -> LeaseRef {
        let worker = self.worker("another").await;
        let claimed = self.claim(worker, lane, 2).await;
        assert_eq!(claimed.len(), 1, "one run can be claimed");
        lease(&claimed[0])
    }

    pub async fn start_child(&self, lease: LeaseRef, position: u32, name: &str, lane: Lane) -> ChildAnswer {
        self.store.start_children(vec![child(lease, position, name, lane)]).await.unwrap().remove(0)
    }

    /// Starts a child that is not there yet.
    pub async fn child(&self, lease: LeaseRef, position: u32, lane: Lane) -> RunId {
        match self.start_child(lease, position, "child", lane).await {
            ChildAnswer::Started(submitted) if submitted.is_new => submitted.run,
            other => panic!("{other:?}"),
        }
    }

    /// Passes ends on until there are none.
    pub async fn deliver(&self) -> Delivered {
        let mut all = Delivered::default();
        loop {
            let some = self.store.deliver(GRACE_MS, 100).await.unwrap();
            all.messaged.extend(some.messaged);
            all.orphaned.extend(some.orphaned);
            all.woken.lanes.extend(some.woken.lanes);
            if !some.more {
                return all;
            }
        }
    }

    pub async fn steps(&self, run: RunId) -> Vec<Step> {
        self.store.steps(run, Page { after: None, limit: ALL }).await.unwrap()
    }

    pub async fn step_attempts(&self, run: RunId, position: Option<u32>) -> Vec<StepAttempt> {
        self.store.step_attempts(run, position, Page { after: None, limit: ALL }).await.unwrap()
    }

    /// Names of the messages of a run.
    pub async fn message_names(&self, run: RunId) -> Vec<(i64, String)> {
        let messages = self.store.messages(run, 0).await.unwrap();
        messages.into_iter().map(|message| (message.number, message.name)).collect()
    }
}

pub fn completed(lease: LeaseRef, position: u32, name: &str, output: &str) -> StepWrite {
    let what = StepChange::Complete { output: Bytes::from(output.to_owned()), message: None, took_ms: 40 };
    StepWrite { lease, position, name: name.into(), kind: StepKind::Step, what, journal_bytes_max: None }
}

/// Takes a signal.
pub fn taking(lease: LeaseRef, position: u32, message: i64) -> StepWrite {
    let what = StepChange::Complete { output: Bytes::from_static(b"taken"), message: Some(message), took_ms: 0 };
    StepWrite { lease, position, name: "signal".into(), kind: StepKind::Signal, what, journal_bytes_max: None }
}

pub fn begins(lease: LeaseRef, position: u32, name: &str) -> StepWrite {
    StepWrite {
        lease,
        position,
        name: name.into(),
        kind: StepKind::Step,
        what: StepChange::Begin,
        journal_bytes_max: None,
    }
}

/// An attempt that failed, of as many as are said.
pub fn fails(lease: LeaseRef, position: u32, name: &str, attempt: u32, max_attempts: u32) -> StepWrite {
    let what = StepChange::Fail {
        attempt,
        error: format!("attempt {attempt} broke"),
        code: Some("broken".into()),
        retryable: true,
        not_before_ms: None,
        policy: RetryPolicy { max_attempts, jitter: 0.0, ..RetryPolicy::default() },
        jitter: 0.5,
        took_ms: 40,
    };
    StepWrite { lease, position, name: name.into(), kind: StepKind::Step, what, journal_bytes_max: None }
}

/// What a write has changed.
pub fn written(answer: StepAnswer) -> Step {
    match answer {
        StepAnswer::Remembered { step, existed: false } => step,
        other => panic!("{other:?}"),
    }
}

/// What a write found that changed nothing.
pub fn found(answer: StepAnswer) -> Step {
    match answer {
        StepAnswer::Remembered { step, existed: true } => step,
        other => panic!("{other:?}"),
    }
}

pub fn signal(run: RunId, name: &str, key: Option<&str>) -> NewMessage {
    let payload = Some(Bytes::from(format!("payload of {name}")));
    NewMessage { run, kind: MessageKind::Signal, name: name.into(), payload, key: key.map(str::to_owned) }
}

pub fn cancel(run: RunId) -> NewMessage {
    NewMessage { run, kind: MessageKind::Cancel, name: String::new(), payload: None, key: None }
}

pub fn child(lease: LeaseRef, position: u32, name: &str, lane: Lane) -> NewChild {
    NewChild { lease, position, name: name.into(), run: run(lane), die: dice(), timeout_ms: None }
}

/// A suspension with one sleep.
pub fn nap(lease: LeaseRef, position: u32, due: Due) -> Suspension {
    Suspension { lease, sleeps: vec![(position, "nap".into(), due)], wake_at: None, seen: 0 }
}

/// Position, attempt and state of attempts.
pub fn shape(attempts: &[StepAttempt]) -> Vec<(u32, u32, StepState)> {
    attempts.iter().map(|attempt| (attempt.position, attempt.attempt, attempt.state)).collect()
}
