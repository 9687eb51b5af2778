//! The gate every entry of every format goes through: all checks are here, and none depends on the format.

use std::io::Read;

use crate::error::{Error, Refusal};
use crate::limits::{Limits, Meter};
use crate::links::check_target;
use crate::name::{entry_path, shown};
use crate::tree::{Node, Tree};

/// How much of a file is read at once, in bytes.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
const OWNER_MAY_EXECUTE: u32 = 0o100;
const SET_UID_OR_SET_GID: u32 = 0o6000;

/// Where checked entries go. Paths are relative, and each is new; the directories above it came before it.
pub(crate) trait Sink {
    /// A file that is being written.
    type File;
    fn directory(&mut self, path: &str) -> Result<(), Error>;
    fn begin_file(&mut self, path: &str, is_executable: bool, bytes: u64) -> Result<Self::File, Error>;
    fn write(&mut self, file: &mut Self::File, bytes: &[u8]) -> Result<(), Error>;
    fn end_file(&mut self, file: Self::File) -> Result<(), Error>;
    /// `target` is a file that went through here before.
    fn hard_link(&mut self, path: &str, target: &str) -> Result<(), Error>;
    /// Symbolic links come after everything else.
    fn symbolic_link(&mut self, path: &str, target: &str) -> Result<(), Error>;
}

/// A sink that keeps nothing.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    type File = ();
    fn directory(&mut self, _path: &str) -> Result<(), Error> {
        Ok(())
    }
    fn begin_file(&mut self, _path: &str, _is_executable: bool, _bytes: u64) -> Result<(), Error> {
        Ok(())
    }
    fn write(&mut self, _file: &mut (), _bytes: &[u8]) -> Result<(), Error> {
        Ok(())
    }
    fn end_file(&mut self, _file: ()) -> Result<(), Error> {
        Ok(())
    }
    fn hard_link(&mut self, _path: &str, _target: &str) -> Result<(), Error> {
        Ok(())
    }
    fn symbolic_link(&mut self, _path: &str, _target: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// A file that was let in, and whose content has not come yet.
pub(crate) struct NewFile {
    path: String,
    is_executable: bool,
    bytes: u64,
}

pub(crate) struct Intake<'sink, S> {
    tree: Tree,
    meter: Meter,
    sink: &'sink mut S,
    file_bytes: u64,
    symbolic_links: Vec<(String, String)>,
    buffer: Vec<u8>,
}

impl<'sink, S: Sink> Intake<'sink, S> {
    pub(crate) fn new(limits: &Limits, archive_bytes: u64, sink: &'sink mut S) -> Self {
        Intake {
            tree: Tree::new(limits),
            meter: Meter::new(limits, archive_bytes),
            sink,
            file_bytes: 0,
            symbolic_links: Vec::new(),
            buffer: vec![0; CHUNK_BYTES],
        }
    }

    pub(crate) fn directory(&mut self, raw_name: &[u8]) -> Result<(), Error> {
        self.add(&entry_path(raw_name)?, Node::Directory)
    }

    /// Lets a file in that says of itself that it has `bytes`.
    pub(crate) fn file(&mut self, raw_name: &[u8], mode: u32, bytes: u64) -> Result<NewFile, Error> {
        let path = entry_path(raw_name)?;
        if mode & SET_UID_OR_SET_GID != 0 {
            return Err(Error::refused(raw_name, Refusal::SetUid));
        }
        self.meter.check_file(&path, bytes)?;
        self.add(&path, Node::File)?;
        Ok(NewFile { path, is_executable: mode & OWNER_MAY_EXECUTE != 0, bytes })
    }

    /// Counts a file by what it says of itself, where its content is not looked at.
    pub(crate) fn count_as_declared(&mut self, file: &NewFile) -> Result<(), Error> {
        self.file_bytes = self.file_bytes.saturating_add(file.bytes);
        self.meter.count_file(&file.path, file.bytes, file.bytes)
    }

    /// Takes the content of a file, counting every byte before it is written.
    pub(crate) fn content(&mut self, file: &NewFile, mut content: impl Read) -> Result<(), Error> {
        let mut written = self.sink.begin_file(&file.path, file.is_executable, file.bytes)?;
        let mut bytes = 0;
        loop {
            let count = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(in_file(&file.path, Error::reading(error))),
            };
            bytes += count as u64;
            self.meter.count_file(&file.path, bytes, count as u64)?;
            self.sink.write(&mut written, &self.buffer[..count])?;
        }
        if bytes != file.bytes {
            let name = shown(file.path.as_bytes());
            return Err(Error::Damaged(format!("{name} should have {} bytes and has {bytes}", file.bytes)));
        }
        self.file_bytes += bytes;
        self.sink.end_file(written)
    }

    pub(crate) fn symbolic_link(&mut self, raw_name: &[u8], target: &[u8]) -> Result<(), Error> {
        let path = entry_path(raw_name)?;
        self.add(&path, Node::Link)?;
        let target = check_target(&path, target).map_err(|why| Error::refused(raw_name, why))?.to_owned();
        self.symbolic_links.push((path, target));
        Ok(())
    }

    /// Takes a second name of a file that came before.
    pub(crate) fn hard_link(&mut self, raw_name: &[u8], raw_target: &[u8]) -> Result<(), Error> {
        let path = entry_path(raw_name)?;
        let target = entry_path(raw_target)?;
        if self.tree.get(&target) != Some(Node::File) {
            return Err(Error::refused(raw_name, Refusal::HardLinkTarget(shown(raw_target))));
        }
        self.add(&path, Node::File)?;
        self.sink.hard_link(&path, &target)
    }

    /// Counts bytes that come out of a compressed stream and belong to no file.
    pub(crate) fn overhead(&mut self, bytes: u64) -> Result<(), Error> {
        self.meter.count(bytes)
    }

    /// Makes the links, now that nothing is left to be written through them. Returns entries, and bytes of files.
    pub(crate) fn finish(self) -> Result<(u64, u64), Error> {
        for (path, target) in &self.symbolic_links {
            self.sink.symbolic_link(path, target)?;
        }
        Ok((self.tree.entries(), self.file_bytes))
    }

    fn add(&mut self, path: &str, node: Node) -> Result<(), Error> {
        for directory in self.tree.add(path, node)? {
            self.sink.directory(&directory)?;
        }
        Ok(())
    }
}

/// Says in which file the archive is damaged.
fn in_file(path: &str, error: Error) -> Error {
    match error {
        Error::Damaged(why) => Error::Damaged(format!("{}: {why}", shown(path.as_bytes()))),
        other => other,
    }
}
