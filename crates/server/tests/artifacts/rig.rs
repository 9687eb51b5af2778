//! What the tests stand on: a storage in a place of its own, and a look behind it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_core::RunId;
use baton_server::Error;
use baton_server::artifacts::{ArtifactPath, Segment, Sha256Sum, Source, Storage, StorageError, Terms};
use baton_server::entropy::{Entropy, SeededEntropy};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

/// How long something may take that happens by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// The largest file of these tests.
pub const LIMIT: u64 = 1 << 30;

pub struct Rig {
    pub storage: Storage,
    /// Opens the same storage again, as another server or a new start would: one, or one and its
    /// mirror.
    pub urls: Vec<String>,
    /// Where the files of each really are.
    roots: Vec<PathBuf>,
    _homes: Vec<tempfile::TempDir>,
}

impl Rig {
    pub fn directory() -> Rig {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("artifacts");
        let urls = vec![root.to_str().unwrap().to_owned()];
        Rig { storage: open(&urls), urls, roots: vec![root], _homes: vec![home] }
    }

    pub fn s3() -> Rig {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().to_owned();
        std::fs::create_dir(root.join("bucket")).unwrap();
        let address = baton_testkit::start_s3(home.path());
        let urls = vec![format!("s3://bucket/some/prefix?endpoint=http://{address}&region=us-east-1")];
        Rig { storage: open(&urls), urls, roots: vec![root], _homes: vec![home] }
    }

    pub fn directory_and_s3() -> Rig {
        Rig::mirrored(Rig::directory(), Rig::s3())
    }

    /// One storage of two.
    pub fn mirrored(first: Rig, mirror: Rig) -> Rig {
        let urls = [first.urls, mirror.urls].concat();
        let roots = [first.roots, mirror.roots].concat();
        let homes = first._homes.into_iter().chain(mirror._homes).collect();
        Rig { storage: open(&urls), urls, roots, _homes: homes }
    }

    pub fn again(&self) -> Storage {
        open(&self.urls)
    }

    /// One of the storages alone, as a server sees it that does not know of the other.
    pub fn alone(&self, number: usize) -> Storage {
        open(&self.urls[number..=number])
    }

    /// Where the files of the first storage really are.
    pub fn root(&self) -> &Path {
        &self.roots[0]
    }

    /// All files of the first storage, whatever they are, but for what an S3 server keeps for
    /// itself.
    pub fn files(&self) -> Vec<String> {
        files_below(self.root())
    }

    /// Waits until the files of every storage are as they should be, for what happens in the
    /// background.
    pub async fn until(&self, good: impl Fn(&[String]) -> bool) {
        let begun = Instant::now();
        while !self.roots.iter().all(|root| good(&files_below(root))) {
            let files: Vec<_> = self.roots.iter().map(|root| files_below(root)).collect();
            assert!(begun.elapsed() < PATIENCE, "there are {files:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until exactly so many files are there.
    pub async fn expect_files(&self, count: usize) {
        self.until(|files| files.len() == count).await;
    }

    pub async fn put(&self, path: &ArtifactPath, content: &[u8]) {
        let stored = self.storage.put(path, source(content), Terms::up_to(LIMIT)).await.unwrap();
        assert_eq!((stored.size, stored.sha256), (content.len() as u64, Sha256Sum::of(content)));
    }

    pub async fn content(&self, path: &ArtifactPath) -> Result<Vec<u8>, StorageError> {
        content_of(&self.storage, path).await
    }
}

pub async fn content_of(storage: &Storage, path: &ArtifactPath) -> Result<Vec<u8>, StorageError> {
    let size = storage.stat(path).await?.ok_or(StorageError::NotFound)?.size;
    let chunks: Vec<Bytes> = storage.read(path, 0..size).await?.try_collect().await?;
    Ok(chunks.concat())
}

fn files_below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(root, &mut found);
    let name = |path: &PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = found.iter().map(name).collect();
    names.sort();
    names
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(listing) = std::fs::read_dir(directory) else { return };
    for entry in listing.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), found),
            // What the S3 server knows of an object, and keeps even when it is deleted.
            Ok(_) if name.starts_with(".bucket-") => (),
            Ok(_) => found.push(entry.path()),
            Err(_) => (),
        }
    }
}

/// Opens a storage, or one and its mirror.
pub fn open(urls: &[String]) -> Storage {
    let variables = [("AWS_ACCESS_KEY_ID", baton_testkit::S3_KEY), ("AWS_SECRET_ACCESS_KEY", baton_testkit::S3_SECRET)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let storages = urls.iter().map(|url| Storage::open(url, variables.clone().into_iter(), 0).unwrap());
    storages.reduce(|first, mirror| Storage::mirrored(first, mirror).unwrap()).unwrap()
}

pub fn path(name: &str) -> ArtifactPath {
    ArtifactPath::of_run(RunId::floor(1), &Segment::new(name).unwrap())
}

pub fn entropy(seed: u64) -> Arc<dyn Entropy> {
    Arc::new(SeededEntropy::new(seed))
}

/// Bytes that repeat nowhere soon, so that a wrong order is seen.
pub fn content(size: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ size as u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// The content in chunks, as a connection would bring them.
fn chunks(content: &[u8]) -> Vec<Result<Bytes, Error>> {
    content.chunks(60_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect()
}

pub fn source(content: &[u8]) -> Source<'static> {
    stream::iter(chunks(content)).boxed()
}

/// The content, and then the connection is cut.
pub fn cut_source(content: &[u8]) -> Source<'static> {
    stream::iter(chunks(content)).chain(stream::iter([Err(Error::TooSlow)])).boxed()
}

/// The content, and then silence.
pub fn silent_source(content: &[u8]) -> Source<'static> {
    stream::iter(chunks(content)).chain(stream::pending()).boxed()
}
