//! For workers: register, heartbeat, poll, and how they are shown.

use baton_core::Millis;
use baton_core::trace::TraceContext;
use baton_proto::{
    CLAIM_WAIT_MS_MAX, HealthReport, Heartbeat, HeartbeatAnswer, LeaseOf, NAMESPACE_DEFAULT, QUEUE_DEFAULT,
    RegisterWorker, RegisteredWorker, WorkerView, v1,
};
use baton_store::{Page, WorkerFilter, WorkerStatus};
use tonic::Status;

use super::convert::{duration, message, next_token, optional_span, page, some, step, timestamp, worker_id};
use super::error::of_worker;
use crate::auth::Caller;
use crate::service;
use crate::service::workflows;
use crate::service::workflows::claim::Taken;
use crate::service::workflows::{invalid, plain};
use crate::{App, Error};

/// A registration in our own words.
pub(super) fn registration(request: v1::RegisterWorkerRequest) -> RegisterWorker {
    RegisterWorker {
        namespace: some(request.namespace_id).unwrap_or_else(|| NAMESPACE_DEFAULT.into()),
        name: some(request.name),
        queues: vec![some(request.task_queue).unwrap_or_else(|| QUEUE_DEFAULT.into())],
        types: request.workflow_types,
        hostname: some(request.hostname),
        pid: (request.pid != 0).then_some(request.pid),
        version: some(request.version),
        labels: request.labels.into_iter().collect(),
        max_concurrent: (request.max_concurrent != 0).then_some(request.max_concurrent),
        instance: some(request.instance),
    }
}

pub(super) fn registered(worker: RegisteredWorker) -> v1::RegisterWorkerResponse {
    v1::RegisterWorkerResponse {
        worker_id: worker.worker_id,
        heartbeat_interval_secs: worker.heartbeat_interval_ms.div_ceil(1_000) as u32,
        heartbeat_interval: Some(duration(worker.heartbeat_interval_ms as Millis)),
        lease_ttl: Some(duration(worker.lease_ttl_ms as Millis)),
    }
}

pub(super) async fn register_worker(
    app: &App,
    caller: &Caller,
    request: v1::RegisterWorkerRequest,
) -> Result<v1::RegisterWorkerResponse, Status> {
    Ok(registered(workflows::register::one(app, caller, registration(request)).await?))
}

/// A heartbeat in our own words.
pub(super) fn heartbeat(request: v1::WorkerHeartbeatRequest) -> Heartbeat {
    let leases = request.leases.into_iter();
    let leases = leases.map(|lease| LeaseOf { run_id: lease.run_id, lease: lease.lease, stopping: false }).collect();
    let health = HealthReport { cpu: request.cpu, memory: request.memory, disk_free_bytes: request.disk_free_bytes };
    Heartbeat {
        leases,
        all: request.all_leases,
        health: (health != HealthReport::default()).then_some(health),
        unfit: None,
        wait_ms: None,
    }
}

pub(super) fn heard(answer: HeartbeatAnswer) -> v1::WorkerHeartbeatResponse {
    v1::WorkerHeartbeatResponse {
        accepted: true,
        should_drain: answer.should_drain,
        lost: answer.lost,
        cancelled: answer.cancelling,
    }
}

pub(super) async fn worker_heartbeat(
    app: &App,
    caller: &Caller,
    request: v1::WorkerHeartbeatRequest,
) -> Result<v1::WorkerHeartbeatResponse, Status> {
    let worker = worker_id(&request.worker_id)?;
    Ok(heard(service::renew::one(app, caller, worker, heartbeat(request)).await?))
}

pub(super) async fn deregister_worker(
    app: &App,
    caller: &Caller,
    request: v1::DeregisterWorkerRequest,
) -> Result<v1::DeregisterWorkerResponse, Status> {
    let worker = worker_id(&request.worker_id)?;
    let given_back = match request.drain {
        true => service::workers::retire(app, caller, worker).await.map(|()| 0),
        false => service::workers::deregister(app, caller, worker).await,
    }?;
    Ok(v1::DeregisterWorkerResponse { given_back: u32::try_from(given_back).unwrap_or(u32::MAX) })
}

