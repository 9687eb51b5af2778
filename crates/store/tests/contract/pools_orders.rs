//! Orders: a row before the provider is asked, machines bound once, agents that join once, and what happens after a refusal.

use std::collections::BTreeSet;

use baton_core::pools::{Backoff, BackoffRule, Cause, Machine, PoolSpec, RunnerState, Usage, keeper};
use baton_core::token::hash;
use baton_store::{
    JoinAnswer, MachineAnswer, NewMachine, NewOrder, OrderAnswer, Page, PoolRunner, RunnerEnd, RunnerFilter, pool_total,
};

use crate::pools_rig::{ASK_MS, CREATE_MS, PoolRig, expiry, machine, new_order, order_id, spec};
use crate::rig::{Rig, START, contract};

contract!(
    an_order_is_written_before_anybody_is_asked_and_once,
    a_pool_is_not_ordered_larger_than_it_may_be,
    of_many_servers_that_order_the_size_is_kept,
    an_order_that_nobody_settled_is_handed_to_another_server,
    machines_are_bound_once_and_surplus_ones_are_named,
    a_provider_that_stops_halfway_leaves_places_that_end,
    an_agent_joins_once,
    an_agent_that_is_faster_than_its_provider_has_to_wait,
    an_order_is_awaited_while_a_runner_waits_for_its_machine,
    a_refused_order_leaves_nothing_and_the_pool_backs_off,
    spot_machines_that_are_refused_are_ordered_on_demand,
    an_order_keeps_the_types_that_it_was_made_with,
    runners_are_listed_in_pages,
);

fn made(name: &str) -> NewMachine {
    NewMachine { id: name.into(), machine: machine("m7.large", Usage::Spot) }
}

async fn an_order_is_written_before_anybody_is_asked_and_once(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    let new = pool.ordered(2).await;
    let runner = pool.runner(new.runners[0]).await;
    assert_eq!((runner.rules.state, runner.rules.deadline), (RunnerState::Creating, Some(START + CREATE_MS)));
    assert_eq!((runner.pool, runner.order, runner.machine_id.clone()), (pool.number(), new.order, None));
    assert_eq!((runner.machine.cpu, runner.machine.memory_mib, runner.seen_at), (4, 8_192, None));
    let again = pool.store().order_runners(new.clone()).await.unwrap();
    let OrderAnswer::Known(order) = again else { panic!("made twice: {again:?}") };
    assert_eq!((order.id, order.count, order.ask_at, order.closed_at), (new.order, 2, START + ASK_MS, None));
    assert_eq!(pool.count_in(RunnerState::Creating).await, 2);
    let nowhere = NewOrder { pool: 4_711, ..new_order(4_711, 1) };
    assert_eq!(pool.store().order_runners(nowhere).await.unwrap(), OrderAnswer::NoPool);
}

async fn a_pool_is_not_ordered_larger_than_it_may_be(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    let idle = pool.idle(2).await;
    let end = RunnerEnd { runner: idle[0], cause: Cause::Surplus, detail: String::new() };
    pool.store().end_runners(vec![end]).await.unwrap();
    let answer = pool.store().order_runners(new_order(pool.number(), 9)).await.unwrap();
    assert!(matches!(&answer, OrderAnswer::Ordered(order) if order.count == 3), "what ends still counts: {answer:?}");
    assert_eq!(pool.store().order_runners(new_order(pool.number(), 1)).await.unwrap(), OrderAnswer::Full);
    pool.store().note_gone(vec![idle[0].runner]).await.unwrap();
    let answer = pool.store().order_runners(new_order(pool.number(), 2)).await.unwrap();
    assert!(matches!(answer, OrderAnswer::Ordered(order) if order.count == 1));
}

async fn of_many_servers_that_order_the_size_is_kept(rig: Rig) {
    let pool = PoolRig::new(rig, 7).await;
    let mut ordering = tokio::task::JoinSet::new();
    for server in pool.rig.servers(4).await.into_iter().cycle().take(12) {
        let new = new_order(pool.number(), 2);
        ordering.spawn(async move { server.order_runners(new).await.unwrap() });
    }
    let counts = ordering.join_all().await.into_iter().map(|answer| match answer {
        OrderAnswer::Ordered(order) => order.count,
        OrderAnswer::Full => 0,
        other => panic!("{other:?}"),
    });
    assert_eq!((counts.sum::<u32>(), pool.count_in(RunnerState::Creating).await), (7, 7));
}

