//! Pools, machines and claims as tables.

use std::collections::BTreeSet;

use baton::proto::{ClaimView, PoolPage, PoolView, RunnerPage, RunnerView};
use baton_core::pools::{Cause, ClaimState, RunnerState};

use crate::duration;
use crate::output::{Column, Look, Table, or_dash};

/// States of machines that a run has, or has not given back wholly.
const IN_USE: [RunnerState; 3] = [RunnerState::Claimed, RunnerState::Running, RunnerState::Releasing];

fn number(pool: &PoolView, state: RunnerState) -> u64 {
    pool.runners.get(state.as_str()).copied().unwrap_or(0)
}

/// A list of pools.
pub(super) fn pools(page: &PoolPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::namespace(page.pools.iter().map(|pool| pool.namespace.as_str())),
        Column::key("pool"),
        Column::name("provider"),
        Column::number("idle"),
        Column::number("min"),
        Column::number("creating"),
        Column::number("used"),
        Column::number("ending"),
        Column::number("max"),
        Column::number("waiting"),
        Column::age("age").extra(),
        Column::text("note"),
    ]);
    for pool in &page.pools {
        table.row([
            pool.namespace.clone(),
            pool.name.clone(),
            pool.provider.clone(),
            number(pool, RunnerState::Idle).to_string(),
            pool.min_idle_now.to_string(),
            number(pool, RunnerState::Creating).to_string(),
            IN_USE.map(|state| number(pool, state)).iter().sum::<u64>().to_string(),
            number(pool, RunnerState::Terminating).to_string(),
            pool.max_size.to_string(),
            pool.waiting_claims.to_string(),
            look.age(pool.created_at),
            note(pool).unwrap_or_default(),
        ]);
    }
    table
}

/// What is not as it should be.
pub(in crate::commands) fn note(pool: &PoolView) -> Option<String> {
    let deleting = pool.deleting.then(|| "being deleted".to_owned());
    let trouble = match (&pool.error, pool.create_after) {
        (Some(error), _) => Some(format!("the provider refuses: {}", gist(error))),
        (None, Some(_)) => Some("its last machines came to nothing, and the next ones wait".into()),
        (None, None) => None,
    };
    let notes: Vec<String> = deleting.into_iter().chain(trouble).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Of what a program said: how it ended, and its last word.
pub(super) fn gist(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next_back()) {
        (Some(first), Some(last)) => format!("{}: {last}", first.trim_end_matches(':')),
        (Some(only), None) => only.into(),
        (None, _) => String::new(),
    }
}

/// Why a machine was ended, in one line. What the agent of a lost one had printed before somebody killed it says nothing of that.
pub(super) fn cause_and_gist(cause: Option<Cause>, detail: &str) -> String {
    let gist = match (cause, detail.split_once("): ")) {
        (Some(Cause::Lost), Some((status, _))) if status.contains("(signal: ") => format!("{status})"),
        (Some(Cause::Lost), Some((status, said))) => {
            format!("{status}): {}", said.trim_end().lines().next_back().unwrap_or_default().trim())
        }
        (Some(_) | None, _) => gist(detail),
    };
    because(cause.map(Cause::as_str), &gist)
}

/// One pool with everything that is known of it.
pub(super) fn pool(pool: &PoolView, look: Look) -> String {
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
    table.field("min idle", Some(min_idle(pool)));
    for rule in &pool.min_idle_rules {
        table.field("", Some(format!("{} from {} on ({})", rule.min_idle, rule.cron, rule.zone)));
    }
    table.field("max size", Some(pool.max_size));
    table.field("idle for", Some(duration::show(pool.idle_ms)));
    table.field("longest runtime", Some(duration::show(pool.runtime_ms)));
    table.field("created", Some(look.moment(pool.created_at)));
    let states = RunnerState::ALL.into_iter().filter(|state| number(pool, *state) > 0);
    let states: Vec<String> = states.map(|state| format!("{} {}", number(pool, state), state.as_str())).collect();
    table.field("now", Some(if states.is_empty() { "no machines".into() } else { states.join(", ") }));
    table.field("waiting claims", Some(pool.waiting_claims));
    table.field("no machine before", pool.create_after.map(|at| look.moment(at)));
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
    table.render(look)
}

