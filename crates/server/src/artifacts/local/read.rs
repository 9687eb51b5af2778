//! Reading a file as a stream: one chunk is on its way to the client, the next is being read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;

use crate::artifacts::error::StorageError;
use crate::artifacts::place::Reading;

/// Read at once.
const CHUNK_BYTES: u64 = 256 << 10;
/// Chunks that were given out and whose memory may be used again, at most.
const GIVEN_MAX: usize = 3;

/// A file that is being read.
struct Reader {
    /// The chunk that is being read; it gives the file back.
    running: Option<JoinHandle<(File, Result<Bytes, StorageError>)>>,
    left: u64,
    /// Chunks that the client may still be busy with, oldest first.
    given: Vec<Bytes>,
}

/// Opens a part of a file. Must be called where waiting for the disk is allowed.
pub(super) fn open(path: &Path, range: Range<u64>) -> Result<Reading, StorageError> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size < range.end {
        return Err(StorageError::Damaged(format!("{} has {size} bytes, not {}", path.display(), range.end)));
    }
    file.seek(SeekFrom::Start(range.start))?;
    let mut reader = Reader { running: None, left: range.end.saturating_sub(range.start), given: Vec::new() };
    reader.begin(file);
    Ok(stream::unfold(reader, Reader::next).boxed())
}

impl Reader {
    /// Begins to read the next chunk, if there is one.
    fn begin(&mut self, mut file: File) {
        let size = self.left.min(CHUNK_BYTES);
        if size == 0 {
            return;
        }
        self.left -= size;
        let buffer = self.spare();
        self.running = Some(tokio::task::spawn_blocking(move || {
            let bytes = read(&mut file, size, buffer);
            (file, bytes)
        }));
    }

    /// The memory of the oldest chunk when the client is done with it, or else new memory.
    fn spare(&mut self) -> Vec<u8> {
        if self.given.is_empty() {
            return Vec::new();
        }
        match self.given.remove(0).try_into_mut() {
            Ok(buffer) => buffer.into(),
            Err(busy) => {
                if self.given.len() < GIVEN_MAX {
                    self.given.insert(0, busy);
                }
                Vec::new()
            }
        }
    }

    async fn next(mut self) -> Option<(Result<Bytes, StorageError>, Reader)> {
        match self.running.take()?.await {
            Ok((file, Ok(bytes))) => {
                self.given.push(bytes.clone());
                self.begin(file);
                Some((Ok(bytes), self))
            }
            Ok((_, Err(error))) => Some((Err(error), self)),
            Err(error) => Some((Err(error.into()), self)),
        }
    }
}

fn read(file: &mut File, size: u64, mut buffer: Vec<u8>) -> Result<Bytes, StorageError> {
    buffer.clear();
    buffer.reserve_exact(size as usize);
    file.take(size).read_to_end(&mut buffer)?;
    match buffer.len() as u64 == size {
        true => Ok(buffer.into()),
        false => Err(StorageError::Damaged("a file became shorter while it was read".into())),
    }
}
