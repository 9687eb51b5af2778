//! Reading builds: one, lists, counts.

use baton_core::{RunId, State, WorkerId};
use baton_proto::{BuildFile, BuildPage, BuildStatus, BuildView, FollowedBuild, ListedBuild, Time};
use baton_store::{Artifact, ArtifactKind, Build, BuildCounts, LeaseRef, Page, RunFilter, RunRecord, Scope};

use super::{Found, QUEUE, Reader, files, namespace_of, states_of, status_of, visible};
use crate::auth::Caller;
use crate::{App, Error};

/// Counting a position stops here.
const POSITION_MAX: u64 = 10_000;

/// Which builds to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In this state.
    pub status: Option<BuildStatus>,
    /// For this platform.
    pub platform: Option<String>,
    /// With this builder, now or at their end.
    pub worker: Option<WorkerId>,
}

/// One build, as existing clients follow it.
pub async fn followed(app: &App, reader: &Reader<'_>, id: &str) -> Result<FollowedBuild, Error> {
    let found = visible(app, reader, Scope::Read, id).await?;
    let record = &found.record;
    let mut shown = as_followed(view(app, record, &found.build).await?);
    shown.queue_position = match record.state {
        State::Pending => app.store.position(record.id, POSITION_MAX).await?.map(|before| before + 1),
        _ => None,
    };
    shown.progress = match record.state {
        State::Assigned | State::Running => app
            .store
            .machine(LeaseRef { run: record.id, epoch: record.epoch })
            .await?
            .and_then(|machine| machine.progress),
        State::Completed => Some(100.0),
        State::Pending | State::Sleeping | State::Failed | State::Cancelled => None,
    };
    Ok(shown)
}

fn as_followed(view: BuildView) -> FollowedBuild {
    let is_cancelled = view.status == BuildStatus::Cancelled;
    FollowedBuild {
        id: view.id,
        status: if is_cancelled { BuildStatus::Failed } else { view.status },
        platform: view.platform,
        worker_id: view.worker_id,
        submitted_at: view.submitted_at.0,
        started_at: view.started_at.map(|time| time.0),
        completed_at: view.completed_at.map(|time| time.0),
        error_message: if is_cancelled { Some("Build cancelled by user".into()) } else { view.error_message },
        progress: None,
        queue_position: None,
    }
}

/// One build.
pub async fn one(app: &App, reader: &Reader<'_>, id: &str) -> Result<BuildView, Error> {
    let found = visible(app, reader, Scope::Read, id).await?;
    let all = app.store.artifacts(found.record.id).await?;
    let position = match found.record.state {
        State::Pending => app.store.position(found.record.id, POSITION_MAX).await?,
        _ => None,
    };
    let mut view = view(app, &found.record, &found.build).await?;
    // The store counts those before it; people count from one.
    view.queue_position = position.map(|before| before + 1);
    view.files = [ArtifactKind::Source, ArtifactKind::Result]
        .into_iter()
        .filter_map(|kind| files::of_kind(all.clone(), &found, kind))
        .filter_map(file)
        .collect();
    Ok(view)
}

fn file(artifact: Artifact) -> Option<BuildFile> {
    let (size, sum) = artifact.stored?;
    let kind = match artifact.kind {
        ArtifactKind::Source => "source",
        ArtifactKind::Result => "result",
        ArtifactKind::Certs | ArtifactKind::Draft => return None,
    };
    let sha256 = crate::artifacts::Sha256Sum(sum).to_string();
    Some(BuildFile { kind: kind.into(), name: artifact.name, size, sha256 })
}

/// A page of builds of the caller's namespace, newest first.
pub async fn list(app: &App, caller: &Caller, wanted: &Filter, page: Page<RunId>) -> Result<BuildPage, Error> {
    caller.may(Scope::Read, namespace_of(caller))?;
    let lanes = app.lanes.find(caller.namespace.as_deref(), Some(QUEUE), wanted.platform.as_deref()).await?;
    let states = wanted.status.map(states_of).into_iter().collect();
    let filter = RunFilter { lanes: Some(lanes), states, worker: wanted.worker, ..RunFilter::default() };
    let records = app.store.runs(&filter, page).await?;
    let total = app.store.count_runs(&filter).await?;
    let full = records.len() == page.limit;
    let next_cursor = records.last().filter(|_| full).map(|record| record.id.to_string());
    let builds = views(app, records).await?.into_iter().map(ListedBuild::from).collect();
    Ok(BuildPage { builds, total, next_cursor })
}

/// The builds that somebody works on now.
pub async fn active(app: &App, caller: &Caller) -> Result<Vec<FollowedBuild>, Error> {
    let mut all = Vec::new();
    for status in [BuildStatus::Assigned, BuildStatus::Building] {
        let wanted = Filter { status: Some(status), ..Filter::default() };
        let page = Page { after: None, limit: baton_proto::PAGE_MAX };
        let builds = list(app, caller, &wanted, page).await?.builds;
        all.extend(builds.into_iter().map(|listed| as_followed(listed.build)));
    }
    Ok(all)
}

/// How many builds there are of each kind, in the caller's namespace.
pub async fn counts(app: &App, caller: &Caller) -> Result<BuildCounts, Error> {
    caller.may(Scope::Read, namespace_of(caller))?;
    Ok(app.store.count_builds(caller.namespace.as_deref(), i64::MAX).await?)
}

async fn views(app: &App, records: Vec<RunRecord>) -> Result<Vec<BuildView>, Error> {
    let runs: Vec<RunId> = records.iter().map(|record| record.id).collect();
    let builds = app.store.builds(&runs).await?;
    let mut views = Vec::with_capacity(records.len());
    // Somebody may have submitted a plain run to the queue of builds.
    for (record, build) in records.iter().zip(builds) {
        if let Some(build) = build {
            views.push(view(app, record, &build).await?);
        }
    }
    Ok(views)
}

pub(super) async fn view(app: &App, record: &RunRecord, build: &Build) -> Result<BuildView, Error> {
    let worker_id = match record.worker {
        Some(worker) => Some(builder_name(app, worker).await?),
        None => None,
    };
    Ok(BuildView {
        id: record.id.to_string(),
        status: status_of(record.state),
        platform: build.submitted.platform.clone(),
        project: build.submitted.project.clone(),
        priority: record.priority,
        submitted_at: Time(record.submitted_at),
        started_at: record.started_at.map(Time),
        completed_at: record.ended_at.map(Time),
        worker_id,
        error_message: error_message(record),
        attempts: record.epoch.number(),
        queue_position: None,
        original_build_id: record.retry_of.map(|run| run.to_string()),
        files: vec![],
    })
}

fn error_message(record: &RunRecord) -> Option<String> {
    let reason = || record.reason.map(|reason| reason.as_str().to_owned());
    match record.state {
        State::Failed => record.error.clone().filter(|error| !error.is_empty()).or_else(reason),
        State::Cancelled => record.error.clone().or_else(reason),
        _ => None,
    }
}

/// What a worker is called where people see it: a builder by the name it chose, others by their identifier.
pub(super) async fn builder_name(app: &App, worker: WorkerId) -> Result<String, Error> {
    let known = app.workers.get(worker).await?;
    Ok(known.and_then(|known| known.builder.clone()).unwrap_or_else(|| worker.to_string()))
}

/// As [`view`], for a build that was just changed.
pub(super) async fn again(app: &App, found: &Found) -> Result<BuildView, Error> {
    let record = app.store.run(found.record.id).await?.unwrap_or_else(|| found.record.clone());
    view(app, &record, &found.build).await
}
