//! Workers: registering, beating, draining, going.

use std::collections::BTreeMap;

use baton_core::{LeaseEnd, State, WorkerId};
use baton_store::{
    Beat, BeatAnswer, Health, NewWorker, Page, RunFilter, SlotRefused, Woken, WorkerChange, WorkerFilter, WorkerInfo,
    WorkerStatus,
};

use crate::rig::{Rig, START, TTL_MS, contract, error, lease, lease_of, new_worker, run, slot};

contract!(
    a_registered_worker_can_be_read,
    the_same_instance_is_the_same_worker,
    an_instance_registered_concurrently_is_one_worker,
    a_heartbeat_renews_and_never_adds_up,
    a_heartbeat_tells_which_leases_are_lost,
    a_heartbeat_that_names_a_run_starts_it,
    a_silent_or_unknown_worker_has_to_register_again,
    a_beat_may_change_how_long_leases_live,
    an_unfit_worker_gets_no_work_until_it_is_well,
    a_draining_worker_finishes_and_gets_nothing_new,
    going_offline_gives_everything_back_at_once,
    an_offline_worker_stays_offline,
    counters_equal_counted_rows,
    runs_that_a_worker_does_not_know_of_are_found_when_they_are_old_enough,
    workers_are_listed_newest_first_in_pages,
    workers_are_filtered,
);

async fn a_registered_worker_can_be_read(rig: Rig) {
    let info = WorkerInfo {
        queues: vec!["builds".into()],
        types: vec!["ios".into(), "android".into()],
        hostname: "mac-7".into(),
        pid: Some(4_242),
        version: "1.2.3".into(),
        labels: BTreeMap::from([("zone".into(), "b'\"\\".into())]),
    };
    let new = NewWorker {
        info: info.clone(),
        max_concurrent: 4,
        ttl_ms: 300_000,
        key_id: Some("key".into()),
        ..new_worker("mac")
    };
    let registered = rig.register(new.clone()).await;
    assert_eq!((registered.id, registered.is_new, registered.at), (new.id, true, START));
    let shown = rig.shown(new.id).await;
    assert_eq!((shown.id, &*shown.namespace, &*shown.name, shown.info), (new.id, "default", "mac", info));
    assert_eq!((shown.status, shown.status_reason), (WorkerStatus::Online, None));
    assert_eq!((shown.max_concurrent, shown.active, shown.completed, shown.failed), (4, 0, 0, 0));
    assert_eq!((shown.registered_at, shown.seen_at, shown.lease_until), (START, START, START + 300_000));
    assert_eq!((shown.health, shown.unfit), (None, None));
    assert_eq!(rig.store.worker(new_worker("x").id).await.unwrap(), None);
    assert_eq!(shown.status, WorkerStatus::Online);
}

async fn the_same_instance_is_the_same_worker(rig: Rig) {
    let new = |name: &str, instance: &str| NewWorker { instance: Some(instance.into()), ..new_worker(name) };
    let first = rig.register(new("a", "one")).await;
    rig.clock.advance(100);
    let again = rig.register(new("a", "one")).await;
    assert_eq!((again.id, again.is_new), (first.id, false));
    let other = rig.register(new("a", "two")).await;
    assert!(other.is_new && other.id != first.id);
    // Without an instance every call is a new incarnation, whatever the name.
    assert_ne!(rig.worker("a").await, rig.worker("a").await);
    assert_eq!(rig.store.count_workers(&WorkerFilter::default()).await.unwrap(), 4);
}

