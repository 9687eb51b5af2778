//! coverage: which types of a queue have work or workers, who serves them, and which nobody serves.

use std::collections::{BTreeMap, HashMap};

use baton_core::Millis;
use baton_proto::{QueueView, WorkerView};
use baton_store::{LaneId, LaneName, Page, Queue, Scope, Worker, WorkerFilter, WorkerStatus};

use super::workers::view;
use crate::auth::Caller;
use crate::{App, Error};

/// Workers that are read at once.
const PAGE_WORKERS: usize = 1_000;
/// Workers that are looked at. Where there are more, nobody says that a type has none.
const WORKERS_MAX: usize = 5_000;
/// Workers that are gone, and are looked at to find out since when a type has none.
const GONE_MAX: usize = 200;
/// Counting stops here: a longer lane is shown as this long, or longer. Pages are looked at again and again.
pub const COUNTED_MAX: u64 = 1_000;

/// A type of a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeServed {
    /// Its name.
    pub kind: String,
    /// Runs of it that could be claimed now.
    pub ready: u64,
    /// How long the oldest of them has been due.
    pub oldest_ms: Option<Millis>,
    /// Workers that are online and serve it.
    pub workers: usize,
    /// Since when it has had work and nobody who serves it; none while somebody does.
    pub unserved_since: Option<Millis>,
}

/// Who serves what in a queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Coverage {
    /// Types with work or with workers, by name; those that nobody serves come first.
    pub types: Vec<TypeServed>,
    /// Workers that serve the queue and are not offline, by name.
    pub workers: Vec<WorkerView>,
}

impl Coverage {
    /// The types that have work and nobody who serves them.
    pub fn unserved(&self) -> impl Iterator<Item = &TypeServed> {
        self.types.iter().filter(|one| one.unserved_since.is_some())
    }

    /// Runs that the workers that are online can hold at once, and those that they hold.
    pub fn places(&self) -> (u64, u64) {
        let online = self.workers.iter().filter(|worker| worker.status == "ONLINE");
        online.fold((0, 0), |(most, held), worker| {
            (most + u64::from(worker.max_concurrent), held + u64::from(worker.active))
        })
    }
}

/// What a queue does, and what limits it.
#[derive(Clone, PartialEq, Debug)]
pub enum Flow {
    /// Its namespace takes nothing new, and hands nothing out.
    Disabled,
    /// It hands nothing out until this moment; `Millis::MAX` is until somebody resumes it.
    Paused(Millis),
    /// These types have work and nobody who serves them. The others may flow.
    Unserved(Vec<String>),
    /// Runs wait, and every worker for them is full.
    Full,
    /// Runs wait for the rate that was set.
    Rate(f64),
    /// Runs wait for others of their key.
    Keys(u32),
    /// Runs are handed out.
    Flowing,
    /// Nothing waits, and nothing runs.
    Idle,
}

impl Flow {
    /// What a queue does. The first reason is told: without a change to it the others do not matter.
    pub fn of(queue: &QueueView, coverage: &Coverage, is_disabled: bool) -> Flow {
        let unserved: Vec<String> = coverage.unserved().map(|one| one.kind.clone()).collect();
        let (places, held) = coverage.places();
        match queue {
            _ if is_disabled => Flow::Disabled,
            QueueView { paused: true, paused_until, .. } => {
                Flow::Paused(paused_until.map_or(Millis::MAX, |until| until.0))
            }
            _ if !unserved.is_empty() => Flow::Unserved(unserved),
            QueueView { ready: 0, held: 0, .. } => Flow::Idle,
            QueueView { ready: 0, .. } => Flow::Flowing,
            _ if places > 0 && held >= places => Flow::Full,
            QueueView { rate_per_second: Some(rate), .. } => Flow::Rate(*rate),
            QueueView { key_limit: Some(limit), .. } => Flow::Keys(*limit),
            _ => Flow::Flowing,
        }
    }

    /// What a queue does, as far as its namespace lets it.
    pub fn in_namespace(app: &App, queue: &QueueView, coverage: &Coverage) -> Flow {
        Flow::of(queue, coverage, app.namespaces.is_disabled(&queue.namespace))
    }
}

