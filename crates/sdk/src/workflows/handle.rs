//! One workflow that was started.

use std::time::Duration;

use baton_core::State;
use baton_proto::v1;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::{StepAttempt, StepView, WorkflowRun};
use crate::workflow::time::duration;
use crate::{Client, ClientError};

/// How long one call waits for the end of a run.
const WAIT: Duration = Duration::from_secs(30);
/// Pause after a call that got no answer.
const PAUSE: Duration = Duration::from_millis(500);
/// Steps of one page.
const STEPS_PAGE: u32 = 1_000;

impl Client {
    /// A workflow that was started before.
    pub fn workflow(&self, run_id: impl Into<String>) -> WorkflowHandle {
        WorkflowHandle { client: self.clone(), run_id: run_id.into(), existed: true }
    }
}

/// A workflow that was started, to wait for and talk to.
#[derive(Clone, Debug)]
pub struct WorkflowHandle {
    pub(super) client: Client,
    pub(super) run_id: String,
    pub(super) existed: bool,
}

/// Why a workflow has no result.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ResultError {
    /// It failed.
    #[error("the workflow failed ({reason}): {message}")]
    Failed {
        /// Why: `error`, `timeout`, `poison` and so on.
        reason: String,
        /// What it said.
        message: String,
    },
    /// It was cancelled.
    #[error("the workflow was cancelled: {message}")]
    Cancelled {
        /// What it said.
        message: String,
    },
    /// What it returned is not of the type that was asked for.
    #[error("what the workflow returned cannot be read: {0}")]
    Decode(String),
    /// The server could not be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl ResultError {
    /// A stable word for programs.
    pub fn code(&self) -> &str {
        match self {
            ResultError::Failed { .. } => "failed",
            ResultError::Cancelled { .. } => "cancelled",
            ResultError::Decode(_) => "decode",
            ResultError::Client(error) => error.code().unwrap_or("unreachable"),
        }
    }
}

impl WorkflowHandle {
    /// The run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// True when there was a run with this idempotency key before.
    pub fn existed(&self) -> bool {
        self.existed
    }

