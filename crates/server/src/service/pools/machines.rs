//! Asks providers: for machines that were ordered, and for the end of those whose rows say so.
//!
//! Every call here may be made again, by any server, after a crash at any point: what is to be done was written down before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_core::pools::spec::{CPU_MAX, MEMORY_MIB_MAX, TYPE_BYTES_MAX};
use baton_core::pools::{BackoffRule, Machine, OrderId, RunnerId, RunnerState};
use baton_core::{Millis, token};
use baton_store::{MachineAnswer, NewMachine, Order, Page, Pool, PoolRunner, RunnerFilter};

use super::github;
use crate::providers::{self, AgentPlace, Create, MACHINE_ID_BYTES_MAX, Provider, ProviderError, ProviderMachine};
use crate::service::message;
use crate::{App, Error, crash};

/// What a pool says whose provider cannot list its machines.
const LIST_FAILED: &str = "the provider does not say what it has";
/// What an agent joins with.
const JOIN_VARIABLE: &str = "BATON_JOIN_TOKEN";
/// Rows that are read at once.
const PAGE: usize = 1_000;

/// Calls the provider of a pool, for as long as that may take.
async fn call<T>(
    app: &App,
    pool: &Pool,
    what: &str,
    asked: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let calls = app.pools.calls(pool.number);
    let _permit = calls.acquire().await;
    let most = Duration::from_millis(app.current().pool_provider_timeout_ms);
    let late = |_| Err(ProviderError::Unclear(format!("the provider did not answer within {} ms", most.as_millis())));
    let answer = tokio::time::timeout(most, asked).await.unwrap_or_else(late);
    if answer.is_err() {
        app.metrics.pools.note_failed_call(pool, what);
    }
    answer
}

/// The provider of a pool. Another server may have it when this one does not.
pub(super) fn provider(app: &App, pool: &Pool) -> Option<Arc<dyn Provider>> {
    let found = app.pools.providers.get(&pool.spec.provider);
    if found.is_none() {
        tracing::warn!(pool = pool.name, provider = pool.spec.provider, "this server does not have the provider");
    }
    found
}

