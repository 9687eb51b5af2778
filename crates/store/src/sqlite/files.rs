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
        let files = Files { database: database.to_owned(), temporary: None, _lock: lock(database)? };
        make_private(database)?;
        Ok(files)
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

/// Makes the file of the database for its owner alone before SQLite would make it for everybody: the secret that all tokens come from is
/// in it. What is there already is closed to others. SQLite gives its log and its shared memory the mode of the database.
fn make_private(database: &Path) -> StoreResult<()> {
    match private_options().create_new(true).open(database) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unavailable(database, &error)),
    }
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let path = beside(database, suffix);
        if let Err(error) = close_to_others(&path) {
            tracing::warn!(%error, path = %path.display(), "others can read a file of the store, and that could not be changed");
        }
    }
    Ok(())
}

#[cfg(unix)]
fn close_to_others(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = match fs::metadata(path) {
        Ok(found) => found.permissions().mode(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match mode & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)),
    }
}

#[cfg(not(unix))]
fn close_to_others(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// For writing, and for its owner alone if it is made.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

fn lock(database: &Path) -> StoreResult<File> {
    let path = beside(database, ".lock");
    let file = private_options().create(true).open(&path).map_err(|error| unavailable(&path, &error))?;
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

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_that_were_open_to_others_are_closed() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("baton.db");
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let path = beside(&database, suffix);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let _files = Files::at(&database).unwrap();
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let mode = fs::metadata(beside(&database, suffix)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{suffix}");
        }
    }
}
