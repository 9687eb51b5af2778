//! Which rows a list has, in which order, and what has to be asked for them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use baton::State;
use baton::proto::{PoolView, QueueView, RunView, WorkerView};
use baton_core::Millis;

use crate::app::{App, Subject, View};
use crate::ask::{Ask, Lane, Named};
use crate::filter::Filter;

/// Lanes that are asked about in one round.
const LANES_MAX: usize = 4;
/// Queues whose types are asked for in one round.
const SAMPLES_MAX: usize = 8;
/// Offline workers are of interest for a day.
const OFFLINE_SHOWN: Millis = 24 * 3_600_000;

impl Named {
    pub fn queue(queue: &QueueView) -> Named {
        Named { namespace: queue.namespace.clone(), name: queue.name.clone() }
    }

    pub fn pool(pool: &PoolView) -> Named {
        Named { namespace: pool.namespace.clone(), name: pool.name.clone() }
    }
}

fn filter(app: &App) -> Filter {
    app.filter().unwrap_or_default()
}

/// Queues by name.
pub fn queues(app: &App) -> Vec<&QueueView> {
    let filter = filter(app);
    let all = app.facts.queues.iter().flatten();
    all.filter(|queue| {
        let state = if queue.paused { "paused" } else { "" };
        filter.fits([queue.namespace.as_str(), queue.name.as_str(), state])
    })
    .collect()
}

/// The runs of the page, newest first.
pub fn runs(app: &App) -> Vec<&RunView> {
    let filter = filter(app);
    let all = app.facts.runs.iter().flat_map(|(_, runs)| runs);
    all.filter(|run| {
        let parts = [Some(&run.id), Some(&run.kind), Some(&run.queue), run.key.as_ref(), run.error.as_ref()];
        let holder = run.worker_id.as_deref().and_then(|id| app.facts.worker(id)).map(|worker| worker.name.as_str());
        filter.fits(parts.into_iter().flatten().map(String::as_str).chain(holder).chain([state_word(run)]))
    })
    .collect()
}

/// Workers: those in trouble first, then those at work, then those that have gone within a day.
pub fn workers(app: &App, now: Millis) -> Vec<&WorkerView> {
    let filter = filter(app);
    let mut all: Vec<_> = app
        .facts
        .workers
        .values()
        .flatten()
        .filter(|worker| worker.status != "OFFLINE" || now - worker.seen_at.0 < OFFLINE_SHOWN)
        .filter(|worker| {
            let own = [worker.id.as_str(), worker.name.as_str(), worker.hostname.as_str(), worker.status.as_str()];
            let lists = worker.queues.iter().chain(&worker.types).map(String::as_str);
            filter.fits(own.into_iter().chain(lists))
        })
        .collect();
    all.sort_by_key(|worker| {
        let trouble = trouble(worker, now);
        let gone = (trouble == Trouble::Gone).then_some(Reverse(worker.seen_at.0));
        (trouble, gone, worker.name.clone(), worker.id.clone())
    });
    all
}

/// What is wrong with a worker, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Trouble {
    /// Its lease is over and nobody has noticed yet.
    Silent,
    Unfit,
    Draining,
    None,
    Gone,
}

pub fn trouble(worker: &WorkerView, now: Millis) -> Trouble {
    match worker.status.as_str() {
        "OFFLINE" => Trouble::Gone,
        _ if worker.lease_until.0 < now => Trouble::Silent,
        _ if worker.unfit.is_some() => Trouble::Unfit,
        "DRAINING" => Trouble::Draining,
        _ => Trouble::None,
    }
}

/// Pools by name.
pub fn pools(app: &App) -> Vec<&PoolView> {
    let filter = filter(app);
    let all = app.facts.pools.iter().flatten();
    all.filter(|pool| filter.fits([pool.namespace.as_str(), pool.name.as_str(), pool.provider.as_str()])).collect()
}

/// What the rows of the list are.
pub fn subjects(app: &App) -> Vec<Subject> {
    match app.view {
        View::Queues => queues(app).into_iter().map(|queue| Subject::Queue(Named::queue(queue))).collect(),
        View::Runs => runs(app).into_iter().map(|run| Subject::Run(run.id.clone())).collect(),
        // Rows in trouble are sorted at the moment of drawing; that moment is kept.
        View::Workers => {
            workers(app, app.drawn_at).into_iter().map(|worker| Subject::Worker(worker.id.clone())).collect()
        }
        View::Pools => pools(app).into_iter().map(|pool| Subject::Pool(Named::pool(pool))).collect(),
    }
}

/// Finds the chosen row again after rows have come and gone.
pub fn keep_place(app: &mut App) {
    let subjects = subjects(app);
    let place = app.place_mut();
    if let Some(subject) = &place.subject
        && let Some(row) = subjects.iter().position(|other| other == subject)
    {
        place.row = row;
    } else {
        place.row = place.row.min(subjects.len().saturating_sub(1));
        place.subject = None;
    }
}

/// The rows that are on the screen.
fn shown(app: &App, count: usize) -> std::ops::Range<usize> {
    let first = app.place().offset.min(count);
    first..(first + app.rows_shown).min(count)
}

/// The state of a run in the word that is shown.
pub fn state_word(run: &RunView) -> &'static str {
    match run.state {
        State::Pending => "waiting",
        State::Assigned | State::Running if run.cancel_by.is_some() => "cancelling",
        State::Assigned => "starting",
        State::Running => "running",
        State::Sleeping => "sleeping",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
    }
}

/// Lanes of waiting runs on the screen whose reason is not known or old, each with its oldest run.
pub fn lanes_to_explain(app: &App, now: Millis) -> Vec<(Lane, String)> {
    let runs = runs(app);
    let mut lanes: Vec<(Lane, String)> = Vec::new();
    // The list is newest first: from its end the oldest come first.
    for run in runs[shown(app, runs.len())].iter().rev() {
        // Runs that are due later say so themselves.
        if run.state != State::Pending || run.due_at.0 > now {
            continue;
        }
        let lane = Lane::of(run);
        if !lanes.iter().any(|(known, _)| *known == lane) {
            lanes.push((lane, run.id.clone()));
        }
    }
    let every = Ask::every(&Ask::WhyLane(
        Lane { namespace: String::new(), queue: String::new(), kind: String::new(), key: None },
        String::new(),
    ));
    let every = every.as_millis() as Millis;
    lanes.retain(|(lane, _)| app.facts.why.get(lane).is_none_or(|why| now - why.at >= every));
    lanes.truncate(LANES_MAX);
    lanes
}

/// Queues on the screen in which runs wait: one wants to know their types.
pub fn queues_to_sample(app: &App) -> Vec<Named> {
    let queues = queues(app);
    let shown = queues[shown(app, queues.len())].iter();
    shown.filter(|queue| queue.ready > 0).take(SAMPLES_MAX).map(|queue| Named::queue(queue)).collect()
}

/// Types that wait in a queue and that no worker serves which is online.
pub fn unserved<'a>(app: &'a App, queue: &Named) -> Vec<&'a str> {
    let Some(types) = app.facts.types.get(queue) else { return Vec::new() };
    // Without the list of workers one would call everything unserved.
    let Some(online) = app.facts.workers.get("ONLINE") else { return Vec::new() };
    let serves = |worker: &&WorkerView| worker.namespace == queue.namespace && worker.queues.contains(&queue.name);
    let served: BTreeSet<&str> =
        online.iter().filter(serves).flat_map(|worker| &worker.types).map(String::as_str).collect();
    types.iter().map(String::as_str).filter(|kind| !served.contains(kind)).collect()
}
