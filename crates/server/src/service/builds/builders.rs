//! Builders of the polling protocol: register, poll, say goodbye.
//!
//! A builder is a name that outlives its incarnations; each incarnation is a worker of the kernel. Its token changes with every
//! poll, and a lost answer never locks it out.

use std::collections::BTreeMap;

use baton_core::{LateVerb, Millis, WorkerId, token};
use baton_proto::{
    BuildJob, BuilderStats, Capabilities, Claim, ClaimedRun, Polled, PolledQueue, RegisterBuilder, RegisteredBuilder,
    Time, UnregisteredBuilder,
};
use baton_store::{Builder, NewWorker, Scope, WorkerInfo, WorkerStatus};

use super::holder::{self, Proof};
use super::{Found, QUEUE, STRANGERS_MAX, find, heard_of, logs, namespace_of, reject_stranger};
use crate::auth::Caller;
use crate::events::Kind;
use crate::polls::Poller;
use crate::service::{audit, check_name, check_text, claim, open_lease, register, run_id, workers};
use crate::workers::BUILDER_LABEL;
use crate::{App, Error, crash};

/// How long a token lives.
pub const TOKEN_TTL_MS: Millis = 90_000;
/// Builds that one builder may do at once.
const CONCURRENT_MAX: u32 = 1_000;
/// Platforms that one builder may name.
const PLATFORMS_MAX: usize = 50;
/// When a builder is told to poll again that got a build and may get another.
const AT_ONCE_MS: u64 = 1_000;
/// Counting what waits stops here.
const PENDING_MAX: u64 = 10_000;

/// Registers a builder, or a new incarnation of one that is known.
pub async fn register(app: &App, caller: &Caller, new: RegisterBuilder) -> Result<RegisteredBuilder, Error> {
    let namespace = namespace_of(caller);
    caller.may(Scope::Worker, namespace)?;
    let (name, capabilities) = check(&new)?;
    let name_id = match new.id.clone().filter(|id| !id.is_empty()) {
        Some(id) => id,
        None => fresh_worker(app).to_string(),
    };
    let known = app.store.builder(namespace, &name_id).await?;
    if known.as_ref().is_some_and(|known| known.key_id.as_deref() != Some(caller.key_id.as_str())) {
        return Err(foreign(app, caller, &name_id).await?);
    }
    register::admit(app, namespace, async || Ok(known.as_ref().map(|known| known.worker))).await?;
    let still_working = new.active_build_count.is_some_and(|count| count > 0);
    let worker = match &known {
        Some(known) if still_working && goes_on(app, known).await? => known.worker,
        _ => make_worker(app, caller, &name_id, name, capabilities).await?,
    };
    crash::point("register.made");
    let set = app.store.set_builder(namespace, &name_id, worker, Some(&caller.key_id), TOKEN_TTL_MS).await?;
    let Some(set) = set else { return Err(foreign(app, caller, &name_id).await?) };
    crash::point("register.named");
    if let Some(replaced) = set.replaced {
        end(app, replaced, "the builder registered anew").await?;
    }
    if known.is_some() {
        audit::act(app, caller, "builder.registered_again", &name_id, "its old token is dead", Some(namespace)).await?;
    }
    let status = if known.is_some() { "re-registered" } else { "registered" };
    Ok(RegisteredBuilder {
        id: name_id,
        access_token: token::builder(&app.secrets.ring().newest().tokens, worker, set.token),
        status: status.into(),
        message: format!("Worker {status} successfully"),
        base_image_id: app.current().build_base_image.clone(),
    })
}

/// What a builder is called and can do, if both are there and good.
fn check(new: &RegisterBuilder) -> Result<(&str, &Capabilities), Error> {
    let missing =
        |what: &str| Error::Malformed(format!("{what} is missing: a worker registers with its name and capabilities"));
    let name = new.name.as_deref().ok_or_else(|| missing("name"))?;
    let capabilities = new.capabilities.as_ref().ok_or_else(|| missing("capabilities"))?;
    new.id.as_deref().filter(|id| !id.is_empty()).map_or(Ok(()), |id| check_name("id", id))?;
    check_name("name", name)?;
    check_text("name", name)?;
    if capabilities.platforms.len() > PLATFORMS_MAX {
        return Err(Error::field("capabilities.platforms", format!("may name {PLATFORMS_MAX} platforms")));
    }
    capabilities.platforms.iter().try_for_each(|platform| check_name("capabilities.platforms", platform))?;
    match capabilities.max_concurrent_builds {
        Some(many) if !(1..=CONCURRENT_MAX).contains(&many) => {
            Err(Error::field("capabilities.maxConcurrentBuilds", format!("must be 1 to {CONCURRENT_MAX}")))
        }
        Some(_) | None => Ok((name, capabilities)),
    }
}