/// Asks for the machines of an order.
pub(crate) async fn create(app: &App, pool: &Pool, order: &Order) -> Result<(), Error> {
    let Some(provider) = provider(app, pool) else { return Ok(()) };
    let (info, ring) = (app.pools.info(pool), app.secrets.ring());
    let mut environment = providers::agent_variables(&pool.spec.options);
    environment.extend([
        ("BATON_URL".to_owned(), app.pools.url(&app.settings)),
        (JOIN_VARIABLE.to_owned(), token::join(&ring.as_of(order.ordered_at).tokens, order.id)),
        ("BATON_NAMESPACE".to_owned(), pool.namespace.clone()),
        ("BATON_POOL".to_owned(), pool.name.clone()),
    ]);
    environment.extend(trust(app, provider.agents_run()));
    if github::registers(pool) {
        environment.insert("BATON_AGENT_HOOK".to_owned(), "github".to_owned());
    }
    let wanted = Create {
        pool: info,
        token: order.id.to_string(),
        count: order.count,
        usage: order.usage,
        types: order.types.clone(),
        environment,
    };
    let (mut had, begun) = (0, Instant::now());
    let mut pause = Duration::from_millis(app.current().pool_backoff().first_ms);
    loop {
        // Looked at with the permit in hand: while others were served, the pool may have been deleted.
        let asking = async {
            match app.store.order(order.id).await {
                Ok(Some(placed)) if placed.is_awaited => provider.create(&wanted).await.map(Some),
                Ok(_) => Ok(None),
                Err(error) => Err(ProviderError::Unclear(error.to_string())),
            }
        };
        match call(app, pool, "create", asking).await.map_err(|error| masked(error, &wanted)) {
            Ok(None) => return Ok(()),
            Ok(Some(made)) => {
                crash::point("order.created");
                let has = made.len();
                take_over(app, pool, provider.as_ref(), order.id, made).await?;
                // One that has ended by now was nobody's until now.
                if !app.pools.ended.all().is_empty() {
                    app.pools.keeper.ring();
                }
                if has >= order.count as usize || has <= had {
                    return Ok(());
                }
                // Whether there are more is better known now than in a minute: a pool of spot machines may have others instead.
                had = has;
            }
            Err(ProviderError::Refused(why)) => {
                return fail(app, pool, order, &why, app.current().pool_backoff()).await;
            }
            Err(ProviderError::Misconfigured(why)) => {
                let rule = BackoffRule { spot_ms: 0, ..app.current().pool_backoff() };
                return fail(app, pool, order, &why, rule).await;
            }
            Err(ProviderError::Unclear(why)) => {
                tracing::warn!(pool = pool.name, order = %order.id, why, "machines are asked for again");
                // Whoever looks at the pool, or waits for it in vain, is to know what it waits for.
                app.store.note_pool_error(pool.number, &message(&why)).await?;
                let ask = app.current().pool_ask();
                // One that answers may be asked again soon, for as long as nobody else asks.
                if begun.elapsed() + pause > Duration::from_millis(ask.unsigned_abs()) / 2 {
                    app.pools.keeper.ring_in(ask);
                    return Ok(());
                }
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
    }
}

/// What agents have to know to trust this server: on this machine where to look its certificate up,
/// elsewhere the fingerprint, if nobody else vouches for it. Where `pool_url` is given, something
/// else may answer there.
fn trust(app: &App, place: AgentPlace) -> Option<(String, String)> {
    let tls = app.tls.get().filter(|_| app.settings.pool_url.is_none())?;
    match place {
        AgentPlace::Here => {
            let path = std::path::absolute(app.settings.data.join(crate::tls::PIN_FILE)).ok()?;
            Some(("BATON_TLS_PIN_FILE".to_owned(), path.to_str()?.to_owned()))
        }
        AgentPlace::Elsewhere | AgentPlace::Anywhere => {
            tls.is_self_signed().then(|| ("BATON_TLS_PIN".to_owned(), tls.about().fingerprint))
        }
    }
}

/// A provider's words without the credential that it was handed.
fn masked(error: ProviderError, wanted: &Create) -> ProviderError {
    let secret = wanted.environment.get(JOIN_VARIABLE).map(String::as_str).unwrap_or_default();
    let without = |why: String| if secret.is_empty() { why } else { why.replace(secret, "***") };
    match error {
        ProviderError::Refused(why) => ProviderError::Refused(without(why)),
        ProviderError::Misconfigured(why) => ProviderError::Misconfigured(without(why)),
        ProviderError::Unclear(why) => ProviderError::Unclear(without(why)),
    }
}

/// Gives up what an order still lacks.
async fn fail(app: &App, pool: &Pool, order: &Order, why: &str, rule: BackoffRule) -> Result<(), Error> {
    tracing::warn!(pool = pool.name, order = %order.id, why, "the provider refuses to create machines");
    let runners = live_runners(app, pool).await?.into_iter().filter(|runner| runner.order == order.id);
    let runners = runners.filter(|runner| runner.machine_id.is_none());
    app.store.fail_order(order.id, &message(why), rule, app.entropy.die()).await?;
    crash::point("order.failed");
    app.pools.tell(RunnerState::Gone, runners.map(|runner| runner.id));
    // Spot machines may have to be replaced by others at once.
    app.pools.keeper.ring();
    Ok(())
}

/// Binds machines to the rows of their order, and ends those that are too many.
pub(super) async fn take_over(
    app: &App,
    pool: &Pool,
    provider: &dyn Provider,
    order: OrderId,
    made: Vec<ProviderMachine>,
) -> Result<(), Error> {
    if app.store.order(order).await?.is_some_and(|placed| placed.order.pool != pool.number) {
        tracing::warn!(pool = pool.name, %order, "the provider lists machines of another pool; they are left alone");
        return Ok(());
    }
    // A provider that names too much must not have machines bound twice, or ended, that somebody else has, in this pool or another.
    let rows = read(app, RunnerFilter { not_state: Some(RunnerState::Gone), ..RunnerFilter::default() }).await?;
    let others = rows.iter().filter(|row| row.order != order);
    let others: BTreeSet<&str> = others.filter_map(|row| row.machine_id.as_deref()).collect();
    let is_new = |machine: &ProviderMachine| !others.contains(machine.id.as_str());
    let (made, nameless): (Vec<_>, Vec<_>) =
        made.into_iter().filter(is_new).partition(|machine| can_be_kept(&machine.id));
    if let Some(nameless) = nameless.first() {
        let why = format!("the provider names a machine in a way that cannot be kept: {:?}", nameless.id);
        app.store.note_pool_error(pool.number, &message(&why)).await?;
    }
    let nameless = nameless.into_iter().map(|machine| machine.id).collect();
    end_machines(app, pool, provider, nameless, "their names cannot be kept").await;
    if made.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = made.iter().map(|machine| machine.id.clone()).collect();
    let new = made.into_iter().map(|made| NewMachine { id: made.id, machine: bounded(made.machine) }).collect();
    let answers = app.store.record_machines(order, new).await?;
    crash::point("order.recorded");
    app.pools.recorded.notify_waiters();
    let surplus: Vec<String> = match answers {
        Some(answers) => {
            let surplus = ids.into_iter().zip(answers).filter(|(_, answer)| *answer == MachineAnswer::Surplus);
            surplus.map(|(id, _)| id).collect()
        }
        None => ids,
    };
    end_machines(app, pool, provider, surplus, "nobody asked for them").await;
    Ok(())
}

/// A machine as it can be kept, whatever a provider says of it.
fn bounded(machine: Machine) -> Machine {
    let Machine { mut kind, usage, cpu, memory_mib } = machine;
    let mut end = kind.len().min(TYPE_BYTES_MAX);
    while !kind.is_char_boundary(end) {
        end -= 1;
    }
    kind.truncate(end);
    kind.retain(|c| !c.is_control());
    Machine { kind, usage, cpu: cpu.min(CPU_MAX), memory_mib: memory_mib.min(MEMORY_MIB_MAX) }
}

/// Whether the name that a provider has for a machine can be written down.
fn can_be_kept(id: &str) -> bool {
    (1..=MACHINE_ID_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// Ends machines that no row is for.
pub(super) async fn end_machines(app: &App, pool: &Pool, provider: &dyn Provider, machines: Vec<String>, why: &str) {
    let machines: Vec<String> = machines.into_iter().filter(|id| !id.is_empty()).collect();
    if machines.is_empty() {
        return;
    }
    tracing::warn!(pool = pool.name, ?machines, why, "machines are ended");
    let info = app.pools.info(pool);
    if let Err(error) = call(app, pool, "terminate", provider.terminate(&info, &machines)).await {
        // They are found again when the provider is asked what it has.
        tracing::warn!(pool = pool.name, %error, "machines could not be ended");
    }
}

/// Asks for the end of terminating runners' machines, and forgets those that are no more.
pub(crate) async fn terminate(app: &App, pool: &Pool, runners: Vec<PoolRunner>) -> Result<(), Error> {
    let Some(provider) = provider(app, pool) else { return Ok(()) };
    let info = app.pools.info(pool);
    let machines: Vec<String> = runners.iter().filter_map(|runner| runner.machine_id.clone()).collect();
    if !machines.is_empty() {
        if let Err(error) = call(app, pool, "terminate", provider.terminate(&info, &machines)).await {
            tracing::warn!(pool = pool.name, %error, "machines are to be ended again");
            app.pools.keeper.ring_in(app.current().pool_ask());
            return Ok(());
        }
        crash::point("machines.terminated");
    }
    let Some(listed) = list(app, pool, provider.as_ref()).await? else { return Ok(()) };
    forget(app, pool, provider.as_ref(), &listed, &runners).await?;
    // Last: room for other machines is made without waiting for GitHub, and what is left there is found again.
    github::ended(app, pool, &runners).await;
    Ok(())
}

/// What the provider of a pool has. `None`: it does not say, and whoever looks at the pool is told.
pub(super) async fn list(
    app: &App,
    pool: &Pool,
    provider: &dyn Provider,
) -> Result<Option<Vec<ProviderMachine>>, Error> {
    let said = pool.error.as_deref().filter(|error| error.starts_with(LIST_FAILED));
    match call(app, pool, "list", provider.list(&app.pools.info(pool))).await {
        Ok(mut listed) => {
            if said.is_some() {
                app.store.note_pool_error(pool.number, "").await?;
            }
            // What has no name can neither be waited for nor ended.
            listed.retain(|machine| !machine.id.is_empty());
            Ok(Some(listed))
        }
        Err(error) => {
            tracing::warn!(pool = pool.name, %error, "the provider does not say what it has");
            let why = message(&format!("{LIST_FAILED}: {error}"));
            // What keeps it from making machines says more.
            if pool.error.is_none() || said.is_some_and(|said| said != why) {
                app.store.note_pool_error(pool.number, &why).await?;
            }
            Ok(None)
        }
    }
}

/// Forgets terminating runners whose machines are no more.
pub(super) async fn forget(
    app: &App,
    pool: &Pool,
    provider: &dyn Provider,
    listed: &[ProviderMachine],
    runners: &[PoolRunner],
) -> Result<(), Error> {
    if runners.is_empty() {
        return Ok(());
    }
    let ids: BTreeSet<&str> = listed.iter().map(|machine| machine.id.as_str()).collect();
    let rows = live_runners(app, pool).await?;
    let known: BTreeSet<&str> = rows.iter().filter_map(|row| row.machine_id.as_deref()).collect();
    let unknown: Vec<&ProviderMachine> = listed.iter().filter(|one| !known.contains(one.id.as_str())).collect();
    // The pool goes with its last runner, and nobody would look for these any more.
    if pool.deleting_at.is_some() && !unknown.is_empty() {
        return Ok(());
    }
    let tokens: BTreeSet<&str> = unknown.iter().filter_map(|machine| machine.token.as_deref()).collect();
    let now = app.store.now().await?;
    let mut orders = BTreeMap::<OrderId, bool>::new();
    let mut gone: Vec<RunnerId> = Vec::new();
    for runner in runners {
        let is_gone = match &runner.machine_id {
            Some(id) if provider.is_here(id) => !ids.contains(id.as_str()),
            Some(_) => is_abandoned(app, runner, now),
            // A machine that nobody has recorded may be its own, and one may still come.
            None if tokens.contains(runner.order.to_string().as_str()) => false,
            None => match orders.get(&runner.order) {
                Some(is_over) => *is_over,
                None => {
                    let placed = app.store.order(runner.order).await?;
                    let is_over = !placed.is_some_and(|placed| placed.may_bring_more(app.current().pool_grace(), now));
                    orders.insert(runner.order, is_over);
                    is_over
                }
            },
        };
        gone.extend(is_gone.then_some(runner.id));
    }
    if gone.is_empty() {
        return Ok(());
    }
    app.store.note_gone(gone.clone()).await?;
    crash::point("machines.gone");
    app.pools.tell(RunnerState::Gone, gone);
    // There is room again.
    app.pools.keeper.ring();
    Ok(())
}

/// Takes the machines of terminating runners for gone, whatever their provider says. Returns their names, for whoever has to look after them now.
pub(super) async fn give_up(app: &App, pool: &Pool) -> Result<Vec<String>, Error> {
    let filter =
        RunnerFilter { pool: Some(pool.number), state: Some(RunnerState::Terminating), ..RunnerFilter::default() };
    let ending = read(app, filter).await?;
    if ending.is_empty() {
        return Ok(Vec::new());
    }
    app.store.note_gone(ending.iter().map(|runner| runner.id).collect()).await?;
    app.pools.tell(RunnerState::Gone, ending.iter().map(|runner| runner.id));
    let machines: Vec<String> = ending.into_iter().filter_map(|runner| runner.machine_id).collect();
    tracing::warn!(pool = pool.name, ?machines, "machines are given up; whether they have ended is not known");
    Ok(machines)
}

/// Whether a machine that only another server could list has had no server for so long that its agent has ended it. That server may be gone as well, and
/// nobody else would ever say that the machine is.
fn is_abandoned(app: &App, runner: &PoolRunner, now: Millis) -> bool {
    let heard_at = runner.seen_at.unwrap_or(runner.since).max(runner.since);
    now.saturating_sub(heard_at) > app.current().pool_expiry().abandoned_ms
}

pub(super) async fn all_runners(app: &App, pool: &Pool) -> Result<Vec<PoolRunner>, Error> {
    read(app, RunnerFilter { pool: Some(pool.number), ..RunnerFilter::default() }).await
}

pub(super) async fn live_runners(app: &App, pool: &Pool) -> Result<Vec<PoolRunner>, Error> {
    let not_state = Some(RunnerState::Gone);
    read(app, RunnerFilter { pool: Some(pool.number), not_state, ..RunnerFilter::default() }).await
}

/// Every runner of this kind.
pub(super) async fn read(app: &App, filter: RunnerFilter) -> Result<Vec<PoolRunner>, Error> {
    let mut all: Vec<PoolRunner> = Vec::new();
    loop {
        let after = all.last().map(|runner| runner.id);
        let page = app.store.runners(filter, Page { after, limit: PAGE }).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}
