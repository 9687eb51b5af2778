//! The content-addressed cache: files named by their SHA-256 sum, least recently used out.
//!
//! When a file was last used is remembered in memory and written down now and then, by each server in a record of its own. A
//! pass reads all records and the listing, and deletes the oldest until the rest fits. Two servers on one bucket may pass at
//! the same moment: at worst both delete the same old files. A lost record makes files look as old as they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_proto::NAMESPACE_DEFAULT;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};

use super::Storage;
use super::digest::Sha256Sum;
use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Entry, Source};
use super::put::{Stored, Terms};
use crate::entropy::Entropy;

/// A pass that has to delete goes this far below the limit, in percent of it, so that not every put needs a pass.
const KEEP_PERCENT: u64 = 90;
/// Uses remembered at most; beyond it the rest look as old as they are.
const USES_MAX: usize = 1_000_000;
/// Bytes of one use in a record: the file's mark, and the microsecond of its last use.
const USE_BYTES: usize = 32 + 8;
/// Records of servers that have not written for so long are forgotten; their uses have long been read by others.
const RECORD_LIFE: Duration = Duration::from_secs(24 * 3_600);
/// Files used this recently are deleted only as far as the limit demands: somebody may be about to fetch what they were told
/// is there.
const FRESH: Duration = Duration::from_secs(60);

/// A file of the cache. Each namespace has its own: what one has put, no other learns of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cached {
    /// Stands for its namespace; none is the default one.
    tenant: Option<u64>,
    sum: Sha256Sum,
}

impl Cached {
    /// The file with this sum in this namespace.
    pub fn new(namespace: &str, sum: Sha256Sum) -> Cached {
        let tenant = || {
            let hash = Sha256::digest(namespace.as_bytes());
            hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
        };
        Cached { tenant: (namespace != NAMESPACE_DEFAULT).then(tenant), sum }
    }

    /// The file with this name in the storage. The cache's own records have other names.
    fn named(name: &str) -> Option<Cached> {
        match name.split_once('-') {
            Some((tenant, sum)) => {
                Some(Cached { tenant: Some(u64::from_str_radix(tenant, 16).ok()?), sum: sum.parse().ok()? })
            }
            None => Some(Cached { tenant: None, sum: name.parse().ok()? }),
        }
    }

    /// Where it is, for a [`super::Download`].
    pub fn path(&self) -> ArtifactPath {
        ArtifactPath::cached(self.tenant, &self.sum)
    }

    /// Its sum.
    pub fn sum(&self) -> Sha256Sum {
        self.sum
    }

    /// Stands for it in the records of uses.
    fn mark(&self) -> Sha256Sum {
        match self.tenant {
            None => self.sum,
            Some(tenant) => {
                let hash = Sha256::new().chain_update(tenant.to_be_bytes()).chain_update(self.sum.0);
                Sha256Sum(hash.finalize().into())
            }
        }
    }
}

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evicted {
    /// Files deleted.
    pub files: usize,
    /// Bytes that the cache has now.
    pub bytes: u64,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    storage: Storage,
    bytes_max: u64,
    /// Names this server's record.
    server: u64,
    /// When files were last used, by their marks, in microseconds since 1970.
    uses: Mutex<HashMap<Sha256Sum, u64>>,
    /// What the cache has, as far as this server knows.
    bytes: AtomicU64,
    pass: tokio::sync::Mutex<()>,
}

impl Cache {
    /// A cache of this many bytes in the storage.
    pub fn new(storage: Storage, bytes_max: u64, entropy: &Arc<dyn Entropy>) -> Cache {
        Cache {
            storage,
            bytes_max,
            server: entropy.bits(),
            uses: Mutex::default(),
            bytes: AtomicU64::new(0),
            pass: tokio::sync::Mutex::default(),
        }
    }

    /// Stores a file, which must have this sum. One that is there already is taken as it is, and the source is not read.
    pub async fn put(&self, file: Cached, source: Source<'_>, length: Option<u64>) -> Result<Stored, StorageError> {
        if let Some(size) = self.has(file).await? {
            return Ok(Stored { size, sha256: file.sum });
        }
        let terms = Terms { bytes_max: self.bytes_max, length, sha256: Some(file.sum) };
        let stored = self.storage.put(&file.path(), source, terms).await?;
        self.used(file);
        let bytes = self.bytes.fetch_add(stored.size, Ordering::Relaxed) + stored.size;
        if bytes > self.bytes_max {
            self.pass().await?;
        }
        Ok(stored)
    }

    /// The size of a file, if it is there. Counts as a use: who asks is about to rely on it.
    pub async fn has(&self, file: Cached) -> Result<Option<u64>, StorageError> {
        let found = self.storage.stat(&file.path()).await?;
        if found.is_some() {
            self.used(file);
        }
        Ok(found.map(|found| found.size))
    }

