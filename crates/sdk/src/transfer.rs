//! What uploads and downloads share: how far they are, when they hang, why they ended.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep_until};

use crate::ClientError;

/// How long nothing may move. A server that has got all of a large file needs a while to make it durable.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How much of a file is in memory at once.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Told how many bytes have moved so far. It must return quickly. The number can go back, when a transfer begins anew.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// Why a file could not be sent or fetched.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The call did not work out.
    #[error(transparent)]
    Call(#[from] ClientError),
    /// The file on this side cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// What came is not what was stored.
    #[error("the file came damaged: its sha-256 is {found}, it should be {expected}")]
    Damaged {
        /// The sum the server announced.
        expected: String,
        /// The sum of what came.
        found: String,
    },
}

impl TransferError {
    /// True when the same transfer may work later.
    pub fn is_transient(&self) -> bool {
        match self {
            TransferError::Call(error) => error.is_transient(),
            TransferError::Damaged { .. } => true,
            TransferError::File { .. } => false,
        }
    }
}

/// The sha-256 of a file from its start, in hexadecimal digits. Blocks.
pub fn sha256_of(file: &File) -> io::Result<String> {
    let mut file = file;
    file.rewind()?;
    let (mut hasher, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => hasher.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hexadecimal(&hasher.finalize()))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// When something last moved.
pub(crate) struct Pulse(Mutex<Instant>);

impl Pulse {
    pub(crate) fn new() -> Pulse {
        Pulse(Mutex::new(Instant::now()))
    }

    pub(crate) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Resolves when nothing has moved for too long.
    pub(crate) async fn silence(&self) -> ClientError {
        loop {
            let deadline = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + STALL_TIMEOUT;
            if Instant::now() >= deadline {
                return ClientError::Unreachable(format!("nothing moved for {STALL_TIMEOUT:?}"));
            }
            sleep_until(deadline).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_that_of_the_whole_file_wherever_it_was_read_to() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(&file).unwrap(), abc);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_counted_from_the_last_move() {
        let pulse = Pulse::new();
        let begun = Instant::now();
        tokio::time::sleep(STALL_TIMEOUT / 2).await;
        pulse.beat();
        pulse.silence().await;
        assert!(begun.elapsed() >= STALL_TIMEOUT * 3 / 2, "{:?}", begun.elapsed());
    }
}
