//! Neutral errors become statuses here, and nowhere else.

use axum::response::{IntoResponse, Response};
use baton_proto::Problem;
use http::{HeaderValue, StatusCode, header};

use super::problem::refusal;
use crate::Error;

fn status(error: &Error) -> StatusCode {
    match error {
        Error::Malformed(_) => StatusCode::BAD_REQUEST,
        Error::Invalid(_) | Error::InvalidField { .. } | Error::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        Error::NoCredential | Error::NoCertifiedKey => StatusCode::UNAUTHORIZED,
        Error::BadCredential(_) | Error::Forbidden(_) | Error::NamespaceDisabled(_) => StatusCode::FORBIDDEN,
        Error::NotFound { .. } => StatusCode::NOT_FOUND,
        Error::LeaseLost
        | Error::Ended(_)
        | Error::Cancelling
        | Error::Conflict(_)
        | Error::UploadIncomplete(_)
        | Error::Diverged { .. }
        | Error::SignalTaken { .. }
        | Error::TooManySteps { .. }
        | Error::JournalFull { .. }
        | Error::InboxFull { .. }
        | Error::LastAdminKey
        | Error::WorkerOffline
        | Error::WorkerDraining
        | Error::WorkerFull
        | Error::WorkerUnfit(_) => StatusCode::CONFLICT,
        Error::QueueFull { .. }
        | Error::ClaimsFull { .. }
        | Error::Overloaded
        | Error::Unavailable
        | Error::StorageUnavailable
        | Error::NotYet(_)
        | Error::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        Error::TooMany { .. } | Error::NamespaceLimit { .. } => StatusCode::TOO_MANY_REQUESTS,
        Error::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Error::TooSlow => StatusCode::REQUEST_TIMEOUT,
        Error::DiskFull | Error::QuotaReached { .. } => StatusCode::INSUFFICIENT_STORAGE,
        Error::TokenExpired(_) | Error::NotShown(_) => StatusCode::UNAUTHORIZED,
        Error::Github(_) => StatusCode::BAD_GATEWAY,
        Error::PayloadLost | Error::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let field = self.wrong_field().map(str::to_owned);
        let mut response = refusal(status(&self), Problem { field, ..Problem::new(self.to_string(), self.code()) });
        if let Some(ms) = self.retry_after_ms() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
        }
        if matches!(self, Error::NoCredential | Error::NoCertifiedKey) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