async fn foreign(app: &App, caller: &Caller, name_id: &str) -> Result<Error, Error> {
    let detail = "registered with another API key";
    audit::act(app, caller, "builder.refused", name_id, detail, Some(namespace_of(caller))).await?;
    Ok(Error::Forbidden(format!("the worker {name_id} {detail}; use that one, or another id")))
}

fn fresh_worker(app: &App) -> WorkerId {
    let mut random = [0; 16];
    app.entropy.fill(&mut random);
    WorkerId::from_random(u128::from_ne_bytes(random))
}

/// Whether a builder that says it still works on something does so as far as the kernel knows.
async fn goes_on(app: &App, known: &Builder) -> Result<bool, Error> {
    let worker = app.store.worker(known.worker).await?;
    Ok(known.revoked_at.is_none() && worker.is_some_and(|worker| worker.status != WorkerStatus::Offline))
}

async fn make_worker(
    app: &App,
    caller: &Caller,
    name_id: &str,
    name: &str,
    capabilities: &Capabilities,
) -> Result<WorkerId, Error> {
    let mut types = match capabilities.platforms.as_slice() {
        // One that names none builds for all of them.
        [] => super::submit::platforms(&app.current()).map(str::to_owned).collect(),
        named => named.to_vec(),
    };
    types.sort_unstable();
    types.dedup();
    let worker = NewWorker {
        id: fresh_worker(app),
        instance: None,
        namespace: namespace_of(caller).to_owned(),
        name: name.to_owned(),
        info: WorkerInfo {
            queues: vec![QUEUE.to_owned()],
            types,
            labels: BTreeMap::from([(BUILDER_LABEL.to_owned(), name_id.to_owned())]),
            ..WorkerInfo::default()
        },
        max_concurrent: capabilities.max_concurrent_builds.unwrap_or(1),
        ttl_ms: app.current().build_heartbeat_timeout_ms as Millis,
        key_id: Some(caller.key_id.clone()),
    };
    let registered = app.store.register(worker).await?;
    if registered.is_new {
        app.events.worker(Kind::WorkerRegistered, registered.id, None);
    }
    Ok(registered.id)
}

/// Takes an incarnation out of the game; what it held goes to others at once. Returns how many builds that were.
async fn end(app: &App, worker: WorkerId, why: &str) -> Result<u64, Error> {
    app.workers.forget(worker);
    let held = workers::held_before(app, worker, WorkerStatus::Offline).await?;
    let Some(change) = app.store.set_worker(worker, WorkerStatus::Offline, why).await? else { return Ok(0) };
    app.after().wake(&change.woken);
    workers::told(app, worker, WorkerStatus::Offline, why, held);
    Ok(change.given_back)
}

/// An old token was shown again: whoever has the newest may be the thief.
pub(super) async fn revoke(app: &App, worker: WorkerId) -> Result<(), Error> {
    end(app, worker, "an old token was shown again").await.map(|_| ())
}

/// Says goodbye.
pub async fn unregister(app: &App, proof: &Proof<'_>) -> Result<UnregisteredBuilder, Error> {
    let builder = holder::builder(app, proof).await?;
    let builds_reassigned = end(app, builder.worker, "it said goodbye").await?;
    Ok(UnregisteredBuilder { success: true, builds_reassigned })
}

/// Refuses a poll of a builder that polls too often.
fn admit(app: &App, worker: WorkerId) -> Result<(), Error> {
    app.polls.admit(&Poller::Builder(worker), &app.current(), app.store.clock().local())
}

