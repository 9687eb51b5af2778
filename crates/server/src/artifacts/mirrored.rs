//! Two places that hold the same files, so that an installation can move from one to the other
//! while it runs.
//!
//! A write is done when both have it, and a read takes what either has, the first one first. What
//! both have and what only one has never contradict each other, because files have names of their
//! own and appear whole. The order of changes is always the same, the first place and then the
//! mirror: `moving` relies on it to tell what was deleted or replaced while it copied.
//! docs/adr/0018 has the reasons.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use uuid::Uuid;

use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Append, Draft, Entry, Place, Progress, Reading, Stat};
use super::uploads::RECORD;
use crate::crash;

/// Two places as one.
#[derive(Debug)]
pub(super) struct MirroredPlace {
    first: Arc<dyn Place>,
    mirror: Arc<dyn Place>,
}

/// One of the two places.
enum Side {
    First,
    Mirror,
}

impl MirroredPlace {
    pub fn new(first: Arc<dyn Place>, mirror: Arc<dyn Place>) -> MirroredPlace {
        MirroredPlace { first, mirror }
    }

    /// The place that lacks what the other one counts of an upload: it was begun or continued by a
    /// server without the mirror, or a server ended between the two. The record says it, because it
    /// is written to both after the bytes are.
    async fn behind(&self, upload: Uuid) -> Result<Option<Side>, StorageError> {
        let path = ArtifactPath::of_upload(upload, RECORD);
        let (first, mirror) = tokio::try_join!(read_small(&*self.first, &path), read_small(&*self.mirror, &path))?;
        Ok(match (first, mirror) {
            (first, mirror) if first == mirror => None,
            (None, _) => Some(Side::First),
            (Some(_), _) => Some(Side::Mirror),
        })
    }
}