/// Who serves what in each of these queues.
pub async fn of(
    app: &App,
    caller: &Caller,
    namespace: &str,
    queues: &[String],
) -> Result<HashMap<String, Coverage>, Error> {
    caller.may(Scope::Read, namespace)?;
    let mut lanes = BTreeMap::new();
    for lane in app.lanes.find(Some(namespace), None, None).await? {
        let name = app.lanes.name(lane).await?;
        lanes.extend(name.filter(|name| queues.contains(&name.queue)).map(|name| (lane, name)));
    }
    let alive = alive(app, Some(namespace)).await?;
    let numbers: Vec<LaneId> = lanes.keys().copied().collect();
    let depths = app.store.lane_depths(&numbers, COUNTED_MAX).await?;
    let now = app.store.now().await?;
    let mut found: HashMap<String, Coverage> =
        queues.iter().map(|queue| (queue.clone(), Coverage { types: Vec::new(), workers: alive.of(queue) })).collect();
    for depth in depths {
        let Some(name) = lanes.get(&depth.lane) else { continue };
        let workers = alive.serving(name);
        if depth.ready == 0 && workers == 0 {
            continue;
        }
        let is_unserved = workers == 0 && depth.ready > 0 && !alive.is_cut;
        if let Some(coverage) = found.get_mut(&name.queue) {
            coverage.types.push(TypeServed {
                kind: name.kind.clone(),
                ready: depth.ready,
                oldest_ms: depth.oldest_ms,
                workers,
                unserved_since: is_unserved.then(|| now - depth.oldest_ms.unwrap_or(0)),
            });
        }
    }
    for (queue, coverage) in &mut found {
        alive.add_idle_types(queue, coverage);
        if coverage.unserved().next().is_some() {
            since(app, namespace, queue, coverage).await?;
        }
        coverage.types.sort_by(|one, other| {
            (other.unserved_since.is_some(), &one.kind).cmp(&(one.unserved_since.is_some(), &other.kind))
        });
    }
    Ok(found)
}

/// A type has been without a worker only since its last one went.
async fn since(app: &App, namespace: &str, queue: &str, coverage: &mut Coverage) -> Result<(), Error> {
    let gone = gone(app, namespace, queue).await?;
    for one in &mut coverage.types {
        let last =
            gone.iter().filter(|worker| worker.info.types.contains(&one.kind)).map(|worker| worker.seen_at).max();
        one.unserved_since = one.unserved_since.map(|since| last.map_or(since, |last| since.max(last)));
    }
    Ok(())
}

/// Workers that served a queue and are gone, the newest.
async fn gone(app: &App, namespace: &str, queue: &str) -> Result<Vec<Worker>, Error> {
    let filter = WorkerFilter {
        namespace: Some(namespace.to_owned()),
        status: Some(WorkerStatus::Offline),
        queue: Some(queue.to_owned()),
    };
    Ok(app.store.workers(&filter, Page { after: None, limit: GONE_MAX }).await?)
}

/// The workers of a namespace, or of all, that are not offline.
pub(super) struct Alive {
    workers: Vec<Worker>,
    /// There are more than were read.
    pub(super) is_cut: bool,
}

pub(super) async fn alive(app: &App, namespace: Option<&str>) -> Result<Alive, Error> {
    let mut alive = Alive { workers: Vec::new(), is_cut: false };
    for status in [WorkerStatus::Online, WorkerStatus::Draining] {
        let filter =
            WorkerFilter { namespace: namespace.map(str::to_owned), status: Some(status), ..WorkerFilter::default() };
        let mut after = None;
        loop {
            let page = app.store.workers(&filter, Page { after, limit: PAGE_WORKERS }).await?;
            after = page.last().map(|worker| worker.id);
            let is_last = page.len() < PAGE_WORKERS;
            alive.workers.extend(page);
            alive.is_cut = !is_last && alive.workers.len() >= WORKERS_MAX;
            if is_last || alive.is_cut {
                break;
            }
        }
        if alive.is_cut {
            break;
        }
    }
    Ok(alive)
}

impl Alive {
    /// How many of those that are online serve a lane.
    pub(super) fn serving(&self, lane: &LaneName) -> usize {
        let serves = |worker: &&Worker| {
            worker.status == WorkerStatus::Online
                && worker.namespace == lane.namespace
                && worker.info.queues.contains(&lane.queue)
                && worker.info.types.contains(&lane.kind)
        };
        self.workers.iter().filter(serves).count()
    }

