//! The archive that is sent: packed into a file without a name, which is gone with this program however that ends.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use baton::FileToSend;
use baton_archive::{Limits, LinksOutside, Manifest, PackOptions};

use crate::commands::build::screen::Bar;
use crate::exit::Exit;

/// A directory, packed.
pub struct Packed {
    pub file: FileToSend,
    pub sha256: String,
    pub files: u64,
    /// What was not packed because it is no source.
    pub left_out: Vec<String>,
}

/// Packs a directory without these files and directories.
pub async fn pack(directory: PathBuf, leave_out: Vec<PathBuf>) -> Result<Packed, Exit> {
    let bar = Bar::new("packing", 0);
    pack_with(directory, leave_out, move |at, all| bar.set(at, all)).await
}

/// Packs a directory, and shows nothing.
pub async fn pack_quietly(directory: PathBuf) -> Result<Packed, Exit> {
    pack_with(directory, vec![], |_, _| {}).await
}

async fn pack_with(
    directory: PathBuf,
    leave_out: Vec<PathBuf>,
    progress: impl Fn(u64, u64) + Send + 'static,
) -> Result<Packed, Exit> {
    let work = tokio::task::spawn_blocking(move || pack_now(&directory, leave_out, progress));
    work.await.map_err(|error| Exit::failed(format!("packing fell over: {error}")))?
}

fn pack_now(directory: &Path, leave_out: Vec<PathBuf>, progress: impl Fn(u64, u64)) -> Result<Packed, Exit> {
    let file = tempfile::tempfile().map_err(|error| Exit::failed(format!("cannot make a temporary file: {error}")))?;
    // A link that leads outside would lead somewhere else on the machine that builds.
    let options = PackOptions { links_outside: LinksOutside::Refuse, leave_out, ..PackOptions::default() };
    let writer = BufWriter::new(&file);
    let packed = baton_archive::pack(directory, writer, &options, |at| progress(at.bytes, at.bytes_total));
    let Manifest { files, sha256, left_out, .. } = packed.map_err(|error| match error {
        baton_archive::Error::Write(_) => Exit::failed(error.to_string()),
        wrong => Exit::usage(wrong.to_string()),
    })?;
    if files == 0 {
        return Err(Exit::usage(format!("there is nothing to build in {}", directory.display())));
    }
    let sha256 = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Packed { file: FileToSend::new(file, "source.zip")?, sha256, files, left_out })
}

/// Opens an archive of certificates to send it as it is. What is in it is a matter of the recipe.
pub fn open_certs(path: &Path) -> Result<FileToSend, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = File::open(path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is not a file".into());
    }
    baton_archive::check(&file, &Limits::default()).map_err(|error| error.to_string())?;
    FileToSend::new(file, name).map_err(|error| error.to_string())
}
