//! Claims: machines for a run, all or none.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_core::Millis;
use baton_core::pools::claim::ClaimRefused;
use baton_core::pools::spec::can_be_alike;
use baton_core::pools::{ClaimNo, ClaimReason, ClaimState, RunnerState, Usage, Wanted};
use baton_proto::{ClaimFailure, ClaimPhase, ClaimRunner, ClaimView, ListedClaim, OpenClaim, POOL_WAIT_MS_MAX, Time};
use baton_store::{
    ClaimFilter, EndClaimAnswer, EventFilter, NewPoolClaim, OpenAnswer, Page, Pool, PoolClaim, PoolRunner,
    RunnerFilter, Scope,
};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{find, machines, no_pool, told};
use crate::auth::Caller;
use crate::{App, Error, crash};

const PRIORITY_DEFAULT: u8 = 5;
const PRIORITY_MAX: u8 = 9;
const RUN_ID_BYTES_MAX: usize = 200;
/// Longest time that a claim may wait to be filled: a week.
const WAIT_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// How often a claim is looked at that another server may fill, in case its hint got lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Rows that are read at once.
const PAGE: usize = 1_000;
/// Most failures that are shown.
const FAILURES_MAX: usize = 100;

/// Opens a claim, or shows the same one that was opened before; true when this call opened it.
pub async fn open(
    app: &App,
    caller: &Caller,
    namespace: &str,
    pool: &str,
    wanted: OpenClaim,
) -> Result<(ClaimView, bool), Error> {
    let pool = find(app, caller, Scope::Submit, namespace, pool).await?;
    app.namespaces.limits(namespace).await?;
    let new = new_claim(app, caller, &pool, wanted)?;
    let limit = new.waiting_max;
    match app.store.open_claim(new).await? {
        OpenAnswer::Opened(claim) => {
            crash::point("claim.opened");
            told::claim_changed(app, &claim).await?;
            app.pools.claims.ring();
            Ok((view(app, &pool, claim).await?, true))
        }
        OpenAnswer::Known(claim) => Ok((view(app, &pool, claim).await?, false)),
        OpenAnswer::Conflict(claim) if claim.state.is_ended() => Err(Error::Conflict(format!(
            "the run {} asked this pool for something else before, and its claim has ended ({}): choose another run_id",
            claim.run_id,
            claim.state.as_str()
        ))),
        OpenAnswer::Conflict(claim) => Err(Error::Conflict(format!(
            "the run {} has a claim in this pool already, and it asks for something else: use another run_id",
            claim.run_id
        ))),
        OpenAnswer::Full => Err(Error::ClaimsFull { pool: pool.name, limit }),
        OpenAnswer::NoPool if pool.deleting_at.is_some() => {
            Err(Error::Conflict(format!("the pool {} is being deleted, and takes no claims", pool.name)))
        }
        OpenAnswer::NoPool => Err(no_pool(&pool.name)),
    }
}

/// One claim. With a wait: once it does not wait any more, or that time is over.
pub async fn get(
    app: &App,
    caller: &Caller,
    namespace: &str,
    pool: &str,
    run_id: &str,
    wait_ms: u64,
) -> Result<ClaimView, Error> {
    let pool = find(app, caller, Scope::Read, namespace, pool).await?;
    let until = Instant::now() + Duration::from_millis(wait_ms.min(POOL_WAIT_MS_MAX));
    let number = of_run(app, &pool, run_id).await?.number;
    loop {
        // Watch before looking: a move between the look and the watch would wake nobody.
        let watch = app.pools.claim_news.watch(number);
        let moved = watch.notified();
        tokio::pin!(moved);
        moved.as_mut().enable();
        let claim = of_run(app, &pool, run_id).await?;
        if claim.state != ClaimState::Waiting || Instant::now() >= until || app.stopping.is_cancelled() {
            return view(app, &pool, claim).await;
        }
        let again = if app.store.is_shared() { until.min(Instant::now() + LOOK_AGAIN) } else { until };
        tokio::select! {
            _ = tokio::time::timeout_at(again, moved) => {}
            () = app.stopping.cancelled() => {}
        }
    }
}

