//! Neutral errors become gRPC's statuses here, and nowhere else. Each carries google.rpc.Status details: an ErrorInfo with our code in
//! capitals, the field of a bad request, and when to try again.

use std::collections::HashMap;
use std::time::Duration;

use baton_proto::v1;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::Error;
use crate::answers::Answer;

/// Who speaks in the details of an error.
pub const DOMAIN: &str = "baton";

fn code(error: &Error) -> Code {
    match error {
        Error::Malformed(_) | Error::Invalid(_) | Error::InvalidField { .. } => Code::InvalidArgument,
        Error::NoCredential
        | Error::NoCertifiedKey
        | Error::BadCredential(_)
        | Error::TokenExpired(_)
        | Error::NotShown(_) => Code::Unauthenticated,
        Error::Forbidden(_) => Code::PermissionDenied,
        Error::NotFound { .. } => Code::NotFound,
        Error::KeyReused => Code::AlreadyExists,
        Error::LeaseLost => Code::Aborted,
        Error::Ended(_)
        | Error::Cancelling
        | Error::Conflict(_)
        | Error::UploadIncomplete(_)
        | Error::Diverged { .. }
        | Error::SignalTaken { .. }
        | Error::LastAdminKey
        | Error::NamespaceDisabled(_)
        | Error::WorkerOffline
        | Error::WorkerDraining
        | Error::WorkerUnfit(_) => Code::FailedPrecondition,
        Error::WorkerFull
        | Error::TooManySteps { .. }
        | Error::JournalFull { .. }
        | Error::InboxFull { .. }
        | Error::NamespaceLimit { .. }
        | Error::QueueFull { .. }
        | Error::ClaimsFull { .. }
        | Error::TooMany { .. }
        | Error::TooLarge { .. }
        | Error::QuotaReached { .. }
        | Error::Overloaded
        | Error::DiskFull => Code::ResourceExhausted,
        Error::TooSlow => Code::DeadlineExceeded,
        Error::Unavailable | Error::StorageUnavailable | Error::NotYet(_) | Error::Stopping | Error::Github(_) => {
            Code::Unavailable
        }
        Error::PayloadLost => Code::DataLoss,
        Error::Internal => Code::Internal,
    }
}

/// What else is said of an error.
fn metadata() -> HashMap<String, String> {
    Answer::current_trace_id().map(|id| ("trace_id".to_owned(), id)).into_iter().collect()
}

/// The word of a code in the details of an error.
fn reason(error: &Error) -> String {
    error.code().to_ascii_uppercase()
}

/// The status of an error.
pub fn status(error: &Error) -> Status {
    status_as(code(error), error)
}

/// The status of an error that has another code here than elsewhere.
pub fn status_as(code: Code, error: &Error) -> Status {
    let mut details = ErrorDetails::with_error_info(reason(error), DOMAIN, metadata());
    if let Error::InvalidField { field, why } = error {
        details.add_bad_request_violation(field.as_ref(), why);
    }
    if let Some(ms) = error.retry_after_ms() {
        details.set_retry_info(Some(Duration::from_millis(ms)));
    }
    if let Some(id) = Answer::current_request_id() {
        details.set_request_info(&*id, "");
    }
    Status::with_error_details(code, error.to_string(), details)
}

/// As [`status`], for a call that only a registered worker may make.
pub fn of_worker(error: &Error) -> Status {
    match error {
        Error::NotFound { what: "worker", .. } => status_as(Code::FailedPrecondition, error),
        other => status(other),
    }
}

/// An error as the answer to a report on a stream.
pub fn report(error: &Error) -> v1::ReportError {
    v1::ReportError { code: code(error) as u32, reason: reason(error), message: error.to_string() }
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        status(&error)
    }
}

/// The name of a code, as in google.rpc.Code.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_carry_their_code_their_field_and_when_to_come_back() {
        let status = status(&Error::field("priority", "must be 0 to 9"));
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "priority must be 0 to 9"));
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("INVALID", "baton"));
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "priority");
        let full = super::status(&Error::QueueFull { queue: "q".into(), limit: 3 });
        assert_eq!(full.code(), Code::ResourceExhausted);
        assert_eq!(full.get_error_details().retry_info().unwrap().retry_delay, Some(Duration::from_secs(5)));
        let lost = super::status(&Error::LeaseLost);
        assert_eq!(lost.code(), Code::Aborted);
        assert_eq!(lost.get_error_details().error_info().unwrap().reason, "LEASE_LOST");
    }
}
