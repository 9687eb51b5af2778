//! Workers: list, get, drain, force offline, deregister.

use baton_core::{RunId, State, WorkerId};
use baton_proto::{HealthReport, Time, WorkerView};
use baton_store::{Page, RunFilter, Scope, Worker, WorkerChange, WorkerFilter, WorkerStatus};

use super::{audit, worker_id};
use crate::auth::Caller;
use crate::events::Kind;
use crate::{App, Error, Heard};

/// Workers that are looked at in one go.
const PAGE_WORKERS: usize = 1_000;
/// Runs that are looked at in one go.
const PAGE_RUNS: usize = 1_000;

/// The word for a status.
pub fn status_name(status: WorkerStatus) -> &'static str {
    match status {
        WorkerStatus::Online => "ONLINE",
        WorkerStatus::Draining => "DRAINING",
        WorkerStatus::Offline => "OFFLINE",
    }
}

/// The status with this word, in any case.
pub fn status_named(word: &str) -> Option<WorkerStatus> {
    [WorkerStatus::Online, WorkerStatus::Draining, WorkerStatus::Offline]
        .into_iter()
        .find(|status| status_name(*status).eq_ignore_ascii_case(word))
}

/// The workers of a namespace.
pub fn by_namespace(namespace: &str) -> WorkerFilter {
    WorkerFilter { namespace: Some(namespace.to_owned()), ..WorkerFilter::default() }
}

/// A page of workers, and how many there are in all if asked.
pub async fn list(
    app: &App,
    caller: &Caller,
    mut filter: WorkerFilter,
    page: Page<WorkerId>,
    total: bool,
) -> Result<(Vec<WorkerView>, Option<u64>), Error> {
    caller.has(Scope::Read)?;
    match (&filter.namespace, &caller.namespace) {
        (Some(wanted), _) => caller.may(Scope::Read, wanted)?,
        (None, own) => filter.namespace = own.clone(),
    }
    let workers = app.store.workers(&filter, page).await?;
    let total = if total { Some(app.store.count_workers(&filter).await?) } else { None };
    Ok((workers.into_iter().map(view).collect(), total))
}

/// One worker.
pub async fn get(app: &App, caller: &Caller, worker: WorkerId) -> Result<WorkerView, Error> {
    Ok(view(visible(app, caller, Scope::Read, worker).await?))
}

/// What this server has heard of a worker lately: nothing when it talks to another server.
pub fn heard(app: &App, caller: &Caller, worker: &WorkerView) -> Result<Heard, Error> {
    caller.may(Scope::Read, &worker.namespace)?;
    let known = worker_id(&worker.id).ok().and_then(|id| app.workers.seen(id));
    Ok(known.map(|known| known.heartbeats.heard()).unwrap_or_default())
}

async fn visible(app: &App, caller: &Caller, scope: Scope, worker: WorkerId) -> Result<Worker, Error> {
    caller.has(scope)?;
    let found = app.store.worker(worker).await?.ok_or_else(|| Error::no_worker(worker))?;
    match caller.sees(&found.namespace) {
        true => Ok(found),
        false => Err(Error::no_worker(worker)),
    }
}

/// The worker, if the caller may act for it.
async fn own(app: &App, caller: &Caller, worker: WorkerId) -> Result<Worker, Error> {
    let found = visible(app, caller, Scope::Worker, worker).await?;
    caller.may_act_for(worker, found.key_id.as_deref(), &found.namespace)?;
    Ok(found)
}

/// Takes everything from the workers that came with this key, which was revoked: their leases and tokens, and those of their machines, are
/// good for nothing from now on.
pub(crate) async fn key_revoked(app: &App, key_id: &str, namespace: Option<&str>) -> Result<(), Error> {
    for status in [WorkerStatus::Online, WorkerStatus::Draining] {
        let filter =
            WorkerFilter { namespace: namespace.map(str::to_owned), status: Some(status), ..WorkerFilter::default() };
        let mut after = None;
        loop {
            let page = app.store.workers(&filter, Page { after, limit: PAGE_WORKERS }).await?;
            after = page.last().map(|worker| worker.id);
            for worker in page.iter().filter(|worker| worker.key_id.as_deref() == Some(key_id)) {
                change(app, worker.id, WorkerStatus::Offline, "its API key was revoked").await?;
            }
            if page.len() < PAGE_WORKERS {
                break;
            }
        }
    }
    Ok(())
}

/// Tells a worker to take no new work. An administrator's act.
pub async fn drain(app: &App, caller: &Caller, worker: WorkerId) -> Result<WorkerView, Error> {
    let found = visible(app, caller, Scope::Admin, worker).await?;
    if found.status == WorkerStatus::Offline {
        return Err(Error::WorkerOffline);
    }
    change(app, worker, WorkerStatus::Draining, "drained by an administrator").await?;
    audit::act(app, caller, "worker.drain", &worker.to_string(), &found.name, Some(&found.namespace)).await?;
    get_after(app, worker).await
}

