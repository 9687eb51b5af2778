//! Keeps runner pools as they are to be: ends what is over, creates what is lacking, and compares with the providers.
//!
//! A pass decides and writes; whatever asks a provider goes on beside it, because a cloud takes its time. Every server does this, and the store
//! hands each order and each ending to one of them at a time.

use std::collections::BTreeMap;
use std::sync::Mutex;

use baton_core::Millis;
use baton_core::pools::keeper::{Unmet, Wish, want};
use baton_core::pools::{Cause, OrderId, RunnerId, RunnerState, Turn};
use baton_store::{
    EventFilter, NewOrder, OrderAnswer, Page, Pool, PoolNo, PoolRunner, RunnerAnswer, RunnerEnd, RunnerFilter,
    RunnerRef,
};

use crate::pool_metrics::{PoolLabels, own_labels};
use crate::service::pools::{github, machines, sweep, told};
use crate::{App, Error, crash};

/// Orders, or runners to be ended, in one pass.
const ORDERS_MAX: usize = 100;
const ENDINGS_MAX: usize = 500;
/// Most moves that are looked at, to tell whether a pool's machines are of use.
const TURNS_MAX: usize = 1_000;
/// Rows of each kind that are forgotten in one call.
const RETAIN_MAX: usize = 1_000;
/// How often GitHub is asked which runners it has. It counts calls, and whatever is left there does no harm.
const GITHUB_SWEEP_MS: Millis = 600_000;

/// One pass.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    let pools = app.pools.all().await?;
    forget_metrics(app, &pools);
    if pools.is_empty() {
        return Ok("there are no pools".into());
    }
    expire(app, &pools).await?;
    sweep::note_ended(app, &pools).await?;
    let (mut ordered, mut is_deleted) = (0, false);
    for pool in &pools {
        match keep(app, pool).await {
            Ok(kept) => {
                ordered += kept.ordered;
                is_deleted |= kept.is_deleted;
            }
            Err(error @ (Error::Unavailable | Error::DiskFull)) => return Err(error),
            // One pool in trouble must not keep the others waiting.
            Err(error) => tracing::error!(pool = pool.name, %error, "a pool could not be looked after"),
        }
    }
    let pools: BTreeMap<PoolNo, Pool> = pools.into_iter().map(|pool| (pool.number, pool)).collect();
    let asked = ask_again(app, &pools).await?;
    let ended = end(app, &pools).await?;
    sweep(app, &pools).await?;
    if is_deleted {
        retain(app).await?;
    }
    Ok(format!("{} pools, {ordered} machines ordered, {asked} orders asked again, {ended} to be ended", pools.len()))
}

/// Ends claims and runners whose time is over.
async fn expire(app: &App, pools: &[Pool]) -> Result<(), Error> {
    let settings = app.current();
    let mut expiry = settings.pool_expiry();
    // While no server could hear them, agents were not silent, and could not say what they had done.
    expiry.is_deaf = app.is_deaf_to_agents();
    if !app.hearing.has_heard_for(&settings, settings.pool_silent_ms.min(settings.pool_abandon_ms)) {
        (expiry.silent_ms, expiry.abandoned_ms) = (Millis::MAX, Millis::MAX);
    }
    let expired = app.store.expire_pools(expiry).await?;
    if expired.claims.is_empty() && expired.runners.is_empty() {
        return Ok(());
    }
    crash::point("pool.expired");
    for claim in &expired.claims {
        told::claim_ended(app, claim).await?;
    }
    for runner in &expired.runners {
        app.pools.tell(runner.rules.state, [runner.id]);
        let pool = pools.iter().find(|pool| pool.number == runner.pool);
        if let (RunnerState::Terminating, Some(cause), Some(pool)) = (runner.rules.state, runner.rules.cause, pool) {
            told::discarded(pool, runner.id, cause, &runner.detail);
        }
    }
    expired.claims.iter().for_each(|claim| app.pools.moved(claim.number));
    // A claim may have lost a runner, and looks for another.
    app.pools.claims.ring();
    Ok(())
}

#[derive(Default)]
struct Kept {
    ordered: u32,
    /// It is being deleted, and has nothing left.
    is_deleted: bool,
}

