//! Why something could not be packed or unpacked.

use std::io;
use std::path::{Path, PathBuf};

use crate::certs::CertsProblem;
use crate::name::shown;

/// Why something could not be packed or unpacked. Names in messages are escaped, so they can be printed as they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are of no format we read.
    #[error("this is not an archive: send a zip, tar or tar.gz file")]
    NotAnArchive,
    /// The format is right, the bytes are not: cut off, altered, or made wrongly.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// One entry, or one file to pack, is of a kind we do not take.
    #[error("{name}: {why}")]
    Refused {
        /// The entry, escaped for printing.
        name: String,
        /// What is wrong with it.
        why: Refusal,
    },
    /// The archive is larger than its limits.
    #[error("the archive is too large: {0}")]
    TooLarge(Limit),
    /// The directory to unpack into has something in it.
    #[error("{} is not empty: unpack into a new or an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// A line in .gitignore or .batonignore is not a pattern. Packing what it meant to leave out would be worse.
    #[error("cannot understand an ignore file: {0}")]
    IgnoreFile(String),
    /// The archive of certificates lacks a part, or has one twice.
    #[error("the certificates cannot be used: {0}")]
    Certs(#[from] CertsProblem),
    /// A file or directory on this machine cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The archive cannot be read from where it is.
    #[error("cannot read the archive: {0}")]
    Read(#[source] io::Error),
    /// The archive cannot be written to where it goes.
    #[error("cannot write the archive: {0}")]
    Write(#[source] io::Error),
}

/// What is wrong with one entry.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It has no name, or one part of the path is empty.
    #[error("the name, or a part of it, is empty")]
    EmptyName,
    /// It starts with a slash.
    #[error("the path is absolute")]
    AbsolutePath,
    /// One part of the path is `..`.
    #[error("the path goes to a parent directory")]
    ParentPath,
    /// It starts like `C:`.
    #[error("the path starts with a drive letter")]
    DriveLetter,
    /// There is a backslash, which some systems take for a separator.
    #[error("the name has a backslash in it")]
    Backslash,
    /// There is a NUL byte.
    #[error("the name has a NUL byte in it")]
    NulByte,
    /// The name is not UTF-8.
    #[error("the name is not UTF-8: rename it")]
    NotUtf8,
    /// The name or the path is longer than file systems take.
    #[error("the name is too long")]
    NameTooLong,
    /// The same name is there twice.
    #[error("the name is there twice")]
    Duplicate,
    /// There is another name that differs only in case.
    #[error("the name differs only in case from {0}")]
    DuplicateButForCase(String),
    /// What should be its directory is a file or a link.
    #[error("it lies under something that is not a directory")]
    ParentNotADirectory,
    /// The link points outside of the tree, or climbs (`..`) after it went down, which no path can be sure about.
    #[error("the link points outside of the tree: {0}")]
    LinkOutside(String),
    /// The hard link is to something that is not a file further up in the archive.
    #[error("the hard link is to something that is not a file of the archive: {0}")]
    HardLinkTarget(String),
    /// A device, pipe, socket, or another kind that is neither file, directory nor link.
    #[error("it is neither a file, a directory nor a link")]
    SpecialFile,
    /// The file would run with the rights of its owner.
    #[error("it has the set-uid or set-gid bit")]
    SetUid,
    /// It is encrypted.
    #[error("it is encrypted")]
    Encrypted,
    /// It is compressed in a way we do not read.
    #[error("it is compressed with a method other than deflate")]
    Method,
    /// It is a sparse file of a tar.
    #[error("it is a sparse file: pack it without --sparse")]
    Sparse,
    /// Its bytes belong to another entry as well.
    #[error("it overlaps with another entry")]
    Overlap,
}

/// Which limit is exceeded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// All files together.
    #[error("more than {bytes_max} bytes in all")]
    TotalBytes {
        /// The limit.
        bytes_max: u64,
    },
    /// One file.
    #[error("{name} has more than {bytes_max} bytes")]
    FileBytes {
        /// The file, escaped for printing.
        name: String,
        /// The limit.
        bytes_max: u64,
    },
    /// Number of entries.
    #[error("more than {entries_max} entries")]
    Entries {
        /// The limit.
        entries_max: u64,
    },
    /// What comes out against what goes in.
    #[error("it unpacks to more than {ratio_max} times its size")]
    Ratio {
        /// The limit.
        ratio_max: u64,
    },
    /// Names in one path.
    #[error("{name} is more than {depth_max} directories deep")]
    Depth {
        /// The entry, escaped for printing.
        name: String,
        /// The limit.
        depth_max: usize,
    },
    /// What stands around the files: names, attributes, padding.
    #[error("a header, or what follows the last file, has more than {bytes_max} bytes")]
    HeaderBytes {
        /// The limit.
        bytes_max: u64,
    },
}

impl Error {
    pub(crate) fn refused(name: &[u8], why: Refusal) -> Error {
        Error::Refused { name: shown(name), why }
    }

    pub(crate) fn file(path: &Path, source: io::Error) -> Error {
        Error::File { path: path.to_owned(), source }
    }

    /// An error that came up while an archive was read. Those of the system have a number; all others are about the
    /// bytes.
    pub(crate) fn reading(error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(_) => Error::Read(error),
            None => Error::Damaged(error.to_string()),
        }
    }
}
