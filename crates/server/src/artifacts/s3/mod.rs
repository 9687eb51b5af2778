//! A bucket as the place for files: S3, or anything that speaks its protocol.
//!
//! Two servers may share a bucket. Nothing here needs a lock: files appear whole, under names that the store gave out, and
//! whatever two servers write to the same name is either the same or written last by the one that counts.

mod append;
mod draft;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::error::StorageError;
use super::path::{ArtifactPath, Folder};
use super::place::{Append, Draft, Entry, Place, Progress, Reading, Stat};

/// The smallest part that S3 takes. A part is in memory until it is sent, so it is also what an upload costs.
const PART_BYTES: u64 = 5 << 20;
/// Parts of one file; S3 takes no more.
const PARTS_MAX: u64 = 10_000;
/// The largest part, for files of more than 50 GB or of which nobody knows. It bounds a file to 160 GB.
const PART_BYTES_MAX: u64 = 16 << 20;
/// Files being written at once by this server. Who comes later waits: each of them has a part in memory.
const DRAFTS_MAX: usize = 64;
/// Parts that are sent while the next one of their file gathers, for all files together. Eight uploads at once then take
/// no more than eleven parts.
const PARTS_AHEAD_MAX: usize = 3;
/// How long a request is tried again, and how long the store may be silent.
const RETRY_TIME: Duration = Duration::from_secs(30);
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a connection may take when somebody only asks whether the bucket answers.
const CHECK_TIME: Duration = Duration::from_secs(2);
/// An object that is never there, to ask for.
const NOTHING: &str = "pending/nothing";
/// Where multipart uploads that are under way are written down.
const PENDING: &str = "pending";
/// Requests at once when a folder is deleted.
const DELETES_AT_ONCE: usize = 8;

/// A bucket, or a part of one.
#[derive(Clone, Debug)]
pub(super) struct S3Place(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    store: AmazonS3,
    /// Asks once and gives up soon, to see whether the bucket answers.
    impatient: AmazonS3,
    /// In front of all names.
    prefix: Path,
    drafts: Arc<Semaphore>,
    ahead: Arc<Semaphore>,
}

/// Where a bucket is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct S3Address {
    pub bucket: String,
    pub prefix: String,
    pub endpoint: Option<String>,
    pub region: Option<String>,
}

