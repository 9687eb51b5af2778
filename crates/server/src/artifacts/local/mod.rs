//! A directory as the place for files.
//!
//! Written on the standard library and not on `object_store`'s local directory, for three reasons that were looked into: that
//! one reads 8 KiB for each trip to a blocking thread (see docs/adr/0011-artifact-storage.md for what it measured), cannot
//! append to a file, which a resumed upload needs, and does not make new parent directories durable one by one.

mod append;
mod draft;
mod read;

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use uuid::Uuid;

use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Append, Draft, Entry, Place, Progress, Reading, Stat};

/// Drafts live here until they are published.
const DRAFTS: &str = "drafts";
/// The bytes of an upload, in its folder.
const UPLOAD_DATA: &str = "data";
/// How often a folder is made anew when somebody deletes it, being empty, before the file is in it.
const FOLDER_TRIES: usize = 8;

/// Whether a server has kept files in this directory. Without its folder for drafts it is gone, or
/// not mounted.
pub(super) fn is_storage(path: &Path) -> bool {
    path.join(DRAFTS).is_dir()
}

/// A directory.
#[derive(Clone, Debug)]
pub(super) struct LocalPlace(Arc<Root>);

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Bytes that are to stay free on the disk.
    free_bytes_min: u64,
}

impl LocalPlace {
    /// Opens a directory, and makes it when it is not there.
    pub fn open(path: &Path, free_bytes_min: u64) -> io::Result<LocalPlace> {
        // What users upload is nobody else's business.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path.join(DRAFTS))?;
        Ok(LocalPlace(Arc::new(Root { path: path.canonicalize()?, free_bytes_min })))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Does something with the disk, on a thread that may wait for it.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let root = self.0.clone();
        tokio::task::spawn_blocking(move || match work(&root) {
            Err(StorageError::NotFound) => Err(root.lacks_a_file()),
            result => result,
        })
        .await?
    }
}

impl Root {
    /// Why a file is not there. A directory that was removed or is not mounted lacks every file,
    /// and says nothing about them: whoever took that for an answer would give up what is only out
    /// of reach.
    fn lacks_a_file(&self) -> StorageError {
        match is_storage(&self.path) {
            true => StorageError::NotFound,
            false => StorageError::Unavailable("the directory is gone, or not mounted".into()),
        }
    }

    /// No file is an answer, not an error.
    fn if_there<T>(&self, result: io::Result<T>) -> Result<Option<T>, StorageError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                match self.lacks_a_file() {
                    StorageError::NotFound => Ok(None),
                    gone => Err(gone),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn at(&self, path: &ArtifactPath) -> PathBuf {
        self.path.join(path.as_str())
    }

    fn data(&self, upload: Uuid) -> PathBuf {
        self.at(&ArtifactPath::of_upload(upload, UPLOAD_DATA))
    }

    fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        let disk = rustix::fs::statvfs(&self.path).map_err(io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        match free < bytes.saturating_add(self.free_bytes_min) {
            true => Err(StorageError::DiskFull),
            false => Ok(()),
        }
    }

    /// Moves a file that is already durable to where everybody sees it, and makes that durable too.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        let parent = to.parent().unwrap_or(&self.path);
        for _ in 0..FOLDER_TRIES {
            self.make_folder(parent)?;
            match fs::rename(from, to) {
                // The folder was empty, and somebody who deleted its last file took it away.
                Err(error) if error.kind() == io::ErrorKind::NotFound && from.exists() => continue,
                result => result?,
            }
            return sync_directory(parent);
        }
        Err(io::Error::other(format!("the folder {} is deleted again and again", parent.display())))
    }

    /// Makes a folder below the root, each step durable in the one above it.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let Some(parent) = folder.parent().filter(|_| folder != self.path) else { return Ok(()) };
        self.make_folder(parent)?;
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // The same race as above, one step up; the caller tries again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_directory(parent),
        }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match fs::File::open(path) {
        Ok(directory) => directory.sync_all(),
        // Empty, and taken away by somebody else: there is nothing to keep.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn stat_of(metadata: &fs::Metadata) -> io::Result<Stat> {
    Ok(Stat { size: metadata.len(), modified: metadata.modified()? })
}

/// A directory that is still to be listed, and what the names in it begin with.
type Deeper = (PathBuf, String);

/// The files in a directory, and the directories in it with the prefix of their names. What vanishes meanwhile is passed
/// over.
fn look(root: &Root, directory: &Path, prefix: &str) -> Result<(Vec<Entry>, Vec<Deeper>), StorageError> {
    let (mut entries, mut deeper) = (Vec::new(), Vec::new());
    let Some(listing) = root.if_there(fs::read_dir(directory))? else { return Ok((entries, deeper)) };
    for entry in listing {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else { continue };
        let Some(metadata) = root.if_there(entry.metadata())? else { continue };
        match metadata.is_dir() {
            true => deeper.push((entry.path(), format!("{name}/"))),
            false => entries.push(Entry { name, stat: stat_of(&metadata)? }),
        }
    }
    Ok((entries, deeper))
}

