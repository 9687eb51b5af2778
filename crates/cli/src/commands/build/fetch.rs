//! Fetching what came out of a build.

use std::path::{Path, PathBuf};

use baton::proto::{BuildFile, BuildView};
use baton::{Client, TransferError};

use super::results;
use super::screen::Bar;
use crate::exit::Exit;

impl From<TransferError> for Exit {
    fn from(error: TransferError) -> Exit {
        match error {
            TransferError::Call(error) => error.into(),
            TransferError::File { .. } | TransferError::Damaged { .. } => Exit::failed(error.to_string()),
        }
    }
}

/// The file that came out of a build, if it left one.
pub fn result(build: &BuildView) -> Option<&BuildFile> {
    build.files.iter().find(|file| file.kind == "result")
}

/// Fetches the file and returns where it is.
pub async fn fetch(
    client: &Client,
    build: &BuildView,
    file: &BuildFile,
    output: Option<&Path>,
) -> Result<PathBuf, Exit> {
    let target = target(output, &build.id, &file.name);
    let bar = Bar::new("downloading", file.size);
    client.download_result(&build.id, &target, bar.progress()).await?;
    results::remember(&target);
    Ok(target)
}

/// Notices before anything is built that its file could not be written.
pub fn check_output(output: &Path) -> Result<(), Exit> {
    let directory = match names_directory(output) {
        true => output,
        false => output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")),
    };
    let problem = |why: String| Exit::usage(format!("--output {}: {why}", output.display()));
    match directory.is_dir() {
        true => tempfile::tempfile_in(directory).map(drop).map_err(|error| problem(error.to_string())),
        false => Err(problem(format!("there is no directory {}", directory.display()))),
    }
}

fn names_directory(output: &Path) -> bool {
    output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Where the file goes: where it was told to, or here, under its own name. What was not named is never overwritten.
fn target(output: Option<&Path>, id: &str, name: &str) -> PathBuf {
    let name = plain(name);
    match output {
        Some(output) if names_directory(output) => output.join(name),
        Some(output) => output.to_owned(),
        None if !Path::new(&name).exists() => name.into(),
        None => format!("{}-{name}", plain(id)).into(),
    }
}

/// A name that stays in its directory, whoever chose it: neither a path nor hidden.
fn plain(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last.chars().filter(|c| !c.is_control()).collect();
    match plain.trim_start_matches(['.', '-', ' ']) {
        "" => "result".into(),
        plain => plain.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_elsewhere_stays_in_its_directory() {
        for (name, stays) in [
            ("app.ipa", "app.ipa"),
            ("../../.ssh/authorized_keys", "authorized_keys"),
            ("/etc/passwd", "passwd"),
            (".bashrc", "bashrc"),
            ("a\\b\u{1b}[2J", "b[2J"),
            ("..", "result"),
            ("", "result"),
        ] {
            assert_eq!(plain(name), stays, "{name:?}");
        }
    }

    #[test]
    fn an_output_that_cannot_be_written_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        for (name, fits) in
            [("", true), ("new", true), ("file", true), ("no/new", false), ("file/new", false), ("no/", false)]
        {
            assert_eq!(check_output(&directory.path().join(name)).is_ok(), fits, "{name:?}");
        }
        assert!(check_output(Path::new("here")).is_ok());
    }

    #[test]
    fn what_was_not_named_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let taken = directory.path().join("there");
        assert_eq!(target(Some(directory.path()), "id", "app.ipa"), directory.path().join("app.ipa"));
        assert_eq!(target(Some(&taken), "id", "app.ipa"), taken);
        // The manifest of this crate is in the directory that tests run in.
        assert_eq!(target(None, "id", "Cargo.toml"), Path::new("id-Cargo.toml"));
        assert_eq!(target(None, "id", "no-such-file"), Path::new("no-such-file"));
    }
}
