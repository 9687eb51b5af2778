//! What is wrong with what does the work: workers that are silent or unfit, pools that cannot make machines.

use baton_core::Millis;
use baton_core::pools::RunnerState;
use baton_proto::{Finding, PoolView, Time};
use baton_store::{Page, Worker, WorkerFilter, WorkerStatus};

use super::{FAIL, WARN, escape, finding, waiting};
use crate::auth::Caller;
use crate::service::pools as all_pools;
use crate::{App, Error};

/// Workers that are looked at, the newest.
const WORKERS_MAX: usize = 1_000;
/// Pools that are looked at.
const POOLS_MAX: usize = 100;
/// Counting of claims ends nowhere.
const NO_CAP: u64 = u64::MAX;

/// Workers that are silent although they hold something, and those that take nothing because of their health.
pub(super) async fn workers(app: &App, namespace: Option<&str>, now: Millis) -> Result<Vec<Finding>, Error> {
    let mut found = Vec::new();
    for status in [WorkerStatus::Online, WorkerStatus::Draining] {
        let filter =
            WorkerFilter { namespace: namespace.map(str::to_owned), status: Some(status), ..WorkerFilter::default() };
        let page = Page { after: None, limit: WORKERS_MAX };
        let all = app.store.workers(&filter, page).await?;
        found.extend(all.iter().filter_map(|worker| judged(worker, now)));
    }
    Ok(found)
}

fn judged(worker: &Worker, now: Millis) -> Option<Finding> {
    let held = match worker.active {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    let ttl = (worker.lease_until - worker.seen_at).max(1);
    // Heartbeats come three times in the life of a lease.
    let is_silent = (now - worker.seen_at) * 3 > ttl * 2;
    let mut told = if is_silent && worker.active > 0 {
        let message = format!("it is silent and holds {held}; they are handed over when its lease ends");
        Finding { since: Some(Time(worker.seen_at)), ..finding(WARN, "worker_silent", "", message) }
    } else if let Some(unfit) = worker.unfit.as_ref().filter(|_| !is_silent && worker.status == WorkerStatus::Online) {
        finding(WARN, "worker_unfit", "", format!("it takes nothing new: {unfit}"))
    } else {
        return None;
    };
    told.subject = format!("Worker {}", worker.name);
    told.namespace = Some(worker.namespace.clone());
    told.link = Some(format!("/workers/{}", worker.id));
    Some(told)
}

/// Pools that cannot fill what is asked of them.
pub(super) async fn pools(app: &App, caller: &Caller, namespace: Option<&str>) -> Result<Vec<Finding>, Error> {
    let page = Page { after: None, limit: POOLS_MAX };
    let all = all_pools::read::list(app, caller, namespace, page).await?;
    Ok(all.iter().filter_map(pool_judged).collect())
}

fn pool_judged(pool: &PoolView) -> Option<Finding> {
    let of = |state: RunnerState| pool.runners.get(state.as_str()).copied().unwrap_or(0);
    let alive = [RunnerState::Creating, RunnerState::Idle, RunnerState::Claimed, RunnerState::Running];
    let alive: u64 = alive.into_iter().map(of).sum();
    let claims = match pool.waiting_claims {
        1 => "1 claim waits".to_owned(),
        count => waiting(count, NO_CAP).replace("runs", "claims"),
    };
    let lacks = pool.waiting_claims > 0 || of(RunnerState::Idle) < u64::from(pool.min_idle_now);
    let mut told = if pool.deleting {
        return None;
    } else if let Some(error) = pool.error.as_ref().filter(|_| lacks) {
        let line = error.lines().next().unwrap_or_default();
        finding(FAIL, "pool_refused", "", format!("{claims}; the provider refuses: {line}"))
    } else if lacks && pool.create_after.is_some() {
        finding(
            WARN,
            "pool_refused",
            "",
            format!("{claims}; its last machines came to nothing, and the next ones wait"),
        )
    } else if pool.waiting_claims > 0 && alive >= u64::from(pool.max_size) {
        finding(WARN, "pool_full", "", format!("{claims}, and it has all {} machines that it may have", pool.max_size))
    } else {
        return None;
    };
    told.subject = format!("Pool {}", pool.name);
    told.namespace = Some(pool.namespace.clone());
    told.link = Some(format!("/pools/{}", escape(&pool.name)));
    Some(told)
}