/// A file that fits into memory, or `None` when it is not there.
pub(super) async fn read_small(place: &dyn Place, path: &ArtifactPath) -> Result<Option<Vec<u8>>, StorageError> {
    let Some(found) = place.stat(path).await? else { return Ok(None) };
    match place.read(path, 0..found.size).await {
        Ok(reading) => Ok(Some(reading.try_collect::<Vec<Bytes>>().await?.concat())),
        Err(StorageError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Copies a file of this size.
async fn copy_file(from: &dyn Place, to: &dyn Place, path: &ArtifactPath, size: u64) -> Result<(), StorageError> {
    let mut reading = from.read(path, 0..size).await?;
    let mut draft = to.draft(path, size).await?;
    while let Some(chunk) = reading.try_next().await? {
        draft.write(&[chunk]).await?;
    }
    draft.publish().await
}

/// Gives `to` the bytes of an upload that `from` has, and goes on behind them.
async fn copy_upload(
    from: &dyn Place,
    to: &dyn Place,
    upload: Uuid,
    progress: &Progress,
    writer: u64,
) -> Result<Box<dyn Append>, StorageError> {
    // One progress has to be true of both, so parts keep their names.
    if from.keeps_uploads_in_parts() && to.keeps_uploads_in_parts() {
        for part in &progress.parts {
            copy_file(from, to, &ArtifactPath::of_upload(upload, &part.name), part.size).await?;
        }
        return to.append(upload, progress, writer).await;
    }
    let mut reading = from.read_upload(upload, progress).await?;
    let mut append = to.append(upload, &Progress::default(), writer).await?;
    while let Some(chunk) = reading.try_next().await? {
        append.write(&[chunk]).await?;
    }
    append.commit().await?;
    Ok(append)
}

/// What the mirror has when the first place lacks something or fails. When neither helps, a failure
/// says more than an absence: who is told that a file is gone gives it up.
async fn or_mirror<T>(
    first: Result<T, StorageError>,
    mirror: impl Future<Output = Result<T, StorageError>>,
) -> Result<T, StorageError> {
    let error = match first {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    match (mirror.await, error) {
        (Ok(found), StorageError::NotFound) => Ok(found),
        (Ok(found), error) => {
            tracing::warn!(%error, "the storage failed; its mirror has the file");
            Ok(found)
        }
        (Err(failure), StorageError::NotFound) => Err(failure),
        (Err(_), error) => Err(error),
    }
}

#[async_trait]
impl Place for MirroredPlace {
    fn kind(&self) -> &'static str {
        self.first.kind()
    }

    async fn check(&self) -> Result<(), StorageError> {
        tokio::try_join!(self.first.check(), self.mirror.check())?;
        Ok(())
    }

    fn keeps_uploads_in_parts(&self) -> bool {
        self.first.keeps_uploads_in_parts()
    }

    async fn draft(&self, path: &ArtifactPath, size_max: u64) -> Result<Box<dyn Draft>, StorageError> {
        let first = self.first.draft(path, size_max).await?;
        let mirror = self.mirror.draft(path, size_max).await?;
        Ok(Box::new(MirroredDraft { first, mirror }))
    }

    async fn read(&self, path: &ArtifactPath, range: Range<u64>) -> Result<Reading, StorageError> {
        or_mirror(self.first.read(path, range.clone()).await, self.mirror.read(path, range)).await
    }

    async fn stat(&self, path: &ArtifactPath) -> Result<Option<Stat>, StorageError> {
        let found = |stat: Result<Option<Stat>, _>| stat.and_then(|found| found.ok_or(StorageError::NotFound));
        match or_mirror(found(self.first.stat(path).await), async { found(self.mirror.stat(path).await) }).await {
            Err(StorageError::NotFound) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn delete(&self, path: &ArtifactPath) -> Result<(), StorageError> {
        self.first.delete(path).await?;
        crash::point("mirror.deleted");
        self.mirror.delete(path).await?;
        // Once more: somebody who moves files from the mirror may have copied this one in between.
        self.first.delete(path).await
    }

    fn list(&self, folder: &Folder) -> BoxStream<'static, Result<Entry, StorageError>> {
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let is_new = move |entry: &Entry| {
            let is_new = seen.lock().expect("nobody panics while holding it").insert(entry.name.clone());
            std::future::ready(is_new)
        };
        self.first.list(folder).chain(self.mirror.list(folder)).try_filter(is_new).boxed()
    }

    async fn folders(&self, folder: &Folder) -> Result<Vec<String>, StorageError> {
        let (mut names, more) = tokio::try_join!(self.first.folders(folder), self.mirror.folders(folder))?;
        names.extend(more);
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    async fn delete_folder(&self, folder: &Folder) -> Result<(), StorageError> {
        self.first.delete_folder(folder).await?;
        self.mirror.delete_folder(folder).await
    }

    async fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        self.first.check_room(bytes).await?;
        self.mirror.check_room(bytes).await
    }

    async fn append(&self, upload: Uuid, progress: &Progress, writer: u64) -> Result<Box<dyn Append>, StorageError> {
        let behind = match progress.offset {
            0 => None,
            _ => self.behind(upload).await?,
        };
        let (first, mirror) = (&*self.first, &*self.mirror);
        let (first, mirror) = match behind {
            None => (first.append(upload, progress, writer).await?, mirror.append(upload, progress, writer).await?),
            Some(Side::Mirror) => {
                let caught_up = copy_upload(first, mirror, upload, progress, writer).await?;
                (first.append(upload, progress, writer).await?, caught_up)
            }
            Some(Side::First) => {
                let caught_up = copy_upload(mirror, first, upload, progress, writer).await?;
                (caught_up, mirror.append(upload, progress, writer).await?)
            }
        };
        Ok(Box::new(MirroredAppend { first, mirror }))
    }

    /// A directory could rename, but its mirror needs the bytes as well. So an upload is copied to
    /// both, and only what a call before has left in one of them is not copied again.
    async fn adopt(&self, _: Uuid, progress: &Progress, path: &ArtifactPath) -> Result<bool, StorageError> {
        let (first, mirror) = (&*self.first, &*self.mirror);
        let is_whole = |found: Option<Stat>| found.is_some_and(|found| found.size == progress.offset);
        match (is_whole(first.stat(path).await?), is_whole(mirror.stat(path).await?)) {
            (true, true) => {}
            (true, false) => copy_file(first, mirror, path, progress.offset).await?,
            (false, true) => copy_file(mirror, first, path, progress.offset).await?,
            (false, false) => return Ok(false),
        }
        Ok(true)
    }

    async fn read_upload(&self, upload: Uuid, progress: &Progress) -> Result<Reading, StorageError> {
        match self.behind(upload).await? {
            Some(Side::First) => self.mirror.read_upload(upload, progress).await,
            None | Some(Side::Mirror) => self.first.read_upload(upload, progress).await,
        }
    }

    async fn sweep(&self, before: SystemTime) -> Result<usize, StorageError> {
        Ok(self.first.sweep(before).await? + self.mirror.sweep(before).await?)
    }
}

#[derive(Debug)]
struct MirroredDraft {
    first: Box<dyn Draft>,
    mirror: Box<dyn Draft>,
}

#[async_trait]
impl Draft for MirroredDraft {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        // Both to their end: a write that was given up in the middle might still reach the disk
        // later.
        let (first, mirror) = tokio::join!(self.first.write(chunks), self.mirror.write(chunks));
        first.and(mirror)
    }

    /// When the mirror fails, the first place has a file that was not acknowledged. Whoever wrote
    /// it deletes it, as after every failure of a storage: an answer of a bucket can be lost, too.
    async fn publish(self: Box<Self>) -> Result<(), StorageError> {
        self.first.publish().await?;
        crash::point("mirror.half");
        self.mirror.publish().await
    }
}

#[derive(Debug)]
struct MirroredAppend {
    first: Box<dyn Append>,
    mirror: Box<dyn Append>,
}

#[async_trait]
impl Append for MirroredAppend {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        // Both to their end: a write that was given up in the middle might still reach the disk
        // later.
        let (first, mirror) = tokio::join!(self.first.write(chunks), self.mirror.write(chunks));
        first.and(mirror)
    }

    /// One progress for both: a directory needs the offset, and a bucket the parts. Two buckets
    /// have the same parts, because they got the same bytes from one writer.
    async fn commit(&mut self) -> Result<Progress, StorageError> {
        let (first, mirror) = tokio::join!(self.first.commit(), self.mirror.commit());
        let (first, mirror) = (first?, mirror?);
        let agree = first.parts.is_empty() || mirror.parts.is_empty() || first.parts == mirror.parts;
        if first.offset != mirror.offset || !agree {
            return Err(StorageError::Failed("the storage and its mirror have other parts of an upload".into()));
        }
        let parts = if first.parts.is_empty() { mirror.parts } else { first.parts };
        Ok(Progress { offset: first.offset, parts })
    }

    async fn roll_back(&mut self) -> Result<(), StorageError> {
        self.first.roll_back().await?;
        self.mirror.roll_back().await
    }
}
