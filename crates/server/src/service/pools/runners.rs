//! Runners, as people look at them and end them.

use baton_core::pools::{Cause, Refused, RunnerId, RunnerState};
use baton_proto::{RunnerMove, RunnerView, Time};
use baton_store::{EventFilter, Page, Pool, PoolRunner, RunnerAnswer, RunnerEnd, RunnerFilter, Scope};

use super::{TRIES_MAX, find};
use crate::auth::Caller;
use crate::service::audit;
use crate::{App, Error};

/// Most moves that are shown.
const MOVES_MAX: usize = 100;

/// A page of runners, by identifier. Those that are gone are listed only when asked for.
pub async fn list(
    app: &App,
    caller: &Caller,
    namespace: &str,
    pool: &str,
    state: Option<RunnerState>,
    page: Page<RunnerId>,
) -> Result<(Vec<RunnerView>, Option<RunnerId>), Error> {
    let pool = find(app, caller, Scope::Read, namespace, pool).await?;
    let limit = page.limit;
    // Left out by the store, so that a page is full even where most are gone.
    let not_state = if state.is_none() { Some(RunnerState::Gone) } else { None };
    let filter = RunnerFilter { pool: Some(pool.number), state, not_state, ..RunnerFilter::default() };
    let found = app.store.runners(filter, page).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id);
    Ok((found.into_iter().map(|runner| view(&pool, runner)).collect(), next))
}

/// One runner, with its moves.
pub async fn get(app: &App, caller: &Caller, namespace: &str, pool: &str, id: &str) -> Result<RunnerView, Error> {
    let pool = find(app, caller, Scope::Read, namespace, pool).await?;
    let runner = of_pool(app, &pool, id).await?;
    let filter = EventFilter { runner: Some(runner.id), ..EventFilter::default() };
    let events = app.store.runner_events(filter, Page { after: None, limit: MOVES_MAX }).await?;
    let moves = events.into_iter().map(|event| RunnerMove {
        at: Time(event.at),
        from: event.from,
        to: event.to,
        cause: event.cause,
        detail: event.detail,
    });
    Ok(RunnerView { moves: moves.collect(), ..view(&pool, runner) })
}

/// Ends a runner, whatever it does. Again does no harm.
pub async fn end(app: &App, caller: &Caller, namespace: &str, pool: &str, id: &str) -> Result<RunnerView, Error> {
    let pool = find(app, caller, Scope::Admin, namespace, pool).await?;
    let detail = format!("asked for with the API key {}", caller.key_id);
    for _ in 0..TRIES_MAX {
        let seen = of_pool(app, &pool, id).await?;
        let end = RunnerEnd { runner: seen.reference(), cause: Cause::Asked, detail: detail.clone() };
        match app.store.end_runners(vec![end]).await?.pop() {
            // It has moved since it was seen.
            Some(RunnerAnswer::Refused(Refused::Stale)) => continue,
            Some(RunnerAnswer::Moved(..)) => {
                let was = format!("it was {}", seen.rules.state.as_str());
                audit::act(app, caller, "runner.end", id, &was, Some(namespace)).await?;
                app.pools.tell(RunnerState::Terminating, [seen.id]);
                app.pools.keeper.ring();
                app.pools.claims.ring();
            }
            Some(RunnerAnswer::Refused(_) | RunnerAnswer::Unknown) | None => {}
        }
        return Ok(view(&pool, of_pool(app, &pool, id).await?));
    }
    Err(Error::Conflict("the runner keeps moving; try again".into()))
}

/// The runner with this identifier, if it is of this pool. One that is malformed names no runner.
async fn of_pool(app: &App, pool: &Pool, id: &str) -> Result<PoolRunner, Error> {
    let unknown = || Error::NotFound { what: "runner", id: id.into() };
    let runner = id.parse().map_err(|_| unknown())?;
    app.store.runner(runner).await?.filter(|runner| runner.pool == pool.number).ok_or_else(unknown)
}

pub(super) fn view(pool: &Pool, runner: PoolRunner) -> RunnerView {
    RunnerView {
        id: runner.id.to_string(),
        pool: pool.name.clone(),
        namespace: pool.namespace.clone(),
        state: runner.rules.state,
        since: Time(runner.since),
        deadline: runner.rules.deadline.map(Time),
        // One that waits is for nobody, whomever it was for last.
        run_id: runner.run_id.filter(|_| runner.rules.state != RunnerState::Idle),
        machine_id: runner.machine_id,
        kind: runner.machine.kind,
        usage: runner.machine.usage,
        cpu: runner.machine.cpu,
        memory_mib: runner.machine.memory_mib,
        ordered_at: Time(runner.ordered_at),
        seen_at: runner.seen_at.map(Time),
        uses: runner.uses,
        cause: runner.rules.cause,
        detail: runner.detail,
        moves: Vec::new(),
    }
}
