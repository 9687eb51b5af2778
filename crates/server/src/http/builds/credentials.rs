//! What a caller of these protocols may show. Everything is read before the body.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use baton_core::token::TokenKey;
use baton_core::{RunId, token};
use baton_proto::{BUILD_TOKEN_HEADER, LEASE_HEADER, MACHINE_TOKEN_HEADER, WORKER_ID_HEADER, WORKER_TOKEN_HEADER};
use http::request::Parts;

use super::super::extract::{Auth, credential};
use crate::auth::Caller;
use crate::service::builds::Reader;
use crate::service::builds::holder::Proof;
use crate::service::open_lease;
use crate::{App, Error};

/// All credentials of a request. An API key that is shown has been checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub caller: Option<Arc<Caller>>,
    build: Option<String>,
    worker: Option<String>,
    pub worker_id: Option<String>,
    machine: Option<String>,
    lease: Option<String>,
    /// Stands for workers that show no credential, where the setting `expo_legacy_auth` lets them
    /// in.
    anonymous: Option<Arc<Caller>>,
}

impl FromRequestParts<App> for Shown {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Shown, Error> {
        let header = |name: &str| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let mut shown = Shown {
            caller: None,
            build: header(BUILD_TOKEN_HEADER),
            worker: header(WORKER_TOKEN_HEADER),
            worker_id: header(WORKER_ID_HEADER),
            machine: header(MACHINE_TOKEN_HEADER),
            lease: header(LEASE_HEADER),
            anonymous: app.current().expo_legacy_auth.then(|| Arc::new(Caller::anonymous())),
        };
        if credential(&parts.headers).is_some() {
            let has_token =
                [&shown.build, &shown.worker, &shown.machine, &shown.lease].into_iter().any(Option::is_some);
            shown.caller = match Auth::from_request_parts(parts, app).await {
                Ok(Auth(caller)) => Some(caller),
                // A wrong key spoils no token, which is checked where it is used. But whoever shows one is not nobody.
                Err(Error::BadCredential(_)) if has_token => {
                    shown.anonymous = None;
                    None
                }
                Err(other) => return Err(other),
            };
        }
        Ok(shown)
    }
}

/// The credentials of somebody who may be building: refused before the body is read when there are none.
#[derive(Clone, Debug)]
pub(super) struct Builds(pub Shown);

impl FromRequestParts<App> for Builds {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Builds, Error> {
        let shown = Shown::from_request_parts(parts, app).await?;
        let run = parts.uri.path().strip_prefix("/api/builds/").and_then(|rest| rest.split('/').next()?.parse().ok());
        match (&shown.machine, &shown.lease, &shown.worker) {
            (Some(token), _, _) => check_machine(app, run, token).await?,
            (None, Some(token), _) => {
                let run = run.ok_or_else(|| Error::Forbidden("X-Lease is not a lease of this build".into()))?;
                open_lease(app, shown.key()?, run, token).await?;
            }
            (None, None, Some(token)) if shown.caller.is_none() => {
                let opened = app.secrets.open_token(token, |key| token::open_builder(key, token)).await?;
                opened.ok_or_else(|| {
                    Error::TokenExpired("X-Worker-Token is no token of this server; register again".into())
                })?;
            }
            (None, None, Some(_)) => {}
            (None, None, None) => {
                shown.worker_caller()?;
            }
        }
        Ok(Builds(shown))
    }
}

/// Refuses a token that no machine of this build can have. Whether its lease lives is for the store to say.
async fn check_machine(app: &App, run: Option<RunId>, shown: &str) -> Result<(), Error> {
    let is_ours = |key: &TokenKey| {
        let opened =
            run.and_then(|run| token::open_machine(key, run, shown).or_else(|| token::open_beat(key, run, shown)));
        opened.map(drop)
    };
    match app.secrets.open_token(shown, is_ours).await? {
        Some(()) => Ok(()),
        None => Err(Error::BadCredential("X-VM-Token is not a token of this build's machine".into())),
    }
}

/// The API key of a worker that makes itself known; where a setting allows it, nobody's.
#[derive(Clone, Debug)]
pub(super) struct Registers(pub Arc<Caller>);

impl FromRequestParts<App> for Registers {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Registers, Error> {
        Shown::from_request_parts(parts, app).await?.worker_caller().cloned().map(Registers)
    }
}

impl Shown {
    /// The caller's API key, which is needed here.
    pub(super) fn key(&self) -> Result<&Arc<Caller>, Error> {
        self.caller.as_ref().ok_or(Error::NoCredential)
    }

    /// The API key of a worker; where a setting allows it, nobody's.
    pub(super) fn worker_caller(&self) -> Result<&Arc<Caller>, Error> {
        self.caller.as_ref().or(self.anonymous.as_ref()).ok_or(Error::NoCredential)
    }

    /// True when workers without any credential are let in, and this one has shown none.
    pub(super) fn shows_nothing(&self) -> bool {
        let tokens = [&self.worker, &self.machine, &self.lease];
        self.caller.is_none() && self.anonymous.is_some() && tokens.into_iter().all(Option::is_none)
    }

    /// Whoever submitted the build, or has a key.
    pub(super) fn reader(&self) -> Result<Reader<'_>, Error> {
        match (&self.caller, &self.build) {
            (Some(caller), Some(token)) => Ok(Reader::KeyOrToken(caller, token)),
            (Some(caller), None) => Ok(Reader::Key(caller)),
            (None, Some(token)) => Ok(Reader::Token(token)),
            (None, None) => {
                Err(Error::NotShown("send X-Build-Token (submitting the build gave it) or X-API-Key".into()))
            }
        }
    }

    /// Whoever builds it. `worker_id` is what else names the builder, in a query or a body.
    pub(super) fn proof<'a>(&'a self, worker_id: Option<&'a str>) -> Result<Proof<'a>, Error> {
        if let Some(machine) = &self.machine {
            return Ok(Proof::Machine(machine));
        }
        if let Some(lease) = &self.lease {
            return Ok(Proof::Lease(self.key()?, lease));
        }
        match (&self.worker, self.worker_id.as_deref().or(worker_id)) {
            (Some(token), _) => Ok(Proof::BuilderToken(self.caller.as_deref(), token)),
            (None, Some(name)) => Ok(Proof::BuilderName(self.worker_caller()?, name)),
            (None, None) => {
                self.worker_caller()?;
                Err(Error::NotShown("send X-Worker-Token (the last answer gave it), X-Worker-Id or X-VM-Token".into()))
            }
        }
    }

    /// The worker's token and nothing else: what a poll needs.
    pub(super) fn worker_token(&self) -> Option<&str> {
        self.worker.as_deref()
    }
}