async fn an_instance_registered_concurrently_is_one_worker(rig: Rig) {
    let mut tasks = Vec::new();
    for store in rig.servers(2).await.into_iter().cycle().take(8) {
        let worker = NewWorker { instance: Some("one".into()), ..new_worker("a") };
        tasks.push(tokio::spawn(async move { store.register(worker).await.unwrap() }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    assert!(answers.iter().all(|answer| answer.id == answers[0].id));
    assert_eq!(answers.iter().filter(|answer| answer.is_new).count(), 1);
}

async fn a_heartbeat_renews_and_never_adds_up(rig: Rig) {
    let worker = rig.worker("a").await;
    for _ in 0..3 {
        rig.clock.advance(1_000);
        let expected = BeatAnswer::Alive {
            status: WorkerStatus::Online,
            lease_until: rig.now() + TTL_MS,
            held: 0,
            lost: vec![],
            cancelling: vec![],
        };
        assert_eq!(rig.beat(worker, &[]).await, expected);
        assert_eq!(rig.beat(worker, &[]).await, expected);
    }
    let shown = rig.shown(worker).await;
    assert_eq!((shown.seen_at, shown.lease_until), (START + 3_000, START + 3_000 + TTL_MS));
}

async fn a_heartbeat_tells_which_leases_are_lost(rig: Rig) {
    let lane = rig.lane("ios").await;
    let ids = rig.submit_all(vec![run(lane); 5]).await;
    let (worker, thief) = (rig.worker("a").await, rig.worker("b").await);
    let held: Vec<_> = rig.claim(worker, lane, 4).await.iter().map(lease).collect();
    let others = lease(&rig.claim(thief, lane, 1).await[0]);
    rig.complete(held[0]).await;
    rig.give_back(held[1]).await;
    let (stale, unknown) = (lease_of(held[2].run, 9), lease_of(baton_core::RunId::new(1, 1, 1), 1));
    let named = [held[0], held[1], stale, others, unknown, held[2], held[3]];
    let BeatAnswer::Alive { mut lost, .. } = rig.beat(worker, &named).await else { panic!("the worker is alive") };
    let mut expected = vec![held[0], held[1], stale, others, unknown];
    lost.sort_by_key(|lease| (lease.run, lease.epoch));
    expected.sort_by_key(|lease| (lease.run, lease.epoch));
    assert_eq!(lost, expected);
    assert_eq!(rig.state(ids[4]).await, State::Assigned, "naming another worker's run does not start it");
}

async fn a_heartbeat_that_names_a_run_starts_it(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![run(lane); 2]).await;
    let worker = rig.worker("a").await;
    let held: Vec<_> = rig.claim(worker, lane, 2).await.iter().map(lease).collect();
    rig.clock.advance(500);
    rig.beat(worker, &held[..1]).await;
    let record = rig.record(held[0].run).await;
    assert_eq!((record.state, record.started_at), (State::Running, Some(START + 500)));
    assert_eq!(rig.state(held[1].run).await, State::Assigned);
    rig.clock.advance(500);
    rig.beat(worker, &held[..1]).await;
    assert_eq!(rig.record(held[0].run).await.started_at, Some(START + 500), "it started once");
}

async fn a_silent_or_unknown_worker_has_to_register_again(rig: Rig) {
    let (silent, lively) = (rig.worker("a").await, rig.worker("b").await);
    rig.clock.advance(TTL_MS);
    rig.beat(lively, &[]).await;
    rig.clock.advance(1);
    assert_eq!(rig.store.lose_workers(0, 10).await.unwrap(), [silent]);
    let beat = |worker| Beat { worker, health: None, unfit: None, ttl_ms: None, leases: vec![] };
    let answers = rig.store.renew(vec![beat(silent), beat(new_worker("x").id), beat(lively)]).await.unwrap();
    assert_eq!(answers[..2], [BeatAnswer::Offline, BeatAnswer::Unknown]);
    assert!(matches!(answers[2], BeatAnswer::Alive { .. }));
    assert_eq!(rig.shown(silent).await.status, WorkerStatus::Offline);
}

async fn a_beat_may_change_how_long_leases_live(rig: Rig) {
    let (changed, other) = (rig.worker("a").await, rig.worker("b").await);
    let beat = |worker, ttl_ms| Beat { worker, health: None, unfit: None, ttl_ms, leases: vec![] };
    let until = |answer: &BeatAnswer| match answer {
        BeatAnswer::Alive { lease_until, .. } => *lease_until - START,
        other => panic!("{other:?}"),
    };
    // Several of one worker in one call: what one of them says of it holds, whichever is written.
    let beats = vec![beat(changed, None), beat(changed, Some(60_000)), beat(other, None), beat(changed, None)];
    let answers = rig.store.renew(beats).await.unwrap();
    assert_eq!(answers.iter().map(until).collect::<Vec<_>>(), [60_000, 60_000, TTL_MS, 60_000]);
    rig.clock.advance(10_000);
    let answers = rig.store.renew(vec![beat(changed, None)]).await.unwrap();
    assert_eq!(until(&answers[0]), 70_000, "it stays so");
    let shown = rig.shown(changed).await;
    assert_eq!(shown.lease_until - shown.seen_at, 60_000);
    let answers = rig.store.renew(vec![beat(changed, Some(5_000)), beat(other, None)]).await.unwrap();
    assert_eq!(until(&answers[0]), 15_000, "a shorter one counts at once");
    rig.clock.advance(5_001);
    assert_eq!(rig.store.lose_workers(0, 10).await.unwrap(), [changed]);
}

async fn an_unfit_worker_gets_no_work_until_it_is_well(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (id, worker) = (rig.submit(run(lane)).await, rig.worker("a").await);
    let health = Health { cpu: Some(0.5), memory: Some(0.25), disk_free_bytes: Some(1 << 40) };
    let beat = |health, unfit: Option<&str>| Beat {
        worker,
        health,
        unfit: unfit.map(str::to_owned),
        ttl_ms: None,
        leases: vec![],
    };
    rig.store.renew(vec![beat(Some(health), Some("disk is nearly full"))]).await.unwrap();
    let shown = rig.shown(worker).await;
    assert_eq!((shown.health, shown.unfit.as_deref()), (Some(health), Some("disk is nearly full")));
    let refused = |answer: baton_store::ClaimAnswer| (answer.claimed.len(), answer.refused);
    let unfit = (0, vec![(0, SlotRefused::Unfit)]);
    assert_eq!(refused(rig.claim_for(vec![slot(worker, &[lane], 1)], lane).await), unfit);
    // A beat that says nothing about health changes nothing about it.
    rig.store.renew(vec![beat(None, None)]).await.unwrap();
    assert_eq!(refused(rig.claim_for(vec![slot(worker, &[lane], 1)], lane).await), unfit);
    rig.store.renew(vec![beat(Some(health), None)]).await.unwrap();
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [id]);
}

async fn a_draining_worker_finishes_and_gets_nothing_new(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    rig.submit(run(lane)).await;
    let change = rig.store.set_worker(worker, WorkerStatus::Draining, "upgrade").await.unwrap();
    assert_eq!(change, Some(WorkerChange::default()));
    let shown = rig.shown(worker).await;
    assert_eq!((shown.status, shown.status_reason.as_deref()), (WorkerStatus::Draining, Some("upgrade")));
    assert_eq!(rig.claim(worker, lane, 1).await, []);
    let BeatAnswer::Alive { status, lost, .. } = rig.beat(worker, &[held]).await else { panic!("it is alive") };
    assert_eq!((status, lost), (WorkerStatus::Draining, vec![]));
    assert_eq!(rig.complete(held).await, crate::rig::done(State::Completed));
    rig.store.set_worker(worker, WorkerStatus::Online, "").await.unwrap();
    assert_eq!(rig.claim(worker, lane, 1).await.len(), 1);
}

async fn going_offline_gives_everything_back_at_once(rig: Rig) {
    let (ios, android) = (rig.lane("ios").await, rig.lane("android").await);
    let ids = rig.submit_all(vec![run(ios), run(android), run(ios)]).await;
    let worker = rig.worker("a").await;
    let held = rig.claim_for(vec![slot(worker, &[ios, android], 3)], ios).await.claimed;
    rig.start(lease(&held[1])).await;
    let change = rig.store.set_worker(worker, WorkerStatus::Offline, "deregistered").await.unwrap().unwrap();
    assert_eq!(change.given_back, 3);
    let woken = sorted(change.woken);
    assert_eq!((woken.lanes, woken.later), (vec![ios.lane, android.lane], vec![]));
    assert!(woken.settled.iter().all(|one| one.end == Some(baton_core::LeaseEnd::GivenBack)));
    for held in &held {
        let record = rig.record(held.run).await;
        assert_eq!((record.state, record.losses, record.error.as_deref()), (State::Pending, 0, Some("deregistered")));
        assert_eq!(rig.store.lease_end(lease(held)).await.unwrap(), Some(LeaseEnd::GivenBack));
    }
    let shown = rig.shown(worker).await;
    assert_eq!((shown.status, shown.active), (WorkerStatus::Offline, 0));
    assert_eq!(shown.status_reason.as_deref(), Some("deregistered"));
    let next = rig.worker("next").await;
    let again = rig.claim_for(vec![slot(next, &[ios, android], 9)], ios).await.claimed;
    assert_eq!(again.iter().map(|one| one.run).collect::<Vec<_>>(), ids);
}

async fn an_offline_worker_stays_offline(rig: Rig) {
    let worker = rig.worker("a").await;
    let set = |status| rig.store.set_worker(worker, status, "now");
    assert_eq!(set(WorkerStatus::Offline).await.unwrap(), Some(WorkerChange::default()));
    for status in [WorkerStatus::Offline, WorkerStatus::Online, WorkerStatus::Draining] {
        assert_eq!(set(status).await.unwrap(), Some(WorkerChange::default()));
        assert_eq!(rig.shown(worker).await.status, WorkerStatus::Offline);
    }
    assert_eq!(rig.store.set_worker(new_worker("x").id, WorkerStatus::Offline, "").await.unwrap(), None);
}

async fn counters_equal_counted_rows(rig: Rig) {
    let lane = rig.lane("ios").await;
    let workers = [rig.worker("a").await, rig.worker("b").await, rig.worker("c").await];
    rig.submit_all(vec![run(lane); 200]).await;
    let servers = rig.servers(2).await;
    let mut tasks = Vec::new();
    for (index, worker) in workers.into_iter().cycle().take(12).enumerate() {
        let store = servers[index % 2].clone();
        tasks.push(tokio::spawn(async move {
            let slots = vec![slot(worker, &[lane], 12)];
            let claim = baton_store::ClaimRequest { queue: lane.queue, slots, limit: 12, die: 7 };
            let held: Vec<_> = store.claim(claim).await.unwrap().claimed.iter().map(lease).collect();
            for (index, lease) in held.into_iter().enumerate() {
                let done = baton_store::Completion { lease, output: None };
                match index % 5 {
                    0 | 1 => drop(store.complete(vec![done]).await.unwrap()),
                    2 => drop(store.fail(vec![(lease, error())], 0.5).await.unwrap()),
                    3 => drop(store.give_back(vec![(lease, String::new())]).await.unwrap()),
                    _ => {}
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut completed = 0;
    for worker in workers {
        let count = |state| {
            let filter = RunFilter { worker: Some(worker), states: vec![state], ..RunFilter::default() };
            let store = rig.store.clone();
            async move { store.count_runs(&filter).await.unwrap() }
        };
        let shown = rig.shown(worker).await;
        assert_eq!(u64::from(shown.active), count(State::Assigned).await);
        assert_eq!(shown.completed, count(State::Completed).await);
        completed += shown.completed;
    }
    assert!(completed > 0);
}

async fn workers_are_listed_newest_first_in_pages(rig: Rig) {
    let mut expected: Vec<WorkerId> = Vec::new();
    for index in 0..7 {
        expected.insert(0, rig.worker(&format!("w{index}")).await);
        rig.clock.advance(1);
    }
    let (mut got, mut after) = (Vec::new(), None);
    loop {
        let page = rig.store.workers(&WorkerFilter::default(), Page { after, limit: 3 }).await.unwrap();
        got.extend(page.iter().map(|worker| worker.id));
        match page.last() {
            Some(last) => after = Some(last.id),
            None => break,
        }
    }
    assert_eq!(got, expected);
}

async fn workers_are_filtered(rig: Rig) {
    let serving = |queues: &[&str], namespace: &str| NewWorker {
        namespace: namespace.into(),
        info: WorkerInfo { queues: queues.iter().map(|&name| name.into()).collect(), ..WorkerInfo::default() },
        ..new_worker("a")
    };
    let both = rig.register(serving(&["builds", "tests"], "default")).await.id;
    let tests = rig.register(serving(&["tests"], "default")).await.id;
    let other = rig.register(serving(&["builds"], "other")).await.id;
    rig.store.set_worker(tests, WorkerStatus::Offline, "bye").await.unwrap();
    let cases = [
        (WorkerFilter::default(), vec![both, tests, other]),
        (WorkerFilter { namespace: Some("other".into()), ..Default::default() }, vec![other]),
        (WorkerFilter { status: Some(WorkerStatus::Online), ..Default::default() }, vec![both, other]),
        (WorkerFilter { queue: Some("builds".into()), ..Default::default() }, vec![both, other]),
        (WorkerFilter { queue: Some("build".into()), ..Default::default() }, vec![]),
        (
            WorkerFilter { queue: Some("tests".into()), status: Some(WorkerStatus::Offline), ..Default::default() },
            vec![tests],
        ),
    ];
    for (filter, mut expected) in cases {
        let page = rig.store.workers(&filter, Page { after: None, limit: 10 }).await.unwrap();
        let mut got: Vec<_> = page.iter().map(|worker| worker.id).collect();
        got.sort();
        expected.sort();
        assert_eq!(got, expected, "{filter:?}");
        assert_eq!(rig.store.count_workers(&filter).await.unwrap(), expected.len() as u64, "{filter:?}");
    }
}

fn sorted(mut woken: Woken) -> Woken {
    woken.lanes.sort_unstable();
    woken
}

async fn runs_that_a_worker_does_not_know_of_are_found_when_they_are_old_enough(rig: Rig) {
    let (lane, worker, other) = (rig.lane("ios").await, rig.worker("a").await, rig.worker("b").await);
    rig.submit_all(vec![run(lane); 5]).await;
    let known = lease(&rig.claim(worker, lane, 1).await[0]);
    let mut old: Vec<_> = rig.claim(worker, lane, 2).await.iter().map(lease).collect();
    old.sort_by_key(|lease| lease.run);
    rig.clock.advance(1_000);
    rig.claim(worker, lane, 1).await;
    rig.claim(other, lane, 1).await;
    let BeatAnswer::Alive { held, .. } = rig.beat(worker, &[known]).await else { panic!("it is alive") };
    assert_eq!(held, 4);
    let strays = |age_ms, limit| rig.store.strays(worker, vec![known], age_ms, limit);
    assert_eq!(strays(999, 10).await.unwrap(), old);
    assert_eq!(strays(999, 1).await.unwrap(), old[..1]);
    assert_eq!(strays(1_000, 10).await.unwrap(), []);
    assert_eq!(rig.store.strays(worker, vec![], -1, 10).await.unwrap().len(), 4);
}
