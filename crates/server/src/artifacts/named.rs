//! A place that says its name in every error, so that nobody has to guess which storage has failed.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use uuid::Uuid;

use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Append, Draft, Entry, Place, Progress, Reading, Stat};

/// A place with its name.
#[derive(Debug)]
pub(super) struct NamedPlace<P> {
    name: Arc<str>,
    inner: P,
}

impl<P: Place> NamedPlace<P> {
    pub fn new(name: Arc<str>, inner: P) -> NamedPlace<P> {
        NamedPlace { name, inner }
    }

    fn named<T>(&self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        result.map_err(|error| error.of_storage(&self.name))
    }

    fn named_reading(&self, result: Result<Reading, StorageError>) -> Result<Reading, StorageError> {
        let (reading, name) = (self.named(result)?, self.name.clone());
        Ok(reading.map_err(move |error| error.of_storage(&name)).boxed())
    }
}

#[async_trait]
impl<P: Place> Place for NamedPlace<P> {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn check(&self) -> Result<(), StorageError> {
        self.named(self.inner.check().await)
    }

    fn keeps_uploads_in_parts(&self) -> bool {
        self.inner.keeps_uploads_in_parts()
    }

    async fn draft(&self, path: &ArtifactPath, size_max: u64) -> Result<Box<dyn Draft>, StorageError> {
        let inner = self.named(self.inner.draft(path, size_max).await)?;
        Ok(Box::new(NamedDraft { name: self.name.clone(), inner }))
    }

    async fn read(&self, path: &ArtifactPath, range: Range<u64>) -> Result<Reading, StorageError> {
        self.named_reading(self.inner.read(path, range).await)
    }

    async fn stat(&self, path: &ArtifactPath) -> Result<Option<Stat>, StorageError> {
        self.named(self.inner.stat(path).await)
    }

    async fn delete(&self, path: &ArtifactPath) -> Result<(), StorageError> {
        self.named(self.inner.delete(path).await)
    }

    fn list(&self, folder: &Folder) -> BoxStream<'static, Result<Entry, StorageError>> {
        let name = self.name.clone();
        self.inner.list(folder).map_err(move |error| error.of_storage(&name)).boxed()
    }

    async fn folders(&self, folder: &Folder) -> Result<Vec<String>, StorageError> {
        self.named(self.inner.folders(folder).await)
    }

    async fn delete_folder(&self, folder: &Folder) -> Result<(), StorageError> {
        self.named(self.inner.delete_folder(folder).await)
    }

    async fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        self.named(self.inner.check_room(bytes).await)
    }

    async fn append(&self, upload: Uuid, progress: &Progress, writer: u64) -> Result<Box<dyn Append>, StorageError> {
        let inner = self.named(self.inner.append(upload, progress, writer).await)?;
        Ok(Box::new(NamedAppend { name: self.name.clone(), inner }))
    }

    async fn adopt(&self, upload: Uuid, progress: &Progress, path: &ArtifactPath) -> Result<bool, StorageError> {
        self.named(self.inner.adopt(upload, progress, path).await)
    }

    async fn read_upload(&self, upload: Uuid, progress: &Progress) -> Result<Reading, StorageError> {
        self.named_reading(self.inner.read_upload(upload, progress).await)
    }

    async fn sweep(&self, before: SystemTime) -> Result<usize, StorageError> {
        self.named(self.inner.sweep(before).await)
    }
}

#[derive(Debug)]
struct NamedDraft {
    name: Arc<str>,
    inner: Box<dyn Draft>,
}

#[async_trait]
impl Draft for NamedDraft {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        self.inner.write(chunks).await.map_err(|error| error.of_storage(&self.name))
    }

    async fn publish(self: Box<Self>) -> Result<(), StorageError> {
        self.inner.publish().await.map_err(|error| error.of_storage(&self.name))
    }
}

#[derive(Debug)]
struct NamedAppend {
    name: Arc<str>,
    inner: Box<dyn Append>,
}

#[async_trait]
impl Append for NamedAppend {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        self.inner.write(chunks).await.map_err(|error| error.of_storage(&self.name))
    }

    async fn commit(&mut self) -> Result<Progress, StorageError> {
        self.inner.commit().await.map_err(|error| error.of_storage(&self.name))
    }

    async fn roll_back(&mut self) -> Result<(), StorageError> {
        self.inner.roll_back().await.map_err(|error| error.of_storage(&self.name))
    }
}
