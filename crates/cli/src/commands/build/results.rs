//! Files of builds that were fetched to this machine. A submit leaves them out of the source: a build tool that finds its
//! product there sees nothing to do, and the old product would come back as the new one.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::caches;

/// So many are remembered at most; then the older half is forgotten.
const REMEMBERED_MAX: usize = 2_000;

/// A file as it was when it was fetched. Who has changed it since has made it a file of their own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Fetched {
    path: PathBuf,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Fetched {
    fn new(path: PathBuf, metadata: &Metadata) -> Fetched {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Fetched { path, inode: metadata.ino(), size: metadata.len(), modified }
    }

    fn is_unchanged(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| *self == Fetched::new(self.path.clone(), &metadata))
    }
}

/// Remembers a file that was just fetched.
pub fn remember(path: &Path) {
    // The file is there and whole. That is not to fail for want of a note.
    if let Err(error) = remember_in(&notes(), path) {
        tracing::debug!(%error, path = %path.display(), "cannot note that this is the result of a build");
    }
}

/// Files that were fetched, and are as they were then.
pub fn unchanged() -> Vec<PathBuf> {
    read(&notes()).into_iter().filter(Fetched::is_unchanged).map(|fetched| fetched.path).collect()
}

fn notes() -> PathBuf {
    caches::directory().join("results")
}

fn read(notes: &Path) -> Vec<Fetched> {
    let text = fs::read_to_string(notes).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn remember_in(notes: &Path, path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let fetched = Fetched::new(path.clone(), &fs::metadata(&path)?);
    if let Some(directory) = notes.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let known = read(notes);
    if known.len() >= REMEMBERED_MAX {
        fs::write(notes, lines(&known[known.len() / 2..])?)?;
    }
    // One write at the end of the file: another program that does the same loses nothing.
    File::options().append(true).create(true).open(notes)?.write_all(lines(&[fetched])?.as_bytes())
}

fn lines(all: &[Fetched]) -> io::Result<String> {
    let mut text = String::new();
    for fetched in all {
        text.push_str(&serde_json::to_string(fetched)?);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_known_until_it_is_changed() {
        let directory = tempfile::tempdir().unwrap();
        let (notes, app, other) =
            (directory.path().join("deep/notes"), directory.path().join("app"), directory.path().join("other"));
        for path in [&app, &other] {
            fs::write(path, "built").unwrap();
            remember_in(&notes, path).unwrap();
        }
        fs::write(&other, "written by hand").unwrap();
        let known: Vec<bool> = read(&notes).iter().map(Fetched::is_unchanged).collect();
        assert_eq!(known, [true, false]);
        fs::remove_file(&app).unwrap();
        assert!(!read(&notes)[0].is_unchanged());
    }

    #[test]
    fn notes_do_not_grow_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let (notes, app) = (directory.path().join("notes"), directory.path().join("app"));
        fs::write(&app, "built").unwrap();
        remember_in(&notes, &app).unwrap();
        let one = fs::read_to_string(&notes).unwrap();
        fs::write(&notes, one.repeat(REMEMBERED_MAX)).unwrap();
        remember_in(&notes, &app).unwrap();
        assert_eq!(read(&notes).len(), REMEMBERED_MAX / 2 + 1);
    }
}
