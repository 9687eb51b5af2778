//! `ScheduleService`: schedules that start workflows.

use baton_core::retry::RetryPolicy;
use baton_core::schedule::Overlap;
use baton_proto::v1::schedule_service_server::ScheduleService;
use baton_proto::{
    ChangeSchedule, CreateSchedule, NAMESPACE_DEFAULT, QUEUE_DEFAULT, ScheduleFire, ScheduleView, ScheduledRun, v1,
};
use baton_store::Page;
use serde_json::value::RawValue;
use tonic::{Request, Response, Status};

use super::convert::{duration, moment, optional_span, page, retry, run_state, some, timestamp};
use super::workflows::opened;
use crate::service::schedules;
use crate::service::workflows::{VERSION_MARK, invalid, pinned};
use crate::{App, Error};

/// Between namespace and id in a page token: no name has it.
const SEPARATOR: char = '\u{1f}';

/// The service.
#[derive(Clone, Debug)]
pub struct Schedules {
    pub(super) app: App,
}

#[tonic::async_trait]
impl ScheduleService for Schedules {
    async fn create_schedule(
        &self,
        request: Request<v1::CreateScheduleRequest>,
    ) -> Result<Response<v1::Schedule>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        let spec = request.spec.ok_or_else(|| invalid("spec", "must be given"))?;
        let run = run(&namespace, spec.start.ok_or_else(|| invalid("spec.start", "must be given"))?)?;
        let wanted = CreateSchedule {
            namespace,
            id: request.schedule_id,
            cron: spec.cron,
            time_zone: some(spec.time_zone),
            jitter_ms: optional_span("spec.jitter", spec.jitter)?.map(|ms| ms as u64),
            max_catchup: spec.max_catchup,
            overlap: Some(overlap(spec.overlap)?),
            run,
            paused: request.paused,
            note: request.note,
        };
        let (made, _) = schedules::create(&self.app, &who.caller, wanted).await?;
        Ok(Response::new(shown(made)))
    }

    async fn get_schedule(&self, request: Request<v1::GetScheduleRequest>) -> Result<Response<v1::Schedule>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        let found = schedules::read::get(&self.app, &who.caller, &namespace, &request.schedule_id).await?;
        Ok(Response::new(shown(found)))
    }

    async fn list_schedules(
        &self,
        request: Request<v1::ListSchedulesRequest>,
    ) -> Result<Response<v1::ListSchedulesResponse>, Status> {
        let (who, request) = opened(request)?;
        let read = |token: &str| token.split_once(SEPARATOR).map(|(namespace, id)| (namespace.into(), id.into()));
        let page: Page<(String, String)> = page(request.page_size, &request.page_token, read)?;
        let (limit, namespace) = (page.limit, some(request.namespace_id));
        let (found, total) = schedules::read::list(&self.app, &who.caller, namespace.as_deref(), page, true).await?;
        let last = found.last().filter(|_| found.len() == limit);
        let next_page_token = last.map(|last| format!("{}{SEPARATOR}{}", last.namespace, last.id)).unwrap_or_default();
        let schedules = found.into_iter().map(shown).collect();
        Ok(Response::new(v1::ListSchedulesResponse {
            schedules,
            next_page_token,
            total_count: total.unwrap_or_default(),
        }))
    }

    async fn update_schedule(
        &self,
        request: Request<v1::UpdateScheduleRequest>,
    ) -> Result<Response<v1::Schedule>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        let mut change = ChangeSchedule { note: request.note, ..ChangeSchedule::default() };
        // A spec that is given is the whole of it: what it leaves out is as if it were made anew.
        if let Some(spec) = request.spec {
            let start = spec.start.ok_or_else(|| invalid("spec.start", "must be given"))?;
            change.cron = Some(spec.cron);
            change.time_zone = Some(some(spec.time_zone).unwrap_or_else(|| baton_core::cron::ZONE_DEFAULT.into()));
            change.jitter_ms = Some(optional_span("spec.jitter", spec.jitter)?.unwrap_or(0) as u64);
            change.max_catchup = Some(spec.max_catchup.unwrap_or(baton_core::schedule::CATCHUP_DEFAULT));
            change.overlap = Some(overlap(spec.overlap)?);
            change.run = Some(run(&namespace, start)?);
        }
        let id = &request.schedule_id;
        let changed = schedules::change(&self.app, &who.caller, &namespace, id, change).await?;
        Ok(Response::new(shown(changed)))
    }

    async fn pause_schedule(
        &self,
        request: Request<v1::PauseScheduleRequest>,
    ) -> Result<Response<v1::Schedule>, Status> {
        let (who, request) = opened(request)?;
        let (namespace, note) = (namespace(request.namespace_id), some(request.note));
        let id = &request.schedule_id;
        let paused = schedules::control::pause(&self.app, &who.caller, &namespace, id, note.as_deref()).await?;
        Ok(Response::new(shown(paused)))
    }

    async fn resume_schedule(
        &self,
        request: Request<v1::ResumeScheduleRequest>,
    ) -> Result<Response<v1::Schedule>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        let resumed = schedules::control::resume(&self.app, &who.caller, &namespace, &request.schedule_id).await?;
        Ok(Response::new(shown(resumed)))
    }

    async fn delete_schedule(
        &self,
        request: Request<v1::DeleteScheduleRequest>,
    ) -> Result<Response<v1::DeleteScheduleResponse>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        schedules::delete(&self.app, &who.caller, &namespace, &request.schedule_id).await?;
        Ok(Response::new(v1::DeleteScheduleResponse {}))
    }

    async fn trigger_schedule(
        &self,
        request: Request<v1::TriggerScheduleRequest>,
    ) -> Result<Response<v1::TriggerScheduleResponse>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        let (id, key) = (&request.schedule_id, request.idempotency_key.as_deref());
        let triggered = schedules::by_hand::trigger(&self.app, &who.caller, &namespace, id, key).await?;
        Ok(Response::new(v1::TriggerScheduleResponse { run_id: triggered.run_id }))
    }

    async fn backfill_schedule(
        &self,
        request: Request<v1::BackfillScheduleRequest>,
    ) -> Result<Response<v1::BackfillScheduleResponse>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        let from = moment("from", request.from.ok_or_else(|| invalid("from", "must be given"))?)?;
        let to = moment("to", request.to.ok_or_else(|| invalid("to", "must be given"))?)?;
        let id = &request.schedule_id;
        let filled = schedules::by_hand::backfill(&self.app, &who.caller, &namespace, id, from, to).await?;
        let (started, existed) = (filled.started as u32, filled.existed as u32);
        Ok(Response::new(v1::BackfillScheduleResponse { started, existed }))
    }

    async fn list_schedule_runs(
        &self,
        request: Request<v1::ListScheduleRunsRequest>,
    ) -> Result<Response<v1::ListScheduleRunsResponse>, Status> {
        let (who, request) = opened(request)?;
        let namespace = namespace(request.namespace_id);
        let page: Page<i64> = page(request.page_size, &request.page_token, |token| token.parse().ok())?;
        let id = &request.schedule_id;
        let (fires, next) = schedules::read::fires(&self.app, &who.caller, &namespace, id, page).await?;
        Ok(Response::new(v1::ListScheduleRunsResponse {
            runs: fires.into_iter().map(fire).collect(),
            next_page_token: next.map(|number| number.to_string()).unwrap_or_default(),
        }))
    }
}

