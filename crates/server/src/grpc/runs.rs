//! For those who start workflows: start, read, cancel, signal, retry, query.

use baton_core::trace::TraceContext;
use baton_core::{Millis, RunId};
use baton_proto::{NAMESPACE_DEFAULT, QUEUE_DEFAULT, v1};
use baton_store::{Due, Page, StepAttempt, Submitted};
use prost::Message as _;
use sha2::{Digest, Sha256};
use tonic::Status;

use super::convert::{
    due, next_token, optional_span, page, retry, run_id, run_state, seen, some, state_filter, step, step_state,
    timestamp,
};
use crate::auth::Caller;
use crate::service::workflows::read::{Which, Workflow, WorkflowQuery};
use crate::service::workflows::start::Start;
use crate::service::{health, workflows};
use crate::{App, Error};

/// A workflow to be started, as it was asked for. Namespace and queue may be empty.
pub(super) fn start(request: v1::StartWorkflowRequest, fingerprint: [u8; 16]) -> Result<Start, Error> {
    let due = due(("start_after", "start_at"), request.start_after, request.start_at)?;
    Ok(Start {
        namespace: request.namespace_id,
        queue: request.task_queue,
        kind: request.workflow_type,
        version: request.pin_version.and_then(some),
        input: request.input,
        idempotency_key: request.idempotency_key,
        fingerprint,
        priority: request.priority,
        due: due.unwrap_or(Due::Now),
        retry: request.retry.map(retry).transpose()?,
        timeout_ms: optional_span("timeout", request.timeout)?,
        key: request.key,
        trace: TraceContext::parse(&request.traceparent, some(request.tracestate).as_deref()),
    })
}

/// A hash of everything the caller said but for the trace: each call may have one of its own.
fn fingerprint(request: &v1::StartWorkflowRequest) -> [u8; 16] {
    let (traceparent, tracestate) = (String::new(), String::new());
    let said = v1::StartWorkflowRequest { traceparent, tracestate, ..request.clone() };
    let mut short = [0; 16];
    short.copy_from_slice(&Sha256::digest(said.encode_to_vec())[..16]);
    short
}

pub(super) fn started(submitted: &Submitted) -> v1::StartWorkflowResponse {
    v1::StartWorkflowResponse {
        run_id: submitted.run.to_string(),
        submitted_at: Some(timestamp(submitted.submitted_at)),
        existed: !submitted.is_new,
    }
}

pub(super) async fn start_workflow(
    app: &App,
    caller: &Caller,
    mut request: v1::StartWorkflowRequest,
) -> Result<v1::StartWorkflowResponse, Status> {
    for (given, default) in [(&mut request.namespace_id, NAMESPACE_DEFAULT), (&mut request.task_queue, QUEUE_DEFAULT)] {
        if given.is_empty() {
            default.clone_into(given);
        }
    }
    // Only those with a key are ever compared.
    let fingerprint = if request.idempotency_key.is_some() { fingerprint(&request) } else { [0; 16] };
    let submitted = workflows::start::one(app, caller, start(request, fingerprint)?).await?;
    Ok(started(&submitted))
}

pub(super) async fn get_workflow_run(
    app: &App,
    caller: &Caller,
    request: v1::GetWorkflowRunRequest,
) -> Result<v1::WorkflowRun, Status> {
    Ok(shown(workflows::read::get(app, caller, run_id(&request.run_id)?).await?))
}

pub(super) async fn wait_workflow_run(
    app: &App,
    caller: &Caller,
    request: v1::WaitWorkflowRunRequest,
) -> Result<v1::WorkflowRun, Status> {
    let wait = optional_span("wait", request.wait)?.unwrap_or(baton_proto::CLAIM_WAIT_MS_MAX as Millis);
    Ok(shown(workflows::read::wait(app, caller, run_id(&request.run_id)?, wait as u64).await?))
}

pub(super) async fn list_workflow_runs(
    app: &App,
    caller: &Caller,
    request: v1::ListWorkflowRunsRequest,
) -> Result<v1::ListWorkflowRunsResponse, Status> {
    let page: Page<RunId> = page(request.page_size, &request.page_token, |token| token.parse().ok())?;
    let query = WorkflowQuery {
        namespace: some(request.namespace_id),
        queue: some(request.task_queue),
        kind: some(request.workflow_type),
        state: state_filter(request.state)?,
    };
    let (found, total_count) = workflows::read::list(app, caller, query, page).await?;
    let next_page_token = next_token(&found, page.limit, |last| last.record.id.to_string());
    Ok(v1::ListWorkflowRunsResponse { runs: found.into_iter().map(shown).collect(), next_page_token, total_count })
}

fn shown(workflow: Workflow) -> v1::WorkflowRun {
    let Workflow { record, lane, relations } = workflow;
    v1::WorkflowRun {
        run_id: record.id.to_string(),
        namespace_id: lane.namespace.clone(),
        task_queue: lane.queue.clone(),
        workflow_type: lane.kind.clone(),
        state: run_state(record.state).into(),
        reason: record.reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default(),
        error: record.error.unwrap_or_default(),
        input: record.input,
        output: record.output.unwrap_or_default(),
        submitted_at: Some(timestamp(record.submitted_at)),
        due_at: Some(timestamp(record.due_at)),
        ended_at: record.ended_at.map(timestamp),
        attempt: if record.epoch.number() == 0 {
            0
        } else {
            record.failures + u32::from(!record.state.is_ended() || record.failures == 0)
        },
        priority: u32::from(record.priority),
        worker_id: record.worker.map(|worker| worker.to_string()).unwrap_or_default(),
        parent_run_id: relations.parent.map(|run| run.to_string()).unwrap_or_default(),
        continued_to: relations.continued_to.map(|run| run.to_string()).unwrap_or_default(),
        cancel_requested: relations.cancel_requested || record.cancel_by.is_some(),
        trace_id: record.trace.map(|trace| trace.trace_id.to_string()).unwrap_or_default(),
    }
}

