//! Pools as they are shown.

use std::collections::BTreeMap;

use baton_core::Millis;
use baton_core::pools::RunnerState;
use baton_proto::{PoolStatistics, PoolView, Time};
use baton_store::{Page, Pool, PoolNo, PoolStats, RunnerFilter, Scope, pool_total};

use super::{find, trouble};
use crate::auth::Caller;
use crate::{App, Error};

/// What is shown of a secret.
pub(super) const HIDDEN: &str = "***";
/// Rows that are read at once.
const PAGE: usize = 1_000;

/// One pool.
pub async fn get(app: &App, caller: &Caller, namespace: &str, name: &str) -> Result<PoolView, Error> {
    view(app, find(app, caller, Scope::Read, namespace, name).await?).await
}

/// A page of pools, by namespace and name.
pub async fn list(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    page: Page<(String, String)>,
) -> Result<Vec<PoolView>, Error> {
    caller.has(Scope::Read)?;
    if let Some(namespace) = namespace {
        caller.may(Scope::Read, namespace)?;
    }
    let found = app.store.pools(namespace.or(caller.namespace.as_deref()), page).await?;
    let mut views = Vec::with_capacity(found.len());
    for pool in found {
        views.push(numbered(app, pool).await?.0);
    }
    Ok(views)
}

/// A pool with everything that is known of it.
pub(super) async fn view(app: &App, pool: Pool) -> Result<PoolView, Error> {
    let number = pool.number;
    let (view, stats) = numbered(app, pool).await?;
    let mut statistics = statistics(&stats);
    // The sums have what is over; what still lasts is added.
    statistics.idle_ms += lasting_ms(app, number, RunnerState::Idle).await?;
    statistics.used_ms += lasting_ms(app, number, RunnerState::Running).await?;
    Ok(PoolView { statistics: Some(statistics), ..view })
}

/// For how long the runners in a state have been in it, in all.
async fn lasting_ms(app: &App, pool: PoolNo, state: RunnerState) -> Result<u64, Error> {
    let filter = RunnerFilter { pool: Some(pool), state: Some(state), ..RunnerFilter::default() };
    let now = app.time.now().await?;
    let (mut after, mut sum) = (None, 0);
    loop {
        let page = app.store.runners(filter, Page { after, limit: PAGE }).await?;
        sum += page.iter().map(|runner| u64::try_from(now.saturating_sub(runner.since)).unwrap_or(0)).sum::<u64>();
        after = page.last().map(|runner| runner.id);
        if page.len() < PAGE {
            return Ok(sum);
        }
    }
}

/// Until when a pool creates nothing: its provider has refused, or its last machines came to nothing.
fn create_after(app: &App, pool: &Pool, now: Millis) -> Option<Time> {
    let held = app.pools.held_until.lock().expect("nobody panics while holding it").get(&pool.number).copied();
    pool.backoff.create_after.max(held).filter(|after| *after > now).map(Time)
}

/// A pool with its runners counted.
async fn numbered(app: &App, pool: Pool) -> Result<(PoolView, PoolStats), Error> {
    let stats = app.store.pool_stats(pool.number).await?;
    let now = app.time.now().await?;
    let (min_idle_now, _) = pool.spec.min_idle_at(now);
    let create_after = create_after(app, &pool, now);
    let error = trouble(app, &pool);
    let spec = pool.spec;
    let options = spec.options.into_iter().map(|(name, value)| match is_secret(&name) {
        true => (name, HIDDEN.to_owned()),
        false => (name, value),
    });
    let live = RunnerState::ALL.into_iter().filter(|state| *state != RunnerState::Gone);
    let runners = live.map(|state| (state.as_str().to_owned(), stats.runners.get(&state).copied().unwrap_or(0)));
    let (options, runners) = (options.collect(), runners.collect());
    let view = PoolView {
        name: pool.name,
        namespace: pool.namespace,
        provider: spec.provider,
        options,
        cpu: spec.cpu,
        memory_mib: spec.memory_mib,
        types: spec.types,
        usage: spec.usage,
        spot_fallback: spec.spot_fallback,
        min_idle: spec.min_idle,
        min_idle_rules: spec.min_idle_rules,
        min_idle_now,
        max_size: spec.max_size,
        idle_ms: spec.idle_ms,
        runtime_ms: spec.runtime_ms,
        revision: pool.revision,
        created_at: Time(pool.created_at),
        deleting: pool.deleting_at.is_some(),
        runners,
        waiting_claims: stats.waiting,
        create_after,
        error,
        statistics: None,
    };
    Ok((view, stats))
}

/// Whether an option's name says that its value is not for everybody who may look.
fn is_secret(name: &str) -> bool {
    ["secret", "password", "token", "key"].iter().any(|word| name.contains(word))
}

fn statistics(stats: &PoolStats) -> PoolStatistics {
    let total = |name: &str| stats.totals.get(name).map_or(0, |sum| u64::try_from(*sum).unwrap_or(0));
    let with_prefix = |prefix: &str| -> BTreeMap<String, u64> {
        let own = stats.totals.keys().filter_map(|name| Some((name.strip_prefix(prefix)?, total(name))));
        own.map(|(word, sum)| (word.to_owned(), sum)).collect()
    };
    let mut waits = stats.waits_ms.clone();
    waits.sort_unstable();
    PoolStatistics {
        warm_hits: total(pool_total::HITS_WARM),
        cold_hits: total(pool_total::HITS_COLD),
        wait_p50_ms: share(&waits, 50),
        wait_p99_ms: share(&waits, 99),
        ended: with_prefix(pool_total::ENDED),
        claims_ended: with_prefix(pool_total::CLAIMS_ENDED),
        idle_ms: total(pool_total::IDLE_MS),
        used_ms: total(pool_total::USED_MS),
        ordered: total(pool_total::ORDERED),
        orders_failed: total(pool_total::ORDERS_FAILED),
    }
}

/// So many of a hundred are at most this.
fn share(sorted: &[Millis], of_hundred: usize) -> Option<u64> {
    let place = (sorted.len() * of_hundred).div_ceil(100).max(1) - 1;
    sorted.get(place).map(|ms| u64::try_from(*ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_those_there_are() {
        assert_eq!(share(&[], 50), None);
        assert_eq!((share(&[7], 50), share(&[7], 99)), (Some(7), Some(7)));
        let hundred: Vec<Millis> = (1..=100).collect();
        assert_eq!((share(&hundred, 50), share(&hundred, 99)), (Some(50), Some(99)));
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        assert!(is_secret("agent.github_token") && is_secret("api_key"));
        assert!(!is_secret("agent.register_hook") && !is_secret("script"));
    }
}
