//! What kind of archive some bytes are.

use std::io::{self, Read, Seek, SeekFrom};

use crate::error::Error;

/// The size of a header of a tar, and of everything else in it.
pub(crate) const TAR_BLOCK_BYTES: usize = 512;

/// The formats that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A zip.
    Zip,
    /// A tar.
    Tar,
    /// A tar, compressed with gzip.
    TarGz,
}

/// Tells the format by the first bytes, and how long the whole is. The reader is at its start afterwards.
pub(crate) fn sniff<R: Read + Seek>(reader: &mut R) -> Result<(Format, u64), Error> {
    let length = reader.seek(SeekFrom::End(0)).map_err(Error::Read)?;
    reader.rewind().map_err(Error::Read)?;
    let start = read_up_to(reader, TAR_BLOCK_BYTES).map_err(Error::Read)?;
    reader.rewind().map_err(Error::Read)?;
    // The second mark is a zip without any entry.
    let format = if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        Format::Zip
    } else if start.starts_with(b"\x1f\x8b") {
        Format::TarGz
    } else if is_tar(&start) {
        Format::Tar
    } else {
        return Err(Error::NotAnArchive);
    };
    Ok((format, length))
}

/// Every tar since 1988 has this mark in its first header.
pub(crate) fn is_tar(block: &[u8]) -> bool {
    block.len() == TAR_BLOCK_BYTES && block[257..].starts_with(b"ustar")
}

/// Reads `count` bytes, or fewer where the reader ends before.
pub(crate) fn read_up_to<R: Read>(reader: &mut R, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    reader.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