async fn an_order_that_nobody_settled_is_handed_to_another_server(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let (lost, settled) = (pool.ordered(2).await, pool.ordered(1).await);
    pool.store().record_machines(settled.order, vec![made("a")]).await.unwrap();
    let due = || async { pool.store().due_orders(ASK_MS, 10).await.unwrap() };
    assert_eq!(due().await, [], "whoever made it asks first");
    pool.later(ASK_MS);
    let orders = due().await;
    let told: Vec<_> = orders.iter().map(|order| (order.id, order.count, order.asked, order.usage)).collect();
    assert_eq!(told, [(lost.order, 2, 2, Usage::OnDemand)]);
    assert_eq!(due().await, []);
    pool.later(ASK_MS);
    assert_eq!(due().await[0].asked, 3);
    pool.store().record_machines(lost.order, vec![made("b"), made("c")]).await.unwrap();
    pool.later(ASK_MS);
    assert_eq!(due().await, []);
    let late = pool.ordered(1).await;
    pool.later(CREATE_MS + 1);
    pool.store().expire_pools(expiry()).await.unwrap();
    assert_eq!((due().await, pool.state(late.runners[0]).await), (vec![], RunnerState::Terminating));
}

async fn machines_are_bound_once_and_surplus_ones_are_named(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let order = pool.ordered(2).await;
    let record = |machines: Vec<NewMachine>| {
        let store = pool.store().clone();
        async move { store.record_machines(order.order, machines).await.unwrap() }
    };
    let first = record(vec![made("a")]).await.unwrap();
    let MachineAnswer::Bound(runner) = first[0] else { panic!("{first:?}") };
    assert_eq!(record(vec![made("a"), made("a")]).await.unwrap(), [MachineAnswer::Bound(runner); 2]);
    let bound = pool.runner(runner).await;
    assert_eq!((bound.machine_id.as_deref(), &bound.machine), (Some("a"), &made("a").machine));
    assert_eq!(bound.rules.state, RunnerState::Creating, "its agent has not spoken");
    let more = record(vec![made("a"), made("b"), made("c")]).await.unwrap();
    assert_eq!((more[0], more[2]), (MachineAnswer::Bound(runner), MachineAnswer::Surplus));
    assert!(matches!(more[1], MachineAnswer::Bound(other) if other != runner));
    assert_eq!(pool.store().record_machines(order_id(), vec![made("z")]).await.unwrap(), None);
}

async fn a_provider_that_stops_halfway_leaves_places_that_end(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let order = pool.ordered(3).await;
    pool.store().record_machines(order.order, vec![made("a")]).await.unwrap();
    pool.later(ASK_MS);
    assert_eq!(pool.store().due_orders(ASK_MS, 10).await.unwrap().len(), 1, "two are missing");
    pool.later(CREATE_MS);
    let ended = pool.store().expire_pools(expiry()).await.unwrap().runners;
    assert_eq!((ended.len(), pool.count_in(RunnerState::Terminating).await), (3, 3));
    let late = pool.store().record_machines(order.order, vec![made("a"), made("b")]).await.unwrap().unwrap();
    assert!(matches!(late[0], MachineAnswer::Bound(_)));
    assert_eq!(late[1], MachineAnswer::Surplus, "nobody waits for it any more");
    let due = pool.store().due_endings(ASK_MS, 10).await.unwrap();
    let mut machines: Vec<_> = due.into_iter().map(|runner| runner.machine_id).collect();
    machines.sort();
    assert_eq!(machines, [None, None, Some("a".to_owned())]);
}

async fn an_agent_joins_once(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let order = pool.ordered(1).await;
    pool.store().record_machines(order.order, vec![made("a")]).await.unwrap();
    let join = |order, machine: &'static str, token: &'static str| {
        let store = pool.store().clone();
        async move { store.join_runner(order, machine, hash(token)).await.unwrap() }
    };
    assert_eq!(join(order.order, "b", "x").await, JoinAnswer::Unknown, "no place waits for it");
    assert_eq!(join(order_id(), "a", "x").await, JoinAnswer::Unknown);
    let JoinAnswer::Joined(runner) = join(order.order, "a", "mine").await else { panic!("not joined") };
    assert_eq!((runner.id, runner.seen_at), (order.runners[0], Some(START)));
    pool.later(1_000);
    assert_eq!(join(order.order, "a", "mine").await, JoinAnswer::Joined(runner.clone()), "an answer may get lost");
    assert_eq!(join(order.order, "a", "yours").await, JoinAnswer::Taken);
    assert_eq!(pool.store().runner_of_token(&hash("mine")).await.unwrap(), Some(*runner));
    assert_eq!(pool.store().runner_of_token(&hash("yours")).await.unwrap(), None);
}

