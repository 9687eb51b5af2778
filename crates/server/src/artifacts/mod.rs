//! Artifacts: files that belong to runs, in a directory or a bucket, streamed with constant memory.
//!
//! * `path`: names on the disk, which only the server can make.
//! * `place`, `local`, `s3`: the two places for files, and what both can do.
//! * `mirrored`: two places that hold the same files. `moving`: copies from one to the other while servers run.
//! * `named`, `health`: which storage has failed, and whether it answers.
//! * `mark`, `guarded`: whether it is the installation's storage, and what is said if it is not.
//! * `pump`, `put`: storing a file, hashed on the way, published whole or not at all.
//! * `ranges`, `download`: a file as an HTTP answer.
//! * `sealed`: files that are encrypted where they lie.
//! * `uploads`: uploads that survive a cut connection (tus 1.0).
//! * `cache`: files named by their sum, least recently used out.
//!
//! Nothing here decides who may read or write what, and nothing here knows of the store: a file counts when the store says so.

mod cache;
mod digest;
mod download;
mod error;
mod guarded;
mod health;
mod local;
mod mark;
mod mirrored;
mod moving;
mod named;
mod path;
mod place;
mod pump;
mod put;
mod ranges;
mod s3;
mod sealed;
mod uploads;
mod url;

pub use cache::{Cache, Cached, Evicted};
pub use digest::{Sha256Sum, announced};
pub use download::{Download, content_disposition};
pub use error::{OpenError, StorageError};
pub use health::StorageHealth;
pub use mark::Mark;
pub use moving::{Move, MoveError, Moved, Wanting};
pub use path::{ArtifactPath, Folder, SEGMENT_BYTES_MAX, Segment};
pub use place::{Entry, Reading, Source, Stat};
pub use put::{Stored, Terms};
pub use sealed::{SEALED_BYTES_MAX, Seal, Seals};
pub use uploads::tus;
pub use uploads::{Checksum, Piece, Upload, UploadError, UploadId, UploadLimits, Uploads};

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use baton_core::RunId;
use futures_util::TryStreamExt;

use guarded::GuardedPlace;
use health::Watched;
use mirrored::MirroredPlace;
use named::NamedPlace;
use place::Place;
use url::StorageUrl;
pub(crate) use url::{may_hold_credentials, unknown_scheme};

/// Where files are kept. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Storage {
    place: Arc<dyn Place>,
    /// The place, or the two that it is made of.
    watched: Arc<[Watched]>,
}

/// What storages are called in the answers of the server, the first one first.
const ROLES: [&str; 2] = ["storage", "mirror"];

impl Storage {
    /// Opens the storage that a URL names: `file:///directory`, a plain path, or
    /// `s3://bucket/prefix?endpoint=...&region=...` with credentials from the usual `AWS_...` variables. `free_bytes_min` is to
    /// stay free on the disk of a directory. The error says what to correct.
    pub fn open(
        url: &str,
        variables: impl Iterator<Item = (String, String)>,
        free_bytes_min: u64,
    ) -> Result<Storage, String> {
        let (name, place): (Arc<str>, Arc<dyn Place>) = match url.parse()? {
            StorageUrl::Directory(path) => {
                let place = open_directory(path, free_bytes_min)?;
                let name: Arc<str> = place.path().display().to_string().into();
                (name.clone(), Arc::new(NamedPlace::new(name, place)))
            }
            StorageUrl::S3(address) => {
                let name: Arc<str> = StorageUrl::S3(address.clone()).to_string().into();
                let place = s3::S3Place::open(&address, variables);
                let place = place.map_err(|error| format!("cannot open {name}: {error}"))?;
                (name.clone(), Arc::new(NamedPlace::new(name, place)))
            }
        };
        let place = Arc::new(GuardedPlace::new(place));
        Ok(Storage { watched: Arc::new([Watched::new(name, place.clone())]), place })
    }

