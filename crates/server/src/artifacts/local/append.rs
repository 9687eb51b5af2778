//! An upload that is being continued: one file that grows.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::LocalPlace;
use super::draft::Flush;
use crate::artifacts::error::StorageError;
use crate::artifacts::place::{Append, Progress};

/// The file of an upload, open at its end.
#[derive(Debug)]
pub(super) struct LocalAppend {
    place: LocalPlace,
    file: Arc<File>,
    committed: u64,
    offset: u64,
    flush: Flush,
}

impl LocalAppend {
    /// Opens the file where it counts up to; what is behind that was never acknowledged.
    pub fn begin(place: LocalPlace, upload: Uuid, offset: u64) -> Result<LocalAppend, StorageError> {
        let path = place.0.data(upload);
        if offset == 0
            && let Some(folder) = path.parent()
        {
            place.0.make_folder(folder)?;
        }
        let mut file = File::options().write(true).create(true).truncate(false).open(&path)?;
        let size = file.metadata()?.len();
        if size < offset {
            return Err(StorageError::Damaged(format!("{} has {size} bytes, not {offset}", path.display())));
        }
        file.set_len(offset)?;
        file.seek(SeekFrom::Start(offset))?;
        if offset == 0
            && let Some(folder) = path.parent()
        {
            super::sync_directory(folder)?;
        }
        Ok(LocalAppend { place, file: Arc::new(file), committed: offset, offset, flush: Flush::default() })
    }
}

#[async_trait]
impl Append for LocalAppend {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        let size: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        self.offset += size;
        let (file, chunks) = (self.file.clone(), chunks.to_vec());
        self.place.blocking(move |_| Ok(chunks.iter().try_for_each(|chunk| (&*file).write_all(chunk))?)).await?;
        self.flush.after(&self.file, size).await
    }

    async fn commit(&mut self) -> Result<Progress, StorageError> {
        self.flush.finish().await?;
        let file = self.file.clone();
        self.place.blocking(move |_| Ok(file.sync_all()?)).await?;
        self.committed = self.offset;
        Ok(Progress { offset: self.offset, parts: Vec::new() })
    }

    async fn roll_back(&mut self) -> Result<(), StorageError> {
        let (file, committed) = (self.file.clone(), self.committed);
        self.place.blocking(move |_| Ok(file.set_len(committed)?)).await
    }
}
