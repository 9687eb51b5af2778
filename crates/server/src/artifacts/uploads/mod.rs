//! Uploads that survive a cut connection. A client creates one, sends pieces, asks how far it got, and goes on from there;
//! when all of it is there, it becomes an artifact. [`tus`] speaks the protocol; this file knows what it means.

mod append;
mod checksum;
mod error;
mod record;
mod turns;
pub mod tus;

pub use append::Piece;
pub use checksum::Checksum;
pub use error::UploadError;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use baton_core::Millis;
use bytes::BytesMut;
use futures_util::{StreamExt, TryStreamExt};
use sha2::Digest;
use uuid::Uuid;

use self::record::Record;
use self::turns::Turns;
use super::digest::Sha256Sum;
use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Progress, Reading};
use super::put::{Stored, Terms};
use super::{Storage, pump};
use crate::crash;
use crate::entropy::Entropy;

/// Longest `Upload-Metadata`, in bytes.
const METADATA_BYTES_MAX: usize = 4_096;
/// The record, in the folder of the upload.
pub(super) const RECORD: &str = "record.json";

/// Names one upload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UploadId(Uuid);

impl UploadId {
    /// The identifier of the file it becomes: always the same, so that a repeated call finds what the one before has done.
    pub(crate) fn file_id(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for UploadId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<UploadId, uuid::Error> {
        Uuid::parse_str(text).map(UploadId)
    }
}

/// What uploads may be like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UploadLimits {
    /// The most one may have.
    pub bytes_max: u64,
    /// How long one is kept after its last piece.
    pub expires_after_ms: Millis,
}

/// An upload, as its owner sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Upload {
    /// Its name.
    pub id: UploadId,
    /// How many bytes it will have.
    pub length: u64,
    /// How many it has.
    pub offset: u64,
    /// As the client sent it.
    pub metadata: String,
    /// When it is deleted unless it goes on.
    pub expires_at: Millis,
}

impl Upload {
    /// True when all bytes are there.
    pub fn is_complete(&self) -> bool {
        self.offset == self.length
    }

    /// A value of the metadata.
    pub fn metadata(&self, name: &str) -> Option<String> {
        let pairs = self.metadata.split(',').map(|pair| pair.trim().split_once(' ').unwrap_or((pair.trim(), "")));
        let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
        String::from_utf8(BASE64.decode(value.trim()).ok()?).ok()
    }
}

/// All uploads under way.
#[derive(Debug)]
pub struct Uploads {
    storage: Storage,
    limits: UploadLimits,
    entropy: Arc<dyn Entropy>,
    turns: Turns,
}

impl Uploads {
    /// Uploads into this storage.
    pub fn new(storage: Storage, limits: UploadLimits, entropy: Arc<dyn Entropy>) -> Uploads {
        Uploads { storage, limits, entropy, turns: Turns::default() }
    }

    /// What uploads may be like.
    pub fn limits(&self) -> UploadLimits {
        self.limits
    }

    /// Begins an upload of so many bytes. `owner` is any word by which the caller knows whose it is.
    pub async fn create(&self, owner: &str, length: u64, metadata: &str, now: Millis) -> Result<Upload, UploadError> {
        if length > self.limits.bytes_max {
            return Err(StorageError::TooLarge { limit: self.limits.bytes_max }.into());
        }
        if metadata.len() > METADATA_BYTES_MAX {
            return Err(UploadError::Invalid(format!("Upload-Metadata is longer than {METADATA_BYTES_MAX} bytes")));
        }
        self.storage.check_room(length).await?;
        let mut random = [0; 16];
        self.entropy.fill(&mut random);
        let id = UploadId(uuid::Builder::from_random_bytes(random).into_uuid());
        let record = Record {
            owner: owner.into(),
            length,
            metadata: metadata.into(),
            expires_at: now.saturating_add(self.limits.expires_after_ms),
            progress: Progress::default(),
            hash: None,
        };
        save(&self.storage, id, &record).await?;
        crash::point("upload.created");
        Ok(upload(id, &record))
    }

    /// How far an upload is. A piece that is being sent is stopped and counted first, so that the answer is still true when
    /// the client goes on from there.
    pub async fn get(&self, id: UploadId, owner: &str, now: Millis) -> Result<Upload, UploadError> {
        let _turn = self.turns.take(id.0).await;
        Ok(upload(id, &self.load(id, owner, now).await?))
    }

