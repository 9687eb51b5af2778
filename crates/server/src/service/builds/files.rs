//! Files of builds: noted in the store, then written, then noted as complete. Whatever is cut off in between is found and removed.

use std::time::{Duration, Instant};

use baton_core::Epoch;
use baton_store::{Artifact, ArtifactKind, ArtifactOwner, NewArtifact, StoreError};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, TryFutureExt};
use uuid::Uuid;

use super::Found;
use crate::artifacts::{ArtifactPath, Segment, Sha256Sum, Source, StorageError, Stored, Terms, UploadError, UploadId};
use crate::auth::Caller;
use crate::{App, Error, crash};

/// A file that is complete.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct File {
    /// Its identifier.
    pub id: Uuid,
    /// Size and sum.
    pub stored: Stored,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a file came from, which says whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The body of this very call: nobody else knows of it.
    Body,
    /// An upload in pieces. Another call about the same upload may have it too, so it is never removed but by the collector.
    Upload,
    /// An upload that a build has taken before.
    TakenUpload,
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct NewFile<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Whose it will be.
    pub owner: ArtifactOwner,
    /// What its sender calls it.
    pub name: Option<&'a str>,
    /// What it has to be like.
    pub terms: Terms,
}

/// A file whose lease was over when it was to be kept.
pub enum TooLate<'a> {
    /// Before anything of it was read.
    Unread(Source<'a>),
    /// When all of it had come, with this sum.
    Read(Sha256Sum),
}

/// Takes a file in, all of it or nothing.
pub async fn take_in<'a>(app: &'a App, new: NewFile<'_>, source: Source<'a>) -> Result<File, Error> {
    let kind = new.owner.kind();
    let source = match kind {
        ArtifactKind::Certs => source,
        ArtifactKind::Source | ArtifactKind::Result | ArtifactKind::Draft => not_empty(source).await?,
    };
    take_in_time(app, new, source).await?.map_err(|_| match kind {
        ArtifactKind::Result => Error::LeaseLost,
        ArtifactKind::Source | ArtifactKind::Certs | ArtifactKind::Draft => {
            Error::Conflict("the file was given up because nothing of it came for too long; send it again".into())
        }
    })
}

/// As [`take_in`], for a file that may come too late: whoever sent it wants to know what became of its build.
pub async fn take_in_time<'a>(
    app: &'a App,
    new: NewFile<'_>,
    source: Source<'a>,
) -> Result<Result<File, TooLate<'a>>, Error> {
    let kind = new.owner.kind();
    let id = fresh_id(app);
    let mut unread = Some(match kind {
        ArtifactKind::Result => source,
        ArtifactKind::Source | ArtifactKind::Certs | ArtifactKind::Draft => young_while(app, id, source),
    });
    let kept = keep(app, id, &new, |path, terms| {
        let source = unread.take().unwrap_or_else(|| stream::empty().boxed());
        async move {
            match kind {
                ArtifactKind::Certs => {
                    app.storage.put_sealed(&app.secrets.ring().newest().seal, &path, source, terms).await
                }
                ArtifactKind::Source | ArtifactKind::Result | ArtifactKind::Draft => {
                    app.storage.put(&path, source, terms).await
                }
            }
        }
        .boxed()
    })
    .await;
    match kept {
        Ok(stored) => Ok(Ok(File { id, stored, origin: Origin::Body })),
        Err(NotKept::Written(error)) => {
            match error {
                // Nobody knows what the storage has done, and asking it again now helps nobody: the
                // collector finds it.
                Error::StorageUnavailable | Error::Internal => {}
                // Of two storages, the other one may have it.
                Error::DiskFull => remove(app, id, &path_of(id, kind)).await,
                // The storage has left nothing behind, so there is nothing to be found later.
                _ => forget(app, id).await,
            }
            Err(error)
        }
        Err(NotKept::GivenUp(stored)) => {
            remove(app, id, &path_of(id, kind)).await;
            Ok(Err(TooLate::Read(stored.sha256)))
        }
        Err(NotKept::LeaseOver) => Ok(Err(TooLate::Unread(unread.unwrap_or_else(|| stream::empty().boxed())))),
        Err(NotKept::Refused(error)) => Err(error),
    }
}

