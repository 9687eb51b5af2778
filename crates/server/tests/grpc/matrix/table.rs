//! The declared table: what opens each rpc, and a request that is valid.

use baton_proto::v1;
use prost::Message;

use crate::rig::{completion, failed_step, hello, order, poll, sleep, step, worker};

/// What opens an rpc. Keys with the scope `admin` may do what any other scope may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens {
    /// Any key.
    Key,
    /// A key with the scope `read` or `submit`.
    Read,
    /// A key with the scope `submit`.
    Submit,
    /// A key with the scope `worker`.
    Worker,
    /// A key with the scope `admin` that is good for all namespaces.
    Everything,
}

use Opens::{Everything, Key, Read, Submit, Worker};

/// What requests are about.
#[derive(Clone, Debug)]
pub struct Things {
    /// A run with its lease.
    pub held: v1::PollActivityResponse,
    pub worker: String,
    pub schedule: String,
    pub namespace: String,
}

impl Things {
    fn run_id(&self) -> String {
        self.held.run_id.clone()
    }
}

/// An rpc.
pub struct Row {
    pub rpc: &'static str,
    pub opens: Opens,
    pub request: fn(&Things) -> Vec<u8>,
    /// True when it is about the caller's own namespace, or about none.
    pub own: bool,
}

/// The services that need no key: they say what there is, not what it holds.
pub const OPEN_SERVICES: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

macro_rules! rows {
    ($($rpc:literal $opens:ident $own:literal |$things:ident| $request:expr;)+) => {
        &[$(Row { rpc: $rpc, opens: $opens, request: |$things| $request.encode_to_vec(), own: $own },)+]
    };
}