    /// Forgets an upload.
    pub async fn delete(&self, id: UploadId, owner: &str, now: Millis) -> Result<(), UploadError> {
        let _turn = self.turns.take(id.0).await;
        self.load(id, owner, now).await?;
        Ok(self.storage.delete_folder(&Folder::of_upload(id.0)).await?)
    }

    /// Makes a complete upload the file at `path`. May be repeated with the same path until the upload is forgotten, which is the
    /// caller's to do once the file is written down: whoever falls before that finds everything still there.
    pub async fn finish(
        &self,
        id: UploadId,
        owner: &str,
        path: &ArtifactPath,
        terms: Terms,
        now: Millis,
    ) -> Result<Stored, UploadError> {
        let _turn = self.turns.take(id.0).await;
        let record = self.load(id, owner, now).await?;
        let Record { length, ref progress, .. } = record;
        if progress.offset != length {
            return Err(UploadError::Incomplete { offset: progress.offset, length });
        }
        let terms = Terms { length: Some(length), ..terms };
        terms.check_announced()?;
        let hasher = match record.hasher() {
            Some(hasher) => hasher,
            None => hash_all(self.storage.place.read_upload(id.0, progress).await?).await?,
        };
        let stored = Stored { size: length, sha256: Sha256Sum(hasher.finalize().into()) };
        terms.check(&stored)?;
        if !self.storage.place.adopt(id.0, progress, path).await? {
            let whole = self.storage.place.read_upload(id.0, progress).await?;
            let terms = Terms { sha256: Some(stored.sha256), ..terms };
            self.storage.put(path, whole.map_err(crate::Error::from).boxed(), terms).await?;
        }
        crash::point("upload.moved");
        Ok(stored)
    }

    /// Forgets an upload that has become a file.
    pub async fn forget(&self, id: UploadId) -> Result<(), StorageError> {
        let _turn = self.turns.take(id.0).await;
        self.storage.delete_folder(&Folder::of_upload(id.0)).await
    }

    /// Deletes uploads that have expired; returns how many.
    pub async fn sweep(&self, now: Millis) -> Result<usize, UploadError> {
        let mut swept = 0;
        for name in self.storage.place.folders(&Folder::uploads()).await? {
            let Ok(id) = name.parse::<UploadId>() else { continue };
            // Without a record there is no upload: it is being deleted, or was left half deleted.
            let expired = read(&self.storage, id).await?.is_none_or(|record| record.expires_at <= now);
            if expired {
                let _turn = self.turns.take(id.0).await;
                // Looked at again, now that nobody writes to it.
                if read(&self.storage, id).await?.is_none_or(|record| record.expires_at <= now) {
                    self.storage.delete_folder(&Folder::of_upload(id.0)).await?;
                    swept += 1;
                }
            }
        }
        Ok(swept)
    }

    async fn load(&self, id: UploadId, owner: &str, now: Millis) -> Result<Record, UploadError> {
        match read(&self.storage, id).await? {
            // Somebody else's is not there.
            Some(record) if record.owner != owner => Err(UploadError::NotFound),
            Some(record) if record.expires_at <= now => Err(UploadError::Expired),
            Some(record) => Ok(record),
            None => Err(UploadError::NotFound),
        }
    }
}

fn upload(id: UploadId, record: &Record) -> Upload {
    Upload {
        id,
        length: record.length,
        offset: record.progress.offset,
        metadata: record.metadata.clone(),
        expires_at: record.expires_at,
    }
}

/// Writes the record; from then on its progress counts.
async fn save(storage: &Storage, id: UploadId, record: &Record) -> Result<(), StorageError> {
    let text = serde_json::to_vec(record).map_err(|error| StorageError::Failed(error.to_string()))?;
    storage.put_bytes(&ArtifactPath::of_upload(id.0, RECORD), text.into()).await
}

async fn read(storage: &Storage, id: UploadId) -> Result<Option<Record>, StorageError> {
    let path = ArtifactPath::of_upload(id.0, RECORD);
    let Some(found) = storage.stat(&path).await? else { return Ok(None) };
    let mut text = BytesMut::new();
    let mut reading = match storage.read(&path, 0..found.size).await {
        Err(StorageError::NotFound) => return Ok(None),
        reading => reading?,
    };
    while let Some(chunk) = reading.next().await {
        text.extend_from_slice(&chunk?);
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| StorageError::Damaged(format!("{path:?}: {error}")))
}

async fn hash_all(mut reading: Reading) -> Result<sha2::Sha256, StorageError> {
    let mut hasher = sha2::Sha256::new();
    while let Some(chunk) = reading.next().await {
        hasher = pump::hash(hasher, chunk?).await?;
    }
    Ok(hasher)
}
