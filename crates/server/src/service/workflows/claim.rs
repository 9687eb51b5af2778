//! claim: hands workflows to a worker, with everything they remember.

use std::sync::Arc;

use baton_core::{Failure, Millis, Reason, WorkerId, token};
use baton_proto::Claim;
use baton_store::{Claimed, Journal, LaneName, LeaseRef, Scope};

use super::super::{claim, payloads};
use super::{VERSION_MARK, finish, invalid};
use crate::auth::Caller;
use crate::{App, Error};

/// A workflow in the hands of a worker.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The claim.
    pub claimed: Claimed,
    /// The proof of it.
    pub lease: String,
    /// Namespace, queue and type.
    pub lane: Arc<LaneName>,
    /// What it remembers; empty at a first claim.
    pub journal: Journal,
    /// The time on the store's clock.
    pub now: Millis,
}

/// Waits for a workflow for this worker. `kinds` are the plain names of those it asks for.
pub async fn one(
    app: &App,
    caller: &Caller,
    worker: WorkerId,
    queue: Option<String>,
    kinds: Vec<String>,
    wait_ms: u64,
    claim_no: Option<u64>,
) -> Result<Option<Taken>, Error> {
    caller.has(Scope::Worker)?;
    if kinds.is_empty() {
        return Err(invalid("supported_workflow_types", "must name at least one type"));
    }
    let known = app.workers.get(worker).await?.ok_or_else(|| Error::no_worker(worker))?;
    caller.may_act_for(worker, known.key_id.as_deref(), &known.namespace)?;
    if let Some(other) = kinds.iter().find(|kind| !known.types.contains(kind)) {
        return Err(invalid(
            "supported_workflow_types",
            format!("has {other:?}, which the worker did not register for"),
        ));
    }
    // Those pinned to the worker's own version are among what it registered.
    let wanted = |kind: &&String| match kind.split_once(VERSION_MARK) {
        Some((name, _)) => kinds.iter().any(|kind| kind == name),
        None => kinds.contains(kind),
    };
    let types = known.types.iter().filter(wanted).cloned().collect();
    let claim = Claim { queue, types, max: Some(1), wait_ms: Some(wait_ms), claim_no, start: false };
    let claimed = claim::claimed(app, caller, worker, &claim).await?;
    let handed = async {
        let (journals, now) = remembered(app, &claimed, journal_bytes_max(app)).await?;
        let mut runs = joined(app, claimed, journals.into_iter().map(Some).collect()).await;
        payloads::fill_claimed(app, &mut runs).await?;
        taken(app, runs, now).await
    };
    match handed.await {
        Ok(mut taken) => Ok(taken.pop()),
        Err(error) => {
            claim::not_handed_over(app, worker).await;
            Err(error)
        }
    }
}

/// The most that a run may remember to be handed to a worker. Writes are refused from half of it on, so this is about runs from before the
/// setting was lowered, or from before there was one: what went a little beyond can still end well.
pub(crate) fn journal_bytes_max(app: &App) -> u64 {
    app.current().journal_bytes_max.saturating_mul(2)
}

/// What runs remember, in their order, and the time on the store's clock. Those that were never held before remember nothing, and cost nothing.
/// Ends before the one that goes beyond so many bytes.
pub(crate) async fn remembered(
    app: &App,
    claimed: &[Claimed],
    bytes_max: u64,
) -> Result<(Vec<Journal>, Millis), Error> {
    let again: Vec<_> = claimed.iter().filter(|run| may_remember(run)).map(|run| run.run).collect();
    let journals = match again.is_empty() {
        true => vec![],
        false => app.store.journals(&again, bytes_max).await?,
    };
    Ok((journals, app.time.now().await?))
}

/// Each run with what it remembers. One that remembers more than can be handed over fails, and is not among them: nobody can ever do it.
pub(crate) async fn joined(
    app: &App,
    claimed: Vec<Claimed>,
    journals: Vec<Option<Journal>>,
) -> Vec<(Claimed, Journal)> {
    let (mut journals, mut too_large) = (journals.into_iter(), Vec::new());
    let mut runs = Vec::with_capacity(claimed.len());
    for run in claimed {
        match if may_remember(&run) { journals.next().flatten() } else { Some(Journal::default()) } {
            Some(journal) => runs.push((run, journal)),
            None => too_large.push((LeaseRef { run: run.run, epoch: run.epoch }, too_large_failure(app))),
        }
    }
    if !too_large.is_empty()
        && let Err(error) = finish::fail(app, too_large).await
    {
        // They go back, and come here again.
        tracing::warn!(%error, "runs that remember too much could not be ended");
    }
    runs
}

fn too_large_failure(app: &App) -> Failure {
    let limit = app.current().journal_bytes_max;
    let full = Error::JournalFull { bytes: journal_bytes_max(app), limit };
    Failure {
        reason: Reason::Error,
        code: Some(full.code().into()),
        message: format!(
            "the workflow remembers more than {} bytes, twice what journal_bytes_max allows ({limit}), and cannot be handed to a worker: \
             raise the setting, and retry the run",
            journal_bytes_max(app)
        ),
        retryable: false,
        not_before: None,
    }
}

/// True when somebody has held the run before.
pub(crate) fn may_remember(run: &Claimed) -> bool {
    run.epoch.number() > 1
}

/// Puts together what is handed to a worker.
pub(crate) async fn taken(app: &App, runs: Vec<(Claimed, Journal)>, now: Millis) -> Result<Vec<Taken>, Error> {
    let ring = app.secrets.ring();
    let mut all = Vec::with_capacity(runs.len());
    for (claimed, journal) in runs {
        let lane = app.lanes.name(claimed.lane).await?.ok_or(Error::Internal)?;
        let lease = token::lease(&ring.newest().tokens, claimed.run, claimed.epoch, &lane.namespace);
        app.run_lanes.note(app, claimed.run, claimed.lane);
        all.push(Taken { claimed, lease, lane, journal, now });
    }
    Ok(all)
}