/// Creates what a pool lacks, and ends what it has too many of.
async fn keep(app: &App, pool: &Pool) -> Result<Kept, Error> {
    let Some(seen) = app.store.pool_stock(pool.number).await? else { return Ok(Kept::default()) };
    app.metrics.pools.note_stock(&seen);
    app.statistics.note_pool(&seen);
    let is_deleting = seen.pool.deleting_at.is_some();
    let wanted = want(&seen.pool.spec, is_deleting, &seen.stock, &seen.waiting, &seen.pool.backoff, seen.now);
    if let Some(look_at) = wanted.look_at {
        app.pools.keeper.ring_at(look_at.saturating_add(1), seen.now);
    }
    if !wanted.end.is_empty() {
        let ends = wanted.end.iter().map(|(runner, epoch, cause)| RunnerEnd {
            runner: RunnerRef { runner: *runner, epoch: *epoch },
            cause: *cause,
            detail: String::new(),
        });
        let answers = app.store.end_runners(ends.collect()).await?;
        crash::point("keeper.ended");
        let moved = wanted.end.iter().zip(answers).filter(|(_, answer)| matches!(answer, RunnerAnswer::Moved(..)));
        let moved = moved.map(|((runner, _, cause), _)| {
            told::discarded(&seen.pool, *runner, *cause, "");
            *runner
        });
        app.pools.tell(RunnerState::Terminating, moved);
    }
    if is_deleting && seen.stock.creating > 0 {
        end_creating(app, &seen.pool).await?;
    }
    if !wanted.create.is_empty() && may_create(app, &seen.pool, &wanted.unmet, seen.now).await? {
        let mut ordered = 0;
        for wish in wanted.create {
            ordered += order(app, &seen.pool, wish).await?;
        }
        return Ok(Kept { ordered, is_deleted: false });
    }
    Ok(Kept { ordered: 0, is_deleted: is_deleting && seen.stock.size() == 0 })
}

/// False while the last machines of a pool came to nothing so often that the next ones are to wait.
async fn may_create(app: &App, pool: &Pool, unmet: &Unmet, now: Millis) -> Result<bool, Error> {
    let filter = EventFilter { pool: Some(pool.number), ..EventFilter::default() };
    let events = app.store.runner_events(filter, Page { after: None, limit: TURNS_MAX }).await?;
    let turns = events.iter().map(|event| Turn {
        at: event.at,
        runner: event.runner,
        from: event.from,
        to: event.to,
        cause: event.cause,
    });
    let Some(after) = app.current().pool_backoff().after_waste(turns, unmet).filter(|after| *after > now) else {
        return Ok(true);
    };
    app.pools.keeper.ring_at(after.saturating_add(1), now);
    let said = app.pools.held_until.lock().expect("nobody panics while holding it").insert(pool.number, after);
    if said != Some(after) {
        tracing::warn!(pool = pool.name, wait_ms = after - now, "machines came to nothing; the next ones wait");
    }
    Ok(false)
}

/// Nobody waits for machines that a deleted pool is still to get.
async fn end_creating(app: &App, pool: &Pool) -> Result<(), Error> {
    let filter =
        RunnerFilter { pool: Some(pool.number), state: Some(RunnerState::Creating), ..RunnerFilter::default() };
    let creating = app.store.runners(filter, Page { after: None, limit: ENDINGS_MAX }).await?;
    let ends = creating.iter().map(|runner| RunnerEnd {
        runner: runner.reference(),
        cause: Cause::PoolDeleted,
        detail: String::new(),
    });
    let answers = app.store.end_runners(ends.collect()).await?;
    let moved = creating.iter().zip(answers).filter(|(_, answer)| matches!(answer, RunnerAnswer::Moved(..)));
    app.pools.tell(RunnerState::Terminating, moved.map(|(runner, _)| runner.id));
    Ok(())
}

/// Writes down that machines are wanted, and has the provider asked for them.
async fn order(app: &App, pool: &Pool, wish: Wish) -> Result<u32, Error> {
    let settings = app.current();
    let order = NewOrder {
        pool: pool.number,
        order: OrderId::from_random(random(app)),
        runners: (0..wish.count).map(|_| RunnerId::from_random(random(app))).collect(),
        usage: wish.usage,
        types: wish.types,
        create_ms: Millis::try_from(settings.pool_create_ms).unwrap_or(Millis::MAX),
        ask_ms: settings.pool_ask(),
    };
    let runners = order.runners.clone();
    let order = match app.store.order_runners(order).await? {
        OrderAnswer::Ordered(order) | OrderAnswer::Known(order) => order,
        // Another server was faster.
        OrderAnswer::Full | OrderAnswer::NoPool => return Ok(0),
    };
    crash::point("order.written");
    app.pools.tell(RunnerState::Creating, runners);
    let count = order.count;
    beside(app, pool, move |app, pool| async move { machines::create(&app, &pool, &order).await });
    Ok(count)
}

fn random(app: &App) -> u128 {
    u128::from(app.entropy.bits()) << 64 | u128::from(app.entropy.bits())
}

