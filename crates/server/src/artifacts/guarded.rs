//! A place that may turn out not to be this installation's. From then on nothing is read from it or
//! written to it, but its mark: whose it is may change.

use std::ops::Range;
use std::sync::{Arc, RwLock};
use std::time::SystemTime;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use uuid::Uuid;

use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Append, Draft, Entry, Place, Progress, Reading, Stat};

#[derive(Debug)]
pub(super) struct GuardedPlace {
    inner: Arc<dyn Place>,
    /// What is wrong with it, and what to do.
    refusal: RwLock<Option<String>>,
}

impl GuardedPlace {
    pub fn new(inner: Arc<dyn Place>) -> GuardedPlace {
        GuardedPlace { inner, refusal: RwLock::default() }
    }

    /// Refuses everything from now on, or nothing. True when it did not before.
    pub fn refuse(&self, why: Option<String>) -> bool {
        let mut refusal = self.refusal.write().expect("nobody panics while holding it");
        std::mem::replace(&mut *refusal, why.clone()) != why
    }

    fn open(&self) -> Result<&dyn Place, StorageError> {
        match &*self.refusal.read().expect("nobody panics while holding it") {
            Some(why) => Err(StorageError::Unavailable(why.clone())),
            None => Ok(&*self.inner),
        }
    }

    fn open_for(&self, path: &ArtifactPath) -> Result<&dyn Place, StorageError> {
        if *path == ArtifactPath::mark() { Ok(&*self.inner) } else { self.open() }
    }
}

#[async_trait]
impl Place for GuardedPlace {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn check(&self) -> Result<(), StorageError> {
        self.open()?.check().await
    }

    fn keeps_uploads_in_parts(&self) -> bool {
        self.inner.keeps_uploads_in_parts()
    }

    async fn draft(&self, path: &ArtifactPath, size_max: u64) -> Result<Box<dyn Draft>, StorageError> {
        self.open_for(path)?.draft(path, size_max).await
    }

    async fn read(&self, path: &ArtifactPath, range: Range<u64>) -> Result<Reading, StorageError> {
        self.open_for(path)?.read(path, range).await
    }

    async fn stat(&self, path: &ArtifactPath) -> Result<Option<Stat>, StorageError> {
        self.open_for(path)?.stat(path).await
    }

    async fn delete(&self, path: &ArtifactPath) -> Result<(), StorageError> {
        self.open()?.delete(path).await
    }

    fn list(&self, folder: &Folder) -> BoxStream<'static, Result<Entry, StorageError>> {
        match self.open() {
            Ok(place) => place.list(folder),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn folders(&self, folder: &Folder) -> Result<Vec<String>, StorageError> {
        self.open()?.folders(folder).await
    }

    async fn delete_folder(&self, folder: &Folder) -> Result<(), StorageError> {
        self.open()?.delete_folder(folder).await
    }

    async fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        self.open()?.check_room(bytes).await
    }

    async fn append(&self, upload: Uuid, progress: &Progress, writer: u64) -> Result<Box<dyn Append>, StorageError> {
        self.open()?.append(upload, progress, writer).await
    }

    async fn adopt(&self, upload: Uuid, progress: &Progress, path: &ArtifactPath) -> Result<bool, StorageError> {
        self.open()?.adopt(upload, progress, path).await
    }

    async fn read_upload(&self, upload: Uuid, progress: &Progress) -> Result<Reading, StorageError> {
        self.open()?.read_upload(upload, progress).await
    }

    async fn sweep(&self, before: SystemTime) -> Result<usize, StorageError> {
        self.open()?.sweep(before).await
    }
}
