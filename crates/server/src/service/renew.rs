//! renew: a worker's sign of life renews all its leases at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_core::{Millis, WorkerId};
use baton_proto::{HealthReport, Heartbeat, HeartbeatAnswer, Time};
use baton_store::{Beat, BeatAnswer, Health, LeaseRef, Scope, Store, WorkerStatus};
use tokio::time::{Instant, sleep_until};

use super::{message, open_lease, run_id};
use crate::auth::Caller;
use crate::coalesce::Coalescer;
use crate::metrics::Metrics;
use crate::request_log::beside;
use crate::workers::KnownWorker;
use crate::{App, Error, Settings};

/// Most runs that are put back in one go because their worker does not know of them.
const STRAYS_MAX: usize = 1_000;

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    batch_max: usize,
    gather: Option<Duration>,
) -> Coalescer<Beat, BeatAnswer> {
    Coalescer::start(batch_max, gather, move |beats: Vec<Beat>| {
        let (store, metrics) = (store.clone(), metrics.clone());
        async move {
            let answers = metrics.renew.at_store(store.renew(beats)).await?;
            count(&metrics, &answers);
            Ok(answers)
        }
    })
}

/// Counts workers whose leases were renewed.
fn count(metrics: &Metrics, answers: &[BeatAnswer]) {
    let alive = answers.iter().filter(|answer| matches!(answer, BeatAnswer::Alive { .. })).count();
    metrics.renew.runs.inc_by(alive as u64);
}

/// Takes a worker's heartbeat.
pub async fn one(app: &App, caller: &Caller, worker: WorkerId, beat: Heartbeat) -> Result<HeartbeatAnswer, Error> {
    beaten(app, caller, worker, beat).await.inspect_err(|error| app.metrics.renew.refused(error))
}

async fn beaten(app: &App, caller: &Caller, worker: WorkerId, beat: Heartbeat) -> Result<HeartbeatAnswer, Error> {
    caller.has(Scope::Worker)?;
    let known = app.workers.get(worker).await?.ok_or_else(|| Error::no_worker(worker))?;
    caller.may_act_for(worker, known.key_id.as_deref(), &known.namespace)?;
    let mut leases = Vec::with_capacity(beat.leases.len());
    for lease in &beat.leases {
        leases.push(open_lease(app, caller, run_id(&lease.run_id)?, &lease.lease).await?);
    }
    let own_word = beat.unfit.as_deref().map(message);
    // What it says of itself is kept together with what it measured.
    let health = beat.health.map(health).or_else(|| own_word.is_some().then(Health::default));
    let unfit = own_word.or_else(|| unfit(health.as_ref()?, &app.current()));
    let until = Instant::now() + Duration::from_millis(beat.wait_ms.unwrap_or(0).min(wait_ms_max(app)));
    // Listen before looking: news between the look and the wait would wake nobody.
    let news = known.news.notified();
    tokio::pin!(news);
    news.as_mut().enable();
    let sign = Beat { worker, health, unfit: unfit.clone(), ttl_ms: None, leases: leases.clone() };
    let received = Instant::now();
    let mut alive = renew(app, &known, sign.clone()).await.inspect_err(|error| {
        if let Error::WorkerOffline = error {
            app.refusals.note_renewals(&leases);
        }
    })?;
    app.refusals.note_renewals(&alive.lost);
    // Before the wait: what comes meanwhile is not on the list, and is not unknown for that.
    if beat.all && alive.held as usize > leases.len() && app.hearing.is_sure(&app.current()) {
        put_strays_back(app, worker, leases.clone(), received).await?;
    }
    let said: Vec<_> = beat.leases.iter().zip(&leases).collect();
    let has_news = said.iter().any(|(said, lease)| !said.stopping && alive.is_to_stop(lease));
    let is_known = |lease: &LeaseRef| said.iter().any(|(said, own)| said.stopping && *own == lease);
    let status = alive.status;
    while beat.wait_ms.is_some() && !has_news && !app.workers.is_closed() {
        let is_told = tokio::select! {
            () = &mut news => !app.workers.is_closed(),
            () = sleep_until(until) => false,
        };
        if !is_told {
            break;
        }
        news.set(known.news.notified());
        news.as_mut().enable();
        alive = renew(app, &known, sign.clone()).await?;
        // What the worker knows, and is heard of a second time from another server, is no news.
        if alive.status != status || alive.cancelling.iter().chain(&alive.lost).any(|lease| !is_known(lease)) {
            break;
        }
    }
    Ok(shown(alive, unfit))
}

