//! How a build ends: with a file, with an error, or back in its queue.

use baton_core::{Failure, Reason, State};
use baton_store::{ArtifactKind, ArtifactOwner, Changes, Completion, LeaseRef, Verdict};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::files::{self, File, NewFile, TooLate};
use super::holder::{self, Proof, ended_or_lost};
use super::{Found, logs};
use crate::artifacts::{Sha256Sum, Source, Terms, UploadId};
use crate::auth::Caller;
use crate::service::message;
use crate::{App, Error, crash};

/// What became of a file that came as a result.
#[derive(Clone, PartialEq, Debug)]
pub enum Received {
    /// It is stored, and becomes the build's result with [`complete`].
    New(File),
    /// The build was completed with these very bytes before.
    Known,
}

/// Takes the file in that came out of a build. A repetition of what completed it is read and compared, and leaves nothing.
pub async fn receive(
    app: &App,
    proof: &Proof<'_>,
    id: &str,
    name: Option<&str>,
    terms: Terms,
    source: Source<'_>,
) -> Result<Received, Error> {
    let (found, lease) = holder::known_lease(app, proof, id).await?;
    let source = files::not_empty(source).await?;
    if is_completed_by(&found, lease) {
        return compare(app, &found, source).await;
    }
    if !found.record.state.is_held() || found.record.epoch != lease.epoch {
        return Err(ended_or_lost(&found));
    }
    crash::point("result.begun");
    let namespace = &found.build.submitted.namespace;
    let new = NewFile { namespace, owner: ArtifactOwner::Result(lease), name, terms };
    let late = match files::take_in_time(app, new, source).await? {
        Ok(file) => return Ok(Received::New(file)),
        Err(late) => late,
    };
    // The lease ended while the file came, perhaps by the very call that this one repeats.
    let found = super::find(app, id).await?;
    match late {
        _ if !is_completed_by(&found, lease) => Err(ended_or_lost(&found)),
        TooLate::Unread(source) => compare(app, &found, source).await,
        TooLate::Read(sum) => same(app, &found, sum).await,
    }
}

/// True when this very lease has completed the build.
fn is_completed_by(found: &Found, lease: LeaseRef) -> bool {
    found.record.state == State::Completed && found.record.epoch == lease.epoch
}

/// As [`receive`], for a file that came in pieces.
pub async fn receive_upload(
    app: &App,
    proof: &Proof<'_>,
    id: &str,
    name: Option<&str>,
    terms: Terms,
    (caller, upload): (&Caller, UploadId),
) -> Result<Received, Error> {
    let (found, lease) = holder::known_lease(app, proof, id).await?;
    if is_completed_by(&found, lease) {
        return same_upload(app, &found, upload).await;
    }
    if !found.record.state.is_held() || found.record.epoch != lease.epoch {
        return Err(ended_or_lost(&found));
    }
    let namespace = &found.build.submitted.namespace;
    let new = NewFile { namespace, owner: ArtifactOwner::Result(lease), name, terms };
    match files::adopt(app, new, caller, upload).await {
        Ok(file) => Ok(Received::New(file)),
        Err(Error::LeaseLost) => {
            let found = super::find(app, id).await?;
            match is_completed_by(&found, lease) {
                true => same_upload(app, &found, upload).await,
                false => Err(ended_or_lost(&found)),
            }
        }
        Err(other) => Err(other),
    }
}

async fn same_upload(app: &App, found: &Found, upload: UploadId) -> Result<Received, Error> {
    let published = files::published(app, found, ArtifactKind::Result).await?;
    match published.is_some_and(|file| file.id == upload.file_id()) {
        true => Ok(Received::Known),
        false => Err(Error::Ended(State::Completed)),
    }
}

async fn compare(app: &App, found: &Found, mut source: Source<'_>) -> Result<Received, Error> {
    let mut hasher = Sha256::new();
    while let Some(chunk) = source.next().await {
        hasher.update(&chunk?);
    }
    same(app, found, Sha256Sum(hasher.finalize().into())).await
}

/// Known, if the file that counts has this sum.
async fn same(app: &App, found: &Found, sum: Sha256Sum) -> Result<Received, Error> {
    let published = files::published(app, found, ArtifactKind::Result).await?;
    match published.and_then(|file| file.stored).is_some_and(|(_, known)| known == sum.0) {
        true => Ok(Received::Known),
        false => Err(Error::Ended(State::Completed)),
    }
}

