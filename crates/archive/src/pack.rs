//! Packing a directory: the same tree gives the same bytes.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use sha2::{Digest, Sha256};
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use crate::error::{Error, Refusal};
use crate::intake::CHUNK_BYTES;
use crate::walk::{Item, Kind, walk};

/// From this size on, a file gets the wider fields of zip64. Below the 4 GiB of the narrow ones, because what does not
/// compress grows a little.
const LARGE_FILE_BYTES: u64 = 4_000_000_000;
const COMPRESSION_LEVEL: i64 = 6;

/// How to pack.
#[derive(Clone, Default, Debug)]
pub struct PackOptions {
    /// Files and directories that are left out where they lie in the tree, by whatever path they are reached: the file that
    /// the archive is written to, secrets that go another way. The manifest names what was left out.
    pub leave_out: Vec<PathBuf>,
    /// What to do with symbolic links that point outside of the tree.
    pub links_outside: LinksOutside,
    /// Pack all there is, whatever ignore files say: for what came out of a build.
    pub everything: bool,
}

/// What to do with symbolic links that point outside of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LinksOutside {
    /// Fail and name the link: on another machine it would point to something else.
    #[default]
    Refuse,
    /// Leave them out. The manifest names them.
    Skip,
}

/// How far packing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Files that are done.
    pub files: u64,
    /// Files there are.
    pub files_total: u64,
    /// Bytes read from files.
    pub bytes: u64,
    /// Bytes there were in all files when packing began.
    pub bytes_total: u64,
}

/// What was packed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// Files, links and directories.
    pub entries: u64,
    /// Files alone.
    pub files: u64,
    /// The bytes of all files.
    pub bytes: u64,
    /// The bytes of the archive.
    pub archive_bytes: u64,
    /// The SHA-256 of the archive.
    pub sha256: [u8; 32],
    /// Links that were left out because they point outside of the tree.
    pub skipped_links: Vec<String>,
    /// What was left out because [`PackOptions::leave_out`] names it.
    pub left_out: Vec<String>,
}

/// Packs a directory as a zip, written to `writer` from start to end.
///
/// Left out: what `.gitignore` and `.batonignore` files say (the latter win, and both may lie in any directory), `.git`,
/// and what the options name. Kept: paths, contents, empty directories, the executable bit, and symbolic links that point
/// inside of the tree. Times, owners and other modes are not.
///
/// On an error, what was written so far is not an archive.
pub fn pack<W: Write>(
    directory: &Path,
    writer: W,
    options: &PackOptions,
    progress: impl FnMut(Progress),
) -> Result<Manifest, Error> {
    let root = fs::canonicalize(directory).map_err(|error| Error::file(directory, error))?;
    // The walk would take a file for a tree of one.
    if !root.is_dir() {
        return Err(Error::file(directory, io::ErrorKind::NotADirectory.into()));
    }
    let found = walk(&root, options)?;
    let is_silent = Rc::new(Cell::new(false));
    let output = Output { inner: writer, sha256: Sha256::new(), bytes: 0, is_silent: is_silent.clone() };
    let mut packer = Packer::new(&root, output, &found.items, progress);
    if let Err(error) = found.items.iter().try_for_each(|item| packer.add(item)) {
        // The library ends the archive when it is dropped, and half a tree would look like a whole one.
        is_silent.set(true);
        return Err(error);
    }
    let (mut output, done) = packer.finish()?;
    output.inner.flush().map_err(Error::Write)?;
    Ok(Manifest {
        entries: found.items.len() as u64,
        files: done.files,
        bytes: done.bytes,
        archive_bytes: output.bytes,
        sha256: output.sha256.finalize().into(),
        skipped_links: found.skipped_links,
        left_out: found.left_out,
    })
}

struct Packer<'a, W: Write, P> {
    root: &'a Path,
    zip: ZipWriter<StreamWriter<Output<W>>>,
    done: Progress,
    progress: P,
    buffer: Vec<u8>,
}

impl<'a, W: Write, P: FnMut(Progress)> Packer<'a, W, P> {
    fn new(root: &'a Path, output: Output<W>, items: &[Item], progress: P) -> Self {
        let sizes = items.iter().filter_map(|item| match item.kind {
            Kind::File { bytes } => Some(bytes),
            Kind::Directory | Kind::Link { .. } => None,
        });
        let (files_total, bytes_total) = sizes.fold((0, 0), |(files, total), bytes| (files + 1, total + bytes));
        let done = Progress { files: 0, files_total, bytes: 0, bytes_total };
        Packer { root, zip: ZipWriter::new_stream(output), done, progress, buffer: vec![0; CHUNK_BYTES] }
    }

    fn add(&mut self, item: &Item) -> Result<(), Error> {
        match &item.kind {
            Kind::Directory => self.zip.add_directory(&*item.path, entry_options(0o755)).map_err(write_error),
            Kind::Link { target } => {
                self.zip.add_symlink(&item.path, target, entry_options(0o777)).map_err(write_error)
            }
            Kind::File { .. } => self.add_file(item),
        }
    }

    fn add_file(&mut self, item: &Item) -> Result<(), Error> {
        let path = self.root.join(&item.path);
        let file_error = |error| Error::file(&path, error);
        let mut file = File::open(&path).map_err(file_error)?;
        let metadata = file.metadata().map_err(file_error)?;
        // It was a file when the tree was walked.
        if !metadata.is_file() {
            return Err(Error::refused(item.path.as_bytes(), Refusal::SpecialFile));
        }
        let mode = if metadata.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 };
        let options = entry_options(mode).large_file(metadata.len() >= LARGE_FILE_BYTES);
        self.zip.start_file(&item.path, options).map_err(write_error)?;
        loop {
            let count = fill(&mut file, &mut self.buffer).map_err(file_error)?;
            if count == 0 {
                break;
            }
            self.zip.write_all(&self.buffer[..count]).map_err(Error::Write)?;
            self.done.bytes += count as u64;
            (self.progress)(self.done);
        }
        self.done.files += 1;
        (self.progress)(self.done);
        Ok(())
    }

    fn finish(self) -> Result<(Output<W>, Progress), Error> {
        let stream = self.zip.finish().map_err(write_error)?;
        Ok((stream.into_inner(), self.done))
    }
}

/// Nothing in here may depend on the machine or the time.
fn entry_options(mode: u32) -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(COMPRESSION_LEVEL))
        .last_modified_time(DateTime::DEFAULT)
        .system(System::Unix)
        .unix_permissions(mode)
}

/// Fills the buffer as far as the file goes: how a file is cut into reads could change how it is compressed.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn write_error(error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => Error::Write(error),
        other => Error::Write(io::Error::other(other)),
    }
}

/// Hashes and counts what goes by.
struct Output<W> {
    inner: W,
    sha256: Sha256,
    bytes: u64,
    is_silent: Rc<Cell<bool>>,
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.is_silent.get() {
            return Ok(buffer.len());
        }
        let count = self.inner.write(buffer)?;
        self.sha256.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.is_silent.get() {
            true => Ok(()),
            false => self.inner.flush(),
        }
    }
}
