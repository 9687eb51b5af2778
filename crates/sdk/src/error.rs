//! Why a call did not work out.

use std::time::Duration;

/// Why a call did not work out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer came. The call may have been carried out all the same: repeat it, with the same idempotency key,
    /// claim number or lease.
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    /// What answered is not believed to be the server, or does not believe this client (TLS).
    /// Trying again changes nothing.
    #[error("no secure connection to the server at {0}")]
    Untrusted(String),
    /// The server answered, and it refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// A stable word for programs.
        code: String,
        /// What happened and what to do, for people.
        message: String,
        /// The field or parameter that is wrong, where one is.
        field: Option<String>,
        /// How long the server asks to wait before the call is repeated.
        retry_after: Option<Duration>,
    },
    /// The answer is not what this client understands: another version, or no Baton server at all.
    #[error("the answer is not one of a Baton server this client knows: {0}")]
    Decode(String),
    /// The address, the key or the request cannot be sent at all.
    #[error("{0}")]
    Invalid(String),
}

impl ClientError {
    /// True when the same call may work later: nobody answered, or the server has a problem of its own.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Unreachable(_) => true,
            ClientError::Refused { status, .. } => matches!(*status, 408 | 429 | 500..),
            ClientError::Decode(_) | ClientError::Invalid(_) | ClientError::Untrusted(_) => false,
        }
    }

    /// The server's word for why it refused, if it did.
    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Refused { code, .. } => Some(code),
            ClientError::Unreachable(_)
            | ClientError::Untrusted(_)
            | ClientError::Decode(_)
            | ClientError::Invalid(_) => None,
        }
    }
}
