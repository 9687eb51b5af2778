use std::collections::BTreeMap;

use super::super::spec::MinIdleRule;
use super::super::{BackoffRule, RunnerState, Turn, Wanted};
use super::*;
use proptest::prelude::*;

const NOW: Millis = 1_700_000_000_000;
const IDLE_MS: Millis = 600_000;

fn spec(min_idle: u32, max_size: u32) -> PoolSpec {
    PoolSpec {
        provider: "local".into(),
        options: BTreeMap::new(),
        cpu: 2,
        memory_mib: 4_096,
        types: vec![],
        usage: Usage::Spot,
        spot_fallback: true,
        min_idle,
        min_idle_rules: vec![],
        max_size,
        idle_ms: IDLE_MS as u64,
        runtime_ms: 3_600_000,
    }
}

fn idle(number: u128, since: Millis) -> IdleRunner {
    let machine = Machine { kind: "m".into(), usage: Usage::Spot, cpu: 2, memory_mib: 4_096 };
    IdleRunner { id: RunnerId::from_random(number), epoch: Epoch::new(3), since, machine }
}

/// So many that are like what was ordered without a claim.
fn coming(count: u32) -> Vec<ComingRunner> {
    vec![ComingRunner { usage: Usage::Spot, ..ComingRunner::default() }; count as usize]
}

fn stock(idle_count: u128) -> Stock {
    Stock { idle: (0..idle_count).map(|number| idle(number, NOW)).collect(), ..Stock::default() }
}

fn claim(claim: i64, missing: u32, wanted: Wanted) -> Waiting {
    Waiting { claim, priority: 5, owner: "a".into(), missing, wanted }
}

fn unfit() -> Wanted {
    Wanted { cpu: Some(64), ..Wanted::default() }
}

/// Claims of every sort.
fn wanted(kind: u8) -> Wanted {
    match kind {
        0 => Wanted::default(),
        1 => Wanted { usage: Some(Usage::OnDemand), ..Wanted::default() },
        2 => Wanted { types: vec!["x*".into()], ..Wanted::default() },
        _ => unfit(),
    }
}

fn wish(count: u32, usage: Usage, types: &[&str]) -> Wish {
    Wish { count, usage, types: types.iter().map(ToString::to_string).collect() }
}

fn want_of(spec: &PoolSpec, stock: &Stock, waiting: &[Waiting]) -> Want {
    want(spec, false, stock, waiting, &Backoff::default(), NOW)
}

fn created(spec: &PoolSpec, stock: &Stock, waiting: &[Waiting]) -> u32 {
    ordered(&want_of(spec, stock, waiting))
}

/// How many machines are to be ordered, of whatever kind.
fn ordered(want: &Want) -> u32 {
    want.create.iter().map(|wish| wish.count).sum()
}

#[test]
fn a_pool_is_filled_up_to_min_idle_and_not_beyond_max_size() {
    assert_eq!(created(&spec(3, 10), &stock(0), &[]), 3);
    assert_eq!(created(&spec(3, 10), &stock(2), &[]), 1);
    assert_eq!(
        created(&spec(3, 10), &Stock { creating: 2, releasing: 1, coming: coming(3), ..stock(0) }, &[]),
        0,
        "some are on their way"
    );
    assert_eq!(created(&spec(3, 10), &Stock { running: 9, ..stock(0) }, &[]), 1);
    assert_eq!(
        created(&spec(3, 10), &Stock { running: 5, terminating: 5, ..stock(0) }, &[]),
        0,
        "what ends still costs"
    );
    assert_eq!(created(&spec(500, 1_000), &stock(0), &[]), ORDER_MAX);
}

#[test]
fn what_claims_lack_is_created_besides() {
    let waiting = [claim(1, 4, Wanted::default())];
    assert_eq!(created(&spec(2, 10), &stock(0), &waiting), 6);
    assert_eq!(created(&spec(2, 10), &stock(3), &waiting), 3, "three are taken from what is idle");
    assert_eq!(created(&spec(2, 10), &Stock { creating: 5, coming: coming(5), ..stock(0) }, &waiting), 1);
    assert_eq!(
        created(&spec(0, 10), &stock(8), &[claim(1, 2, unfit())]),
        2,
        "idle ones that do not fit are of no help"
    );
}