#[async_trait]
impl Place for LocalPlace {
    fn kind(&self) -> &'static str {
        "directory"
    }

    async fn check(&self) -> Result<(), StorageError> {
        let access = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        self.blocking(move |root| Ok(rustix::fs::access(root.path.join(DRAFTS), access).map_err(io::Error::from)?))
            .await
    }

    fn keeps_uploads_in_parts(&self) -> bool {
        false
    }

    async fn draft(&self, path: &ArtifactPath, _size_max: u64) -> Result<Box<dyn Draft>, StorageError> {
        let (place, path) = (self.clone(), path.clone());
        let draft = self.blocking(move |_| draft::LocalDraft::begin(place, &path)).await?;
        Ok(Box::new(draft))
    }

    async fn read(&self, path: &ArtifactPath, range: Range<u64>) -> Result<Reading, StorageError> {
        let path = path.clone();
        self.blocking(move |root| read::open(&root.at(&path), range)).await
    }

    async fn stat(&self, path: &ArtifactPath) -> Result<Option<Stat>, StorageError> {
        let path = path.clone();
        let look = move |root: &Root| root.if_there(fs::metadata(root.at(&path)).and_then(|found| stat_of(&found)));
        self.blocking(look).await
    }

    async fn delete(&self, path: &ArtifactPath) -> Result<(), StorageError> {
        let path = path.clone();
        self.blocking(move |root| {
            let path = root.at(&path);
            root.if_there(fs::remove_file(&path))?;
            // An empty folder is of no use; one that is not empty refuses.
            let _ = path.parent().filter(|parent| *parent != root.path).map(fs::remove_dir);
            Ok(())
        })
        .await
    }

    fn list(&self, folder: &Folder) -> BoxStream<'static, Result<Entry, StorageError>> {
        // Directory by directory: what is in memory is one of them, and the names of those that wait.
        let begin = vec![(self.0.path.join(folder.as_str()), String::new())];
        let place = self.clone();
        stream::try_unfold(begin, move |mut waiting| {
            let place = place.clone();
            async move {
                let Some((directory, prefix)) = waiting.pop() else { return Ok::<_, StorageError>(None) };
                let (entries, deeper) = place.blocking(move |root| look(root, &directory, &prefix)).await?;
                waiting.extend(deeper);
                Ok(Some((stream::iter(entries.into_iter().map(Ok)), waiting)))
            }
        })
        .try_flatten()
        .boxed()
    }

    async fn folders(&self, folder: &Folder) -> Result<Vec<String>, StorageError> {
        let folder = folder.clone();
        self.blocking(move |root| {
            let listing = root.if_there(fs::read_dir(root.path.join(folder.as_str())))?;
            let Some(listing) = listing else { return Ok(Vec::new()) };
            let mut names = Vec::new();
            for entry in listing {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    names.extend(entry.file_name().into_string().ok());
                }
            }
            names.sort_unstable();
            Ok(names)
        })
        .await
    }

    async fn delete_folder(&self, folder: &Folder) -> Result<(), StorageError> {
        let folder = folder.clone();
        self.blocking(move |root| {
            root.if_there(fs::remove_dir_all(root.path.join(folder.as_str())))?;
            Ok(())
        })
        .await
    }

    async fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        self.blocking(move |root| root.check_room(bytes)).await
    }

    async fn append(&self, upload: Uuid, progress: &Progress, _writer: u64) -> Result<Box<dyn Append>, StorageError> {
        let (place, offset) = (self.clone(), progress.offset);
        let append = self.blocking(move |_| append::LocalAppend::begin(place, upload, offset)).await?;
        Ok(Box::new(append))
    }

    async fn adopt(&self, upload: Uuid, progress: &Progress, path: &ArtifactPath) -> Result<bool, StorageError> {
        let (path, size) = (path.clone(), progress.offset);
        self.blocking(move |root| {
            let (data, target) = (root.data(upload), root.at(&path));
            let found = root.if_there(fs::metadata(&data))?.map(|found| found.len());
            match found {
                None if size > 0 => {
                    // The server ended after the file was moved and before the upload was forgotten.
                    let moved = root.if_there(fs::metadata(&target))?.is_some_and(|found| found.len() == size);
                    return if moved { Ok(true) } else { Err(StorageError::NotFound) };
                }
                Some(found) if found < size => {
                    return Err(StorageError::Damaged(format!("{} has {found} bytes, not {size}", data.display())));
                }
                _ => (),
            }
            let file = fs::File::options().write(true).create(true).truncate(false).open(&data)?;
            file.set_len(size)?;
            file.sync_all()?;
            root.publish(&data, &target)?;
            Ok(true)
        })
        .await
    }

    async fn read_upload(&self, upload: Uuid, progress: &Progress) -> Result<Reading, StorageError> {
        let size = progress.offset;
        self.blocking(move |root| match size {
            0 => Ok(stream::empty().boxed() as Reading),
            _ => read::open(&root.data(upload), 0..size),
        })
        .await
    }

    async fn sweep(&self, before: SystemTime) -> Result<usize, StorageError> {
        self.blocking(move |root| {
            let mut swept = 0;
            for entry in fs::read_dir(root.path.join(DRAFTS))? {
                let entry = entry?;
                let Some(stat) = root.if_there(entry.metadata().and_then(|found| stat_of(&found)))? else { continue };
                if stat.modified < before {
                    root.if_there(fs::remove_file(entry.path()))?;
                    swept += 1;
                }
            }
            Ok(swept)
        })
        .await
    }
}
