//! What came out of a build: one file as it is, more as a zip.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use baton::FileToSend;
use baton::runs::Failure;
use baton_archive::{Error, LinksOutside, PackOptions};

use super::disk::Disk;

const ZIP_NAME: &str = "result.zip";

/// A file to be sent, and its sum.
pub struct Gathered {
    pub file: FileToSend,
    pub sha256: String,
    /// Links that were left out because they lead outside.
    pub skipped_links: Vec<String>,
}

/// Why there is nothing to be sent.
#[derive(Debug)]
pub enum Problem {
    /// The recipe has removed the directory, or put something else in its place.
    NoDirectory,
    /// A file cannot be read or written.
    File(io::Error),
    /// What there is cannot be packed.
    Pack(Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::File(error)
    }
}

impl Problem {
    /// The failure of the build, or of its worker. No path of this machine is in it.
    pub fn into_failure(self, output: &Path, disk: Disk) -> Failure {
        let what = "cannot gather the result";
        match &self {
            Problem::NoDirectory => {
                let message =
                    "BATON_OUTPUT_DIR is no longer the directory that the recipe was given: it was removed or replaced";
                Failure::new(message).code("recipe").not_retryable()
            }
            Problem::File(error) => disk.blame(what, error, &error.to_string()),
            Problem::Pack(error @ Error::File { path, source }) => {
                let name = path.strip_prefix(output).unwrap_or(Path::new("a file"));
                disk.blame(what, error, &format!("{}: {source}", name.display()))
            }
            Problem::Pack(error) => disk.blame(what, error, &error.to_string()),
        }
    }
}

/// Gathers what lies in `output`; nothing when it is empty. A zip is written to `scratch`. Blocks.
pub fn gather(output: &Path, scratch: &Path) -> Result<Option<Gathered>, Problem> {
    // A recipe may have put a link in its place, which could lead to whatever this worker can read.
    if ![scratch, output].into_iter().all(is_real_directory) {
        return Err(Problem::NoDirectory);
    }
    let entries: Vec<_> = fs::read_dir(output)?.collect::<Result<_, _>>()?;
    match entries.as_slice() {
        [] => Ok(None),
        // The type is that of the entry itself: a link could lead to a file of this machine.
        [entry] if entry.file_type()?.is_file() => Ok(Some(one(entry.path())?)),
        _ => zip(output, scratch).map(Some),
    }
}

fn is_real_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn one(path: PathBuf) -> io::Result<Gathered> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = File::open(path)?;
    let sha256 = baton::sha256_of(&file)?;
    Ok(Gathered { file: FileToSend::new(file, name)?, sha256, skipped_links: Vec::new() })
}

fn zip(output: &Path, scratch: &Path) -> Result<Gathered, Problem> {
    let path = scratch.join(ZIP_NAME);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    let options = PackOptions { links_outside: LinksOutside::Skip, everything: true, ..PackOptions::default() };
    let packed = baton_archive::pack(output, BufWriter::new(&file), &options, |_| {}).map_err(Problem::Pack)?;
    let sha256 = packed.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Gathered { file: FileToSend::new(file, ZIP_NAME)?, sha256, skipped_links: packed.skipped_links })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _root: tempfile::TempDir,
        output: PathBuf,
        scratch: PathBuf,
    }

    fn place() -> Place {
        let root = tempfile::tempdir().unwrap();
        let (output, scratch) = (root.path().join("output"), root.path().join("scratch"));
        fs::create_dir(&output).unwrap();
        fs::create_dir(&scratch).unwrap();
        Place { _root: root, output, scratch }
    }

    fn zipped(place: &Place) -> (Vec<String>, Gathered) {
        let gathered = gather(&place.output, &place.scratch).unwrap().unwrap();
        assert_eq!(gathered.file.name(), ZIP_NAME);
        let unpacked = place.scratch.join("unpacked");
        let zip = File::open(place.scratch.join(ZIP_NAME)).unwrap();
        baton_archive::unpack(zip, &unpacked, &baton_archive::Limits::default()).unwrap();
        let names = fs::read_dir(unpacked).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        (names, gathered)
    }

    #[test]
    fn nothing_is_nothing_and_one_file_is_itself() {
        let place = place();
        assert!(gather(&place.output, &place.scratch).unwrap().is_none());
        fs::write(place.output.join("app.ipa"), "abc").unwrap();
        let gathered = gather(&place.output, &place.scratch).unwrap().unwrap();
        assert_eq!((gathered.file.name(), gathered.file.size()), ("app.ipa", 3));
        assert!(gathered.sha256.starts_with("ba7816bf"));
    }

    #[test]
    fn more_is_a_zip_of_everything() {
        let place = place();
        for name in ["a.log", ".gitignore"] {
            fs::write(place.output.join(name), "*.log\n").unwrap();
        }
        fs::create_dir(place.output.join(".git")).unwrap();
        assert_eq!(zipped(&place).0, [".git", ".gitignore", "a.log"]);
    }

    #[test]
    fn a_link_out_of_the_directory_takes_nothing_along() {
        let place = place();
        std::os::unix::fs::symlink("/etc/passwd", place.output.join("app.ipa")).unwrap();
        let (names, gathered) = zipped(&place);
        assert_eq!((names, gathered.skipped_links), (vec![], vec!["app.ipa".to_owned()]));
    }

    #[test]
    fn a_directory_that_was_replaced_by_a_link_is_not_followed() {
        let place = place();
        fs::write(place.scratch.join("secret"), "of this machine").unwrap();
        let refused = || match gather(&place.output, &place.scratch) {
            Err(problem @ Problem::NoDirectory) => {
                let failure = problem.into_failure(&place.output, Disk { pause: std::time::Duration::ZERO });
                assert!(failure.message().starts_with("BATON_OUTPUT_DIR ") && failure.pause().is_none(), "{failure:?}");
            }
            Err(problem) => panic!("{problem:?}"),
            Ok(_) => panic!("it was gathered"),
        };
        fs::remove_dir(&place.output).unwrap();
        refused();
        std::os::unix::fs::symlink(&place.scratch, &place.output).unwrap();
        refused();
    }
}
