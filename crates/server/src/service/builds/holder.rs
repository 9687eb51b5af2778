//! Who holds a build, proven in one of the ways that builders, machines and workers have.

use baton_core::{LateVerb, RunId, token};
use baton_proto::NAMESPACE_DEFAULT;
use baton_store::{Builder, LeaseRef, Scope, TokenAnswer};

use super::{Found, find, namespace_of, no_build};
use crate::auth::{ANONYMOUS, Caller};
use crate::refusals::LeaseWrite;
use crate::service::audit;
use crate::{App, Error};

/// What a builder, a machine or a worker shows.
#[derive(Clone, Debug)]
pub enum Proof<'a> {
    /// The token of a builder, with or without its API key.
    BuilderToken(Option<&'a Caller>, &'a str),
    /// The name of a builder, with the API key it registered with.
    BuilderName(&'a Caller, &'a str),
    /// The token of a machine that builds for a lease.
    Machine(&'a str),
    /// A lease of the native API, with the API key of its worker.
    Lease(&'a Caller, &'a str),
}

/// The builder that shows this token. It is not exchanged for a new one.
pub(crate) async fn builder_by_token(app: &App, caller: Option<&Caller>, shown: &str) -> Result<Builder, Error> {
    token_shown(app, caller, shown, None).await.map(|(builder, _)| builder)
}

/// The builder that shows this token, and the number of the next one when `rotate` wants it.
pub(crate) async fn token_shown(
    app: &App,
    caller: Option<&Caller>,
    shown: &str,
    rotate: Option<i64>,
) -> Result<(Builder, Option<i64>), Error> {
    caller.map_or(Ok(()), |caller| caller.has(Scope::Worker))?;
    let expired = || Error::TokenExpired("the worker token has expired or was replaced; register again".into());
    let opened = app.secrets.open_token(shown, |key| token::open_builder(key, shown)).await?;
    let (worker, number) = opened
        .ok_or_else(|| Error::TokenExpired("X-Worker-Token is no token of this server; register again".into()))?;
    // Before the token is changed or taken for a copy: whoever has another key has no business with it.
    let known = app.workers.get(worker).await?;
    if let (Some(known), Some(caller)) = (&known, caller) {
        let name = known.builder.as_deref().unwrap_or(&known.name);
        caller.may_act_for(name, known.key_id.as_deref(), &known.namespace)?;
    }
    match app.store.token_shown(worker, number, rotate).await? {
        TokenAnswer::Good { builder, .. } if is_shut_out(app, &builder) => Err(Error::TokenExpired(format!(
            "the worker {} registered without a credential, and expo_legacy_auth is off; register with an API key",
            builder.name_id
        ))),
        TokenAnswer::Good { builder, next } => {
            if let Some(caller) = caller {
                caller.may_act_for(&builder.name_id, builder.key_id.as_deref(), &builder.namespace)?;
            }
            Ok((builder, next))
        }
        TokenAnswer::Expired | TokenAnswer::Dead => Err(expired()),
        TokenAnswer::Replayed => {
            let detail = "an old token was shown again: somebody has copied it, or two processes share it";
            let (key_id, namespace) = known
                .as_ref()
                .map_or((None, NAMESPACE_DEFAULT), |known| (known.key_id.as_deref(), known.namespace.as_str()));
            let actor = caller.cloned().unwrap_or_else(|| Caller::of_worker(key_id, namespace));
            audit::act(app, &actor, "builder.revoked", &worker.to_string(), detail, Some(namespace)).await?;
            super::builders::revoke(app, worker).await?;
            Err(Error::TokenExpired(format!("{detail}; the worker was revoked and has to register again")))
        }
        TokenAnswer::Unknown => Err(Error::no_worker(worker)),
    }
}

