//! Numbers about all builds, for everybody; and what builders report of themselves.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_proto::Time;
use baton_store::{BuildCounts, Scope, WorkerFilter, WorkerStatus};
use futures_util::StreamExt;
use serde_json::Value;

use super::{QUEUE, namespace_of};
use crate::artifacts::{ArtifactPath, Folder, Segment, StorageHealth, Terms};
use crate::auth::Caller;
use crate::service::check_name;
use crate::{App, Error};

const DAY_MS: Millis = 24 * 3_600 * 1_000;
/// How long numbers are shown again before they are counted anew: anybody may ask for them.
const FRESH: Duration = Duration::from_secs(2);
/// Largest report, in bytes.
const REPORT_BYTES_MAX: usize = 1 << 20;
/// Days of reports that are shown.
const REPORT_DAYS_MAX: usize = 30;

/// What the server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Builds that wait.
    pub pending: u64,
    /// Builds that somebody has.
    pub active: u64,
    /// `directory` or `s3`.
    pub storage: &'static str,
    /// The storage, and its mirror if it has one.
    pub storages: Vec<StorageHealth>,
}

/// Numbers for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Workers that build and are online.
    pub nodes_online: u64,
    /// Builds that wait.
    pub builds_queued: u64,
    /// Builds that somebody has.
    pub active_builds: u64,
    /// Builds submitted since midnight, UTC.
    pub builds_today: u64,
    /// Builds ever.
    pub total_builds: u64,
}

/// The numbers that were counted last.
#[derive(Debug, Default)]
pub struct Counted {
    /// What was counted, and when that began.
    last: Mutex<Option<(Instant, Stats)>>,
    turn: tokio::sync::Mutex<()>,
}

/// What the server says of itself, as it is now.
pub async fn health(app: &App) -> Result<Health, Error> {
    let (stats, storages) = tokio::join!(fresh(app), app.storage.health());
    let Stats { builds_queued: pending, active_builds: active, .. } = stats?;
    Ok(Health { pending, active, storage: app.storage.kind(), storages })
}

/// Counted after it was asked for. Whoever asks while somebody counts gets the next count, so that
/// any number of callers cost one count at a time.
async fn fresh(app: &App) -> Result<Stats, Error> {
    let asked = Instant::now();
    let _turn = app.counted.turn.lock().await;
    let last = *app.counted.last.lock().expect("nobody panics while holding it");
    match last.filter(|(at, _)| *at >= asked) {
        Some((_, stats)) => Ok(stats),
        None => count(app).await,
    }
}

/// Numbers for everybody: true ones, a few seconds old.
pub async fn stats(app: &App) -> Result<Stats, Error> {
    let last = *app.counted.last.lock().expect("nobody panics while holding it");
    if let Some((_, stats)) = last.filter(|(at, _)| at.elapsed() < FRESH) {
        return Ok(stats);
    }
    count(app).await
}

async fn count(app: &App) -> Result<Stats, Error> {
    let begun = Instant::now();
    let now = app.store.now().await?;
    let counts = app.store.count_builds(None, now - now.rem_euclid(DAY_MS)).await?;
    let online = WorkerFilter { status: Some(WorkerStatus::Online), queue: Some(QUEUE.into()), namespace: None };
    let stats = Stats {
        nodes_online: app.store.count_workers(&online).await?,
        builds_queued: counts.pending,
        active_builds: counts.assigned + counts.building,
        builds_today: counts.since,
        total_builds: total(&counts),
    };
    *app.counted.last.lock().expect("nobody panics while holding it") = Some((begun, stats));
    Ok(stats)
}

fn total(counts: &BuildCounts) -> u64 {
    let BuildCounts { pending, assigned, building, completed, failed, cancelled, since: _ } = counts;
    pending + assigned + building + completed + failed + cancelled
}

/// Keeps what a builder reports, as it says it. The last report of each day stays. Returns its
/// identifier.
pub async fn report(app: &App, caller: &Caller, report: Value) -> Result<String, Error> {
    let namespace = namespace_of(caller);
    caller.may(Scope::Worker, namespace)?;
    let worker = report.get("worker_id").or_else(|| report.get("workerId")).and_then(Value::as_str);
    let worker = worker.ok_or_else(|| Error::field("worker_id", "is missing: whose report is it?"))?;
    check_name("worker_id", worker)?;
    let at = app.store.now().await?;
    let date = Time(at).to_string().chars().take("2000-01-01".len()).collect::<String>();
    let id = format!("{worker}-{date}");
    let mut kept = report.as_object().cloned().unwrap_or_default();
    kept.insert("worker_id".into(), worker.into());
    kept.insert("id".into(), id.clone().into());
    kept.insert("received_at".into(), Time(at).to_string().into());
    kept.entry("run_at").or_insert_with(|| at.into());
    let kept = Value::Object(kept).to_string();
    if kept.len() > REPORT_BYTES_MAX {
        return Err(Error::TooLarge { limit: REPORT_BYTES_MAX });
    }
    let date = Segment::new(&date).ok_or(Error::Internal)?;
    let path = ArtifactPath::diagnostics(&folder_name(namespace, worker), &date);
    let source = futures_util::stream::once(async move { Ok(bytes::Bytes::from(kept)) }).boxed();
    app.storage.put(&path, source, Terms::up_to(REPORT_BYTES_MAX as u64)).await?;
    Ok(id)
}

/// The reports of a builder, one for each day, newest first.
pub async fn reports(app: &App, caller: &Caller, worker: &str, limit: Option<usize>) -> Result<Vec<Value>, Error> {
    let namespace = namespace_of(caller);
    caller.may(Scope::Read, namespace)?;
    let name = folder_name(namespace, worker);
    let mut days: Vec<String> =
        app.storage.list(&Folder::diagnostics(&name)).await?.into_iter().map(|entry| entry.name).collect();
    days.sort_unstable();
    let mut reports = Vec::new();
    for day in days.iter().rev().take(limit.unwrap_or(REPORT_DAYS_MAX).min(REPORT_DAYS_MAX)) {
        let Some(date) = day.strip_suffix(".json").and_then(Segment::new) else { continue };
        let path = ArtifactPath::diagnostics(&name, &date);
        let Some(stat) = app.storage.stat(&path).await? else { continue };
        let mut all = Vec::new();
        let mut reading = app.storage.read(&path, 0..stat.size).await?;
        while let Some(chunk) = reading.next().await {
            all.extend_from_slice(&chunk?);
        }
        reports.extend(serde_json::from_slice(&all).ok());
    }
    Ok(reports)
}

fn folder_name(namespace: &str, worker: &str) -> Segment {
    Segment::of_any_text(&format!("{namespace}\u{1f}{worker}"))
}
