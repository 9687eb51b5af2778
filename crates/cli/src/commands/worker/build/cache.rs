//! Sources that were fetched before, by their sum.
//!
//! Nothing depends on it: a worker whose cache cannot be used builds without.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A download that is older was left by a worker that is gone.
const PARTIAL_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How the names of unfinished files end.
const PARTIAL: &str = "part";
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Archives under their sha-256. The one that was not used for longest goes first.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
    bytes_max: u64,
}

impl Cache {
    /// Opens a cache, and removes what a worker that is gone did not finish.
    pub fn open(directory: &Path, bytes_max: u64) -> io::Result<Cache> {
        let cache = Cache { directory: directory.to_owned(), bytes_max };
        cache.make()?;
        for (path, _, used) in cache.entries()? {
            let is_old = used.elapsed().is_ok_and(|age| age > PARTIAL_AGE_MAX);
            if is_old && path.extension().is_some_and(|extension| extension == PARTIAL) {
                remove(&path)?;
            } else {
                // Earlier versions let everybody read them. What is not ours is for its owner to close.
                let _ = fs::set_permissions(&path, Permissions::from_mode(FILE_MODE));
            }
        }
        Ok(cache)
    }

    /// Makes the directory, also again: builds may run as this same user, and may have removed or closed it. One that is
    /// open to others stays as its owner wants it; what we put into it is closed.
    fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.directory)?;
        let mode = fs::metadata(&self.directory)?.permissions().mode();
        match mode & DIRECTORY_MODE == DIRECTORY_MODE {
            true => Ok(()),
            false => fs::set_permissions(&self.directory, Permissions::from_mode(DIRECTORY_MODE)),
        }
    }

    /// The archive with this sum, if it is here. Builds may run as this same user, so it is read and checked each time.
    /// Blocks.
    pub fn find(&self, sha256: &str) -> io::Result<Option<File>> {
        self.make()?;
        let path = self.directory.join(sha256);
        // A link could lead anywhere, and a pipe would be waited for.
        let file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => None,
            Err(error) => return Err(error),
        };
        let Some(file) = file.filter(|file| is_it(file, sha256)) else {
            tracing::warn!(path = %path.display(), "an archive in the cache was changed; it is fetched again");
            remove(&path)?;
            return Ok(None);
        };
        // The time it was used last.
        file.set_modified(SystemTime::now())?;
        Ok(Some(file))
    }

    /// Takes over a file with this sum, and makes room for it, unless it is too large. Whoever has it open keeps it. Blocks.
    pub fn keep(&self, file: &Path, sha256: &str) -> io::Result<()> {
        if fs::metadata(file)?.len() > self.bytes_max {
            return Ok(());
        }
        self.make()?;
        fs::set_permissions(file, Permissions::from_mode(FILE_MODE))?;
        let place = self.directory.join(sha256);
        match fs::rename(file, &place) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => self.copy(file, &place)?,
            done => done?,
        }
        self.tidy()
    }

    /// From another disk. Under another name first: what has its sum for a name is whole.
    fn copy(&self, file: &Path, place: &Path) -> io::Result<()> {
        let partial = tempfile::Builder::new().suffix(&format!(".{PARTIAL}")).tempfile_in(&self.directory)?;
        io::copy(&mut File::open(file)?, &mut partial.as_file())?;
        partial.persist(place)?;
        fs::remove_file(file)
    }

    /// Makes room. Whoever has an archive open keeps it. Blocks.
    fn tidy(&self) -> io::Result<()> {
        self.shrink(self.bytes_max)
    }

    /// Removes everything: the disk is full, and builds need the room. Blocks.
    pub fn empty(&self) -> io::Result<()> {
        self.shrink(0)
    }

    fn shrink(&self, bytes_max: u64) -> io::Result<()> {
        let mut entries = self.entries()?;
        entries.retain(|(path, ..)| path.extension().is_none());
        entries.sort_by_key(|(_, _, used)| *used);
        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        for (path, size, _) in entries {
            if total <= bytes_max {
                break;
            }
            remove(&path)?;
            total -= size;
        }
        Ok(())
    }

    fn entries(&self) -> io::Result<Vec<(PathBuf, u64, SystemTime)>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // Another worker may tidy at the same time.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                entries.push((entry.path(), metadata.len(), metadata.modified()?));
            }
        }
        Ok(entries)
    }
}