/// Of the service, opened by, about the caller's own namespace, and the request.
pub const ROWS: &[Row] = rows! {
    "WorkflowService/StartWorkflow" Submit false |_t| order();
    "WorkflowService/GetWorkflowRun" Read false |t| v1::GetWorkflowRunRequest { run_id: t.run_id() };
    "WorkflowService/WaitWorkflowRun" Read false |t| v1::WaitWorkflowRunRequest { run_id: t.run_id(), wait: zero() };
    "WorkflowService/ListWorkflowRuns" Read false
        |_t| v1::ListWorkflowRunsRequest { namespace_id: "default".into(), ..Default::default() };
    "WorkflowService/ListWorkflowRuns" Read true |_t| v1::ListWorkflowRunsRequest::default();
    "WorkflowService/CancelWorkflowRun" Submit false
        |t| v1::CancelWorkflowRunRequest { run_id: t.run_id(), ..Default::default() };
    "WorkflowService/SignalWorkflowRun" Submit false
        |t| v1::SignalWorkflowRunRequest {
            run_id: t.run_id(), name: "paid".into(), payload: "1".into(), ..Default::default() };
    "WorkflowService/RetryWorkflowRun" Submit false
        |t| v1::RetryWorkflowRunRequest { run_id: t.run_id(), from_start: false };
    "WorkflowService/QueryWorkflowRun" Read false |t| v1::QueryWorkflowRunRequest { run_id: t.run_id() };
    "WorkflowService/GetStepAttempt" Read false
        |t| v1::GetStepAttemptRequest { run_id: t.run_id(), position: 0, attempt: 1 };
    "WorkflowService/ListStepAttempts" Read false
        |t| v1::ListStepAttemptsRequest { run_id: t.run_id(), ..Default::default() };
    "WorkflowService/ListSteps" Read false |t| v1::ListStepsRequest { run_id: t.run_id(), ..Default::default() };
    "WorkflowService/GetPayload" Read false |t| payload(t, "");
    "WorkflowService/GetPayload" Worker false |t| payload(t, &t.held.lease);
    "WorkflowService/RegisterWorker" Worker false |_t| worker();
    "WorkflowService/WorkerHeartbeat" Worker false
        |t| v1::WorkerHeartbeatRequest { worker_id: t.worker.clone(), leases: leases(t), ..Default::default() };
    "WorkflowService/DeregisterWorker" Worker false
        |t| v1::DeregisterWorkerRequest { worker_id: t.worker.clone(), drain: false };
    "WorkflowService/ListWorkers" Read false
        |_t| v1::ListWorkersRequest { namespace_id: "default".into(), ..Default::default() };
    "WorkflowService/ListWorkers" Read true |_t| v1::ListWorkersRequest::default();
    "WorkflowService/GetWorker" Read false |t| v1::GetWorkerRequest { worker_id: t.worker.clone() };
    "WorkflowService/PollActivity" Worker false |t| poll(&t.worker, std::time::Duration::ZERO);
    "WorkflowService/BeginStep" Worker false |t| v1::BeginStepRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), position: 1, name: "ship".into() };
    "WorkflowService/CompleteStep" Worker false |t| step(&t.held, 1, "ship", "1");
    "WorkflowService/FailStep" Worker false |t| failed_step(&t.held, 1, 1);
    "WorkflowService/ScheduleSleep" Worker false |t| v1::ScheduleSleepRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), position: 1, name: "pause".into(), duration: an_hour(),
        ..Default::default() };
    "WorkflowService/Suspend" Worker false |t| sleep(&t.held, 1, std::time::Duration::from_secs(3_600));
    "WorkflowService/AwaitMessages" Worker false |t| v1::AwaitMessagesRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), seen: 0, wait: zero() };
    "WorkflowService/StartChild" Worker false |t| v1::StartChildRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), position: 1, name: "child".into(),
        start: Some(v1::StartWorkflowRequest { workflow_type: "child".into(), ..Default::default() }) };
    "WorkflowService/Publish" Worker false |t| v1::PublishRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), value: "2".into() };
    "WorkflowService/CompleteWorkflow" Worker false |t| completion(&t.held, "1");
    "WorkflowService/FailWorkflow" Worker false |t| v1::FailWorkflowRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), error: "it broke".into(), ..Default::default() };
    "WorkflowService/CancelledWorkflow" Worker false |t| v1::CancelledWorkflowRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), message: "stopped".into() };
    "WorkflowService/ContinueAsNew" Worker false |t| v1::ContinueAsNewRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), input: "1".into() };
    "WorkflowService/GiveBackWorkflow" Worker false |t| v1::GiveBackWorkflowRequest {
        run_id: t.run_id(), lease: t.held.lease.clone(), reason: "no room".into() };
    "WorkflowService/Work" Worker false
        |_t| v1::WorkRequest { hello: Some(hello()), drain: true, ..Default::default() };
    "WorkflowService/HealthCheck" Key true |_t| v1::HealthCheckRequest {};
    "ScheduleService/CreateSchedule" Submit false |_t| v1::CreateScheduleRequest {
        schedule_id: "new".into(), spec: Some(daily()), ..Default::default() };
    "ScheduleService/GetSchedule" Read false |t| v1::GetScheduleRequest {
        schedule_id: t.schedule.clone(), ..Default::default() };
    "ScheduleService/ListSchedules" Read false
        |_t| v1::ListSchedulesRequest { namespace_id: "default".into(), ..Default::default() };
    "ScheduleService/ListSchedules" Read true |_t| v1::ListSchedulesRequest::default();
    "ScheduleService/UpdateSchedule" Submit false |t| v1::UpdateScheduleRequest {
        schedule_id: t.schedule.clone(), note: Some("changed".into()), ..Default::default() };
    "ScheduleService/PauseSchedule" Submit false |t| v1::PauseScheduleRequest {
        schedule_id: t.schedule.clone(), ..Default::default() };
    "ScheduleService/ResumeSchedule" Submit false |t| v1::ResumeScheduleRequest {
        schedule_id: t.schedule.clone(), ..Default::default() };
    "ScheduleService/TriggerSchedule" Submit false |t| v1::TriggerScheduleRequest {
        schedule_id: t.schedule.clone(), ..Default::default() };
    "ScheduleService/BackfillSchedule" Submit false |t| v1::BackfillScheduleRequest {
        schedule_id: t.schedule.clone(), from: at(1_698_800_000), to: at(1_698_900_000), ..Default::default() };
    "ScheduleService/ListScheduleRuns" Read false |t| v1::ListScheduleRunsRequest {
        schedule_id: t.schedule.clone(), ..Default::default() };
    "ScheduleService/DeleteSchedule" Submit false |t| v1::DeleteScheduleRequest {
        schedule_id: t.schedule.clone(), ..Default::default() };
    "NamespaceService/CreateNamespace" Everything false |_t| v1::CreateNamespaceRequest {
        namespace: Some(v1::Namespace { namespace_id: "new".into(), ..Default::default() }) };
    "NamespaceService/GetNamespace" Read false |t| v1::GetNamespaceRequest { namespace_id: t.namespace.clone() };
    "NamespaceService/ListNamespaces" Read true |_t| v1::ListNamespacesRequest::default();
    "NamespaceService/UpdateNamespace" Everything false |t| v1::UpdateNamespaceRequest {
        namespace_id: t.namespace.clone(), description: Some("changed".into()), ..Default::default() };
    "NamespaceService/DisableNamespace" Everything false |t| v1::DisableNamespaceRequest {
        namespace_id: t.namespace.clone(), ..Default::default() };
    "NamespaceService/EnableNamespace" Everything false |t| v1::EnableNamespaceRequest {
        namespace_id: t.namespace.clone() };
};

fn zero() -> Option<prost_types::Duration> {
    Some(prost_types::Duration::default())
}

fn an_hour() -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: 3_600, nanos: 0 })
}

fn at(seconds: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds, nanos: 0 })
}

fn payload(things: &Things, lease: &str) -> v1::GetPayloadRequest {
    let which = Some(v1::get_payload_request::Which::Position(0));
    v1::GetPayloadRequest { run_id: things.run_id(), lease: lease.into(), which }
}

fn leases(things: &Things) -> Vec<v1::RunLease> {
    vec![v1::RunLease { run_id: things.run_id(), lease: things.held.lease.clone() }]
}

/// A rule that starts what nobody works on.
pub fn daily() -> v1::ScheduleSpec {
    let start =
        v1::StartWorkflowRequest { task_queue: "reports".into(), workflow_type: "report".into(), ..Default::default() };
    v1::ScheduleSpec { cron: "@daily".into(), start: Some(start), ..Default::default() }
}
