//! Runners at GitHub: what the agent of a claimed machine needs to be one, and that none stays there which nobody has any more.
//!
//! What GitHub gives out is handed through and kept nowhere.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_core::pools::{Cause, RunnerId, RunnerState};
use baton_core::{Epoch, Millis};
use baton_proto::{RegisterRunner, RunnerRegistration};
use baton_store::{Pool, PoolRunner, RunnerAnswer, RunnerEnd};

use super::machines::all_runners;
use super::told;
use crate::github::{Errand, GithubScope, Minted, NotMinted, Removed, TRY_MAX};
use crate::service::message;
use crate::{App, Error, crash};

/// The name of a runner at GitHub. It is the same for as long as the runner lives, and no other installation or pool has one that begins so.
fn name_of(app: &App, pool: &Pool, runner: RunnerId) -> String {
    format!("{}{runner}", prefix_of(app, pool))
}

fn prefix_of(app: &App, pool: &Pool) -> String {
    format!("baton-{}-", app.pools.info(pool).tag)
}

fn errand<'a>(app: &'a App, scope: &'a GithubScope, most: Duration) -> Errand<'a> {
    app.pools.github.errand(&app.settings, scope, app.entropy.as_ref(), most)
}

/// Whether the runners of a pool are registered at GitHub.
pub(crate) fn registers(pool: &Pool) -> bool {
    scope_of(pool).is_some()
}

/// What a pool's options say of GitHub; they were looked at when they were set.
fn scope_of(pool: &Pool) -> Option<GithubScope> {
    GithubScope::of(&pool.spec.options).ok().flatten()
}

/// What an agent needs to register its machine at GitHub for the run that has claimed it. Again gives another one, and takes the first away.
pub async fn register(app: &App, runner: RunnerId, wanted: &RegisterRunner) -> Result<RunnerRegistration, Error> {
    let seen = held(app, runner, wanted).await?;
    let pool = pool_of(app, &seen).await?;
    let Some(scope) = scope_of(&pool) else {
        return Err(Error::Conflict(format!("the pool {} does not register its runners at GitHub", pool.name)));
    };
    if let Some(why) = app.pools.github.refuses(pool.number).filter(|_| seen.rules.state == RunnerState::Claimed) {
        // It was taken before GitHub refused another one, which would be told the same.
        put_back(app, &pool, &seen, &why).await?;
        return Err(Error::Github(why));
    }
    let name = name_of(app, &pool, runner);
    let errand = errand(app, &scope, left(app, &seen).await?);
    let minted = match errand.mint(&name, &wanted.run_id).await {
        Ok(minted) => minted,
        Err(NotMinted::Github { why, after }) => {
            tracing::warn!(pool = pool.name, %runner, why, "a runner cannot be registered at GitHub");
            // That is none of the machine's doing, and the next one would fare the same: none is taken until GitHub answers again.
            app.pools.github.hold(pool.number, &why, after, app.store.clock().local());
            put_back(app, &pool, &seen, &why).await?;
            return Err(Error::Github(why));
        }
        Err(NotMinted::Name(why)) => {
            discard(app, &pool, &seen, &why).await?;
            return Err(Error::Github(why));
        }
    };
    crash::point("github.minted");
    // The claim may have ended meanwhile, and its agent may be done with taking back what it knows of.
    if let Err(error) = held(app, runner, wanted).await {
        remove(app, &pool, &scope, runner).await;
        return Err(error);
    }
    tracing::info!(pool = pool.name, %runner, run_id = wanted.run_id, ?minted, "a runner may register at GitHub");
    let url = scope.url(app.settings.github_pages());
    Ok(match minted {
        Minted::Jit(config) => RunnerRegistration::Jit { name, config },
        Minted::Token(token) => RunnerRegistration::Token { name, url, token },
    })
}

/// Gives a claimed machine back that GitHub would have no runner for: it is well, and waits in its
/// pool until GitHub answers again. The claim goes on.
async fn put_back(app: &App, pool: &Pool, seen: &PoolRunner, why: &str) -> Result<(), Error> {
    let Some(claim) = seen.rules.owner.filter(|_| seen.rules.state == RunnerState::Claimed) else { return Ok(()) };
    let release_ms = app.current().pool_release();
    let given = app.store.give_back_runners(claim, vec![seen.reference()], &message(why), release_ms).await?;
    if given.iter().any(|answer| matches!(answer, RunnerAnswer::Moved(..))) {
        tracing::info!(pool = pool.name, runner = %seen.id, why, "a machine goes back to its pool until GitHub answers");
        app.pools.tell(RunnerState::Releasing, [seen.id]);
        app.pools.moved(claim);
    }
    Ok(())
}

/// Ends a claimed machine whose name GitHub does not let go of. Another machine has another name.
async fn discard(app: &App, pool: &Pool, seen: &PoolRunner, why: &str) -> Result<(), Error> {
    let end = RunnerEnd { runner: seen.reference(), cause: Cause::RegisterFailed, detail: message(why) };
    let ended = app.store.end_runners(vec![end]).await?;
    if ended.iter().any(|answer| matches!(answer, RunnerAnswer::Moved(..))) {
        told::discarded(pool, seen.id, Cause::RegisterFailed, why);
        app.pools.tell(RunnerState::Terminating, [seen.id]);
        app.pools.claims.ring();
        app.pools.keeper.ring();
    }
    Ok(())
}