#[test]
fn idle_machines_that_nobody_needs_go_oldest_first() {
    let old = |number: u128| idle(number, NOW - IDLE_MS - number as Millis);
    let stock = Stock { idle: vec![old(1), old(2), idle(3, NOW - 10), old(4)], ..Stock::default() };
    let ended = want_of(&spec(0, 10), &stock, &[]).end;
    let gone: Vec<_> = ended.iter().map(|(id, epoch, cause)| (*id, epoch.number(), *cause)).collect();
    let expected = [4, 2, 1].map(|number| (RunnerId::from_random(number), 3, Cause::IdleTooLong));
    assert_eq!(gone, expected);
    assert_eq!(want_of(&spec(3, 10), &stock, &[]).end.len(), 1);
    assert_eq!(want_of(&spec(4, 10), &stock, &[]).end, []);
    assert_eq!(want_of(&spec(0, 10), &stock, &[]).look_at, Some(NOW - 10 + IDLE_MS));
}

#[test]
fn a_pool_that_became_too_small_gives_up_idle_machines_only() {
    let stock = Stock { running: 4, ..stock(3) };
    let want = want_of(&spec(3, 5), &stock, &[]);
    assert_eq!((ordered(&want), want.end.len()), (0, 2));
    assert!(want.end.iter().all(|(.., cause)| *cause == Cause::Surplus));
    assert_eq!(want_of(&spec(3, 1), &stock, &[]).end.len(), 3);
    let ending = Stock { terminating: 2, idle: stock.idle[..1].to_vec(), ..stock };
    assert_eq!(want_of(&spec(3, 5), &ending, &[]).end, [], "what was given up before counts no more");
}

#[test]
fn a_full_pool_makes_room_for_what_a_claim_can_use() {
    let full = stock(4);
    assert_eq!(want_of(&spec(0, 4), &full, &[claim(1, 2, unfit())]).end.len(), 2);
    let ending = Stock { terminating: 2, ..stock(2) };
    assert_eq!(want_of(&spec(0, 4), &ending, &[claim(1, 2, unfit())]).end, [], "two are on their way out");
    assert_eq!(want_of(&spec(0, 4), &full, &[claim(1, 2, Wanted::default())]).end, []);
}

#[test]
fn what_min_idle_asks_for_stays_whatever_a_claim_would_rather_have() {
    let picky = [claim(1, 2, Wanted { usage: Some(Usage::OnDemand), ..Wanted::default() })];
    assert_eq!(want_of(&spec(4, 4), &stock(4), &picky).end, []);
    assert_eq!(want_of(&spec(3, 4), &stock(4), &picky).end.len(), 1, "one is idle beyond that");
    let held = Backoff { create_after: Some(NOW + 1), ..Backoff::default() };
    assert_eq!(want(&spec(0, 4), false, &stock(4), &picky, &held, NOW).end, [], "nothing can be ordered instead");
}

#[test]
fn what_a_claim_asks_for_is_what_is_ordered() {
    let on_demand = Wanted { usage: Some(Usage::OnDemand), ..Wanted::default() };
    let typed = Wanted { types: vec!["m7i.*".into()], ..Wanted::default() };
    let waiting = [claim(1, 2, on_demand.clone()), claim(2, 1, typed), claim(3, 1, Wanted::default())];
    let want = want_of(&spec(2, 20), &stock(0), &waiting);
    let expected = [wish(2, Usage::OnDemand, &[]), wish(1, Usage::Spot, &["m7i.*"]), wish(3, Usage::Spot, &[])];
    assert_eq!(want.create, expected);
    assert_eq!(want_of(&spec(2, 3), &stock(0), &waiting).create, expected[..2], "those that are served first");

    // On their way is only what will do.
    let spot = Stock { creating: 2, coming: coming(2), ..stock(0) };
    assert_eq!(want_of(&spec(0, 20), &spot, &waiting[..1]).create, [wish(2, Usage::OnDemand, &[])]);
    let other = ComingRunner { usage: Usage::OnDemand, ..ComingRunner::default() };
    let both = Stock { creating: 3, coming: [coming(1), vec![other; 2]].concat(), ..stock(0) };
    let plain_first = [claim(1, 1, Wanted::default()), claim(2, 2, on_demand)];
    assert_eq!(want_of(&spec(0, 20), &both, &plain_first).create, [], "nobody takes what was ordered for others");
}

