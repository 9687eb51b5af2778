//! The reaper: takes back the runs of workers that fell silent, and runs whose own time has passed.

use std::time::Instant;

use baton_core::LeaseEnd;

use crate::events::Kind;
use crate::{App, Error};

/// Workers or runs in one call.
const REAP_MAX: usize = 1_000;
/// Calls in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 100;

/// One pass.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    let result = reap(app).await;
    if let Err(error) = &result {
        app.hearing.note(error);
    }
    // Asked before it, too: a long pass and the pause after it are not one gap.
    app.hearing.passes(&app.current());
    result
}

async fn reap(app: &App) -> Result<String, Error> {
    let settings = app.current();
    let lost = match app.hearing.is_sure(&settings) {
        true => app.store.lose_workers(0, REAP_MAX).await?,
        false => vec![],
    };
    for worker in &lost {
        tracing::info!(%worker, "a worker fell silent; its runs go to others");
        app.workers.forget(*worker);
        app.events.worker(Kind::WorkerOffline, *worker, Some("fell silent"));
    }
    app.metrics.workers_lost.inc_by(lost.len() as u64);
    let mut taken = 0;
    for _ in 0..ROUNDS_MAX {
        let expire = &app.metrics.expire;
        let begun = Instant::now();
        let expired = expire.at_store(app.store.expire(app.entropy.die(), REAP_MAX)).await?;
        expire.took(begun);
        expire.runs.inc_by(expired.runs.len() as u64);
        for run in &expired.runs {
            app.metrics.lease_lost(run.end);
            app.metrics.queues.let_go(run.run, run.state.is_ended());
        }
        taken += expired.runs.len();
        for run in expired.runs.iter().filter(|run| run.end != LeaseEnd::Lost) {
            tracing::info!(run = %run.run, epoch = %run.epoch, end = run.end.as_str(), "a run was taken back");
        }
        let after = app.after();
        after.wake(&expired.woken);
        app.events.changed(expired.runs.iter().map(|run| (run.run, Some(run.state), Some(run.end.as_str()))));
        // Those that live and have lost a run hear of it at once. Of those that fell silent nobody listens.
        let mut losers: Vec<_> =
            expired.runs.iter().filter(|run| run.end != LeaseEnd::Lost).filter_map(|run| run.worker).collect();
        losers.sort_unstable();
        losers.dedup();
        losers.into_iter().for_each(|worker| after.tell(worker));
        if expired.runs.iter().any(|run| run.state.is_ended()) {
            app.ends.ring();
        }
        app.watchers.ended(expired.runs.iter().filter(|run| run.state.is_ended()).map(|run| run.run));
        if !expired.more {
            break;
        }
    }
    Ok(format!("{} workers lost, {taken} runs taken back", lost.len()))
}

/// Lets runs go on that wait for their key although it has room again.
pub(super) async fn unblock(app: &App) -> Result<String, Error> {
    let woken = app.store.unblock(REAP_MAX).await?;
    app.after().wake(&woken);
    Ok(format!("{} lanes unblocked", woken.lanes.len()))
}
