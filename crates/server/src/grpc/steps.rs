//! For workers that hold a workflow: steps, sleeps, messages, children, and the ends of a lease. What a report says is read here once,
//! whether it comes as a call or on a stream.

use baton_core::{Failure, Millis, State};
use baton_proto::v1;
use baton_store::{Completion, Due, LaneId, LeaseRef, Scope, StepState, StepWrite, Suspension};
use bytes::Bytes;
use tonic::Status;

use super::convert::{
    due, duration, message, moment, optional_span, retry, run_id, run_state, seen, some, span, step, step_kind,
    timestamp,
};
use super::runs::{start, started};
use crate::auth::Caller;
use crate::service::workflows::children::StartChild;
use crate::service::workflows::finish::Failed;
use crate::service::workflows::invalid;
use crate::service::workflows::steps::{FailedAttempt, Remembered};
use crate::service::workflows::suspend::Suspended;
use crate::service::{open_lease, payloads, workflows};
use crate::{App, Error};

/// Longest time of a step that is believed.
const TOOK_MS_MAX: Millis = 10 * 365 * 24 * 3_600 * 1_000;

/// The lease a call names.
async fn lease(app: &App, caller: &Caller, run: &str, lease: &str) -> Result<LeaseRef, Error> {
    caller.has(Scope::Worker)?;
    open_lease(app, caller, run_id(run)?, lease).await
}

fn took(given: Option<prost_types::Duration>) -> Result<Millis, Error> {
    Ok(optional_span("took", given)?.unwrap_or(0).min(TOOK_MS_MAX))
}

fn one<T>(mut answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    answers.pop().ok_or(Error::Internal)?
}

pub(super) async fn begin_step(
    app: &App,
    caller: &Caller,
    request: v1::BeginStepRequest,
) -> Result<v1::BeginStepResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let write = workflows::steps::begin(lease, request.position, request.name)?;
    let Remembered { step: begun, .. } = workflows::steps::one(app, write).await?;
    let execute = begun.state == StepState::Begun;
    Ok(v1::BeginStepResponse { execute, attempt: begun.attempts.max(1), step: Some(step(begun)) })
}

/// What is to be written for a step that is done.
pub(super) fn completed(app: &App, lease: LeaseRef, request: v1::CompleteStepRequest) -> Result<StepWrite, Error> {
    let kind = step_kind(request.kind)?;
    let signal = (request.message != 0).then(|| seen(request.message));
    let took = took(request.took)?;
    workflows::steps::complete(app, lease, request.position, (kind, request.name), request.output, signal, took)
}

/// The answer for a step that is done.
pub(super) fn kept(remembered: Remembered) -> v1::CompleteStepResponse {
    v1::CompleteStepResponse { output: remembered.step.output.unwrap_or_default(), existed: remembered.existed }
}

pub(super) async fn complete_step(
    app: &App,
    caller: &Caller,
    request: v1::CompleteStepRequest,
) -> Result<v1::CompleteStepResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    Ok(kept(workflows::steps::one(app, completed(app, lease, request)?).await?))
}

/// What is to be written for an attempt that failed.
pub(super) fn failed(app: &App, lease: LeaseRef, request: v1::FailStepRequest) -> Result<StepWrite, Error> {
    let attempt = FailedAttempt {
        attempt: request.attempt,
        error: request.error,
        code: some(request.code),
        retryable: !request.non_retryable,
        not_before_ms: optional_span("not_before", request.not_before)?,
        policy: retry(request.retry.unwrap_or_default())?,
        took_ms: took(request.took)?,
    };
    workflows::steps::fail(app, lease, request.position, request.name, attempt)
}

/// The answer for an attempt that failed; `now` is the time on the store's clock.
pub(super) fn again(remembered: &Remembered, now: Millis) -> v1::FailStepResponse {
    let step = &remembered.step;
    let retry_at = step.due_at.filter(|_| step.state == StepState::Begun);
    v1::FailStepResponse {
        retry: retry_at.is_some(),
        retry_at: retry_at.map(timestamp),
        retry_after: retry_at.map(|at| duration((at - now).max(0))),
    }
}

pub(super) async fn fail_step(
    app: &App,
    caller: &Caller,
    request: v1::FailStepRequest,
) -> Result<v1::FailStepResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let remembered = workflows::steps::one(app, failed(app, lease, request)?).await?;
    Ok(again(&remembered, app.time.now().await.map_err(Error::from)?))
}

/// A suspension in our own words.
pub(super) fn suspension(lease: LeaseRef, request: v1::SuspendRequest) -> Result<Suspension, Error> {
    let sleeps = request.sleeps.into_iter().map(|sleep| {
        let due = due(("duration", "until"), sleep.duration, sleep.until)?;
        let due = due.ok_or_else(|| invalid("duration", "or until must be given"))?;
        Ok((sleep.position, sleep.name, due))
    });
    let suspension = Suspension {
        lease,
        sleeps: sleeps.collect::<Result<Vec<(u32, String, Due)>, Error>>()?,
        wake_at: request.wake_at.map(|at| moment("wake_at", at)).transpose()?,
        seen: seen(request.seen),
    };
    workflows::suspend::check(&suspension, request.awaits_messages)?;
    Ok(suspension)
}

