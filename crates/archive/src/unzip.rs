//! Reading a zip.
//!
//! The directory at the end is read first, in a pass of its own that writes nothing: most bad archives are refused
//! there. The second pass reads the contents and believes nothing that the first one found out.

use std::io::{Read, Seek};

use zip::read::{ArchiveOffset, Config, ZipFileEntry};
use zip::result::ZipError;
use zip::unstable::read::{ZipIterable, ZipIterableFiles};
use zip::{CompressionMethod, ZipReadOptions};

use crate::error::{Error, Limit, Refusal};
use crate::intake::{Intake, Sink};
use crate::limits::Limits;
use crate::name::{PATH_BYTES_MAX, shown};
use crate::sniff::read_up_to;

/// The part of a local header that is always there, in bytes.
const LOCAL_HEADER_BYTES: u64 = 30;
/// The largest entry that is still read as the target of a link, with some room for a target that does not compress.
const LINK_BYTES_MAX: u64 = 2 * PATH_BYTES_MAX as u64;

enum Kind {
    Directory,
    File { mode: u32 },
    SymbolicLink,
}

/// Where in the archive the entries are, by what the directory says.
pub(crate) struct Layout {
    /// Where each entry starts, in order.
    starts: Vec<u64>,
    directory_start: u64,
}

/// Reads the directory, and of the contents only where links point.
pub(crate) fn survey<R: Read + Seek, S: Sink>(
    reader: R,
    limits: &Limits,
    intake: &mut Intake<'_, S>,
) -> Result<Layout, Error> {
    let mut zip = open(reader, limits)?;
    let files = zip.files().map_err(damaged)?;
    let mut spans = Vec::new();
    let mut directory_start = u64::MAX;
    while let Some(entry) = files.next() {
        let entry = entry.map_err(damaged)?;
        directory_start = directory_start.min(entry.central_header_start());
        // At least this much belongs to the entry. How long its local header really is, only that header says.
        let length = (LOCAL_HEADER_BYTES + entry.name_raw().len() as u64).saturating_add(entry.compressed_size());
        spans.push((entry.header_start(), entry.header_start().saturating_add(length), spans.len()));
        match kind_of(&entry)? {
            Kind::Directory => intake.directory(entry.name_raw())?,
            Kind::File { mode } => {
                let file = intake.file(entry.name_raw(), mode, entry.size())?;
                intake.count_as_declared(&file)?;
            }
            Kind::SymbolicLink => take_link(entry, files, intake)?,
        }
    }
    spans.sort_unstable();
    let next_starts = spans.iter().skip(1).map(|span| span.0).chain([directory_start]);
    for ((_, end, number), next_start) in spans.iter().zip(next_starts) {
        if *end > next_start {
            let name = name_of(&mut zip, *number)?;
            return Err(Error::refused(&name, Refusal::Overlap));
        }
    }
    Ok(Layout { starts: spans.iter().map(|span| span.0).collect(), directory_start })
}

/// Reads everything. `layout` is what [`survey`] found in the same archive.
pub(crate) fn contents<R: Read + Seek, S: Sink>(
    reader: R,
    limits: &Limits,
    layout: &Layout,
    intake: &mut Intake<'_, S>,
) -> Result<(), Error> {
    // Readers that go by the local headers must not see other files than we do.
    let mut zip = open(reader, limits)?.enforce_header_consistency(true);
    let files = zip.files().map_err(damaged)?;
    while let Some(entry) = files.next() {
        let entry = entry.map_err(damaged)?;
        match kind_of(&entry)? {
            Kind::Directory => intake.directory(entry.name_raw())?,
            Kind::SymbolicLink => take_link(entry, files, intake)?,
            Kind::File { mode } => {
                let new = intake.file(entry.name_raw(), mode, entry.size())?;
                let next_start = layout.next_start(entry.header_start());
                let file = entry.with_reader(files.reader_mut(), ZipReadOptions::new()).map_err(damaged)?;
                let end = file.data_start().and_then(|start| start.checked_add(file.compressed_size()));
                if end.is_none_or(|end| end > next_start) {
                    return Err(Error::refused(file.name_raw(), Refusal::Overlap));
                }
                intake.content(&new, file)?;
            }
        }
    }
    Ok(())
}

impl Layout {
    /// Where the entry that starts at `start` has to end.
    fn next_start(&self, start: u64) -> u64 {
        let following = self.starts.partition_point(|other| *other <= start);
        self.starts.get(following).copied().unwrap_or(self.directory_start)
    }
}

fn open<R: Read + Seek>(reader: R, limits: &Limits) -> Result<ZipIterable<R>, Error> {
    // An archive starts where the file starts. Looking for one behind other bytes is how two programs come to see two
    // different archives in one file.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let zip = ZipIterable::try_new(reader, config).map_err(damaged)?;
    if zip.len() as u64 > limits.entries_max {
        return Err(Error::TooLarge(Limit::Entries { entries_max: limits.entries_max }));
    }
    Ok(zip)
}

fn kind_of(entry: &ZipFileEntry<'_>) -> Result<Kind, Error> {
    const TYPE_MASK: u32 = 0o170_000;
    const DIRECTORY: u32 = 0o040_000;
    const REGULAR: u32 = 0o100_000;
    const SYMBOLIC_LINK: u32 = 0o120_000;
    let refused = |why| Err(Error::refused(entry.name_raw(), why));
    if entry.encrypted() {
        return refused(Refusal::Encrypted);
    }
    if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
        return refused(Refusal::Method);
    }
    // Programs of other systems leave the mode at zero: a plain file, or a directory by its name.
    let mode = entry.external_attributes() >> 16;
    let kind = match mode & TYPE_MASK {
        DIRECTORY => Kind::Directory,
        0 | REGULAR if entry.name_raw().ends_with(b"/") => Kind::Directory,
        0 | REGULAR => Kind::File { mode },
        SYMBOLIC_LINK => Kind::SymbolicLink,
        _ => return refused(Refusal::SpecialFile),
    };
    if matches!(kind, Kind::Directory) && entry.size() != 0 {
        return Err(Error::Damaged(format!("the directory {} has content", shown(entry.name_raw()))));
    }
    Ok(kind)
}

fn take_link<R: Read + Seek, S: Sink>(
    entry: ZipFileEntry<'static>,
    files: &mut ZipIterableFiles<R>,
    intake: &mut Intake<'_, S>,
) -> Result<(), Error> {
    // Looked at before anything is read: the library reads an entry to its end, and many entries could claim the same
    // large part of the archive.
    if entry.size().max(entry.compressed_size()) > LINK_BYTES_MAX {
        return Err(Error::refused(entry.name_raw(), Refusal::NameTooLong));
    }
    let mut link = entry.with_reader(files.reader_mut(), ZipReadOptions::new()).map_err(damaged)?;
    // One byte more than a link may have, so that a longer one is refused and not cut.
    let target = read_up_to(&mut link, PATH_BYTES_MAX + 1).map_err(Error::reading)?;
    intake.symbolic_link(link.name_raw(), &target)
}

/// The name of an entry by its number. Only an error needs it, so names are not kept.
fn name_of<R: Read + Seek>(zip: &mut ZipIterable<R>, number: usize) -> Result<Vec<u8>, Error> {
    match zip.files().map_err(damaged)?.nth(number) {
        Some(entry) => Ok(entry.map_err(damaged)?.name_raw().to_vec()),
        None => Ok(Vec::new()),
    }
}

fn damaged(error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => Error::reading(error),
        other => Error::Damaged(other.to_string()),
    }
}
