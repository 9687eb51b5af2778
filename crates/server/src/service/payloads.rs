//! Payloads that are too large for a row: kept in the storage, and put back where they belong when somebody reads them.
//!
//! Verbs call [`keep`] before they go to the store, and [`fill`] before they answer; the store has a reference in between. It is the
//! server that writes references and nobody else: what a user sends that looks like one is refused ([`check`]), and what is fetched was
//! checked before it was kept, so nothing that a reference leads to is ever taken for another. docs/adr/0015 has the reasons.
//!
//! Payloads of namespaces that say so are sealed on the way in, before anything else, and opened on the way out (docs/adr/0025).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_core::payload::{Reference, is_sealed, looks_like_a_reference, seems_deeper_than, size};
use baton_core::{Failure, Millis, Reason, RunId};
use baton_store::{Claimed, Journal, LaneId, LeaseRef, Message};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use crate::answers::Room;
use crate::artifacts::{ArtifactPath, Sha256Sum, StorageError, Terms};
use crate::secrets::Ring;
use crate::{App, Error, crash};

/// What the record of a child's end says besides the child's output, which may be as large as a payload can be.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// Most runs whose lanes are remembered; beyond it the memory starts anew.
const RUN_LANES_MAX: usize = 100_000;

/// Looks in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 100;

/// Refuses a payload of a user that is too large, or could be taken for a reference.
pub(crate) fn check(app: &App, payload: &[u8]) -> Result<(), Error> {
    check_up_to(app, payload, app.settings.payload_bytes_max)
}

/// As [`check`], for the output of a step.
pub(crate) fn check_output(app: &App, output: &[u8]) -> Result<(), Error> {
    check_up_to(app, output, app.settings.payload_bytes_max.saturating_add(RECORD_BYTES_MAX))
}

fn check_up_to(app: &App, payload: &[u8], bytes_max: usize) -> Result<(), Error> {
    if payload.len() > bytes_max {
        return Err(Error::TooLarge { limit: app.settings.payload_bytes_max });
    }
    let limit = app.settings.payload_depth_max;
    // Other faces may send what is no JSON, and is nobody's business. That is found out only where
    // it might be.
    if seems_deeper_than(payload, limit) && serde_json::from_slice::<serde::de::IgnoredAny>(payload).is_ok() {
        return Err(Error::Invalid(format!(
            "a payload may have arrays and objects {limit} deep in each other (the setting payload_depth_max), and this one is \
             deeper: many programs cannot read it"
        )));
    }
    match looks_like_a_reference(payload) {
        true => Err(Error::Invalid("a payload must not begin as Baton's references to payloads do".into())),
        false => Ok(()),
    }
}

/// True when this is kept in the storage and not in a row.
pub(crate) fn is_large(app: &App, payload: &[u8]) -> bool {
    payload.len() > app.settings.payload_inline_bytes_max
}

/// Whose payload something is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// That of a run of this lane.
    Lane(LaneId),
    /// That of this run.
    Run(RunId),
}

/// What is to be kept in the row: the payload, sealed if its namespace says so, or a reference to where it is now.
pub(crate) async fn keep(app: &App, of: Of, payload: Bytes) -> Result<Bytes, Error> {
    let is_large = is_large(app, &payload);
    let payload = sealed(app, of, payload).await?;
    match is_large {
        true => store(app, payload).await,
        false => Ok(payload),
    }
}

/// The payload as it leaves the process. Where no namespace seals anything, nobody finds out whose it is.
async fn sealed(app: &App, of: Of, payload: Bytes) -> Result<Bytes, Error> {
    if payload.is_empty() || !app.namespaces.any_seals() {
        return Ok(payload);
    }
    let lane = match of {
        Of::Lane(lane) => lane,
        Of::Run(run) => app.run_lanes.of(app, run).await?,
    };
    let lane = app.lanes.name(lane).await?.ok_or(Error::Internal)?;
    Ok(match app.namespaces.seals(&lane.namespace) {
        true => app.secrets.ring().seal_payload(&lane.namespace, &payload, &*app.entropy),
        false => payload,
    })
}

/// The lanes of runs that somebody holds, so that their results can be kept as their namespaces want without a look at the store. Filled only
/// while a namespace seals its payloads.
#[derive(Debug, Default)]
pub struct RunLanes(Mutex<HashMap<RunId, LaneId>>);

