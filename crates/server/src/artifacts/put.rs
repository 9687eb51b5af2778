//! Storing a file: streamed, hashed on the way, published whole or not at all.

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::Storage;
use super::digest::Sha256Sum;
use super::error::StorageError;
use super::path::ArtifactPath;
use super::place::{Draft, Source};
use super::pump::{self, Sink, pump};
use crate::crash;

/// What a file has to be like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Terms {
    /// The most it may have.
    pub bytes_max: u64,
    /// How many bytes were announced, if any were.
    pub length: Option<u64>,
    /// The sum that was announced, if one was.
    pub sha256: Option<Sha256Sum>,
}

impl Terms {
    /// Any file up to this size.
    pub fn up_to(bytes_max: u64) -> Terms {
        Terms { bytes_max, length: None, sha256: None }
    }

    /// What is known before the first byte came.
    pub(super) fn check_announced(&self) -> Result<(), StorageError> {
        match self.length {
            Some(length) if length > self.bytes_max => Err(StorageError::TooLarge { limit: self.bytes_max }),
            _ => Ok(()),
        }
    }

    /// What is known after the last.
    pub(crate) fn check(&self, stored: &Stored) -> Result<(), StorageError> {
        match (self.length, self.sha256) {
            (Some(announced), _) if announced != stored.size => {
                Err(StorageError::WrongLength { announced, received: stored.size })
            }
            (_, Some(announced)) if announced != stored.sha256 => {
                Err(StorageError::WrongDigest { announced, received: stored.sha256 })
            }
            _ => Ok(()),
        }
    }
}

/// What was stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// In bytes.
    pub size: u64,
    /// Its sum.
    pub sha256: Sha256Sum,
}

/// A draft, and what has gone into it.
struct Putting {
    draft: Box<dyn Draft>,
    hasher: Sha256,
    size: u64,
    bytes_max: u64,
}

#[async_trait]
impl Sink for Putting {
    async fn take(&mut self, batch: Bytes) -> Result<(), StorageError> {
        self.size += batch.len() as u64;
        if self.size > self.bytes_max {
            return Err(StorageError::TooLarge { limit: self.bytes_max });
        }
        let hashing = pump::hash(std::mem::take(&mut self.hasher), batch.clone());
        let (hasher, written) = tokio::join!(hashing, self.draft.write(std::slice::from_ref(&batch)));
        self.hasher = hasher?;
        written?;
        crash::point("draft.part");
        Ok(())
    }
}

impl Storage {
    /// Stores a file. It is durable and visible when this returns, and replaces what was there in one step; on any error,
    /// and when the future is dropped, nothing is left of it.
    pub async fn put(&self, path: &ArtifactPath, source: Source<'_>, terms: Terms) -> Result<Stored, StorageError> {
        terms.check_announced()?;
        self.place.check_room(terms.length.unwrap_or(0)).await?;
        let bytes_max = terms.length.unwrap_or(terms.bytes_max);
        let draft = self.place.draft(path, bytes_max).await?;
        let putting = Putting { draft, hasher: Sha256::new(), size: 0, bytes_max };
        let (putting, pumped) = pump(source, putting).await;
        match (pumped, terms.length) {
            // More than was announced, and not more than is allowed.
            (Err(StorageError::TooLarge { .. }), Some(announced)) => {
                return Err(StorageError::WrongLength { announced, received: announced + 1 });
            }
            (result, _) => result?,
        }
        let Some(Putting { draft, hasher, size, .. }) = putting else {
            return Err(StorageError::Failed("the draft was lost".into()));
        };
        let stored = Stored { size, sha256: Sha256Sum(hasher.finalize().into()) };
        terms.check(&stored)?;
        draft.publish().await?;
        Ok(stored)
    }

    /// Stores a small file that is in memory.
    pub(super) async fn put_bytes(&self, path: &ArtifactPath, bytes: Bytes) -> Result<(), StorageError> {
        let mut draft = self.place.draft(path, bytes.len() as u64).await?;
        draft.write(&[bytes]).await?;
        draft.publish().await
    }
}
