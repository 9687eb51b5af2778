//! explain: why a run is not running yet; or who holds it, and until when.

use std::collections::HashMap;

use baton_core::{Millis, RunId, State, rate};
use baton_proto::{Explanation, Holder, Time, WaitReason};
use baton_store::{
    FOR_GOOD, LaneName, Page, Queue, QueueId, RunRecord, Scope, StepKind, Waits, Worker, WorkerFilter, WorkerStatus,
};

use super::visible;
use crate::auth::Caller;
use crate::{App, Error};

/// Counting stops here.
const POSITION_CAP: u64 = 10_000;
/// And here where many runs are explained at once.
pub const PLACE_CAP: u64 = 200;
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

/// Why a run is not running yet.
#[derive(Clone, PartialEq, Debug)]
pub enum Why {
    /// Nothing of its namespace is handed out.
    NamespaceDisabled,
    /// It sleeps until a message comes.
    Message,
    /// It sleeps until then.
    Sleeps(Millis),
    /// It is due then; for another attempt, if it failed before.
    Due {
        /// When.
        at: Millis,
        /// Whether it failed before.
        is_retry: bool,
    },
    /// Its queue is paused until then; `Millis::MAX` means until somebody resumes it.
    Paused(Millis),
    /// Nobody serves its queue and its type.
    NoWorker,
    /// The workers that serve it have no free slot.
    AllBusy {
        /// Online or draining.
        workers: usize,
        /// Draining.
        draining: usize,
        /// Under a health floor.
        unfit: usize,
    },
    /// Its key has no room.
    KeyLimit {
        /// Runs with its key that are held.
        held: u64,
        /// Those that may be.
        limit: u32,
    },
    /// Its queue hands out so many a second.
    Rate(f64),
    /// So many stand before it.
    Position(u64),
}

impl Why {
    /// The code on the wire.
    pub fn code(&self) -> &'static str {
        match self {
            Why::NamespaceDisabled => "namespace_disabled",
            Why::Message => "message",
            Why::Sleeps(_) | Why::Due { .. } => "due_later",
            Why::Paused(_) => "queue_paused",
            Why::NoWorker => "no_worker",
            Why::AllBusy { .. } => "all_busy",
            Why::KeyLimit { .. } => "key_limit",
            Why::Rate(_) => "rate_limit",
            Why::Position(_) => "position",
        }
    }

    fn message(&self, lane: &LaneName, key: Option<&str>, now: Millis) -> String {
        let LaneName { namespace, queue, kind } = lane;
        match self {
            Why::NamespaceDisabled => format!("The namespace {namespace} is disabled: nothing of it is handed out."),
            Why::Message => "It sleeps until a message comes: a signal, or the end of a child.".into(),
            Why::Sleeps(until) => format!("It sleeps until {}, for another {} ms.", Time(*until), until - now),
            Why::Due { at, is_retry } => {
                let what = if *is_retry { "Its next attempt is due" } else { "It is due" };
                format!("{what} at {}, in {} ms.", Time(*at), at - now)
            }
            Why::Paused(Millis::MAX) => format!("The queue {queue} is paused until somebody resumes it."),
            Why::Paused(until) => format!("The queue {queue} is paused until {}.", Time(*until)),
            Why::NoWorker => format!("No worker that is online serves the queue {queue} and the type {kind}."),
            Why::AllBusy { workers, draining, unfit } => format!(
                "Every worker for it is busy: {workers} online or draining, {draining} of them draining, {unfit} under a health floor."
            ),
            Why::KeyLimit { held, limit } => {
                format!("{held} runs with the key {} are held, of {limit} allowed at once.", key.unwrap_or_default())
            }
            Why::Rate(per_second) => {
                let wait = rate::wait_ms(rate::Bucket { tokens: 0.0, at: now }, *per_second, now);
                format!("The queue hands out {per_second} runs a second, one each {wait} ms.")
            }
            Why::Position(before) => format!("{before} runs stand before it."),
        }
    }
}

/// What reasons are made of, for all runs of a namespace.
pub(crate) struct Ground {
    namespace: String,
    is_disabled: bool,
    queues: HashMap<String, Queue>,
    workers: Vec<Worker>,
    /// The moment.
    pub(crate) now: Millis,
}

impl Ground {
    /// What is to be known of a namespace, or of one of its queues.
    pub(crate) async fn of(app: &App, namespace: &str, queue: Option<&str>) -> Result<Ground, Error> {
        let queues = app.store.queues(Some(namespace)).await?;
        let filter = WorkerFilter {
            namespace: Some(namespace.to_owned()),
            queue: queue.map(str::to_owned),
            ..WorkerFilter::default()
        };
        let mut workers = app.store.workers(&filter, Page { after: None, limit: WORKERS_MAX }).await?;
        workers.retain(|worker| worker.status != WorkerStatus::Offline);
        Ok(Ground {
            namespace: namespace.to_owned(),
            is_disabled: app.namespaces.is_disabled(namespace),
            queues: queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect(),
            workers,
            now: app.store.now().await?,
        })
    }

