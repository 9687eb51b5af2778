//! Machines of leases, their one-time passwords, and measurements.

use std::sync::Arc;

use baton_store::{Machine, Measured, NewMeasurement, OtpAnswer};

use crate::rig::{Rig, START, contract, lease, lease_of, run};

const GOOD_MS: i64 = 600_000;

contract!(
    a_password_is_good_once,
    a_password_is_good_for_a_while,
    a_password_needs_the_live_lease,
    of_two_who_use_a_password_at_once_one_gets_in,
    signs_of_life_are_noted_for_the_live_lease,
    each_lease_has_a_machine_of_its_own,
    measurements_are_kept_oldest_first,
    only_so_many_measurements_are_kept,
    concurrent_measurements_are_all_counted,
    measurements_need_the_live_lease,
    what_is_called_all_the_time_is_cheap,
);

fn cpu(share: f64) -> NewMeasurement {
    NewMeasurement { cpu: Some(share), ..NewMeasurement::default() }
}

async fn a_password_is_good_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    rig.clock.advance(5);
    assert_eq!(rig.store.use_otp(held, GOOD_MS).await.unwrap(), OtpAnswer::Good);
    rig.clock.advance(5);
    assert_eq!(rig.store.use_otp(held, GOOD_MS).await.unwrap(), OtpAnswer::Used);
    let machine = rig.store.machine(held).await.unwrap().unwrap();
    assert_eq!(machine, Machine { otp_used_at: Some(START + 5), ..Machine::default() });
}

async fn a_password_is_good_for_a_while(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, early) = rig.held_build(run(lane)).await;
    let (_, late) = rig.held_build(run(lane)).await;
    rig.clock.advance(GOOD_MS);
    assert_eq!(rig.store.use_otp(early, GOOD_MS).await.unwrap(), OtpAnswer::Good);
    rig.clock.advance(1);
    assert_eq!(rig.store.use_otp(late, GOOD_MS).await.unwrap(), OtpAnswer::Expired);
    assert_eq!(rig.store.machine(late).await.unwrap(), None);
    assert_eq!(rig.store.use_otp(late, i64::MAX).await.unwrap(), OtpAnswer::Good);
}

async fn a_password_needs_the_live_lease(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held_build(run(lane)).await;
    rig.give_back(first).await;
    assert_eq!(rig.store.use_otp(first, GOOD_MS).await.unwrap(), OtpAnswer::LeaseLost);
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    assert_eq!(rig.store.use_otp(first, GOOD_MS).await.unwrap(), OtpAnswer::LeaseLost);
    assert_eq!(rig.store.machine(first).await.unwrap(), None);
    assert_eq!(rig.store.use_otp(second, GOOD_MS).await.unwrap(), OtpAnswer::Good);
    rig.complete(second).await;
    assert_eq!(rig.store.use_otp(second, GOOD_MS).await.unwrap(), OtpAnswer::LeaseLost);
}

async fn of_two_who_use_a_password_at_once_one_gets_in(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    for round in 0..10 {
        let (_, held) = rig.held_build(run(lane)).await;
        if round % 2 == 0 {
            assert!(rig.store.machine_seen(held, false, None).await.unwrap());
        }
        let mut tasks = Vec::new();
        for store in servers.iter().cycle().take(4) {
            let store = Arc::clone(store);
            tasks.push(tokio::spawn(async move { store.use_otp(held, GOOD_MS).await.unwrap() }));
        }
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        assert_eq!(answers.iter().filter(|answer| **answer == OtpAnswer::Good).count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| **answer == OtpAnswer::Used).count(), 3, "{answers:?}");
    }
}

async fn signs_of_life_are_noted_for_the_live_lease(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    assert_eq!(rig.store.machine(held).await.unwrap(), None);
    let mut expected = Machine::default();
    for (ready, progress) in [(false, None), (true, Some(10.0)), (false, None), (true, Some(62.5))] {
        rig.clock.advance(1);
        assert!(rig.store.machine_seen(held, ready, progress).await.unwrap());
        expected.progress = progress.or(expected.progress);
        expected.seen_at = Some(rig.now());
        expected.ready_at = expected.ready_at.or(ready.then_some(rig.now()));
        assert_eq!(rig.store.machine(held).await.unwrap(), Some(expected));
    }
    rig.give_back(held).await;
    rig.clock.advance(1);
    assert!(!rig.store.machine_seen(held, true, None).await.unwrap());
    assert_eq!(rig.store.machine(held).await.unwrap(), Some(expected));
}

