//! Reading runs: one, many, their history.

use std::time::Duration;

use baton_core::{IdPrefix, IdSuffix, Millis, RunId, State, WorkerId};
use baton_proto::{CLAIM_WAIT_MS_MAX, HistoryEvent, RunView, Time};
use baton_store::{Page, RunFilter, RunRecord, Scope, Submitted};
use tokio::time::Instant;

use super::claim::raw;
use super::{custody, payloads, visible};
use crate::answers::Answer;
use crate::auth::Caller;
use crate::{App, Error};

/// How often a waiting caller's run is looked at when another server may end it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Which runs to list, in words.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// Namespace.
    pub namespace: Option<String>,
    /// Queue.
    pub queue: Option<String>,
    /// Type.
    pub kind: Option<String>,
    /// States; none means any.
    pub states: Vec<State>,
    /// Worker.
    pub worker: Option<WorkerId>,
    /// Key.
    pub key: Option<String>,
    /// Submitted at this moment or later.
    pub submitted_after: Option<Millis>,
    /// Submitted before this moment.
    pub submitted_before: Option<Millis>,
    /// The first digits of the identifier.
    pub id_prefix: Option<IdPrefix>,
    /// The last digits of the identifier.
    pub id_suffix: Option<IdSuffix>,
}

/// One run.
pub async fn get(app: &App, caller: &Caller, run: RunId) -> Result<RunView, Error> {
    let record = visible(app, caller, Scope::Read, run).await?;
    view(app, record).await
}

/// One run, once it has ended or the wait is over.
pub async fn wait(app: &App, caller: &Caller, run: RunId, wait_ms: u64) -> Result<RunView, Error> {
    let deadline = Instant::now() + Duration::from_millis(wait_ms.min(CLAIM_WAIT_MS_MAX));
    loop {
        // Watch before looking: an end between the look and the watch would wake nobody.
        let watch = app.watchers.watch(run);
        let ended = watch.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        app.answers.may_read().await?;
        let record = visible(app, caller, Scope::Read, run).await?;
        if record.state.is_ended() || Instant::now() >= deadline {
            return view(app, record).await;
        }
        let again = if app.store.is_shared() { deadline.min(Instant::now() + LOOK_AGAIN) } else { deadline };
        drop(record);
        Answer::pause();
        let _ = tokio::time::timeout_at(again, ended).await;
    }
}

/// The state of a run that somebody has just submitted. One that was submitted before may have moved on.
pub async fn state_of(app: &App, run: &Submitted) -> Result<State, Error> {
    if run.is_new {
        return Ok(State::Pending);
    }
    Ok(app.store.run(run.run).await?.map_or(State::Pending, |record| record.state))
}

/// True when a run has ended, or is not there any more.
pub(crate) async fn has_ended(app: &App, run: RunId) -> Result<bool, Error> {
    Ok(app.store.run(run).await?.is_none_or(|record| record.state.is_ended()))
}

/// A page of runs, and how many there are in all if asked.
pub async fn list(
    app: &App,
    caller: &Caller,
    query: RunQuery,
    page: Page<RunId>,
    total: bool,
) -> Result<(Vec<RunView>, Option<u64>), Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = &query.namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let namespace = query.namespace.as_deref().or(caller.namespace.as_deref());
    let lanes = match (namespace, &query.queue, &query.kind) {
        (None, None, None) => None,
        (namespace, queue, kind) => Some(app.lanes.find(namespace, queue.as_deref(), kind.as_deref()).await?),
    };
    let prefix_end = query.id_prefix.and_then(|prefix| prefix.beyond);
    let filter = RunFilter {
        lanes,
        states: query.states,
        worker: query.worker,
        key: query.key,
        // Identifiers begin with the time of their run.
        since: query.submitted_after.map(RunId::floor).max(query.id_prefix.map(|prefix| prefix.first)),
        before: prefix_end.into_iter().chain(query.submitted_before.map(RunId::floor)).min(),
        id_suffix: query.id_suffix,
    };
    let mut runs = Vec::new();
    for record in app.store.runs(&filter, page).await? {
        runs.push(view(app, record).await?);
    }
    let total = if total { Some(app.store.count_runs(&filter).await?) } else { None };
    Ok((runs, total))
}