/// The builder with this name, for the API key it registered with. Where workers without a credential
/// are let in, one that registered so is there for anybody.
pub(crate) async fn builder_by_name(app: &App, caller: &Caller, name_id: &str) -> Result<Builder, Error> {
    caller.has(Scope::Worker)?;
    // No builder can have such a name, and PostgreSQL refuses it in every text.
    if name_id.contains('\0') {
        return Err(Error::no_worker(name_id.replace('\0', "")));
    }
    let builder = app.store.builder(namespace_of(caller), name_id).await?.ok_or_else(|| Error::no_worker(name_id))?;
    if builder.key_id.as_deref() != Some(caller.key_id.as_str()) {
        return Err(Error::Forbidden(format!("the worker {name_id} registered with another API key")));
    }
    match builder.revoked_at {
        Some(_) => Err(Error::TokenExpired("the worker was revoked; register again".into())),
        None => Ok(builder),
    }
}

/// Whether a builder came in without a credential that would not come in now.
fn is_shut_out(app: &App, builder: &Builder) -> bool {
    builder.key_id.as_deref() == Some(ANONYMOUS) && !app.current().expo_legacy_auth
}

/// The builder that a proof names. An unknown name is no credential.
pub(crate) async fn builder(app: &App, proof: &Proof<'_>) -> Result<Builder, Error> {
    match proof {
        Proof::BuilderToken(caller, shown) => builder_by_token(app, *caller, shown).await,
        Proof::BuilderName(caller, name) => match builder_by_name(app, caller, name).await {
            Err(Error::NotFound { .. }) => {
                Err(Error::Forbidden(format!("there is no worker {name} that X-Worker-Id could name; register first")))
            }
            other => other,
        },
        Proof::Machine(_) | Proof::Lease(..) => Err(Error::Forbidden("only a worker can do this".into())),
    }
}

/// The live lease of a build, if this proves that it is the caller's, who wants to do this with it.
pub(crate) async fn lease(app: &App, proof: &Proof<'_>, id: &str, verb: LateVerb) -> Result<(Found, LeaseRef), Error> {
    let (found, lease) = known_lease(app, proof, id).await?;
    match found.record.state.is_held() && found.record.epoch == lease.epoch {
        true => Ok((found, lease)),
        false => Err(refused(app, &found, LeaseWrite::new(lease, verb))),
    }
}

/// The lease that is or was the caller's: also of a build that has ended since.
pub(crate) async fn known_lease(app: &App, proof: &Proof<'_>, id: &str) -> Result<(Found, LeaseRef), Error> {
    let builder = match proof {
        Proof::BuilderToken(..) | Proof::BuilderName(..) => builder(app, proof).await?,
        Proof::Machine(shown) => {
            let run = parse(id)?;
            let opened = app.secrets.open_token(shown, |key| token::open_machine(key, run, shown)).await?;
            let epoch = opened
                .ok_or_else(|| Error::BadCredential("X-VM-Token is not a token of this build's machine".into()))?;
            return Ok((find(app, id).await?, LeaseRef { run, epoch }));
        }
        Proof::Lease(caller, shown) => {
            let run = parse(id)?;
            let lease = crate::service::open_lease(app, caller, run, shown).await?;
            return Ok((find(app, id).await?, lease));
        }
    };
    lease_of(&builder, find(app, id).await?)
}

/// The lease of a build that is or was this builder's.
pub(super) fn lease_of(builder: &Builder, found: Found) -> Result<(Found, LeaseRef), Error> {
    if found.build.submitted.namespace != builder.namespace {
        return Err(no_build(found.record.id));
    }
    if found.record.worker != Some(builder.worker) {
        return Err(Error::Forbidden("this build is not yours: another worker has it, or nobody".into()));
    }
    let lease = LeaseRef { run: found.record.id, epoch: found.record.epoch };
    Ok((found, lease))
}

fn parse(id: &str) -> Result<RunId, Error> {
    id.parse().map_err(|_| no_build(id))
}

/// As [`ended_or_lost`], and the write is noted.
pub(crate) fn refused(app: &App, found: &Found, write: LeaseWrite<'_>) -> Error {
    app.refusals.note(write);
    ended_or_lost(found)
}

/// Why a lease of this build is of no use any more.
pub(crate) fn ended_or_lost(found: &Found) -> Error {
    match found.record.state.is_ended() {
        true => Error::Ended(found.record.state),
        false => Error::LeaseLost,
    }
}
