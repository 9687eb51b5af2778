//! `WorkflowService`: one method for each rpc. What belongs to one of them is next to the others of its kind, in `runs`, `steps`, `workers` and `work`.

use baton_proto::v1;
use baton_proto::v1::workflow_service_server::WorkflowService;
use baton_store::Scope;
use tonic::{Request, Response, Status, Streaming};

use super::layer::{Authenticated, Deadline};
use super::work::Outgoing;
use super::{runs, steps, work, workers};
use crate::App;

/// The service.
#[derive(Clone, Debug)]
pub struct Workflows {
    app: App,
}

impl Workflows {
    /// On this server.
    pub(super) fn new(app: App) -> Workflows {
        Workflows { app }
    }
}

/// The caller that the layer before has let in, and what it said.
pub(super) fn opened<T>(request: Request<T>) -> Result<(Authenticated, T), Status> {
    let (_, mut extensions, message) = request.into_parts();
    // Only a route without the layer lacks it, and there is none.
    let caller = extensions.remove::<Authenticated>().ok_or_else(|| Status::unauthenticated("no API key"))?;
    Ok((caller, message))
}

/// Methods that take a message, ask `$module::$method`, and answer.
macro_rules! methods {
    ($($module:ident { $($method:ident($request:ident) -> $response:ident;)+ })+) => {
        #[tonic::async_trait]
        impl WorkflowService for Workflows {
            $($(
                async fn $method(&self, request: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                    let (who, request) = opened(request)?;
                    $module::$method(&self.app, &who.caller, request).await.map(Response::new)
                }
            )+)+

            type WorkStream = Outgoing;

            async fn work(&self, request: Request<Streaming<v1::WorkRequest>>) -> Result<Response<Outgoing>, Status> {
                let deadline = request.extensions().get::<Deadline>().and_then(|deadline| deadline.0);
                let (who, requests) = opened(request)?;
                // Before the stream begins, so that the refusal is the answer, and is counted and written down
                // as one.
                who.caller.has(Scope::Worker)?;
                Ok(Response::new(work::open(self.app.clone(), who, requests, deadline)))
            }
        }
    };
}

methods! {
    runs {
        start_workflow(StartWorkflowRequest) -> StartWorkflowResponse;
        get_workflow_run(GetWorkflowRunRequest) -> WorkflowRun;
        wait_workflow_run(WaitWorkflowRunRequest) -> WorkflowRun;
        list_workflow_runs(ListWorkflowRunsRequest) -> ListWorkflowRunsResponse;
        cancel_workflow_run(CancelWorkflowRunRequest) -> CancelWorkflowRunResponse;
        signal_workflow_run(SignalWorkflowRunRequest) -> SignalWorkflowRunResponse;
        retry_workflow_run(RetryWorkflowRunRequest) -> StartWorkflowResponse;
        query_workflow_run(QueryWorkflowRunRequest) -> QueryWorkflowRunResponse;
        get_step_attempt(GetStepAttemptRequest) -> StepAttempt;
        list_step_attempts(ListStepAttemptsRequest) -> ListStepAttemptsResponse;
        list_steps(ListStepsRequest) -> ListStepsResponse;
        get_payload(GetPayloadRequest) -> GetPayloadResponse;
        health_check(HealthCheckRequest) -> HealthCheckResponse;
    }
    workers {
        register_worker(RegisterWorkerRequest) -> RegisterWorkerResponse;
        worker_heartbeat(WorkerHeartbeatRequest) -> WorkerHeartbeatResponse;
        deregister_worker(DeregisterWorkerRequest) -> DeregisterWorkerResponse;
        list_workers(ListWorkersRequest) -> ListWorkersResponse;
        get_worker(GetWorkerRequest) -> Worker;
        poll_activity(PollActivityRequest) -> PollActivityResponse;
    }
    steps {
        begin_step(BeginStepRequest) -> BeginStepResponse;
        complete_step(CompleteStepRequest) -> CompleteStepResponse;
        fail_step(FailStepRequest) -> FailStepResponse;
        schedule_sleep(ScheduleSleepRequest) -> SuspendResponse;
        suspend(SuspendRequest) -> SuspendResponse;
        await_messages(AwaitMessagesRequest) -> AwaitMessagesResponse;
        start_child(StartChildRequest) -> StartChildResponse;
        publish(PublishRequest) -> PublishResponse;
        complete_workflow(CompleteWorkflowRequest) -> CompleteWorkflowResponse;
        fail_workflow(FailWorkflowRequest) -> FailWorkflowResponse;
        cancelled_workflow(CancelledWorkflowRequest) -> CancelledWorkflowResponse;
        continue_as_new(ContinueAsNewRequest) -> StartWorkflowResponse;
        give_back_workflow(GiveBackWorkflowRequest) -> GiveBackWorkflowResponse;
    }
}
