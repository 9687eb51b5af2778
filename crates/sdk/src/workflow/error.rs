//! Why a workflow, or something it waited for, did not work out.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// Why a workflow, or something it waited for, did not work out.
///
/// A workflow function returns it, and everything a [`crate::Context`] hands out can end with it. [`WorkflowError::failed`] makes one of the workflow's own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowError {
    /// A step has failed for good: its attempts are used up, or its error is not to be retried.
    #[error("the step {name:?} failed: {message}")]
    Step {
        /// The step's name.
        name: String,
        /// A short word for the kind of error; empty when there is none.
        code: String,
        /// What the last attempt said.
        message: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// A child did not complete.
    #[error("the child {workflow_type:?} ({run_id}) {}: {message}", if *cancelled { "was cancelled" } else { "failed" })]
    Child {
        /// The child's type.
        workflow_type: String,
        /// The child's run; empty when it could not be started.
        run_id: String,
        /// True when it was cancelled, false when it failed.
        cancelled: bool,
        /// What it said.
        message: String,
    },
    /// Somebody wants the run cancelled. The workflow is told once; afterwards everything works again, so that it can clean up.
    #[error("the workflow was cancelled")]
    Cancelled,
    /// Something remembered or sent is not of the type that the workflow expects.
    #[error("{what} cannot be read: {message}")]
    Decode {
        /// What was to be read.
        what: String,
        /// Which field, and what is wrong with it.
        message: String,
    },
    /// The workflow's own error.
    #[error("{message}")]
    Failed {
        /// What happened, for people.
        message: String,
        /// A short word for programs and retry policies; empty when there is none.
        code: String,
        /// False: the run is not tried again, whatever its policy says.
        retryable: bool,
        /// The run is not tried again before this long from now.
        retry_after: Option<Duration>,
    },
    /// The run ends here and another one goes on in its place. [`crate::Context::continue_as_new`] makes it; the function returns it.
    #[error("the workflow continues as a new run")]
    ContinueAsNew(Continuation),
}

/// What the run that goes on begins with.
#[derive(Clone, PartialEq, Eq)]
pub struct Continuation(pub(crate) Bytes);

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Continuation({} bytes)", self.0.len())
    }
}

impl WorkflowError {
    /// An error of the workflow's own. The run is tried again if its policy says so.
    pub fn failed(message: impl fmt::Display) -> WorkflowError {
        WorkflowError::Failed { message: message.to_string(), code: String::new(), retryable: true, retry_after: None }
    }

    /// An error that ends the run, whatever its policy says.
    pub fn fatal(message: impl fmt::Display) -> WorkflowError {
        WorkflowError::Failed { message: message.to_string(), code: String::new(), retryable: false, retry_after: None }
    }

    /// The same error as one of the workflow's own, with this short word for its kind. A retry policy may list it as not to be retried.
    pub fn with_code(self, word: impl Into<String>) -> WorkflowError {
        let (retryable, retry_after) = (self.is_retryable(), self.retry_after());
        WorkflowError::Failed { message: self.to_string(), code: word.into(), retryable, retry_after }
    }

    /// The same error as one of the workflow's own; the run is not tried again before this long from now.
    pub fn with_retry_after(self, wait: Duration) -> WorkflowError {
        let (code, retryable) = (self.code().to_owned(), self.is_retryable());
        WorkflowError::Failed { message: self.to_string(), code, retryable, retry_after: Some(wait) }
    }

    /// A short word for the kind of error; empty when there is none.
    pub fn code(&self) -> &str {
        match self {
            WorkflowError::Step { code, .. } | WorkflowError::Failed { code, .. } => code,
            WorkflowError::Child { cancelled: true, .. } => "child_cancelled",
            WorkflowError::Child { cancelled: false, .. } => "child_failed",
            WorkflowError::Cancelled => "cancelled",
            WorkflowError::Decode { .. } => "decode",
            WorkflowError::ContinueAsNew(_) => "continue_as_new",
        }
    }

    /// Whether trying the run again could help.
    pub fn is_retryable(&self) -> bool {
        match self {
            WorkflowError::Step { .. } | WorkflowError::Child { .. } => true,
            WorkflowError::Failed { retryable, .. } => *retryable,
            WorkflowError::Cancelled | WorkflowError::Decode { .. } | WorkflowError::ContinueAsNew(_) => false,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            WorkflowError::Failed { retry_after, .. } => *retry_after,
            WorkflowError::Step { .. }
            | WorkflowError::Child { .. }
            | WorkflowError::Cancelled
            | WorkflowError::Decode { .. }
            | WorkflowError::ContinueAsNew(_) => None,
        }
    }
}

impl From<String> for WorkflowError {
    fn from(message: String) -> WorkflowError {
        WorkflowError::failed(message)
    }
}

impl From<&str> for WorkflowError {
    fn from(message: &str) -> WorkflowError {
        WorkflowError::failed(message)
    }
}

impl From<StepError> for WorkflowError {
    fn from(error: StepError) -> WorkflowError {
        let StepError { message, code, retryable, retry_after } = error;
        WorkflowError::Failed { message, code, retryable, retry_after }
    }
}

/// What a step says when an attempt failed. Every error and every text becomes one with `?`: then the step is tried again, as its policy says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepError {
    pub(crate) message: String,
    pub(crate) code: String,
    pub(crate) retryable: bool,
    pub(crate) retry_after: Option<Duration>,
}

impl StepError {
    /// An error that may be tried again, as the step's policy says.
    pub fn new(message: impl fmt::Display) -> StepError {
        StepError { message: message.to_string(), code: String::new(), retryable: true, retry_after: None }
    }

    /// An error that trying again cannot mend.
    pub fn fatal(message: impl fmt::Display) -> StepError {
        StepError { retryable: false, ..StepError::new(message) }
    }

    /// Adds a short word for the kind of error; a retry policy may list it as not to be retried.
    pub fn code(mut self, code: impl Into<String>) -> StepError {
        self.code = code.into();
        self
    }

    /// Do not try again before this long from now.
    pub fn retry_after(mut self, wait: Duration) -> StepError {
        self.retry_after = Some(wait);
        self
    }

    /// What happened, for people.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for StepError {
    fn from(error: E) -> StepError {
        let error = error.into();
        let mut message = error.to_string();
        // The outermost error alone often says only that something went wrong.
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        StepError::new(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails() -> Result<(), StepError> {
        "x".parse::<u32>()?;
        Ok(())
    }

    #[test]
    fn any_error_becomes_one_of_a_step() {
        assert_eq!(fails().unwrap_err().message(), "invalid digit found in string");
        assert_eq!(StepError::from("no luck"), StepError::new("no luck"));
        assert!(!StepError::fatal("no").code("declined").retryable);
    }

    #[test]
    fn an_error_keeps_what_it_is_when_it_gets_a_code() {
        let error = WorkflowError::fatal("no stock").with_code("no_stock");
        assert_eq!((error.code(), error.is_retryable()), ("no_stock", false));
        assert_eq!(error.to_string(), "no stock");
        let step =
            WorkflowError::Step { name: "charge".into(), code: "declined".into(), message: "no".into(), attempts: 3 };
        assert!(step.is_retryable());
        assert_eq!(step.clone().with_retry_after(Duration::from_secs(1)).code(), "declined");
    }
}
