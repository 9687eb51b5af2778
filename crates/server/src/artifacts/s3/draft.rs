//! A file that is being written: one object when it is small, a multipart upload when it is not.
//!
//! The parts of a multipart upload that nobody completes cost money and are in no listing, so each is written down under
//! `pending/` before its first part is sent. What a server that ended badly leaves there is swept away.

use std::collections::VecDeque;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::{PENDING, S3Place};
use crate::artifacts::error::StorageError;
use crate::artifacts::place::Draft;
use crate::crash;

/// A draft in a bucket.
#[derive(Debug)]
pub(super) struct S3Draft {
    place: S3Place,
    path: Path,
    part_bytes: usize,
    gathered: VecDeque<Bytes>,
    gathered_bytes: usize,
    upload: Option<Multipart>,
    parts: Vec<PartId>,
    /// The part before, when it is sent while the next one gathers.
    ahead: Option<JoinHandle<Result<PartId, StorageError>>>,
    _turn: OwnedSemaphorePermit,
}

impl S3Draft {
    /// Nothing is sent before there is something to send.
    pub fn begin(place: S3Place, path: Path, part_bytes: usize, turn: OwnedSemaphorePermit) -> S3Draft {
        S3Draft {
            place,
            path,
            part_bytes,
            gathered: VecDeque::new(),
            gathered_bytes: 0,
            upload: None,
            parts: Vec::new(),
            ahead: None,
            _turn: turn,
        }
    }

    /// Takes exactly one part from what has gathered: some stores want all parts but the last to be equal.
    fn cut(&mut self) -> PutPayload {
        let mut wanted = self.part_bytes.min(self.gathered_bytes);
        self.gathered_bytes -= wanted;
        let mut part = Vec::new();
        while let Some(mut chunk) = self.gathered.pop_front() {
            if chunk.len() > wanted {
                let rest = chunk.split_off(wanted);
                self.gathered.push_front(rest);
            }
            wanted -= chunk.len();
            part.push(chunk);
            if wanted == 0 {
                break;
            }
        }
        PutPayload::from_iter(part)
    }

    async fn send_part(&mut self) -> Result<(), StorageError> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => none.insert(Multipart::begin(self.place.clone(), self.path.clone()).await?),
        };
        let (path, id) = (self.path.clone(), upload.id.clone());
        self.land().await?;
        let (place, part, number) = (self.place.clone(), self.cut(), self.parts.len());
        let send = async move {
            let part = place.0.store.put_part(&path, &id, number, part).await?;
            crash::point("multipart.part");
            Ok(part)
        };
        match self.place.0.ahead.clone().try_acquire_owned() {
            Ok(permit) => {
                self.ahead = Some(tokio::spawn(async move {
                    let _permit = permit;
                    send.await
                }));
            }
            Err(_) => self.parts.push(send.await?),
        }
        Ok(())
    }

    /// Waits for the part that is on its way.
    async fn land(&mut self) -> Result<(), StorageError> {
        if let Some(ahead) = self.ahead.take() {
            self.parts.push(ahead.await??);
        }
        Ok(())
    }
}

#[async_trait]
impl Draft for S3Draft {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        self.gathered_bytes += chunks.iter().map(Bytes::len).sum::<usize>();
        self.gathered.extend(chunks.iter().cloned());
        while self.gathered_bytes >= self.part_bytes {
            self.send_part().await?;
        }
        Ok(())
    }

    async fn publish(mut self: Box<Self>) -> Result<(), StorageError> {
        if self.upload.is_none() {
            let whole = self.cut();
            self.place.0.store.put(&self.path, whole).await?;
            return Ok(());
        }
        if self.gathered_bytes > 0 {
            self.send_part().await?;
        }
        self.land().await?;
        match self.upload.take() {
            Some(upload) => upload.complete(std::mem::take(&mut self.parts)).await,
            None => Ok(()),
        }
    }
}

impl Drop for S3Draft {
    fn drop(&mut self) {
        let (Some(ahead), Some(upload)) = (self.ahead.take(), self.upload.take()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // A part that arrives after its upload was aborted might be kept, so it is waited for.
            let _ = ahead.await;
            drop(upload);
        });
    }
}

/// A multipart upload. Aborted when it is dropped.
#[derive(Debug)]
struct Multipart {
    place: S3Place,
    path: Path,
    id: String,
    note: Path,
    completed: bool,
}

/// What is written down about it.
#[derive(Serialize, Deserialize)]
struct Note {
    path: String,
    id: String,
}

impl Multipart {
    async fn begin(place: S3Place, path: Path) -> Result<Multipart, StorageError> {
        let id = place.0.store.create_multipart(&path).await?;
        crash::point("multipart.begun");
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StorageError::Failed(error.to_string()))?;
        let note = place.0.at(&format!("{PENDING}/{}", uuid::Builder::from_random_bytes(random).as_uuid()));
        let upload = Multipart { place, path, id, note, completed: false };
        let text = Note { path: upload.path.to_string(), id: upload.id.clone() };
        let text = serde_json::to_vec(&text).map_err(|error| StorageError::Failed(error.to_string()))?;
        upload.place.0.store.put(&upload.note, text.into()).await?;
        crash::point("multipart.noted");
        Ok(upload)
    }

    async fn complete(mut self, parts: Vec<PartId>) -> Result<(), StorageError> {
        self.place.0.store.complete_multipart(&self.path, &self.id, parts).await?;
        self.completed = true;
        crash::point("multipart.completed");
        // The file is there: a note that stays only costs the sweep a look.
        if let Err(error) = self.place.0.delete(&self.note).await {
            tracing::warn!(%error, note = %self.note, "the note of a completed upload could not be deleted");
        }
        Ok(())
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        // Without a runtime the program is ending; the sweep of the next one finds the note.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.completed {
            return;
        }
        let (place, path, id, note) = (self.place.clone(), self.path.clone(), self.id.clone(), self.note.clone());
        runtime.spawn(async move {
            if let Err(error) = abort(&place, &path, &id, &note).await {
                tracing::warn!(%error, %path, "an upload could not be aborted; the sweep will try again");
            }
        });
    }
}

async fn abort(place: &S3Place, path: &Path, id: &String, note: &Path) -> Result<(), StorageError> {
    match place.0.store.abort_multipart(path, id).await.map_err(StorageError::from) {
        // It was completed or aborted, and only its note is left.
        Ok(()) | Err(StorageError::NotFound) => place.0.delete(note).await,
        Err(error) => Err(error),
    }
}

/// Aborts multipart uploads that were begun before this moment and are still written down.
pub(super) async fn sweep(place: &S3Place, before: SystemTime) -> Result<usize, StorageError> {
    let folder = place.0.at(PENDING);
    let notes: Vec<_> = place.0.store.list(Some(&folder)).try_collect().await?;
    let mut swept = 0;
    for note in notes.iter().filter(|note| SystemTime::from(note.last_modified) < before) {
        let text = match place.0.store.get(&note.location).await {
            Ok(found) => found.bytes().await?,
            // Another server is sweeping too.
            Err(object_store::Error::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let Ok(Note { path, id }) = serde_json::from_slice(&text) else {
            tracing::warn!(note = %note.location, "a note of an upload cannot be read; it is left alone");
            continue;
        };
        match abort(place, &Path::from(path), &id, &note.location).await {
            Ok(()) => swept += 1,
            Err(error) => tracing::warn!(%error, note = %note.location, "a left upload could not be aborted"),
        }
    }
    Ok(swept)
}
