//! Why an upload did not go on.

use crate::artifacts::error::StorageError;

/// Why a call about an upload was refused. Bytes that were counted before still count.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum UploadError {
    /// There is none, or it is somebody else's.
    #[error("there is no such upload")]
    NotFound,
    /// It was not continued in time.
    #[error("the upload has expired; begin a new one")]
    Expired,
    /// The piece does not begin where the upload ends.
    #[error("the upload is at {offset}; ask where it is with HEAD, and go on from there")]
    WrongOffset {
        /// Where it is.
        offset: u64,
    },
    /// The piece has another sum than was announced. It does not count.
    #[error("the piece does not have the announced sum; send it again")]
    WrongChecksum,
    /// Somebody else goes on with the upload.
    #[error("another request goes on with this upload; what came so far counts")]
    Overtaken,
    /// It cannot become a file yet.
    #[error("the upload has {offset} of {length} bytes")]
    Incomplete {
        /// What it has.
        offset: u64,
        /// What it will have.
        length: u64,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The client speaks another version of the protocol.
    #[error("the header Tus-Resumable must be 1.0.0")]
    WrongVersion,
    /// The piece is not announced as one.
    #[error("the content type must be application/offset+octet-stream")]
    WrongType,
    /// The storage, or the client's bytes.
    #[error(transparent)]
    Storage(#[from] StorageError),
}