pub(super) async fn list_workers(
    app: &App,
    caller: &Caller,
    request: v1::ListWorkersRequest,
) -> Result<v1::ListWorkersResponse, Status> {
    let page: Page<_> = page(request.page_size, &request.page_token, |token| token.parse().ok())?;
    let status = match v1::WorkerState::try_from(request.state) {
        Ok(v1::WorkerState::Unspecified) => None,
        Ok(v1::WorkerState::Online) => Some(WorkerStatus::Online),
        Ok(v1::WorkerState::Draining) => Some(WorkerStatus::Draining),
        Ok(v1::WorkerState::Offline) => Some(WorkerStatus::Offline),
        Err(_) => return Err(invalid("state", "is no state of a worker").into()),
    };
    let filter = WorkerFilter { namespace: some(request.namespace_id), status, queue: some(request.task_queue) };
    let (found, total) = service::workers::list(app, caller, filter, page, true).await?;
    let next_page_token = next_token(&found, page.limit, |last| last.id.clone());
    let workers = found.into_iter().map(shown).collect();
    Ok(v1::ListWorkersResponse { workers, next_page_token, total_count: total.unwrap_or(0) })
}

pub(super) async fn get_worker(
    app: &App,
    caller: &Caller,
    request: v1::GetWorkerRequest,
) -> Result<v1::Worker, Status> {
    Ok(shown(service::workers::get(app, caller, worker_id(&request.worker_id)?).await?))
}

fn shown(worker: WorkerView) -> v1::Worker {
    let state = match service::workers::status_named(&worker.status) {
        Some(WorkerStatus::Online) => v1::WorkerState::Online,
        Some(WorkerStatus::Draining) => v1::WorkerState::Draining,
        Some(WorkerStatus::Offline) | None => v1::WorkerState::Offline,
    };
    v1::Worker {
        worker_id: worker.id,
        namespace_id: worker.namespace,
        task_queue: worker.queues.into_iter().next().unwrap_or_default(),
        // Those pinned to its version go without saying.
        workflow_types: worker.types.into_iter().filter(|kind| !kind.contains(workflows::VERSION_MARK)).collect(),
        name: worker.name,
        hostname: worker.hostname,
        pid: worker.pid.unwrap_or(0),
        version: worker.version,
        max_concurrent: worker.max_concurrent,
        labels: worker.labels.into_iter().collect(),
        state: state.into(),
        active_count: worker.active,
        completed: worker.completed,
        failed: worker.failed,
        registered_at: Some(timestamp(worker.registered_at.0)),
        seen_at: Some(timestamp(worker.seen_at.0)),
    }
}

pub(super) async fn poll_activity(
    app: &App,
    caller: &Caller,
    request: v1::PollActivityRequest,
) -> Result<v1::PollActivityResponse, Status> {
    let worker = worker_id(&request.worker_id)?;
    let wait = optional_span("wait", request.wait)?.unwrap_or(CLAIM_WAIT_MS_MAX as Millis);
    let number = (request.claim_no != 0).then_some(request.claim_no);
    if let (Some(namespace), Some(known)) =
        (some(request.namespace_id), app.workers.get(worker).await.map_err(Error::from)?)
        && namespace != known.namespace
    {
        return Err(invalid("namespace_id", "is not the one the worker registered in").into());
    }
    let (queue, kinds) = (some(request.task_queue), request.supported_workflow_types);
    let taken = workflows::claim::one(app, caller, worker, queue, kinds, wait as u64, number).await;
    Ok(taken.map_err(|error| of_worker(&error))?.map(handed).unwrap_or_default())
}

/// A workflow as it is handed to its worker.
pub(super) fn handed(taken: Taken) -> v1::PollActivityResponse {
    let Taken { claimed, lease, lane, journal, now } = taken;
    let place = claimed.trace.as_ref().map(|trace| trace.of_attempt(claimed.run, claimed.epoch));
    v1::PollActivityResponse {
        traceparent: place.as_ref().map(TraceContext::traceparent).unwrap_or_default(),
        tracestate: place.and_then(|place| place.state).unwrap_or_default(),
        run_id: claimed.run.to_string(),
        workflow_type: plain(&lane).to_owned(),
        workflow_input: claimed.input,
        lease,
        attempt: claimed.attempt,
        steps: journal.steps.into_iter().map(step).collect(),
        messages: journal.messages.into_iter().map(message).collect(),
        submitted_at: Some(timestamp(claimed.submitted_at)),
        now: Some(timestamp(now)),
        namespace_id: lane.namespace.clone(),
        task_queue: lane.queue.clone(),
        parent_run_id: String::new(),
    }
}