/// Does something with a provider while the pass goes on.
fn beside<F, Fut>(app: &App, pool: &Pool, what: F)
where
    F: FnOnce(App, Pool) -> Fut,
    Fut: Future<Output = Result<(), Error>> + Send + 'static,
{
    let name = pool.name.clone();
    let doing = what(app.clone(), pool.clone());
    let stopping = app.stopping.clone();
    tokio::spawn(async move {
        tokio::select! {
            // Whatever is left undone is found again, by this server or another.
            () = stopping.cancelled() => {}
            done = doing => if let Err(error) = done {
                tracing::warn!(pool = name, %error, "a provider's answer could not be written down; it is asked again");
            }
        }
    });
}

/// Asks for machines whose order is due again: a server fell, or the provider did not answer.
async fn ask_again(app: &App, pools: &BTreeMap<PoolNo, Pool>) -> Result<usize, Error> {
    let orders = app.store.due_orders(app.current().pool_ask(), ORDERS_MAX).await?;
    let asked = orders.len();
    for order in orders {
        if let Some(pool) = pools.get(&order.pool) {
            beside(app, pool, move |app, pool| async move { machines::create(&app, &pool, &order).await });
        }
    }
    Ok(asked)
}

/// Has the machines of terminating runners ended.
async fn end(app: &App, pools: &BTreeMap<PoolNo, Pool>) -> Result<usize, Error> {
    let runners = app.store.due_endings(app.current().pool_ask(), ENDINGS_MAX).await?;
    let count = runners.len();
    let mut by_pool = BTreeMap::<PoolNo, Vec<PoolRunner>>::new();
    for runner in runners {
        by_pool.entry(runner.pool).or_default().push(runner);
    }
    for (number, runners) in by_pool {
        if let Some(pool) = pools.get(&number) {
            beside(app, pool, move |app, pool| async move { machines::terminate(&app, &pool, runners).await });
        }
    }
    Ok(count)
}

/// Compares with what providers list, now and then.
async fn sweep(app: &App, pools: &BTreeMap<PoolNo, Pool>) -> Result<(), Error> {
    let now = app.time.now().await?;
    for pool in pools.values().filter(|pool| app.pools.github.asks_again(pool.number, app.store.clock().local())) {
        beside(app, pool, |app, pool| async move { github::ask_again(&app, &pool).await });
    }
    if is_due(&app.pools.github.swept_at, GITHUB_SWEEP_MS, now) {
        for pool in pools.values().filter(|pool| github::registers(pool)) {
            beside(app, pool, |app, pool| async move { github::sweep(&app, &pool).await });
        }
    }
    let every = Millis::try_from(app.current().pool_sweep_ms).unwrap_or(Millis::MAX);
    if !is_due(&app.pools.swept_at, every, now) {
        return Ok(());
    }
    for pool in pools.values() {
        let stats = app.store.pool_stats(pool.number).await?;
        app.metrics.pools.note_totals(pool, &stats);
        beside(app, pool, |app, pool| async move { sweep::sweep(&app, &pool).await });
    }
    Ok(())
}

/// Whether something is to be done again that was last done then. If so, it is being done.
fn is_due(last: &Mutex<Option<Millis>>, every: Millis, now: Millis) -> bool {
    let mut last = last.lock().expect("nobody panics while holding it");
    let is_due = last.is_none_or(|at| now.saturating_sub(at) >= every);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// Forgets what is older than it needs to be, and pools that are deleted.
pub(super) async fn retain(app: &App) -> Result<String, Error> {
    let age_ms = Millis::try_from(app.current().pool_retention_ms).unwrap_or(Millis::MAX);
    let gone = app.store.retain_pools(age_ms, RETAIN_MAX).await?;
    Ok(format!("{} runners, {} claims, {} pools forgotten", gone.runners, gone.claims, gone.pools))
}

/// Numbers of pools that are no more are not shown any longer.
fn forget_metrics(app: &App, pools: &[Pool]) {
    let now: BTreeMap<PoolNo, PoolLabels> = pools.iter().map(|pool| (pool.number, own_labels(pool))).collect();
    let mut known = app.pools.counted.lock().expect("nobody panics while holding it");
    let gone: Vec<_> = known.iter().filter(|(number, _)| !now.contains_key(number)).map(|(_, labels)| labels).collect();
    if !gone.is_empty() {
        let is_there =
            |namespace: &str, name: &str| pools.iter().any(|pool| pool.namespace == namespace && pool.name == name);
        app.statistics.keep_pools(is_there);
        app.metrics.pools.forget(gone);
        // The sums are noted with the next sweep.
        *app.pools.swept_at.lock().expect("nobody panics while holding it") = None;
    }
    *known = now;
}
