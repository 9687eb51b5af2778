//! Files that are encrypted where they lie: certificates and their passwords.
//!
//! Each file has a key of its own, and that key lies in front of it, encrypted with one that is derived from the installation's
//! secret. The file is a row of chunks, each authenticated with its number and whether it is the last (STREAM): a
//! file that was cut off, put together anew or moved to another name is noticed, and so is every changed bit.
//!
//! ```text
//! "baton-sealed-2\n"  generation (4)  nonce (24)  wrapped key (32 + 16)  nonce of the chunks (19)  chunks (up to 65536 + 16 each)
//! ```
//!
//! Files of generation 0, from before the secret had generations, begin with `baton-sealed-1` and do not name it.

use std::sync::Arc;

use aead_stream::{DecryptorBE32, EncryptorBE32};
use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use futures_util::{StreamExt, stream};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::Storage;
use super::digest::Sha256Sum;
use super::error::StorageError;
use super::path::ArtifactPath;
use super::place::{Draft, Reading, Source};
use super::pump::{Sink, pump};
use super::put::{Stored, Terms};
use crate::entropy::Entropy;

/// Largest sealed file, in bytes of what is inside.
pub const SEALED_BYTES_MAX: u64 = 16 << 20;

const MAGIC: &[u8; 15] = b"baton-sealed-2\n";
const MAGIC_BEFORE: &[u8; 15] = b"baton-sealed-1\n";
const GENERATION: usize = 4;
const NONCE: usize = 24;
const KEY: usize = 32;
const TAG: usize = 16;
const STREAM_NONCE: usize = 19;
/// The longest head. The shortest file has more, of either kind.
const HEAD: usize = MAGIC.len() + GENERATION + NONCE + KEY + TAG + STREAM_NONCE;
/// Plain bytes of a chunk.
const CHUNK: usize = 64 << 10;
const SEALED_CHUNK: usize = CHUNK + TAG;

/// Seals and opens files. The key it holds is good for nothing else.
#[derive(Clone)]
pub struct Seal {
    generation: u32,
    wrapping: XChaCha20Poly1305,
    entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

/// The seals that files may have.
pub trait Seals: Sync {
    /// That of this generation of the installation's secret.
    fn of(&self, generation: u32) -> Option<&Seal>;
}

impl Seals for Seal {
    fn of(&self, generation: u32) -> Option<&Seal> {
        (self.generation == generation).then_some(self)
    }
}

impl Seal {
    /// Derives the key from a generation of the installation's secret.
    pub fn new(generation: u32, secret: &[u8; 32], entropy: Arc<dyn Entropy>) -> Seal {
        let mut key = Zeroizing::new([0; KEY]);
        Hkdf::<Sha256>::new(None, secret)
            .expand(b"baton: key that wraps the keys of sealed artifacts", &mut *key)
            .expect("32 bytes are fewer than 255 hashes");
        Seal { generation, wrapping: XChaCha20Poly1305::new(&Key::from(*key)), entropy }
    }

    /// A fresh key and the head of the file that holds it. The path is bound to it, so that one file cannot take the
    /// place of another.
    fn begin(&self, path: &ArtifactPath) -> Result<(Bytes, EncryptorBE32<XChaCha20Poly1305>), StorageError> {
        let mut key = Zeroizing::new([0; KEY]);
        let (mut nonce, mut stream_nonce) = ([0; NONCE], [0; STREAM_NONCE]);
        self.entropy.fill(&mut *key);
        self.entropy.fill(&mut nonce);
        self.entropy.fill(&mut stream_nonce);
        let payload = Payload { msg: &*key, aad: path.as_str().as_bytes() };
        let wrapped = self.wrapping.encrypt(&XNonce::from(nonce), payload);
        let wrapped = wrapped.map_err(|_| StorageError::Failed("a key could not be wrapped".into()))?;
        let generation = self.generation.to_be_bytes();
        let head = match self.generation {
            0 => [&MAGIC_BEFORE[..], &nonce, &wrapped, &stream_nonce].concat(),
            _ => [&MAGIC[..], &generation, &nonce, &wrapped, &stream_nonce].concat(),
        };
        let chunks = EncryptorBE32::from_aead(XChaCha20Poly1305::new(&Key::from(*key)), &stream_nonce.into());
        Ok((head.into(), chunks))
    }

