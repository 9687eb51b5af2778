//! Names of stored files. They come from the server: nothing a client wrote can climb out of the storage, because there is
//! no way to build a path from such text.

use std::fmt;

use baton_core::RunId;

use super::digest::Sha256Sum;

/// Longest segment of a path, in bytes.
pub const SEGMENT_BYTES_MAX: usize = 100;

/// One step of a path: lower-case letters, digits, `-`, `_` and `.`, but no `.` in front. So it is never `..`, has no `/` and
/// no NUL, and means the same on file systems that do not tell capitals apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Segment(String);

impl Segment {
    /// Takes a text that is a good name as it is. Others are refused, not repaired: two of them could become the same.
    pub fn new(text: &str) -> Option<Segment> {
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        let fits = (1..=SEGMENT_BYTES_MAX).contains(&text.len());
        (fits && !text.starts_with('.') && text.bytes().all(good)).then(|| Segment(text.to_owned()))
    }

    /// A segment for any text, such as a worker's name: a hash of it, which is the same for the same text.
    pub fn of_any_text(text: &str) -> Segment {
        Segment(Sha256Sum::of(text.as_bytes()).to_string())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a file is kept.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ArtifactPath(String);

impl ArtifactPath {
    /// A file of a run: `builds/<id>/<file>`.
    pub fn of_run(run: RunId, file: &Segment) -> ArtifactPath {
        ArtifactPath(format!("builds/{run}/{}", file.0))
    }

    /// A file of a build, named by its own identifier: `builds/<id>/<file>`.
    pub fn of_file(id: uuid::Uuid, file: &Segment) -> ArtifactPath {
        ArtifactPath(format!("builds/{id}/{}", file.0))
    }

    /// A payload that is too large for the database: `payloads/<id>`.
    pub fn payload(id: uuid::Uuid) -> ArtifactPath {
        ArtifactPath(format!("payloads/{id}"))
    }

    /// What a worker reported on one day: `diagnostics/<worker>/<date>.json`.
    pub fn diagnostics(worker: &Segment, date: &Segment) -> ArtifactPath {
        ArtifactPath(format!("diagnostics/{}/{}.json", worker.0, date.0))
    }

    /// A file named by what is in it: `cache/<first two digits>/<sha-256>` in the default namespace,
    /// and `cache/<first two digits>/<tenant>-<sha-256>` in the others.
    pub(super) fn cached(tenant: Option<u64>, sum: &Sha256Sum) -> ArtifactPath {
        let name = sum.to_string();
        let tenant = tenant.map_or_else(String::new, |tenant| format!("{tenant:016x}-"));
        ArtifactPath(format!("cache/{}/{tenant}{name}", &name[..2]))
    }

    /// What the storage itself is known by: `storage.mark`.
    pub(super) fn mark() -> ArtifactPath {
        ArtifactPath("storage.mark".into())
    }

    /// A file of the cache's own book-keeping.
    pub(super) fn cache_record(server: u64) -> ArtifactPath {
        ArtifactPath(format!("{}{server:016x}", Folder::cache_records().0))
    }

    /// A file of an upload that is under way.
    pub(super) fn of_upload(upload: uuid::Uuid, file: &str) -> ArtifactPath {
        ArtifactPath(format!("uploads/{upload}/{file}"))
    }

    /// The sum of a file that is named by what is in it.
    pub(super) fn sum(&self) -> Option<Sha256Sum> {
        let name = self.0.strip_prefix("cache/")?.split_once('/')?.1;
        name.rsplit('-').next()?.parse().ok()
    }

    /// Whether the file may be replaced by another one of the same name: reports of a day, and what
    /// a server notes of the cache. All others are what they are until they are deleted.
    pub(super) fn is_replaced(&self) -> bool {
        self.0.starts_with("diagnostics/") || self.0.starts_with(&Folder::cache_records().0)
    }

    /// As the storage spells it, below its root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ArtifactPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A part of the storage that is listed or deleted as a whole. Its text ends with `/`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder(String);

impl Folder {
    /// All files of a run.
    pub fn of_run(run: RunId) -> Folder {
        Folder(format!("builds/{run}/"))
    }

    /// What a worker reported, a file for each day.
    pub fn diagnostics(worker: &Segment) -> Folder {
        Folder(format!("diagnostics/{}/", worker.0))
    }

    /// All that an installation keeps, but for uploads under way.
    pub(super) fn kept() -> [Folder; 4] {
        ["builds/", "payloads/", "diagnostics/", "cache/"].map(|name| Folder(name.into()))
    }

    /// All runs that have files.
    pub(super) fn runs() -> Folder {
        Folder("builds/".into())
    }

    /// The cache, with its book-keeping.
    pub(super) fn cache() -> Folder {
        Folder("cache/".into())
    }

    /// What the servers remember of the cache's use.
    pub(super) fn cache_records() -> Folder {
        Folder("cache/used/".into())
    }

    /// All uploads under way.
    pub(super) fn uploads() -> Folder {
        Folder("uploads/".into())
    }

    /// The files of one upload.
    pub(super) fn of_upload(upload: uuid::Uuid) -> Folder {
        Folder(format!("uploads/{upload}/"))
    }

    /// As the storage spells it, below its root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of a file that was listed in this folder.
    pub(super) fn file(&self, name: &str) -> ArtifactPath {
        ArtifactPath(format!("{}{name}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_segment_cannot_leave_its_folder() {
        for bad in
            ["", ".", "..", "../x", "a/b", "a\\b", "a\0", ".hidden", "UPPER", "ä", "a b", "a\n", &"a".repeat(101)]
        {
            assert_eq!(Segment::new(bad), None, "{bad:?}");
        }
        for good in ["source", "result.tar.gz", "3-result", "a_b", &"a".repeat(100)] {
            assert!(Segment::new(good).is_some(), "{good:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_path_that_climbs(text: String) {
            let segments = [Segment::new(&text), Some(Segment::of_any_text(&text))];
            for segment in segments.into_iter().flatten() {
                let path = ArtifactPath::of_run(RunId::floor(0), &segment);
                prop_assert_eq!(path.as_str().split('/').count(), 3);
                prop_assert!(path.as_str().split('/').all(|step| !step.is_empty() && step != "." && step != ".."));
                prop_assert!(!path.as_str().contains('\0'));
            }
        }
    }
}