/// Completes a build, with the file that came out of it if there is one.
pub async fn complete(app: &App, proof: &Proof<'_>, id: &str, received: Option<Received>) -> Result<(), Error> {
    let (found, lease) = holder::known_lease(app, proof, id).await?;
    let file = match received {
        Some(Received::Known) => return Ok(()),
        Some(Received::New(file)) => Some(file),
        None => None,
    };
    let output = file.map(|file| {
        let sum: Sha256Sum = file.stored.sha256;
        Bytes::from(json!({"size": file.stored.size, "sha256": sum.to_string()}).to_string())
    });
    app.metrics.complete.calls.inc();
    crash::point("complete.begun");
    let changes = app.store.complete(vec![Completion { lease, output }]).await?;
    crash::point("complete.written");
    app.after().changed([lease.run].into_iter(), &changes);
    match changes.verdicts[0] {
        Verdict::Done { .. } => {
            app.metrics.complete.runs.inc();
            ended(app, &found, true).await;
            crash::point("complete.counted");
            Ok(())
        }
        Verdict::Refused(baton_core::Refused::AlreadyDone) => repeated(app, id, file).await,
        Verdict::Refused(_) | Verdict::Unknown => {
            discard(app, file).await;
            Err(ended_or_lost(&super::find(app, id).await?))
        }
    }
}

/// The same lease completed it before: fine if it was with the same bytes. A file that does not count is the collector's to remove, which
/// chooses by the same rule, and may have done so already.
async fn repeated(app: &App, id: &str, file: Option<File>) -> Result<(), Error> {
    let found = super::find(app, id).await?;
    let Some(file) = file else {
        // One that was sent before and not named in the completion counts without a word about it.
        let published = files::published(app, &found, ArtifactKind::Result).await?;
        return match published.is_some_and(|file| files::is_named(&found, &file)) {
            true => Err(Error::Ended(State::Completed)),
            false => Ok(()),
        };
    };
    same(app, &found, file.stored.sha256).await.map(|_| ())
}

async fn discard(app: &App, file: Option<File>) {
    if let Some(file) = file {
        files::remove(app, file.id, &files::path_of(file.id, ArtifactKind::Result)).await;
    }
}

/// Fails a build for good: whoever built it says that it does not work.
pub async fn fail(app: &App, proof: &Proof<'_>, id: &str, error: &str) -> Result<(), Error> {
    let (found, lease) = holder::known_lease(app, proof, id).await?;
    let failure =
        Failure { reason: Reason::Error, code: None, message: message(error), retryable: false, not_before: None };
    app.metrics.fail.calls.inc();
    let changes = app.store.fail(vec![(lease, failure)], app.entropy.die()).await?;
    if settle(app, &found, lease, &changes).await? {
        app.metrics.fail.runs.inc();
        ended(app, &found, false).await;
    }
    Ok(())
}

/// Puts a build back that its builder cannot finish.
pub async fn abandon(app: &App, proof: &Proof<'_>, id: &str, reason: &str) -> Result<(), Error> {
    let (found, lease) = holder::known_lease(app, proof, id).await?;
    app.metrics.give_back.calls.inc();
    let changes = app.store.give_back(vec![(lease, message(reason))]).await?;
    settle(app, &found, lease, &changes).await?;
    logs::note(app, &found, format!("Given back by its worker: {reason}")).await;
    Ok(())
}

/// True when it was done now, false when it had been done before.
async fn settle(app: &App, found: &Found, lease: LeaseRef, changes: &Changes) -> Result<bool, Error> {
    app.after().changed([lease.run].into_iter(), changes);
    match changes.verdicts[0] {
        Verdict::Done { .. } => Ok(true),
        Verdict::Refused(baton_core::Refused::AlreadyDone) => Ok(false),
        Verdict::Refused(_) | Verdict::Unknown => {
            Err(ended_or_lost(&super::find(app, &found.record.id.to_string()).await?))
        }
    }
}

/// Counts a build for its builder. Only statistics: what could not be counted is no reason to fail.
async fn ended(app: &App, found: &Found, succeeded: bool) {
    let Some(worker) = found.record.worker else { return };
    if let Err(error) = app.store.count_for_builder(worker, succeeded).await {
        tracing::debug!(%error, %worker, "an ended build was not counted for its builder");
    }
}