/// The answer to a suspension.
pub(super) fn suspended(answer: Suspended) -> v1::SuspendResponse {
    match answer {
        Suspended::Until(at) => v1::SuspendResponse { suspended: true, messages: vec![], wake_at: Some(timestamp(at)) },
        Suspended::News(messages) => v1::SuspendResponse {
            suspended: false,
            messages: messages.into_iter().map(message).collect(),
            wake_at: None,
        },
    }
}

pub(super) async fn suspend(
    app: &App,
    caller: &Caller,
    request: v1::SuspendRequest,
) -> Result<v1::SuspendResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    Ok(suspended(workflows::suspend::one(app, suspension(lease, request)?).await?))
}

pub(super) async fn schedule_sleep(
    app: &App,
    caller: &Caller,
    request: v1::ScheduleSleepRequest,
) -> Result<v1::SuspendResponse, Status> {
    let v1::ScheduleSleepRequest { run_id, lease, position, name, duration, until, seen } = request;
    let sleeps = vec![v1::Sleep { position, name, duration, until }];
    suspend(app, caller, v1::SuspendRequest { run_id, lease, sleeps, wake_at: None, seen, awaits_messages: false })
        .await
}

pub(super) async fn await_messages(
    app: &App,
    caller: &Caller,
    request: v1::AwaitMessagesRequest,
) -> Result<v1::AwaitMessagesResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let wait = request.wait.map_or(Ok(0), |wait| span("wait", wait))?;
    let messages = workflows::messages::wait(app, lease, seen(request.seen), wait as u64).await?;
    Ok(v1::AwaitMessagesResponse { messages: messages.into_iter().map(message).collect() })
}

/// A child in our own words.
pub(super) fn child(
    lease: LeaseRef,
    lane: Option<LaneId>,
    request: v1::StartChildRequest,
) -> Result<StartChild, Error> {
    let wanted = request.start.ok_or_else(|| invalid("start", "must say what is started"))?;
    let start = start(wanted, [0; 16])?;
    Ok(StartChild { lease, lane, position: request.position, name: request.name, start })
}

pub(super) async fn start_child(
    app: &App,
    caller: &Caller,
    request: v1::StartChildRequest,
) -> Result<v1::StartChildResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let child = child(lease, None, request)?;
    let started = one(workflows::children::many(app, caller, vec![child]).await?)?;
    Ok(v1::StartChildResponse { run_id: started.run.to_string() })
}

/// What is to be published.
pub(super) fn published(app: &App, lease: LeaseRef, value: Bytes) -> Result<(LeaseRef, Bytes), Error> {
    payloads::check(app, &value)?;
    Ok((lease, value))
}

pub(super) async fn publish(
    app: &App,
    caller: &Caller,
    request: v1::PublishRequest,
) -> Result<v1::PublishResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    one(workflows::publish::many(app, vec![published(app, lease, request.value)?]).await?)?;
    Ok(v1::PublishResponse {})
}

/// The completion of a run.
pub(super) fn completion(app: &App, lease: LeaseRef, output: Bytes) -> Result<Completion, Error> {
    workflows::finish::completion(app, lease, output)
}

pub(super) async fn complete_workflow(
    app: &App,
    caller: &Caller,
    request: v1::CompleteWorkflowRequest,
) -> Result<v1::CompleteWorkflowResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let state = one(workflows::finish::complete(app, vec![completion(app, lease, request.output)?]).await?)?;
    Ok(v1::CompleteWorkflowResponse { state: state_of(state) })
}

fn state_of(state: State) -> i32 {
    run_state(state).into()
}

/// The failure of a run; `now` is the time on the store's clock.
pub(super) fn failure(request: v1::FailWorkflowRequest, now: Millis) -> Result<Failure, Error> {
    let failed = Failed {
        error: request.error,
        code: some(request.code),
        retryable: !request.non_retryable,
        not_before_ms: optional_span("not_before", request.not_before)?,
    };
    workflows::finish::failure(failed, now)
}

pub(super) async fn fail_workflow(
    app: &App,
    caller: &Caller,
    request: v1::FailWorkflowRequest,
) -> Result<v1::FailWorkflowResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let now = app.time.now().await.map_err(Error::from)?;
    let state = one(workflows::finish::fail(app, vec![(lease, failure(request, now)?)]).await?)?;
    Ok(v1::FailWorkflowResponse { state: state_of(state) })
}

pub(super) async fn cancelled_workflow(
    app: &App,
    caller: &Caller,
    request: v1::CancelledWorkflowRequest,
) -> Result<v1::CancelledWorkflowResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let state = one(workflows::finish::cancelled(app, vec![(lease, request.message)]).await?)?;
    Ok(v1::CancelledWorkflowResponse { state: state_of(state) })
}

pub(super) async fn continue_as_new(
    app: &App,
    caller: &Caller,
    request: v1::ContinueAsNewRequest,
) -> Result<v1::StartWorkflowResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    Ok(started(&workflows::continue_as_new::one(app, lease, request.input).await?))
}

pub(super) async fn give_back_workflow(
    app: &App,
    caller: &Caller,
    request: v1::GiveBackWorkflowRequest,
) -> Result<v1::GiveBackWorkflowResponse, Status> {
    let lease = lease(app, caller, &request.run_id, &request.lease).await?;
    let state = one(workflows::finish::give_back(app, vec![(lease, request.reason)]).await?)?;
    Ok(v1::GiveBackWorkflowResponse { state: state_of(state) })
}