#[test]
fn what_is_coming_serves_a_claim_whose_types_it_is_sure_to_have() {
    let pool = |types: &[&str]| PoolSpec { types: types.iter().map(ToString::to_string).collect(), ..spec(0, 9) };
    let serves = |kind: &str, ordered: &[&str], wanted: &[&str], pool: &PoolSpec| {
        let list = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let one = ComingRunner { usage: Usage::Spot, kind: kind.into(), types: list(ordered) };
        one.serves(&Wanted { types: list(wanted), ..Wanted::default() }, pool)
    };
    assert!(serves("", &["m7i.*"], &["m7i.*"], &pool(&[])) && serves("", &["m7i.large"], &["m7?.*"], &pool(&[])));
    assert!(!serves("", &["m7i.*", "c7i.*"], &["m7i.*"], &pool(&[])) && !serves("", &[], &["m7i.*"], &pool(&[])));
    assert!(serves("", &[], &["m7*"], &pool(&["m7i.large", "m7?.large"])), "whatever the pool may have will do");
    assert!(serves("c7i.large", &["m7i.*"], &["m7i.*"], &pool(&[])), "whatever the provider made of that order");
    assert!(serves("m7i.large", &[], &["m7i.*"], &pool(&[])) && !serves("m7a.large", &["m7*"], &["m7i.*"], &pool(&[])));
}

#[test]
fn a_pool_that_is_deleted_creates_nothing_and_ends_what_is_idle() {
    let stock = Stock { running: 2, ..stock(3) };
    let want = want(&spec(5, 10), true, &stock, &[claim(1, 2, unfit())], &Backoff::default(), NOW);
    assert_eq!((ordered(&want), want.end.len()), (0, 3));
    assert!(want.end.iter().all(|(.., cause)| *cause == Cause::PoolDeleted));
}

#[test]
fn min_idle_follows_its_rules() {
    let rule = MinIdleRule { cron: "0 * * * *".into(), zone: "UTC".into(), min_idle: 7 };
    let spec = PoolSpec { min_idle_rules: vec![rule], ..spec(1, 10) };
    let want = want_of(&spec, &stock(0), &[]);
    assert_eq!(ordered(&want), 7);
    assert!(want.look_at.is_some_and(|at| at > NOW && at <= NOW + 3_600_000 && at % 3_600_000 == 0));
}

#[test]
fn a_refused_spot_order_is_made_on_demand_at_once_and_later_as_spot_again() {
    let (rule, spec) = (BackoffRule::default(), spec(1, 10));
    let refused = Backoff::default().failed(&rule, &spec, Usage::Spot, NOW, 0.5);
    let next = want(&spec, false, &stock(0), &[], &refused, NOW);
    assert_eq!(next.create, [wish(1, Usage::OnDemand, &[])]);
    let later = want(&spec, false, &stock(0), &[], &refused, NOW + rule.spot_ms);
    assert_eq!(later.create, [wish(1, Usage::Spot, &[])]);
    let strict = PoolSpec { spot_fallback: false, ..spec };
    let backoff = Backoff::default().failed(&rule, &strict, Usage::Spot, NOW, 0.5);
    assert_eq!((backoff.usage(&strict, NOW), backoff.failures), (Usage::Spot, 1));
}

#[test]
fn what_machines_on_demand_would_not_help_waits_and_stays_spot() {
    let rule = BackoffRule { spot_ms: 0, ..BackoffRule::default() };
    let spec = spec(1, 10);
    let refused = Backoff::default().failed(&rule, &spec, Usage::Spot, NOW, 0.5);
    let next = want(&spec, false, &stock(0), &[], &refused, NOW);
    assert_eq!((ordered(&next), refused.failures), (0, 1));
    let later = want(&spec, false, &stock(0), &[], &refused, next.look_at.unwrap());
    assert_eq!(later.create, [wish(1, Usage::Spot, &[])]);
}

#[test]
fn creation_waits_longer_after_each_failure_and_no_longer_after_a_success() {
    let (rule, spec) = (BackoffRule::default(), PoolSpec { usage: Usage::OnDemand, ..spec(1, 10) });
    let mut backoff = Backoff::default();
    let mut waits = Vec::new();
    for _ in 0..9 {
        backoff = backoff.failed(&rule, &spec, Usage::OnDemand, NOW, 0.5);
        waits.push(backoff.create_after.unwrap() - NOW);
    }
    assert_eq!(waits, [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000]);
    let held = want(&spec, false, &stock(0), &[], &backoff, NOW);
    assert_eq!((ordered(&held), held.look_at), (0, Some(NOW + 300_000)));
    assert_eq!(ordered(&want(&spec, false, &stock(0), &[], &backoff, NOW + 300_000)), 1);
    assert_eq!(backoff.succeeded(), Backoff::default());
}

