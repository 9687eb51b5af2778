//! Copies all files of one storage to another while servers write to both: `baton storage move`.
//!
//! Servers change the source first and the target after it, so two looks settle every race. A file
//! that the source lacks after it was copied was deleted meanwhile: it is deleted from the target,
//! too, and had the source still had it, the server's own delete would have reached the target
//! after the copy. A file that the source has replaced meanwhile is copied again.
//!
//! Uploads under way are not copied: servers that have both storages bring them along when they go
//! on or become files.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};

use super::digest::Sha256Sum;
use super::error::StorageError;
use super::mirrored::read_small;
use super::path::{ArtifactPath, Folder};
use super::place::Entry;
use super::put::Terms;
use super::uploads::RECORD;
use super::{Storage, pump};

/// How often a file is copied that is replaced again and again.
const COPIES_MAX: usize = 5;
/// Failures that are told; the rest is counted.
const FAILURES_MAX: usize = 20;
/// Missing or differing files that are looked at once more. If there are more, the target is not
/// complete in any case.
const RECHECKS_MAX: usize = 1_000;
/// Names of missing files that are told, and as many of differing ones; the rest is counted.
const NAMES_MAX: usize = 10_000;
/// What the source lacks is removed from the target only when it is older: a server may be about to
/// write it to both.
const PRUNE_AGE: Duration = Duration::from_secs(3_600);

/// How files are to be copied.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Change nothing, and say what the target lacks.
    pub only_look: bool,
    /// Read what the target has, and compare checksums.
    pub verify: bool,
    /// Remove from the target what the source lacks.
    pub prune: bool,
    /// Files at once.
    pub at_once: usize,
    /// When only looking: how long to wait before the last look at what is missing. A server may be
    /// about to write it.
    pub patience: Duration,
}

/// What was done, or is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Files that were copied.
    pub copied: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// When only looking: files that the target lacks.
    pub missing: Wanting,
    /// When only looking: files that the target has with another size or other bytes.
    pub differs: Wanting,
    /// Files that the target had already.
    pub present: u64,
    /// Files that were deleted from the source meanwhile.
    pub vanished: u64,
    /// Files that the target had and the source did not: removed, or only counted.
    pub pruned: u64,
    /// Uploads under way that the target lacks, wholly or in part.
    pub uploads_left: u64,
    /// Files that could not be copied.
    pub failed: u64,
    /// Why, for the first of them.
    pub failures: Vec<String>,
}

/// Files that are to be copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanting {
    /// How many.
    pub files: u64,
    /// Their bytes in the source.
    pub bytes: u64,
    /// The names of the first of them, in order.
    pub names: Vec<String>,
}

impl Wanting {
    fn add(&mut self, path: &ArtifactPath, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
        if self.names.len() < NAMES_MAX {
            self.names.push(path.as_str().to_owned());
        }
    }
}

/// Why files were not copied.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MoveError {
    /// A storage failed. What was copied stays.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Nothing was pruned: the source has no files, so the target would have been emptied.
    #[error("{from} has no files, so nothing was deleted. Is it the right one?")]
    EmptySource {
        /// The name of the source.
        from: String,
    },
}

/// What the target has of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Same,
    Other,
    Nothing,
}

/// What became of one file.
enum Outcome {
    Copied(u64),
    Missing(u64),
    Differs(u64),
    Present,
    Vanished,
}

struct Mover<'a> {
    from: &'a Storage,
    to: &'a Storage,
    terms: Move,
    moved: Mutex<Moved>,
    /// When only looking: what is missing or differs, and its size.
    wanting: Mutex<Vec<(ArtifactPath, u64)>>,
    told: &'a (dyn Fn(&Moved) + Sync),
}

impl Storage {
    /// Copies everything that an installation keeps to another storage. May be repeated, and goes
    /// on where it was killed. `told` hears how far it is.
    pub async fn copy_to(&self, to: &Storage, terms: Move, told: &(dyn Fn(&Moved) + Sync)) -> Result<Moved, MoveError> {
        let mover = Mover { from: self, to, terms, moved: Mutex::default(), wanting: Mutex::default(), told };
        self.place.check().await?;
        to.place.check().await?;
        for folder in Folder::kept() {
            let entries = self.place.list(&folder);
            entries
                .try_for_each_concurrent(terms.at_once, |entry| {
                    let path = folder.file(&entry.name);
                    mover.one(path, entry.stat.size)
                })
                .await?;
        }
        mover.look_again().await?;
        if terms.prune {
            mover.prune().await?;
        }
        if !terms.only_look {
            self.pass_mark_to(to).await?;
        }
        let uploads_left = mover.uploads_left().await?;
        let mut moved = mover.moved.into_inner().expect("nobody panics while holding it");
        moved.uploads_left = uploads_left;
        moved.missing.names.sort_unstable();
        moved.differs.names.sort_unstable();
        Ok(moved)
    }
}

