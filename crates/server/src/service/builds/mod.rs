//! Builds: source in, artifact out. A build is a run of the queue `builds` whose type is its platform; states, order, leases and
//! retries are the kernel's. Here is what builds have besides: files, logs, builders with tokens, machines.

pub mod builders;
pub mod cache;
pub mod control;
pub mod files;
pub mod git;
pub mod holder;
pub mod logs;
pub mod machines;
pub mod overview;
pub mod read;
pub mod results;
pub mod submit;

use std::time::Duration;

use baton_core::token::TokenKey;
use baton_core::{Failure, Millis, Reason, RunId, State, WorkerId, token};
use baton_proto::{BuildStatus, NAMESPACE_DEFAULT};
use baton_store::{Build, LeaseRef, RunRecord, Scope};

use super::{renew, run_id};
use crate::auth::Caller;
use crate::{App, Error};

/// The queue of builds, in every namespace.
pub const QUEUE: &str = "builds";
/// The platform of builds from repositories, which have none.
pub const PLATFORM_GIT: &str = "git";

/// Most runs that are no builds which one poll of a builder clears away.
const STRANGERS_MAX: usize = 100;

/// A build and its run.
#[derive(Clone, Debug)]
pub struct Found {
    /// The run.
    pub record: RunRecord,
    /// What builds have besides.
    pub build: Build,
}

/// Who wants to see a build, and how that was proven.
#[derive(Clone, Debug)]
pub enum Reader<'a> {
    /// An API key.
    Key(&'a Caller),
    /// The token that the build's submitter got.
    Token(&'a str),
    /// Both. The key counts where it is good for what is asked.
    KeyOrToken(&'a Caller, &'a str),
}

/// Ends a run that a builder was handed and that is no build: anybody may submit a run to this queue, and one that no
/// builder can do must not keep it from the builds behind.
async fn reject_stranger(app: &App, lease: LeaseRef) -> Result<(), Error> {
    tracing::warn!(run = %lease.run, "a run in the queue of builds is no build, and is rejected");
    let failure = Failure {
        reason: Reason::Rejected,
        code: Some("not_a_build".into()),
        message: "The run is no build, and builders asked for work. Submit builds with POST /api/builds or \
                  POST /api/v1/builds, and other runs to another queue."
            .into(),
        retryable: false,
        not_before: None,
    };
    let changes = app.metrics.fail.at_store(app.store.fail(vec![(lease, failure)], app.entropy.die())).await?;
    app.metrics.fail.did(&changes.verdicts);
    app.after().changed(std::iter::once(lease.run), &changes);
    Ok(())
}

impl Reader<'_> {
    /// Who it is in the audit log.
    pub(crate) fn actor(&self) -> &str {
        match self {
            Reader::Key(caller) | Reader::KeyOrToken(caller, _) => &caller.key_id,
            Reader::Token(_) => "build token",
        }
    }
}

/// The namespace a caller works in where a protocol has no word for it.
pub fn namespace_of(caller: &Caller) -> &str {
    caller.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT)
}

/// The build, whoever asks.
pub(crate) async fn find(app: &App, id: &str) -> Result<Found, Error> {
    let run = run_id(id).map_err(|_| no_build(id))?;
    let build = app.store.builds(&[run]).await?.pop().flatten().ok_or_else(|| no_build(id))?;
    let record = app.store.run(run).await?.ok_or_else(|| no_build(id))?;
    Ok(Found { record, build })
}

/// The build, if the reader may see it (with `Scope::Read`) or change it (with `Scope::Submit`).
pub(crate) async fn visible(app: &App, reader: &Reader<'_>, scope: Scope, id: &str) -> Result<Found, Error> {
    match reader {
        Reader::Key(caller) => {
            caller.has(scope)?;
            let found = find(app, id).await?;
            // Whoever has a key of another namespace is told nothing of this one.
            match caller.sees(&found.build.submitted.namespace) {
                true => Ok(found),
                false => Err(no_build(id)),
            }
        }
        Reader::KeyOrToken(caller, shown) => match Box::pin(visible(app, &Reader::Key(caller), scope, id)).await {
            Err(Error::Forbidden(_) | Error::NotFound { .. }) => {
                Box::pin(visible(app, &Reader::Token(shown), scope, id)).await
            }
            other => other,
        },
        Reader::Token(shown) => {
            let run = run_id(id).map_err(|_| wrong_token())?;
            let is_own = |key: &TokenKey| token::is_build(key, run, shown).then_some(());
            app.secrets.open_token(shown, is_own).await?.ok_or_else(wrong_token)?;
            find(app, id).await
        }
    }
}

fn wrong_token() -> Error {
    Error::BadCredential("X-Build-Token is not the token of this build; submitting it gave the right one".into())
}

pub(crate) fn no_build(id: impl ToString) -> Error {
    Error::NotFound { what: "build", id: id.to_string() }
}

/// A builder or its machine was heard of, which renews its leases beside the answer. Not every
/// time: they live for minutes.
async fn heard_of(app: &App, worker: WorkerId) -> Result<(), Error> {
    let Some(known) = app.workers.get(worker).await? else { return Ok(()) };
    let timeout_ms = app.current().build_heartbeat_timeout_ms;
    let often_enough = Duration::from_millis(timeout_ms / 8);
    // A timeout that was changed since holds for builders that are known already. Workers of the native API have leases of their own.
    let new_ttl_ms = known.builder.as_ref().and_then(|_| known.new_ttl_ms(timeout_ms as Millis));
    if app.store.clock().fixed().is_some() {
        // Where the store's clock is moved by hand, a span on this server's own means nothing.
        renew::sign_of_life(app, &known, new_ttl_ms).await?;
    } else if new_ttl_ms.is_some() || !known.is_renewed_within(often_enough) {
        renew::sign_of_life_beside(app, &known, new_ttl_ms);
    }
    Ok(())
}

/// Where a build stands, in the words of builds. Waiting for a retry is waiting.
pub fn status_of(state: State) -> BuildStatus {
    match state {
        State::Pending | State::Sleeping => BuildStatus::Pending,
        State::Assigned => BuildStatus::Assigned,
        State::Running => BuildStatus::Building,
        State::Completed => BuildStatus::Completed,
        State::Failed => BuildStatus::Failed,
        State::Cancelled => BuildStatus::Cancelled,
    }
}

/// The states that a status stands for.
pub fn states_of(status: BuildStatus) -> State {
    match status {
        BuildStatus::Pending => State::Pending,
        BuildStatus::Assigned => State::Assigned,
        BuildStatus::Building => State::Running,
        BuildStatus::Completed => State::Completed,
        BuildStatus::Failed => State::Failed,
        BuildStatus::Cancelled => State::Cancelled,
    }
}

/// The token with which the submitter of a build follows it.
pub(crate) fn build_token(app: &App, run: RunId) -> String {
    token::build(&app.secrets.ring().newest().tokens, run)
}