    /// As [`Storage::open`], for one that has to be there already: a directory is not made. One
    /// that is not mounted is no storage without files.
    pub fn open_existing(
        url: &str,
        variables: impl Iterator<Item = (String, String)>,
        free_bytes_min: u64,
    ) -> Result<Storage, OpenError> {
        match url.parse().map_err(OpenError::Unusable)? {
            StorageUrl::Directory(path) if !local::is_storage(&path) => Err(OpenError::Gone(format!(
                "there is no storage in {}: no server has made the folder drafts in it, or it is not mounted",
                path.display()
            ))),
            StorageUrl::Directory(_) | StorageUrl::S3(_) => {
                Storage::open(url, variables, free_bytes_min).map_err(OpenError::Unusable)
            }
        }
    }

    /// Both storages as one: what is written goes to both, and what the first lacks is read from
    /// the mirror.
    pub fn mirrored(first: Storage, mirror: Storage) -> Result<Storage, String> {
        if first.name() == mirror.name() {
            return Err(format!("the storage and its mirror are the same: {}", first.name()));
        }
        let watch = |storage: &Storage| Watched::new(storage.name().into(), storage.watched[0].place.clone());
        let watched = Arc::new([watch(&first), watch(&mirror)]);
        Ok(Storage { place: Arc::new(MirroredPlace::new(first.place, mirror.place)), watched })
    }

    /// Where it is, without credentials; of two, where the first one is.
    pub fn name(&self) -> &str {
        &self.watched[0].name
    }

    /// How the storage is, and its mirror if it has one. Costs next to nothing, and takes a few
    /// seconds at most.
    pub async fn health(&self) -> Vec<StorageHealth> {
        futures_util::future::join_all(self.watched.iter().zip(ROLES).map(|(watched, role)| watched.health(role))).await
    }

    /// `directory` or `s3`.
    pub fn kind(&self) -> &'static str {
        self.place.kind()
    }

    /// Looks at a file.
    pub async fn stat(&self, path: &ArtifactPath) -> Result<Option<Stat>, StorageError> {
        self.place.stat(path).await
    }

    /// Reads a part of a file, which has to be inside of it.
    pub async fn read(&self, path: &ArtifactPath, range: Range<u64>) -> Result<Reading, StorageError> {
        self.place.read(path, range).await
    }

    /// Deletes a file; one that is not there is fine.
    pub async fn delete(&self, path: &ArtifactPath) -> Result<(), StorageError> {
        self.place.delete(path).await
    }

    /// All files below a folder.
    pub async fn list(&self, folder: &Folder) -> Result<Vec<Entry>, StorageError> {
        self.place.list(folder).try_collect().await
    }

    /// Deletes a folder with all that is in it; one that is not there is fine.
    pub async fn delete_folder(&self, folder: &Folder) -> Result<(), StorageError> {
        self.place.delete_folder(folder).await
    }

    /// Refuses when there is no room for this many more bytes. A bucket never refuses here.
    pub async fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        self.place.check_room(bytes).await
    }

    /// Runs that have files, in order, after this one: to find those that the store no longer knows.
    pub async fn runs_with_files(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StorageError> {
        let names = self.place.folders(&Folder::runs()).await?;
        let runs = names.iter().filter_map(|name| name.parse().ok());
        Ok(runs.filter(|run| after.is_none_or(|after| *run > after)).take(limit).collect())
    }

    /// Deletes drafts that nobody has written to for this long: what a server left that ended badly. Returns how many.
    pub async fn sweep(&self, untouched: Duration) -> Result<usize, StorageError> {
        let before = SystemTime::now().checked_sub(untouched).unwrap_or(SystemTime::UNIX_EPOCH);
        self.place.sweep(before).await
    }
}

fn open_directory(path: PathBuf, free_bytes_min: u64) -> Result<local::LocalPlace, String> {
    local::LocalPlace::open(&path, free_bytes_min)
        .map_err(|error| format!("cannot use the directory {} for artifacts: {error}", path.display()))
}
