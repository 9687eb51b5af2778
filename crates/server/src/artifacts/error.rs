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
    /// The storage cannot be reached.
    #[error("the storage cannot be reached: {0}")]
    Unavailable(String),
    /// What was stored is not what is there.
    #[error("a stored file is damaged: {0}")]
    Damaged(String),
    /// Anything else; for the log.
    #[error("the storage failed: {0}")]
    Failed(String),
}

impl From<std::io::Error> for StorageError {
    fn from(error: std::io::Error) -> StorageError {
        match error.kind() {
            ErrorKind::NotFound => StorageError::NotFound,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StorageError::DiskFull,
            _ => StorageError::Failed(error.to_string()),
        }
    }
}

impl From<object_store::Error> for StorageError {
    fn from(error: object_store::Error) -> StorageError {
        use object_store::Error as Remote;
        match error {
            Remote::NotFound { .. } => StorageError::NotFound,
            Remote::Generic { source, .. } => {
                let text = source.to_string();
                // There is no common word for it: this is what servers that have disks of their own say.
                let full = ["507 Insufficient Storage", "StorageFull", "QuotaExceeded"];
                match full.iter().any(|word| text.contains(word)) {
                    true => StorageError::DiskFull,
                    false => StorageError::Unavailable(text),
                }
            }
            other => StorageError::Failed(other.to_string()),
        }
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
                tracing::warn!(%why, "the storage cannot be reached");
                Error::Unavailable
            }
            StorageError::Damaged(why) | StorageError::Failed(why) => {
                tracing::error!(%why, "the storage failed");
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
}