/// Looks for work, and changes the token.
pub async fn poll(app: &App, proof: &Proof<'_>) -> Result<Polled, Error> {
    let (builder, next) = match proof {
        Proof::BuilderToken(caller, shown) => {
            // Before the token is changed: a poll that is refused changes nothing, and can be repeated with the same one.
            let opened = app.secrets.open_token(shown, |key| token::open_builder(key, shown)).await?;
            if let Some((worker, _)) = opened {
                admit(app, worker)?;
            }
            holder::token_shown(app, *caller, shown, Some(TOKEN_TTL_MS)).await?
        }
        Proof::BuilderName(caller, name_id) => {
            let builder = holder::builder_by_name(app, caller, name_id).await?;
            admit(app, builder.worker)?;
            let next = builder.token;
            (builder, Some(next))
        }
        Proof::Machine(_) | Proof::Lease(..) => return Err(Error::Forbidden("only a worker can poll".into())),
    };
    crash::point("poll.rotated");
    app.workers.get(builder.worker).await?.ok_or_else(|| Error::no_worker(&builder.name_id))?;
    // A poll is a sign of life, like a heartbeat.
    heard_of(app, builder.worker).await.map_err(|error| gone(&builder, error))?;
    let next_job = next_job(app, &builder).await?;
    let is_on_the_way = matches!(next_job, NextJob::BehindStrangers);
    let job = match next_job {
        NextJob::Found(job) => Some(job),
        NextJob::None | NextJob::BehindStrangers => None,
    };
    let next = next.unwrap_or(builder.token);
    let pending = pending(app, &builder.namespace).await?;
    let poll_after_ms = match is_on_the_way || (job.is_some() && pending > 0) {
        true => AT_ONCE_MS,
        false => app.polls.pause_ms(&app.current()),
    };
    Ok(Polled {
        job,
        access_token: token::builder(&app.secrets.ring().newest().tokens, builder.worker, next),
        queue: PolledQueue { pending },
        poll_after_ms,
    })
}

/// What a poll finds.
enum NextJob {
    /// A build.
    Found(BuildJob),
    /// Nothing.
    None,
    /// Nothing yet: it has cleared away as many runs as one poll may that are no builds.
    BehindStrangers,
}

