//! What can go wrong between a client's bytes and the storage.

use std::io::ErrorKind;

use super::digest::Sha256Sum;
use crate::Error;

/// Why the storage did not do what it was asked for. Nothing was published, and nothing is left behind.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum StorageError {
    /// There is no such file.
    #[error("there is no such file")]
    NotFound,
    /// No room.
    #[error("the storage is full")]
    DiskFull,
    /// More bytes than allowed.
    #[error("the file is larger than the {limit} bytes allowed here")]
    TooLarge {
        /// How large it may be.
        limit: u64,
    },
    /// Fewer or more bytes than were announced.
    #[error("{announced} bytes were announced, and {received} came")]
    WrongLength {
        /// By the client.
        announced: u64,
        /// What came.
        received: u64,
    },
    /// Other bytes than were announced.
    #[error("the bytes do not have the announced SHA-256 sum {announced}: they have {received}")]
    WrongDigest {
        /// By the client.
        announced: Sha256Sum,
        /// What came.
        received: Sha256Sum,
    },
    /// The bytes stopped coming, for this reason.
    #[error("{0}")]
    Source(Error),
    /// The storage cannot be reached, or refuses us.
    #[error("the storage cannot be reached: {0}")]
    Unavailable(String),
    /// What was stored is not what is there.
    #[error("a stored file is damaged: {0}")]
    Damaged(String),
    /// Anything else; for the log.
    #[error("the storage failed: {0}")]
    Failed(String),
}

/// Why a storage that has to be there could not be opened. The text says what to correct.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// Its URL is wrong, or it cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// Its directory is missing or not mounted.
    #[error("{0}")]
    Gone(String),
}

impl From<OpenError> for String {
    fn from(error: OpenError) -> String {
        error.to_string()
    }
}

/// What requests for the credentials of a machine have in their address, wherever they go.
const INSTANCE_CREDENTIALS: [&str; 2] = ["/latest/api/token", "/latest/meta-data/iam/"];
const NO_CREDENTIALS: &str = "there are no credentials";

impl StorageError {
    /// What went wrong, for those who know already that it is the storage.
    pub(super) fn why(self) -> String {
        match self {
            StorageError::Unavailable(why) | StorageError::Failed(why) => why,
            other => other.to_string(),
        }
    }

    /// The same error, which says in which storage it happened.
    pub(super) fn of_storage(self, name: &str) -> StorageError {
        match self {
            StorageError::Unavailable(why) if why == NO_CREDENTIALS => {
                StorageError::Unavailable(format!("{why} for {name}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"))
            }
            StorageError::Unavailable(why) => StorageError::Unavailable(format!("{name}: {why}")),
            StorageError::Damaged(why) => StorageError::Damaged(format!("{name}: {why}")),
            StorageError::Failed(why) => StorageError::Failed(format!("{name}: {why}")),
            StorageError::DiskFull => {
                tracing::warn!(storage = name, "the storage is full");
                StorageError::DiskFull
            }
            StorageError::NotFound
            | StorageError::TooLarge { .. }
            | StorageError::WrongLength { .. }
            | StorageError::WrongDigest { .. }
            | StorageError::Source(_) => self,
        }
    }
}

/// A directory that cannot be read or written is a storage that is out of order, and no bug of
/// ours.
impl From<std::io::Error> for StorageError {
    fn from(error: std::io::Error) -> StorageError {
        match error.kind() {
            ErrorKind::NotFound => StorageError::NotFound,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StorageError::DiskFull,
            _ => StorageError::Unavailable(error.to_string()),
        }
    }
}