/// Whether a file is what its name says. What cannot be read is not.
fn is_it(file: &File, sha256: &str) -> bool {
    file.metadata().is_ok_and(|found| found.is_file()) && baton::sha256_of(file).is_ok_and(|sum| sum == sha256)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &Cache, content: &str, used: u64) -> String {
        let mut new = tempfile::NamedTempFile::new_in(&cache.directory).unwrap();
        io::Write::write_all(&mut new, content.as_bytes()).unwrap();
        new.as_file().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(used)).unwrap();
        let sum = baton::sha256_of(new.as_file()).unwrap();
        new.persist(cache.directory.join(&sum)).unwrap();
        sum
    }

    /// A file as a download leaves it, and its sum.
    fn download(directory: &Path, content: &str) -> (PathBuf, String) {
        let path = directory.join("source.archive");
        fs::write(&path, content).unwrap();
        let sum = baton::sha256_of(&File::open(&path).unwrap()).unwrap();
        (path, sum)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path(), 10).unwrap();
        let [first, second, third] =
            [("aaaa", 1), ("bbbb", 2), ("cccc", 3)].map(|(text, used)| put(&cache, text, used));
        let mut open = cache.find(&first).unwrap().expect("it is there, and was used just now");
        cache.tidy().unwrap();
        assert!(cache.find(&second).unwrap().is_none());
        assert!(cache.find(&first).unwrap().is_some() && cache.find(&third).unwrap().is_some());
        fs::remove_file(directory.path().join(&first)).unwrap();
        io::Seek::rewind(&mut open).unwrap();
        assert_eq!(io::read_to_string(open).unwrap(), "aaaa");
        cache.empty().unwrap();
        assert!(cache.find(&third).unwrap().is_none());
    }

    #[test]
    fn a_changed_archive_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path(), 100).unwrap();
        let sum = put(&cache, "good", 1);
        let place = directory.path().join(&sum);
        fs::write(&place, "evil").unwrap();
        assert!(cache.find(&sum).unwrap().is_none());
        assert!(!place.exists());
        // Also one that has the right content, but is somebody else's.
        let other = tempfile::tempdir().unwrap();
        let (elsewhere, _) = download(other.path(), "good");
        std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
        assert!(cache.find(&sum).unwrap().is_none());
        assert!(fs::symlink_metadata(&place).is_err() && elsewhere.exists());
    }

    #[test]
    fn a_cache_that_was_removed_or_closed_is_made_again() {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = home.path().join("a/cache");
        let cache = Cache::open(&directory, 100).unwrap();
        for spoil in
            [(|directory: &Path| fs::remove_dir_all(directory.parent().unwrap()).unwrap()) as fn(&Path), |directory| {
                fs::set_permissions(directory, Permissions::from_mode(0o0)).unwrap()
            }]
        {
            spoil(&directory);
            let (file, sum) = download(work.path(), "good");
            cache.find(&sum).unwrap();
            spoil(&directory);
            cache.keep(&file, &sum).unwrap();
            assert!(cache.find(&sum).unwrap().is_some() && !file.exists());
            assert_eq!(mode(&directory), 0o700);
        }
    }

    #[test]
    fn nobody_else_reads_what_is_kept() {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = home.path().join("cache");
        let cache = Cache::open(&directory, 4).unwrap();
        let (file, sum) = download(work.path(), "good");
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        cache.keep(&file, &sum).unwrap();
        let kept = directory.join(&sum);
        assert_eq!((mode(&directory), mode(&kept)), (0o700, 0o600));
        fs::set_permissions(&kept, Permissions::from_mode(0o644)).unwrap();
        Cache::open(&directory, 4).unwrap();
        assert_eq!(mode(&kept), 0o600);
        let (large, sum) = download(work.path(), "too large");
        cache.keep(&large, &sum).unwrap();
        assert!(large.exists() && cache.find(&sum).unwrap().is_none());
        cache.copy(&large, &directory.join(&sum)).unwrap();
        assert!(!large.exists() && cache.find(&sum).unwrap().is_some());
        assert_eq!(mode(&directory.join(&sum)), 0o600);
    }

    #[test]
    fn old_halves_are_removed_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("a.1.part"), directory.path().join("b.2.part"));
        fs::write(&old, "").unwrap();
        fs::write(&new, "").unwrap();
        File::open(&old).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        Cache::open(directory.path(), 1).unwrap();
        assert!(!old.exists() && new.exists());
    }
}
