//! Which files of a directory go into an archive.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{DirEntry, WalkBuilder};

use crate::error::{Error, Refusal};
use crate::links::check_target;
use crate::name::{entry_path, shown};
use crate::pack::{LinksOutside, PackOptions};

/// Rules of our own, read after those of git: what stands here wins.
const IGNORE_FILE: &str = ".batonignore";
const GIT_DIRECTORY: &str = ".git";

/// One thing to pack.
pub(crate) struct Item {
    pub(crate) path: String,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Directory,
    File { bytes: u64 },
    Link { target: String },
}

/// What was found, in the order of the paths.
pub(crate) struct Found {
    pub(crate) items: Vec<Item>,
    pub(crate) skipped_links: Vec<String>,
    pub(crate) left_out: Vec<String>,
}

/// Walks `root`, which has no links in its own path.
pub(crate) fn walk(root: &Path, options: &PackOptions) -> Result<Found, Error> {
    let unwanted = identities(&options.leave_out);
    let left_out: Arc<Mutex<Vec<String>>> = Arc::default();
    // Inside a repository the rules of the directories above count too, as they do for git.
    let is_in_repository = root.ancestors().any(|directory| directory.join(GIT_DIRECTORY).exists());
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).follow_links(false);
    if !options.everything {
        walk.git_ignore(true)
            .require_git(is_in_repository)
            .parents(is_in_repository)
            .add_custom_ignore_filename(IGNORE_FILE);
    }
    let (everything, noted, top) = (options.everything, left_out.clone(), root.to_owned());
    // Here and not further down: what is below a directory that is left out is not looked at either.
    walk.filter_entry(move |entry| {
        if entry.depth() == 0 {
            return true;
        }
        let is_unwanted = !unwanted.is_empty()
            && fs::symlink_metadata(entry.path()).is_ok_and(|found| unwanted.contains(&(found.dev(), found.ino())));
        if is_unwanted {
            let path = entry.path().strip_prefix(&top).unwrap_or(entry.path());
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(shown(path.as_os_str().as_bytes()));
        }
        !is_unwanted && (everything || entry.file_name() != GIT_DIRECTORY)
    });
    let mut found = Found { items: Vec::new(), skipped_links: Vec::new(), left_out: Vec::new() };
    for entry in walk.build() {
        let entry = entry.map_err(|error| walk_error(root, error))?;
        if let Some(error) = entry.error() {
            return Err(Error::IgnoreFile(error.to_string()));
        }
        if entry.depth() > 0 {
            look_at(root, &entry, options, &mut found)?;
        }
    }
    found.items.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    found.skipped_links.sort_unstable();
    found.left_out.append(&mut left_out.lock().unwrap_or_else(PoisonError::into_inner));
    found.left_out.sort_unstable();
    Ok(found)
}

/// What the paths lead to, as device and inode; of a link also the link itself, which would lead nowhere.
fn identities(paths: &[PathBuf]) -> Vec<(u64, u64)> {
    let both = |path: &PathBuf| [fs::metadata(path), fs::symlink_metadata(path)];
    paths.iter().flat_map(both).flatten().map(|found| (found.dev(), found.ino())).collect()
}

fn look_at(root: &Path, entry: &DirEntry, options: &PackOptions, found: &mut Found) -> Result<(), Error> {
    let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
    let path = entry_path(relative.as_os_str().as_bytes())?;
    let metadata = fs::symlink_metadata(entry.path()).map_err(|error| Error::file(entry.path(), error))?;
    let kind = if metadata.is_dir() {
        Kind::Directory
    } else if metadata.is_file() {
        Kind::File { bytes: metadata.len() }
    } else if metadata.is_symlink() {
        match (link_target(root, entry.path(), &path)?, options.links_outside) {
            (Ok(target), _) => Kind::Link { target },
            (Err(_), LinksOutside::Skip) => {
                found.skipped_links.push(path);
                return Ok(());
            }
            (Err(why), LinksOutside::Refuse) => return Err(Error::refused(path.as_bytes(), why)),
        }
    } else {
        return Err(Error::refused(path.as_bytes(), Refusal::SpecialFile));
    };
    found.items.push(Item { path, kind });
    Ok(())
}

/// The target of a link as it goes into the archive. One that leads into the tree in a roundabout way, or with an
/// absolute path, is written anew, so that it does so wherever the tree is unpacked.
fn link_target(root: &Path, link: &Path, path: &str) -> Result<Result<String, Refusal>, Error> {
    let target = fs::read_link(link).map_err(|error| Error::file(link, error))?;
    let refusal = match check_target(path, target.as_os_str().as_bytes()) {
        Ok(target) => return Ok(Ok(target.to_owned())),
        Err(refusal) => refusal,
    };
    let Some(real) = fs::canonicalize(link).ok().filter(|real| real.starts_with(root)) else {
        return Ok(Err(refusal));
    };
    let target = relative_target(root, path, &real);
    Ok(check_target(path, target.as_os_str().as_bytes()).map(str::to_owned))
}

/// The way from the directory of the link at `path` to `real`, by the root they share.
fn relative_target(root: &Path, path: &str, real: &Path) -> PathBuf {
    let climbs = path.matches('/').count();
    let mut target: PathBuf = std::iter::repeat_n("..", climbs).collect();
    target.push(real.strip_prefix(root).unwrap_or(real));
    match target.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => target,
    }
}

fn walk_error(root: &Path, error: ignore::Error) -> Error {
    let text = error.to_string();
    let mut path = root.to_owned();
    let mut inner = &error;
    while let ignore::Error::WithPath { err, .. } | ignore::Error::WithDepth { err, .. } = inner {
        if let ignore::Error::WithPath { path: at, .. } = inner {
            path.clone_from(at);
        }
        inner = err;
    }
    match error.into_io_error() {
        Some(source) => Error::file(&path, source),
        None => Error::IgnoreFile(shown(text.as_bytes())),
    }
}