impl RunLanes {
    /// Remembers the lane of a run that is handed out.
    pub(crate) fn note(&self, app: &App, run: RunId, lane: LaneId) {
        if app.namespaces.any_seals() {
            let mut known = self.0.lock().expect("nobody panics while holding it");
            if known.len() >= RUN_LANES_MAX {
                known.clear();
            }
            known.insert(run, lane);
        }
    }

    async fn of(&self, app: &App, run: RunId) -> Result<LaneId, Error> {
        let known = self.0.lock().expect("nobody panics while holding it").get(&run).copied();
        if let Some(lane) = known {
            return Ok(lane);
        }
        let lane = app.store.run(run).await?.ok_or_else(|| Error::no_run(run))?.lane;
        self.note(app, run, lane);
        Ok(lane)
    }
}

/// Keeps the payloads of several items, and carries out those whose payload is kept. One answer for each.
pub(crate) async fn keep_each<T, A>(
    app: &App,
    mut items: Vec<T>,
    run: impl Fn(&T) -> RunId,
    payload: impl Fn(&mut T) -> Option<&mut Bytes>,
    act: impl AsyncFnOnce(Vec<T>) -> Result<Vec<Result<A, Error>>, Error>,
) -> Result<Vec<Result<A, Error>>, Error> {
    let is_plain = !app.namespaces.any_seals();
    if is_plain && !items.iter_mut().filter_map(&payload).any(|payload| is_large(app, payload)) {
        return act(items).await;
    }
    let (mut refused, mut kept) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
    for mut item in items {
        let of = Of::Run(run(&item));
        let result = match payload(&mut item) {
            Some(payload) => keep(app, of, std::mem::take(payload)).await.map(|reference| *payload = reference),
            None => Ok(()),
        };
        refused.push(result.err());
        if refused.last().is_some_and(Option::is_none) {
            kept.push(item);
        }
    }
    let mut answers = if kept.is_empty() { vec![] } else { act(kept).await? }.into_iter();
    let answer = |refused: Option<Error>| refused.map_or_else(|| answers.next().unwrap_or(Err(Error::Internal)), Err);
    Ok(refused.into_iter().map(answer).collect())
}

async fn store(app: &App, payload: Bytes) -> Result<Bytes, Error> {
    let hashed = payload.clone();
    let sum = tokio::task::spawn_blocking(move || Sha256Sum::of(&hashed)).await.map_err(StorageError::from)?;
    let mut random = [0; 16];
    app.entropy.fill(&mut random);
    let id = uuid::Builder::from_random_bytes(random).into_uuid();
    let ring = app.secrets.ring();
    let generation = ring.newest().number();
    let reference = Reference { id, size: payload.len() as u64, sha256: sum.0, generation };
    let written = reference.write(&ring.newest().tokens);
    // Noted before the first byte, so that whatever is cut off from here on is found and removed.
    app.store.note_payload(id, written.clone()).await?;
    crash::point("payload.noted");
    let terms = Terms { bytes_max: reference.size, length: Some(reference.size), sha256: Some(sum) };
    let source = stream::iter([Ok(payload)]).boxed();
    app.storage.put(&ArtifactPath::payload(id), source, terms).await.map_err(out_of_reach)?;
    crash::point("payload.stored");
    // Writing may have taken its time; from now on there is enough of it again to put the reference into a row.
    match app.store.touch_payload(id).await? {
        true => Ok(Bytes::from(written)),
        false => Err(Error::Unavailable),
    }
}

/// A storage that fails is one that cannot be reached now: whoever sent the payload tries again.
fn out_of_reach(error: StorageError) -> Error {
    match error {
        StorageError::Failed(why) | StorageError::Damaged(why) => {
            tracing::warn!(%why, "the artifact storage failed; a payload could not be written or read");
            Error::StorageUnavailable
        }
        StorageError::NotFound => Error::StorageUnavailable,
        other => other.into(),
    }
}

/// Makes sure that a payload that was read from one row may be put into another.
pub(crate) async fn reuse(app: &App, kept: &[u8]) -> Result<(), Error> {
    let ring = app.secrets.ring_for_payloads(std::iter::once(kept)).await?;
    let Some(reference) = ring.reference(kept) else { return Ok(()) };
    match app.store.touch_payload(reference.id).await? {
        true => Ok(()),
        false => Err(Error::NotFound { what: "payload", id: reference.id.to_string() }),
    }
}