proptest! {
    #[test]
    fn a_pool_stays_within_its_size_and_comes_to_rest(
        min_idle in 0..12u32, max_size in 1..12u32, ages in proptest::collection::vec(0..1_200_000i64, 0..12),
        counts: [u8; 5], missing in proptest::collection::vec((0..6u32, 0..4u8), 0..4)
    ) {
        let spec = spec(min_idle, max_size);
        let [creating, claimed, running, releasing, terminating] = counts.map(|count| u32::from(count % 5));
        let idle: Vec<_> = ages.iter().enumerate().map(|(number, age)| idle(number as u128, NOW - age)).collect();
        let coming = coming(creating + releasing);
        let stock = Stock { idle, coming, creating, claimed, running, releasing, terminating };
        let waiting: Vec<_> = missing.iter().enumerate()
            .map(|(number, (missing, kind))| claim(number as i64, *missing, wanted(*kind)))
            .collect();
        let first = want_of(&spec, &stock, &waiting);
        prop_assert!(ordered(&first) == 0 || stock.size() + ordered(&first) <= max_size);
        let known: std::collections::HashSet<_> = first.end.iter().map(|(id, ..)| *id).collect();
        prop_assert_eq!(known.len(), first.end.len());
        prop_assert!(known.iter().all(|id| stock.idle.iter().any(|idle| idle.id == *id)));

        let mut after = stock.clone();
        after.idle.retain(|idle| !known.contains(&idle.id));
        after.creating += ordered(&first);
        for wish in &first.create {
            let one = ComingRunner { usage: wish.usage, kind: String::new(), types: wish.types.clone() };
            after.coming.extend(vec![one; wish.count as usize]);
        }
        after.terminating += first.end.len() as u32;
        let second = want_of(&spec, &after, &waiting);
        prop_assert_eq!((second.create, second.end), (vec![], vec![]), "a second look finds nothing to do");
    }
}

fn turn(at: Millis, from: RunnerState, to: RunnerState, cause: Option<Cause>) -> Turn {
    Turn { at, runner: RunnerId::from_random(1), from: Some(from), to, cause }
}

fn wasted(at: Millis) -> Turn {
    turn(at, RunnerState::Creating, RunnerState::Terminating, Some(Cause::Lost))
}

#[test]
fn machines_that_come_to_nothing_are_made_more_and_more_seldom() {
    let rule = BackoffRule { first_ms: 1_000, max_ms: 60_000, spot_ms: 0 };
    let after = |times: &[Millis]| rule.after_waste(times.iter().map(|at| wasted(*at)), &Unmet::default());
    assert_eq!(after(&[]), None);
    assert_eq!(after(&[NOW]), Some(NOW + 1_000));
    assert_eq!(after(&[NOW, NOW - 10, NOW - 20]), Some(NOW + 1_000), "one order");
    assert_eq!(after(&[NOW, NOW - 1_000]), Some(NOW + 2_000));
    assert_eq!(after(&[NOW, NOW - 10, NOW - 2_000, NOW - 3_500]), Some(NOW + 4_000));
    let many: Vec<Millis> = (0..100).map(|number| NOW - number * 60_000).collect();
    assert_eq!(after(&many), Some(NOW + 60_000));
}

#[test]
fn a_machine_that_was_of_use_makes_good_what_was_before_it() {
    let rule = BackoffRule { first_ms: 1_000, max_ms: 60_000, spot_ms: 0 };
    let used = turn(NOW - 500, RunnerState::Claimed, RunnerState::Running, None);
    assert_eq!(rule.after_waste([used, wasted(NOW - 600)], &Unmet::default()), None);
    assert_eq!(rule.after_waste([wasted(NOW), used, wasted(NOW - 9_000)], &Unmet::default()), Some(NOW + 1_000));
}

#[test]
fn not_every_end_is_a_waste() {
    let rule = BackoffRule::default();
    let counts = |from, cause| {
        let ended = turn(NOW, from, RunnerState::Terminating, Some(cause));
        rule.after_waste([ended], &Unmet::default()).is_some()
    };
    let from_creating: Vec<Cause> =
        Cause::ALL.into_iter().filter(|cause| counts(RunnerState::Creating, *cause)).collect();
    let broken = [Cause::CreateTimeout, Cause::RegisterFailed, Cause::RegisterTimeout];
    let silent = [Cause::Silent, Cause::Abandoned, Cause::Lost];
    assert_eq!(from_creating, [&broken[..], &silent[..]].concat());
    let from_claimed: Vec<Cause> =
        Cause::ALL.into_iter().filter(|cause| counts(RunnerState::Claimed, *cause)).collect();
    assert_eq!(from_claimed, [Cause::RegisterFailed, Cause::RegisterTimeout]);
    let came_up = turn(NOW, RunnerState::Creating, RunnerState::Idle, None);
    assert_eq!(rule.after_waste([came_up], &Unmet::default()), None);
}

