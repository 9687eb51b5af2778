//! An upload that is being continued: a row of objects, since an object cannot grow.
//!
//! The names of the objects hold a number of this writer, and the upload's record says which of them count. So when two servers
//! continue one upload at the same moment, each writes a row that is right in itself, and the record written last wins.

use async_trait::async_trait;
use bytes::Bytes;
use object_store::{ObjectStoreExt, PutPayload};
use uuid::Uuid;

use super::{PART_BYTES, S3Place};
use crate::artifacts::error::StorageError;
use crate::artifacts::path::ArtifactPath;
use crate::artifacts::place::{Append, Part, Progress};

/// Parts of one upload. With parts of full size this is 50 GB; who sends crumbs gets less.
const PARTS_MAX: usize = 10_000;

/// The objects of an upload.
#[derive(Debug)]
pub(super) struct S3Append {
    place: S3Place,
    upload: Uuid,
    writer: u64,
    /// What is in the bucket, and will count once it is committed.
    progress: Progress,
    committed_parts: usize,
    gathered: Vec<Bytes>,
    gathered_bytes: u64,
}

impl S3Append {
    /// Goes on after the parts that count.
    pub fn begin(place: S3Place, upload: Uuid, progress: Progress, writer: u64) -> S3Append {
        let committed_parts = progress.parts.len();
        S3Append { place, upload, writer, progress, committed_parts, gathered: Vec::new(), gathered_bytes: 0 }
    }

    async fn send(&mut self) -> Result<(), StorageError> {
        if self.gathered_bytes == 0 {
            return Ok(());
        }
        if self.progress.parts.len() >= PARTS_MAX {
            return Err(StorageError::Source(crate::Error::Invalid(
                "the upload came in too many small pieces; send larger ones".into(),
            )));
        }
        let name = format!("{:05}-{:016x}", self.progress.parts.len(), self.writer);
        let path = self.place.0.at(ArtifactPath::of_upload(self.upload, &name).as_str());
        let size = std::mem::take(&mut self.gathered_bytes);
        self.place.0.store.put(&path, PutPayload::from_iter(self.gathered.drain(..))).await?;
        self.progress.parts.push(Part { name, size });
        self.progress.offset += size;
        Ok(())
    }
}

#[async_trait]
impl Append for S3Append {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        self.gathered_bytes += chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        self.gathered.extend(chunks.iter().cloned());
        match self.gathered_bytes >= PART_BYTES {
            true => self.send().await,
            false => Ok(()),
        }
    }

    async fn commit(&mut self) -> Result<Progress, StorageError> {
        self.send().await?;
        self.committed_parts = self.progress.parts.len();
        Ok(self.progress.clone())
    }

    async fn roll_back(&mut self) -> Result<(), StorageError> {
        for part in self.progress.parts.drain(self.committed_parts..) {
            self.progress.offset -= part.size;
            self.place.0.delete(&self.place.0.at(ArtifactPath::of_upload(self.upload, &part.name).as_str())).await?;
        }
        Ok(())
    }
}