fn shown(alive: Alive, unfit: Option<String>) -> HeartbeatAnswer {
    HeartbeatAnswer {
        status: super::workers::status_name(alive.status).into(),
        should_drain: alive.status == WorkerStatus::Draining,
        lease_until: Time(alive.lease_until),
        lost: alive.lost.iter().map(|lease| lease.run.to_string()).collect(),
        cancelling: alive.cancelling.iter().map(|lease| lease.run.to_string()).collect(),
        unfit,
    }
}

/// Renews a worker's leases because it did something else than a heartbeat. From now on they live for `ttl_ms`, if that is given.
pub(crate) async fn sign_of_life(
    app: &App,
    known: &KnownWorker,
    ttl_ms: Option<Millis>,
) -> Result<WorkerStatus, Error> {
    let beat = Beat { worker: known.id, health: None, unfit: None, ttl_ms, leases: vec![] };
    Ok(renew(app, known, beat).await?.status)
}

/// As [`sign_of_life`], written beside the answer to whatever the worker asked for: nobody waits
/// for it, and one at a time is enough. What it finds out is known to the worker's next call.
pub(crate) fn sign_of_life_beside(app: &App, known: &Arc<KnownWorker>, ttl_ms: Option<Millis>) {
    if known.is_renewing.swap(true, Ordering::Relaxed) {
        return;
    }
    let (app, known) = (app.clone(), known.clone());
    let writing = async move {
        if let Err(error) = sign_of_life(&app, &known, ttl_ms).await {
            tracing::debug!(%error, worker = %known.id, "a sign of life was not written");
        }
        known.is_renewing.store(false, Ordering::Relaxed);
    };
    tokio::spawn(beside(writing));
}

/// As [`sign_of_life`], without waiting for company.
pub(crate) async fn sign_of_life_now(app: &App, known: &KnownWorker) -> Result<WorkerStatus, Error> {
    Ok(renew_now(app, known, vec![]).await?.status)
}

/// Finds out what has become of leases, and renews them, without waiting for company: somebody has said that there is news.
pub(crate) async fn look(app: &App, known: &KnownWorker, leases: Vec<LeaseRef>) -> Result<HeartbeatAnswer, Error> {
    Ok(shown(renew_now(app, known, leases).await?, None))
}

async fn renew_now(app: &App, known: &KnownWorker, leases: Vec<LeaseRef>) -> Result<Alive, Error> {
    let beat = Beat { worker: known.id, health: None, unfit: None, ttl_ms: None, leases };
    let mut answers = app.metrics.renew.at_store(app.store.renew(vec![beat])).await?;
    count(&app.metrics, &answers);
    let answer = answers.pop().ok_or(Error::Internal)?;
    alive(app, known, None, answer)
}

/// Puts runs back that the worker holds without knowing it: the answer that brought them was lost, and the worker asked another
/// server again, or not at all. Younger ones may still be on their way.
async fn put_strays_back(app: &App, worker: WorkerId, known: Vec<LeaseRef>, received: Instant) -> Result<(), Error> {
    let settings = app.current();
    let strays = app.store.strays(worker, known, settings.lease_ttl_ms as Millis, STRAYS_MAX).await?;
    // While this server or its store stood still runs have grown old that were young when the worker wrote its list.
    match received.elapsed() < Duration::from_millis(settings.heartbeat_interval_ms) {
        true => give_back_strays(app, worker, strays).await,
        false => Ok(()),
    }
}

/// Puts runs back that the worker got longer than `age` ago and does not know of.
pub(crate) async fn put_back(app: &App, worker: WorkerId, known: Vec<LeaseRef>, age: Millis) -> Result<(), Error> {
    let strays = app.store.strays(worker, known, age, STRAYS_MAX).await?;
    give_back_strays(app, worker, strays).await
}

