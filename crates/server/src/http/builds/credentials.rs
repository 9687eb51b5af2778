//! What a caller of these protocols may show. Everything is read before the body.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use baton_proto::{
    API_KEY_HEADER, BUILD_TOKEN_HEADER, LEASE_HEADER, MACHINE_TOKEN_HEADER, WORKER_ID_HEADER, WORKER_TOKEN_HEADER,
};
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::super::extract::Auth;
use crate::auth::Caller;
use crate::service::builds::Reader;
use crate::service::builds::holder::Proof;
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
}

impl FromRequestParts<App> for Shown {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Shown, Error> {
        let has = |name: &str| parts.headers.contains_key(name);
        let caller = match has(API_KEY_HEADER) || has(AUTHORIZATION.as_str()) {
            true => Some(Auth::from_request_parts(parts, app).await?.0),
            false => None,
        };
        let header = |name: &str| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        Ok(Shown {
            caller,
            build: header(BUILD_TOKEN_HEADER),
            worker: header(WORKER_TOKEN_HEADER),
            worker_id: header(WORKER_ID_HEADER),
            machine: header(MACHINE_TOKEN_HEADER),
            lease: header(LEASE_HEADER),
        })
    }
}

/// The credentials of somebody who may be building: refused before the body is read when there are none.
#[derive(Clone, Debug)]
pub(super) struct Builds(pub Shown);

impl FromRequestParts<App> for Builds {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Builds, Error> {
        let shown = Shown::from_request_parts(parts, app).await?;
        if shown.machine.is_none() && shown.lease.is_none() {
            shown.key()?;
        }
        Ok(Builds(shown))
    }
}

impl Shown {
    /// The caller's API key, which is needed here.
    pub(super) fn key(&self) -> Result<&Arc<Caller>, Error> {
        self.caller.as_ref().ok_or(Error::NoCredential)
    }

    /// Whoever submitted the build, or has a key.
    pub(super) fn reader(&self) -> Result<Reader<'_>, Error> {
        match (&self.build, &self.caller) {
            (Some(token), _) => Ok(Reader::Token(token)),
            (None, Some(caller)) => Ok(Reader::Key(caller)),
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
            return Ok(Proof::Lease(lease));
        }
        let caller = self.key()?;
        match (&self.worker, self.worker_id.as_deref().or(worker_id)) {
            (Some(token), _) => Ok(Proof::BuilderToken(caller, token)),
            (None, Some(name)) => Ok(Proof::BuilderName(caller, name)),
            (None, None) => {
                Err(Error::NotShown("send X-Worker-Token (the last answer gave it), X-Worker-Id or X-VM-Token".into()))
            }
        }
    }

    /// The worker's token and nothing else: what a poll needs.
    pub(super) fn worker_token(&self) -> Option<&str> {
        self.worker.as_deref()
    }
}
