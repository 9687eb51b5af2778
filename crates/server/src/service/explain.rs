//! explain: why a run is not running yet; or who holds it, and until when.

use baton_core::{Millis, RunId, State, rate};
use baton_proto::{Explanation, Holder, Time, WaitReason};
use baton_store::{FOR_GOOD, Page, Queue, RunRecord, Scope, StepKind, Waits, Worker, WorkerFilter, WorkerStatus};

use super::visible;
use crate::auth::Caller;
use crate::{App, Error};

/// Counting stops here.
const POSITION_CAP: u64 = 10_000;
/// Workers looked at.
const WORKERS_MAX: usize = 1_000;
/// Children, steps and signals of a workflow that are named.
const WAITS_MAX: usize = 5;

/// Explains one run.
pub async fn one(app: &App, caller: &Caller, run: RunId) -> Result<Explanation, Error> {
    let record = visible(app, caller, Scope::Read, run).await?;
    match record.state {
        State::Pending => waiting(app, record).await,
        State::Sleeping => sleeping(app, record).await,
        State::Assigned | State::Running => held(app, record).await,
        State::Completed | State::Failed | State::Cancelled => Ok(ended(record)),
    }
}

fn ended(record: RunRecord) -> Explanation {
    let at = record.ended_at.map_or_else(String::new, |at| format!(" at {}", Time(at)));
    let why = record.error.map_or_else(String::new, |error| format!(": {error}"));
    Explanation {
        id: record.id.to_string(),
        state: record.state,
        summary: format!("It ended as {}{at}{why}.", record.state.as_str()),
        reasons: vec![],
        position: None,
        holder: None,
    }
}

async fn held(app: &App, record: RunRecord) -> Result<Explanation, Error> {
    let worker = match record.worker {
        Some(worker) => app.store.worker(worker).await?,
        None => None,
    };
    let holder = worker.map(|worker| Holder {
        worker_id: worker.id.to_string(),
        worker_name: worker.name,
        epoch: record.epoch.number(),
        lease_until: Time(record.lease_until.unwrap_or(worker.lease_until)),
    });
    let who = holder.as_ref().map_or_else(
        || "A worker holds it".to_owned(),
        |holder| {
            format!("Worker {} holds it with epoch {} until {}", holder.worker_name, holder.epoch, holder.lease_until)
        },
    );
    let cancelling =
        record.cancel_by.map_or_else(String::new, |by| format!("; it was asked to cancel and has until {}", Time(by)));
    Ok(Explanation {
        id: record.id.to_string(),
        state: record.state,
        summary: format!("{who}, unless the worker renews it{cancelling}."),
        reasons: vec![],
        position: None,
        holder,
    })
}

/// As what waits, and what the workflow waits for.
async fn sleeping(app: &App, record: RunRecord) -> Result<Explanation, Error> {
    let waits = app.store.waits(record.id, WAITS_MAX).await?;
    let mut explanation = waiting(app, record).await?;
    explanation.reasons.extend(waits_for(waits));
    Ok(explanation)
}

fn waits_for(waits: Waits) -> Vec<WaitReason> {
    let mut reasons = Vec::new();
    let mut because = |code: &str, message: String| reasons.push(WaitReason { code: code.into(), message });
    for open in waits.open {
        match (open.kind, open.child) {
            (StepKind::Child, Some(run)) => {
                because("child", format!("It waits for the end of its child {} ({run}).", open.name));
            }
            _ => {
                let again = open.due_at.map_or_else(String::new, |due| format!(" at {}", Time(due)));
                let why = open.error.map_or_else(String::new, |error| format!(": {error}"));
                let (name, attempts) = (open.name, open.attempts);
                because(
                    "step_retry",
                    format!("The step {name} is tried again{again}; attempt {attempts} failed{why}."),
                );
            }
        }
    }
    for (name, at) in waits.signals {
        because("signal_not_taken", format!("It has not taken the signal {name} of {}.", Time(at)));
    }
    reasons
}

