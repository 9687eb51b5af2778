//! Retention: deletes what is older than it needs to be.

use baton_core::Millis;
use baton_store::Retained;

use crate::{App, Error};

/// Rows of each kind in one call: short transactions, so that nobody waits for this.
const DELETE_MAX: usize = 1_000;
/// Calls in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 200;

/// One pass.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    let ms = |setting: u64| Millis::try_from(setting).unwrap_or(Millis::MAX);
    let settings = app.current();
    let (runs_ms, workers_ms) = (ms(settings.retention_runs_ms), ms(settings.retention_workers_ms));
    let audit_ms = ms(settings.retention_audit_ms.max(settings.retention_audit_ms_min));
    let mut all = Retained::default();
    for _ in 0..ROUNDS_MAX {
        let gone = app.store.retain(runs_ms, workers_ms, audit_ms, DELETE_MAX).await?;
        all =
            Retained { runs: all.runs + gone.runs, workers: all.workers + gone.workers, audit: all.audit + gone.audit };
        if gone.runs.max(gone.workers).max(gone.audit) < DELETE_MAX as u64 {
            break;
        }
    }
    let mut fires = 0;
    for _ in 0..ROUNDS_MAX {
        let gone = app.store.forget_fires(runs_ms, DELETE_MAX).await?;
        fires += gone;
        if gone < DELETE_MAX as u64 {
            break;
        }
    }
    let events = super::events::forget(app).await?;
    let bulk = super::bulk::forget(app, runs_ms).await?;
    let deliveries = super::webhooks::forget(app).await?;
    let mut sessions = 0;
    for _ in 0..ROUNDS_MAX {
        let gone = app.store.forget_sessions(ms(settings.session_idle_ms), DELETE_MAX).await?;
        sessions += gone;
        if gone < DELETE_MAX as u64 {
            break;
        }
    }
    let Retained { runs, workers, audit } = all;
    Ok(format!(
        "{runs} runs, {workers} workers, {audit} audit lines, {fires} fires of schedules, {events} batches of events, \
         {bulk} bulk operations, {deliveries} deliveries of webhooks, {sessions} sessions deleted"
    ))
}
