//! What `/metrics` shows, and who may read it: it names namespaces, queues and pools.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use baton_core::token;
use baton_store::{Scope, WorkerFilter, WorkerStatus};

use super::workers::status_name;
use crate::auth::refused;
use crate::{App, Error};

/// Refuses unless the counters are for whoever asks. A call that somebody has passed on comes from
/// elsewhere, whatever its last stretch was.
pub(crate) async fn may_read(
    app: &App,
    credential: Option<&str>,
    from: Option<IpAddr>,
    is_forwarded: bool,
) -> Result<(), Error> {
    let wanted = app.settings.metrics_key.as_deref().map(token::hash);
    let is_shown = |wanted| credential.is_some_and(|shown| token::same(&wanted, &token::hash(shown)));
    if wanted.is_some_and(is_shown) {
        return Ok(());
    }
    let is_here = !is_forwarded && from.is_none_or(|from| from.to_canonical().is_loopback());
    if wanted.is_none() && is_here {
        return Ok(());
    }
    let caller = app.keys.check(credential, from).await?;
    caller.has(Scope::Read)?;
    match caller.namespace {
        None => Ok(()),
        Some(_) => Err(refused("metrics are for keys that are good for all namespaces".into())),
    }
}

/// Queues that are looked at in one go.
const LOOK_QUEUES: usize = 1_000;
/// Counting stops here: a deeper queue is shown as this deep.
const DEPTH_MAX: u64 = 100_000;
/// How long what was seen in the store is good for, however often somebody asks.
const FRESH: Duration = Duration::from_secs(5);
/// How long a look at the store may take. Without it, what this server knows by itself is shown.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// The text that Prometheus reads.
pub(crate) async fn text(app: &App) -> String {
    app.metrics.polls_waiting.set(app.dispatcher.waiting() as i64);
    app.metrics.note_statements(app.store.statements());
    app.metrics.note_spans(app.traces.counts());
    if let Some(connections) = app.store.connections() {
        let note = |state: &str, count: usize| {
            app.metrics.store_connections.get_or_create(&[("state", state.into())]).set(count as i64);
        };
        note("in_use", connections.in_use);
        note("idle", connections.idle);
        app.metrics.store_connections_max.set(connections.max as i64);
        app.metrics.store_connections_waiting.set(connections.waiting as i64);
    }
    look_at_certificate(app);
    look_at_store(app).await;
    app.metrics.text()
}

/// Notes what is in the store, unless that was done a moment ago or somebody else does it.
async fn look_at_store(app: &App) {
    let Ok(mut looked) = app.metrics.queues.looked.try_lock() else { return };
    // Where time is moved by hand, what was seen before is old at once.
    let is_fresh = looked.is_some_and(|at| at.elapsed() < FRESH) && app.store.clock().fixed().is_none();
    if is_fresh {
        return;
    }
    let why = match tokio::time::timeout(LOOK_TIME_MAX, async { count(app).await }).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("it takes too long".into()),
    };
    *looked = Some(Instant::now());
    if let Some(why) = why {
        tracing::warn!(why, "queues and workers could not be counted for /metrics; they are not shown");
        app.metrics.queues.forget_depths();
        app.metrics.workers.clear();
    }
}

async fn count(app: &App) -> Result<(), Error> {
    let queues = app.store.queues(None).await?;
    let mut seen = Vec::with_capacity(queues.len());
    for some in queues.chunks(LOOK_QUEUES) {
        let numbers: Vec<_> = some.iter().map(|queue| queue.id).collect();
        let depths = app.store.depths(&numbers, DEPTH_MAX).await?;
        seen.extend(some.iter().cloned().zip(depths));
    }
    app.metrics.queues.note_depths(seen);
    for status in [WorkerStatus::Online, WorkerStatus::Draining, WorkerStatus::Offline] {
        let filter = WorkerFilter { status: Some(status), ..WorkerFilter::default() };
        let workers = app.store.count_workers(&filter).await?;
        let labels = [("status", status_name(status).to_ascii_lowercase())];
        app.metrics.workers.get_or_create(&labels).set(i64::try_from(workers).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// Notes when the time of the server's certificate is over; it may have been replaced.
fn look_at_certificate(app: &App) {
    if let Some(tls) = app.tls.get() {
        let source = if tls.is_self_signed() { crate::tls::SELF_SIGNED } else { "files" };
        let labels = [("source", source.to_owned())];
        app.metrics.tls_certificate_expiry.get_or_create(&labels).set(tls.about().not_after / 1_000);
        app.metrics.tls_reload_failed.get_or_create(&labels).set(tls.has_failed().into());
    }
}
