//! Virtual machines that build: they make themselves known with a one-time password and then act with a token that dies with
//! the lease.

use baton_core::{Millis, RunId, token};
use baton_proto::Time;
use baton_store::{Machine, Measured, OtpAnswer, Scope};

use super::holder::{self, Proof};
use super::{Reader, find, heard_of, logs, no_build, visible};
use crate::{App, Error};

/// How long a one-time password is good, from the claim.
pub const OTP_TTL_MS: Millis = 600_000;
/// Measurements kept of one build: one every five seconds for five hours.
const MEASURED_MAX: usize = 3_600;

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
    let epoch = token::open_otp(&app.secret, run, otp).ok_or_else(wrong)?;
    let lease = baton_store::LeaseRef { run, epoch };
    match app.store.use_otp(lease, OTP_TTL_MS).await? {
        OtpAnswer::Good => {}
        OtpAnswer::Used | OtpAnswer::Expired => return Err(wrong()),
        OtpAnswer::LeaseLost => return Err(Error::LeaseLost),
    }
    let now = app.store.now().await?;
    Ok(Admitted {
        vm_token: token::machine(&app.secret, run, epoch),
        expires_at: Time(now + app.current().build_heartbeat_timeout_ms as Millis),
    })
}

/// A machine says that it is ready, or that it lives. Both keep the lease.
pub async fn seen(app: &App, proof: &Proof<'_>, id: &str, ready: bool) -> Result<(), Error> {
    let (found, lease) = holder::lease(app, proof, id).await?;
    if found.record.cancel_by.is_some() {
        return Err(Error::Cancelling);
    }
    if !app.store.machine_seen(lease, ready).await? {
        return Err(Error::LeaseLost);
    }
    if let Some(worker) = found.record.worker {
        heard_of(app, worker).await?;
    }
    app.starts.call_one(lease).await?;
    if ready {
        logs::note(app, &found, "The machine is ready".into()).await;
    }
    Ok(())
}

/// The machine of a build's live lease, as its builder sees it.
pub async fn status(app: &App, proof: &Proof<'_>, id: &str) -> Result<Machine, Error> {
    let (_, lease) = holder::known_lease(app, proof, id).await?;
    Ok(app.store.machine(lease).await?.unwrap_or_default())
}

/// Keeps a measurement.
pub async fn measured(
    app: &App,
    proof: &Proof<'_>,
    id: &str,
    cpu: Option<f64>,
    memory: Option<f64>,
) -> Result<(), Error> {
    let (_, lease) = holder::lease(app, proof, id).await?;
    match app.store.add_measured(lease, cpu, memory, MEASURED_MAX).await? {
        true => Ok(()),
        false => Err(Error::LeaseLost),
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
    let (found, lease) = holder::lease(app, proof, id).await?;
    let certs = super::files::published(app, &found, baton_store::ArtifactKind::Certs).await?;
    let certs = certs.ok_or(Error::NotFound { what: "file", id: "certs: the build was submitted without".into() })?;
    let entry = baton_store::AuditEntry {
        actor: found.record.worker.map_or_else(|| "unknown".into(), |worker| worker.to_string()),
        action: "certs.read".into(),
        subject: id.to_owned(),
        detail: format!("epoch {}", lease.epoch),
        namespace: Some(found.build.submitted.namespace.clone()),
    };
    // Written down before they are given out.
    app.store.audit(vec![entry]).await?;
    // Somebody may have cancelled the build meanwhile; then the secret stays.
    let again = find(app, id).await?;
    if again.record.epoch != lease.epoch || !again.record.state.is_held() {
        return Err(Error::LeaseLost);
    }
    let path = super::files::path_of(certs.id, baton_store::ArtifactKind::Certs);
    Ok(app.storage.open_sealed(&app.seal, &path).await?)
}
