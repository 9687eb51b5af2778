//! submit: takes builds in.

use baton_core::machine::Options;
use baton_core::order::{PRIORITY_DEFAULT, PRIORITY_MAX};
use baton_core::{RetryPolicy, RunId};
use baton_proto::{SubmittedBuild, Time};
use baton_store::{
    BuildRefused, BuildSource, Due, Idempotency, LaneName, LogLine, NewBuild, NewRun, QueueId, Scope, Submitted, Woken,
};
use bytes::Bytes;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::files::{File, Origin, no_upload};
use super::{QUEUE, build_token, namespace_of};
use crate::allowance::Admission;
use crate::auth::Caller;
use crate::service::check_name;
use crate::verb_metrics::timed;
use crate::{App, Error, Settings, crash};

/// What a submitter says besides the files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// `ios`, `android`, ...
    pub platform: String,
    /// The project: builds of one share limits, turns and warm caches.
    pub project: Option<String>,
    /// 0 to 9; 9 goes first.
    pub priority: Option<u8>,
    /// Image of the machine to build on.
    pub base_image: Option<String>,
    /// Makes a repeated submit harmless.
    pub idempotency_key: Option<String>,
}

/// Refuses what can be refused before any file is read.
pub fn check(app: &App, caller: &Caller, wishes: &Wishes) -> Result<(), Error> {
    caller.may(Scope::Submit, namespace_of(caller))?;
    check_platform(app, &wishes.platform)?;
    for (what, text) in [
        ("project", &wishes.project),
        ("baseImageId", &wishes.base_image),
        ("Idempotency-Key", &wishes.idempotency_key),
    ] {
        text.as_deref().map_or(Ok(()), |text| check_name(what, text))?;
    }
    match wishes.priority {
        Some(priority) if priority > PRIORITY_MAX => {
            Err(Error::field("priority", format!("must be 0 to {PRIORITY_MAX}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// The platforms that builds may be for.
pub(super) fn platforms(settings: &Settings) -> impl Iterator<Item = &str> {
    settings.build_platforms.split(',').map(str::trim).filter(|platform| !platform.is_empty())
}

fn check_platform(app: &App, platform: &str) -> Result<(), Error> {
    let settings = app.current();
    match platforms(&settings).any(|one| one == platform) {
        true => Ok(()),
        false => {
            let known = platforms(&settings).collect::<Vec<_>>().join(", ");
            Err(Error::Malformed(match platform {
                "" => format!("the field platform is missing: one of {known}"),
                other => format!("platform must be one of {known}, not {other:?}"),
            }))
        }
    }
}

/// Takes in a build of files that are stored already.
pub async fn files(
    app: &App,
    caller: &Caller,
    wishes: Wishes,
    source: File,
    certs: Option<File>,
) -> Result<SubmittedBuild, Error> {
    check(app, caller, &wishes)?;
    let said = json!({
        "platform": wishes.platform,
        "project": wishes.project,
        "priority": wishes.priority,
        "base_image": wishes.base_image,
        "source": {"size": source.stored.size, "sha256": source.stored.sha256.to_string()},
        "certs": certs.map(|certs| certs.stored.sha256.to_string()),
    });
    let input = json!({
        "platform": wishes.platform,
        "project": wishes.project,
        "base_image": wishes.base_image,
        "source": said["source"],
        "certs": certs.is_some(),
    });
    let build = NewBuild {
        namespace: namespace_of(caller).to_owned(),
        platform: wishes.platform.clone(),
        project: wishes.project.clone(),
        key_id: Some(caller.key_id.clone()),
        source: BuildSource::Files { source: source.id, certs: certs.map(|certs| certs.id) },
        base_image: wishes.base_image.clone(),
    };
    let idempotency = wishes.idempotency_key.map(|key| once(&build.namespace, &key, &said.to_string()));
    // An upload is good for one build. Whoever repeats the call that made it gets that one.
    if source.origin == Origin::TakenUpload && !was_submitted(app, idempotency.as_ref()).await? {
        return Err(no_upload(source.id));
    }
    let new = Wanted { build, priority: wishes.priority, idempotency, input: input.to_string(), retry_of: None };
    take_in(app, new).await
}

/// An idempotency key for builds, apart from those of runs.
pub(super) fn once(namespace: &str, key: &str, said: &str) -> Idempotency {
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&Sha256::digest(said)[..16]);
    Idempotency { key: format!("{namespace}\u{1f}build\u{1f}{key}"), fingerprint }
}

/// A build to be taken in.
pub(super) struct Wanted {
    pub build: NewBuild,
    pub priority: Option<u8>,
    pub idempotency: Option<Idempotency>,
    pub input: String,
    pub retry_of: Option<RunId>,
}

/// Puts a build into the store, with room taken in its queue, and wakes whoever waits for it.
pub(super) async fn take_in(app: &App, wanted: Wanted) -> Result<SubmittedBuild, Error> {
    timed!(app.metrics.submit, put_in(app, wanted))
}

async fn put_in(app: &App, wanted: Wanted) -> Result<SubmittedBuild, Error> {
    let Wanted { build, priority, idempotency, input, retry_of } = wanted;
    let name = LaneName { namespace: build.namespace.clone(), queue: QUEUE.to_owned(), kind: build.platform.clone() };
    let lane = app.lanes.get(vec![name]).await?[0];
    let admission = match admit(app, &build.namespace, lane.queue).await {
        Ok(admission) => Some(admission),
        // A repeated call takes no room. Whether it is one, the store finds out.
        Err(Error::QueueFull { .. } | Error::NamespaceLimit { .. })
            if was_submitted(app, idempotency.as_ref()).await? =>
        {
            None
        }
        Err(other) => return Err(other),
    };
    let trace = match retry_of {
        Some(original) => {
            let before = app.store.run_trace(original).await?;
            app.traces.follow(original, before.as_ref(), true)
        }
        None => app.traces.begin(None),
    };
    let run = NewRun {
        lane,
        priority: priority.unwrap_or(PRIORITY_DEFAULT),
        due: Due::Now,
        key: build.project.clone(),
        affinity: build.project.clone(),
        idempotency,
        options: Some(options(app)),
        retry_of,
        trace,
        input: Bytes::from(input),
    };
    let line = LogLine {
        level: "info".into(),
        message: match retry_of {
            Some(original) => format!("Build submitted (retry of {original})"),
            None => "Build submitted".into(),
        },
        at: None,
    };
    let platform = build.platform.clone();
    let submitting = app.store.submit_build(run, app.entropy.bits(), build, Some(line));
    let submitting = app.metrics.submit.at_store(submitting);
    let submitted: Submitted = submitting.await?.map_err(|refused| match refused {
        BuildRefused::KeyReused => Error::KeyReused,
        BuildRefused::FileMissing(_) => Error::NotFound { what: "file", id: "that was uploaded; send it again".into() },
    })?;
    crash::point("submit.written");
    drop(admission);
    if submitted.is_new {
        app.metrics.submit.runs.inc();
        app.metrics.series.submitted(std::iter::once(lane.lane));
        app.metrics.retry.runs.inc_by(u64::from(retry_of.is_some()));
        app.after().wake(&Woken { lanes: vec![lane.lane], ..Woken::default() });
        app.events.submitted([(submitted.run, lane.lane)].into_iter());
    }
    let state = match submitted.is_new {
        true => baton_core::State::Pending,
        false => app.store.run(submitted.run).await?.map_or(baton_core::State::Pending, |record| record.state),
    };
    Ok(SubmittedBuild {
        id: submitted.run.to_string(),
        status: super::status_of(state),
        platform,
        submitted_at: Time(submitted.submitted_at),
        access_token: build_token(app, submitted.run),
        original_build_id: retry_of.map(|run| run.to_string()),
    })
}

/// Takes room for a build in its namespace and its queue.
async fn admit(app: &App, namespace: &str, queue: QueueId) -> Result<Admission, Error> {
    let mut admission = app.namespaces.admit(namespace, 1).await?;
    admission.add(app.backlogs.admit(&[(queue, 1)]).await?);
    Ok(admission)
}

async fn was_submitted(app: &App, idempotency: Option<&Idempotency>) -> Result<bool, Error> {
    let Some(idempotency) = idempotency else { return Ok(false) };
    Ok(app.store.submitted(vec![idempotency.clone()]).await?.into_iter().flatten().next().is_some())
}

/// A build that failed would fail again; one whose builder was lost is built by another.
fn options(app: &App) -> Options {
    Options {
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        max_losses: app.settings.build_losses_max,
        timeout_ms: Some(app.current().build_timeout_ms),
        run_timeout_ms: None,
    }
}
