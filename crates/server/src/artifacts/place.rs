//! What a place for files has to be able to do. There are two: a directory, and a bucket.
//! `mirrored` makes one of both.

use std::fmt;
use std::ops::Range;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::StorageError;
use super::path::{ArtifactPath, Folder};

/// Bytes as they come, and why they stopped coming. May borrow, as a field of a multipart body does.
pub type Source<'a> = BoxStream<'a, Result<Bytes, crate::Error>>;
/// Bytes as they are read.
pub type Reading = BoxStream<'static, Result<Bytes, StorageError>>;

/// What is known of a file without reading it.
#[derive(Clone, PartialEq, Debug)]
pub struct Stat {
    /// In bytes.
    pub size: u64,
    /// By the clock of the place.
    pub modified: SystemTime,
}

/// A file in a listing.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Below the folder that was listed.
    pub name: String,
    /// What is known of it.
    pub stat: Stat,
}

/// A place for files.
#[async_trait]
pub(super) trait Place: Send + Sync + fmt::Debug {
    /// A short word for it.
    fn kind(&self) -> &'static str;

    /// Looks whether files can be read and written here, without writing any. Answers soon when the
    /// place is out of reach.
    async fn check(&self) -> Result<(), StorageError>;

    /// Whether an upload is a row of parts here, or one file that grows.
    fn keeps_uploads_in_parts(&self) -> bool;

    /// Begins a file that nobody sees until it is published. `size_max` is the most that will come.
    async fn draft(&self, path: &ArtifactPath, size_max: u64) -> Result<Box<dyn Draft>, StorageError>;

    /// Reads a part of a file, which has to be inside of it.
    async fn read(&self, path: &ArtifactPath, range: Range<u64>) -> Result<Reading, StorageError>;

    /// Looks at a file.
    async fn stat(&self, path: &ArtifactPath) -> Result<Option<Stat>, StorageError>;

    /// Deletes a file; one that is not there is fine.
    async fn delete(&self, path: &ArtifactPath) -> Result<(), StorageError>;

    /// All files below a folder.
    fn list(&self, folder: &Folder) -> BoxStream<'static, Result<Entry, StorageError>>;

    /// The names of the folders in a folder, sorted.
    async fn folders(&self, folder: &Folder) -> Result<Vec<String>, StorageError>;

    /// Deletes a folder with all that is in it; one that is not there is fine.
    async fn delete_folder(&self, folder: &Folder) -> Result<(), StorageError>;

    /// Refuses when this many more bytes would not fit.
    async fn check_room(&self, bytes: u64) -> Result<(), StorageError>;

    /// Goes on with an upload where `progress` says it is. What came after that is forgotten.
    /// `writer` is a number that no other writer has: it names what is added where a file cannot
    /// grow, so that two places that get the same bytes name them alike.
    async fn append(&self, upload: Uuid, progress: &Progress, writer: u64) -> Result<Box<dyn Append>, StorageError>;

    /// Makes the bytes of an upload the file at `path` without copying them, or answers false where
    /// that cannot be done. No other upload ever becomes that file.
    async fn adopt(&self, upload: Uuid, progress: &Progress, path: &ArtifactPath) -> Result<bool, StorageError>;

    /// Reads what an upload has so far.
    async fn read_upload(&self, upload: Uuid, progress: &Progress) -> Result<Reading, StorageError>;

    /// Deletes drafts that nobody has touched since `before`; returns how many.
    async fn sweep(&self, before: SystemTime) -> Result<usize, StorageError>;
}

/// A file that is being written. Dropping it leaves nothing behind.
#[async_trait]
pub(super) trait Draft: Send + fmt::Debug {
    /// Adds bytes.
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError>;

    /// Makes it durable and visible, in one step.
    async fn publish(self: Box<Self>) -> Result<(), StorageError>;
}

/// An upload that is being continued. What was not committed does not count when it is dropped.
#[async_trait]
pub(super) trait Append: Send + fmt::Debug {
    /// Adds bytes.
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError>;

    /// Makes everything written so far durable, and says where that is. It counts once this has been written down.
    async fn commit(&mut self) -> Result<Progress, StorageError>;

    /// Gives back the room of what was not committed.
    async fn roll_back(&mut self) -> Result<(), StorageError>;
}

/// How far an upload is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Bytes that are durable.
    pub offset: u64,
    /// The files they are in, in order, where a file cannot grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// A file of an upload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// In the folder of the upload.
    pub name: String,
    /// In bytes.
    pub size: u64,
}
