//! claim: hands runs to a worker that asks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_core::trace::TraceContext;
use baton_core::{WorkerId, token};
use baton_proto::{CLAIM_WAIT_MS_MAX, Claim, ClaimedRun, Time};
use baton_store::{CLAIM_RUNS_MAX, ClaimSlot, Claimed, Journal, LaneName, Scope, Store, WorkerStatus};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::payloads;
use crate::auth::Caller;
use crate::coalesce::Coalescer;
use crate::workers::KnownWorker;
use crate::{App, Error};

/// A claim that waited for less is answered without waiting for company.
const HURRY: Duration = Duration::from_secs(2);

/// Waits for work for this worker; no runs when the wait was over first.
pub async fn many(app: &App, caller: &Caller, worker: WorkerId, claim: Claim) -> Result<Vec<ClaimedRun>, Error> {
    let claimed = claimed(app, caller, worker, &claim).await?;
    named(app, worker, claimed).await
}

/// As [`many`], and whether an earlier claim gave them already.
pub(crate) async fn many_or_again(
    app: &App,
    caller: &Caller,
    worker: WorkerId,
    claim: Claim,
) -> Result<(Vec<ClaimedRun>, bool), Error> {
    let (claimed, again) = claimed_or_again(app, caller, worker, &claim).await?;
    Ok((named(app, worker, claimed).await?, again))
}

/// As [`many`], in the store's words.
pub(crate) async fn claimed(
    app: &App,
    caller: &Caller,
    worker: WorkerId,
    claim: &Claim,
) -> Result<Vec<Claimed>, Error> {
    claimed_or_again(app, caller, worker, claim).await.map(|(claimed, _)| claimed)
}

async fn claimed_or_again(
    app: &App,
    caller: &Caller,
    worker: WorkerId,
    claim: &Claim,
) -> Result<(Vec<Claimed>, bool), Error> {
    let found = found(app, caller, worker, claim).await;
    found.inspect_err(|error| app.metrics.claim.refused(error))
}

async fn found(app: &App, caller: &Caller, worker: WorkerId, claim: &Claim) -> Result<(Vec<Claimed>, bool), Error> {
    let deadline = Instant::now() + Duration::from_millis(claim.wait_ms.unwrap_or(0).min(CLAIM_WAIT_MS_MAX));
    caller.has(Scope::Worker)?;
    // What is claimed is sent: not to one that takes nothing.
    app.answers.may_answer().await?;
    let known = app.workers.get(worker).await?.ok_or_else(|| Error::no_worker(worker))?;
    caller.may_act_for(worker, known.key_id.as_deref(), &known.namespace)?;
    if claim.start && claim.claim_no.is_none() {
        let why = "needs claim_no: without it nobody could ask again for runs whose answer was lost";
        return Err(Error::field("start", why));
    }
    let (queue, kinds) = wanted(&known, claim)?;
    check_status(app, &known).await?;
    let claim_no = claim.claim_no.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let again = repeated(app, &known, claim_no).await?;
    if !again.is_empty() {
        return Ok((again, true));
    }
    let asked = Instant::now();
    let names = kinds.iter().map(|kind| LaneName {
        namespace: known.namespace.clone(),
        queue: queue.to_owned(),
        kind: kind.clone(),
    });
    let lanes = app.lanes.get(names.collect()).await?;
    let queue = lanes[0].queue;
    let mut lanes: Vec<_> = lanes.iter().map(|lane| lane.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let slot = ClaimSlot {
        worker,
        name: known.name.clone(),
        lanes,
        room: claim.max.unwrap_or(1).clamp(1, (CLAIM_RUNS_MAX as u32).min(known.max_concurrent.max(1))),
        claim_no: claim_no.unwrap_or(0),
        start: claim.start,
        lease_ms: None,
        asked_ms_ago: None,
    };
    // Noted before the answer: a caller that goes away in the very moment of it comes back with the same number.
    if let Some(number) = claim_no {
        // The larger one stands: a worker of several queues has a claim waiting on each.
        known.last_claim_no.fetch_max(number, Ordering::Relaxed);
    }
    let unanswered = Unanswered(&known);
    let handed = app.dispatcher.poll(queue, slot, deadline).await;
    // One that failed may have been carried out.
    if handed.is_ok() {
        std::mem::forget(unanswered);
    }
    if let Err(Error::WorkerOffline | Error::NotFound { .. }) = handed {
        app.workers.forget(worker);
    }
    let handed = handed?;
    if claim_no.is_none() && !claim.start && !handed.runs.is_empty() {
        known.may_hold_unstarted.store(true, Ordering::Relaxed);
    }
    match claim_no.filter(|number| *number > 0 && handed.runs.is_empty() && !handed.displaced) {
        Some(number) => answer_none(app, worker, number, asked).await,
        None => Ok((handed.runs, handed.again)),
    }
}

/// Answers a claim that brought nothing. Where others use the store, too, it is noted there first:
/// another server may wait for the same claim, made over a connection that only looks alive, and
/// whatever it got by it nobody would hear of.
async fn answer_none(app: &App, worker: WorkerId, number: i64, asked: Instant) -> Result<(Vec<Claimed>, bool), Error> {
    if !app.store.is_shared() {
        return Ok((vec![], false));
    }
    let answered = match asked.elapsed() < HURRY {
        true => app.empty_claims.call_one((worker, number)).await?,
        false => app.empty_waits.call_one((worker, number)).await?,
    };
    match answered {
        true => Ok((vec![], false)),
        // A worker that counts from the beginning again is let in with its next claim.
        false => Ok((app.store.reopen_claim(worker, number, true).await?, true)),
    }
}

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    batch_max: usize,
    gather: Option<Duration>,
) -> Coalescer<(WorkerId, i64), bool> {
    Coalescer::start(batch_max, gather, move |claims: Vec<(WorkerId, i64)>| {
        let store = store.clone();
        async move { Ok(store.answer_claims(claims).await?) }
    })
}

