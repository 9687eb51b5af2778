//! Builds from repositories, for builders that poll with nothing but an API key.
//!
//! Such a builder has no name and sends no heartbeats. All builders of one API key are one worker of the kernel, and each build
//! has a lease of its own, as long as a build may take.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::{Millis, State, WorkerId};
use baton_proto::{BuildView, GitJob, GitResult, NAMESPACE_DEFAULT, SubmitGitBuild};
use baton_store::{
    BuildSource, ClaimSlot, Claimed, Lane, LaneName, LeaseRef, NewBuild, NewWorker, Scope, Verdict, WorkerInfo,
    WorkerStatus,
};
use serde_json::json;
use tokio::time::Instant;

use super::submit::{Wanted, once, take_in};
use super::{Found, PLATFORM_GIT, QUEUE, STRANGERS_MAX, find, logs, namespace_of, no_build, read, reject_stranger};
use crate::auth::Caller;
use crate::dispatch::Handed;
use crate::events::Kind;
use crate::polls::Poller;
use crate::service::renew;
use crate::service::{check_name, check_text, message};
use crate::workers::{BUILDER_LABEL, KnownWorker};
use crate::{App, Error, crash};

/// Builds that the builders of one API key may do at once.
const CONCURRENT_MAX: u32 = 10_000;
/// Longest address of a repository, in bytes.
const URL_BYTES_MAX: usize = 2_000;
/// Most API keys whose workers are remembered; beyond it the memory starts over.
const REMEMBERED_MAX: usize = 10_000;

/// The workers that stand for the builders of API keys, as far as this server knows them: a claim
/// then costs one write.
#[derive(Debug, Default)]
pub struct KeyWorkers {
    known: Mutex<HashMap<(String, String), Arc<KnownWorker>>>,
}

impl KeyWorkers {
    fn get(&self, caller: &Caller) -> Option<Arc<KnownWorker>> {
        self.known.lock().expect("nobody panics while holding it").get(&Self::key(caller)).cloned()
    }

    fn set(&self, caller: &Caller, worker: Arc<KnownWorker>) {
        let mut known = self.known.lock().expect("nobody panics while holding it");
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(Self::key(caller), worker);
    }

    fn forget(&self, caller: &Caller) {
        self.known.lock().expect("nobody panics while holding it").remove(&Self::key(caller));
    }

    fn key(caller: &Caller) -> (String, String) {
        (namespace_of(caller).to_owned(), caller.key_id.clone())
    }
}

/// Takes a build in.
pub async fn submit(app: &App, caller: &Caller, new: SubmitGitBuild, key: Option<&str>) -> Result<BuildView, Error> {
    let namespace = namespace_of(caller);
    caller.may(Scope::Submit, namespace)?;
    check(&new)?;
    key.map_or(Ok(()), |key| check_name("Idempotency-Key", key))?;
    let said = serde_json::to_string(&new).map_err(|_| Error::Internal)?;
    let input = json!({
        "platform": PLATFORM_GIT,
        "project": new.project_slug,
        "git": {"url": new.source_url, "ref": new.reference, "image": new.docker_image, "version": new.version},
    });
    let wanted = Wanted {
        build: NewBuild {
            namespace: namespace.to_owned(),
            platform: PLATFORM_GIT.to_owned(),
            project: Some(new.project_slug.clone()),
            key_id: Some(caller.key_id.clone()),
            source: BuildSource::Git {
                slug: new.project_slug,
                version: new.version,
                url: new.source_url,
                reference: new.reference,
                image: new.docker_image,
            },
            base_image: None,
        },
        priority: new.priority,
        idempotency: key.map(|key| once(namespace, key, &said)),
        input: input.to_string(),
        retry_of: None,
    };
    let submitted = take_in(app, wanted).await?;
    let found = find(app, &submitted.id).await?;
    read::view(app, &found.record, &found.build).await
}