/// The same file. The collector takes what nobody has taken when it is old, and this one is not as
/// long as it comes.
fn young_while<'a>(app: &'a App, id: Uuid, source: Source<'a>) -> Source<'a> {
    let often = Duration::from_millis(app.settings.collect_age_ms / 8);
    let mut touched = Instant::now();
    source
        .then(move |chunk| {
            let is_due = touched.elapsed() >= often;
            if is_due {
                touched = Instant::now();
            }
            async move {
                if is_due && let Err(error) = app.store.touch_artifact(id).await {
                    tracing::debug!(%error, "a file that still comes was not noted as such");
                }
                chunk
            }
        })
        .boxed()
}

/// The same file, of which the first byte is there. One without any was never meant to be a source or a result.
pub(super) async fn not_empty(mut source: Source<'_>) -> Result<Source<'_>, Error> {
    while let Some(chunk) = source.next().await {
        let chunk = chunk?;
        if !chunk.is_empty() {
            return Ok(stream::iter([Ok(chunk)]).chain(source).boxed());
        }
    }
    Err(empty())
}

fn empty() -> Error {
    Error::Malformed("the file is empty: nothing was taken in".into())
}

/// Makes an upload that came in pieces a file of a build. Certificates are small and never come that way.
///
/// The file has the identifier of the upload. So a call that is repeated, because its answer was lost or the server fell, finds
/// the file as far as it has come; and what it finds may be another call's, so nothing is removed here.
pub async fn adopt<'a>(app: &'a App, new: NewFile<'_>, caller: &'a Caller, upload: UploadId) -> Result<File, Error> {
    if let Some(file) = adopted(app, &new, upload).await? {
        return Ok(file);
    }
    let now = app.store.now().await?;
    // Looked at before it is noted: anybody can make up the name of an upload.
    match app.uploads.get(upload, &caller.key_id, now).await {
        Ok(found) if found.length == 0 => return Err(empty()),
        Ok(_) => {}
        // Somebody else may have finished it since we looked: uploads are forgotten after their files are stored.
        Err(UploadError::NotFound | UploadError::Expired) => {
            return adopted(app, &new, upload).await?.ok_or_else(|| no_upload(upload));
        }
        Err(error) => return Err(refused(upload, error).into()),
    }
    let kept = keep(app, upload.file_id(), &new, |path, terms| {
        let finish = async move { app.uploads.finish(upload, &caller.key_id, &path, terms, now).await };
        finish.map_err(move |error| refused(upload, error)).boxed()
    })
    .await;
    match kept {
        Ok(stored) => {
            forget_upload(app, upload).await;
            crash::point("upload.forgotten");
            Ok(File { id: upload.file_id(), stored, origin: Origin::Upload })
        }
        Err(NotKept::Written(error) | NotKept::Refused(error)) => Err(error),
        Err(NotKept::GivenUp(_) | NotKept::LeaseOver) => Err(Error::LeaseLost),
    }
}

fn refused(upload: UploadId, error: UploadError) -> StorageError {
    match error {
        UploadError::Storage(error) => error,
        UploadError::NotFound | UploadError::Expired => StorageError::Source(no_upload(upload)),
        incomplete @ UploadError::Incomplete { .. } => {
            StorageError::Source(Error::UploadIncomplete(incomplete.to_string()))
        }
        other => StorageError::Source(Error::Conflict(other.to_string())),
    }
}

/// The file that an upload has become, if it has, and if it may become what is wanted now.
async fn adopted(app: &App, new: &NewFile<'_>, upload: UploadId) -> Result<Option<File>, Error> {
    let Some(known) = app.store.artifact(upload.file_id()).await? else { return Ok(None) };
    let Some((size, sum)) = known.stored else { return Ok(None) };
    let lease = new.owner.lease();
    let is_same_lease = lease.is_none_or(|lease| known.run == Some(lease.run) && known.epoch == lease.epoch);
    if known.namespace != new.namespace || known.kind != new.owner.kind() || !is_same_lease {
        return Err(no_upload(upload));
    }
    let stored = Stored { size, sha256: Sha256Sum(sum) };
    new.terms.check(&stored)?;
    forget_upload(app, upload).await;
    let origin = match known.run {
        Some(_) => Origin::TakenUpload,
        None => Origin::Upload,
    };
    Ok(Some(File { id: known.id, stored, origin }))
}

