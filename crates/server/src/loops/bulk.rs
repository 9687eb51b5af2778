//! Has bulk operations take turns. Every server does; of several the store lets one take each turn, and another one goes on
//! when that one dies in the middle.
//!
//! A turn has two writes: one that says which runs are acted on, and one that says what became of them. A bell rings when
//! the next turn is due, as far as this server knows. What others have begun is found by a hint, or a look now and then.

use std::time::{Duration, Instant};

use baton_core::bulk::{self, Allowance};
use baton_core::{BulkId, BulkState, Millis, State};
use baton_proto::{BulkError, BulkFilter};
use baton_store::{BulkOperation, BulkProgress, Page};

use crate::service::bulk::act::{self, Errand, Fate};
use crate::service::{audit, bulk as service};
use crate::{App, Error, crash};

/// Operations that are looked at.
const LOOK_MAX: usize = 256;
/// Runs that are planned for one turn.
pub(crate) const TURN_RUNS_MAX: u32 = 512;
/// Runs in one call: the longest that others have to wait for SQLite's writer is what this takes.
const CHUNK_RUNS_MAX: usize = 50;
/// How long a turn may be. What is left then is left for the next one.
const TURN_TIME_MAX: Duration = Duration::from_millis(500);
/// How long a server may act on what it has planned before another one goes on.
const HOLD_MS: Millis = 10_000;
/// When an operation is tried again that could not go on: there was no room in a queue, or no way to the storage.
const AGAIN_MS: Millis = 1_000;
/// When an operation is looked at again that this version does not understand: servers of a newer one do.
const FOREIGN_MS: Millis = 30_000;
/// How long a pass may be, so that it ends.
const PASS_TIME_MAX: Duration = Duration::from_secs(20);
/// Errors that are kept of an operation.
const ERRORS_MAX: usize = 10;
/// Operations deleted in one call.
const DELETE_MAX: usize = 500;

/// One pass.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    let (begun, mut turns) = (Instant::now(), 0_u64);
    while begun.elapsed() < PASS_TIME_MAX && !app.stopping.is_cancelled() {
        let live = app.store.live_bulks(LOOK_MAX).await?;
        let waiting: Vec<(BulkId, Option<&str>)> = live
            .operations
            .iter()
            .filter(|operation| operation.due_at <= live.now)
            .map(|operation| (operation.id, operation.namespace.as_deref()))
            .collect();
        let Some(next) = app.bulk.next(&waiting) else {
            if let Some(due_at) = live.operations.iter().map(|operation| operation.due_at).min() {
                app.bulk.bell.ring_at(due_at, live.now);
            }
            return Ok(format!("{turns} turns; {} operations go on", live.operations.len()));
        };
        let is_alone = waiting.len() == 1;
        if let Some(operation) = live.operations.into_iter().find(|operation| operation.id == next) {
            turn(app, operation, live.now, is_alone).await?;
            turns += 1;
        }
    }
    app.bulk.bell.ring();
    Ok(format!("{turns} turns; more are due"))
}

/// An operation has its turn. Only what concerns all of them is an error.
async fn turn(app: &App, operation: BulkOperation, now: Millis, is_alone: bool) -> Result<(), Error> {
    let seen = operation.clone();
    match take(app, operation, now, is_alone).await {
        Ok(()) => Ok(()),
        Err(error @ (Error::Unavailable | Error::DiskFull | Error::Stopping)) => Err(error),
        // One operation in trouble must not keep the others waiting.
        Err(error) => {
            tracing::error!(operation = %seen.id, %error, "a bulk operation could not go on");
            let troubles = seen.progress.troubles + 1;
            let waits_for = Some(error.to_string());
            let progress = BulkProgress { troubles, waits_for, ..seen.progress.clone() };
            let state = bulk::end(false, seen.is_stopping, troubles).unwrap_or(BulkState::Running);
            save(app, &seen, progress, state, AGAIN_MS).await.map(drop)
        }
    }
}

async fn take(app: &App, operation: BulkOperation, now: Millis, is_alone: bool) -> Result<(), Error> {
    let progress = operation.progress.clone();
    if let Some(end) = bulk::end(false, operation.is_stopping, progress.troubles) {
        // What a server that died had planned is left alone: somebody wants this to stop.
        let progress = BulkProgress { planned: vec![], waits_for: None, ..progress };
        return save(app, &operation, progress, end, 0).await.map(drop);
    }
    let Ok(filter) = serde_json::from_str::<BulkFilter>(&operation.filter) else {
        return save(app, &operation, progress, BulkState::Running, FOREIGN_MS).await.map(drop);
    };
    let Some((planned, is_last)) = plan(app, &operation, &filter, now).await? else { return Ok(()) };
    crash::point("bulk.planned");
    carry_out(app, planned, &filter, is_last, is_alone).await
}

