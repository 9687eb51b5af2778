//! How a build ends: with a file, with an error, or back in its queue.

use baton_core::{Epoch, Failure, LateVerb, Reason, State, WorkerId};
use baton_store::{
    ArtifactKind, ArtifactOwner, BuildSource, Builder, Changes, Completion, LeaseRef, Scope, Verdict, WorkerStatus,
};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::files::{self, File, NewFile, TooLate};
use super::holder::{self, Proof, ended_or_lost};
use super::{Found, logs};
use crate::artifacts::{Sha256Sum, Source, Terms, UploadId};
use crate::auth::Caller;
use crate::refusals::LeaseWrite;
use crate::service::{message, note_stale};
use crate::verb_metrics::timed;
use crate::{App, Error, crash};

/// What became of a file that came as a result.
#[derive(Clone, PartialEq, Debug)]
pub enum Received {
    /// It is stored, and becomes the build's result with [`complete`].
    New(File),
    /// The build was completed with these very bytes before.
    Known,
    /// It is stored, and belongs to nobody: the build was never handed out. See [`bind`].
    Draft(File),
}

/// Whoever sends a file before saying what it came out of: the namespace of the builder that is
/// proven, or of the API key.
async fn sender(
    app: &App,
    caller: Option<&Caller>,
    proof: Result<Proof<'_>, Error>,
) -> Result<(String, Option<WorkerId>), Error> {
    match (proof, caller) {
        (Ok(proof @ (Proof::BuilderToken(..) | Proof::BuilderName(..))), _) => {
            let builder = holder::builder(app, &proof).await?;
            // One that is gone has no build that its file could be of.
            let worker = app.store.worker(builder.worker).await?;
            match worker.is_none_or(|worker| worker.status == WorkerStatus::Offline) {
                true => Err(Error::WorkerOffline),
                false => Ok((builder.namespace, Some(builder.worker))),
            }
        }
        (Ok(Proof::Machine(_) | Proof::Lease(..)), _) => Err(Error::Malformed(
            "the field build_id must come before the file where a build's own token is shown".into(),
        )),
        (Err(_), Some(caller)) => {
            let namespace = super::namespace_of(caller);
            caller.may(Scope::Worker, namespace)?;
            Ok((namespace.to_owned(), None))
        }
        (Err(error), None) => Err(error),
    }
}

/// The same file. Whoever sends it is alive for as long as it comes, which may be longer than a
/// lease.
fn alive_while<'a>(app: &'a App, worker: WorkerId, source: Source<'a>) -> Source<'a> {
    source
        .then(move |chunk| async move {
            // What this finds out is told when the file is stored.
            let _ = super::heard_of(app, worker).await;
            chunk
        })
        .boxed()
}