pub(super) fn no_upload(upload: impl ToString) -> Error {
    Error::NotFound { what: "upload", id: upload.to_string() }
}

/// What is left of an upload that is a file now expires by itself.
async fn forget_upload(app: &App, upload: UploadId) {
    if let Err(error) = app.uploads.forget(upload).await {
        tracing::warn!(%error, %upload, "an upload that is a file now could not be deleted; it will expire");
    }
}

/// Why a file was not kept.
enum NotKept {
    /// Before anything was written, or nobody knows: then the collector finds it if nobody ever uses it.
    Refused(Error),
    /// While it was written.
    Written(Error),
    /// Its lease is over. Nothing of it was read.
    LeaseOver,
    /// It is there, and may not be used: its lease is over, or the collector has given it up.
    GivenUp(Stored),
}

/// Notes a file, has it written, and notes that it is complete.
async fn keep<'a>(
    app: &'a App,
    id: Uuid,
    new: &NewFile<'_>,
    write: impl FnOnce(ArtifactPath, Terms) -> BoxFuture<'a, Result<Stored, StorageError>>,
) -> Result<Stored, NotKept> {
    let kind = new.owner.kind();
    let left = room_left(app, new.namespace).await.map_err(NotKept::Refused)?;
    let quota_reached = || Error::QuotaReached { limit: app.current().storage_bytes_max.unwrap_or(u64::MAX) };
    if left == 0 || new.terms.length.is_some_and(|length| length > left) {
        return Err(NotKept::Refused(quota_reached()));
    }
    let terms = Terms { bytes_max: new.terms.bytes_max.min(left), ..new.terms };
    let path = path_of(id, kind);
    let noted = NewArtifact {
        id,
        namespace: new.namespace.to_owned(),
        owner: new.owner,
        name: plain_name(new.name, kind),
        path: path.as_str().to_owned(),
    };
    if !app.store.add_artifact(noted).await.map_err(|error| NotKept::Refused(error.into()))? {
        return Err(NotKept::LeaseOver);
    }
    crash::point("file.noted");
    let stored = write(path, terms).await.map_err(|error| {
        let by_quota = terms.bytes_max < new.terms.bytes_max && matches!(error, StorageError::TooLarge { .. });
        NotKept::Written(if by_quota { quota_reached() } else { error.into() })
    })?;
    match app.store.artifact_stored(id, stored.size, stored.sha256.0).await {
        Ok(true) => {
            crash::point("file.stored");
            Ok(stored)
        }
        Ok(false) => Err(NotKept::GivenUp(stored)),
        // It may have been noted. The collector finds it if nobody ever uses it.
        Err(error) => Err(NotKept::Refused(error.into())),
    }
}

/// Bytes that the namespace may still store. Uploads under way are not counted, so several at once may go beyond by what they bring.
async fn room_left(app: &App, namespace: &str) -> Result<u64, Error> {
    let Some(limit) = app.current().storage_bytes_max else { return Ok(u64::MAX) };
    Ok(limit.saturating_sub(app.store.artifact_bytes(Some(namespace)).await?))
}

fn fresh_id(app: &App) -> Uuid {
    let mut random = [0; 16];
    app.entropy.fill(&mut random);
    uuid::Builder::from_random_bytes(random).into_uuid()
}

/// Removes a file that was noted and written, as far as that is possible now.
pub(crate) async fn remove(app: &App, id: Uuid, path: &ArtifactPath) {
    match app.storage.delete(path).await {
        Ok(()) => {
            crash::point("file.removed");
            forget(app, id).await;
        }
        Err(error) => tracing::warn!(%error, ?path, "a file could not be removed; the collector will try again"),
    }
}

async fn forget(app: &App, id: Uuid) {
    if let Err::<(), StoreError>(error) = app.store.forget_artifacts(&[id]).await {
        tracing::warn!(%error, "a file that is gone could not be forgotten; the collector will try again");
    }
}

