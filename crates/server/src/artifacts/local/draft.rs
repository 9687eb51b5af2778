//! A file that is being written: under a name of its own, until it is whole and on the disk.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::{DRAFTS, LocalPlace};
use crate::artifacts::error::StorageError;
use crate::artifacts::path::ArtifactPath;
use crate::artifacts::place::Draft;
use crate::crash;

/// After so many bytes the disk is asked to write them, while more come: the flush at the end then finds little to do.
const FLUSH_BYTES: u64 = 64 << 20;
/// After so many bytes it is looked again whether there is room.
const ROOM_BYTES: u64 = 64 << 20;

/// A draft in a directory.
#[derive(Debug)]
pub(super) struct LocalDraft {
    place: LocalPlace,
    file: Arc<File>,
    /// Removed when this is dropped, unless it was published.
    name: Name,
    target: PathBuf,
    written: u64,
    flush: Flush,
}

impl LocalDraft {
    /// Makes an empty file that nobody looks for.
    pub fn begin(place: LocalPlace, path: &ArtifactPath) -> Result<LocalDraft, StorageError> {
        let target = place.0.at(path);
        let name = place.0.path.join(DRAFTS).join(uuid::Builder::from_random_bytes(random()).as_uuid().to_string());
        let file = File::options().write(true).create_new(true).open(&name)?;
        Ok(LocalDraft {
            place,
            file: Arc::new(file),
            name: Name { path: name, published: false },
            target,
            written: 0,
            flush: Flush::default(),
        })
    }
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    // A name that must not meet another; nothing that a replay depends on.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

#[async_trait]
impl Draft for LocalDraft {
    async fn write(&mut self, chunks: &[Bytes]) -> Result<(), StorageError> {
        let size: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let look = self.written == 0 || self.written / ROOM_BYTES != (self.written + size) / ROOM_BYTES;
        self.written += size;
        let (place, file, chunks) = (self.place.clone(), self.file.clone(), chunks.to_vec());
        self.place
            .blocking(move |_| {
                if look {
                    place.0.check_room(size)?;
                }
                Ok(chunks.iter().try_for_each(|chunk| (&*file).write_all(chunk))?)
            })
            .await?;
        self.flush.after(&self.file, size).await
    }

    async fn publish(mut self: Box<Self>) -> Result<(), StorageError> {
        self.flush.finish().await?;
        let (file, name, target) = (self.file, self.name, self.target);
        self.place
            .blocking(move |root| {
                file.sync_all()?;
                crash::point("draft.synced");
                root.publish(&name.path, &target)?;
                crash::point("draft.renamed");
                name.given_up();
                Ok(())
            })
            .await
    }
}

/// The draft's name on the disk.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    published: bool,
}

impl Name {
    /// The file has another name now.
    fn given_up(mut self) {
        self.published = true;
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let path = std::mem::take(&mut self.path);
        let remove = move || {
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, path = %path.display(), "a draft could not be removed; the sweep will try again");
            }
        };
        // Freeing a large file takes its time.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Writes to the disk in the background what has gathered in the system's memory.
#[derive(Debug, Default)]
pub(super) struct Flush {
    unflushed: u64,
    running: Option<JoinHandle<std::io::Result<()>>>,
}

impl Flush {
    /// Takes note of more bytes. A flush that is still running is left to itself: waiting for it would let the disk decide how
    /// fast bytes are taken, and the flush at the end waits for all of them anyway.
    pub async fn after(&mut self, file: &Arc<File>, bytes: u64) -> Result<(), StorageError> {
        self.unflushed += bytes;
        let idle = self.running.as_ref().is_none_or(JoinHandle::is_finished);
        if self.unflushed >= FLUSH_BYTES && idle {
            self.finish().await?;
            let file = file.clone();
            self.running = Some(tokio::task::spawn_blocking(move || file.sync_data()));
            self.unflushed = 0;
        }
        Ok(())
    }

    /// Waits for the flush that is running. An error of the disk is told only once, so nobody may miss it.
    pub async fn finish(&mut self) -> Result<(), StorageError> {
        match self.running.take() {
            Some(running) => Ok(running.await??),
            None => Ok(()),
        }
    }
}