fn check(new: &SubmitGitBuild) -> Result<(), Error> {
    for (what, text) in [("project_slug", &new.project_slug), ("version", &new.version), ("ref", &new.reference)] {
        check_name(what, text)?;
    }
    for (what, text) in [("source_url", &new.source_url), ("docker_image", &new.docker_image)] {
        if text.is_empty() || text.len() > URL_BYTES_MAX {
            return Err(Error::field(what.to_owned(), format!("must have 1 to {URL_BYTES_MAX} bytes")));
        }
        check_text(what, text)?;
    }
    // An address or a ref that begins with a dash would be an option to git.
    for (what, text) in [("source_url", &new.source_url), ("ref", &new.reference), ("docker_image", &new.docker_image)]
    {
        if text.starts_with('-') {
            return Err(Error::field(what.to_owned(), "must not begin with a dash"));
        }
    }
    // A helper of git, as in `ext::sh -c ...`, is a program of the builder's machine.
    if new.source_url.split('/').next().is_some_and(|begin| begin.contains("::")) {
        return Err(Error::field("source_url", "must not name a helper of git, as ext:: does"));
    }
    match new.priority {
        Some(priority) if priority > baton_core::order::PRIORITY_MAX => {
            Err(Error::field("priority", format!("must be 0 to {}", baton_core::order::PRIORITY_MAX)))
        }
        Some(_) | None => Ok(()),
    }
}

/// Claims the next build, if there is one.
pub async fn claim(app: &App, caller: &Caller) -> Result<Option<GitJob>, Error> {
    let namespace = namespace_of(caller);
    caller.may(Scope::Worker, namespace)?;
    let poller = Poller::Key(caller.key_id.clone());
    app.polls.admit(&poller, &app.current(), app.store.clock().local())?;
    let name = LaneName { namespace: namespace.to_owned(), queue: QUEUE.to_owned(), kind: PLATFORM_GIT.to_owned() };
    let lane = app.lanes.get(vec![name]).await?[0];
    for _ in 0..STRANGERS_MAX {
        let Some(claimed) = claim_next(app, caller, lane).await? else { return Ok(None) };
        app.polls.brought_work(&poller);
        crash::point("git.claimed");
        let lease = LeaseRef { run: claimed.run, epoch: claimed.epoch };
        let found = match find(app, &claimed.run.to_string()).await {
            Ok(found) => Some(found),
            Err(Error::NotFound { .. }) => None,
            Err(other) => return Err(other),
        };
        let Some(job) = found.and_then(job) else {
            reject_stranger(app, lease).await?;
            continue;
        };
        logs::note(app, claimed.run, format!("Build assigned to a builder with the API key {}", caller.key_id)).await;
        return Ok(Some(job));
    }
    Ok(None)
}

/// Claims the next run of a lane, for the worker that stands for all builders of an API key.
async fn claim_next(app: &App, caller: &Caller, lane: Lane) -> Result<Option<Claimed>, Error> {
    let handed = match app.key_workers.get(caller) {
        Some(worker) => {
            heard_of(app, &worker).await?;
            claim_for(app, caller, lane, &worker).await
        }
        None => claim_for(app, caller, lane, &*register(app, caller).await?).await,
    };
    let handed = match handed {
        // Somebody took it offline, or it was silent for too long: this is its next incarnation.
        Err(Error::WorkerOffline | Error::NotFound { .. }) => {
            claim_for(app, caller, lane, &*register(app, caller).await?).await
        }
        other => other,
    };
    Ok(handed?.runs.into_iter().next())
}

async fn claim_for(app: &App, caller: &Caller, lane: Lane, worker: &KnownWorker) -> Result<Handed, Error> {
    let slot = ClaimSlot {
        worker: worker.id,
        name: caller.key_id.clone(),
        lanes: vec![lane.lane],
        room: 1,
        claim_no: 0,
        start: true,
        lease_ms: Some(app.current().build_git_lease_ms as Millis),
        asked_ms_ago: None,
    };
    app.dispatcher.poll(lane.queue, slot, Instant::now()).await
}