/// Asks GitHub again whether it would have runners of a pool that it has refused.
pub(crate) async fn ask_again(app: &App, pool: &Pool) -> Result<(), Error> {
    let asked = match scope_of(pool) {
        Some(scope) => errand(app, &scope, TRY_MAX).probe().await,
        // It has nothing to do with GitHub any more.
        None => Ok(()),
    };
    match asked {
        Ok(()) => {
            app.pools.github.let_go(pool.number);
            app.pools.claims.ring();
        }
        Err(failure) => {
            tracing::warn!(pool = pool.name, why = %failure, "GitHub still refuses the runners of a pool");
            app.pools.github.hold(pool.number, &failure.to_string(), failure.after(), app.store.clock().local());
        }
    }
    Ok(())
}

/// Takes back what an agent has registered. Whether there was anything does not matter, and GitHub being away neither: its machine is done with it, and what is left there is looked
/// for again.
pub async fn deregister(app: &App, runner: RunnerId) -> Result<(), Error> {
    let Some(seen) = app.store.runner(runner).await? else { return Ok(()) };
    let pool = pool_of(app, &seen).await?;
    if let Some(scope) = scope_of(&pool) {
        remove(app, &pool, &scope, runner).await;
    }
    Ok(())
}

/// The runner, if it is claimed for this run.
async fn held(app: &App, runner: RunnerId, wanted: &RegisterRunner) -> Result<PoolRunner, Error> {
    let is_held = |seen: &PoolRunner| {
        matches!(seen.rules.state, RunnerState::Claimed | RunnerState::Running)
            && seen.rules.epoch == Epoch::new(wanted.epoch)
            && seen.run_id.as_ref() == Some(&wanted.run_id)
    };
    let not_held = || Error::Conflict(format!("the runner is not claimed for the run {}", wanted.run_id));
    app.store.runner(runner).await?.filter(is_held).ok_or_else(not_held)
}

async fn pool_of(app: &App, runner: &PoolRunner) -> Result<Pool, Error> {
    let (namespace, name) = app.pools.name(runner.pool).await?;
    let found = app.store.pool(&namespace, &name).await?.filter(|pool| pool.number == runner.pool);
    found.ok_or(Error::NotFound { what: "pool", id: name })
}

/// How much time GitHub may take: most of what a machine has to register. One whose deadline passes
/// while GitHub is asked would be discarded.
async fn left(app: &App, runner: &PoolRunner) -> Result<Duration, Error> {
    let Some(deadline) = runner.rules.deadline else { return Ok(TRY_MAX) };
    let left: Millis = deadline.saturating_sub(app.time.now().await?);
    Ok(Duration::from_millis(left.max(0).unsigned_abs()) * 3 / 4)
}

async fn remove(app: &App, pool: &Pool, scope: &GithubScope, runner: RunnerId) {
    match errand(app, scope, TRY_MAX).remove(&name_of(app, pool, runner)).await {
        Ok(Removed::Gone) => {}
        Ok(Removed::Busy) => {
            tracing::warn!(pool = pool.name, %runner, "GitHub takes the runner to be at work; it is removed later")
        }
        Err(why) => {
            tracing::warn!(pool = pool.name, %runner, %why, "a runner could not be removed at GitHub; it is tried again")
        }
    }
}

/// Takes back what machines have registered that are ended.
pub(crate) async fn ended(app: &App, pool: &Pool, runners: &[PoolRunner]) {
    let Some(scope) = scope_of(pool) else { return };
    for runner in runners.iter().filter(|runner| runner.uses > 0) {
        remove(app, pool, &scope, runner.id).await;
    }
}

/// Removes runners at GitHub that this pool has registered and that nobody has any more: an agent or a server fell before it could do so.
pub(crate) async fn sweep(app: &App, pool: &Pool) -> Result<(), Error> {
    let Some(scope) = scope_of(pool) else { return Ok(()) };
    let listed = match errand(app, &scope, TRY_MAX).find(None).await {
        Ok(listed) => listed,
        Err(why) => {
            tracing::warn!(pool = pool.name, %why, "GitHub does not say which runners it has");
            return Ok(());
        }
    };
    // Read after the list: whatever was registered since then is not in it.
    let rows = all_runners(app, pool).await?;
    let is_used = |row: &&PoolRunner| {
        matches!(row.rules.state, RunnerState::Claimed | RunnerState::Running | RunnerState::Releasing)
    };
    let used: BTreeSet<String> = rows.iter().filter(is_used).map(|row| name_of(app, pool, row.id)).collect();
    let prefix = prefix_of(app, pool);
    for left in listed.iter().filter(|listed| listed.name.starts_with(&prefix) && !used.contains(&listed.name)) {
        match errand(app, &scope, TRY_MAX).remove_one(left).await {
            Ok(removed) => tracing::info!(pool = pool.name, name = left.name, ?removed, "a runner was left at GitHub"),
            Err(why) => tracing::warn!(pool = pool.name, name = left.name, %why, "a runner is left at GitHub"),
        }
    }
    Ok(())
}
