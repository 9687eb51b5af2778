//! Lists of runs for people: what the dashboard and `baton top` show. One row shape for plain runs, builds and workflows.

use std::sync::Arc;

use baton_core::{IdPrefix, IdSuffix, Millis, Reason, RunId, WorkerId};
use baton_store::{LaneId, Page, RunSearch, SEARCH_LOOKS_MAX, Scope, WorkerFilter};

pub use baton_store::{
    Build, BuildSource, Due, KeyMatch, LaneName, ListedLease, ListedRun, Phase, PhaseCounts, SearchFrom, StepKind,
};

use super::builds::QUEUE;
use super::explain::{self, Ground, Why};
use super::payloads;
use crate::auth::Caller;
use crate::{App, Error};

/// Workers whose names are looked at.
const WORKERS_MAX: usize = 1_000;
/// Runs that are shown together.
pub const LISTED_MAX: usize = 500;

/// What a run is to people.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListedKind {
    /// A plain run.
    Run,
    /// A build.
    Build,
    /// A workflow.
    Workflow,
}

/// Which runs to list, in words. Of several words of one kind, one has to fit.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ListFilter {
    /// Of this namespace.
    pub namespace: String,
    /// Runs, builds or workflows.
    pub kind: Option<ListedKind>,
    /// Of these queues.
    pub queues: Vec<String>,
    /// Of these types; `*` at the end stands for anything. A workflow's type is found with all of its versions.
    pub types: Vec<String>,
    /// In these phases.
    pub phases: Vec<Phase>,
    /// With workers of these names or identifiers.
    pub workers: Vec<String>,
    /// With such a key.
    pub key: Option<KeyMatch>,
    /// With this in the message of their end.
    pub error: Option<String>,
    /// That ended for this reason.
    pub reason: Option<Reason>,
    /// That wait for this reason: the code of one that holds for a whole lane, or `due_later`.
    pub why: Option<String>,
    /// Submitted then or later.
    pub since: Option<Millis>,
    /// Submitted before.
    pub before: Option<Millis>,
    /// With an identifier that begins like this.
    pub id_prefix: Option<IdPrefix>,
}

/// A row.
#[derive(Clone, PartialEq, Debug)]
pub struct Listed {
    /// The run.
    pub run: ListedRun,
    /// Namespace, queue and type.
    pub lane: Arc<LaneName>,
    /// What it is.
    pub kind: ListedKind,
    /// What is built.
    pub build: Option<Build>,
    /// Where it stands.
    pub phase: Phase,
    /// The first reason why it waits.
    pub why: Option<Why>,
    /// How many stand before it, up to [`explain::PLACE_CAP`].
    pub before: Option<u64>,
}

/// Some rows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ListPage {
    /// Newest first.
    pub runs: Vec<Listed>,
    /// There are more in the same direction.
    pub has_more: bool,
    /// So many were looked at that it was given up: where it goes on.
    pub looked_to: Option<RunId>,
}

/// A page of runs, newest first.
pub async fn page(
    app: &App,
    caller: &Caller,
    filter: &ListFilter,
    from: SearchFrom,
    limit: usize,
) -> Result<ListPage, Error> {
    caller.may(Scope::Read, &filter.namespace)?;
    let limit = limit.min(LISTED_MAX);
    let Some(search) = search(app, filter).await? else { return Ok(ListPage::default()) };
    let mut found = app.store.search_runs(&search, from, limit + 1).await?;
    let has_more = found.runs.len() > limit;
    if has_more {
        let extra = if matches!(from, SearchFrom::Newer(_)) { 0 } else { found.runs.len() - 1 };
        found.runs.remove(extra);
    }
    Ok(ListPage { runs: rows(app, &filter.namespace, &found.runs).await?, has_more, looked_to: found.looked_to })
}

/// How many runs are newer than this one, up to a cap.
pub async fn count_newer(
    app: &App,
    caller: &Caller,
    filter: &ListFilter,
    than: RunId,
    cap: usize,
) -> Result<usize, Error> {
    caller.may(Scope::Read, &filter.namespace)?;
    let Some(search) = search(app, filter).await? else { return Ok(0) };
    Ok(app.store.search_runs(&search, SearchFrom::Newer(than), cap).await?.runs.len())
}

/// How many runs there are of each phase; `None` where that is not counted.
pub async fn counts(app: &App, caller: &Caller, filter: &ListFilter) -> Result<Option<PhaseCounts>, Error> {
    caller.may(Scope::Read, &filter.namespace)?;
    if filter.key.is_some() || filter.why.is_some() {
        return Ok(None);
    }
    let all = ListFilter { phases: Vec::new(), ..filter.clone() };
    match search(app, &all).await? {
        Some(search) => Ok(Some(app.store.count_phases(&search, SEARCH_LOOKS_MAX).await?)),
        None => Ok(Some(PhaseCounts::default())),
    }
}