/// What a builder has to know. It is what was submitted as a build, and checked then; anybody may submit a run whose input
/// looks alike.
fn job(found: Found) -> Option<GitJob> {
    match found.build.submitted.source {
        BuildSource::Git { slug, version, url, reference, image } => Some(GitJob {
            id: found.record.id.to_string(),
            project_slug: slug,
            version,
            source_url: url,
            reference,
            docker_image: image,
        }),
        BuildSource::Files { .. } => None,
    }
}

/// The sign of life of the worker that stands for all builders of an API key: one of them has asked
/// for work.
async fn heard_of(app: &App, known: &Arc<KnownWorker>) -> Result<(), Error> {
    let lease_ms = app.current().build_git_lease_ms;
    // Never shorter: a build that was claimed before has the longer lease.
    let ttl_ms = worker_ttl_ms(lease_ms);
    let longer_ms = known.new_ttl_ms(ttl_ms).filter(|new| *new > known.ttl_ms.load(Ordering::Relaxed));
    if app.store.clock().fixed().is_some() {
        renew::sign_of_life(app, known, longer_ms).await?;
    } else if longer_ms.is_some() || !known.is_renewed_within(Duration::from_millis(lease_ms / 8)) {
        renew::sign_of_life_beside(app, known, longer_ms);
    }
    Ok(())
}

/// Longer than the leases of builds by as much as a sign of life may be late, so that it never cuts
/// one of them short.
fn worker_ttl_ms(lease_ms: u64) -> Millis {
    (lease_ms + lease_ms / 4) as Millis
}

/// Registers the worker of the kernel that stands for all builders of an API key.
async fn register(app: &App, caller: &Caller) -> Result<Arc<KnownWorker>, Error> {
    app.key_workers.forget(caller);
    let namespace = caller.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    let mut random = [0; 16];
    app.entropy.fill(&mut random);
    let new = NewWorker {
        id: WorkerId::from_random(u128::from_ne_bytes(random)),
        instance: Some(format!("{namespace}\u{1f}git builders\u{1f}{}", caller.key_id)),
        namespace: namespace.to_owned(),
        name: format!("builders of {}", caller.key_id),
        info: WorkerInfo {
            queues: vec![QUEUE.to_owned()],
            types: vec![PLATFORM_GIT.to_owned()],
            labels: BTreeMap::from([(BUILDER_LABEL.to_owned(), name_of(caller))]),
            ..WorkerInfo::default()
        },
        max_concurrent: CONCURRENT_MAX,
        ttl_ms: worker_ttl_ms(app.current().build_git_lease_ms),
        key_id: Some(caller.key_id.clone()),
    };
    let before = async || match &new.instance {
        Some(instance) => Ok(app.store.worker_of_instance(instance).await?),
        None => Ok(None),
    };
    crate::service::register::admit(app, namespace, before).await?;
    let mut registered = app.store.register(new.clone()).await?;
    if !registered.is_new {
        let worker = app.store.worker(registered.id).await?;
        if worker.is_none_or(|worker| worker.status == WorkerStatus::Offline) {
            registered = app.store.register(NewWorker { instance: None, ..new }).await?;
        }
    }
    if registered.is_new {
        app.events.worker(Kind::WorkerRegistered, registered.id, None);
    }
    let known = app.workers.get(registered.id).await?.ok_or(Error::Internal)?;
    heard_of(app, &known).await?;
    app.key_workers.set(caller, known.clone());
    Ok(known)
}

