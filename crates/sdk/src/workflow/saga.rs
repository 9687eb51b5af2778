//! Undoing what was done, when a workflow fails or is cancelled.

use std::fmt;
use std::time::Duration;

use super::step::BoxFuture;
use super::{Context, RetryPolicy, StepError, WorkflowError};

/// How a completed step is undone.
pub(crate) struct Compensation {
    pub(crate) name: String,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) run: Box<dyn Fn() -> BoxFuture<'static, Result<(), StepError>> + Send + Sync>,
}

impl fmt::Debug for Compensation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compensation").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Undoes everything, the last first. What cannot be undone keeps nothing else from being undone. Returns what went wrong.
pub(crate) async fn undo(context: Context, compensations: Vec<Compensation>) -> Vec<WorkflowError> {
    let mut failed = Vec::new();
    for compensation in compensations.into_iter().rev() {
        let mut step = context.step(compensation.name.clone(), &compensation.run);
        if let Some(policy) = compensation.retry.clone() {
            step = step.retry(policy);
        }
        if let Some(timeout) = compensation.timeout {
            step = step.timeout(timeout);
        }
        if let Err(error) = step.await {
            failed.push(error);
        }
    }
    failed
}