impl S3Place {
    /// Makes a client for a bucket, with credentials from these variables (`AWS_...`) or from where AWS gives them out.
    pub fn open(
        address: &S3Address,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<S3Place, StorageError> {
        // Without one the client panics. Another part of the program may have been first, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::new();
        for (name, value) in variables.filter(|(name, _)| name.starts_with("AWS_")) {
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        builder = builder.with_bucket_name(&address.bucket);
        if let Some(region) = &address.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &address.endpoint {
            builder = builder.with_endpoint(endpoint);
            builder = builder.with_allow_http(endpoint.starts_with("http://"));
        }
        let retries = RetryConfig { retry_timeout: RETRY_TIME, ..RetryConfig::default() };
        let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        // No limit for a whole request: a large file may take as long as its reader wants.
        let options = ClientOptions::new()
            .with_allow_http(address.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://")))
            .with_timeout_disabled()
            .with_read_timeout(SILENCE_MAX);
        let hasty = options.clone().with_timeout(CHECK_TIME);
        let impatient = builder.clone().with_retry(once).with_client_options(hasty).build()?;
        let store = builder.with_retry(retries).with_client_options(options).build()?;
        let prefix = Path::parse(&address.prefix).map_err(|error| StorageError::Failed(error.to_string()))?;
        Ok(S3Place(Arc::new(Bucket {
            store,
            impatient,
            prefix,
            drafts: Arc::new(Semaphore::new(DRAFTS_MAX)),
            ahead: Arc::new(Semaphore::new(PARTS_AHEAD_MAX)),
        })))
    }
}

impl Bucket {
    /// The name of an object below the prefix. Our own names need no escaping.
    fn at(&self, name: &str) -> Path {
        self.prefix.parts().chain(Path::from(name).parts()).collect()
    }

    async fn delete(&self, path: &Path) -> Result<(), StorageError> {
        match self.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn stat_of(object: &ObjectMeta) -> Stat {
    Stat { size: object.size, modified: object.last_modified.into() }
}

#[async_trait]
impl Place for S3Place {
    fn kind(&self) -> &'static str {
        "s3"
    }

    async fn check(&self) -> Result<(), StorageError> {
        match self.0.impatient.get(&self.0.at(NOTHING)).await.map_err(StorageError::from) {
            Ok(_) | Err(StorageError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn keeps_uploads_in_parts(&self) -> bool {
        true
    }

    async fn draft(&self, path: &ArtifactPath, size_max: u64) -> Result<Box<dyn Draft>, StorageError> {
        let turn = self.0.drafts.clone().acquire_owned().await;
        let turn = turn.map_err(|_| StorageError::Failed("the place was closed".into()))?;
        let part_bytes = size_max.div_ceil(PARTS_MAX).clamp(PART_BYTES, PART_BYTES_MAX);
        Ok(Box::new(draft::S3Draft::begin(self.clone(), self.0.at(path.as_str()), part_bytes as usize, turn)))
    }

    async fn read(&self, path: &ArtifactPath, range: Range<u64>) -> Result<Reading, StorageError> {
        let path = self.0.at(path.as_str());
        if range.is_empty() {
            self.0.store.head(&path).await?;
            return Ok(Box::pin(futures_util::stream::empty()));
        }
        let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
        let found = self.0.store.get_opts(&path, options).await?;
        if found.range != range {
            return Err(StorageError::Damaged(format!("{path} has {} bytes, not {}", found.meta.size, range.end)));
        }
        Ok(found.into_stream().map_err(StorageError::from).boxed())
    }

    async fn stat(&self, path: &ArtifactPath) -> Result<Option<Stat>, StorageError> {
        match self.0.store.head(&self.0.at(path.as_str())).await {
            Ok(object) => Ok(Some(stat_of(&object))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete(&self, path: &ArtifactPath) -> Result<(), StorageError> {
        self.0.delete(&self.0.at(path.as_str())).await
    }

    fn list(&self, folder: &Folder) -> BoxStream<'static, Result<Entry, StorageError>> {
        let folder = self.0.at(folder.as_str());
        let objects = self.0.store.list(Some(&folder));
        let entry = move |object: ObjectMeta| {
            let steps: Vec<_> = object.location.prefix_match(&folder).into_iter().flatten().collect();
            let name = steps.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/");
            Entry { name, stat: stat_of(&object) }
        };
        objects.map_ok(entry).map_err(StorageError::from).boxed()
    }

    async fn folders(&self, folder: &Folder) -> Result<Vec<String>, StorageError> {
        let listed = self.0.store.list_with_delimiter(Some(&self.0.at(folder.as_str()))).await?;
        let mut names: Vec<String> =
            listed.common_prefixes.iter().filter_map(|path| Some(path.filename()?.to_owned())).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn delete_folder(&self, folder: &Folder) -> Result<(), StorageError> {
        let objects = self.0.store.list(Some(&self.0.at(folder.as_str())));
        objects
            .map_err(StorageError::from)
            .try_for_each_concurrent(DELETES_AT_ONCE, async |object| self.0.delete(&object.location).await)
            .await
    }

    /// A bucket does not say how much room it has.
    async fn check_room(&self, _: u64) -> Result<(), StorageError> {
        Ok(())
    }

    async fn append(&self, upload: Uuid, progress: &Progress, writer: u64) -> Result<Box<dyn Append>, StorageError> {
        Ok(Box::new(append::S3Append::begin(self.clone(), upload, progress.clone(), writer)))
    }

    /// A bucket has no way to rename, and parts may be smaller than its multipart copies take.
    async fn adopt(&self, _: Uuid, _: &Progress, _: &ArtifactPath) -> Result<bool, StorageError> {
        Ok(false)
    }

    async fn read_upload(&self, upload: Uuid, progress: &Progress) -> Result<Reading, StorageError> {
        let place = self.clone();
        let parts = futures_util::stream::iter(progress.parts.clone()).then(move |part| {
            let place = place.clone();
            async move { place.read(&ArtifactPath::of_upload(upload, &part.name), 0..part.size).await }
        });
        Ok(parts.try_flatten().boxed())
    }

    async fn sweep(&self, before: SystemTime) -> Result<usize, StorageError> {
        draft::sweep(self, before).await
    }
}