    fn open(&self, path: &ArtifactPath, head: &[u8]) -> Result<DecryptorBE32<XChaCha20Poly1305>, StorageError> {
        let damaged = || StorageError::Damaged(format!("{path:?} is not sealed with this installation's secret"));
        let (nonce, rest) = head.split_first_chunk::<NONCE>().ok_or_else(damaged)?;
        let (wrapped, rest) = rest.split_first_chunk::<{ KEY + TAG }>().ok_or_else(damaged)?;
        let stream_nonce: [u8; STREAM_NONCE] = rest.try_into().map_err(|_| damaged())?;
        let payload = Payload { msg: wrapped, aad: path.as_str().as_bytes() };
        let key = Zeroizing::new(self.wrapping.decrypt(&XNonce::from(*nonce), payload).map_err(|_| damaged())?);
        let key = <[u8; KEY]>::try_from(&key[..]).map(Zeroizing::new).map_err(|_| damaged())?;
        Ok(DecryptorBE32::from_aead(XChaCha20Poly1305::new(&Key::from(*key)), &stream_nonce.into()))
    }
}

/// Seals what it is given, and writes it.
struct Sealing {
    draft: Box<dyn Draft>,
    chunks: EncryptorBE32<XChaCha20Poly1305>,
    /// Less than a chunk, or exactly one: the last chunk is sealed in another way, so one is always kept back.
    plain: BytesMut,
    hasher: Sha256,
    size: u64,
    bytes_max: u64,
}

#[async_trait]
impl Sink for Sealing {
    async fn take(&mut self, batch: Bytes) -> Result<(), StorageError> {
        self.size += batch.len() as u64;
        if self.size > self.bytes_max {
            return Err(StorageError::TooLarge { limit: self.bytes_max });
        }
        self.hasher.update(&batch);
        self.plain.extend_from_slice(&batch);
        let mut sealed = Vec::new();
        while self.plain.len() > CHUNK {
            let chunk = self.plain.split_to(CHUNK);
            sealed.push(self.chunks.encrypt_next(&chunk[..]).map_err(|_| cannot_seal())?.into());
        }
        self.draft.write(&sealed).await
    }
}

fn cannot_seal() -> StorageError {
    StorageError::Failed("a chunk could not be sealed".into())
}

impl Storage {
    /// Stores a file sealed. `terms`, and what is returned, are about what is inside.
    pub async fn put_sealed(
        &self,
        seal: &Seal,
        path: &ArtifactPath,
        source: Source<'_>,
        terms: Terms,
    ) -> Result<Stored, StorageError> {
        let terms = Terms { bytes_max: terms.bytes_max.min(SEALED_BYTES_MAX), ..terms };
        terms.check_announced()?;
        self.place.check_room(terms.length.unwrap_or(0)).await?;
        let (head, chunks) = seal.begin(path)?;
        let mut draft = self.place.draft(path, 2 * SEALED_BYTES_MAX).await?;
        draft.write(&[head]).await?;
        let bytes_max = terms.bytes_max;
        let sealing = Sealing { draft, chunks, plain: BytesMut::new(), hasher: Sha256::new(), size: 0, bytes_max };
        let (sealing, pumped) = pump(source, sealing).await;
        pumped?;
        let Some(Sealing { mut draft, chunks, plain, hasher, size, .. }) = sealing else { return Err(cannot_seal()) };
        let stored = Stored { size, sha256: Sha256Sum(hasher.finalize().into()) };
        terms.check(&stored)?;
        draft.write(&[chunks.encrypt_last(&plain[..]).map_err(|_| cannot_seal())?.into()]).await?;
        draft.publish().await?;
        Ok(stored)
    }

    /// Opens a sealed file. Each chunk is checked before it is given out, and the end is an error unless it is the true
    /// one: use nothing before the stream has ended well.
    pub async fn read_sealed(&self, seals: &dyn Seals, path: &ArtifactPath) -> Result<Reading, StorageError> {
        let found = self.stat(path).await?.ok_or(StorageError::NotFound)?;
        let mut opening =
            Opening { reading: self.read(path, 0..found.size).await?, sealed: BytesMut::new(), ended: false };
        opening.gather(HEAD).await?;
        if opening.sealed.len() < HEAD {
            return Err(StorageError::Damaged(format!("{path:?} is too short to be sealed")));
        }
        let unknown = || StorageError::Damaged(format!("{path:?} is not sealed with a secret of this installation"));
        let magic = opening.sealed.split_to(MAGIC.len());
        let generation = match &magic[..] {
            known if known == MAGIC => opening.sealed.get_u32(),
            known if known == MAGIC_BEFORE => 0,
            _ => return Err(unknown()),
        };
        let head = opening.sealed.split_to(HEAD - MAGIC.len() - GENERATION);
        let chunks = seals.of(generation).ok_or_else(unknown)?.open(path, &head)?;
        let name = path.clone();
        Ok(stream::try_unfold((opening, Some(chunks)), move |(mut opening, chunks)| {
            let damaged = StorageError::Damaged(format!("{name:?} was changed or cut off"));
            async move {
                let Some(mut chunks) = chunks else { return Ok(None) };
                // One byte more than a chunk tells whether it is the last.
                opening.gather(SEALED_CHUNK + 1).await?;
                let (plain, chunks) = match opening.sealed.len() > SEALED_CHUNK {
                    true => (chunks.decrypt_next(&opening.sealed[..SEALED_CHUNK]), Some(chunks)),
                    false => (chunks.decrypt_last(&opening.sealed[..]), None),
                };
                let plain = plain.map_err(|_| damaged)?;
                opening.sealed.advance(SEALED_CHUNK.min(opening.sealed.len()));
                Ok(Some((Bytes::from(plain), (opening, chunks))))
            }
        })
        .boxed())
    }

    /// Opens a sealed file, all of it.
    pub async fn open_sealed(&self, seals: &dyn Seals, path: &ArtifactPath) -> Result<Bytes, StorageError> {
        let mut reading = self.read_sealed(seals, path).await?;
        let mut plain = BytesMut::new();
        while let Some(chunk) = reading.next().await {
            plain.extend_from_slice(&chunk?);
            if plain.len() as u64 > SEALED_BYTES_MAX {
                return Err(StorageError::TooLarge { limit: SEALED_BYTES_MAX });
            }
        }
        Ok(plain.freeze())
    }
}

/// Sealed bytes that are still to be opened.
struct Opening {
    reading: Reading,
    sealed: BytesMut,
    ended: bool,
}

impl Opening {
    /// Reads until so many bytes are there, or no more come.
    async fn gather(&mut self, bytes: usize) -> Result<(), StorageError> {
        while !self.ended && self.sealed.len() < bytes {
            match self.reading.next().await {
                Some(chunk) => self.sealed.extend_from_slice(&chunk?),
                None => self.ended = true,
            }
        }
        Ok(())
    }
}
