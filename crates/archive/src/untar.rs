//! Reading a tar, plain or compressed.
//!
//! A tar has no directory: it is read from the start to the end, once.

use std::cell::Cell;
use std::io::{self, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

use crate::error::{Error, Limit, Refusal};
use crate::intake::{CHUNK_BYTES, Intake, Sink};
use crate::sniff::{TAR_BLOCK_BYTES, is_tar, read_up_to};

/// How much may stand between two files, in bytes: headers, long names, attributes. The reader keeps all of it in
/// memory, whatever size it claims.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// Reads a plain tar.
pub(crate) fn plain<R: Read, S: Sink>(reader: R, intake: &mut Intake<'_, S>) -> Result<(), Error> {
    contents(BufReader::with_capacity(CHUNK_BYTES, reader), intake)
}

/// Reads a tar that is compressed with gzip.
pub(crate) fn compressed<R: Read, S: Sink>(reader: R, intake: &mut Intake<'_, S>) -> Result<(), Error> {
    let mut stream = MultiGzDecoder::new(BufReader::with_capacity(CHUNK_BYTES, reader));
    let start = read_up_to(&mut stream, TAR_BLOCK_BYTES).map_err(Error::reading)?;
    if !is_tar(&start) {
        return Err(Error::NotAnArchive);
    }
    contents(Cursor::new(start).chain(stream), intake)
}

fn contents<R: Read, S: Sink>(reader: R, intake: &mut Intake<'_, S>) -> Result<(), Error> {
    let valve = Rc::new(Valve::default());
    let mut archive = Archive::new(Valved { inner: reader, valve: valve.clone() });
    let mut entries = archive.entries().map_err(Error::reading)?;
    loop {
        valve.open(HEADER_BYTES_MAX);
        let entry = entries.next();
        intake.overhead(HEADER_BYTES_MAX - valve.left())?;
        match entry {
            Some(Ok(entry)) => {
                valve.open(u64::MAX);
                take(entry, intake)?;
            }
            Some(Err(error)) => return Err(valve.explain(error)),
            None => break,
        }
    }
    if valve.has_ended() {
        return Err(Error::Damaged("it ends before the mark of its end: it was cut off".into()));
    }
    // What follows the mark is padding. It is read because a compressed stream is checked only at its very end.
    valve.open(HEADER_BYTES_MAX);
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| valve.explain(error))?;
    Ok(())
}

fn take<R: Read, S: Sink>(mut entry: Entry<'_, R>, intake: &mut Intake<'_, S>) -> Result<(), Error> {
    let name = entry.path_bytes().into_owned();
    if is_sparse(&mut entry)? {
        return Err(Error::refused(&name, Refusal::Sparse));
    }
    let link = |entry: &Entry<'_, R>| entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
    match entry.header().entry_type() {
        EntryType::Directory => intake.directory(&name),
        // This is how directories were written before they had a type.
        EntryType::Regular if name.ends_with(b"/") && entry.size() == 0 => intake.directory(&name),
        EntryType::Regular | EntryType::Continuous => {
            let mode = entry.header().mode().map_err(Error::reading)?;
            let file = intake.file(&name, mode, entry.size())?;
            intake.content(&file, &mut entry)
        }
        EntryType::Symlink => intake.symbolic_link(&name, &link(&entry)),
        EntryType::Link => intake.hard_link(&name, &link(&entry)),
        // Remarks about the whole archive, such as the commit it was made from.
        EntryType::XGlobalHeader => Ok(()),
        _ => Err(Error::refused(&name, Refusal::SpecialFile)),
    }
}

/// There are two ways to write a sparse file. The library reads the old one, and takes the map of the new one for
/// content.
fn is_sparse<R: Read>(entry: &mut Entry<'_, R>) -> Result<bool, Error> {
    if entry.header().entry_type() == EntryType::GNUSparse {
        return Ok(true);
    }
    let Some(extensions) = entry.pax_extensions().map_err(Error::reading)? else {
        return Ok(false);
    };
    for extension in extensions {
        if extension.map_err(Error::reading)?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How much may still be read before something is wrong.
#[derive(Default)]
struct Valve {
    left: Cell<u64>,
    has_ended: Cell<bool>,
    is_exceeded: Cell<bool>,
}

impl Valve {
    fn open(&self, bytes: u64) {
        self.left.set(bytes);
    }

    fn left(&self) -> u64 {
        self.left.get()
    }

    fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    fn explain(&self, error: io::Error) -> Error {
        match self.is_exceeded.get() {
            true => Error::TooLarge(Limit::HeaderBytes { bytes_max: HEADER_BYTES_MAX }),
            false => Error::reading(error),
        }
    }
}

struct Valved<R> {
    inner: R,
    valve: Rc<Valve>,
}

impl<R: Read> Read for Valved<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.valve.left.get();
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if wanted == 0 && !buffer.is_empty() {
            // The end of the archive may be exactly here.
            if self.inner.read(&mut [0])? == 0 {
                self.valve.has_ended.set(true);
                return Ok(0);
            }
            self.valve.is_exceeded.set(true);
            return Err(io::Error::other("more bytes than there may be"));
        }
        let count = self.inner.read(&mut buffer[..wanted])?;
        if count == 0 && wanted != 0 {
            self.valve.has_ended.set(true);
        }
        self.valve.left.set(left - count as u64);
        Ok(count)
    }
}