/// Claims the next build, and clears runs away that are none.
async fn next_job(app: &App, builder: &Builder) -> Result<NextJob, Error> {
    let caller = Caller::of_worker(builder.key_id.as_deref(), &builder.namespace);
    for _ in 0..STRANGERS_MAX {
        let wanted = Claim { max: Some(1), ..Claim::default() };
        let (claimed, again) = match claim::many_or_again(app, &caller, builder.worker, wanted).await {
            Ok((claimed, again)) => (claimed.into_iter().next(), again),
            // It has as much as it can do, is on its way out, or feels unwell: no work, and no error.
            Err(Error::WorkerFull | Error::WorkerDraining | Error::WorkerUnfit(_)) => return Ok(NextJob::None),
            Err(other) => return Err(gone(builder, other)),
        };
        let Some(claimed) = claimed else { return Ok(NextJob::None) };
        app.polls.brought_work(&Poller::Builder(builder.worker));
        crash::point("poll.claimed");
        match find(app, &claimed.run_id).await {
            Ok(found) => return Ok(NextJob::Found(job(app, builder, found, claimed, again).await?)),
            Err(Error::NotFound { .. }) => {
                let lease = open_lease(app, &caller, run_id(&claimed.run_id)?, &claimed.lease).await?;
                reject_stranger(app, lease).await?;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(NextJob::BehindStrangers)
}

/// A builder that said goodbye or was sent away is not there any more, in the words of its protocol.
fn gone(builder: &Builder, error: Error) -> Error {
    match error {
        Error::WorkerOffline => Error::no_worker(format!("{}; register again", builder.name_id)),
        other => other,
    }
}

/// A claimed build, as builders know it. `again` is true when an earlier poll brought it.
async fn job(app: &App, builder: &Builder, found: Found, claimed: ClaimedRun, again: bool) -> Result<BuildJob, Error> {
    let run = run_id(&claimed.run_id)?;
    if !again {
        let name =
            app.workers.get(builder.worker).await?.map_or_else(|| builder.name_id.clone(), |known| known.name.clone());
        let attempt = claimed.epoch;
        logs::note(app, run, format!("Build assigned to worker {name} (attempt {attempt})")).await;
    }
    let path = |file: &str| format!("/api/builds/{}/{file}", claimed.run_id);
    let ring = app.secrets.ring_for(&claimed.lease).await?;
    let opened = ring.open_token(&claimed.lease, |key| token::open_lease(key, run, &claimed.lease));
    let (epoch, _) = opened.ok_or(Error::Internal)?;
    let has_certs = matches!(found.build.submitted.source, baton_store::BuildSource::Files { certs: Some(_), .. });
    Ok(BuildJob {
        id: claimed.run_id.clone(),
        platform: found.build.submitted.platform,
        source_url: path("source"),
        certs_url: has_certs.then(|| path("certs")),
        submitted_at: Time(found.record.submitted_at),
        base_image_id: found.build.submitted.base_image.or_else(|| app.current().build_base_image.clone()),
        otp: token::otp(&ring.newest().tokens, run, epoch),
    })
}

async fn pending(app: &App, namespace: &str) -> Result<u64, Error> {
    let name = baton_store::LaneName {
        namespace: namespace.to_owned(),
        queue: QUEUE.to_owned(),
        kind: super::PLATFORM_GIT.to_owned(),
    };
    let queue = app.lanes.get(vec![name]).await?[0].queue;
    let depths = app.store.depths(&[queue], PENDING_MAX).await?;
    Ok(depths.iter().map(|depth| depth.ready).sum())
}

/// A sign of life of a builder, about one build of its.
pub async fn heartbeat(app: &App, proof: &Proof<'_>, build_id: &str) -> Result<(), Error> {
    let (found, lease) = holder::lease(app, proof, build_id, LateVerb::Renew).await?;
    if found.record.cancel_by.is_some() {
        return Err(Error::Cancelling);
    }
    if let Some(worker) = found.record.worker {
        heard_of(app, worker).await?;
    }
    app.starts.call_one(lease).await.map(|_| ())
}

/// What a builder did so far.
pub async fn stats(app: &App, caller: &Caller, name_id: &str) -> Result<BuilderStats, Error> {
    let namespace = namespace_of(caller);
    caller.may(Scope::Read, namespace)?;
    let builder = app.store.builder(namespace, name_id).await?.ok_or_else(|| Error::no_worker(name_id))?;
    let worker = app.store.worker(builder.worker).await?;
    let status = worker.as_ref().map_or(WorkerStatus::Offline, |worker| worker.status);
    let active = worker.as_ref().map_or(0, |worker| worker.active);
    let uptime_ms = match status {
        WorkerStatus::Offline => 0,
        WorkerStatus::Online | WorkerStatus::Draining => app.store.now().await? - builder.registered_at,
    };
    Ok(BuilderStats {
        total_builds: builder.succeeded + builder.failed,
        successful_builds: builder.succeeded,
        failed_builds: builder.failed,
        worker_name: worker.map_or_else(|| builder.name_id.clone(), |worker| worker.name),
        status: match status {
            WorkerStatus::Offline => "offline",
            WorkerStatus::Online | WorkerStatus::Draining if active > 0 => "building",
            WorkerStatus::Online | WorkerStatus::Draining => "idle",
        }
        .into(),
        uptime: span(uptime_ms / 1_000),
    })
}

/// A span of time for people, in its two largest units.
fn span(seconds: Millis) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        ..60 => format!("{}s", seconds.max(0)),
        60..3_600 => format!("{minutes}m {}s", seconds % 60),
        3_600..86_400 => format!("{hours}h {}m", minutes % 60),
        86_400.. => format!("{days}d {}h", hours % 24),
    }
}

/// The worker behind a name: of a builder, or of a worker of the native API.
pub async fn worker_named(app: &App, caller: &Caller, name_id: &str) -> Result<WorkerId, Error> {
    match app.store.builder(namespace_of(caller), name_id).await? {
        Some(builder) => Ok(builder.worker),
        None => crate::service::worker_id(name_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units() {
        for (seconds, shown) in
            [(-1, "0s"), (38, "38s"), (83, "1m 23s"), (8_100, "2h 15m"), (86_399, "23h 59m"), (273_600, "3d 4h")]
        {
            assert_eq!(span(seconds), shown);
        }
    }
}