/// A page of claims, newest first, without their runners.
pub async fn list(
    app: &App,
    caller: &Caller,
    namespace: &str,
    pool: &str,
    state: Option<ClaimState>,
    page: Page<ClaimNo>,
) -> Result<(Vec<ListedClaim>, Option<ClaimNo>), Error> {
    let pool = find(app, caller, Scope::Read, namespace, pool).await?;
    let limit = page.limit;
    let found = app.store.pool_claims(ClaimFilter { pool: Some(pool.number), state }, page).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.number);
    let open = found.iter().filter(|claim| !claim.state.is_ended()).map(|claim| claim.number).collect();
    let live = app.store.runners_of_claims(open).await?;
    let listed = found.into_iter().map(|claim| ListedClaim {
        live: live.get(&claim.number).copied().or(Some(0)),
        ..ListedClaim::from(bare_view(&pool, claim))
    });
    Ok((listed.collect(), next))
}

/// Gives back what a claim has, or gives it up. Again does no harm.
pub async fn release(
    app: &App,
    caller: &Caller,
    namespace: &str,
    pool: &str,
    run_id: &str,
) -> Result<ClaimView, Error> {
    let pool = find(app, caller, Scope::Submit, namespace, pool).await?;
    let claim = of_run(app, &pool, run_id).await?;
    match app.store.release_claim(claim.number, app.current().pool_release()).await? {
        EndClaimAnswer::Ended(claim, runners) => {
            crash::point("claim.released");
            told::claim_changed(app, &claim).await?;
            app.pools.tell(RunnerState::Releasing, runners.iter().map(|runner| runner.runner));
            app.pools.moved(claim.number);
            // Its place in the line is free, and the keeper may want fewer machines.
            app.pools.claims.ring();
            app.pools.keeper.ring();
            view(app, &pool, claim).await
        }
        EndClaimAnswer::Refused(ClaimRefused::AlreadyDone | ClaimRefused::Ended, claim) => {
            view(app, &pool, claim).await
        }
        EndClaimAnswer::Refused(ClaimRefused::Filled | ClaimRefused::NotDue, _) => Err(Error::Internal),
        EndClaimAnswer::Unknown => Err(no_claim(run_id)),
    }
}

fn no_claim(run_id: &str) -> Error {
    Error::NotFound { what: "claim of the run", id: run_id.into() }
}

async fn of_run(app: &App, pool: &Pool, run_id: &str) -> Result<PoolClaim, Error> {
    app.store.pool_claim(pool.number, run_id).await?.ok_or_else(|| no_claim(run_id))
}

/// Refuses what cannot be the name of a run.
pub(super) fn check_run_id(run_id: &str) -> Result<(), Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    match (1..=RUN_ID_BYTES_MAX).contains(&run_id.len()) && run_id.chars().all(is_plain) {
        true => Ok(()),
        false => {
            let why = format!("must be 1 to {RUN_ID_BYTES_MAX} letters, digits, and . _ : -");
            Err(Error::field("run_id", why))
        }
    }
}