/// Takes everything from a worker, at once. An administrator's act.
pub async fn force_offline(app: &App, caller: &Caller, worker: WorkerId) -> Result<u64, Error> {
    let found = visible(app, caller, Scope::Admin, worker).await?;
    let given_back = change(app, worker, WorkerStatus::Offline, "forced offline by an administrator").await?;
    audit::act(app, caller, "worker.offline", &worker.to_string(), &found.name, Some(&found.namespace)).await?;
    Ok(given_back)
}

/// The worker goes away by itself and gives back what it holds.
pub async fn deregister(app: &App, caller: &Caller, worker: WorkerId) -> Result<u64, Error> {
    own(app, caller, worker).await?;
    change(app, worker, WorkerStatus::Offline, "deregistered").await
}

/// The worker takes no new work, by its own wish, and finishes what it holds.
pub async fn retire(app: &App, caller: &Caller, worker: WorkerId) -> Result<(), Error> {
    let found = own(app, caller, worker).await?;
    if found.status == WorkerStatus::Offline {
        return Err(Error::WorkerOffline);
    }
    change(app, worker, WorkerStatus::Draining, "drains by its own wish").await.map(|_| ())
}

async fn change(app: &App, worker: WorkerId, status: WorkerStatus, why: &str) -> Result<u64, Error> {
    let held = held_before(app, worker, status).await?;
    let changed = app.store.set_worker(worker, status, why).await?;
    let WorkerChange { given_back, woken } = changed.ok_or_else(|| Error::no_worker(worker))?;
    match status {
        WorkerStatus::Offline => app.workers.forget(worker),
        WorkerStatus::Online | WorkerStatus::Draining => {
            app.workers.seen(worker).inspect(|known| known.confirm(status));
        }
    }
    app.after().wake(&woken);
    app.after().tell(worker);
    told(app, worker, status, why, held);
    if status == WorkerStatus::Offline {
        // Those of its runs that were to be cancelled have ended with it.
        app.ends.ring();
    }
    Ok(given_back)
}

/// The runs that a worker holds, where somebody wants to hear what becomes of them when it is gone.
pub(crate) async fn held_before(app: &App, worker: WorkerId, status: WorkerStatus) -> Result<Vec<RunId>, Error> {
    let mut held = Vec::new();
    if status != WorkerStatus::Offline || !app.events.are_wanted(Kind::CHANGES) {
        return Ok(held);
    }
    for state in [State::Assigned, State::Running] {
        let filter = RunFilter { states: vec![state], worker: Some(worker), ..RunFilter::default() };
        let mut after = None;
        loop {
            let page = app.store.runs(&filter, Page { after, limit: PAGE_RUNS }).await?;
            after = page.last().map(|record| record.id);
            held.extend(page.iter().map(|record| record.id));
            if page.len() < PAGE_RUNS {
                break;
            }
        }
    }
    Ok(held)
}

/// Tells those who listen that a worker has another status, and what became of the runs that it held.
pub(crate) fn told(app: &App, worker: WorkerId, status: WorkerStatus, why: &str, held: Vec<RunId>) {
    let kind = match status {
        WorkerStatus::Online => Kind::WorkerRegistered,
        WorkerStatus::Draining => Kind::WorkerDraining,
        WorkerStatus::Offline => Kind::WorkerOffline,
    };
    app.events.worker(kind, worker, Some(why));
    app.events.changed(held.into_iter().map(|run| (run, None, Some("given_back"))));
}

async fn get_after(app: &App, worker: WorkerId) -> Result<WorkerView, Error> {
    Ok(view(app.store.worker(worker).await?.ok_or_else(|| Error::no_worker(worker))?))
}

pub(super) fn view(worker: Worker) -> WorkerView {
    WorkerView {
        id: worker.id.to_string(),
        namespace: worker.namespace,
        name: worker.name,
        status: status_name(worker.status).into(),
        status_reason: worker.status_reason,
        queues: worker.info.queues,
        types: worker.info.types,
        hostname: worker.info.hostname,
        pid: worker.info.pid,
        version: worker.info.version,
        labels: worker.info.labels,
        max_concurrent: worker.max_concurrent,
        active: worker.active,
        completed: worker.completed,
        failed: worker.failed,
        registered_at: Time(worker.registered_at),
        seen_at: Time(worker.seen_at),
        lease_until: Time(worker.lease_until),
        health: worker.health.map(|health| HealthReport {
            cpu: health.cpu,
            memory: health.memory,
            disk_free_bytes: health.disk_free_bytes,
        }),
        unfit: worker.unfit,
    }
}