fn namespace(given: String) -> String {
    some(given).unwrap_or_else(|| NAMESPACE_DEFAULT.into())
}

fn overlap(policy: i32) -> Result<Overlap, Error> {
    match v1::OverlapPolicy::try_from(policy) {
        Ok(v1::OverlapPolicy::Unspecified | v1::OverlapPolicy::Allow) => Ok(Overlap::Allow),
        Ok(v1::OverlapPolicy::Skip) => Ok(Overlap::Skip),
        Ok(v1::OverlapPolicy::BufferOne) => Ok(Overlap::BufferOne),
        Ok(v1::OverlapPolicy::CancelPrevious) => Ok(Overlap::CancelPrevious),
        Err(_) => Err(invalid("spec.overlap", "is no policy")),
    }
}

/// The run that each fire starts, from what starts a workflow.
fn run(namespace: &str, start: v1::StartWorkflowRequest) -> Result<ScheduledRun, Error> {
    if !start.namespace_id.is_empty() && start.namespace_id != namespace {
        return Err(invalid("spec.start.namespace_id", "must be that of the schedule, or empty"));
    }
    if start.idempotency_key.is_some() {
        return Err(invalid("spec.start.idempotency_key", "must not be set: each fire has its own"));
    }
    if start.start_at.is_some() || start.start_after.is_some() {
        return Err(invalid("spec.start.start_at", "must not be set: the rule says when"));
    }
    if start.workflow_type.contains(VERSION_MARK) {
        return Err(invalid("spec.start.workflow_type", "must not contain '@'; a version goes into pin_version"));
    }
    let priority = start.priority.map(u8::try_from).transpose();
    let input = match start.input.is_empty() {
        true => None,
        false => {
            let text = String::from_utf8(start.input.to_vec()).ok();
            let json = text.and_then(|text| RawValue::from_string(text).ok());
            Some(json.ok_or_else(|| invalid("spec.start.input", "must be JSON"))?)
        }
    };
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    Ok(ScheduledRun {
        input,
        priority: priority.map_err(|_| invalid("spec.start.priority", "must be 0 to 9"))?,
        key: start.key,
        retry: Some(start.retry.map(retry).transpose()?.unwrap_or(once)),
        run_timeout_ms: optional_span("spec.start.timeout", start.timeout)?.map(|ms| ms as u64),
        ..ScheduledRun::workflow(
            some(start.task_queue).unwrap_or_else(|| QUEUE_DEFAULT.into()),
            pinned(&start.workflow_type, start.pin_version.as_deref()),
        )
    })
}