async fn give_back_strays(app: &App, worker: WorkerId, strays: Vec<LeaseRef>) -> Result<(), Error> {
    if strays.is_empty() {
        return Ok(());
    }
    tracing::info!(%worker, runs = strays.len(), "a worker does not know of runs it holds; they go back");
    let why = "its worker did not know of it: the answer to a claim was lost";
    let runs: Vec<_> = strays.iter().map(|lease| lease.run).collect();
    let strays = strays.into_iter().map(|lease| (lease, why.to_owned())).collect();
    let changes = app.metrics.give_back.at_store(app.store.give_back(strays)).await?;
    app.metrics.give_back.did(&changes.verdicts);
    app.after().changed(runs.into_iter(), &changes);
    Ok(())
}

struct Alive {
    status: WorkerStatus,
    lease_until: Millis,
    held: u32,
    lost: Vec<LeaseRef>,
    cancelling: Vec<LeaseRef>,
}

impl Alive {
    /// True when work under this lease should end.
    fn is_to_stop(&self, lease: &LeaseRef) -> bool {
        self.lost.contains(lease) || self.cancelling.contains(lease)
    }
}

/// How long a heartbeat may wait for news. Shorter than the interval: then there is always one that waits, and none comes later than it
/// would without waiting.
pub(crate) fn wait_ms_max(app: &App) -> u64 {
    app.current().heartbeat_interval_ms * 4 / 5
}

async fn renew(app: &App, known: &KnownWorker, beat: Beat) -> Result<Alive, Error> {
    let (ttl_ms, health) = (beat.ttl_ms, beat.health);
    let begun = std::time::Instant::now();
    let answer = app.renewals.call_one(beat).await;
    app.metrics.renew.took(begun);
    let alive = alive(app, known, ttl_ms, answer.inspect_err(|error| app.hearing.note(error))?)?;
    known.heartbeats.note(app.statistics.now(), health);
    Ok(alive)
}

/// What the answer to a sign of life means.
fn alive(app: &App, known: &KnownWorker, ttl_ms: Option<Millis>, answer: BeatAnswer) -> Result<Alive, Error> {
    match answer {
        BeatAnswer::Alive { status, lease_until, held, lost, cancelling } => {
            known.confirm(status);
            if let Some(ttl_ms) = ttl_ms {
                known.ttl_ms.store(ttl_ms, Ordering::Relaxed);
            }
            Ok(Alive { status, lease_until, held, lost, cancelling })
        }
        BeatAnswer::Offline => {
            app.workers.forget(known.id);
            Err(Error::WorkerOffline)
        }
        BeatAnswer::Unknown => {
            app.workers.forget(known.id);
            Err(Error::no_worker(known.id))
        }
    }
}

fn health(report: HealthReport) -> Health {
    Health { cpu: report.cpu, memory: report.memory, disk_free_bytes: report.disk_free_bytes }
}

/// Why a worker with this health gets no new work, if so.
fn unfit(health: &Health, settings: &Settings) -> Option<String> {
    let over = |value: Option<f64>, most: Option<f64>, what: &str| match (value, most) {
        (Some(value), Some(most)) if value > most => {
            Some(format!("{what} is at {:.0} %, over the {:.0} % allowed", value * 100.0, most * 100.0))
        }
        _ => None,
    };
    let disk = || match (health.disk_free_bytes, settings.health_disk_free_bytes_min) {
        (Some(free), Some(least)) if free < least => {
            Some(format!("{free} bytes are free on its disk, under the {least} required"))
        }
        _ => None,
    };
    over(health.cpu, settings.health_cpu_max, "its processor")
        .or_else(|| over(health.memory, settings.health_memory_max, "its memory"))
        .or_else(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_under_a_floor_is_told_which() {
        let settings =
            Settings { health_cpu_max: Some(0.9), health_disk_free_bytes_min: Some(1_000), ..Settings::default() };
        let check = |cpu, disk| unfit(&Health { cpu, memory: None, disk_free_bytes: disk }, &settings);
        assert_eq!(check(Some(0.5), Some(2_000)), None);
        assert_eq!(check(None, None), None);
        assert!(check(Some(0.95), None).unwrap().contains("95 %"));
        assert!(check(None, Some(999)).unwrap().contains("999 bytes"));
        assert_eq!(unfit(&Health { cpu: Some(1.0), ..Health::default() }, &Settings::default()), None);
    }
}