    /// Waits for the end of the workflow and returns what it returned. Outlives the server, and follows a workflow that continues as new.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, ResultError> {
        let run = self.wait().await?;
        match run.state {
            State::Completed => read(&run.output).map_err(ResultError::Decode),
            State::Cancelled => Err(ResultError::Cancelled { message: run.error }),
            State::Failed | State::Pending | State::Assigned | State::Running | State::Sleeping => {
                Err(ResultError::Failed { reason: run.reason, message: run.error })
            }
        }
    }

    /// Waits for the end of the workflow. Outlives the server, and follows a workflow that continues as new.
    pub async fn wait(&self) -> Result<WorkflowRun, ClientError> {
        loop {
            match self.wait_for(WAIT).await {
                Ok(run) if run.state.is_ended() => return Ok(run),
                Ok(_) => {}
                Err(error) if error.is_transient() => {
                    let pause = match &error {
                        ClientError::Refused { retry_after: Some(wait), .. } => *wait,
                        _ => PAUSE,
                    };
                    sleep(pause).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The run as soon as it has ended, or as it is when `wait` (at most 60 seconds) is over.
    pub async fn wait_for(&self, wait: Duration) -> Result<WorkflowRun, ClientError> {
        let begun = Instant::now();
        let request = v1::WaitWorkflowRunRequest { run_id: self.run_id.clone(), wait: Some(duration(wait)) };
        let mut workflows = self.client.workflows_service()?;
        let run = WorkflowRun::from(self.client.answer(wait, workflows.wait_workflow_run(request)).await?);
        if !run.state.is_ended() && begun.elapsed() < wait / 2 {
            // The server waits less than it was asked to; do not make up for it by asking all the time.
            sleep(PAUSE.min(wait)).await;
        }
        Ok(run)
    }

    /// The run as it is.
    pub async fn get(&self) -> Result<WorkflowRun, ClientError> {
        let request = v1::GetWorkflowRunRequest { run_id: self.run_id.clone() };
        let mut workflows = self.client.workflows_service()?;
        self.client.answer(Duration::ZERO, workflows.get_workflow_run(request)).await.map(WorkflowRun::from)
    }

    /// Wants the workflow cancelled: it is told, and may clean up for as long as the server's setting says.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.cancel_with(None).await
    }

    /// Wants the workflow cancelled: it is told, and may clean up for this long. Zero ends it at once.
    pub async fn cancel_within(&self, grace: Duration) -> Result<(), ClientError> {
        self.cancel_with(Some(grace)).await
    }

    async fn cancel_with(&self, grace: Option<Duration>) -> Result<(), ClientError> {
        let request = v1::CancelWorkflowRunRequest { run_id: self.run_id.clone(), grace: grace.map(duration) };
        let mut workflows = self.client.workflows_service()?;
        self.client.answer(Duration::ZERO, workflows.cancel_workflow_run(request)).await.map(drop)
    }

    /// Sends the workflow a signal.
    pub async fn signal(&self, name: impl Into<String>, payload: &impl Serialize) -> Result<(), ClientError> {
        self.signal_with(name.into(), payload, None).await
    }

    /// Sends the workflow a signal. The same key again is the same signal: the call may be repeated without harm.
    pub async fn signal_once(
        &self,
        name: impl Into<String>,
        payload: &impl Serialize,
        idempotency_key: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.signal_with(name.into(), payload, Some(idempotency_key.into())).await
    }

    async fn signal_with(
        &self,
        name: String,
        payload: &impl Serialize,
        idempotency_key: Option<String>,
    ) -> Result<(), ClientError> {
        let payload = serde_json::to_vec(payload)
            .map_err(|error| ClientError::Invalid(format!("the signal cannot be written as JSON: {error}")))?;
        let request = v1::SignalWorkflowRunRequest {
            run_id: self.run_id.clone(),
            name,
            payload: payload.into(),
            idempotency_key,
        };
        let mut workflows = self.client.workflows_service()?;
        self.client.answer(Duration::ZERO, workflows.signal_workflow_run(request)).await.map(drop)
    }

    /// What the workflow last [published](crate::Context::publish), if it has.
    pub async fn query<T: DeserializeOwned>(&self) -> Result<Option<T>, ClientError> {
        let request = v1::QueryWorkflowRunRequest { run_id: self.run_id.clone() };
        let mut workflows = self.client.workflows_service()?;
        let published = self.client.answer(Duration::ZERO, workflows.query_workflow_run(request)).await?;
        if published.value.is_empty() {
            return Ok(None);
        }
        read(&published.value).map(Some).map_err(ClientError::Decode)
    }

    /// Everything that is remembered of the workflow, in order.
    pub async fn steps(&self) -> Result<Vec<StepView>, ClientError> {
        let mut workflows = self.client.workflows_service()?;
        let (mut steps, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = v1::ListStepsRequest { run_id: self.run_id.clone(), page_size: STEPS_PAGE, page_token };
            let page = self.client.answer(Duration::ZERO, workflows.list_steps(request)).await?;
            steps.extend(page.steps.into_iter().map(StepView::from));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(steps);
            }
        }
    }

    /// What came out of the step at this position, as JSON, however large it is.
    pub async fn step_output(&self, position: u32) -> Result<Bytes, ClientError> {
        let which = Some(v1::get_payload_request::Which::Position(position));
        let request = v1::GetPayloadRequest { run_id: self.run_id.clone(), lease: String::new(), which };
        let mut workflows = self.client.workflows_service()?;
        Ok(self.client.answer(Duration::ZERO, workflows.get_payload(request)).await?.payload)
    }

    /// Every attempt of every step, in the order of the steps.
    pub async fn step_attempts(&self) -> Result<Vec<StepAttempt>, ClientError> {
        let mut workflows = self.client.workflows_service()?;
        let (mut attempts, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = v1::ListStepAttemptsRequest {
                run_id: self.run_id.clone(),
                position: None,
                page_size: STEPS_PAGE,
                page_token,
            };
            let page = self.client.answer(Duration::ZERO, workflows.list_step_attempts(request)).await?;
            attempts.extend(page.attempts.into_iter().map(StepAttempt::from));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(attempts);
            }
        }
    }

    /// Starts a workflow that has ended once more, as a new run. It goes on after the steps that were completed, or, with `from_start`, remembers nothing. A
    /// workflow whose steps were undone has to begin from the start.
    pub async fn retry(&self, from_start: bool) -> Result<WorkflowHandle, ClientError> {
        let request = v1::RetryWorkflowRunRequest { run_id: self.run_id.clone(), from_start };
        let mut workflows = self.client.workflows_service()?;
        let started = self.client.answer(Duration::ZERO, workflows.retry_workflow_run(request)).await?;
        Ok(WorkflowHandle { client: self.client.clone(), run_id: started.run_id, existed: started.existed })
    }
}

/// Reads a payload. Nothing is the same as `null`.
fn read<T: DeserializeOwned>(payload: &Bytes) -> Result<T, String> {
    let text: &[u8] = if payload.is_empty() { b"null" } else { payload };
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(text)).map_err(|error| error.to_string())
}
