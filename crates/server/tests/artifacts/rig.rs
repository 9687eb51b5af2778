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
    /// Opens the same storage again, as another server or a new start would.
    pub url: String,
    /// Where the files really are.
    root: PathBuf,
    _home: tempfile::TempDir,
}

impl Rig {
    pub fn directory() -> Rig {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("artifacts");
        let url = root.to_str().unwrap().to_owned();
        Rig { storage: open(&url), url, root, _home: home }
    }

    pub fn s3() -> Rig {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().to_owned();
        std::fs::create_dir(root.join("bucket")).unwrap();
        let address = baton_testkit::start_s3(home.path());
        let url = format!("s3://bucket/some/prefix?endpoint=http://{address}&region=us-east-1");
        Rig { storage: open(&url), url, root, _home: home }
    }

    pub fn again(&self) -> Storage {
        open(&self.url)
    }

    /// All files there are, whatever they are, but for what an S3 server keeps for itself.
    pub fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.root, &mut found);
        let name = |path: &PathBuf| path.strip_prefix(&self.root).unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = found.iter().map(name).collect();
        names.sort();
        names
    }

    /// Waits until the files are as they should be, for what happens in the background.
    pub async fn until(&self, good: impl Fn(&[String]) -> bool) {
        let begun = Instant::now();
        while !good(&self.files()) {
            assert!(begun.elapsed() < PATIENCE, "there are {:?}", self.files());
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
        let size = self.storage.stat(path).await?.ok_or(StorageError::NotFound)?.size;
        let chunks: Vec<Bytes> = self.storage.read(path, 0..size).await?.try_collect().await?;
        Ok(chunks.concat())
    }
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

pub fn open(url: &str) -> Storage {
    let variables = [("AWS_ACCESS_KEY_ID", baton_testkit::S3_KEY), ("AWS_SECRET_ACCESS_KEY", baton_testkit::S3_SECRET)];
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Storage::open(url, variables, 0).unwrap()
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
