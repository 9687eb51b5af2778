//! Runner pools: warm machines that are claimed, verified, handed over, given back. docs/adr/0016 has the reasons.
//!
//! Here is what people and agents ask for. What follows from it is done by `loops::pool_claims` and `loops::pool_keeper`, on any server.

pub mod agents;
pub mod board;
pub mod claims;
pub mod github;
pub mod machines;
mod reach;
pub mod read;
pub mod runners;
mod spec;
pub mod sweep;
pub(crate) mod told;

use baton_proto::{ChangePool, CreatePool, PoolView};
use baton_store::{NewPool, Pool, PoolAnswer, Scope};

use super::{audit, check_name, check_plain_name, message};
use crate::auth::Caller;
use crate::{App, Error};

/// How often a change is tried anew because somebody else changed the pool in between.
const TRIES_MAX: usize = 20;

/// Makes a pool. The same again gives the same answer; true when this call made it.
pub async fn create(app: &App, caller: &Caller, wanted: CreatePool) -> Result<(PoolView, bool), Error> {
    caller.may(Scope::Admin, &wanted.namespace)?;
    check_name("namespace", &wanted.namespace)?;
    check_plain_name("name", &wanted.name)?;
    let (namespace, name) = (wanted.namespace.clone(), wanted.name.clone());
    let spec = spec::of(wanted);
    spec::check(app, caller, &spec)?;
    let note = reach::check(app, &spec).await?;
    // Made on first use, and refused while it is disabled.
    app.namespaces.limits(&namespace).await?;
    let new = NewPool { namespace: namespace.clone(), name: name.clone(), spec: spec.clone() };
    match app.store.add_pool(new).await? {
        PoolAnswer::Made(mut pool) => {
            if let Some(note) = note {
                app.store.note_pool_error(pool.number, &message(&note)).await?;
                pool.error = Some(note);
            }
            let detail = format!("provider {}, min_idle {}, max_size {}", spec.provider, spec.min_idle, spec.max_size);
            audit::act(app, caller, "pool.create", &name, &detail, Some(&namespace)).await?;
            app.pools.keeper.ring();
            Ok((read::view(app, pool).await?, true))
        }
        PoolAnswer::Exists(pool) if pool.spec == spec && pool.deleting_at.is_none() => {
            Ok((read::view(app, pool).await?, false))
        }
        PoolAnswer::Exists(pool) if pool.deleting_at.is_some() => {
            Err(Error::Conflict(format!("the pool {name} is still being deleted: wait until its last runner is gone")))
        }
        PoolAnswer::Exists(_) => Err(Error::Conflict(format!(
            "there is a pool {name} already, and it is another one: change it (baton pool set), or choose another name"
        ))),
    }
}

/// Changes a pool.
pub async fn change(
    app: &App,
    caller: &Caller,
    namespace: &str,
    name: &str,
    wanted: ChangePool,
) -> Result<PoolView, Error> {
    for _ in 0..TRIES_MAX {
        let seen = find(app, caller, Scope::Admin, namespace, name).await?;
        if seen.deleting_at.is_some() {
            return Err(Error::Conflict(format!("the pool {name} is being deleted")));
        }
        if let Some(revision) = wanted.revision.filter(|revision| *revision != seen.revision) {
            let now = seen.revision;
            return Err(Error::Conflict(format!("the pool has revision {now}, not {revision}: look at it again")));
        }
        let spec = spec::changed(&seen.spec, &wanted)?;
        spec::check(app, caller, &spec)?;
        if let Some(changed) = app.store.change_pool(seen.number, seen.revision, spec).await? {
            let detail = format!("min_idle {}, max_size {}", changed.spec.min_idle, changed.spec.max_size);
            audit::act(app, caller, "pool.change", name, &detail, Some(namespace)).await?;
            app.pools.keeper.ring();
            app.pools.claims.ring();
            return read::view(app, changed).await;
        }
    }
    Err(Error::Conflict("the pool keeps changing; look at it and try again".into()))
}

/// Begins to delete a pool: waiting claims fail, idle runners end, running ones finish. With `is_forced`, machines that are being ended are given up: nobody
/// waits any longer for a provider to say that they are gone.
pub async fn delete(
    app: &App,
    caller: &Caller,
    namespace: &str,
    name: &str,
    is_forced: bool,
) -> Result<PoolView, Error> {
    let seen = find(app, caller, Scope::Admin, namespace, name).await?;
    let pool = app.store.delete_pool(seen.number).await?.ok_or_else(|| no_pool(name))?;
    if seen.deleting_at.is_none() {
        audit::act(app, caller, "pool.delete", name, "", Some(namespace)).await?;
    }
    if is_forced {
        let given_up = machines::give_up(app, &pool).await?;
        if !given_up.is_empty() {
            let detail = message(&format!("given up: {}", given_up.join(", ")));
            audit::act(app, caller, "pool.delete_forced", name, &detail, Some(namespace)).await?;
        }
    }
    app.pools.keeper.ring();
    read::view(app, pool).await
}

/// What keeps a pool from having machines, or from handing them over, as was last heard.
fn trouble(app: &App, pool: &Pool) -> Option<String> {
    app.pools.github.refuses(pool.number).or_else(|| pool.error.clone())
}

fn no_pool(name: &str) -> Error {
    Error::NotFound { what: "pool", id: name.into() }
}

/// The pool, if the caller may do this with it.
pub(crate) async fn find(app: &App, caller: &Caller, scope: Scope, namespace: &str, name: &str) -> Result<Pool, Error> {
    caller.may(scope, namespace)?;
    app.store.pool(namespace, name).await?.ok_or_else(|| no_pool(name))
}
