//! Continuing an upload.

use async_trait::async_trait;
use baton_core::Millis;
use bytes::Bytes;
use futures_util::StreamExt;
use sha2::Sha256;

use super::checksum::{Checking, Checksum};
use super::record::Record;
use super::turns::Turn;
use super::{Upload, UploadError, UploadId, Uploads, save, upload};
use crate::artifacts::Storage;
use crate::artifacts::error::StorageError;
use crate::artifacts::place::{Append, Source};
use crate::artifacts::pump::{self, Sink, pump};
use crate::crash;

/// After so many bytes they are made durable and counted: the most that a crash of the server costs.
const COMMIT_BYTES: u64 = 32 << 20;

/// What a client says of a piece.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Piece {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has, if that was announced.
    pub length: Option<u64>,
    /// Its sum, if one was announced.
    pub checksum: Option<Checksum>,
}

/// An upload, and what has gone into it.
struct Appending {
    storage: Storage,
    id: UploadId,
    append: Box<dyn Append>,
    record: Record,
    hasher: Option<Sha256>,
    checking: Option<Checking>,
    /// Where the upload will be when this is committed.
    offset: u64,
    /// Held by what writes, and not by who asked for it: when the caller gives up, a batch may still be on its way to the
    /// disk, and nobody else may write before it is there.
    turn: Turn,
}

impl Appending {
    async fn commit(&mut self) -> Result<(), StorageError> {
        self.record.progress = self.append.commit().await?;
        crash::point("upload.committed");
        self.record.keep_hasher(self.hasher.as_ref());
        save(&self.storage, self.id, &self.record).await?;
        crash::point("upload.counted");
        Ok(())
    }

    /// What does not count takes no room. Where that fails too, the next piece or the sweep frees it.
    async fn roll_back(&mut self) {
        if let Err(error) = self.append.roll_back().await {
            tracing::warn!(%error, upload = %self.id, "an upload keeps bytes that do not count");
        }
    }
}

#[async_trait]
impl Sink for Appending {
    async fn take(&mut self, batch: Bytes) -> Result<(), StorageError> {
        self.offset += batch.len() as u64;
        if self.offset > self.record.length {
            return Err(StorageError::TooLarge { limit: self.record.length });
        }
        if let Some(checking) = &mut self.checking {
            checking.update(&batch);
        }
        let hasher = self.hasher.take();
        let hashing = async {
            match hasher {
                Some(hasher) => pump::hash(hasher, batch.clone()).await.map(Some),
                None => Ok(None),
            }
        };
        let (hasher, written) = tokio::join!(hashing, self.append.write(std::slice::from_ref(&batch)));
        self.hasher = hasher?;
        written?;
        crash::point("upload.part");
        // A piece with a sum counts as a whole, or not at all.
        if self.checking.is_none() && self.offset - self.record.progress.offset >= COMMIT_BYTES {
            self.commit().await?;
        }
        Ok(())
    }
}

impl Uploads {
    /// Adds a piece. When the connection is cut, what came so far counts, unless the piece has a checksum: then it counts
    /// whole or not at all.
    pub async fn append(
        &self,
        id: UploadId,
        owner: &str,
        piece: Piece,
        source: Source<'_>,
        now: Millis,
    ) -> Result<Upload, UploadError> {
        let Piece { offset, length, checksum } = piece;
        let turn = self.turns.take(id.0).await;
        let mut record = self.load(id, owner, now).await?;
        if record.progress.offset != offset {
            return Err(UploadError::WrongOffset { offset: record.progress.offset });
        }
        if offset.saturating_add(length.unwrap_or(0)) > record.length {
            return Err(StorageError::TooLarge { limit: record.length }.into());
        }
        self.storage.check_room(length.unwrap_or(record.length - offset)).await?;
        record.expires_at = now.saturating_add(self.limits.expires_after_ms);
        let appending = Appending {
            storage: self.storage.clone(),
            id,
            append: self.storage.place.append(id.0, &record.progress, self.entropy.bits()).await?,
            hasher: record.hasher(),
            record,
            checking: checksum.map(Checksum::begin),
            offset,
            turn,
        };
        let source = source.take_until(Box::pin(appending.turn.wanted())).boxed();
        let (appending, pumped) = pump(source, appending).await;
        let Some(mut appending) = appending else {
            return Err(StorageError::Failed("the upload was lost".into()).into());
        };
        let received = appending.offset - offset;
        // A piece of unknown length may have ended by itself at that moment; then it is asked for once more.
        let stopped = appending.turn.is_wanted() && length != Some(received);
        let failure = match pumped {
            Ok(()) if stopped => Some(UploadError::Overtaken),
            Ok(()) => None,
            Err(error) => Some(UploadError::Storage(error)),
        };
        let checked = appending.checking.take().map(Checking::holds);
        let (counts, failure) = match (failure, checked) {
            (None, Some(false)) => (false, Some(UploadError::WrongChecksum)),
            (None, Some(true) | None) => (true, None),
            // Who has sent part of a piece goes on behind it, unless only the whole piece can be checked.
            (Some(error @ (UploadError::Overtaken | UploadError::Storage(StorageError::Source(_)))), checked) => {
                (checked.is_none(), Some(error))
            }
            (Some(error), _) => (false, Some(error)),
        };
        let committed = match counts {
            true => appending.commit().await,
            false => Ok(()),
        };
        if !counts || committed.is_err() {
            appending.roll_back().await;
        }
        committed?;
        failure.map_or_else(|| Ok(upload(id, &appending.record)), Err)
    }
}
