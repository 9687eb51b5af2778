//! What a handler says when an attempt failed.

use std::time::Duration;

use baton_proto::FailRun;

/// What a handler says when an attempt failed. A string is one, too: an error that may be tried again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    message: String,
    code: Option<String>,
    retryable: bool,
    rejected: bool,
    retry_after: Option<Duration>,
    pause: Option<Duration>,
}

impl Failure {
    /// An error that may be tried again, as the run's policy says.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            code: None,
            retryable: true,
            rejected: false,
            retry_after: None,
            pause: None,
        }
    }

    /// The input is wrong; nobody should try.
    pub fn rejected(message: impl Into<String>) -> Failure {
        Failure { rejected: true, ..Failure::new(message) }
    }

    /// This worker cannot do it, and others may: the run is given back, which counts as no attempt, and this worker takes no new work for
    /// this long. Its heartbeats say why.
    pub fn give_back(message: impl Into<String>, pause: Duration) -> Failure {
        Failure { pause: Some(pause), ..Failure::new(message) }
    }

    /// Its kind, for traces.
    pub(crate) fn kind(&self) -> &str {
        self.code.as_deref().unwrap_or("error")
    }

    /// Adds a short word for the kind of error; a retry policy may list it as not retryable.
    pub fn code(mut self, code: impl Into<String>) -> Failure {
        self.code = Some(code.into());
        self
    }

    /// Do not try again, whatever the policy says.
    pub fn not_retryable(mut self) -> Failure {
        self.retryable = false;
        self
    }

    /// What happened, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Do not try again before this long from now.
    pub fn retry_after(mut self, wait: Duration) -> Failure {
        self.retry_after = Some(wait);
        self
    }

    /// How long this worker takes no new work, when the run is to be given back.
    pub fn pause(&self) -> Option<Duration> {
        self.pause
    }

    pub(super) fn into_report(self, lease: String) -> FailRun {
        FailRun {
            run_id: None,
            lease,
            error: self.message,
            code: self.code,
            retryable: self.retryable,
            rejected: self.rejected,
            retry_after_ms: self.retry_after.map(|wait| wait.as_millis().try_into().unwrap_or(u64::MAX)),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::new(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::new(message)
    }
}
