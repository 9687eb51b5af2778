//! Unpacking, all or nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::intake::{Intake, Nowhere, Sink};
use crate::limits::Limits;
use crate::sniff::{Format, sniff};
use crate::{untar, unzip};

/// What an archive holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Its format.
    pub format: Format,
    /// Files, links and directories.
    pub entries: u64,
    /// The bytes of all files, unpacked.
    pub bytes: u64,
}

/// Unpacks a zip, tar or tar.gz into `directory`, which has to be empty, or is made if its parent is there. On an error
/// nothing is left in it, and it is removed if it was made here.
///
/// Of the modes only "executable" is taken over; times and owners are not.
pub fn unpack<R: Read + Seek>(mut reader: R, directory: &Path, limits: &Limits) -> Result<Contents, Error> {
    // Nothing needs to be made, or removed again, for something that is no archive.
    sniff(&mut reader)?;
    let mut target = Target::claim(directory)?;
    let contents = read(reader, limits, &mut Disk { root: directory })?;
    target.is_done = true;
    Ok(contents)
}

/// Says whether [`unpack`] would take this archive. Of a zip only the directory and the targets of links are read, so
/// contents may still turn out to be damaged, or larger than they say. A tar has no directory: all of it is read.
pub fn check<R: Read + Seek>(mut reader: R, limits: &Limits) -> Result<Contents, Error> {
    let (format, archive_bytes) = sniff(&mut reader)?;
    match format {
        Format::Zip => {
            let mut nowhere = Nowhere;
            let mut intake = Intake::new(limits, archive_bytes, &mut nowhere);
            unzip::survey(&mut reader, limits, &mut intake)?;
            let (entries, bytes) = intake.finish()?;
            Ok(Contents { format, entries, bytes })
        }
        Format::Tar | Format::TarGz => read(reader, limits, &mut Nowhere),
    }
}

/// Reads all of an archive into a sink.
pub(crate) fn read<R: Read + Seek, S: Sink>(mut reader: R, limits: &Limits, sink: &mut S) -> Result<Contents, Error> {
    let (format, archive_bytes) = sniff(&mut reader)?;
    let mut intake = Intake::new(limits, archive_bytes, sink);
    match format {
        Format::Zip => {
            let mut nowhere = Nowhere;
            let mut first_look = Intake::new(limits, archive_bytes, &mut nowhere);
            let layout = unzip::survey(&mut reader, limits, &mut first_look)?;
            drop(first_look);
            unzip::contents(&mut reader, limits, &layout, &mut intake)?;
        }
        Format::Tar => untar::plain(&mut reader, &mut intake)?,
        Format::TarGz => untar::compressed(&mut reader, &mut intake)?,
    }
    let (entries, bytes) = intake.finish()?;
    Ok(Contents { format, entries, bytes })
}

/// The directory to unpack into. It is emptied again when it goes out of scope before it is done.
struct Target {
    directory: PathBuf,
    was_made: bool,
    is_done: bool,
}

impl Target {
    fn claim(directory: &Path) -> Result<Target, Error> {
        let file_error = |error| Error::file(directory, error);
        let was_made = match fs::read_dir(directory) {
            Ok(mut children) => match children.next() {
                None => false,
                Some(_) => return Err(Error::NotEmpty(directory.to_owned())),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir(directory).map_err(file_error)?;
                true
            }
            Err(error) => return Err(file_error(error)),
        };
        Ok(Target { directory: directory.to_owned(), was_made, is_done: false })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // There is already an error to report, and whatever cannot be removed shows up when the directory is used again.
        if self.was_made {
            let _ = fs::remove_dir_all(&self.directory);
            return;
        }
        for child in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let _ = match child.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(child.path()),
                _ => fs::remove_file(child.path()),
            };
        }
    }
}

/// The sink that writes. Everything is made anew: what is already there, under whatever spelling the file system takes
/// for the same, is an error and never opened.
struct Disk<'a> {
    root: &'a Path,
}

impl Sink for Disk<'_> {
    type File = (PathBuf, File);

    fn directory(&mut self, path: &str) -> Result<(), Error> {
        let path = self.root.join(path);
        fs::create_dir(&path).map_err(|error| Error::file(&path, error))
    }

    fn begin_file(&mut self, path: &str, is_executable: bool, _bytes: u64) -> Result<(PathBuf, File), Error> {
        let path = self.root.join(path);
        let mode = if is_executable { 0o755 } else { 0o644 };
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&path) {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(Error::file(&path, error)),
        }
    }

    fn write(&mut self, (path, file): &mut (PathBuf, File), bytes: &[u8]) -> Result<(), Error> {
        file.write_all(bytes).map_err(|error| Error::file(path, error))
    }

    fn end_file(&mut self, _file: (PathBuf, File)) -> Result<(), Error> {
        Ok(())
    }

    fn hard_link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        let path = self.root.join(path);
        fs::hard_link(self.root.join(target), &path).map_err(|error| Error::file(&path, error))
    }

    fn symbolic_link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        let path = self.root.join(path);
        symlink(target, &path).map_err(|error| Error::file(&path, error))
    }
}