impl From<object_store::Error> for StorageError {
    fn from(error: object_store::Error) -> StorageError {
        use object_store::Error as Remote;
        match error {
            // Without its bucket a storage is gone, and nothing is known of its files.
            Remote::NotFound { source, .. } if source.to_string().contains("NoSuchBucket") => {
                StorageError::Unavailable("there is no such bucket; create the bucket, or correct the URL".into())
            }
            Remote::NotFound { .. } => StorageError::NotFound,
            Remote::PermissionDenied { .. } | Remote::Unauthenticated { .. } => {
                StorageError::Unavailable(format!("{error}; check the credentials and what they allow"))
            }
            Remote::Generic { source, .. } => {
                let text = source.to_string();
                // There is no common word for it: this is what servers that have disks of their own say.
                let full = ["507 Insufficient Storage", "StorageFull", "QuotaExceeded"];
                if full.iter().any(|word| text.contains(word)) {
                    return StorageError::DiskFull;
                }
                let why = with_cause(&*source);
                // Without keys in the environment the machine is asked for some, and most have none.
                if INSTANCE_CREDENTIALS.iter().any(|path| text.contains(path)) {
                    tracing::debug!(%why, "this machine gives out no credentials");
                    return StorageError::Unavailable(NO_CREDENTIALS.into());
                }
                StorageError::Unavailable(why)
            }
            other => StorageError::Failed(other.to_string()),
        }
    }
}

/// What a client of a bucket says, and what its innermost cause adds to it, such as a refused
/// connection.
fn with_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let innermost = std::iter::successors(error.source(), |error| error.source()).last().map(ToString::to_string);
    match (error.to_string(), innermost) {
        (text, Some(cause)) if !text.contains(&cause) => format!("{text}: {cause}"),
        (text, _) => text,
    }
}

/// A task that panicked or was cut off by the end of the runtime.
impl From<tokio::task::JoinError> for StorageError {
    fn from(error: tokio::task::JoinError) -> StorageError {
        StorageError::Failed(error.to_string())
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Error {
        match error {
            StorageError::NotFound => Error::NotFound { what: "file", id: "of this name".into() },
            StorageError::DiskFull => Error::DiskFull,
            StorageError::TooLarge { limit } => Error::TooLarge { limit: usize::try_from(limit).unwrap_or(usize::MAX) },
            StorageError::WrongLength { .. } | StorageError::WrongDigest { .. } => Error::Malformed(error.to_string()),
            StorageError::Source(error) => error,
            StorageError::Unavailable(why) => {
                tracing::warn!(%why, "the artifact storage cannot be reached");
                Error::StorageUnavailable
            }
            StorageError::Damaged(why) | StorageError::Failed(why) => {
                tracing::error!(%why, "the artifact storage failed");
                Error::Internal
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_one_name_wherever_it_is() {
        let local = std::io::Error::from(ErrorKind::StorageFull);
        let remote =
            object_store::Error::Generic { store: "S3", source: "Server returned 507 Insufficient Storage".into() };
        assert_eq!(StorageError::from(local), StorageError::DiskFull);
        assert_eq!(StorageError::from(remote), StorageError::DiskFull);
        assert_eq!(Error::from(StorageError::DiskFull), Error::DiskFull);
    }

    #[test]
    fn a_storage_that_is_gone_is_named_and_is_not_the_store() {
        let refused = std::io::Error::from(ErrorKind::PermissionDenied);
        let bucket = object_store::Error::NotFound { path: "x".into(), source: "<Code>NoSuchBucket</Code>".into() };
        for gone in [StorageError::from(refused), StorageError::from(bucket)] {
            let named = gone.of_storage("s3://builds");
            assert!(matches!(&named, StorageError::Unavailable(why) if why.starts_with("s3://builds: ")), "{named:?}");
            assert_eq!(Error::from(named), Error::StorageUnavailable);
        }
        assert_eq!(StorageError::NotFound.of_storage("s3://builds"), StorageError::NotFound);
        let bucket = object_store::Error::NotFound { path: "x".into(), source: "<Code>NoSuchBucket</Code>".into() };
        assert!(StorageError::from(bucket).why().ends_with("create the bucket, or correct the URL"));
    }

    #[test]
    fn a_bucket_without_credentials_says_which_variables_to_set() {
        let source = "Error performing PUT http://169.254.169.254/latest/api/token in 2s - HTTP error".into();
        let error = StorageError::from(object_store::Error::Generic { store: "S3", source });
        let expected = "there are no credentials for s3://b: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
        assert_eq!(error.of_storage("s3://b"), StorageError::Unavailable(expected.into()));
    }
}