#[test]
fn machines_that_fit_no_claim_are_a_waste_and_those_that_are_taken_are_none() {
    let rule = BackoffRule { first_ms: 1_000, max_ms: 60_000, spot_ms: 0 };
    let came_up = turn(NOW, RunnerState::Creating, RunnerState::Idle, None);
    let lacking = Unmet { lacking: 1, ..Unmet::default() };
    assert_eq!(rule.after_waste([came_up], &lacking), Some(NOW + 1_000));
    let ended = turn(NOW + 9, RunnerState::Idle, RunnerState::Terminating, Some(Cause::Surplus));
    assert_eq!(rule.after_waste([ended, came_up], &lacking), Some(NOW + 1_000), "whatever became of it");
    assert_eq!(rule.after_waste([ended, came_up], &Unmet::default()), None, "a pool that became smaller");
    let taken = turn(NOW + 9, RunnerState::Idle, RunnerState::Claimed, None);
    assert_eq!(rule.after_waste([taken, came_up], &lacking), None);
    assert_eq!(rule.after_waste([came_up], &Unmet { taken: vec![came_up.runner], ..lacking.clone() }), None, "it fits");
    assert_eq!(rule.after_waste([came_up], &Unmet { kept: 1, ..lacking.clone() }), None, "min_idle asks for it");
    let later = Turn { at: NOW + 9_000, runner: RunnerId::from_random(2), ..came_up };
    let kept = Unmet { kept: 1, ..lacking };
    assert_eq!(rule.after_waste([later, came_up], &kept), Some(NOW + 10_000), "the first was for min_idle");
    let stock = stock(3);
    let want = want_of(&spec(0, 9), &stock, &[claim(1, 2, Wanted::default()), claim(2, 3, unfit())]);
    assert_eq!((want.unmet.lacking, want.unmet.taken), (3, vec![stock.idle[0].id, stock.idle[1].id]));
}

/// A pool whose provider makes machines that fit no claim, for an hour. Returns how many it made.
fn made_in_an_hour(spec: &PoolSpec, waiting: &[Waiting], create_ms: Millis, end_ms: Millis) -> u32 {
    let rule = BackoffRule::default();
    let (mut now, mut made) = (NOW, 0);
    let mut turns: Vec<Turn> = Vec::new();
    let (mut idle, mut creating, mut ending) = (Vec::<IdleRunner>::new(), Vec::new(), Vec::new());
    while now < NOW + 3_600_000 {
        let (up, still): (Vec<_>, Vec<_>) = creating.into_iter().partition(|(at, _)| *at <= now);
        creating = still;
        for (at, id) in up {
            let (from, to) = (Some(RunnerState::Creating), RunnerState::Idle);
            turns.push(Turn { at, runner: id, from, to, cause: None });
            idle.push(IdleRunner { id, since: at, ..self::idle(0, at) });
        }
        ending.retain(|at| *at > now);
        let counts = (creating.len() as u32, ending.len() as u32);
        let coming = coming(counts.0);
        let stock = Stock { idle: idle.clone(), coming, creating: counts.0, terminating: counts.1, ..Stock::default() };
        let want = want(spec, false, &stock, waiting, &Backoff::default(), now);
        for (id, _, cause) in &want.end {
            idle.retain(|idle| idle.id != *id);
            let (from, to) = (Some(RunnerState::Idle), RunnerState::Terminating);
            turns.push(Turn { at: now, runner: *id, from, to, cause: Some(*cause) });
            ending.push(now + end_ms);
        }
        let may = rule.after_waste(turns.iter().rev().copied(), &want.unmet).is_none_or(|after| after <= now);
        for _ in 0..if may { ordered(&want) } else { 0 } {
            made += 1;
            let id = RunnerId::from_random(u128::from(made));
            turns.push(Turn { at: now, runner: id, from: None, to: RunnerState::Creating, cause: None });
            creating.push((now + create_ms, id));
        }
        now += 500;
    }
    made
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_provider_that_makes_what_fits_nobody_is_not_asked_all_the_time(
        min_idle in 0..4u32, max_size in 4..8u32, missing in 1..5u32, create_ms in 0..60_000i64, end_ms in 0..3_000i64,
        idle_ms in prop_oneof![Just(0), Just(1_000), Just(600_000u64)]
    ) {
        let spec = PoolSpec { idle_ms, ..spec(min_idle, max_size) };
        let made = made_in_an_hour(&spec, &[claim(1, missing, unfit())], create_ms, end_ms);
        // Five minutes between two attempts, and a few before that.
        prop_assert!(made <= 20 * max_size, "{made} machines");
    }
}