/// Takes a file in that came out of a build which its sender has not named yet. It belongs to
/// nobody until [`bind`] makes it the result of a lease; what is not bound is removed, at the
/// latest by the collector.
pub async fn draft(
    app: &App,
    (caller, proof): (Option<&Caller>, Result<Proof<'_>, Error>),
    name: Option<&str>,
    terms: Terms,
    source: Source<'_>,
) -> Result<File, Error> {
    let (namespace, worker) = sender(app, caller, proof).await?;
    store_draft(app, (&namespace, worker), name, terms, source).await
}

async fn store_draft(
    app: &App,
    (namespace, worker): (&str, Option<WorkerId>),
    name: Option<&str>,
    terms: Terms,
    source: Source<'_>,
) -> Result<File, Error> {
    let new = NewFile { namespace, owner: ArtifactOwner::Draft, name, terms };
    let source = match worker {
        Some(worker) => alive_while(app, worker, source),
        None => source,
    };
    let file = files::take_in(app, new, source).await?;
    crash::point("result.drafted");
    Ok(file)
}

/// Makes a draft what came out of a build. A repetition of what completed it is compared, and
/// leaves nothing.
pub async fn bind(app: &App, proof: &Proof<'_>, id: &str, draft: File) -> Result<Received, Error> {
    let bound = bind_if_held(app, proof, id, &draft).await;
    // When nobody knows whether it was bound it stays: the collector removes it if it was not.
    let is_over = match &bound {
        Ok(Received::New(_)) => false,
        Ok(Received::Known | Received::Draft(_)) => true,
        Err(error) => error.is_refusal(),
    };
    if is_over {
        discard(app, Some(draft)).await;
    }
    bound
}

async fn bind_if_held(app: &App, proof: &Proof<'_>, id: &str, draft: &File) -> Result<Received, Error> {
    let (found, lease) = ending_lease(app, proof, id).await?;
    if is_completed_by(&found, lease) {
        return same(app, &found, draft.stored.sha256).await;
    }
    if app.store.bind_draft(draft.id, lease).await? {
        crash::point("result.bound");
        return Ok(Received::New(*draft));
    }
    // The lease ended while the file came, perhaps by the very call that this one repeats.
    let found = super::find(app, id).await?;
    match is_completed_by(&found, lease) {
        true => same(app, &found, draft.stored.sha256).await,
        false => Err(holder::refused(
            app,
            &found,
            LeaseWrite::new(lease, LateVerb::Artifact).with_bytes(draft.stored.size as usize),
        )),
    }
}

/// The lease under which a builder ends a build. One that nobody was ever handed is taken for the
/// builder that reports its end, if it could have been handed it: existing clients work on builds
/// that they were told of by other means than a poll.
async fn ending_lease(app: &App, proof: &Proof<'_>, id: &str) -> Result<(Found, LeaseRef), Error> {
    let (builder, found) = match held_or_untouched(app, proof, id).await? {
        Reach::Lease(found, lease) => return Ok((found, lease)),
        Reach::Untouched(builder, found) => (builder, found),
    };
    let taken = app.store.take_build(found.record.id, builder.worker, app.entropy.bits() as u32).await?;
    // Somebody may have been handed it meanwhile.
    let found = super::find(app, id).await?;
    match taken {
        Some(lease) => Ok((found, lease)),
        None => holder::lease_of(&builder, found),
    }
}

/// What somebody has of a build whose end it reports.
enum Reach {
    /// The lease that is or was its own.
    Lease(Found, LeaseRef),
    /// Nothing yet: nobody was ever handed the build, and this builder could have been.
    Untouched(Builder, Found),
}

async fn held_or_untouched(app: &App, proof: &Proof<'_>, id: &str) -> Result<Reach, Error> {
    let builder = match proof {
        Proof::BuilderToken(..) | Proof::BuilderName(..) => holder::builder(app, proof).await?,
        Proof::Machine(_) | Proof::Lease(..) => {
            let (found, lease) = holder::known_lease(app, proof, id).await?;
            return Ok(Reach::Lease(found, lease));
        }
    };
    let found = super::find(app, id).await?;
    let is_untouched = found.record.state == State::Pending && found.record.epoch == Epoch::new(0);
    if is_untouched && could_build(app, proof, &builder, &found).await? {
        return Ok(Reach::Untouched(builder, found));
    }
    let (found, lease) = holder::lease_of(&builder, found)?;
    Ok(Reach::Lease(found, lease))
}

/// Whether a poll of this builder could have brought this build.
async fn could_build(app: &App, proof: &Proof<'_>, builder: &Builder, found: &Found) -> Result<bool, Error> {
    let submitted = &found.build.submitted;
    let is_from_files = matches!(submitted.source, BuildSource::Files { .. });
    let has_expired = matches!(proof, Proof::BuilderToken(..)) && app.time.now().await? > builder.token_until;
    if !is_from_files || has_expired {
        return Ok(false);
    }
    let known = app.workers.get(builder.worker).await?;
    Ok(known.is_some_and(|known| known.namespace == submitted.namespace && known.types.contains(&submitted.platform)))
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
    let (found, lease) = match held_or_untouched(app, proof, id).await? {
        Reach::Lease(found, lease) => (found, lease),
        // It is taken when it ends, and not by a file that may never be whole.
        Reach::Untouched(builder, _) => {
            let sender = (builder.namespace.as_str(), Some(builder.worker));
            return store_draft(app, sender, name, terms, source).await.map(Received::Draft);
        }
    };
    let source = files::not_empty(source).await?;
    if is_completed_by(&found, lease) {
        return compare(app, &found, source).await;
    }
    if !found.record.state.is_held() || found.record.epoch != lease.epoch {
        return Err(holder::refused(app, &found, LeaseWrite::new(lease, LateVerb::Artifact)));
    }
    crash::point("result.begun");
    let namespace = &found.build.submitted.namespace;
    let new = NewFile { namespace, owner: ArtifactOwner::Result(lease), name, terms };
    let source = match found.record.worker {
        Some(worker) => alive_while(app, worker, source),
        None => source,
    };
    let late = match files::take_in_time(app, new, source).await? {
        Ok(file) => return Ok(Received::New(file)),
        Err(late) => late,
    };
    // The lease ended while the file came, perhaps by the very call that this one repeats.
    let found = super::find(app, id).await?;
    match late {
        _ if !is_completed_by(&found, lease) => {
            Err(holder::refused(app, &found, LeaseWrite::new(lease, LateVerb::Artifact)))
        }
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
        return Err(holder::refused(app, &found, LeaseWrite::new(lease, LateVerb::Artifact)));
    }
    let namespace = &found.build.submitted.namespace;
    let new = NewFile { namespace, owner: ArtifactOwner::Result(lease), name, terms };
    match files::adopt(app, new, caller, upload).await {
        Ok(file) => Ok(Received::New(file)),
        Err(Error::LeaseLost) => {
            let found = super::find(app, id).await?;
            match is_completed_by(&found, lease) {
                true => same_upload(app, &found, upload).await,
                false => Err(holder::refused(app, &found, LeaseWrite::new(lease, LateVerb::Artifact))),
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
    timed!(app.metrics.complete, complete_held(app, proof, id, received))
}

async fn complete_held(app: &App, proof: &Proof<'_>, id: &str, received: Option<Received>) -> Result<(), Error> {
    let received = match received {
        Some(Received::Draft(draft)) => Some(bind(app, proof, id, draft).await?),
        other => other,
    };
    let (found, lease) = ending_lease(app, proof, id).await?;
    let file = match received {
        Some(Received::Known) => return Ok(()),
        Some(Received::New(file) | Received::Draft(file)) => Some(file),
        None => None,
    };
    let output = file.map(|file| {
        let sum: Sha256Sum = file.stored.sha256;
        Bytes::from(json!({"size": file.stored.size, "sha256": sum.to_string()}).to_string())
    });
    begun(app, &found, lease).await?;
    crash::point("complete.begun");
    let changes = app.metrics.complete.at_store(app.store.complete(vec![Completion { lease, output }])).await?;
    crash::point("complete.written");
    app.metrics.complete.did(&changes.verdicts);
    if let Verdict::Done { .. } = changes.verdicts[0] {
        // Before anybody hears of the end: whoever follows the log reads until then.
        logs::note(app, lease.run, "Build completed successfully".into()).await;
    }
    app.after().changed([lease.run].into_iter(), &changes);
    match changes.verdicts[0] {
        Verdict::Done { .. } => {
            ended(app, &found, true).await;
            crash::point("complete.counted");
            Ok(())
        }
        Verdict::Refused(baton_core::Refused::AlreadyDone) => repeated(app, id, file).await,
        Verdict::Refused(_) | Verdict::Unknown => {
            note_stale(app, LeaseWrite::new(lease, LateVerb::Complete), changes.verdicts[0]);
            discard(app, file).await;
            Err(ended_or_lost(&super::find(app, id).await?))
        }
    }
}

/// The same lease completed it before: fine if it was with the same bytes. A file that does not count is the collector's to remove, which
/// chooses by the same rule, and may have done so already.
async fn repeated(app: &App, id: &str, file: Option<File>) -> Result<(), Error> {
    // The machine may have completed it with a file, and its worker says so without one.
    let Some(file) = file else { return Ok(()) };
    let found = super::find(app, id).await?;
    same(app, &found, file.stored.sha256).await.map(|_| ())
}

/// Removes a file that counts for nothing.
pub async fn discard(app: &App, file: Option<File>) {
    if let Some(file) = file {
        files::remove(app, file.id, &files::path_of(file.id, ArtifactKind::Result)).await;
    }
}

/// Fails a build for good: whoever built it says that it does not work.
pub async fn fail(app: &App, proof: &Proof<'_>, id: &str, error: &str) -> Result<(), Error> {
    timed!(app.metrics.fail, fail_held(app, proof, id, error))
}

async fn fail_held(app: &App, proof: &Proof<'_>, id: &str, error: &str) -> Result<(), Error> {
    let (found, lease) = ending_lease(app, proof, id).await?;
    let failure =
        Failure { reason: Reason::Error, code: None, message: message(error), retryable: false, not_before: None };
    begun(app, &found, lease).await?;
    let changes = app.metrics.fail.at_store(app.store.fail(vec![(lease, failure)], app.entropy.die())).await?;
    if let Verdict::Done { .. } = changes.verdicts[0] {
        logs::complain(app, lease.run, format!("Build failed: {}", message(error))).await;
    }
    app.metrics.fail.did(&changes.verdicts);
    if settle(app, &found, LeaseWrite::new(lease, LateVerb::Fail), &changes).await? {
        ended(app, &found, false).await;
    }
    Ok(())
}

/// Puts a build back that its builder cannot finish.
pub async fn abandon(app: &App, proof: &Proof<'_>, id: &str, reason: &str) -> Result<(), Error> {
    timed!(app.metrics.give_back, abandon_held(app, proof, id, reason))
}

async fn abandon_held(app: &App, proof: &Proof<'_>, id: &str, reason: &str) -> Result<(), Error> {
    let (found, lease) = holder::known_lease(app, proof, id).await?;
    let changes = app.metrics.give_back.at_store(app.store.give_back(vec![(lease, message(reason))])).await?;
    app.metrics.give_back.did(&changes.verdicts);
    settle(app, &found, LeaseWrite::new(lease, LateVerb::GiveBack), &changes).await?;
    logs::note(app, lease.run, format!("Build given back by its worker: {reason}")).await;
    Ok(())
}

/// True when it was done now, false when it had been done before.
async fn settle(app: &App, found: &Found, write: LeaseWrite<'_>, changes: &Changes) -> Result<bool, Error> {
    app.after().changed([write.lease.run].into_iter(), changes);
    match changes.verdicts[0] {
        Verdict::Done { .. } => Ok(true),
        Verdict::Refused(baton_core::Refused::AlreadyDone) => Ok(false),
        Verdict::Refused(_) | Verdict::Unknown => {
            note_stale(app, write, changes.verdicts[0]);
            Err(ended_or_lost(&super::find(app, &found.record.id.to_string()).await?))
        }
    }
}

/// Whoever ends a build has worked on it, also where nothing was heard of that before.
async fn begun(app: &App, found: &Found, lease: LeaseRef) -> Result<(), Error> {
    match found.record.state {
        State::Assigned => super::machines::begun(app, lease).await,
        _ => Ok(()),
    }
}

/// Counts a build for its builder. Only statistics: what could not be counted is no reason to fail.
async fn ended(app: &App, found: &Found, succeeded: bool) {
    let Some(worker) = found.record.worker else { return };
    if let Err(error) = app.store.count_for_builder(worker, succeeded).await {
        tracing::debug!(%error, %worker, "an ended build was not counted for its builder");
    }
}
