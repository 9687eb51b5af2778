//! What is written down about an upload, next to its bytes.

use baton_core::Millis;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use sha2::digest::common::hazmat::{SerializableState, SerializedState};

use crate::artifacts::place::Progress;

/// The record of an upload. Bytes that it does not count were never acknowledged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// Whose it is; a word of the caller's.
    pub owner: String,
    pub length: u64,
    /// As the client sent it.
    pub metadata: String,
    pub expires_at: Millis,
    pub progress: Progress,
    /// The state of the hash at `progress.offset`, so that nothing is read twice.
    pub hash: Option<String>,
}

impl Record {
    /// The hash of everything so far, or `None` when another version wrote it in another way: then the bytes are read again.
    pub fn hasher(&self) -> Option<Sha256> {
        if self.progress.offset == 0 {
            return Some(Sha256::default());
        }
        let text = self.hash.as_deref()?.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let mut state = SerializedState::<Sha256>::default();
        if text.len() != 2 * state.len() {
            return None;
        }
        for (byte, digits) in state.iter_mut().zip(text.chunks(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Sha256::deserialize(&state).ok()
    }

    /// Takes note of the hash of everything so far.
    pub fn keep_hasher(&mut self, hasher: Option<&Sha256>) {
        let text = |hasher: &Sha256| hasher.serialize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.hash = hasher.map(text);
    }
}

#[cfg(test)]
mod tests {
    use sha2::Digest;

    use super::*;

    #[test]
    fn a_hash_goes_on_where_it_was() {
        let mut record = Record {
            owner: String::new(),
            length: 11,
            metadata: String::new(),
            expires_at: 0,
            progress: Progress { offset: 6, parts: Vec::new() },
            hash: None,
        };
        assert!(record.hasher().is_none(), "what is not known is not made up");
        record.keep_hasher(Some(&Sha256::new_with_prefix(b"hello ")));
        let again: Record = serde_json::from_slice(&serde_json::to_vec(&record).unwrap()).unwrap();
        let hash = again.hasher().unwrap().chain_update(b"world").finalize();
        assert_eq!(hash, Sha256::digest(b"hello world"));
        record.hash = Some("00".into());
        assert!(record.hasher().is_none());
    }
}
