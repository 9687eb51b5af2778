//! What can be told of a report, and of its refusal, without knowing anything else.

use baton_proto::v1::{self, report};

/// True when no code of the workflow runs after this report, whatever its answer.
pub(super) fn ends_playing(what: &report::What) -> bool {
    use report::What;
    match what {
        What::CompleteWorkflow(_)
        | What::FailWorkflow(_)
        | What::CancelledWorkflow(_)
        | What::ContinueAsNew(_)
        | What::GiveBack(_) => true,
        // A suspension may be refused for news, and then it goes on.
        What::Suspend(_) | What::CompleteStep(_) | What::FailStep(_) | What::Publish(_) | What::StartChild(_) => false,
    }
}

/// True when the same report may be taken later.
pub(super) fn passes(error: &v1::ReportError) -> bool {
    use tonic::Code;
    match Code::from_i32(i32::try_from(error.code).unwrap_or(0)) {
        Code::Cancelled | Code::Unknown | Code::DeadlineExceeded | Code::Internal | Code::Unavailable => true,
        Code::ResourceExhausted => {
            !matches!(error.reason.as_str(), "TOO_LARGE" | "TOO_MANY_STEPS" | "JOURNAL_FULL" | "INBOX_FULL")
        }
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}

pub(super) fn payload_bytes(what: &report::What) -> usize {
    use report::What;
    match what {
        What::CompleteStep(report) => report.output.len(),
        What::CompleteWorkflow(report) => report.output.len(),
        What::Publish(report) => report.value.len(),
        What::ContinueAsNew(report) => report.input.len(),
        What::StartChild(report) => report.start.as_ref().map_or(0, |start| start.input.len()),
        What::FailStep(report) => report.error.len(),
        What::FailWorkflow(report) => report.error.len(),
        What::CancelledWorkflow(report) => report.message.len(),
        What::GiveBack(report) => report.reason.len(),
        What::Suspend(_) => 0,
    }
}
