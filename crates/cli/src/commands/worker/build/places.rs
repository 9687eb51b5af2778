//! Directories of builds: one for each, gone when it is over.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";

/// Where the builds of this worker work. Several workers may share a directory: each has a part of it, with a lock beside it
/// that the system takes away when the worker is gone, however it went.
pub struct WorkDirectory {
    own: PathBuf,
    _lock: File,
}

impl WorkDirectory {
    /// Makes a part for this worker, and removes those of workers that are gone.
    pub fn open(directory: &Path) -> io::Result<WorkDirectory> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // Sandboxes are told of these paths, wherever they begin.
        let directory = &fs::canonicalize(directory)?;
        remove_abandoned(directory)?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("worker-{}-{:08x}", std::process::id(), u32::from_ne_bytes(random));
        // The lock before what it guards.
        let lock = File::create_new(directory.join(&name).with_extension(LOCK))?;
        lock.lock()?;
        let own = directory.join(name);
        DirBuilder::new().mode(0o700).create(&own)?;
        Ok(WorkDirectory { own, _lock: lock })
    }

    /// The worker's part.
    pub fn path(&self) -> &Path {
        &self.own
    }

    /// Makes a directory with this name. Whatever worked here may have run as this same user, and may have removed the worker's part.
    pub fn fresh(&self, name: &str) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.own)?;
        let directory = self.own.join(name);
        DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(directory)
    }

    /// Makes the directories of one build.
    pub fn places(&self, build: &str, epoch: u32) -> io::Result<Places> {
        let root = self.fresh(&format!("{build}-{epoch}"))?;
        let places = Places { source: root.join("source"), output: root.join("output"), home: root.join("home"), root };
        fs::create_dir(&places.output)?;
        fs::create_dir(&places.home)?;
        Ok(places)
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        let _ = remove_tree(&self.own);
        let _ = fs::remove_file(self.own.with_extension(LOCK));
    }
}

fn remove_abandoned(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_lock = path.extension().is_some_and(|extension| extension == LOCK);
        let Some(lock) = is_lock.then(|| File::open(&path).ok()).flatten() else { continue };
        if lock.try_lock().is_ok() {
            remove_tree(&path.with_extension(""))?;
            // Another worker that starts now may have been faster.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// The directories of one build, as this machine sees them. Dropping them removes them.
pub struct Places {
    /// All of them.
    pub root: PathBuf,
    /// What is built. It is made when the source comes.
    pub source: PathBuf,
    /// What comes out.
    pub output: PathBuf,
    /// The home of whatever builds.
    pub home: PathBuf,
}

impl Drop for Places {
    fn drop(&mut self) {
        let root = std::mem::take(&mut self.root);
        // Many files take a while, and whoever drops this has a runtime to keep going.
        std::thread::spawn(move || {
            if let Err(error) = remove_tree(&root) {
                tracing::warn!(path = %root.display(), %error, "cannot remove the directory of a build");
            }
        });
    }
}

impl Places {
    /// Removes them, and waits for it.
    pub async fn remove(mut self) -> io::Result<()> {
        let root = std::mem::take(&mut self.root);
        std::mem::forget(self);
        tokio::task::spawn_blocking(move || remove_tree(&root)).await.map_err(io::Error::other)?
    }
}

/// Removes a tree, also one with directories that nobody may write to, as package caches have them.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn open_up(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // The type is that of the entry itself: a link is not followed.
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fallen_worker_left_is_removed_and_a_living_one_keeps_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let living = WorkDirectory::open(directory.path()).unwrap();
        fs::write(living.path().join("file"), "").unwrap();
        let fallen = directory.path().join("worker-1-0");
        fs::create_dir_all(fallen.join("inner")).unwrap();
        fs::write(fallen.with_extension(LOCK), "").unwrap();
        fs::set_permissions(&fallen, Permissions::from_mode(0o500)).unwrap();
        let second = WorkDirectory::open(directory.path()).unwrap();
        assert!(!fallen.exists() && !fallen.with_extension(LOCK).exists());
        assert!(living.path().join("file").exists());
        drop((living, second));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_part_that_was_removed_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let work = WorkDirectory::open(directory.path()).unwrap();
        fs::remove_dir(work.path()).unwrap();
        let places = work.places("build", 1).unwrap();
        assert!(places.output.is_dir());
        assert_eq!(fs::metadata(work.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn a_build_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let work = WorkDirectory::open(directory.path()).unwrap();
        let places = work.places("build", 1).unwrap();
        let locked = places.output.join("locked");
        fs::create_dir_all(locked.join("deeper")).unwrap();
        fs::set_permissions(&locked, Permissions::from_mode(0o500)).unwrap();
        places.remove().await.unwrap();
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
    }
}