async fn an_agent_that_is_faster_than_its_provider_has_to_wait(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let order = pool.ordered(2).await;
    let join = |machine: &'static str| {
        let (store, order) = (pool.store().clone(), order.order);
        async move { store.join_runner(order, machine, hash(machine)).await.unwrap() }
    };
    assert_eq!(join("b").await, JoinAnswer::NotYet, "anybody could have said so");
    let bound = pool.store().record_machines(order.order, vec![made("b")]).await.unwrap().unwrap();
    let JoinAnswer::Joined(runner) = join("b").await else { panic!("not joined") };
    assert_eq!(bound, [MachineAnswer::Bound(runner.id)]);
    assert_eq!((runner.machine, runner.token), (made("b").machine, Some(hash("b"))));
    assert_eq!(join("another's").await, JoinAnswer::NotYet);
    let free = pool.runners_in(RunnerState::Creating).await.into_iter().filter(|runner| runner.machine_id.is_none());
    assert_eq!(free.count(), 1, "nobody else's machine was bound");
    pool.store().record_machines(order.order, vec![made("a")]).await.unwrap();
    assert_eq!(join("another's").await, JoinAnswer::Unknown);
}

async fn an_order_is_awaited_while_a_runner_waits_for_its_machine(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let (new, other) = (pool.ordered(1).await, pool.ordered(2).await);
    let look = |order| {
        let store = pool.store().clone();
        async move { store.order(order).await.unwrap() }
    };
    assert_eq!(look(order_id()).await, None);
    let placed = look(new.order).await.unwrap();
    assert_eq!((placed.order.id, placed.order.pool, placed.is_awaited), (new.order, pool.number(), true));
    assert_eq!((placed.order.ask_at, placed.order.closed_at), (START + ASK_MS, None));
    pool.store().record_machines(new.order, vec![made("a")]).await.unwrap();
    let placed = look(new.order).await.unwrap();
    assert_eq!((placed.is_awaited, placed.order.closed_at), (false, Some(START)));
    let creating = pool.runners_in(RunnerState::Creating).await.into_iter().filter(|row| row.order == other.order);
    let end = |row: PoolRunner| RunnerEnd { runner: row.reference(), cause: Cause::PoolDeleted, detail: String::new() };
    pool.store().end_runners(creating.map(end).collect()).await.unwrap();
    let placed = look(other.order).await.unwrap();
    assert_eq!((placed.is_awaited, placed.order.closed_at), (false, None), "nobody waits, and nobody has answered");
}

async fn a_refused_order_leaves_nothing_and_the_pool_backs_off(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let order = pool.ordered(3).await;
    pool.store().record_machines(order.order, vec![made("a")]).await.unwrap();
    let rule = BackoffRule::default();
    let refuse = |order| {
        let store = pool.store().clone();
        async move { store.fail_order(order, "no capacity", rule, 0.5).await.unwrap() }
    };
    assert!(refuse(order.order).await);
    assert!(!refuse(order.order).await, "it is settled");
    assert!(!refuse(order_id()).await);
    assert_eq!((pool.count_in(RunnerState::Gone).await, pool.count_in(RunnerState::Creating).await), (2, 1));
    let gone = pool.runners_in(RunnerState::Gone).await;
    assert!(gone.iter().all(|one| one.rules.cause == Some(Cause::CreateFailed) && one.detail == "no capacity"));
    let stock = pool.store().pool_stock(pool.number()).await.unwrap().unwrap();
    let backoff = Backoff { failures: 1, create_after: Some(START + 5_000), spot_after: None };
    assert_eq!((stock.pool.backoff, stock.pool.error.as_deref()), (backoff, Some("no capacity")));
    let stats = pool.store().pool_stats(pool.number()).await.unwrap();
    assert_eq!(stats.totals.get(pool_total::ORDERS_FAILED), Some(&1));

    let next = pool.ordered(1).await;
    pool.store().record_machines(next.order, vec![made("z")]).await.unwrap();
    let pool_now = pool.store().pool("default", "linux").await.unwrap().unwrap();
    assert_eq!((pool_now.backoff, pool_now.error), (Backoff::default(), None));
}