async fn each_lease_has_a_machine_of_its_own(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held_build(run(lane)).await;
    assert_eq!(rig.store.use_otp(first, GOOD_MS).await.unwrap(), OtpAnswer::Good);
    assert!(rig.store.machine_seen(first, true, None).await.unwrap());
    rig.give_back(first).await;
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    assert_eq!(rig.store.machine(second).await.unwrap(), None);
    assert!(!rig.store.machine_seen(lease_of(first.run, 3), true, None).await.unwrap());
    assert_eq!(rig.store.use_otp(second, GOOD_MS).await.unwrap(), OtpAnswer::Good);
}

async fn measurements_are_kept_oldest_first(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    assert_eq!(rig.store.measured(held.run, 10).await.unwrap(), []);
    let given = [(Some(0.5), Some(0.25)), (None, Some(1e-9)), (Some(f64::NAN), Some(f64::INFINITY)), (Some(1.0), None)];
    let mut expected = Vec::new();
    for (cpu, memory) in given {
        rig.clock.advance(1);
        assert!(rig.store.add_measured(held, NewMeasurement { cpu, memory, memory_mb: memory }, 10).await.unwrap());
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let memory = finite(memory);
        expected.push(Measured { at: rig.now(), cpu: finite(cpu), memory, memory_mb: memory });
    }
    assert_eq!(rig.store.measured(held.run, 10).await.unwrap(), expected);
    assert_eq!(rig.store.measured(held.run, 2).await.unwrap(), expected[2..]);
}

async fn only_so_many_measurements_are_kept(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    for number in 0..10 {
        assert!(rig.store.add_measured(held, cpu(f64::from(number)), 3).await.unwrap());
    }
    let shown = async || -> Vec<f64> {
        let measured = rig.store.measured(held.run, 100).await.unwrap();
        measured.iter().map(|measured| measured.cpu.unwrap()).collect()
    };
    assert_eq!(shown().await, [7.0, 8.0, 9.0]);
    assert!(rig.store.add_measured(held, cpu(10.0), 0).await.unwrap());
    assert_eq!(shown().await, [10.0], "one is always kept");
}

async fn concurrent_measurements_are_all_counted(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let mut tasks = Vec::new();
    for (number, store) in rig.servers(2).await.into_iter().cycle().take(20).enumerate() {
        tasks.push(tokio::spawn(async move { store.add_measured(held, cpu(number as f64), 100).await.unwrap() }));
    }
    for task in tasks {
        assert!(task.await.unwrap());
    }
    let measured = rig.store.measured(held.run, 100).await.unwrap();
    let mut all: Vec<f64> = measured.iter().map(|measured| measured.cpu.unwrap()).collect();
    all.sort_by(f64::total_cmp);
    assert_eq!(all, (0..20).map(f64::from).collect::<Vec<_>>());
}

async fn measurements_need_the_live_lease(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    assert!(!rig.store.add_measured(lease_of(held.run, 2), cpu(1.0), 10).await.unwrap());
    rig.give_back(held).await;
    assert!(!rig.store.add_measured(held, cpu(1.0), 10).await.unwrap());
    assert_eq!(rig.store.measured(held.run, 10).await.unwrap(), []);
}

async fn what_is_called_all_the_time_is_cheap(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held_build(run(lane)).await;
    let set = rig.store.set_builder("default", "mac", worker, None, GOOD_MS).await.unwrap().unwrap();
    let mut before = rig.store.statements();
    let mut since = || {
        let now = rig.store.statements();
        now - std::mem::replace(&mut before, now)
    };
    rig.store.token_shown(worker, set.token, Some(GOOD_MS)).await.unwrap();
    assert_eq!(since(), 1, "a token is shown");
    rig.store.machine_seen(held, true, None).await.unwrap();
    assert_eq!(since(), 1, "a machine is seen");
    rig.say(held.run, Some(held), &["a", "b", "c"]).await;
    // Where statements travel, all of it is one.
    assert_eq!(since(), if rig.store.is_shared() { 1 } else { 4 }, "lines are added");
}