    /// Runs that those that are online and serve a queue can hold at once, and those that they hold.
    pub(super) fn places(&self, queue: &Queue) -> (u64, u64) {
        let serves = |worker: &&Worker| {
            worker.status == WorkerStatus::Online
                && worker.namespace == queue.namespace
                && worker.info.queues.contains(&queue.name)
        };
        self.workers.iter().filter(serves).fold((0, 0), |(most, held), worker| {
            (most + u64::from(worker.max_concurrent), held + u64::from(worker.active))
        })
    }

    /// When a worker that is gone and served one of these types was heard of last.
    pub(super) async fn last_seen(
        app: &App,
        namespace: &str,
        queue: &str,
        types: &[&str],
    ) -> Result<Option<Millis>, Error> {
        let gone = gone(app, namespace, queue).await?;
        let served = gone.iter().filter(|worker| worker.info.types.iter().any(|kind| types.contains(&kind.as_str())));
        Ok(served.map(|worker| worker.seen_at).max())
    }

    fn of(&self, queue: &str) -> Vec<WorkerView> {
        let serves = |worker: &&Worker| worker.info.queues.iter().any(|name| name == queue);
        let mut found: Vec<WorkerView> = self.workers.iter().filter(serves).cloned().map(view).collect();
        found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        found
    }

    /// Types that workers serve and nobody has submitted yet.
    fn add_idle_types(&self, queue: &str, coverage: &mut Coverage) {
        let mut idle = BTreeMap::<&str, usize>::new();
        let serving = self.workers.iter().filter(|worker| {
            worker.status == WorkerStatus::Online && worker.info.queues.iter().any(|name| name == queue)
        });
        for kind in serving.flat_map(|worker| &worker.info.types) {
            *idle.entry(kind).or_default() += 1;
        }
        for one in &coverage.types {
            idle.remove(one.kind.as_str());
        }
        coverage.types.extend(idle.into_iter().map(|(kind, workers)| TypeServed {
            kind: kind.to_owned(),
            ready: 0,
            oldest_ms: None,
            workers,
            unserved_since: None,
        }));
    }
}

#[cfg(test)]
mod tests {
    use baton_proto::Time;

    use super::*;

    fn queue() -> QueueView {
        QueueView {
            namespace: "default".into(),
            name: "mail".into(),
            ready: 4,
            scheduled: 0,
            held: 1,
            sleeping: 0,
            oldest_ms: Some(1),
            paused: false,
            paused_until: None,
            backlog_max: 10,
            rate_per_second: None,
            key_limit: None,
        }
    }

    fn coverage(unserved: &[&str]) -> Coverage {
        let one = |kind: &&str| TypeServed {
            kind: (*kind).to_owned(),
            ready: 1,
            oldest_ms: Some(1),
            workers: 0,
            unserved_since: Some(1),
        };
        Coverage { types: unserved.iter().map(one).collect(), workers: Vec::new() }
    }

    #[test]
    fn the_reason_that_has_to_go_first_is_told() {
        let none = coverage(&[]);
        let paused = QueueView { paused: true, paused_until: Some(Time(9)), ..queue() };
        assert_eq!(Flow::of(&paused, &coverage(&["digest"]), true), Flow::Disabled);
        assert_eq!(Flow::of(&paused, &coverage(&["digest"]), false), Flow::Paused(9));
        assert_eq!(Flow::of(&queue(), &coverage(&["digest"]), false), Flow::Unserved(vec!["digest".into()]));
        assert_eq!(Flow::of(&queue(), &none, false), Flow::Flowing);
        assert_eq!(Flow::of(&QueueView { rate_per_second: Some(2.0), ..queue() }, &none, false), Flow::Rate(2.0));
        assert_eq!(Flow::of(&QueueView { key_limit: Some(2), ..queue() }, &none, false), Flow::Keys(2));
        assert_eq!(Flow::of(&QueueView { ready: 0, ..queue() }, &none, false), Flow::Flowing);
        assert_eq!(Flow::of(&QueueView { ready: 0, held: 0, ..queue() }, &none, false), Flow::Idle);
    }
}
