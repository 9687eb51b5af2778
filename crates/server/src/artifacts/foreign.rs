//! A place that is not this installation's. Nothing is read from it or written to it.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use uuid::Uuid;

use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Append, Draft, Entry, Place, Progress, Reading, Stat};

#[derive(Debug)]
pub(super) struct ForeignPlace {
    /// What is wrong with it, and what to do.
    why: String,
    inner: Arc<dyn Place>,
}

impl ForeignPlace {
    pub fn new(why: String, inner: Arc<dyn Place>) -> ForeignPlace {
        ForeignPlace { why, inner }
    }

    fn refuse<T>(&self) -> Result<T, StorageError> {
        Err(StorageError::Unavailable(self.why.clone()))
    }
}

#[async_trait]
impl Place for ForeignPlace {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn check(&self) -> Result<(), StorageError> {
        self.refuse()
    }

    fn keeps_uploads_in_parts(&self) -> bool {
        self.inner.keeps_uploads_in_parts()
    }

    async fn draft(&self, _: &ArtifactPath, _: u64) -> Result<Box<dyn Draft>, StorageError> {
        self.refuse()
    }

    async fn read(&self, _: &ArtifactPath, _: Range<u64>) -> Result<Reading, StorageError> {
        self.refuse()
    }

    async fn stat(&self, _: &ArtifactPath) -> Result<Option<Stat>, StorageError> {
        self.refuse()
    }

    async fn delete(&self, _: &ArtifactPath) -> Result<(), StorageError> {
        self.refuse()
    }

    fn list(&self, _: &Folder) -> BoxStream<'static, Result<Entry, StorageError>> {
        stream::iter([self.refuse()]).boxed()
    }

    async fn folders(&self, _: &Folder) -> Result<Vec<String>, StorageError> {
        self.refuse()
    }

    async fn delete_folder(&self, _: &Folder) -> Result<(), StorageError> {
        self.refuse()
    }

    async fn check_room(&self, _: u64) -> Result<(), StorageError> {
        self.refuse()
    }

    async fn append(&self, _: Uuid, _: &Progress, _: u64) -> Result<Box<dyn Append>, StorageError> {
        self.refuse()
    }

    async fn adopt(&self, _: Uuid, _: &Progress, _: &ArtifactPath) -> Result<bool, StorageError> {
        self.refuse()
    }

    async fn read_upload(&self, _: Uuid, _: &Progress) -> Result<Reading, StorageError> {
        self.refuse()
    }

    async fn sweep(&self, _: SystemTime) -> Result<usize, StorageError> {
        self.refuse()
    }
}