async fn spot_machines_that_are_refused_are_ordered_on_demand(rig: Rig) {
    let spec = PoolSpec { usage: Usage::Spot, spot_fallback: true, min_idle: 2, ..spec(9) };
    let pool = PoolRig::with(rig, spec).await;
    let want = || async {
        let seen = pool.store().pool_stock(pool.number()).await.unwrap().unwrap();
        keeper::want(&seen.pool.spec, false, &seen.stock, &seen.waiting, &seen.pool.backoff, seen.now)
    };
    let first = want().await;
    let wish = |usage| keeper::Wish { count: 2, usage, types: Vec::new() };
    assert_eq!(first.create, [wish(Usage::Spot)]);
    let order = NewOrder { usage: Usage::Spot, ..new_order(pool.number(), 2) };
    pool.store().order_runners(order.clone()).await.unwrap();
    assert_eq!(want().await.create, [], "they are on their way");
    pool.store().fail_order(order.order, "no spot", BackoffRule::default(), 0.5).await.unwrap();
    let second = want().await;
    assert_eq!(second.create, [wish(Usage::OnDemand)]);
    pool.later(BackoffRule::default().spot_ms);
    assert_eq!(want().await.create, [wish(Usage::Spot)]);
}

async fn an_order_keeps_the_types_that_it_was_made_with(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    let types = vec!["m7i.*".to_owned(), "ä, \"quoted\"".to_owned()];
    let order = NewOrder { types: types.clone(), ..new_order(pool.number(), 2) };
    let OrderAnswer::Ordered(made) = pool.store().order_runners(order.clone()).await.unwrap() else {
        panic!("there is room")
    };
    assert_eq!(made.types, types);
    let OrderAnswer::Known(known) = pool.store().order_runners(order.clone()).await.unwrap() else {
        panic!("it is there")
    };
    assert_eq!(known, made);
    assert_eq!(pool.store().order(order.order).await.unwrap().unwrap().order, made);
    pool.later(ASK_MS + 1);
    assert_eq!(pool.store().due_orders(ASK_MS, 10).await.unwrap()[0].types, types, "the same is asked for again");

    // What is on its way is known by what it was ordered as, and by what it is once that is known.
    let coming = || async { pool.store().pool_stock(pool.number()).await.unwrap().unwrap().stock.coming };
    let plain = keeper::ComingRunner { usage: Usage::OnDemand, kind: String::new(), types };
    assert_eq!(coming().await, [plain.clone(), plain.clone()]);
    let machine = Machine { kind: "m7i.large".into(), usage: Usage::OnDemand, cpu: 1, memory_mib: 1_024 };
    pool.store().record_machines(order.order, vec![NewMachine { id: "one".into(), machine }]).await.unwrap();
    let kinds: BTreeSet<String> = coming().await.into_iter().map(|one| one.kind).collect();
    assert_eq!(kinds, ["".to_owned(), "m7i.large".to_owned()].into());
}

async fn runners_are_listed_in_pages(rig: Rig) {
    let pool = PoolRig::new(rig, 9).await;
    pool.idle(2).await;
    pool.ordered(1).await;
    let (claim, _) = pool.ready("one", 1).await;
    let list = |filter: RunnerFilter, after, limit| {
        let store = pool.store().clone();
        async move { store.runners(filter, Page { after, limit }).await.unwrap() }
    };
    let all = list(RunnerFilter::default(), None, 10).await;
    assert_eq!(all.len(), 3);
    assert!(all.is_sorted_by_key(|runner| runner.id));
    assert_eq!(list(RunnerFilter::default(), Some(all[1].id), 10).await, all[2..]);
    let idle = RunnerFilter { state: Some(RunnerState::Idle), ..RunnerFilter::default() };
    assert_eq!(list(idle, None, 10).await.len(), 1);
    let held = RunnerFilter { claim: Some(claim.number), ..RunnerFilter::default() };
    assert_eq!(list(held, None, 10).await.len(), 1);
    assert_eq!(list(RunnerFilter { pool: Some(pool.number() + 1), ..idle }, None, 10).await, []);
    let others = RunnerFilter { not_state: Some(RunnerState::Idle), ..RunnerFilter::default() };
    let others = list(others, None, 2).await;
    assert_eq!(others.len(), 2, "a page is cut from what is left");
    assert!(others.iter().all(|runner| runner.rules.state != RunnerState::Idle));
}
