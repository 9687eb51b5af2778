//! Virtual machines that build: they make themselves known with a one-time password and then act with a token that dies with
//! the lease.

use baton_core::{LateVerb, Millis, RunId, State, token};
use baton_proto::{NAMESPACE_DEFAULT, Time};
use baton_store::{LeaseRef, Machine, Measured, NewMeasurement, OtpAnswer, Scope};

use super::holder::{self, Proof};
use super::{Found, Reader, find, heard_of, logs, no_build, visible};
use crate::artifacts::StorageError;
use crate::auth::Caller;
use crate::refusals::LeaseWrite;
use crate::service::audit;
use crate::{App, Error};

/// How long a one-time password is good, from the claim.
pub const OTP_TTL_MS: Millis = 600_000;
/// Measurements kept of one build: one every five seconds for five hours.
const MEASURED_MAX: usize = 3_600;
/// Events that come all the time, and are nothing but measurements.
const MEASUREMENTS: [&str; 2] = ["heartbeat", "cpu_snapshot"];
/// Longest name of another event that is shown, in characters.
const EVENT_CHARS_MAX: usize = 100;
/// The most that can be true of a measurement: ten processors' worth of per cent, all of the
/// memory, a terabyte.
const CPU_MAX: f64 = 1_000.0;
const MEMORY_MAX: f64 = 100.0;
const MEMORY_MB_MAX: f64 = 1_000_000.0;

/// A machine's token, and how long it is good at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// The token.
    pub vm_token: String,
    /// When the lease ends unless it is renewed.
    pub expires_at: Time,
}

/// Exchanges the one-time password for a token.
pub async fn authenticate(app: &App, id: &str, otp: &str) -> Result<Admitted, Error> {
    let wrong = || Error::BadCredential("the one-time password is wrong, used, or older than ten minutes".into());
    let run: RunId = id.parse().map_err(|_| no_build(id))?;
    let opened = app.secrets.open_token(otp, |key| token::open_otp(key, run, otp)).await?;
    let epoch = opened.ok_or_else(wrong)?;
    let lease = baton_store::LeaseRef { run, epoch };
    match app.store.use_otp(lease, OTP_TTL_MS).await? {
        OtpAnswer::Good => {}
        OtpAnswer::Used | OtpAnswer::Expired => return Err(wrong()),
        OtpAnswer::LeaseLost => {
            app.refusals.note(LeaseWrite::new(lease, LateVerb::Read));
            return Err(Error::LeaseLost);
        }
    }
    logs::note(app, run, "VM authenticated with OTP".into()).await;
    let now = app.store.now().await?;
    Ok(Admitted {
        vm_token: token::machine(&app.secrets.ring().newest().tokens, run, epoch),
        expires_at: Time(now + app.current().build_heartbeat_timeout_ms as Millis),
    })
}

/// A machine says that it is ready. That keeps the lease.
pub async fn ready(app: &App, proof: &Proof<'_>, id: &str) -> Result<(), Error> {
    let (found, lease) = holder::lease(app, proof, id, LateVerb::Renew).await?;
    sign_of_life(app, &found, lease, true, None).await?;
    logs::note(app, lease.run, "VM signaled ready".into()).await;
    Ok(())
}

/// A machine, or whoever watches it, says that it lives, and perhaps how far it is. That keeps the
/// lease.
pub async fn alive(app: &App, proof: &Proof<'_>, id: &str, progress: Option<f64>) -> Result<(), Error> {
    let (found, lease) = match proof {
        Proof::Machine(shown) if shown.starts_with(token::BEAT_PREFIX) => watcher_lease(app, shown, id).await?,
        _ => holder::known_lease(app, proof, id).await?,
    };
    // Its machine has completed the build, and this comes from a worker that has not noticed yet.
    if found.record.state == State::Completed && found.record.epoch == lease.epoch {
        return Ok(());
    }
    if !found.record.state.is_held() || found.record.epoch != lease.epoch {
        return Err(holder::refused(app, &found, LeaseWrite::new(lease, LateVerb::Renew)));
    }
    let progress = progress.filter(|progress| progress.is_finite()).map(|progress| progress.clamp(0.0, 100.0));
    let before = match progress {
        Some(_) => app.store.machine(lease).await?.and_then(|machine| machine.progress),
        None => None,
    };
    sign_of_life(app, &found, lease, false, progress).await?;
    if let Some(progress) = progress.filter(|progress| before != Some(*progress)) {
        logs::note(app, lease.run, format!("Build progress: {progress}%")).await;
    }
    Ok(())
}

