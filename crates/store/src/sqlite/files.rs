//! The files of a store: whose they are, and whether they stay.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{StoreError, StoreResult};

/// Keeps other processes away from a database for as long as it lives.
pub(super) struct Files {
    database: PathBuf,
    /// A directory that goes when the store goes.
    temporary: Option<PathBuf>,
    /// The operating system lets go of the lock when this is closed, however the process ends.
    _lock: File,
}

impl Files {
    /// Takes the database at this path for this process.
    pub(super) fn at(database: &Path) -> StoreResult<Files> {
        Ok(Files { database: database.to_owned(), temporary: None, _lock: lock(database)? })
    }

    /// Makes a place for a database that is deleted with the store.
    pub(super) fn temporary() -> StoreResult<Files> {
        static STORES: AtomicU64 = AtomicU64::new(0);
        // A process may have the number of one that died and left its directory behind.
        let directory = loop {
            let number = STORES.fetch_add(1, Ordering::Relaxed);
            let directory = std::env::temp_dir().join(format!("baton-{}-{number}", process::id()));
            match private_directory(&directory) {
                Ok(()) => break directory,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unavailable(&directory, &error)),
            }
        };
        let database = directory.join("baton.db");
        Ok(Files { _lock: lock(&database)?, database, temporary: Some(directory) })
    }

    pub(super) fn database(&self) -> &Path {
        &self.database
    }

    pub(super) fn are_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(directory) = &self.temporary
            && let Err(error) = fs::remove_dir_all(directory)
        {
            tracing::warn!(%error, directory = %directory.display(), "a temporary store could not be deleted");
        }
    }
}

/// Inputs and outputs of runs are nobody else's business.
fn private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn lock(database: &Path) -> StoreResult<File> {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| unavailable(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Unavailable(format!(
            "another process is using {}; an SQLite store has one server: stop the other one, or use PostgreSQL",
            database.display()
        ))),
        Err(TryLockError::Error(error)) => Err(unavailable(&path, &error)),
    }
}

fn unavailable(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full,
        _ => StoreError::Unavailable(format!("{}: {error}", path.display())),
    }
}