/// What happened to a run, oldest first, put together from the facts that were written.
pub async fn history(app: &App, caller: &Caller, run: RunId) -> Result<Vec<HistoryEvent>, Error> {
    let record = visible(app, caller, Scope::Read, run).await?;
    let blank = |at, event: &str| HistoryEvent {
        at: Time(at),
        event: event.into(),
        epoch: None,
        worker_id: None,
        reason: None,
        message: None,
    };
    let mut events = vec![blank(record.submitted_at, "submitted")];
    let mut lease = |epoch: u32, worker: Option<WorkerId>, claimed_at, started_at: Option<i64>| {
        let under = |event| HistoryEvent { epoch: Some(epoch), worker_id: worker.map(|id| id.to_string()), ..event };
        events.push(under(blank(claimed_at, "claimed")));
        events.extend(started_at.map(|at| under(blank(at, "started"))));
    };
    let attempts = app.store.attempts(run).await?;
    for attempt in &attempts {
        lease(attempt.epoch.number(), attempt.worker, attempt.claimed_at, attempt.started_at);
    }
    if record.state.is_held() {
        lease(
            record.epoch.number(),
            record.worker,
            record.claimed_at.unwrap_or(record.submitted_at),
            record.started_at,
        );
    }
    // The store keeps until when the worker has to stop, not when somebody asked: the grace time may have been another then.
    if let Some(by) = record.cancel_by.filter(|_| record.state.is_held()) {
        events.push(HistoryEvent {
            epoch: Some(record.epoch.number()),
            worker_id: record.worker.map(|id| id.to_string()),
            message: Some("somebody asked to cancel the run; its worker has until then to stop".into()),
            ..blank(by, "cancel_by")
        });
    }
    for attempt in &attempts {
        events.push(HistoryEvent {
            epoch: Some(attempt.epoch.number()),
            worker_id: attempt.worker.map(|id| id.to_string()),
            reason: Some(attempt.end.as_str().into()),
            message: attempt.error.clone(),
            ..blank(attempt.ended_at, "lease_ended")
        });
    }
    for refused in custody::refusals(app, run).await? {
        let again = match refused.times {
            1 => String::new(),
            times => format!(", {times} times until {}", refused.last_at),
        };
        let size = if refused.bytes > 0 { format!(", {} bytes", refused.bytes) } else { String::new() };
        events.push(HistoryEvent {
            epoch: Some(refused.epoch),
            worker_id: refused.worker_id.clone(),
            reason: Some(refused.verb.into()),
            message: Some(format!(
                "{} was refused: epoch {} was over, and the run was at epoch {}{size}{again}",
                refused.what(),
                refused.epoch,
                refused.current_epoch
            )),
            ..blank(refused.at.0, "write_refused")
        });
    }
    if let Some(at) = record.ended_at {
        let reason = record.reason.map(|reason| reason.as_str().to_owned());
        events.push(HistoryEvent { reason, message: record.error, ..blank(at, record.state.as_str()) });
    }
    // Events of one millisecond stay in the order they happened in: by epoch, then as listed.
    events
        .sort_by_key(|event| (event.at, event.epoch.unwrap_or(if event.event == "submitted" { 0 } else { u32::MAX })));
    Ok(events)
}

/// A run as it is shown.
pub(crate) async fn view(app: &App, mut record: RunRecord) -> Result<RunView, Error> {
    payloads::fill(app, std::iter::once(&mut record.input).chain(record.output.as_mut()).collect()).await?;
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    Ok(RunView {
        id: record.id.to_string(),
        namespace: lane.namespace.clone(),
        queue: lane.queue.clone(),
        kind: lane.kind.clone(),
        state: record.state,
        reason: record.reason,
        error: record.error,
        epoch: record.epoch.number(),
        failures: record.failures,
        losses: record.losses,
        priority: record.priority,
        key: record.key,
        affinity: record.affinity,
        retry_of: record.retry_of.map(|run| run.to_string()),
        worker_id: record.worker.map(|worker| worker.to_string()),
        submitted_at: Time(record.submitted_at),
        due_at: Time(record.due_at),
        claimed_at: record.claimed_at.map(Time),
        started_at: record.started_at.map(Time),
        ended_at: record.ended_at.map(Time),
        cancel_by: record.cancel_by.map(Time),
        trace_id: record.trace.map(|trace| trace.trace_id.to_string()),
        input: raw(&record.input),
        output: record.output.as_deref().and_then(raw),
    })
}