/// Puts payloads in the place of their references, and opens those that are sealed: all, or none. Waits until there is room for what is
/// fetched in memory, which it keeps until it is sent.
pub(crate) async fn fill(app: &App, payloads: Vec<&mut Bytes>) -> Result<(), Error> {
    if !payloads.iter().any(|payload| is_left_out(payload) || is_sealed(payload)) {
        return Ok(());
    }
    let ring = app.secrets.ring_for_payloads(payloads.iter().map(|payload| &payload[..])).await?;
    let (mut found, mut ready) = (Vec::with_capacity(payloads.len()), Vec::new());
    for payload in payloads {
        match ring.reference(payload) {
            Some(reference) => found.push((reference, payload)),
            None if is_of_lost_secret(&ring, payload) => return Err(Error::PayloadLost),
            None if is_sealed(payload) => ready.push((opened(app, payload).await?, payload)),
            None => {}
        }
    }
    if !found.is_empty() {
        let bytes = found.iter().map(|(reference, _)| reference.size).sum::<u64>();
        let room = app.answers.take(usize::try_from(bytes).unwrap_or(usize::MAX)).await?;
        for (reference, payload) in found {
            ready.push((fetch(app, &reference, room.clone()).await?, payload));
        }
    }
    for (bytes, payload) in ready {
        *payload = bytes;
    }
    Ok(())
}

/// Opens those that are sealed and in a row; references stay.
pub(crate) async fn open(app: &App, payloads: impl Iterator<Item = &mut Bytes>) -> Result<(), Error> {
    fill(app, payloads.filter(|payload| is_sealed(payload)).collect()).await
}

async fn opened(app: &App, kept: &[u8]) -> Result<Bytes, Error> {
    let ring = app.secrets.ring_for_payloads(std::iter::once(kept)).await?;
    ring.open_payload(kept).ok_or_else(|| {
        tracing::error!("a sealed payload cannot be opened: it was changed, or its secret is gone");
        Error::PayloadLost
    })
}

/// True when nobody can say any more whether this is a reference: the secret that would tell is gone.
fn is_of_lost_secret(ring: &Ring, payload: &[u8]) -> bool {
    Reference::read(payload).is_some_and(|reference| ring.get(reference.generation).is_none())
}

/// Of several payloads those that go into one answer. Others are left out: a reader that sees the size alone asks for it with a call of its
/// own. The first is never left out.
pub(crate) fn fitting<'a>(app: &App, payloads: impl Iterator<Item = &'a mut Bytes>) -> Vec<&'a mut Bytes> {
    let mut left = app.settings.payload_bytes_max as u64;
    let mut any = false;
    let fits = payloads.filter(|payload| {
        if is_sealed(payload) {
            return true;
        }
        let fitting = Reference::read(payload).filter(|reference| !any || reference.size <= left);
        any |= fitting.is_some();
        left = left.saturating_sub(fitting.map_or(0, |reference| reference.size));
        fitting.is_some()
    });
    fits.collect()
}

/// Fills the inputs of runs that were claimed, and what they remember as far as it fits. A run that has lost a payload fails, and is not among
/// them any more: nobody can ever do it.
pub(crate) async fn fill_claimed(app: &App, runs: &mut Vec<(Claimed, Journal)>) -> Result<(), Error> {
    match fill_all(app, runs).await {
        Err(Error::PayloadLost) => {}
        other => return other,
    }
    let (mut whole, mut lost) = (Vec::with_capacity(runs.len()), Vec::new());
    for run in runs.drain(..) {
        let mut alone = [run];
        let filled = fill_all(app, &mut alone).await;
        let [run] = alone;
        match filled {
            Err(Error::PayloadLost) => lost.push(LeaseRef { run: run.0.run, epoch: run.0.epoch }),
            // What could not be filled now is tried again by whoever asked.
            _ => whole.push(run),
        }
    }
    *runs = whole;
    let failures = lost.into_iter().map(|lease| (lease, lost_failure())).collect();
    if let Err(error) = super::workflows::finish::fail(app, failures).await {
        // Their worker does not know of them: they go back when it says so, and come here again.
        tracing::warn!(%error, "runs that have lost a payload could not be ended");
    }
    fill_all(app, runs).await
}

fn lost_failure() -> Failure {
    Failure {
        reason: Reason::Error,
        code: Some(Error::PayloadLost.code().into()),
        message: Error::PayloadLost.to_string(),
        // A file system may show a file late, and a disk may be mounted again.
        retryable: true,
        not_before: None,
    }
}

