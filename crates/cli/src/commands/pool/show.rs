//! Pools, machines and claims as tables.

use baton::proto::{ClaimView, PoolPage, PoolView, RunnerPage};
use baton_core::pools::{ClaimState, RunnerState};

use crate::duration;
use crate::output::{Table, or_dash};

fn number(pool: &PoolView, state: RunnerState) -> u64 {
    pool.runners.get(state.as_str()).copied().unwrap_or(0)
}

/// A list of pools.
pub(super) fn pools(page: &PoolPage) -> String {
    let headings = [
        "namespace",
        "pool",
        "provider",
        "idle",
        "claimed",
        "running",
        "releasing",
        "creating",
        "terminating",
        "min idle",
        "max size",
        "waiting",
        "note",
    ];
    let mut table = Table::new(&headings);
    for pool in &page.pools {
        let states = [
            RunnerState::Idle,
            RunnerState::Claimed,
            RunnerState::Running,
            RunnerState::Releasing,
            RunnerState::Creating,
            RunnerState::Terminating,
        ];
        let numbers = states.map(|state| number(pool, state).to_string());
        let names = [pool.namespace.clone(), pool.name.clone(), pool.provider.clone()];
        let rest = [
            pool.min_idle_now.to_string(),
            pool.max_size.to_string(),
            pool.waiting_claims.to_string(),
            note(pool).unwrap_or_default(),
        ];
        table.row(names.into_iter().chain(numbers).chain(rest));
    }
    match &page.next_cursor {
        Some(cursor) => format!("{table}\nThere may be more: --cursor '{cursor}'"),
        None => table.to_string(),
    }
}

fn note(pool: &PoolView) -> Option<String> {
    match (pool.deleting, &pool.error) {
        (true, _) => Some("being deleted".into()),
        (false, Some(error)) => Some(format!("the provider refuses: {error}")),
        (false, None) => None,
    }
}

/// One pool with everything that is known of it.
pub(super) fn pool(pool: &PoolView) -> String {
    let mut table = Table::plain();
    table.field("pool", Some(&pool.name));
    table.field("namespace", Some(&pool.namespace));
    table.field("note", note(pool));
    table.field("provider", Some(&pool.provider));
    for (name, value) in &pool.options {
        table.field("option", Some(format!("{name}={value}")));
    }
    let cores = if pool.cpu == 1 { "core" } else { "cores" };
    table.field("machines", Some(format!("{} {cores}, {} MiB", pool.cpu, pool.memory_mib)));
    table.field("types", Some(pool.types.join(", ")).filter(|types| !types.is_empty()));
    let fallback = if pool.spot_fallback { ", on_demand while there are none" } else { "" };
    table.field("usage", Some(format!("{}{fallback}", pool.usage.as_str())));
    table.field("min idle", Some(pool.min_idle_now));
    for rule in &pool.min_idle_rules {
        table.field("", Some(format!("{} from {} on ({})", rule.min_idle, rule.cron, rule.zone)));
    }
    table.field("max size", Some(pool.max_size));
    table.field("idle for", Some(duration::show(pool.idle_ms)));
    table.field("longest runtime", Some(duration::show(pool.runtime_ms)));
    table.field("created", Some(pool.created_at));
    let states = RunnerState::ALL.into_iter().filter(|state| number(pool, *state) > 0);
    let states: Vec<String> = states.map(|state| format!("{} {}", number(pool, state), state.as_str())).collect();
    table.field("now", Some(if states.is_empty() { "no machines".into() } else { states.join(", ") }));
    table.field("waiting claims", Some(pool.waiting_claims));
    table.field("no machine before", pool.create_after);
    if let Some(numbers) = &pool.statistics {
        table.field("handed over", Some(format!("{} warm, {} cold", numbers.warm_hits, numbers.cold_hits)));
        let waits = numbers.wait_p50_ms.zip(numbers.wait_p99_ms);
        let waits = waits.map(|(p50, p99)| format!("p50 {}, p99 {}", duration::show(p50), duration::show(p99)));
        table.field("claims waited", waits);
        table.field("idle in all", Some(duration::show(numbers.idle_ms)));
        table.field("used in all", Some(duration::show(numbers.used_ms)));
        for (cause, count) in &numbers.ended {
            table.field("ended", Some(format!("{count} {cause}")));
        }
    }
    table.to_string()
}

/// A list of machines.
pub(super) fn runners(page: &RunnerPage) -> String {
    let mut table =
        Table::new(&["runner", "machine", "type", "state", "since", "until", "run", "uses", "seen", "because"]);
    for runner in &page.runners {
        table.row([
            runner.id.clone(),
            or_dash(runner.machine_id.as_ref()),
            or_dash(Some(&runner.kind).filter(|kind| !kind.is_empty())),
            runner.state.as_str().to_owned(),
            runner.since.to_string(),
            or_dash(runner.deadline),
            or_dash(runner.run_id.as_ref()),
            runner.uses.to_string(),
            or_dash(runner.seen_at),
            because(runner.cause.map(|cause| cause.as_str()), &runner.detail),
        ]);
    }
    match &page.next_cursor {
        Some(cursor) => format!("{table}\nThere may be more: --cursor '{cursor}'"),
        None => table.to_string(),
    }
}

/// A word and what people said about it.
pub(super) fn because(word: Option<&str>, detail: &str) -> String {
    match (word, detail) {
        (Some(word), "") => word.into(),
        (Some(word), detail) => format!("{word}: {detail}"),
        (None, detail) => detail.into(),
    }
}

/// What becomes of a pool that is deleted.
pub(super) fn deleted(pool: &PoolView) -> String {
    let left: u64 = pool.runners.values().sum();
    match left {
        0 => format!("{} is deleted", pool.name),
        left => format!("{} is being deleted; {left} machines have to end first", pool.name),
    }
}

/// A claim that is over.
pub(super) fn ended(claim: &ClaimView) -> String {
    let what = match claim.state {
        ClaimState::Waiting => "waits",
        ClaimState::Ready => "is filled",
        ClaimState::Released => "is released",
        ClaimState::Failed => "had failed",
    };
    let why = because(claim.reason.map(|reason| reason.as_str()), &claim.detail);
    let why = if why.is_empty() { why } else { format!(" ({why})") };
    format!("the claim of {} {what}{why}", claim.run_id)
}