/// Checks what was asked for against what the pool can ever have.
fn new_claim(app: &App, caller: &Caller, pool: &Pool, wanted: OpenClaim) -> Result<NewPoolClaim, Error> {
    let spec = &pool.spec;
    let invalid = |field: &'static str, why: String| Err(Error::field(field, why));
    check_run_id(&wanted.run_id)?;
    let count = wanted.count.unwrap_or(1);
    if count == 0 || count > spec.max_size {
        return invalid("count", format!("must be 1 to {} (max_size of the pool), not {count}", spec.max_size));
    }
    let priority = wanted.priority.unwrap_or(PRIORITY_DEFAULT);
    if priority > PRIORITY_MAX {
        return invalid("priority", format!("must be 0 to {PRIORITY_MAX}, not {priority}"));
    }
    if let Some(cpu) = wanted.cpu.filter(|cpu| *cpu != spec.cpu) {
        return invalid("cpu", format!("is {cpu}, and machines of this pool have {}", spec.cpu));
    }
    if let Some(memory) = wanted.memory_mib.filter(|memory| *memory > spec.memory_mib) {
        return invalid("memory_mib", format!("is {memory}, and machines of this pool have {}", spec.memory_mib));
    }
    if wanted.usage == Some(Usage::OnDemand) && spec.usage == Usage::Spot && !spec.spot_fallback {
        return invalid("usage", "is on_demand, and this pool has spot machines only".into());
    }
    let runtime_ms = wanted.max_runtime_ms.unwrap_or(spec.runtime_ms);
    if runtime_ms == 0 || runtime_ms > spec.runtime_ms {
        return invalid("max_runtime_ms", format!("must be 1 to {} (runtime_ms of the pool)", spec.runtime_ms));
    }
    let wait_ms = wanted.wait_ms.unwrap_or(app.current().pool_wait_ms);
    if wanted.wait_ms.is_some_and(|wait_ms| wait_ms > WAIT_MS_MAX) {
        return invalid("wait_ms", format!("must be at most {WAIT_MS_MAX}"));
    }
    let said = OpenClaim { count: Some(count), priority: Some(priority), ..wanted.clone() };
    let machines = Wanted { cpu: wanted.cpu, memory_mib: wanted.memory_mib, types: wanted.types, usage: wanted.usage };
    machines.check().map_err(Error::by_rule)?;
    // Without the provider nobody knows, and another server may have it.
    let kinds = app.pools.providers.get(&spec.provider).map(|provider| provider.kinds(spec)).unwrap_or_default();
    let can_be = |kind: &String| machines.types.iter().any(|pattern| can_be_alike(pattern, kind));
    if !machines.types.is_empty() && !kinds.is_empty() && !kinds.iter().any(can_be) {
        let (wanted, has) = (machines.types.join(", "), kinds.join(", "));
        return Err(Error::Invalid(format!("no machine of this pool is of type {wanted}: they are of type {has}")));
    }
    Ok(NewPoolClaim {
        pool: pool.number,
        run_id: wanted.run_id,
        fingerprint: fingerprint(&said)?,
        count,
        wanted: machines,
        priority,
        owner: caller.key_id.clone(),
        runtime_ms: Millis::try_from(runtime_ms).unwrap_or(Millis::MAX),
        wait_ms: Millis::try_from(wait_ms).unwrap_or(Millis::MAX),
        waiting_max: app.current().pool_claims_waiting_max,
    })
}

/// Stands for everything that was said.
fn fingerprint(said: &OpenClaim) -> Result<[u8; 16], Error> {
    let text = serde_json::to_vec(said).map_err(|_| Error::Internal)?;
    let mut first = [0; 16];
    first.copy_from_slice(&Sha256::digest(text)[..16]);
    Ok(first)
}

pub(super) fn bare_view(pool: &Pool, claim: PoolClaim) -> ClaimView {
    ClaimView {
        run_id: claim.run_id,
        pool: pool.name.clone(),
        namespace: pool.namespace.clone(),
        state: claim.state,
        count: claim.count,
        priority: claim.priority,
        opened_at: Time(claim.opened_at),
        deadline: claim.deadline.map(Time),
        ready_at: claim.ready_at.map(Time),
        ended_at: claim.ended_at.map(Time),
        reason: claim.reason,
        detail: claim.detail,
        runners: Vec::new(),
        failures: Vec::new(),
        discarded: 0,
    }
}

async fn view(app: &App, pool: &Pool, mut claim: PoolClaim) -> Result<ClaimView, Error> {
    if claim.reason == Some(ClaimReason::WaitOver) && claim.detail.is_empty() {
        claim.detail = format!("it was not filled in time; {}", standing(app, pool, &claim.wanted).await?);
    }
    if claim.state == ClaimState::Waiting
        && let Some(why) = app.pools.github.refuses(pool.number)
    {
        claim.detail = format!("{why}; no machine is registered before GitHub answers again");
    }
    let number = claim.number;
    let runners = runners_of(app, number).await?.into_iter().filter_map(shown).collect();
    let (failures, discarded) = discarded(app, number).await?;
    Ok(ClaimView { runners, failures, discarded, ..bare_view(pool, claim) })
}

/// The last runners that a claim had to discard, and how many there were.
async fn discarded(app: &App, claim: ClaimNo) -> Result<(Vec<ClaimFailure>, u64), Error> {
    let filter = EventFilter { claim: Some(claim), ..EventFilter::default() };
    let (mut after, mut last, mut count) = (None, Vec::new(), 0);
    loop {
        let events = app.store.runner_events(filter, Page { after, limit: PAGE }).await?;
        after = events.last().map(|event| event.number);
        let is_last = events.len() < PAGE;
        for event in events.into_iter().filter(|event| event.to == RunnerState::Terminating) {
            let Some(cause) = event.cause else { continue };
            count += 1;
            if last.len() < FAILURES_MAX {
                let (runner_id, at) = (event.runner.to_string(), Time(event.at));
                last.push(ClaimFailure { runner_id, at, cause, detail: event.detail });
            }
        }
        if is_last {
            return Ok((last, count));
        }
    }
}