/// How many are to be idle: unless a rule says otherwise, and now.
fn min_idle(pool: &PoolView) -> String {
    match pool.min_idle_rules.is_empty() {
        true => pool.min_idle.to_string(),
        false => format!("{}, by its rules {} now", pool.min_idle, pool.min_idle_now),
    }
}

/// A pool that somebody has changed, and what of it does not come at once.
pub(super) fn changed(changed: &PoolView, look: Look) -> String {
    let used: u64 = IN_USE.map(|state| number(changed, state)).iter().sum();
    let note = match used > u64::from(changed.max_size) {
        true => format!("\n{used} in use stay until they are given back"),
        false => String::new(),
    };
    format!("{}{note}", pool(changed, look))
}

/// A list of machines.
pub(super) fn runners(page: &RunnerPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::id("runner"),
        Column::name("machine"),
        Column::name("type"),
        Column::state("state"),
        Column::age("since"),
        Column::age("until"),
        Column::name("run"),
        Column::number("uses").extra(),
        Column::age("seen"),
        Column::text("because"),
    ]);
    for runner in &page.runners {
        table.row([
            look.id(&runner.id),
            or_dash(runner.machine_id.as_ref()),
            or_dash(Some(&runner.kind).filter(|kind| !kind.is_empty())),
            runner.state.as_str().to_owned(),
            look.age(runner.since),
            or_dash(runner.deadline.map(|deadline| look.now.ahead(deadline))),
            or_dash(runner.run_id.as_ref()),
            runner.uses.to_string(),
            or_dash(runner.seen_at.map(|seen_at| look.age(seen_at))),
            cause_and_gist(runner.cause, &runner.detail),
        ]);
    }
    table
}

/// One machine, with what became of it.
pub(super) fn runner(runner: &RunnerView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("runner", Some(&runner.id));
    table.field("pool", Some(&runner.pool));
    table.field("namespace", Some(&runner.namespace));
    table.field("machine", runner.machine_id.as_ref());
    table.field("type", Some(&runner.kind).filter(|kind| !kind.is_empty()));
    let cores = if runner.cpu == 1 { "core" } else { "cores" };
    table.field("size", Some(format!("{} {cores}, {} MiB, {}", runner.cpu, runner.memory_mib, runner.usage.as_str())));
    table.field("state", Some(runner.state.as_str()));
    table.field("since", Some(look.moment(runner.since)));
    table.field("until", runner.deadline.map(|at| look.moment(at)));
    table.field("run", runner.run_id.as_ref());
    table.field("uses", Some(runner.uses));
    table.field("ordered", Some(look.moment(runner.ordered_at)));
    table.field("seen", runner.seen_at.map(|at| look.moment(at)));
    let why = because(runner.cause.map(|cause| cause.as_str()), &runner.detail);
    for (place, line) in why.lines().enumerate() {
        table.field(if place == 0 { "because" } else { "" }, Some(line));
    }
    let mut moves = Table::of([
        Column::age("age"),
        Column::name("at").extra(),
        Column::state("from"),
        Column::state("to"),
        Column::text("because"),
    ]);
    for moved in &runner.moves {
        moves.row([
            look.age(moved.at),
            moved.at.to_string(),
            or_dash(moved.from.map(RunnerState::as_str)),
            moved.to.as_str().to_owned(),
            cause_and_gist(moved.cause, &moved.detail),
        ]);
    }
    format!("{}\n{}", table.render(look), moves.render(look))
}

/// A machine that somebody wanted to end.
pub(super) fn ended_runner(runner: &RunnerView) -> String {
    let why = cause_and_gist(runner.cause, &runner.detail);
    format!("{} is {} ({why})", runner.id, runner.state.as_str())
}