async fn waiting(app: &App, record: RunRecord) -> Result<Explanation, Error> {
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    let queues = app.store.queues(Some(&lane.namespace)).await?;
    let queue = queues.into_iter().find(|queue| queue.name == lane.queue).ok_or(Error::Internal)?;
    let filter = WorkerFilter {
        namespace: Some(lane.namespace.clone()),
        queue: Some(lane.queue.clone()),
        ..WorkerFilter::default()
    };
    let page = Page { after: None, limit: WORKERS_MAX };
    let mut workers = app.store.workers(&filter, page).await?;
    workers.retain(|worker| worker.info.types.contains(&lane.kind) && worker.status != WorkerStatus::Offline);
    let now = app.store.now().await?;
    let position = match record.due_at <= now {
        true => app.store.position(record.id, POSITION_CAP).await?,
        false => None,
    };
    let held_of_key = match (&record.key, record.blocked) {
        (Some(key), true) => Some(app.store.key_held(queue.id, key).await?),
        _ => None,
    };
    let mut reasons = reasons(&record, &queue, &lane.kind, &workers, held_of_key, position, now);
    if app.namespaces.is_disabled(&lane.namespace) {
        let message = format!("The namespace {} is disabled: nothing of it is handed out.", lane.namespace);
        reasons.insert(0, WaitReason { code: "namespace_disabled".into(), message });
    }
    let summary = reasons.first().map_or_else(
        || "Nothing keeps it: a worker should take it at any moment.".to_owned(),
        |reason| reason.message.clone(),
    );
    Ok(Explanation { id: record.id.to_string(), state: record.state, summary, reasons, position, holder: None })
}

fn reasons(
    record: &RunRecord,
    queue: &Queue,
    kind: &str,
    workers: &[Worker],
    held_of_key: Option<u64>,
    position: Option<u64>,
    now: Millis,
) -> Vec<WaitReason> {
    let mut reasons = Vec::new();
    let mut because = |code: &str, message: String| reasons.push(WaitReason { code: code.into(), message });
    if record.state == State::Sleeping && record.due_at >= FOR_GOOD {
        because("message", "It sleeps until a message comes: a signal, or the end of a child.".into());
    } else if record.state == State::Sleeping && record.due_at > now {
        let left = record.due_at - now;
        because("due_later", format!("It sleeps until {}, for another {left} ms.", Time(record.due_at)));
    } else if record.due_at > now {
        let what = if record.failures > 0 { "Its next attempt is due" } else { "It is due" };
        because("due_later", format!("{what} at {}, in {} ms.", Time(record.due_at), record.due_at - now));
    }
    if let Some(until) = queue.paused_until.filter(|until| *until > now) {
        let end = match until {
            Millis::MAX => "somebody resumes it".to_owned(),
            until => Time(until).to_string(),
        };
        because("queue_paused", format!("The queue {} is paused until {end}.", queue.name));
    }
    let able = |worker: &&Worker| worker.status == WorkerStatus::Online;
    if workers.is_empty() {
        because("no_worker", format!("No worker that is online serves the queue {} and the type {kind}.", queue.name));
    } else if !workers.iter().filter(able).any(|worker| worker.unfit.is_none() && worker.active < worker.max_concurrent)
    {
        let (draining, unfit) = (
            workers.iter().filter(|worker| worker.status == WorkerStatus::Draining).count(),
            workers.iter().filter(|worker| worker.unfit.is_some()).count(),
        );
        because(
            "all_busy",
            format!(
                "Every worker for it is busy: {} online or draining, {draining} of them draining, {unfit} under a health floor.",
                workers.len()
            ),
        );
    }
    if let (Some(held), Some(limit), Some(key)) = (held_of_key, queue.key_limit, &record.key) {
        because("key_limit", format!("{held} runs with the key {key} are held, of {limit} allowed at once."));
    }
    if let Some(per_second) = queue.rate_per_second {
        let empty = rate::Bucket { tokens: 0.0, at: now };
        let wait = rate::wait_ms(empty, per_second, now);
        because("rate_limit", format!("The queue hands out {per_second} runs a second, one each {wait} ms."));
    }
    match position {
        Some(before) if before > 0 => because("position", format!("{before} runs stand before it.")),
        _ => {}
    }
    reasons
}
