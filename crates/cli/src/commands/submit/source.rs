//! The archive that is sent: packed into a file without a name, which is gone with this program however that ends.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use baton::FileToSend;
use baton_archive::{LinksOutside, Manifest, PackOptions};

use crate::commands::build::screen::Bar;
use crate::exit::Exit;

/// A directory, packed.
pub struct Packed {
    pub file: FileToSend,
    pub sha256: String,
    pub files: u64,
}

/// Packs a directory.
pub async fn pack(directory: PathBuf) -> Result<Packed, Exit> {
    let bar = Bar::new("packing", 0);
    let work = tokio::task::spawn_blocking(move || pack_now(&directory, &bar));
    work.await.map_err(|error| Exit::failed(format!("packing fell over: {error}")))?
}

fn pack_now(directory: &Path, bar: &Bar) -> Result<Packed, Exit> {
    let file = tempfile::tempfile().map_err(|error| Exit::failed(format!("cannot make a temporary file: {error}")))?;
    // A link that leads outside would lead somewhere else on the machine that builds.
    let options = PackOptions { links_outside: LinksOutside::Refuse, ..PackOptions::default() };
    let writer = BufWriter::new(&file);
    let packed = baton_archive::pack(directory, writer, &options, |at| bar.set(at.bytes, at.bytes_total));
    let Manifest { files, sha256, .. } = packed.map_err(|error| match error {
        baton_archive::Error::Write(_) => Exit::failed(error.to_string()),
        wrong => Exit::usage(wrong.to_string()),
    })?;
    if files == 0 {
        return Err(Exit::usage(format!("there is nothing to build in {}", directory.display())));
    }
    let sha256 = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Packed { file: FileToSend::new(file, "source.zip")?, sha256, files })
}

/// Opens a file to send it as it is.
pub fn open(path: &Path) -> io::Result<FileToSend> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = File::open(path)?;
    match file.metadata()?.is_file() {
        true => FileToSend::new(file, name),
        false => Err(io::Error::other("it is not a file")),
    }
}