/// Finds the runs that are next, and writes down that this server acts on them. Nothing where there is nothing to do, or
/// another server was faster. True with the last ones.
async fn plan(
    app: &App,
    operation: &BulkOperation,
    filter: &BulkFilter,
    now: Millis,
) -> Result<Option<(BulkOperation, bool)>, Error> {
    let mut progress = operation.progress.clone();
    if !progress.planned.is_empty() {
        // Left over from a turn that was too long, or from a server that died in the middle.
        let saved = save(app, operation, progress, BulkState::Running, HOLD_MS).await?;
        return Ok(saved.map(|operation| (operation, false)));
    }
    let search = service::search(app, operation.namespace.as_deref(), filter, Some(operation.id)).await?;
    if progress.matched.is_none() {
        progress.matched = Some(app.store.count_runs(&search).await?);
    }
    let (most, bucket) = match bulk::allowance(progress.bucket, operation.per_second, now, TURN_RUNS_MAX) {
        Allowance::Runs(most, bucket) => (most, bucket),
        Allowance::Wait(ms) => {
            save(app, operation, progress, BulkState::Running, ms).await?;
            return Ok(None);
        }
    };
    // One more than may be acted on now, to know whether these are the last.
    let page = Page { after: progress.cursor, limit: most as usize + 1 };
    progress.planned = app.store.find_runs(&search, page).await?;
    let is_last = progress.planned.len() <= most as usize;
    progress.planned.truncate(most as usize);
    let found = progress.planned.len() as u32;
    progress.bucket = bulk::give_back(bucket, most - found.min(most));
    let Some(last) = progress.planned.last() else {
        let progress = BulkProgress { waits_for: None, ..progress };
        save(app, operation, progress, BulkState::Completed, 0).await?;
        return Ok(None);
    };
    progress.cursor = Some(*last);
    let saved = save(app, operation, progress, BulkState::Running, HOLD_MS).await?;
    Ok(saved.map(|operation| (operation, is_last)))
}

/// Acts on the planned runs, and writes down what became of them. While no other operation waits for its turn, they are
/// spread over the time that the operation's rate gives them: others notice a few at a time less than all at once.
async fn carry_out(
    app: &App,
    operation: BulkOperation,
    filter: &BulkFilter,
    is_last: bool,
    is_alone: bool,
) -> Result<(), Error> {
    let states: Vec<State> = filter.state.iter().filter_map(|word| State::parse(word)).collect();
    let errand = Errand {
        operation: operation.id,
        action: operation.action,
        states: &states,
        caller: Errand::caller(&operation.created_by, operation.namespace.as_deref()),
    };
    let begun = Instant::now();
    let mut progress = BulkProgress { waits_for: None, troubles: 0, ..operation.progress.clone() };
    let mut errors: Vec<BulkError> = serde_json::from_str(&progress.errors).unwrap_or_default();
    let mut acted_on = 0;
    while acted_on < operation.progress.planned.len() && begun.elapsed() < TURN_TIME_MAX {
        let rest = &operation.progress.planned[acted_on..];
        let acted = act::on(app, &errand, &rest[..rest.len().min(CHUNK_RUNS_MAX)]).await;
        crash::point("bulk.acted");
        acted_on += acted.fates.len();
        progress.tally = progress.tally.and(acted.tally());
        note_errors(&mut errors, &acted.fates);
        app.metrics.bulk_runs(operation.action.as_str(), acted.tally());
        if let Some(error) = acted.stopped {
            if error == Error::Internal && acted.fates.is_empty() {
                // It may never pass. Whoever looks at the operation has to know which run is in the way.
                progress.troubles = operation.progress.troubles + 1;
                note_errors(&mut errors, &[(rest[0], Fate::Failed(error.clone()))]);
            }
            progress.waits_for = Some(error.to_string());
            break;
        }
        if is_alone && acted_on < operation.progress.planned.len() {
            let paced = Duration::try_from_secs_f64(acted_on as f64 / operation.per_second).unwrap_or(TURN_TIME_MAX);
            tokio::time::sleep(paced.min(TURN_TIME_MAX).saturating_sub(begun.elapsed())).await;
        }
    }
    progress.planned.drain(..acted_on);
    progress.errors = serde_json::to_string(&errors).map_err(|_| Error::Internal)?;
    let is_exhausted = is_last && progress.planned.is_empty();
    let state = bulk::end(is_exhausted, false, progress.troubles).unwrap_or(BulkState::Running);
    let due_in_ms = if progress.waits_for.is_some() { AGAIN_MS } else { 0 };
    save(app, &operation, progress, state, due_in_ms).await.map(drop)
}

fn note_errors(errors: &mut Vec<BulkError>, fates: &[(baton_core::RunId, Fate)]) {
    for (run, fate) in fates {
        if errors.len() >= ERRORS_MAX {
            return;
        }
        let is_known = errors.iter().any(|known| known.run_id == run.to_string());
        if let (Fate::Failed(error) | Fate::Skipped(Some(error)), false) = (fate, is_known) {
            errors.push(BulkError { run_id: run.to_string(), code: error.code().into(), error: error.to_string() });
        }
    }
}

/// Writes how far an operation has come, unless another server has. Those who listen hear of it, and its end is written down.
async fn save(
    app: &App,
    operation: &BulkOperation,
    progress: BulkProgress,
    state: BulkState,
    due_in_ms: Millis,
) -> Result<Option<BulkOperation>, Error> {
    let moved = progress.tally != operation.progress.tally || progress.matched != operation.progress.matched;
    let saved = app.store.save_bulk(operation.id, operation.version, &progress, state, due_in_ms).await?;
    let Some(saved) = saved else { return Ok(None) };
    if saved.state.is_ended() {
        app.bulk.forget(saved.id);
        app.metrics.bulk_operations(saved.action.as_str(), saved.state.as_str());
        service::tell(app, &saved);
        let (id, namespace) = (saved.id.to_string(), saved.namespace.as_deref());
        let detail = format!("{}: {}", saved.state.as_str(), service::in_words(&saved));
        audit::write(app, &saved.created_by, "bulk.end", &id, &detail, namespace).await?;
    } else if moved && app.bulk.may_tell(saved.id) {
        service::tell(app, &saved);
    }
    Ok(Some(saved))
}

/// Deletes operations that ended long ago.
pub(super) async fn forget(app: &App, age_ms: Millis) -> Result<u64, Error> {
    Ok(app.store.forget_bulks(age_ms, DELETE_MAX).await?)
}