/// The lanes of a namespace: what is submitted where, and what it is.
pub async fn lanes(app: &App, caller: &Caller, namespace: &str) -> Result<Vec<LaneOf>, Error> {
    caller.may(Scope::Read, namespace)?;
    let mut found = Vec::new();
    for lane in app.lanes.find(Some(namespace), None, None).await? {
        let Some(name) = app.lanes.name(lane).await? else { continue };
        let kind = kind_of(app, lane, &name).await?;
        found.push(LaneOf { lane, name, kind });
    }
    found.sort_unstable_by(|left, right| {
        (&left.name.queue, &left.name.kind).cmp(&(&right.name.queue, &right.name.kind))
    });
    Ok(found)
}

/// A lane, as lists know it.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneOf {
    /// Its number.
    pub lane: LaneId,
    /// Its names.
    pub name: Arc<LaneName>,
    /// What its runs are.
    pub kind: ListedKind,
}

/// How many runs of these lanes have not ended, by phase.
pub async fn count_lanes(
    app: &App,
    caller: &Caller,
    namespace: &str,
    lanes: &[LaneOf],
) -> Result<Vec<(LaneId, Phase, u64)>, Error> {
    caller.may(Scope::Read, namespace)?;
    let own: Vec<LaneId> = lanes.iter().filter(|lane| lane.name.namespace == namespace).map(|lane| lane.lane).collect();
    Ok(app.store.count_lanes(&own, app.store.now().await?).await?)
}

/// These runs, as far as there still are and the caller may see them.
pub async fn those(app: &App, caller: &Caller, namespace: &str, runs: &[RunId]) -> Result<Vec<Listed>, Error> {
    caller.may(Scope::Read, namespace)?;
    rows(app, namespace, &runs[..runs.len().min(LISTED_MAX)]).await
}

/// Runs that a word means: by the beginning or the end of their identifier, the beginning of their key, or the message of
/// their end. Newest first.
pub async fn anywhere(
    app: &App,
    caller: &Caller,
    filter: &ListFilter,
    word: &str,
    limit: usize,
    with_messages: bool,
) -> Result<ListPage, Error> {
    caller.may(Scope::Read, &filter.namespace)?;
    let Some(all) = search(app, filter).await? else { return Ok(ListPage::default()) };
    let mut found: Vec<RunId> = Vec::new();
    let mut looked_to = None;
    if let Some(prefix) = IdPrefix::parse(word) {
        let since = all.since.max(Some(prefix.first));
        let before = all.before.into_iter().chain(prefix.beyond).min();
        let search = RunSearch { since, before, ..all.clone() };
        found.extend(app.store.search_runs(&search, SearchFrom::Newest, limit).await?.runs);
    }
    if let Some(suffix) = IdSuffix::parse(word) {
        let search = RunSearch { id_suffix: Some(suffix), ..RunSearch { now: all.now, ..RunSearch::default() } };
        found.extend(app.store.search_runs(&search, SearchFrom::Newest, limit).await?.runs);
    }
    if filter.key.is_none() {
        let search = RunSearch { key: Some(KeyMatch::Prefix(word.to_owned())), ..all.clone() };
        found.extend(app.store.search_runs(&search, SearchFrom::Newest, limit).await?.runs);
    }
    if with_messages && filter.error.is_none() && word.chars().count() >= ERROR_CHARS_MIN {
        let search = RunSearch { error: Some(word.to_owned()), ..all.clone() };
        let with_error = app.store.search_runs(&search, SearchFrom::Newest, limit).await?;
        looked_to = with_error.looked_to;
        found.extend(with_error.runs);
    }
    found.sort_unstable_by(|left, right| right.cmp(left));
    found.dedup();
    let mut runs = rows(app, &filter.namespace, &found).await?;
    // What was found by the end of its identifier was not filtered yet.
    let fits = |row: &Listed| {
        let record = &row.run.record;
        (all.phases.is_empty() || all.phases.contains(&row.phase))
            && all.lanes.as_ref().is_none_or(|lanes| lanes.contains(&record.lane))
            && all.workers.as_ref().is_none_or(|ids| record.worker.is_some_and(|worker| ids.contains(&worker)))
            && all.since.is_none_or(|since| record.id >= since)
            && all.before.is_none_or(|before| record.id < before)
    };
    runs.retain(fits);
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    Ok(ListPage { runs, has_more, looked_to })
}

/// Shorter words are in too many messages.
const ERROR_CHARS_MIN: usize = 3;

