//! How much of an archive is too much.

use crate::error::{Error, Limit};
use crate::name::shown;

/// What an archive may hold. Sizes are counted while they are read; what headers say only makes a refusal earlier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// All files together, in bytes.
    pub total_bytes_max: u64,
    /// One file, in bytes.
    pub file_bytes_max: u64,
    /// Files, links and directories, whether the archive names the directories or not.
    pub entries_max: u64,
    /// How many bytes one byte of the archive may become.
    pub ratio_max: u64,
    /// Up to so many bytes in all, the ratio does not matter: small files may compress as well as they like.
    pub ratio_floor_bytes: u64,
    /// Names in one path.
    pub depth_max: usize,
    /// Refuse names that differ only in case, which one of the two file systems of a Mac cannot tell apart.
    pub refuse_case_duplicates: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            total_bytes_max: 8 << 30,
            file_bytes_max: 4 << 30,
            entries_max: 250_000,
            ratio_max: 100,
            ratio_floor_bytes: 64 << 20,
            depth_max: 64,
            refuse_case_duplicates: false,
        }
    }
}

/// Counts what comes out of an archive against its limits.
pub(crate) struct Meter {
    limits: Limits,
    archive_bytes: u64,
    total_bytes: u64,
}

impl Meter {
    pub(crate) fn new(limits: &Limits, archive_bytes: u64) -> Meter {
        Meter { limits: limits.clone(), archive_bytes, total_bytes: 0 }
    }

    /// Counts `more` bytes, with which the file `path` has `file_bytes`.
    pub(crate) fn count_file(&mut self, path: &str, file_bytes: u64, more: u64) -> Result<(), Error> {
        self.check_file(path, file_bytes)?;
        self.count(more)
    }

    /// Refuses a file that is too large, or says of itself that it will be.
    pub(crate) fn check_file(&self, path: &str, file_bytes: u64) -> Result<(), Error> {
        if file_bytes > self.limits.file_bytes_max {
            let name = shown(path.as_bytes());
            return Err(Error::TooLarge(Limit::FileBytes { name, bytes_max: self.limits.file_bytes_max }));
        }
        Ok(())
    }

    /// Counts bytes that belong to no file, such as headers inside a compressed stream.
    pub(crate) fn count(&mut self, more: u64) -> Result<(), Error> {
        self.total_bytes = self.total_bytes.saturating_add(more);
        if self.total_bytes > self.limits.total_bytes_max {
            return Err(Error::TooLarge(Limit::TotalBytes { bytes_max: self.limits.total_bytes_max }));
        }
        let by_ratio = self.archive_bytes.saturating_mul(self.limits.ratio_max);
        if self.total_bytes > by_ratio.max(self.limits.ratio_floor_bytes) {
            return Err(Error::TooLarge(Limit::Ratio { ratio_max: self.limits.ratio_max }));
        }
        Ok(())
    }
}
