//! A pool at one look: its machines, the claims that wait and why, and the machines that have ended.

use std::collections::{BTreeMap, HashMap};

use baton_core::Millis;
use baton_core::pools::why::{Capacity, Standing, Why, never, why};
use baton_core::pools::{Cause, ClaimNo, ClaimState, RunnerState};
use baton_proto::{ListedClaim, PoolView, RunnerView};
use baton_store::{ClaimFilter, EventFilter, Page, Pool, PoolClaim, PoolRunner, Scope};

use super::{claims, find, machines, read, runners};
use crate::auth::Caller;
use crate::{App, Error};

/// Moves are looked at in pages of this many.
const EVENTS_AT_ONCE: usize = 1_000;
/// Most moves that are looked at for the machines that have ended.
const EVENTS_MAX: usize = 5_000;
/// Most claims that wait and are looked at.
const CLAIMS_MAX: usize = 1_000;

/// A pool at one look.
#[derive(Clone, Debug)]
pub struct Board {
    /// The pool.
    pub pool: PoolView,
    /// Its machines, but for those that are gone.
    pub machines: Vec<BoardMachine>,
    /// Claims that wait, in the order in which they are served.
    pub claims: Vec<WaitingClaim>,
    /// Machines that have ended lately, by cause.
    pub ended: Vec<Ended>,
    /// True when more have ended than were looked at.
    pub is_ended_cut: bool,
}

/// A machine of a pool.
#[derive(Clone, Debug)]
pub struct BoardMachine {
    /// As it is shown.
    pub runner: RunnerView,
    /// True when it is registered for the claim that holds it.
    pub is_registered: bool,
}

/// A claim that waits.
#[derive(Clone, Debug)]
pub struct WaitingClaim {
    /// As it is listed.
    pub claim: ListedClaim,
    /// Why it waits. The place of another one is that in the list of claims.
    pub why: Why,
}

/// Machines that have ended for one cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Why.
    pub cause: Cause,
    /// How many.
    pub count: u64,
    /// When the last of them did.
    pub last_at: Millis,
    /// What was said of it.
    pub last_detail: String,
}

/// Everything about a pool that a page shows, with the machines that have ended since a moment.
pub async fn get(app: &App, caller: &Caller, namespace: &str, name: &str, since: Millis) -> Result<Board, Error> {
    let pool = find(app, caller, Scope::Read, namespace, name).await?;
    let live = machines::live_runners(app, &pool).await?;
    let claims = waiting(app, &pool, &live).await?;
    let (ended, is_ended_cut) = ended(app, &pool, since).await?;
    let machines = live.into_iter().map(|runner| BoardMachine {
        is_registered: runner.rules.registered_at.is_some(),
        runner: runners::view(&pool, runner),
    });
    let machines = machines.collect();
    Ok(Board { pool: read::view(app, pool).await?, machines, claims, ended, is_ended_cut })
}

async fn waiting(app: &App, pool: &Pool, live: &[PoolRunner]) -> Result<Vec<WaitingClaim>, Error> {
    let filter = ClaimFilter { pool: Some(pool.number), state: Some(ClaimState::Waiting) };
    let found = app.store.pool_claims(filter, Page { after: None, limit: CLAIMS_MAX }).await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let Some(stock) = app.store.pool_stock(pool.number).await? else { return Ok(Vec::new()) };
    let mut known: HashMap<ClaimNo, PoolClaim> = found.into_iter().map(|claim| (claim.number, claim)).collect();
    let mut held: HashMap<ClaimNo, (u32, u32)> = HashMap::new();
    for runner in live {
        let Some(owner) = runner.rules.owner else { continue };
        let (has, registered) = held.entry(owner).or_default();
        *has += 1;
        *registered += u32::from(runner.rules.registered_at.is_some());
    }
    let kinds = app.pools.providers.get(&pool.spec.provider).map(|provider| provider.kinds(&pool.spec));
    let kinds = kinds.unwrap_or_default();
    let line: Vec<PoolClaim> = stock.waiting.iter().filter_map(|waiting| known.remove(&waiting.claim)).collect();
    let standing = line.iter().map(|claim| {
        let (has, registered) = held.get(&claim.number).copied().unwrap_or_default();
        Standing { count: claim.count, has, registered, never: never(&pool.spec, &kinds, &claim.wanted, claim.count) }
    });
    let standing: Vec<Standing> = standing.collect();
    let capacity = Capacity {
        coming: stock.stock.creating,
        room: pool.spec.max_size.saturating_sub(stock.stock.size()),
        held: app.pools.github.refuses(pool.number),
    };
    let told = why(&standing, &capacity);
    let listed = line.into_iter().zip(standing).zip(told).map(|((claim, standing), why)| WaitingClaim {
        claim: ListedClaim { live: Some(standing.has), ..ListedClaim::from(claims::bare_view(pool, claim)) },
        why,
    });
    Ok(listed.collect())
}

/// Machines that have ended since a moment, by cause, the most frequent first; and whether there may be more.
async fn ended(app: &App, pool: &Pool, since: Millis) -> Result<(Vec<Ended>, bool), Error> {
    let filter = EventFilter { pool: Some(pool.number), ..EventFilter::default() };
    let (mut after, mut by_cause) = (None, BTreeMap::<Cause, Ended>::new());
    let (mut seen, mut is_over) = (0, false);
    while !is_over && seen < EVENTS_MAX {
        let events = app.store.runner_events(filter, Page { after, limit: EVENTS_AT_ONCE }).await?;
        after = events.last().map(|event| event.number);
        seen += events.len();
        is_over = events.len() < EVENTS_AT_ONCE || events.last().is_some_and(|event| event.at < since);
        let begins_to_end = |event: &baton_store::RunnerEvent| {
            let is_end = matches!(event.to, RunnerState::Terminating | RunnerState::Gone);
            is_end && event.from != Some(RunnerState::Terminating) && event.at >= since
        };
        for event in events.into_iter().filter(begins_to_end) {
            let Some(cause) = event.cause else { continue };
            // Newest first: the first one seen is the last one that ended.
            let new = Ended { cause, count: 0, last_at: event.at, last_detail: event.detail };
            by_cause.entry(cause).or_insert(new).count += 1;
        }
    }
    let mut ended: Vec<Ended> = by_cause.into_values().collect();
    ended.sort_by_key(|ended| std::cmp::Reverse((ended.count, ended.last_at)));
    Ok((ended, !is_over))
}
