//! Starting workflows.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use baton_proto::v1;
use bytes::Bytes;
use serde::Serialize;

use super::WorkflowHandle;
use crate::workflow::RetryPolicy;
use crate::workflow::time::{duration, millis_of, timestamp};
use crate::{Client, ClientError};

impl Client {
    /// Starts a workflow of this type with this input, as soon as it is awaited:
    ///
    /// ```no_run
    /// # async fn example(client: baton::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let handle = client.start("process_order", &17).queue("orders").idempotency_key("order-17").await?;
    /// let receipt: String = handle.result().await?;
    /// # Ok(()) }
    /// ```
    pub fn start(&self, workflow_type: impl Into<String>, input: &impl Serialize) -> StartWorkflow {
        let input = serde_json::to_vec(input).map(Bytes::from);
        let invalid = |error| ClientError::Invalid(format!("the input cannot be written as JSON: {error}"));
        let request = v1::StartWorkflowRequest {
            namespace_id: self.workflow_namespace().to_owned(),
            workflow_type: workflow_type.into(),
            ..Default::default()
        };
        StartWorkflow { client: self.clone(), request, input: input.map_err(invalid) }
    }
}

/// A workflow that is to be started, made by [`Client::start`]; awaiting it starts it.
#[must_use = "a workflow is not started unless this is awaited"]
#[derive(Clone, Debug)]
pub struct StartWorkflow {
    client: Client,
    request: v1::StartWorkflowRequest,
    input: Result<Bytes, ClientError>,
}

impl StartWorkflow {
    /// The same key again is the same workflow: the call may be repeated without harm.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.request.idempotency_key = Some(key.into());
        self
    }

    /// On this queue; on `default` unless given.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.request.task_queue = queue.into();
        self
    }

    /// In this namespace; in the client's unless given.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.request.namespace_id = namespace.into();
        self
    }

    /// This long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.request.start_after = Some(duration(delay));
        self
    }

    /// At this moment.
    pub fn at(mut self, moment: impl Into<SystemTime>) -> Self {
        self.request.start_at = Some(timestamp(millis_of(moment.into())));
        self
    }

    /// 0 to 9, 9 first; 5 unless given.
    pub fn priority(mut self, priority: u8) -> Self {
        self.request.priority = Some(priority.into());
        self
    }

    /// Tries the workflow again as this policy says when it fails; once unless given.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.request.retry = Some(policy.to_wire());
        self
    }

    /// It fails when it takes longer than this, sleeps included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout = Some(duration(timeout));
        self
    }

    /// A key for limits and fair turns.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.request.key = Some(key.into());
        self
    }

    /// Part of this trace (W3C Trace Context); of the [client's](Client::with_trace) unless given. A wrong one is ignored.
    pub fn traceparent(mut self, traceparent: impl Into<String>, tracestate: Option<&str>) -> Self {
        self.request.traceparent = traceparent.into();
        self.request.tracestate = tracestate.unwrap_or_default().to_owned();
        self
    }

    /// Only workers of this version may take it.
    pub fn pin_version(mut self, version: impl Into<String>) -> Self {
        self.request.pin_version = Some(version.into());
        self
    }

    async fn send(self) -> Result<WorkflowHandle, ClientError> {
        let request = v1::StartWorkflowRequest { input: self.input?, ..self.request };
        let mut workflows = self.client.workflows_service()?;
        let started = self.client.answer(Duration::ZERO, workflows.start_workflow(request)).await?;
        Ok(WorkflowHandle { client: self.client, run_id: started.run_id, existed: started.existed })
    }
}

impl IntoFuture for StartWorkflow {
    type Output = Result<WorkflowHandle, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