    fn used(&self, file: Cached) {
        let (mark, now) = (file.mark(), microseconds(SystemTime::now()));
        let mut uses = self.uses.lock().expect("nobody panics while holding it");
        if uses.len() < USES_MAX || uses.contains_key(&mark) {
            uses.insert(mark, now);
        }
    }

    /// Writes down what was used, and deletes what was not for the longest, until the rest fits. Meant to run every few
    /// minutes, and runs by itself when a put goes over the limit.
    pub async fn pass(&self) -> Result<Evicted, StorageError> {
        let _one_at_a_time = self.pass.lock().await;
        self.read_records().await?;
        let mut files = Vec::new();
        let mut listing = self.storage.place.list(&Folder::cache());
        while let Some(entry) = listing.next().await {
            let Entry { name, stat } = entry?;
            let Some(file) = name.rsplit('/').next().and_then(Cached::named) else { continue };
            files.push((microseconds(stat.modified), file, stat.size));
        }
        let evicted = self.evict(files).await?;
        self.bytes.store(evicted.bytes, Ordering::Relaxed);
        self.write_record().await?;
        Ok(evicted)
    }

    /// `files` are what is there: when it was made, which it is, its size.
    async fn evict(&self, mut files: Vec<(u64, Cached, u64)>) -> Result<Evicted, StorageError> {
        {
            let mut uses = self.uses.lock().expect("nobody panics while holding it");
            for (used, file, _) in &mut files {
                *used = uses.get(&file.mark()).copied().unwrap_or(0).max(*used);
            }
            // What is gone needs no memory. Files put since the listing lose theirs, and look as new as they are.
            *uses = files.iter().map(|(used, file, _)| (file.mark(), *used)).take(USES_MAX).collect();
        }
        let mut evicted = Evicted { files: 0, bytes: files.iter().map(|(_, _, size)| size).sum() };
        if evicted.bytes <= self.bytes_max {
            return Ok(evicted);
        }
        files.sort_unstable();
        let fresh = microseconds(SystemTime::now()).saturating_sub(FRESH.as_micros() as u64);
        let keep = self.bytes_max / 100 * KEEP_PERCENT;
        for (used, file, size) in files {
            if evicted.bytes <= keep || (used >= fresh && evicted.bytes <= self.bytes_max) {
                break;
            }
            self.storage.delete(&file.path()).await?;
            self.uses.lock().expect("nobody panics while holding it").remove(&file.mark());
            evicted.files += 1;
            evicted.bytes -= size;
        }
        Ok(evicted)
    }

    /// Learns what this and other servers used before, and forgets records nobody writes any more.
    async fn read_records(&self) -> Result<(), StorageError> {
        let folder = Folder::cache_records();
        let old = SystemTime::now().checked_sub(RECORD_LIFE).unwrap_or(UNIX_EPOCH);
        for entry in self.storage.list(&folder).await? {
            let path = folder.file(&entry.name);
            if path == ArtifactPath::cache_record(self.server) {
                continue;
            }
            match self.read_record(&path, entry.stat.size.min((USES_MAX * USE_BYTES) as u64)).await {
                // Another server forgot or replaced it meanwhile.
                Ok(()) | Err(StorageError::NotFound | StorageError::Damaged(_)) => (),
                Err(error) => return Err(error),
            }
            if entry.stat.modified < old {
                self.storage.delete(&path).await?;
            }
        }
        Ok(())
    }

    async fn read_record(&self, path: &ArtifactPath, size: u64) -> Result<(), StorageError> {
        let mut reading = self.storage.read(path, 0..size).await?;
        let mut rest = BytesMut::new();
        while let Some(chunk) = reading.next().await {
            rest.extend_from_slice(&chunk?);
            let mut uses = self.uses.lock().expect("nobody panics while holding it");
            while rest.len() >= USE_BYTES {
                let one = rest.split_to(USE_BYTES);
                let (Some((sum, used)), true) = (one.split_first_chunk::<32>(), uses.len() < USES_MAX) else {
                    continue;
                };
                let used = used.try_into().map(u64::from_be_bytes).unwrap_or(0);
                let known = uses.entry(Sha256Sum(*sum)).or_insert(0);
                *known = used.max(*known);
            }
        }
        Ok(())
    }

    async fn write_record(&self) -> Result<(), StorageError> {
        let record: Bytes = {
            let uses = self.uses.lock().expect("nobody panics while holding it");
            let mut record = BytesMut::with_capacity(uses.len() * USE_BYTES);
            for (sum, used) in uses.iter() {
                record.extend_from_slice(&sum.0);
                record.extend_from_slice(&used.to_be_bytes());
            }
            record.freeze()
        };
        self.storage.put_bytes(&ArtifactPath::cache_record(self.server), record).await
    }
}

fn microseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
