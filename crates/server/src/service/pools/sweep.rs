//! Compares what providers have with what the store knows: machines that nobody has, and runners whose machines are no more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use baton_core::Millis;
use baton_core::pools::{Cause, OrderId, RunnerId, RunnerState};
use baton_store::{Pool, PoolRunner, RunnerAnswer, RunnerEnd, RunnerFilter};

use super::machines::{all_runners, end_machines, forget, list, live_runners, provider, read, take_over};
use super::told;
use crate::providers::{PROVIDER_DEFAULT, Provider, ProviderMachine};
use crate::service::message;
use crate::{App, Error};

/// Compares what the provider has with what the store knows, in both directions.
pub(crate) async fn sweep(app: &App, pool: &Pool) -> Result<(), Error> {
    let Some(provider) = provider(app, pool) else { return Ok(()) };
    let begun = app.store.now().await?;
    let known = match provider.lists_all() {
        true => live_runners(app, pool).await?,
        false => Vec::new(),
    };
    let Some(listed) = list(app, pool, provider.as_ref()).await? else { return Ok(()) };
    // Read after the list: a machine that came in between is not missed, and a row that did is too young to be lost.
    let rows = all_runners(app, pool).await?;
    let now = app.store.now().await?;
    let grace = app.current().pool_grace();
    lose(app, pool, provider.as_ref(), &listed, &rows, &known, now).await?;
    let terminating = rows.iter().filter(|row| row.rules.state == RunnerState::Terminating);
    let terminating: Vec<PoolRunner> = terminating.cloned().collect();
    forget(app, pool, provider.as_ref(), &listed, &terminating).await?;

    let by_machine: HashMap<&str, RunnerState> =
        rows.iter().filter_map(|row| Some((row.machine_id.as_deref()?, row.rules.state))).collect();
    let is_stray = |machine: &&ProviderMachine| {
        by_machine.get(machine.id.as_str()).is_none_or(|state| *state == RunnerState::Gone)
    };
    let strays: Vec<&ProviderMachine> = listed.iter().filter(is_stray).collect();
    let old = old_strays(app, pool, &strays, begun, now, grace);
    let (mut orders, mut others) = (BTreeMap::<OrderId, Vec<ProviderMachine>>::new(), Vec::new());
    for stray in old {
        let order = stray.token.as_deref().and_then(|token| token.parse().ok());
        match order.filter(|_| !by_machine.contains_key(stray.id.as_str())) {
            // An answer got lost, perhaps: if its order has room for it, it is one of ours.
            Some(order) => orders.entry(order).or_default().push(stray.clone()),
            None => others.push(stray.id.clone()),
        }
    }
    for (order, machines) in orders {
        take_over(app, pool, provider.as_ref(), order, machines).await?;
    }
    if !others.is_empty() {
        let rows = read(app, RunnerFilter { not_state: Some(RunnerState::Gone), ..RunnerFilter::default() }).await?;
        let elsewhere: BTreeSet<&str> =
            rows.iter().filter(|row| row.pool != pool.number).filter_map(|row| row.machine_id.as_deref()).collect();
        others.retain(|id| !elsewhere.contains(id.as_str()));
    }
    end_machines(app, pool, provider.as_ref(), others, "no runner has them").await;
    Ok(())
}

/// Those that have been listed for longer than the grace time without a row.
fn old_strays<'a>(
    app: &App,
    pool: &Pool,
    strays: &[&'a ProviderMachine],
    begun: Millis,
    now: Millis,
    grace: Millis,
) -> Vec<&'a ProviderMachine> {
    let mut seen = app.pools.strays.lock().expect("nobody panics while holding it");
    // A slow list must not make forget what a later one has found.
    let is_newer = |since: Millis| since >= begun;
    seen.retain(|(number, id), since| {
        *number != pool.number || is_newer(*since) || strays.iter().any(|stray| stray.id == *id)
    });
    let mut old = Vec::new();
    for stray in strays {
        let since = *seen.entry((pool.number, stray.id.clone())).or_insert(now);
        if now.saturating_sub(since) >= grace {
            old.push(*stray);
        }
    }
    old
}