pub(super) async fn cancel_workflow_run(
    app: &App,
    caller: &Caller,
    request: v1::CancelWorkflowRunRequest,
) -> Result<v1::CancelWorkflowRunResponse, Status> {
    let grace = optional_span("grace", request.grace)?;
    let state = workflows::cancel::one(app, caller, run_id(&request.run_id)?, grace).await?;
    Ok(v1::CancelWorkflowRunResponse { state: run_state(state).into() })
}

pub(super) async fn signal_workflow_run(
    app: &App,
    caller: &Caller,
    request: v1::SignalWorkflowRunRequest,
) -> Result<v1::SignalWorkflowRunResponse, Status> {
    let v1::SignalWorkflowRunRequest { run_id: run, name, payload, idempotency_key } = request;
    let number = workflows::signal::one(app, caller, run_id(&run)?, name, payload, idempotency_key).await?;
    Ok(v1::SignalWorkflowRunResponse { number: number as u64 })
}

pub(super) async fn retry_workflow_run(
    app: &App,
    caller: &Caller,
    request: v1::RetryWorkflowRunRequest,
) -> Result<v1::StartWorkflowResponse, Status> {
    Ok(started(&workflows::retry::one(app, caller, run_id(&request.run_id)?, request.from_start).await?))
}

pub(super) async fn query_workflow_run(
    app: &App,
    caller: &Caller,
    request: v1::QueryWorkflowRunRequest,
) -> Result<v1::QueryWorkflowRunResponse, Status> {
    let published = workflows::publish::read(app, caller, run_id(&request.run_id)?).await?;
    let (value, at) = published.map_or_else(Default::default, |(value, at)| (value, Some(timestamp(at))));
    Ok(v1::QueryWorkflowRunResponse { value, published_at: at })
}

pub(super) async fn list_steps(
    app: &App,
    caller: &Caller,
    request: v1::ListStepsRequest,
) -> Result<v1::ListStepsResponse, Status> {
    let page: Page<u32> = page(request.page_size, &request.page_token, |token| token.parse().ok())?;
    let (found, more) = workflows::read::steps(app, caller, run_id(&request.run_id)?, page).await?;
    let next_page_token = found.last().filter(|_| more).map(|last| last.position.to_string()).unwrap_or_default();
    Ok(v1::ListStepsResponse { steps: found.into_iter().map(step).collect(), next_page_token })
}

pub(super) async fn get_payload(
    app: &App,
    caller: &Caller,
    request: v1::GetPayloadRequest,
) -> Result<v1::GetPayloadResponse, Status> {
    use v1::get_payload_request::Which as Asked;
    let run = run_id(&request.run_id)?;
    let which = match request.which {
        Some(Asked::Position(position)) => Which::Output(position),
        Some(Asked::Message(number)) => Which::Message(seen(number)),
        None => return Err(workflows::invalid("which", "must be a position or the number of a message").into()),
    };
    let lease = some(request.lease);
    let payload = workflows::read::payload(app, caller, run, lease.as_deref(), which).await?;
    Ok(v1::GetPayloadResponse { payload })
}

pub(super) async fn get_step_attempt(
    app: &App,
    caller: &Caller,
    request: v1::GetStepAttemptRequest,
) -> Result<v1::StepAttempt, Status> {
    let run = run_id(&request.run_id)?;
    let after = request.attempt.checked_sub(1).map(|before| (request.position, before));
    let page = Page { after, limit: 1 };
    let found = workflows::read::step_attempts(app, caller, run, Some(request.position), page).await?;
    let wanted = found.into_iter().find(|found| found.attempt == request.attempt);
    let id = format!("{} of position {}", request.attempt, request.position);
    Ok(attempt(run, wanted.ok_or(Error::NotFound { what: "attempt", id })?))
}

pub(super) async fn list_step_attempts(
    app: &App,
    caller: &Caller,
    request: v1::ListStepAttemptsRequest,
) -> Result<v1::ListStepAttemptsResponse, Status> {
    let run = run_id(&request.run_id)?;
    let page: Page<(u32, u32)> = page(request.page_size, &request.page_token, |token| {
        let (position, attempt) = token.split_once('.')?;
        Some((position.parse().ok()?, attempt.parse().ok()?))
    })?;
    let found = workflows::read::step_attempts(app, caller, run, request.position, page).await?;
    let next_page_token = next_token(&found, page.limit, |last| format!("{}.{}", last.position, last.attempt));
    let attempts = found.into_iter().map(|found| attempt(run, found)).collect();
    Ok(v1::ListStepAttemptsResponse { attempts, next_page_token })
}

fn attempt(run: RunId, attempt: StepAttempt) -> v1::StepAttempt {
    v1::StepAttempt {
        run_id: run.to_string(),
        position: attempt.position,
        attempt: attempt.attempt,
        name: attempt.name,
        epoch: u64::from(attempt.epoch.number()),
        worker_id: attempt.worker.map(|worker| worker.to_string()).unwrap_or_default(),
        state: step_state(attempt.state).into(),
        error: attempt.error.unwrap_or_default(),
        code: attempt.code.unwrap_or_default(),
        begun_at: Some(timestamp(attempt.begun_at)),
        ended_at: attempt.ended_at.map(timestamp),
    }
}

pub(super) async fn health_check(
    app: &App,
    _: &Caller,
    _: v1::HealthCheckRequest,
) -> Result<v1::HealthCheckResponse, Status> {
    Ok(v1::HealthCheckResponse {
        serving: health::is_serving(app).await,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: health::store_kind(app).to_owned(),
    })
}