async fn fill_all(app: &App, runs: &mut [(Claimed, Journal)]) -> Result<(), Error> {
    let (inputs, journals): (Vec<_>, Vec<_>) = runs.iter_mut().map(|(run, journal)| (&mut run.input, journal)).unzip();
    let remembered = journals.into_iter().flat_map(|journal| {
        let outputs = journal.steps.iter_mut().filter_map(|step| step.output.as_mut());
        outputs.chain(journal.messages.iter_mut().filter_map(|message| message.payload.as_mut()))
    });
    let mut all = fitting(app, remembered);
    all.extend(inputs);
    fill(app, all).await
}

/// Fills messages, as far as they fit.
pub(crate) async fn fill_messages(app: &App, messages: &mut [Message]) -> Result<(), Error> {
    let payloads = fitting(app, messages.iter_mut().filter_map(|message| message.payload.as_mut()));
    fill(app, payloads).await
}

/// True for a payload that did not fit.
pub(crate) fn is_left_out(kept: &[u8]) -> bool {
    Reference::read(kept).is_some()
}

/// What there is to show of a payload that may have been left out: its bytes, or how many there are.
pub(crate) fn shown(kept: Option<Bytes>) -> (Bytes, u64) {
    match kept {
        Some(kept) if is_left_out(&kept) => (Bytes::new(), size(&kept)),
        Some(payload) => (payload, 0),
        None => (Bytes::new(), 0),
    }
}

/// Bytes and the room they take.
struct Fetched {
    bytes: Bytes,
    _room: Arc<Room>,
}

impl AsRef<[u8]> for Fetched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

async fn fetch(app: &App, reference: &Reference, room: Arc<Room>) -> Result<Bytes, Error> {
    let bytes = read(app, reference).await.map_err(|error| {
        if let StorageError::NotFound | StorageError::Damaged(_) = error {
            tracing::error!(%error, payload = %reference.id, "a payload that a run refers to cannot be read");
            return Error::PayloadLost;
        }
        out_of_reach(error)
    })?;
    let bytes = if is_sealed(&bytes) { opened(app, &bytes).await? } else { bytes };
    Ok(Bytes::from_owner(Fetched { bytes, _room: room }))
}

async fn read(app: &App, reference: &Reference) -> Result<Bytes, StorageError> {
    let path = ArtifactPath::payload(reference.id);
    let mut chunks = app.storage.read(&path, 0..reference.size).await?;
    let mut all = BytesMut::with_capacity(usize::try_from(reference.size).unwrap_or(0));
    while let Some(chunk) = chunks.try_next().await? {
        all.extend_from_slice(&chunk);
    }
    let bytes = all.freeze();
    let hashed = bytes.clone();
    let sum = tokio::task::spawn_blocking(move || Sha256Sum::of(&hashed)).await?;
    match sum.0 == reference.sha256 {
        true => Ok(bytes),
        false => Err(StorageError::Damaged(format!("{path:?} has another sum than when it was written"))),
    }
}

/// Removes payloads that nobody refers to any more. Returns how many. Whoever has kept one has `collect_age_ms` to put its reference into a
/// row.
pub(crate) async fn collect(app: &App, limit: usize) -> Result<usize, Error> {
    let mut removed = 0;
    for _ in 0..ROUNDS_MAX {
        let looked = app.store.look_at_payloads(app.settings.collect_age_ms as Millis, limit).await?;
        if !looked.doomed.is_empty() {
            crash::point("payload.doomed");
        }
        let mut gone: Vec<Uuid> = Vec::with_capacity(looked.doomed.len());
        for id in &looked.doomed {
            match app.storage.delete(&ArtifactPath::payload(*id)).await {
                Ok(()) | Err(StorageError::NotFound) => gone.push(*id),
                Err(error) => {
                    tracing::warn!(%error, payload = %id, "a payload could not be removed; it is tried again")
                }
            }
        }
        if !gone.is_empty() {
            crash::point("payload.deleted");
            app.store.forget_payloads(&gone).await?;
            crash::point("payload.forgotten");
        }
        removed += gone.len();
        // What could not be removed is looked at again and again: not in this pass.
        if looked.count < limit || gone.len() < looked.doomed.len() {
            break;
        }
    }
    Ok(removed)
}