/// Ends a build.
pub async fn result(app: &App, caller: &Caller, id: &str, result: GitResult) -> Result<BuildView, Error> {
    let namespace = namespace_of(caller);
    caller.may(Scope::Worker, namespace)?;
    let failed = match result.status.as_deref() {
        Some("success") => false,
        Some("failed") => true,
        Some(other) => return Err(Error::Malformed(format!("status must be success or failed, not {other:?}"))),
        None => return Err(Error::Malformed("status is missing: success or failed".into())),
    };
    match result.job_id.as_deref() {
        Some(job_id) if job_id == id => {}
        Some(other) => return Err(Error::Malformed(format!("job_id {other:?} is not the build of the path"))),
        None => return Err(Error::Malformed("job_id is missing: the build that this is the result of".into())),
    }
    let found = find(app, id).await?;
    if found.build.submitted.namespace != namespace {
        return Err(no_build(id));
    }
    let holder = match found.record.worker {
        Some(worker) => app.workers.get(worker).await?.and_then(|known| known.builder.clone()),
        None => None,
    };
    if holder == Some(name_of(caller)) && is_repeat(&found, &result, failed) {
        return read::again(app, &found).await;
    }
    if found.record.state != State::Running || holder != Some(name_of(caller)) {
        return Err(not_running(&found));
    }
    let lease = LeaseRef { run: found.record.id, epoch: found.record.epoch };
    if let Some(text) = result.logs.as_deref().filter(|text| !text.is_empty()) {
        logs::append(app, lease.run, Some(lease), None, logs::lines_of(text)).await?;
    }
    crash::point("complete.begun");
    let changes = match failed {
        false => {
            let output = output_of(&result).map(Into::into);
            app.metrics.complete.at_store(app.store.complete(vec![baton_store::Completion { lease, output }])).await?
        }
        true => {
            let failure = baton_core::Failure {
                reason: baton_core::Reason::Error,
                code: None,
                message: error_of(&result),
                retryable: false,
                not_before: None,
            };
            app.metrics.fail.at_store(app.store.fail(vec![(lease, failure)], app.entropy.die())).await?
        }
    };
    crash::point("complete.written");
    let verb = if failed { &app.metrics.fail } else { &app.metrics.complete };
    verb.did(&changes.verdicts);
    if let Verdict::Done { .. } = changes.verdicts[0] {
        // Before anybody hears of the end: whoever follows the log reads until then.
        match failed {
            false => logs::note(app, lease.run, "Build completed successfully".into()).await,
            true => logs::complain(app, lease.run, format!("Build failed: {}", error_of(&result))).await,
        }
    }
    app.after().changed([lease.run].into_iter(), &changes);
    match changes.verdicts[0] {
        Verdict::Done { .. } | Verdict::Refused(baton_core::Refused::AlreadyDone) => read::again(app, &found).await,
        Verdict::Refused(_) | Verdict::Unknown => Err(not_running(&find(app, id).await?)),
    }
}

/// What is kept of a build that succeeded.
fn output_of(result: &GitResult) -> Option<String> {
    result.duration.as_ref().map(|duration| json!({"duration": duration}).to_string())
}

/// What is kept of one that failed.
fn error_of(result: &GitResult) -> String {
    message(result.error.as_deref().unwrap_or("the build failed"))
}

/// True when the build has ended with this very result: its answer was lost, and it is asked for again.
fn is_repeat(found: &Found, result: &GitResult, failed: bool) -> bool {
    match found.record.state {
        State::Completed => {
            !failed && found.record.output.as_deref() == output_of(result).as_deref().map(str::as_bytes)
        }
        State::Failed => failed && found.record.error.as_deref() == Some(&error_of(result)),
        State::Pending | State::Assigned | State::Running | State::Sleeping | State::Cancelled => false,
    }
}

fn not_running(found: &Found) -> Error {
    match found.record.state {
        State::Running => Error::LeaseLost,
        state if state.is_ended() => Error::Ended(state),
        _ => Error::Conflict("the build is not running; it waits for a builder".into()),
    }
}

/// What all builders of an API key are called.
fn name_of(caller: &Caller) -> String {
    format!("key:{}", caller.key_id)
}