impl Mover<'_> {
    fn note(&self, change: impl FnOnce(&mut Moved)) {
        let mut moved = self.moved.lock().expect("nobody panics while holding it");
        change(&mut moved);
        (self.told)(&moved);
    }

    /// Sees to one file. What is wrong with it is noted; what is wrong with a storage ends
    /// everything.
    async fn one(&self, path: ArtifactPath, size: u64) -> Result<(), StorageError> {
        match self.bring(&path, size).await {
            Ok(Outcome::Copied(bytes)) => self.note(|moved| {
                moved.copied += 1;
                moved.copied_bytes += bytes;
            }),
            Ok(Outcome::Missing(bytes)) => {
                self.note(|moved| moved.missing.add(&path, bytes));
                self.recheck_later(path, bytes);
            }
            Ok(Outcome::Differs(bytes)) => {
                self.note(|moved| moved.differs.add(&path, bytes));
                self.recheck_later(path, bytes);
            }
            Ok(Outcome::Present) => self.note(|moved| moved.present += 1),
            Ok(Outcome::Vanished) => self.note(|moved| moved.vanished += 1),
            Err(StorageError::Unavailable(why)) => return Err(StorageError::Unavailable(format!("{why} ({path:?})"))),
            Err(StorageError::DiskFull) => return Err(StorageError::DiskFull),
            Err(error) => self.note(|moved| {
                moved.failed += 1;
                if moved.failures.len() < FAILURES_MAX {
                    moved.failures.push(format!("{path:?}: {error}"));
                }
            }),
        }
        Ok(())
    }

    async fn bring(&self, path: &ArtifactPath, mut size: u64) -> Result<Outcome, StorageError> {
        for _ in 0..COPIES_MAX {
            let found = self.found(path, size).await?;
            if found == Found::Same {
                return Ok(Outcome::Present);
            }
            let Some(before) = self.from.stat(path).await? else { return self.vanished(path).await };
            if self.terms.only_look {
                let is_there = found == Found::Other;
                return Ok(if is_there { Outcome::Differs(before.size) } else { Outcome::Missing(before.size) });
            }
            let copied = self.copy(path, before.size).await;
            // Looked at again, whatever came of it: see above.
            match (self.from.stat(path).await?, copied) {
                (None, _) => return self.vanished(path).await,
                (Some(now), Err(error)) if now == before => return Err(error),
                (Some(now), Ok(sum)) if now == before && self.is_still(path, now.size, sum).await? => {
                    self.verify(path, now.size, sum).await?;
                    return Ok(Outcome::Copied(now.size));
                }
                (Some(now), _) => size = now.size,
            }
        }
        Err(StorageError::Failed("it is replaced again and again".into()))
    }

    /// The source has deleted a file: it must not come back with the target.
    async fn vanished(&self, path: &ArtifactPath) -> Result<Outcome, StorageError> {
        if !self.terms.only_look {
            self.to.delete(path).await?;
        }
        Ok(Outcome::Vanished)
    }

    /// What the target has of the file. One that appears whole and never changes is the same when
    /// its size is.
    async fn found(&self, path: &ArtifactPath, size: u64) -> Result<Found, StorageError> {
        match self.to.stat(path).await? {
            None => return Ok(Found::Nothing),
            Some(there) if there.size != size => return Ok(Found::Other),
            Some(_) if !self.terms.verify && !path.is_replaced() => return Ok(Found::Same),
            Some(_) => {}
        }
        let sums = tokio::join!(self.sum(self.from, path, size), self.sum(self.to, path, size));
        match sums {
            (Ok(source), Ok(target)) if source == target => Ok(Found::Same),
            (Ok(_), Ok(_)) => Ok(Found::Other),
            // Gone or replaced since it was listed: what to do about it is found out by copying it.
            (Err(StorageError::NotFound | StorageError::Damaged(_)), _) => Ok(Found::Other),
            (_, Err(StorageError::NotFound)) => Ok(Found::Nothing),
            (_, Err(StorageError::Damaged(_))) => Ok(Found::Other),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Whether the source still has what was copied. Times of buckets are whole seconds, so they do
    /// not tell of a replacement.
    async fn is_still(&self, path: &ArtifactPath, size: u64, sum: Sha256Sum) -> Result<bool, StorageError> {
        if !path.is_replaced() {
            return Ok(true);
        }
        match self.sum(self.from, path, size).await {
            Ok(now) => Ok(now == sum),
            Err(StorageError::NotFound | StorageError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn copy(&self, path: &ArtifactPath, size: u64) -> Result<Sha256Sum, StorageError> {
        // A put knows only of clients whose bytes stop coming, so the reason is kept aside.
        let failure = Mutex::new(None);
        let reading = self.from.read(path, 0..size).await?.map_err(|error| {
            *failure.lock().expect("nobody panics while holding it") = Some(error.clone());
            crate::Error::from(error)
        });
        let terms = Terms { bytes_max: size, length: Some(size), sha256: path.sum() };
        let put = self.to.put(path, reading.boxed(), terms).await;
        match put {
            Ok(stored) => Ok(stored.sha256),
            Err(error) => Err(failure.into_inner().expect("nobody panics while holding it").unwrap_or(error)),
        }
    }

    async fn sum(&self, storage: &Storage, path: &ArtifactPath, size: u64) -> Result<Sha256Sum, StorageError> {
        let mut reading = storage.read(path, 0..size).await?;
        let mut hasher = Sha256::new();
        while let Some(chunk) = reading.try_next().await? {
            hasher = pump::hash(hasher, chunk).await?;
        }
        Ok(Sha256Sum(hasher.finalize().into()))
    }

    /// Reads a copy again. A bad one is removed, or else the next call would take its size for
    /// proof.
    async fn verify(&self, path: &ArtifactPath, size: u64, sum: Sha256Sum) -> Result<(), StorageError> {
        if !self.terms.verify {
            return Ok(());
        }
        let result = match self.sum(self.to, path, size).await {
            Ok(there) if there == sum => return Ok(()),
            Ok(there) => StorageError::Damaged(format!("{sum} was written, and {there} was read")),
            // Replaced or deleted by a server meanwhile.
            Err(StorageError::NotFound) => return Ok(()),
            Err(error) => error,
        };
        self.to.delete(path).await?;
        Err(result)
    }

    fn recheck_later(&self, path: ArtifactPath, bytes: u64) {
        let mut wanting = self.wanting.lock().expect("nobody panics while holding it");
        if wanting.len() <= RECHECKS_MAX {
            wanting.push((path, bytes));
        }
    }

    /// Looks once more at files that were missing or differed: servers that write to both may have
    /// been about to write them.
    async fn look_again(&self) -> Result<(), StorageError> {
        let wanting = std::mem::take(&mut *self.wanting.lock().expect("nobody panics while holding it"));
        if wanting.is_empty() || wanting.len() > RECHECKS_MAX {
            return Ok(());
        }
        tokio::time::sleep(self.terms.patience).await;
        self.note(|moved| (moved.missing, moved.differs) = Default::default());
        for (path, bytes) in wanting {
            self.one(path, bytes).await?;
        }
        Ok(())
    }

    /// Removes what only the target has.
    async fn prune(&self) -> Result<(), MoveError> {
        let is_empty = {
            let moved = self.moved.lock().expect("nobody panics while holding it");
            moved.copied + moved.present + moved.failed + moved.missing.files + moved.differs.files == 0
        };
        if is_empty {
            return Err(MoveError::EmptySource { from: self.from.name().into() });
        }
        let old = SystemTime::now().checked_sub(PRUNE_AGE).unwrap_or(SystemTime::UNIX_EPOCH);
        for folder in Folder::kept() {
            let extras = self.to.place.list(&folder).try_filter(|entry| std::future::ready(entry.stat.modified < old));
            extras.try_for_each_concurrent(self.terms.at_once, |entry| self.prune_one(&folder, entry)).await?;
        }
        Ok(())
    }

    async fn prune_one(&self, folder: &Folder, entry: Entry) -> Result<(), StorageError> {
        let path = folder.file(&entry.name);
        if self.from.stat(&path).await?.is_some() {
            return Ok(());
        }
        self.note(|moved| moved.pruned += 1);
        if self.terms.only_look {
            return Ok(());
        }
        self.to.delete(&path).await?;
        // A file of the cache may come back at any moment, and then its name is the old one.
        match self.from.stat(&path).await? {
            Some(found) => self.one(path, found.size).await,
            None => Ok(()),
        }
    }

    async fn uploads_left(&self) -> Result<u64, StorageError> {
        let mut left = 0;
        for name in self.from.place.folders(&Folder::uploads()).await? {
            let Ok(upload) = name.parse::<uuid::Uuid>() else { continue };
            let path = ArtifactPath::of_upload(upload, RECORD);
            let Some(record) = read_small(&*self.from.place, &path).await? else { continue };
            left += u64::from(read_small(&*self.to.place, &path).await? != Some(record));
        }
        Ok(left)
    }
}