fn shown(view: ScheduleView) -> v1::Schedule {
    let overlap = match view.overlap {
        Overlap::Allow => v1::OverlapPolicy::Allow,
        Overlap::Skip => v1::OverlapPolicy::Skip,
        Overlap::BufferOne => v1::OverlapPolicy::BufferOne,
        Overlap::CancelPrevious => v1::OverlapPolicy::CancelPrevious,
    };
    v1::Schedule {
        schedule_id: view.id,
        namespace_id: view.namespace.clone(),
        spec: Some(v1::ScheduleSpec {
            cron: view.cron,
            time_zone: view.time_zone,
            jitter: Some(duration(view.jitter_ms as i64)),
            max_catchup: Some(view.max_catchup),
            overlap: overlap.into(),
            start: Some(started(view.namespace, view.run)),
        }),
        paused: view.paused,
        created_at: Some(timestamp(view.created_at.0)),
        last_fire: view.last_fire.map(|at| timestamp(at.0)),
        next_fires: view.next_fires.into_iter().map(|at| timestamp(at.0)).collect(),
        fired: view.fired,
        left_out: view.left_out,
        note: view.note,
    }
}

fn started(namespace: String, run: ScheduledRun) -> v1::StartWorkflowRequest {
    let (kind, version) = match run.kind.split_once(VERSION_MARK) {
        Some((kind, version)) => (kind.to_owned(), Some(version.to_owned())),
        None => (run.kind, None),
    };
    v1::StartWorkflowRequest {
        namespace_id: namespace,
        task_queue: run.queue,
        workflow_type: kind,
        input: run.input.map(|input| String::from(Box::<str>::from(input)).into()).unwrap_or_default(),
        priority: run.priority.map(u32::from),
        retry: run.retry.map(|policy| v1::RetryPolicy {
            max_attempts: policy.max_attempts,
            first_interval: Some(duration(policy.first_interval_ms as i64)),
            factor: policy.factor,
            longest_interval: Some(duration(policy.max_interval_ms as i64)),
            jitter: Some(policy.jitter),
            non_retryable: policy.non_retryable,
        }),
        timeout: run.run_timeout_ms.map(|ms| duration(ms as i64)),
        key: run.key,
        pin_version: version,
        ..v1::StartWorkflowRequest::default()
    }
}

fn fire(fire: ScheduleFire) -> v1::ScheduleRun {
    v1::ScheduleRun {
        fire_at: Some(timestamp(fire.fire_at.0)),
        run_id: fire.run_id.unwrap_or_default(),
        what: fire.what,
        state: fire.state.map_or(v1::RunState::Unspecified, run_state).into(),
        missed: fire.missed.unwrap_or(0),
    }
}
