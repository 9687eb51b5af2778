//! Sources that were fetched before, by their sum.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A download that is older was left by a worker that is gone.
const PARTIAL_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Archives under their sha-256. The one that was not used for longest goes first.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
    bytes_max: u64,
}

impl Cache {
    pub fn open(directory: &Path, bytes_max: u64) -> io::Result<Cache> {
        fs::create_dir_all(directory)?;
        let cache = Cache { directory: directory.to_owned(), bytes_max };
        for (path, _, used) in cache.entries()? {
            let is_old = used.elapsed().is_ok_and(|age| age > PARTIAL_AGE_MAX);
            if is_old && path.extension().is_some_and(|extension| extension == "part") {
                remove(&path)?;
            }
        }
        Ok(cache)
    }

    /// Where an archive with this sum is kept; nowhere when it is too large.
    pub fn place(&self, sha256: &str, size: u64) -> Option<PathBuf> {
        (size <= self.bytes_max).then(|| self.directory.join(sha256))
    }

    /// The archive with this sum, if it is here. Builds may run as this same user, so it is read and checked each time.
    /// Blocks.
    pub fn find(&self, sha256: &str) -> io::Result<Option<File>> {
        let path = self.directory.join(sha256);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if baton::sha256_of(&file)? != sha256 {
            tracing::warn!(path = %path.display(), "an archive in the cache was changed; it is fetched again");
            remove(&path)?;
            return Ok(None);
        }
        // The time it was used last.
        file.set_modified(SystemTime::now())?;
        Ok(Some(file))
    }

    /// Makes room. Whoever has an archive open keeps it. Blocks.
    pub fn tidy(&self) -> io::Result<()> {
        let mut entries = self.entries()?;
        entries.retain(|(path, ..)| path.extension().is_none());
        entries.sort_by_key(|(_, _, used)| *used);
        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        for (path, size, _) in entries {
            if total <= self.bytes_max {
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
        let path = cache.directory.join("new");
        fs::write(&path, content).unwrap();
        let file = File::open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(used)).unwrap();
        let sum = baton::sha256_of(&file).unwrap();
        fs::rename(path, cache.place(&sum, content.len() as u64).unwrap()).unwrap();
        sum
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
        fs::remove_file(cache.place(&first, 4).unwrap()).unwrap();
        io::Seek::rewind(&mut open).unwrap();
        assert_eq!(io::read_to_string(open).unwrap(), "aaaa");
        assert_eq!(cache.place(&first, 11), None);
    }

    #[test]
    fn a_changed_archive_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path(), 100).unwrap();
        let sum = put(&cache, "good", 1);
        fs::write(cache.place(&sum, 4).unwrap(), "evil").unwrap();
        assert!(cache.find(&sum).unwrap().is_none());
        assert!(!cache.place(&sum, 4).unwrap().exists());
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