/// Where a file is kept: named by its identifier, not by anything a client said.
pub(crate) fn path_of(id: Uuid, kind: ArtifactKind) -> ArtifactPath {
    let file = match kind {
        ArtifactKind::Source => "source",
        ArtifactKind::Certs => "certs",
        // A draft stays where it is when it becomes a result.
        ArtifactKind::Result | ArtifactKind::Draft => "result",
    };
    ArtifactPath::of_file(id, &Segment::new(file).expect("the three names are good ones"))
}

/// The last part of a name, without what a file system or a terminal would take amiss.
fn plain_name(name: Option<&str>, kind: ArtifactKind) -> String {
    let last = name.unwrap_or_default().rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last.chars().filter(|letter| !letter.is_control()).take(NAME_CHARS_MAX).collect();
    match (plain.trim_matches([' ', '.']), kind) {
        ("", ArtifactKind::Source) => "source.zip".into(),
        ("", ArtifactKind::Certs) => "certs.zip".into(),
        ("", ArtifactKind::Result | ArtifactKind::Draft) => "result".into(),
        (plain, _) => plain.to_owned(),
    }
}

/// Longest name that is kept, in characters.
const NAME_CHARS_MAX: usize = 120;

/// What a stored file is, by its first bytes.
pub(crate) async fn content_type(app: &App, path: &ArtifactPath, size: u64) -> Result<&'static str, Error> {
    let mut reading = app.storage.read(path, 0..size.min(MAGIC_BYTES)).await?;
    let mut start = Vec::new();
    while let Some(chunk) = reading.next().await {
        start.extend_from_slice(&chunk?);
    }
    Ok(match start.as_slice() {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => "application/zip",
        [0x1f, 0x8b, ..] => "application/gzip",
        _ => "application/octet-stream",
    })
}

/// As many bytes tell what a file is.
const MAGIC_BYTES: u64 = 4;

/// The file of this kind that counts: what was submitted, or the result of the lease that completed the build.
pub(crate) async fn published(app: &App, found: &Found, kind: ArtifactKind) -> Result<Option<Artifact>, Error> {
    let files = app.store.artifacts(found.record.id).await?;
    Ok(of_kind(files, found, kind))
}

pub(crate) fn of_kind(files: Vec<Artifact>, found: &Found, kind: ArtifactKind) -> Option<Artifact> {
    let epoch = match kind {
        ArtifactKind::Source | ArtifactKind::Certs => Epoch::new(0),
        ArtifactKind::Result if found.record.state == baton_core::State::Completed => found.record.epoch,
        ArtifactKind::Result | ArtifactKind::Draft => return None,
    };
    let of_kind = |file: &&Artifact| file.kind == kind && file.epoch == epoch;
    // One lease may have stored two results, at once or because it had to repeat itself. The one that counts is the one that the
    // completing call named, or else the newest; the collector (sql/keep_results) chooses by the same rule and removes the others.
    let named = |file: &&Artifact| kind == ArtifactKind::Result && is_named(found, file);
    files.iter().filter(of_kind).rfind(named).or_else(|| files.iter().rfind(of_kind)).cloned()
}

/// Whether the sum of a file is in what the build was completed with.
pub(super) fn is_named(found: &Found, file: &Artifact) -> bool {
    let (Some(output), Some((_, sum))) = (&found.record.output, file.stored) else { return false };
    let sum = Sha256Sum(sum).to_string();
    output.windows(sum.len()).any(|part| part == sum.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_paths() {
        let name = |text| plain_name(Some(text), ArtifactKind::Result);
        assert_eq!(name("app.ipa"), "app.ipa");
        assert_eq!(name("../../etc/passwd"), "passwd");
        assert_eq!(name("C:\\temp\\app.apk"), "app.apk");
        for nothing in ["", "..", "/", "a/..", "\0\n", " . "] {
            assert_eq!(name(nothing), "result", "{nothing:?}");
        }
        assert_eq!(name(&"ä".repeat(500)).chars().count(), NAME_CHARS_MAX);
        assert_eq!(plain_name(None, ArtifactKind::Source), "source.zip");
    }
}
