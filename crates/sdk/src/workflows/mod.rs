//! Calls about workflows: start them, wait for them, talk to them.

mod handle;
mod list;
mod start;
mod view;

pub use handle::{ResultError, WorkflowHandle};
pub use list::{ListWorkflows, WorkflowPage};
pub use start::StartWorkflow;
pub use view::{StepAttempt, StepKind, StepState, StepView, WorkflowRun};
