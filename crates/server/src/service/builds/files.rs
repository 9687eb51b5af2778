//! Files of builds: noted in the store, then written, then noted as complete. Whatever is cut off in between is found and removed.

use baton_core::Epoch;
use baton_store::{Artifact, ArtifactKind, ArtifactOwner, NewArtifact, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::Found;
use crate::artifacts::{ArtifactPath, Segment, Sha256Sum, Source, StorageError, Stored, Terms, UploadError, UploadId};
use crate::auth::Caller;
use crate::{App, Error};

/// Files that nobody took within this time are removed.
pub(crate) const UNUSED_MS: i64 = 3_600_000;

/// A file that is complete.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct File {
    /// Its identifier.
    pub id: Uuid,
    /// Size and sum.
    pub stored: Stored,
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

/// Takes a file in, all of it or nothing.
pub async fn take_in<'a>(app: &'a App, new: NewFile<'_>, source: Source<'a>) -> Result<File, Error> {
    let kind = new.owner.kind();
    keep(app, new, |path, terms| {
        async move {
            match kind {
                ArtifactKind::Certs => app.storage.put_sealed(&app.seal, &path, source, terms).await,
                ArtifactKind::Source | ArtifactKind::Result => app.storage.put(&path, source, terms).await,
            }
        }
        .boxed()
    })
    .await
}

/// Makes an upload that came in pieces a file of a build. Certificates are small and never come that way.
pub async fn adopt<'a>(app: &'a App, new: NewFile<'_>, caller: &'a Caller, upload: UploadId) -> Result<File, Error> {
    let now = app.store.now().await?;
    keep(app, new, |path, terms| {
        async move {
            app.uploads.finish(upload, &caller.key_id, &path, terms, now).await.map_err(|error| match error {
                UploadError::Storage(error) => error,
                UploadError::NotFound | UploadError::Expired => {
                    StorageError::Source(Error::NotFound { what: "upload", id: upload.to_string() })
                }
                other => StorageError::Source(Error::Conflict(other.to_string())),
            })
        }
        .boxed()
    })
    .await
}

/// Notes a file, has it written, and notes that it is complete.
async fn keep<'a>(
    app: &'a App,
    new: NewFile<'_>,
    write: impl FnOnce(ArtifactPath, Terms) -> BoxFuture<'a, Result<Stored, StorageError>>,
) -> Result<File, Error> {
    let kind = new.owner.kind();
    let left = room_left(app, new.namespace).await?;
    let quota_reached = || Error::QuotaReached { limit: app.settings.storage_bytes_max.unwrap_or(u64::MAX) };
    if left == 0 || new.terms.length.is_some_and(|length| length > left) {
        return Err(quota_reached());
    }
    let terms = Terms { bytes_max: new.terms.bytes_max.min(left), ..new.terms };
    let id = fresh_id(app);
    let path = path_of(id, kind);
    let noted = NewArtifact {
        id,
        namespace: new.namespace.to_owned(),
        owner: new.owner,
        name: plain_name(new.name, kind),
        path: path.as_str().to_owned(),
    };
    if !app.store.add_artifact(noted).await? {
        return Err(Error::LeaseLost);
    }
    let stored = match write(path.clone(), terms).await {
        Ok(stored) => stored,
        Err(error) => {
            // The storage has left nothing behind, so there is nothing to be found later.
            forget(app, id).await;
            let by_quota = terms.bytes_max < new.terms.bytes_max && matches!(error, StorageError::TooLarge { .. });
            return Err(if by_quota { quota_reached() } else { error.into() });
        }
    };
    match app.store.artifact_stored(id, stored.size, stored.sha256.0).await {
        Ok(true) => Ok(File { id, stored }),
        Ok(false) => {
            remove(app, id, &path).await;
            Err(Error::LeaseLost)
        }
        // It may have been noted. The collector finds it if nobody ever uses it.
        Err(error) => Err(error.into()),
    }
}

/// Bytes that the namespace may still store. Uploads under way are not counted, so several at once may go beyond by what they bring.
async fn room_left(app: &App, namespace: &str) -> Result<u64, Error> {
    let Some(limit) = app.settings.storage_bytes_max else { return Ok(u64::MAX) };
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
        Ok(()) => forget(app, id).await,
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
        ArtifactKind::Result => "result",
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
        ("", ArtifactKind::Result) => "result".into(),
        (plain, _) => plain.to_owned(),
    }
}

/// Longest name that is kept, in characters.
const NAME_CHARS_MAX: usize = 120;

/// The file of this kind that counts: what was submitted, or the result of the lease that completed the build.
pub(crate) async fn published(app: &App, found: &Found, kind: ArtifactKind) -> Result<Option<Artifact>, Error> {
    let files = app.store.artifacts(found.record.id).await?;
    Ok(of_kind(files, found, kind))
}

pub(crate) fn of_kind(files: Vec<Artifact>, found: &Found, kind: ArtifactKind) -> Option<Artifact> {
    let epoch = match kind {
        ArtifactKind::Source | ArtifactKind::Certs => Epoch(0),
        ArtifactKind::Result if found.record.state == baton_core::State::Completed => found.record.epoch,
        ArtifactKind::Result => return None,
    };
    // One lease may have stored two results at once. The one that counts is the one the build was completed with.
    let counts = |file: &Artifact| match (kind, completed_with(found)) {
        (ArtifactKind::Result, Some(sum)) => file.stored.is_some_and(|(_, own)| Sha256Sum(own) == sum),
        _ => true,
    };
    files.into_iter().rfind(|file| file.kind == kind && file.epoch == epoch && counts(file))
}

/// The sum of the file that the completing call named, if it named one.
fn completed_with(found: &Found) -> Option<Sha256Sum> {
    let output: serde_json::Value = serde_json::from_slice(found.record.output.as_ref()?).ok()?;
    output.get("sha256")?.as_str()?.parse().ok()
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