/// How many machines a pool has, who has them, and what its provider says: why a claim is not filled, as far as that can be seen now.
pub(crate) async fn standing(app: &App, pool: &Pool, wanted: &Wanted) -> Result<String, Error> {
    let stats = app.store.pool_stats(pool.number).await?;
    let filter = RunnerFilter { pool: Some(pool.number), state: Some(RunnerState::Idle), ..RunnerFilter::default() };
    let idle = app.store.runners(filter, Page { after: None, limit: PAGE }).await?;
    let misfits = idle.iter().filter(|runner| !wanted.fits(&runner.machine)).count();
    let said = match app.pools.github.refuses(pool.number) {
        Some(why) => Some(why),
        None => pool.error.as_ref().map(|error| format!("the provider says: {error}")),
    };
    Ok(standing_of(&stats.runners, misfits, pool.spec.max_size, said.as_deref()))
}

fn standing_of(runners: &BTreeMap<RunnerState, u64>, misfits: usize, max_size: u32, said: Option<&str>) -> String {
    let word = |state: RunnerState| match state {
        RunnerState::Creating => Some("being created"),
        RunnerState::Idle => Some("idle"),
        RunnerState::Claimed => Some("taken by claims that wait"),
        RunnerState::Running => Some("in use"),
        RunnerState::Releasing => Some("being cleaned"),
        RunnerState::Terminating => Some("being ended"),
        RunnerState::Gone => None,
    };
    let there =
        runners.iter().filter_map(|(state, count)| Some((word(*state)?, *count))).filter(|(_, count)| *count > 0);
    let there: Vec<(&str, u64)> = there.collect();
    let all: u64 = there.iter().map(|(_, count)| count).sum();
    let parts: Vec<String> = there.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let misfits = match misfits {
        0 => String::new(),
        count => format!("; {count} of the idle ones are not what the claim asks for"),
    };
    let said = said.map(|said| format!("; {said}")).unwrap_or_default();
    format!("the pool has {all} of {max_size} machines{parts}{misfits}{said}")
}

/// Every runner that a claim has.
pub(crate) async fn runners_of(app: &App, claim: ClaimNo) -> Result<Vec<PoolRunner>, Error> {
    machines::read(app, RunnerFilter { claim: Some(claim), ..RunnerFilter::default() }).await
}

fn shown(runner: PoolRunner) -> Option<ClaimRunner> {
    let phase = match (runner.rules.state, runner.rules.registered_at) {
        (RunnerState::Claimed, None) => ClaimPhase::Registering,
        (RunnerState::Claimed, Some(_)) => ClaimPhase::Registered,
        (RunnerState::Running, _) => ClaimPhase::Running,
        // None of these has an owner.
        (
            RunnerState::Creating
            | RunnerState::Idle
            | RunnerState::Releasing
            | RunnerState::Terminating
            | RunnerState::Gone,
            _,
        ) => return None,
    };
    Some(ClaimRunner {
        id: runner.id.to_string(),
        machine_id: runner.machine_id,
        phase,
        kind: runner.machine.kind,
        usage: runner.machine.usage,
        cpu: runner.machine.cpu,
        memory_mib: runner.machine.memory_mib,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waited_in_vain_is_told_who_has_the_machines() {
        assert_eq!(standing_of(&BTreeMap::new(), 0, 6, None), "the pool has 0 of 6 machines");
        let mut runners =
            BTreeMap::from([(RunnerState::Running, 2), (RunnerState::Creating, 1), (RunnerState::Gone, 90)]);
        let said = "the pool has 3 of 6 machines: 1 being created, 2 in use; the provider says: no quota";
        assert_eq!(standing_of(&runners, 0, 6, Some("the provider says: no quota")), said);
        runners.insert(RunnerState::Idle, 0);
        assert!(!standing_of(&runners, 0, 6, None).contains("idle"));
        runners.insert(RunnerState::Idle, 2);
        assert!(standing_of(&runners, 1, 6, None).ends_with("; 1 of the idle ones are not what the claim asks for"));
    }
}
