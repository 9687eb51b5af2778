//! How workflows look from outside.

use std::time::SystemTime;

use baton_core::State;
use baton_proto::v1;
use bytes::Bytes;

use crate::workflow::time::{millis, system_time};

/// A run of a workflow.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct WorkflowRun {
    /// The run.
    pub run_id: String,
    /// Its namespace.
    pub namespace: String,
    /// Its queue.
    pub queue: String,
    /// Its type.
    pub workflow_type: String,
    /// How far it is.
    pub state: State,
    /// Why it failed: `error`, `worker_lost`, `timeout`, `rejected`, `cancelled`, `poison`. Empty when it has not.
    pub reason: String,
    /// What it said when it failed.
    pub error: String,
    /// What it was started with, as JSON. Not in lists.
    pub input: Bytes,
    /// What it returned, as JSON. Not in lists.
    pub output: Bytes,
    /// When it was submitted.
    pub submitted_at: SystemTime,
    /// When it is due, if that is in the future.
    pub due_at: Option<SystemTime>,
    /// When it ended, if it has.
    pub ended_at: Option<SystemTime>,
    /// Which attempt this is.
    pub attempt: u32,
    /// 0 to 9, 9 first.
    pub priority: u32,
    /// The worker that holds it, or held it last.
    pub worker_id: Option<String>,
    /// The run that started it.
    pub parent_run_id: Option<String>,
    /// The run that goes on in its place.
    pub continued_to: Option<String>,
    /// Whether somebody wants it cancelled.
    pub cancel_requested: bool,
}

fn time(at: &prost_types::Timestamp) -> SystemTime {
    system_time(millis(at))
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

impl From<v1::WorkflowRun> for WorkflowRun {
    fn from(run: v1::WorkflowRun) -> WorkflowRun {
        let state = match run.state() {
            v1::RunState::Pending | v1::RunState::Unspecified => State::Pending,
            v1::RunState::Assigned => State::Assigned,
            v1::RunState::Running => State::Running,
            v1::RunState::Sleeping => State::Sleeping,
            v1::RunState::Completed => State::Completed,
            v1::RunState::Failed => State::Failed,
            v1::RunState::Cancelled => State::Cancelled,
        };
        WorkflowRun {
            run_id: run.run_id,
            namespace: run.namespace_id,
            queue: run.task_queue,
            workflow_type: run.workflow_type,
            state,
            reason: run.reason,
            error: run.error,
            input: run.input,
            output: run.output,
            submitted_at: run.submitted_at.as_ref().map_or(SystemTime::UNIX_EPOCH, time),
            due_at: run.due_at.as_ref().map(time),
            ended_at: run.ended_at.as_ref().map(time),
            attempt: run.attempt,
            priority: run.priority,
            worker_id: some(run.worker_id),
            parent_run_id: some(run.parent_run_id),
            continued_to: some(run.continued_to),
            cancel_requested: run.cancel_requested,
        }
    }
}

/// What kind of thing is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StepKind {
    /// A step.
    Step,
    /// A sleep.
    Sleep,
    /// A signal that was taken.
    Signal,
    /// A child.
    Child,
    /// Whatever was decided once: a moment, a number, a version, how a wait ended.
    Fact,
    /// Of a later version than this client.
    Unknown,
}

/// How far a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StepState {
    /// It has begun, or waits for its next attempt.
    Begun,
    /// It has an output.
    Completed,
    /// It has failed for good.
    Failed,
    /// Of a later version than this client.
    Unknown,
}

/// Something that is remembered of a workflow.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StepView {
    /// Where.
    pub position: u32,
    /// What kind.
    pub kind: StepKind,
    /// The name that was given.
    pub name: String,
    /// How far it is.
    pub state: StepState,
    /// What came out, as JSON. Empty when it is large: then `output_bytes` says how large.
    pub output: Bytes,
    /// How large an output is that was left out; [`crate::WorkflowHandle::step_output`] has it.
    pub output_bytes: u64,
    /// What the last failed attempt said.
    pub error: Option<String>,
    /// A short word for that.
    pub code: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// When it (last) began.
    pub begun_at: Option<SystemTime>,
    /// When it ended.
    pub ended_at: Option<SystemTime>,
    /// When a sleep is over, or the next attempt is due.
    pub due_at: Option<SystemTime>,
    /// The run of a child.
    pub child_run_id: Option<String>,
}

impl From<v1::Step> for StepView {
    fn from(step: v1::Step) -> StepView {
        StepView {
            position: step.position,
            kind: match step.kind() {
                v1::StepKind::Unspecified => StepKind::Unknown,
                v1::StepKind::Step => StepKind::Step,
                v1::StepKind::Sleep => StepKind::Sleep,
                v1::StepKind::Signal => StepKind::Signal,
                v1::StepKind::Child => StepKind::Child,
                v1::StepKind::Fact => StepKind::Fact,
            },
            state: step_state(step.state()),
            name: step.name,
            output: step.output,
            output_bytes: step.output_bytes,
            error: some(step.error),
            code: some(step.code),
            attempts: step.attempts,
            begun_at: step.begun_at.as_ref().map(time),
            ended_at: step.ended_at.as_ref().map(time),
            due_at: step.due_at.as_ref().map(time),
            child_run_id: some(step.child_run_id),
        }
    }
}

/// One attempt of a step.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StepAttempt {
    /// Where.
    pub position: u32,
    /// Which; 1 for the first.
    pub attempt: u32,
    /// The step's name.
    pub name: String,
    /// The lease it was made under.
    pub epoch: u64,
    /// Who made it.
    pub worker_id: Option<String>,
    /// How it ended; [`StepState::Begun`] when it has not, or when its worker fell.
    pub state: StepState,
    /// What it said when it failed.
    pub error: Option<String>,
    /// A short word for that.
    pub code: Option<String>,
    /// When it began.
    pub begun_at: Option<SystemTime>,
    /// When it ended.
    pub ended_at: Option<SystemTime>,
}

impl From<v1::StepAttempt> for StepAttempt {
    fn from(attempt: v1::StepAttempt) -> StepAttempt {
        StepAttempt {
            state: step_state(attempt.state()),
            position: attempt.position,
            attempt: attempt.attempt,
            name: attempt.name,
            epoch: attempt.epoch,
            worker_id: some(attempt.worker_id),
            error: some(attempt.error),
            code: some(attempt.code),
            begun_at: attempt.begun_at.as_ref().map(time),
            ended_at: attempt.ended_at.as_ref().map(time),
        }
    }
}

fn step_state(state: v1::StepState) -> StepState {
    match state {
        v1::StepState::Unspecified => StepState::Unknown,
        v1::StepState::Begun => StepState::Begun,
        v1::StepState::Completed => StepState::Completed,
        v1::StepState::Failed => StepState::Failed,
    }
}
