//! Listing workflows.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use baton_core::State;
use baton_proto::v1;

use super::WorkflowRun;
use crate::{Client, ClientError};

impl Client {
    /// A page of workflows of the client's namespace, newest first, as soon as it is awaited.
    pub fn list_workflows(&self) -> ListWorkflows {
        let request =
            v1::ListWorkflowRunsRequest { namespace_id: self.workflow_namespace().to_owned(), ..Default::default() };
        ListWorkflows { client: self.clone(), request }
    }
}

/// Which workflows to list, made by [`Client::list_workflows`].
#[must_use = "nothing is listed unless this is awaited"]
#[derive(Clone, Debug)]
pub struct ListWorkflows {
    client: Client,
    request: v1::ListWorkflowRunsRequest,
}

/// A page of workflows.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct WorkflowPage {
    /// Without input and output.
    pub runs: Vec<WorkflowRun>,
    /// How many there are on all pages.
    pub total: u64,
    /// For [`ListWorkflows::after`]; none on the last page.
    pub next: Option<String>,
}

impl ListWorkflows {
    /// Of this namespace instead of the client's; of all that the key may see when it is empty.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.request.namespace_id = namespace.into();
        self
    }

    /// On this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.request.task_queue = queue.into();
        self
    }

    /// Of this type.
    pub fn workflow_type(mut self, workflow_type: impl Into<String>) -> Self {
        self.request.workflow_type = workflow_type.into();
        self
    }

    /// In this state.
    pub fn state(mut self, state: State) -> Self {
        let state = match state {
            State::Pending => v1::RunState::Pending,
            State::Assigned => v1::RunState::Assigned,
            State::Running => v1::RunState::Running,
            State::Sleeping => v1::RunState::Sleeping,
            State::Completed => v1::RunState::Completed,
            State::Failed => v1::RunState::Failed,
            State::Cancelled => v1::RunState::Cancelled,
        };
        self.request.set_state(state);
        self
    }

    /// At most so many, 1 to 1,000; 100 unless given.
    pub fn limit(mut self, limit: u32) -> Self {
        self.request.page_size = limit;
        self
    }

    /// After the page that ended with this.
    pub fn after(mut self, next: impl Into<String>) -> Self {
        self.request.page_token = next.into();
        self
    }

    async fn send(self) -> Result<WorkflowPage, ClientError> {
        let mut workflows = self.client.workflows_service()?;
        let page = self.client.answer(Duration::ZERO, workflows.list_workflow_runs(self.request)).await?;
        Ok(WorkflowPage {
            runs: page.runs.into_iter().map(WorkflowRun::from).collect(),
            total: page.total_count,
            next: Some(page.next_page_token).filter(|next| !next.is_empty()),
        })
    }
}

impl IntoFuture for ListWorkflows {
    type Output = Result<WorkflowPage, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