/// A poll whose caller may go away in the very moment of its answer. Then the worker holds runs it does not know of, and its next
/// claim has to look for them.
struct Unanswered<'a>(&'a KnownWorker);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.may_hold_unstarted.store(true, Ordering::Relaxed);
    }
}

/// The queue and types of the claim, which must be among those the worker registered.
fn wanted<'a>(known: &'a KnownWorker, claim: &'a Claim) -> Result<(&'a str, &'a [String]), Error> {
    let queue = claim.queue.as_deref().unwrap_or(&known.queues[0]);
    if !known.queues.iter().any(|own| own == queue) {
        let own = known.queues.join(", ");
        return Err(Error::field("queue", format!("must be one the worker registered for ({own}), not {queue}")));
    }
    if let Some(other) = claim.types.iter().find(|kind| !known.types.contains(kind)) {
        let own = known.types.join(", ");
        return Err(Error::field("types", format!("must be some the worker registered for ({own}), not {other}")));
    }
    Ok((queue, if claim.types.is_empty() { &known.types } else { &claim.types }))
}

/// Refuses a worker that is not online. One whose leases this server renewed lately needs no query;
/// for the others, asking for work is the sign of life. (Waiting for it is not: the connection of a
/// process that hangs stays open.) It is written beside the answer while the worker's leases are
/// good for as long again: the claim itself refuses workers that are gone.
pub(crate) async fn check_status(app: &App, known: &Arc<KnownWorker>) -> Result<(), Error> {
    let recent = Duration::from_millis(app.current().heartbeat_interval_ms * 3 / 2);
    let half_a_lease = Duration::from_millis(known.ttl_ms.load(Ordering::Relaxed).max(0) as u64 / 2);
    let status = match known.is_renewed_within(recent) {
        true => known.status(),
        false if app.store.clock().fixed().is_none() && known.is_renewed_within(half_a_lease) => {
            super::renew::sign_of_life_beside(app, known, None);
            WorkerStatus::Online
        }
        false => super::renew::sign_of_life_now(app, known).await?,
    };
    match status {
        WorkerStatus::Online => Ok(()),
        WorkerStatus::Draining => Err(Error::WorkerDraining),
        WorkerStatus::Offline => Err(Error::WorkerOffline),
    }
}

/// What an earlier claim gave whose answer may have been lost.
async fn repeated(app: &App, known: &KnownWorker, claim_no: Option<i64>) -> Result<Vec<Claimed>, Error> {
    match claim_no {
        Some(number) if known.may_repeat(number) => {
            let held = app.store.repeat_claim(known.id, Some(number)).await?;
            if held.is_empty() && number > 0 && known.has_asked(number) {
                // It was answered with nothing, or what it brought has ended: the worker begins to
                // ask again.
                return Ok(app.store.reopen_claim(known.id, number, false).await?);
            }
            Ok(held)
        }
        Some(_) => Ok(vec![]),
        None if known.may_hold_unstarted.load(Ordering::Relaxed) => {
            let unstarted = app.store.repeat_claim(known.id, None).await?;
            known.may_hold_unstarted.store(!unstarted.is_empty(), Ordering::Relaxed);
            Ok(unstarted)
        }
        None => Ok(vec![]),
    }
}

/// Runs that were claimed cannot be handed over now: the worker's next claim has to look for them.
pub(crate) async fn not_handed_over(app: &App, worker: WorkerId) {
    if let Ok(Some(known)) = app.workers.get(worker).await {
        known.may_hold_unstarted.store(true, Ordering::Relaxed);
    }
}

async fn named(app: &App, worker: WorkerId, claimed: Vec<Claimed>) -> Result<Vec<ClaimedRun>, Error> {
    let mut claimed: Vec<_> = claimed.into_iter().map(|run| (run, Journal::default())).collect();
    if let Err(error) = payloads::fill_claimed(app, &mut claimed).await {
        not_handed_over(app, worker).await;
        return Err(error);
    }
    let ring = app.secrets.ring();
    let mut runs = Vec::with_capacity(claimed.len());
    for (run, _) in claimed {
        let lane = app.lanes.name(run.lane).await?.ok_or(Error::Internal)?;
        let place = run.trace.as_ref().map(|trace| trace.of_attempt(run.run, run.epoch));
        app.run_lanes.note(app, run.run, run.lane);
        runs.push(ClaimedRun {
            run_id: run.run.to_string(),
            lease: token::lease(&ring.newest().tokens, run.run, run.epoch, &lane.namespace),
            epoch: run.epoch.number(),
            queue: lane.queue.clone(),
            kind: lane.kind.clone(),
            attempt: run.attempt,
            priority: run.priority,
            submitted_at: Time(run.submitted_at),
            timeout_at: run.timeout_at.map(Time),
            key: run.key,
            traceparent: place.as_ref().map(TraceContext::traceparent),
            tracestate: place.and_then(|place| place.state),
            input: raw(&run.input),
        });
    }
    Ok(runs)
}

/// The payload as JSON. It was JSON when it came in; what is not (another face's bytes) is left out.
pub(crate) fn raw(payload: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(payload).ok().filter(|text| !text.is_empty())?;
    RawValue::from_string(text.to_owned()).ok()
}