async fn watcher_lease(app: &App, shown: &str, id: &str) -> Result<(Found, LeaseRef), Error> {
    let run: RunId = id.parse().map_err(|_| no_build(id))?;
    let opened = app.secrets.open_token(shown, |key| token::open_beat(key, run, shown)).await?;
    let epoch =
        opened.ok_or_else(|| Error::BadCredential("X-VM-Token is not a token of this build's machine".into()))?;
    Ok((find(app, id).await?, LeaseRef { run, epoch }))
}

async fn sign_of_life(
    app: &App,
    found: &Found,
    lease: LeaseRef,
    ready: bool,
    progress: Option<f64>,
) -> Result<(), Error> {
    if found.record.cancel_by.is_some() {
        return Err(Error::Cancelling);
    }
    if !app.store.machine_seen(lease, ready, progress).await? {
        app.refusals.note(LeaseWrite::new(lease, LateVerb::Renew));
        return Err(Error::LeaseLost);
    }
    if let Some(worker) = found.record.worker {
        heard_of(app, worker).await?;
    }
    app.starts.call_one(lease).await.map(|_| ())
}

/// Who asks about the machine of a build.
#[derive(Clone, Debug)]
pub enum Watcher<'a> {
    /// Whoever builds it.
    Holder(Proof<'a>),
    /// A worker's API key.
    Key(&'a Caller),
    /// Somebody without a credential, where a setting lets them in.
    Anybody,
    /// The same, who names the builder that holds the build.
    Monitor(&'a str),
}

/// The machine of a build's lease, and a token for its heartbeats once it is ready. Whoever waits
/// for a machine lives.
pub async fn status(app: &App, watcher: &Watcher<'_>, id: &str) -> Result<(Machine, Option<String>), Error> {
    let (found, lease) = watched(app, watcher, id).await?;
    let is_live = found.record.state.is_held() && found.record.epoch == lease.epoch;
    if let Some(worker) = found.record.worker.filter(|_| is_live) {
        heard_of(app, worker).await?;
    }
    let machine = app.store.machine(lease).await?.unwrap_or_default();
    let is_ready = is_live && machine.ready_at.is_some();
    Ok((machine, is_ready.then(|| token::beat(&app.secrets.ring().newest().tokens, lease.run, lease.epoch))))
}

/// The build that somebody watches, and its lease.
async fn watched(app: &App, watcher: &Watcher<'_>, id: &str) -> Result<(Found, LeaseRef), Error> {
    if let Watcher::Holder(proof) = watcher {
        return holder::known_lease(app, proof, id).await;
    }
    let found = find(app, id).await?;
    let namespace = &found.build.submitted.namespace;
    // Whoever has no business in a namespace is told nothing of it.
    let is_seen = match watcher {
        Watcher::Key(caller) => {
            caller.has(Scope::Worker)?;
            caller.sees(namespace)
        }
        Watcher::Holder(_) | Watcher::Anybody | Watcher::Monitor(_) => namespace == NAMESPACE_DEFAULT,
    };
    if !is_seen {
        return Err(no_build(id));
    }
    if let Watcher::Monitor(name) = watcher {
        let builder = app.store.builder(NAMESPACE_DEFAULT, name).await?;
        if builder.is_none_or(|builder| found.record.worker != Some(builder.worker)) {
            return Err(Error::Forbidden(format!("the worker {name:?} does not have this build")));
        }
    }
    let lease = LeaseRef { run: found.record.id, epoch: found.record.epoch };
    Ok((found, lease))
}

/// Keeps a measurement, which is a sign of life. One that cannot be true is left out. An event that
/// is more than a measurement goes into the log by its name.
pub async fn measured(
    app: &App,
    watcher: &Watcher<'_>,
    id: &str,
    new: NewMeasurement,
    event: Option<&str>,
) -> Result<(), Error> {
    let (found, lease) = watched(app, watcher, id).await?;
    if !found.record.state.is_held() || found.record.epoch != lease.epoch {
        return Err(holder::refused(app, &found, LeaseWrite::new(lease, LateVerb::Measure)));
    }
    if let Some(worker) = found.record.worker {
        heard_of(app, worker).await?;
    }
    app.starts.call_one(lease).await?;
    if let Some(event) = event.filter(|event| !MEASUREMENTS.contains(event)) {
        let name: String = event.chars().take(EVENT_CHARS_MAX).collect();
        logs::note(app, lease.run, format!("VM telemetry: {name}")).await;
    }
    let within = |value: Option<f64>, most: f64| value.filter(|value| (0.0..=most).contains(value));
    let new = NewMeasurement {
        cpu: within(new.cpu, CPU_MAX),
        memory: within(new.memory, MEMORY_MAX),
        memory_mb: within(new.memory_mb, MEMORY_MB_MAX),
    };
    if new == NewMeasurement::default() {
        return Ok(());
    }
    match app.store.add_measured(lease, new, MEASURED_MAX).await? {
        true => Ok(()),
        false => {
            app.refusals.note(LeaseWrite::new(lease, LateVerb::Measure));
            Err(Error::LeaseLost)
        }
    }
}

/// The measurements of a build, oldest first.
pub async fn measurements(app: &App, reader: &Reader<'_>, id: &str) -> Result<Vec<Measured>, Error> {
    let found = visible(app, reader, Scope::Read, id).await?;
    Ok(app.store.measured(found.record.id, MEASURED_MAX).await?)
}

/// Marks a build as begun because its holder fetches the source.
pub(crate) async fn begun(app: &App, lease: baton_store::LeaseRef) -> Result<(), Error> {
    app.starts.call_one(lease).await.map(|_| ())
}

/// The build's certificates, for its holder only; each reading is written down.
pub async fn certs(app: &App, proof: &Proof<'_>, id: &str) -> Result<bytes::Bytes, Error> {
    let (found, lease) = holder::lease(app, proof, id, LateVerb::Read).await?;
    let certs = super::files::published(app, &found, baton_store::ArtifactKind::Certs).await?;
    let certs = certs
        .ok_or(Error::NotFound { what: "file", id: "with certificates: the build was submitted without any".into() })?;
    let actor = found.record.worker.map_or_else(|| "unknown".into(), |worker| worker.to_string());
    let (detail, namespace) = (format!("epoch {}", lease.epoch), Some(found.build.submitted.namespace.as_str()));
    // Written down before they are given out.
    audit::write(app, &actor, "certs.read", id, &detail, namespace).await?;
    // Somebody may have cancelled the build meanwhile; then the secret stays.
    let again = find(app, id).await?;
    if again.record.epoch != lease.epoch || !again.record.state.is_held() {
        return Err(Error::LeaseLost);
    }
    let path = super::files::path_of(certs.id, baton_store::ArtifactKind::Certs);
    match app.storage.open_sealed(&*app.secrets.ring(), &path).await {
        // Another server may have sealed it with a generation that is not known here yet.
        Err(StorageError::Damaged(_)) => {
            app.secrets.look().await?;
            Ok(app.storage.open_sealed(&*app.secrets.ring(), &path).await?)
        }
        other => Ok(other?),
    }
}