/// A word and what people said about it.
pub(super) fn because(word: Option<&str>, detail: &str) -> String {
    match (word, detail) {
        (Some(word), "") => word.into(),
        (Some(word), detail) => format!("{word}: {detail}"),
        (None, detail) => detail.into(),
    }
}

/// What becomes of a pool that is deleted, and who has its machines.
pub(super) fn deleted(pool: &PoolView, machines: &[RunnerView]) -> String {
    let left: u64 = pool.runners.values().sum();
    let left = match left {
        0 => return format!("{} is deleted", pool.name),
        1 => "1 machine has".to_owned(),
        left => format!("{left} machines have"),
    };
    let releasing = machines.iter().filter(|runner| runner.state == RunnerState::Releasing).count();
    let is_used = |runner: &&RunnerView| IN_USE.contains(&runner.state) && runner.state != RunnerState::Releasing;
    let used: Vec<&RunnerView> = machines.iter().filter(is_used).collect();
    let runs: BTreeSet<&str> = used.iter().filter_map(|runner| runner.run_id.as_deref()).collect();
    let runs: Vec<&str> = runs.into_iter().collect();
    let used = match used.len() {
        0 => String::new(),
        number => format!("; {number} in use by {}, until that releases", runs.join(", ")),
    };
    let used = if runs.len() > 1 { used.replace("until that releases", "until those release") } else { used };
    let releasing = if releasing > 0 { format!("; {releasing} being released") } else { String::new() };
    format!("{} is being deleted; {left} to end first{releasing}{used}", pool.name)
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

/// A pool with these words besides.
#[cfg(test)]
pub(in crate::commands) fn sample(json: serde_json::Value) -> PoolView {
    let mut all = serde_json::json!({
        "name": "linux", "namespace": "default", "provider": "local", "options": {}, "cpu": 1, "memory_mib": 1024,
        "types": [], "usage": "on_demand", "spot_fallback": false, "min_idle": 2, "min_idle_rules": [],
        "min_idle_now": 2, "max_size": 4, "idle_ms": 1, "runtime_ms": 1, "revision": 1,
        "created_at": "2026-01-31T09:30:00Z", "deleting": false, "runners": {}, "waiting_claims": 0
    });
    all.as_object_mut().unwrap().extend(json.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

#[cfg(test)]
mod tests {
    use baton::proto::Time;
    use baton_core::pools::Usage;

    use super::*;

    fn machine(state: RunnerState, run_id: Option<&str>) -> RunnerView {
        RunnerView {
            id: "6f1c2a90-0000-4000-8000-000000cafe17".into(),
            pool: "linux".into(),
            namespace: "default".into(),
            state,
            since: Time(0),
            deadline: Some(Time(400_000)),
            run_id: run_id.map(str::to_owned),
            machine_id: Some("5e1d0c7b-8a6f2a90-0000-4000-8000-000000000000-0".into()),
            kind: "local".into(),
            usage: Usage::OnDemand,
            cpu: 1,
            memory_mib: 1_024,
            ordered_at: Time(0),
            seen_at: Some(Time(97_000)),
            uses: 1,
            cause: None,
            detail: String::new(),
            moves: Vec::new(),
        }
    }

    #[test]
    fn rows_of_machines_fit_a_terminal() {
        let runners = vec![machine(RunnerState::Terminating, Some("ci-1234567"))];
        let look = Look::test(80, 100_000);
        let shown = super::runners(&RunnerPage { runners, next_cursor: None }, look).render(look);
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let row = shown.lines().nth(1).unwrap();
        assert!(row.starts_with("cafe17  5e1d") && row.contains('…'), "{row}");
        assert!(["  1m  ", "  in 5m  ", "  3s"].iter().all(|words| row.contains(words)), "{row}");
    }

    #[test]
    fn a_machine_is_shown_with_its_whole_identifier_and_every_word() {
        let detail = "exit status: 7\nfirst\nlast".into();
        let ended = RunnerView { cause: Some(Cause::RegisterFailed), detail, ..machine(RunnerState::Gone, None) };
        let look = Look::test(80, 0);
        let shown = runner(&ended, look);
        let words = ["6f1c2a90-0000-4000-8000-000000cafe17", "register_failed: exit status: 7", "first", "BECAUSE"];
        assert!(words.iter().all(|words| shown.contains(words)), "{shown}");
        let listed = runners(&RunnerPage { runners: vec![ended], next_cursor: None }, look).render(look.wide());
        assert!(listed.contains("register_failed: exit status: 7: last"), "{listed}");
    }

    #[test]
    fn a_lost_machine_is_one_line() {
        let said = |detail| cause_and_gist(Some(Cause::Lost), detail);
        let killed = "its agent has ended (signal: 9 (SIGKILL)): INFO joined\nINFO idle\nINFO registers";
        assert_eq!(said(killed), "lost: its agent has ended (signal: 9 (SIGKILL))");
        let failed = "its agent has ended (exit status: 1): INFO starts\nbaton: no rights\n";
        assert_eq!(said(failed), "lost: its agent has ended (exit status: 1): baton: no rights");
        assert_eq!(said("not listed"), "lost: not listed");
        assert_eq!(cause_and_gist(None, ""), "");
    }

    #[test]
    fn the_base_and_what_counts_now_are_both_shown() {
        assert_eq!(min_idle(&sample(serde_json::json!({}))), "2");
        let rules = serde_json::json!([{"cron": "@daily", "zone": "UTC", "min_idle": 4}]);
        let ruled = sample(serde_json::json!({"min_idle_rules": rules, "min_idle_now": 4}));
        assert_eq!(min_idle(&ruled), "2, by its rules 4 now");
    }

    #[test]
    fn whoever_makes_a_pool_smaller_is_told_what_stays() {
        let with = |number: u64| sample(serde_json::json!({"max_size": 4, "runners": {"running": number, "idle": 3}}));
        assert!(changed(&with(5), Look::test(80, 0)).ends_with("\n5 in use stay until they are given back"));
        assert!(!changed(&with(4), Look::test(80, 0)).contains("in use"));
    }

    #[test]
    fn a_deleted_pool_names_who_keeps_it() {
        let left = |number: u64| sample(serde_json::json!({"deleting": true, "runners": {"running": number}}));
        assert_eq!(deleted(&left(0), &[]), "linux is deleted");
        let idle = machine(RunnerState::Idle, None);
        assert_eq!(deleted(&left(1), &[idle]), "linux is being deleted; 1 machine has to end first");
        let [one, two] = ["ci-1", "ci-2"].map(|run| machine(RunnerState::Running, Some(run)));
        let said = deleted(&left(2), &[one.clone(), one.clone()]);
        let expected = "linux is being deleted; 2 machines have to end first; 2 in use by ci-1, until that releases";
        assert_eq!(said, expected);
        let released = machine(RunnerState::Releasing, Some("ci-3"));
        let expected = "linux is being deleted; 1 machine has to end first; 1 being released";
        assert_eq!(deleted(&left(1), &[released]), expected);
        let said = deleted(&left(2), &[one, two]);
        assert!(said.ends_with("2 in use by ci-1, ci-2, until those release"), "{said}");
    }

    #[test]
    fn trouble_is_noted_of_pools_that_are_deleted_too() {
        let error = serde_json::json!({"deleting": true, "error": "no rights\nask the administrator"});
        let said = "being deleted; the provider refuses: no rights: ask the administrator";
        assert_eq!(note(&sample(error)).as_deref(), Some(said));
        let held = note(&sample(serde_json::json!({"create_after": "2026-01-31T09:30:00Z"})));
        assert_eq!(held.as_deref(), Some("its last machines came to nothing, and the next ones wait"));
        assert_eq!(note(&sample(serde_json::json!({}))), None);
    }
}