/// Ends runners whose machines have not been listed for longer than the grace time, and whose agents are not heard either. One list proves nothing:
/// a cloud leaves out what is there, and a script may fail without a word. Those whose machines were `known` before a provider was asked that lists all
/// are lost at once.
async fn lose(
    app: &App,
    pool: &Pool,
    provider: &dyn Provider,
    listed: &[ProviderMachine],
    rows: &[PoolRunner],
    known: &[PoolRunner],
    now: Millis,
) -> Result<(), Error> {
    let settings = app.current();
    let fresh = settings.pool_limits().heartbeat_ms;
    let ids: BTreeSet<&str> = listed.iter().map(|machine| machine.id.as_str()).collect();
    let known: BTreeSet<(RunnerId, &str)> =
        known.iter().filter_map(|row| Some((row.id, row.machine_id.as_deref()?))).collect();
    let is_known = |row: &PoolRunner| row.machine_id.as_deref().is_some_and(|id| known.contains(&(row.id, id)));
    let is_missing = |row: &&PoolRunner| {
        let is_live = !matches!(row.rules.state, RunnerState::Terminating | RunnerState::Gone);
        let is_heard = row.seen_at.is_some_and(|at| now.saturating_sub(at) <= fresh);
        is_live
            && (!is_heard || is_known(row))
            && row.machine_id.as_deref().is_some_and(|id| provider.is_here(id) && !ids.contains(id))
    };
    let missing: Vec<&PoolRunner> = rows.iter().filter(is_missing).collect();
    let (mut lost, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(|row| is_known(row));
    lost.extend(long_missing(app, pool, missing, now, settings.pool_grace()));
    let lost = lost.iter().map(|row| RunnerEnd {
        runner: row.reference(),
        cause: Cause::Lost,
        detail: "the provider does not list its machine any more".into(),
    });
    end_lost(app, pool, lost.collect()).await
}

async fn end_lost(app: &App, pool: &Pool, ends: Vec<RunnerEnd>) -> Result<(), Error> {
    if ends.is_empty() {
        return Ok(());
    }
    let answers = app.store.end_runners(ends.clone()).await?;
    let moved = ends.iter().zip(answers).filter(|(_, answer)| matches!(answer, RunnerAnswer::Moved(..)));
    let lost = moved.map(|(end, _)| {
        told::discarded(pool, end.runner.runner, end.cause, &end.detail);
        end.runner.runner
    });
    app.pools.tell(RunnerState::Terminating, lost);
    app.pools.keeper.ring();
    app.pools.claims.ring();
    Ok(())
}

/// Those that have been missing for longer than the grace time, in every list since.
fn long_missing<'a>(
    app: &App,
    pool: &Pool,
    missing: Vec<&'a PoolRunner>,
    now: Millis,
    grace: Millis,
) -> Vec<&'a PoolRunner> {
    let mut seen = app.pools.missing.lock().expect("nobody panics while holding it");
    let ids: BTreeSet<RunnerId> = missing.iter().map(|row| row.id).collect();
    seen.retain(|(number, id), _| *number != pool.number || ids.contains(id));
    let mut is_long = |row: &&PoolRunner| {
        let since = *seen.entry((pool.number, row.id)).or_insert(now);
        now.saturating_sub(since) >= grace
    };
    missing.into_iter().filter(|row| is_long(row)).collect()
}

/// Ends runners whose machines have ended by themselves, as their provider has noticed: nobody has to miss them first.
pub(crate) async fn note_ended(app: &App, pools: &[Pool]) -> Result<(), Error> {
    let ended = app.pools.ended.all();
    if ended.is_empty() {
        return Ok(());
    }
    for pool in pools.iter().filter(|pool| pool.spec.provider == PROVIDER_DEFAULT) {
        let (mut ends, mut noted) = (Vec::new(), Vec::new());
        for row in live_runners(app, pool).await? {
            let Some((machine, words)) = row.machine_id.as_ref().and_then(|id| ended.get_key_value(id)) else {
                continue;
            };
            if row.rules.state != RunnerState::Terminating {
                ends.push(RunnerEnd { runner: row.reference(), cause: Cause::Lost, detail: message(words) });
            }
            noted.push(machine);
        }
        end_lost(app, pool, ends).await?;
        // Only when it is written down.
        noted.into_iter().for_each(|machine| app.pools.ended.forget(machine));
    }
    Ok(())
}