    /// Why nothing of a lane is handed out, whichever run it is.
    pub(crate) fn of_lane(&self, lane: &LaneName) -> Vec<Why> {
        let mut whys = Vec::new();
        if self.is_disabled && lane.namespace == self.namespace {
            whys.push(Why::NamespaceDisabled);
        }
        let queue = self.queues.get(&lane.queue);
        whys.extend(queue.and_then(|queue| queue.paused_until).filter(|until| *until > self.now).map(Why::Paused));
        let serves =
            |worker: &&Worker| worker.info.types.contains(&lane.kind) && worker.info.queues.contains(&lane.queue);
        let workers: Vec<&Worker> = self.workers.iter().filter(serves).collect();
        let has_room = |worker: &&Worker| {
            worker.status == WorkerStatus::Online && worker.unfit.is_none() && worker.active < worker.max_concurrent
        };
        if workers.is_empty() {
            whys.push(Why::NoWorker);
        } else if !workers.iter().any(has_room) {
            whys.push(Why::AllBusy {
                workers: workers.len(),
                draining: workers.iter().filter(|worker| worker.status == WorkerStatus::Draining).count(),
                unfit: workers.iter().filter(|worker| worker.unfit.is_some()).count(),
            });
        }
        whys
    }

    /// Why a run that waits is not running yet, the first reason first.
    pub(crate) fn of_run(
        &self,
        record: &RunRecord,
        lane: &LaneName,
        held_of_key: Option<u64>,
        position: Option<u64>,
    ) -> Vec<Why> {
        let now = self.now;
        let mut whys = Vec::new();
        let mut of_lane = self.of_lane(lane);
        if of_lane.first() == Some(&Why::NamespaceDisabled) {
            whys.push(of_lane.remove(0));
        }
        if record.state == State::Sleeping && record.due_at >= FOR_GOOD {
            whys.push(Why::Message);
        } else if record.state == State::Sleeping && record.due_at > now {
            whys.push(Why::Sleeps(record.due_at));
        } else if record.due_at > now {
            whys.push(Why::Due { at: record.due_at, is_retry: record.failures > 0 });
        }
        whys.extend(of_lane);
        let queue = self.queues.get(&lane.queue);
        if let (Some(held), Some(limit)) = (held_of_key, queue.and_then(|queue| queue.key_limit)) {
            whys.push(Why::KeyLimit { held, limit });
        }
        whys.extend(queue.and_then(|queue| queue.rate_per_second).map(Why::Rate));
        whys.extend(position.filter(|before| *before > 0).map(Why::Position));
        whys
    }

    fn queue(&self, lane: &LaneName) -> Result<&Queue, Error> {
        self.queues.get(&lane.queue).ok_or(Error::Internal)
    }
}

/// Keys whose runs are counted for one page.
const KEYS_MAX: usize = 10;

/// Why each of these runs of a namespace is not running yet: the first reason, and how many stand before it. With a few
/// statements for all of them.
pub(crate) async fn many(
    app: &App,
    namespace: &str,
    runs: &[(&RunRecord, &LaneName)],
) -> Result<HashMap<RunId, (Option<Why>, Option<u64>)>, Error> {
    let waits = |record: &RunRecord| matches!(record.state, State::Pending | State::Sleeping);
    let waiting: Vec<_> = runs.iter().filter(|(record, _)| waits(record)).collect();
    if waiting.is_empty() {
        return Ok(HashMap::new());
    }
    let ground = Ground::of(app, namespace, None).await?;
    let due = waiting.iter().filter(|(record, _)| record.state == State::Pending && record.due_at <= ground.now);
    let ids: Vec<RunId> = due.map(|(record, _)| record.id).collect();
    let positions: HashMap<RunId, u64> = app.store.positions(&ids, PLACE_CAP).await?.into_iter().collect();
    let mut held_of_keys: HashMap<(QueueId, &str), u64> = HashMap::new();
    for (record, lane) in &waiting {
        let Some(key) = record.key.as_deref().filter(|_| record.blocked) else { continue };
        let queue = ground.queue(lane)?.id;
        if held_of_keys.len() < KEYS_MAX && !held_of_keys.contains_key(&(queue, key)) {
            held_of_keys.insert((queue, key), app.store.key_held(queue, key).await?);
        }
    }
    let mut found = HashMap::new();
    for (record, lane) in waiting {
        let queue = ground.queue(lane)?;
        let held = match (&record.key, record.blocked) {
            // Where there are too many keys to count: it waits for room, so that all that may be held are.
            (Some(key), true) => {
                held_of_keys.get(&(queue.id, key.as_str())).copied().or_else(|| queue.key_limit.map(u64::from))
            }
            _ => None,
        };
        let place = positions.get(&record.id).copied();
        let whys = ground.of_run(record, lane, held, place);
        found.insert(record.id, (whys.into_iter().next(), place));
    }
    Ok(found)
}

async fn waiting(app: &App, record: RunRecord) -> Result<Explanation, Error> {
    let lane = app.lanes.name(record.lane).await?.ok_or(Error::Internal)?;
    let ground = Ground::of(app, &lane.namespace, Some(&lane.queue)).await?;
    let queue = ground.queue(&lane)?;
    let position = match record.due_at <= ground.now {
        true => app.store.position(record.id, POSITION_CAP).await?,
        false => None,
    };
    let held_of_key = match (&record.key, record.blocked) {
        (Some(key), true) => Some(app.store.key_held(queue.id, key).await?),
        _ => None,
    };
    let whys = ground.of_run(&record, &lane, held_of_key, position);
    let said = |why: &Why| WaitReason {
        code: why.code().into(),
        message: why.message(&lane, record.key.as_deref(), ground.now),
    };
    let reasons: Vec<WaitReason> = whys.iter().map(said).collect();
    let summary = reasons.first().map_or_else(
        || "Nothing keeps it: a worker should take it at any moment.".to_owned(),
        |reason| reason.message.clone(),
    );
    Ok(Explanation { id: record.id.to_string(), state: record.state, summary, reasons, position, holder: None })
}
