//! What is in the storage of a server at the end of a test, and what should be.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::wait::eventually;
use crate::wire::{Request, sha256};

/// Settings with which a server removes everything that nobody needs at once.
pub const COLLECTING: [(&str, &str); 4] = [
    ("BATON_STORAGE_FREE_BYTES_MIN", "0"),
    ("BATON_COLLECT_EVERY_MS", "10"),
    ("BATON_COLLECT_AGE_MS", "0"),
    ("BATON_DRAFT_AGE_MS", "0"),
];

/// Whether a server has collected all that can be: both loops have passed.
pub async fn has_collected(at: SocketAddr) -> bool {
    let Ok(answer) = Request::get("/readyz").send(at).await else { return false };
    let loops = answer.json()["loops"].clone();
    ["collector", "sweeper"].iter().all(|name| loops[name]["passes"].as_u64() >= Some(1))
}

/// Waits until a server has collected all that can be.
pub async fn collected(at: SocketAddr) {
    eventually("a pass of the collector", async || has_collected(at).await.then_some(())).await;
}

/// A file of a build: what it is, and its sum. What is sealed has none that a test could know.
pub type Stored = (String, Option<String>);

/// The source of a build, its result, or its certificates.
pub fn file(kind: &str, bytes: &[u8]) -> Stored {
    (kind.to_owned(), (kind != "certs").then(|| sha256(bytes)))
}

/// The files of builds below a directory, sorted. Whatever else is there, an empty folder included, is a file of its own kind.
pub fn files_of_builds(root: &Path) -> Vec<Stored> {
    let mut found = Vec::new();
    for folder in entries(&root.join("builds")) {
        let files = entries(&folder);
        if files.is_empty() {
            found.push(("empty folder".to_owned(), Some(folder.display().to_string())));
        }
        for path in files {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push(file(&name, &fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))));
        }
    }
    found.sort_unstable();
    found
}

/// What a directory holds; nothing when it is not there.
pub fn entries(directory: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(directory).into_iter().flatten().map(|entry| entry.expect("it can be listed").path()).collect()
}
