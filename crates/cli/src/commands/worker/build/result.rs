//! What came out of a build: one file as it is, more as a zip.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use baton::FileToSend;
use baton_archive::{LinksOutside, PackOptions};

const ZIP_NAME: &str = "result.zip";

/// A file to be sent, and its sum.
pub struct Gathered {
    pub file: FileToSend,
    pub sha256: String,
    /// Links that were left out because they lead outside.
    pub skipped_links: Vec<String>,
}

/// Gathers what lies in `output`; nothing when it is empty. A zip is written to `scratch`. Blocks.
pub fn gather(output: &Path, scratch: &Path) -> io::Result<Option<Gathered>> {
    let entries: Vec<_> = fs::read_dir(output)?.collect::<Result<_, _>>()?;
    match entries.as_slice() {
        [] => Ok(None),
        // The type is that of the entry itself: a link could lead to a file of this machine.
        [entry] if entry.file_type()?.is_file() => one(entry.path()).map(Some),
        _ => zip(output, scratch).map(Some),
    }
}

fn one(path: PathBuf) -> io::Result<Gathered> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = File::open(path)?;
    let sha256 = baton::sha256_of(&file)?;
    Ok(Gathered { file: FileToSend::new(file, name)?, sha256, skipped_links: Vec::new() })
}

fn zip(output: &Path, scratch: &Path) -> io::Result<Gathered> {
    let path = scratch.join(ZIP_NAME);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    let options = PackOptions { links_outside: LinksOutside::Skip, everything: true, ..PackOptions::default() };
    let packed = baton_archive::pack(output, BufWriter::new(&file), &options, |_| {}).map_err(io::Error::other)?;
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
}