/// The search that a filter stands for; `None` when nothing can fit.
async fn search(app: &App, filter: &ListFilter) -> Result<Option<RunSearch>, Error> {
    let mut phases = filter.phases.clone();
    let of_why = match filter.why.as_deref() {
        None => None,
        Some("due_later") => {
            if !phases.is_empty() && !phases.contains(&Phase::Later) {
                return Ok(None);
            }
            phases = vec![Phase::Later];
            None
        }
        Some(code) => {
            if !phases.is_empty() && !phases.contains(&Phase::Waiting) {
                return Ok(None);
            }
            phases = vec![Phase::Waiting];
            Some((code, Ground::of(app, &filter.namespace, None).await?))
        }
    };
    let mut lanes: Vec<LaneId> = Vec::new();
    for lane in app.lanes.find(Some(&filter.namespace), None, None).await? {
        let Some(name) = app.lanes.name(lane).await? else { continue };
        let kind = kind_of(app, lane, &name).await?;
        let fits_type = |wanted: &String| match wanted.strip_suffix('*') {
            Some(prefix) => name.kind.starts_with(prefix),
            None => name.kind == *wanted || (kind == ListedKind::Workflow && super::workflows::plain(&name) == wanted),
        };
        let fits = filter.kind.is_none_or(|wanted| wanted == kind)
            && (filter.queues.is_empty() || filter.queues.contains(&name.queue))
            && (filter.types.is_empty() || filter.types.iter().any(fits_type))
            && of_why
                .as_ref()
                .is_none_or(|(code, ground)| ground.of_lane(&name).first().is_some_and(|why| why.code() == *code));
        if fits {
            lanes.push(lane);
        }
    }
    if lanes.is_empty() {
        return Ok(None);
    }
    // Where all lanes are meant there is no need to look at them.
    let is_all = app.lanes.count() == lanes.len();
    let workers = match filter.workers.is_empty() {
        true => None,
        false => Some(worker_ids(app, &filter.namespace, &filter.workers).await?),
    };
    if workers.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    let prefix_end = filter.id_prefix.and_then(|prefix| prefix.beyond);
    Ok(Some(RunSearch {
        lanes: (!is_all).then_some(lanes),
        phases,
        workers,
        key: filter.key.clone(),
        error: filter.error.clone(),
        reason: filter.reason,
        id_suffix: None,
        since: filter.since.map(RunId::floor).max(filter.id_prefix.map(|prefix| prefix.first)),
        before: prefix_end.into_iter().chain(filter.before.map(RunId::floor)).min(),
        now: app.store.now().await?,
    }))
}

/// The workers that these names or identifiers stand for.
async fn worker_ids(app: &App, namespace: &str, wanted: &[String]) -> Result<Vec<WorkerId>, Error> {
    let mut ids: Vec<WorkerId> = wanted.iter().filter_map(|text| text.parse().ok()).collect();
    let filter = WorkerFilter { namespace: Some(namespace.to_owned()), ..WorkerFilter::default() };
    let workers = app.store.workers(&filter, Page { after: None, limit: WORKERS_MAX }).await?;
    ids.extend(workers.into_iter().filter(|worker| wanted.contains(&worker.name)).map(|worker| worker.id));
    Ok(ids)
}

async fn kind_of(app: &App, lane: LaneId, name: &LaneName) -> Result<ListedKind, Error> {
    Ok(match (name.queue == QUEUE, app.lanes.known_workflow(lane).await?) {
        (_, true) => ListedKind::Workflow,
        (true, false) => ListedKind::Build,
        (false, false) => ListedKind::Run,
    })
}

/// What is shown of these runs, with a few statements for all of them.
async fn rows(app: &App, namespace: &str, runs: &[RunId]) -> Result<Vec<Listed>, Error> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let now = app.store.now().await?;
    let mut found = Vec::with_capacity(runs.len());
    for run in app.store.listed_runs(runs).await? {
        let lane = app.lanes.name(run.record.lane).await?.ok_or(Error::Internal)?;
        if lane.namespace != namespace {
            continue;
        }
        let kind = kind_of(app, run.record.lane, &lane).await?;
        let phase = Phase::of(&run.record, now);
        found.push(Listed { run, lane, kind, build: None, phase, why: None, before: None });
    }
    let outputs = found.iter_mut().filter_map(|row| row.run.output.as_mut());
    payloads::open(app, outputs).await?;
    for row in &mut found {
        if let Some(output) = row.run.output.take_if(|output| baton_core::payload::looks_like_a_reference(output)) {
            row.run.output_bytes = baton_core::payload::size(&output);
        }
    }
    let of_builds: Vec<usize> =
        found.iter().enumerate().filter(|(_, row)| row.kind == ListedKind::Build).map(|(index, _)| index).collect();
    let ids: Vec<RunId> = of_builds.iter().map(|index| found[*index].run.record.id).collect();
    if !ids.is_empty() {
        for (index, build) in of_builds.into_iter().zip(app.store.builds(&ids).await?) {
            // Somebody may have submitted a plain run to the queue of builds.
            if build.is_none() {
                found[index].kind = ListedKind::Run;
            }
            found[index].build = build;
        }
    }
    let asked: Vec<_> = found.iter().map(|row| (&row.run.record, &*row.lane)).collect();
    let mut whys = explain::many(app, namespace, &asked).await?;
    for row in &mut found {
        (row.why, row.before) = whys.remove(&row.run.record.id).unwrap_or_default();
    }
    Ok(found)
}
