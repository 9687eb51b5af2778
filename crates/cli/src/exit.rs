//! How the program ends: a stable exit code, and what to say about it.

use std::process::ExitCode;

use baton::ClientError;

use crate::flag_names;
use crate::output::print_note;

const NOT_FOUND: u8 = 3;

/// Why the program does not end with 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Exit {
    code: u8,
    message: String,
    /// The field of the API that the server refuses.
    field: Option<String>,
}

impl Exit {
    fn new(code: u8, message: impl Into<String>) -> Exit {
        Exit { code, message: message.into(), field: None }
    }

    /// The run failed, or whatever was asked for did not work out.
    pub fn failed(message: impl Into<String>) -> Exit {
        Exit::new(1, message)
    }

    /// As [`Exit::failed`], when everything has been said already.
    pub fn failed_silently() -> Exit {
        Exit::failed("")
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Exit {
        Exit::new(2, message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Exit {
        Exit::new(NOT_FOUND, message)
    }

    /// The server does not want to.
    pub fn refused(message: impl Into<String>) -> Exit {
        Exit::new(4, message)
    }

    /// The server cannot be reached.
    pub fn unreachable(message: impl Into<String>) -> Exit {
        Exit::new(5, message)
    }

    /// Names the flag of this command that the server refuses, where it named a field of its API.
    pub fn naming_flag(mut self, command: &clap::Command) -> Exit {
        if let Some(field) = self.field.take() {
            self.message = flag_names::in_flags(command, &field, &self.message);
        }
        self
    }

    /// What is used instead of something that there is not.
    pub fn or_if_not_found<T>(self, instead: T) -> Result<T, Exit> {
        if self.code == NOT_FOUND { Ok(instead) } else { Err(self) }
    }

    /// Says why on the error output, and returns the code to end with.
    pub fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            print_note(&self.message);
        }
        ExitCode::from(self.code)
    }
}

impl From<ClientError> for Exit {
    fn from(error: ClientError) -> Exit {
        match error {
            ClientError::Invalid(message) => Exit::usage(message),
            ClientError::Unreachable(_) => {
                Exit::unreachable(format!("{error}\nIs it running? `baton serve` starts one; --url says where it is."))
            }
            ClientError::Untrusted(_) => Exit::unreachable(error.to_string()),
            ClientError::Decode(_) => Exit::unreachable(error.to_string()),
            ClientError::Refused { status: 404, message, .. } => Exit::not_found(message),
            ClientError::Refused { status: 401 | 403, message, .. } => Exit::refused(format!(
                "{message}\nThe key comes from --api-key, BATON_API_KEY, `baton login`, or admin.key in the data directory, which goes only to the server that left it there."
            )),
            ClientError::Refused { message, field, .. } => Exit { field, ..Exit::refused(message) },
        }
    }
}

impl From<std::io::Error> for Exit {
    fn from(error: std::io::Error) -> Exit {
        Exit::failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_stable() {
        let refused = |status| {
            let (code, message) = ("x".into(), "y".into());
            Exit::from(ClientError::Refused { status, code, message, field: None, retry_after: None }).code
        };
        assert_eq!((refused(404), refused(409), refused(401), refused(503)), (3, 4, 4, 4));
        assert_eq!(Exit::from(ClientError::Unreachable("x".into())).code, 5);
        assert_eq!(Exit::from(ClientError::Decode("x".into())).code, 5);
        assert_eq!(Exit::from(ClientError::Untrusted("x".into())).code, 5);
        assert_eq!(Exit::from(ClientError::Invalid("x".into())).code, 2);
    }
}
