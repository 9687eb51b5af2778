//! Handing runs out.

use std::collections::HashSet;

use baton_core::machine::Options;
use baton_core::{Epoch, RunId, State, WorkerId};
use baton_store::{
    CLAIM_BYTES_MAX, ClaimAnswer, ClaimRequest, ClaimSlot, Due, Lane, NewRun, NewWorker, SlotRefused, SubmitRefused,
    WorkerStatus,
};
use bytes::Bytes;

use crate::rig::{Rig, START, claimed_epoch, contract, done, keyed, lease, new_worker, once, run, slot, submission};

contract!(
    a_claimed_run_carries_what_its_worker_needs,
    many_claimers_never_share_a_run,
    runs_of_one_priority_leave_in_submission_order_also_after_a_restart,
    higher_priorities_leave_first,
    returned_runs_go_before_those_never_claimed,
    types_share_one_line_per_queue,
    an_impossible_type_blocks_nobody,
    a_claim_takes_from_its_own_queue_only,
    slots_are_served_longest_waiting_first,
    a_limit_is_kept_and_says_that_there_is_more,
    a_huge_claim_is_cut,
    a_claim_of_large_inputs_is_cut_and_says_that_there_is_more,
    a_worker_never_holds_more_than_it_can,
    a_slot_that_cannot_take_work_says_why_and_the_run_goes_to_the_next,
    a_run_due_later_is_claimable_exactly_then,
    a_claim_that_starts_and_leases,
    a_lost_claim_answer_can_be_asked_for_again,
    an_empty_lane_answers_nothing,
    what_another_server_returned_is_found,
    a_submitted_run_goes_to_a_worker_that_waits_in_the_same_go,
    a_run_that_cannot_be_handed_out_on_the_way_is_taken_in_all_the_same,
    who_waits_longer_goes_first_also_when_handed_out_on_the_way,
    a_repeated_submit_is_not_handed_out_twice,
);

async fn a_claimed_run_carries_what_its_worker_needs(rig: Rig) {
    let lane = rig.lane("ios").await;
    let options = Some(Options { timeout_ms: Some(60_000), ..Options::default() });
    let new = NewRun { priority: 7, options, input: Bytes::from_static(b"[1]"), ..keyed(lane, "team") };
    let (id, worker) = (rig.submit(new).await, rig.worker("a").await);
    rig.clock.advance(2_000);
    let claimed = rig.claim(worker, lane, 3).await;
    assert_eq!(claimed.len(), 1);
    let got = &claimed[0];
    assert_eq!((got.slot, got.run, got.lane, got.epoch, got.attempt), (0, id, lane.lane, claimed_epoch(1), 1));
    assert_eq!((got.priority, got.submitted_at, got.timeout_at), (7, START, Some(START + 62_000)));
    assert_eq!((got.key.as_deref(), &*got.input), (Some("team"), &b"[1]"[..]));
    let record = rig.record(id).await;
    assert_eq!((record.state, record.epoch, record.worker), (State::Assigned, claimed_epoch(1), Some(worker)));
    assert_eq!((record.claimed_at, record.started_at), (Some(START + 2_000), None));
    assert_eq!((record.timeout_at, record.lease_until), (Some(START + 62_000), None));
    assert_eq!(rig.shown(worker).await.active, 1);
}

async fn many_claimers_never_share_a_run(rig: Rig) {
    let lanes = [rig.lane("ios").await, rig.lane("android").await];
    let mut expected = HashSet::new();
    for index in 0..30 {
        expected.extend(rig.submit_all(vec![run(lanes[index % 2]); 10]).await);
    }
    let mut tasks = Vec::new();
    for (index, store) in rig.servers(3).await.into_iter().cycle().take(12).enumerate() {
        let worker = rig.worker(&format!("w{index}")).await;
        tasks.push(tokio::spawn(async move {
            let mut got = Vec::new();
            loop {
                let slots = vec![slot(worker, &lanes, 3)];
                let answer =
                    store.claim(ClaimRequest { queue: lanes[0].queue, slots, limit: 3, die: 7 }).await.unwrap();
                got.extend(answer.claimed.iter().map(|claimed| claimed.run));
                if answer.claimed.is_empty() && !answer.more {
                    return got;
                }
            }
        }));
    }
    let mut got = Vec::new();
    for task in tasks {
        got.extend(task.await.unwrap());
    }
    // A claim that met locked rows may have gone home early: the rest is still there for one more round.
    let last = rig.worker("last").await;
    got.extend(rig.claim_for(vec![slot(last, &lanes, 100)], lanes[0]).await.claimed.iter().map(|claimed| claimed.run));
    assert_eq!(got.len(), 300, "some run was handed out twice or never");
    assert_eq!(got.into_iter().collect::<HashSet<_>>(), expected);
}

async fn runs_of_one_priority_leave_in_submission_order_also_after_a_restart(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mut order = rig.submit_all(vec![run(lane); 5]).await;
    rig.clock.advance(10);
    order.extend(rig.submit_all(vec![run(lane); 5]).await);
    let rig = rig.reopen().await;
    order.extend(rig.submit_all(vec![run(lane); 5]).await);
    let worker = rig.worker("a").await;
    let mut got = rig.claim_ids(worker, lane, 4).await;
    let rig = rig.reopen().await;
    got.extend(rig.claim_ids(worker, lane, 4).await);
    got.extend(rig.claim_ids(worker, lane, 100).await);
    assert_eq!(got, order);
}

async fn higher_priorities_leave_first(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mut expected = Vec::new();
    for priority in [3, 9, 0, 5, 9, 3] {
        expected.push((priority, rig.submit(NewRun { priority, ..run(lane) }).await));
    }
    expected.sort_by_key(|(priority, id)| (9 - priority, *id));
    let worker = rig.worker("a").await;
    let got: Vec<_> = rig.claim(worker, lane, 10).await.iter().map(|one| (one.priority, one.run)).collect();
    assert_eq!(got, expected);
}

async fn returned_runs_go_before_those_never_claimed(rig: Rig) {
    let lane = rig.lane("ios").await;
    let ids = rig.submit_all(vec![run(lane); 4]).await;
    let worker = rig.worker("a").await;
    let held = rig.claim(worker, lane, 2).await;
    let urgent = rig.submit(NewRun { priority: 6, ..run(lane) }).await;
    rig.clock.advance(50);
    // Given back in the wrong order on purpose: they stand by their old places.
    rig.give_back(lease(&held[1])).await;
    rig.give_back(lease(&held[0])).await;
    assert_eq!(rig.claim_ids(worker, lane, 9).await, [urgent, ids[0], ids[1], ids[2], ids[3]]);
}

async fn types_share_one_line_per_queue(rig: Rig) {
    let lanes = [rig.lane("ios").await, rig.lane("android").await];
    let mut order = Vec::new();
    for index in [0, 1, 1, 0, 1] {
        order.push(rig.submit(run(lanes[index])).await);
        rig.clock.advance(1);
    }
    let worker = rig.worker("a").await;
    let claim = |room| rig.claim_for(vec![slot(worker, &lanes, room)], lanes[0]);
    let mut got = ids(&claim(2).await);
    got.extend(ids(&claim(9).await));
    assert_eq!(got, order);
}

async fn an_impossible_type_blocks_nobody(rig: Rig) {
    let (impossible, possible) = (rig.lane("windows").await, rig.lane("ios").await);
    rig.submit_all(vec![NewRun { priority: 9, ..run(impossible) }; 50]).await;
    let wanted = rig.submit(NewRun { priority: 0, ..run(possible) }).await;
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim_ids(worker, possible, 5).await, [wanted]);
    // Also when another poll could take the impossible ones but has no room for all.
    let next = rig.submit(NewRun { priority: 0, ..run(possible) }).await;
    let other = rig.worker("b").await;
    let answer = rig.claim_for(vec![slot(other, &[impossible], 1), slot(worker, &[possible], 1)], possible).await;
    assert_eq!(answer.claimed.iter().find(|claimed| claimed.slot == 1).map(|claimed| claimed.run), Some(next));
    assert_eq!(answer.claimed.len(), 2);
}

async fn a_claim_takes_from_its_own_queue_only(rig: Rig) {
    let (here, there) = (rig.lane_on("here", "ios").await, rig.lane_on("there", "ios").await);
    assert_ne!((here.queue, here.lane), (there.queue, there.lane));
    let (_, wanted) = (rig.submit(run(there)).await, rig.submit(run(here)).await);
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim_ids(worker, here, 9).await, [wanted]);
}

async fn slots_are_served_longest_waiting_first(rig: Rig) {
    let lane = rig.lane("ios").await;
    let order = rig.submit_all(vec![run(lane); 4]).await;
    let (first, second) = (rig.worker("a").await, rig.worker("b").await);
    let slots = vec![slot(first, &[lane], 3), ClaimSlot { claim_no: 7, ..slot(second, &[lane], 3) }];
    let answer = rig.claim_for(slots, lane).await;
    let got: Vec<_> = answer.claimed.iter().map(|claimed| (claimed.slot, claimed.run)).collect();
    assert_eq!(got, [(0, order[0]), (0, order[1]), (0, order[2]), (1, order[3])]);
    assert_eq!(rig.record(order[3]).await.worker, Some(second));
    assert_eq!((rig.shown(first).await.active, rig.shown(second).await.active), (3, 1));
}

async fn a_limit_is_kept_and_says_that_there_is_more(rig: Rig) {
    let lane = rig.lane("ios").await;
    let order = rig.submit_all(vec![run(lane); 5]).await;
    let worker = rig.worker("a").await;
    let claim = |limit| {
        let request = ClaimRequest { queue: lane.queue, slots: vec![slot(worker, &[lane], 10)], limit, die: 7 };
        async { rig.store.claim(request).await.unwrap() }
    };
    let answer = claim(2).await;
    assert_eq!((ids(&answer), answer.more), (order[..2].to_vec(), true));
    let answer = claim(100).await;
    assert_eq!((ids(&answer), answer.more), (order[2..].to_vec(), false));
}

async fn a_huge_claim_is_cut(rig: Rig) {
    let lane = rig.lane("ios").await;
    let most = baton_store::CLAIM_RUNS_MAX;
    let order = rig.submit_all(vec![run(lane); most + 10]).await;
    let worker = rig.register(NewWorker { max_concurrent: 5_000, ..new_worker("a") }).await.id;
    let request =
        ClaimRequest { queue: lane.queue, slots: vec![slot(worker, &[lane], 5_000)], limit: usize::MAX, die: 7 };
    let answer = rig.store.claim(request.clone()).await.unwrap();
    assert_eq!((ids(&answer) == order[..most], answer.more), (true, true));
    let answer = rig.store.claim(request).await.unwrap();
    assert_eq!((ids(&answer) == order[most..], answer.more), (true, false));
}

async fn a_worker_never_holds_more_than_it_can(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![run(lane); 60]).await;
    let worker = rig.register(NewWorker { max_concurrent: 5, ..new_worker("a") }).await.id;
    let mut tasks = Vec::new();
    for store in rig.servers(2).await.into_iter().cycle().take(10) {
        let request = ClaimRequest { queue: lane.queue, slots: vec![slot(worker, &[lane], 3)], limit: 10, die: 7 };
        tasks.push(tokio::spawn(async move { store.claim(request).await.unwrap() }));
    }
    let mut held = Vec::new();
    let mut full = 0;
    for task in tasks {
        let answer = task.await.unwrap();
        full += answer.refused.iter().filter(|refused| **refused == (0, SlotRefused::Full)).count();
        held.extend(answer.claimed);
    }
    assert_eq!(held.len(), 5);
    assert!(full >= 8, "only {full} of the ten claims heard that the worker is full");
    assert_eq!(rig.shown(worker).await.active, 5);
    // A place that becomes free can be filled again, but only that one.
    assert_eq!(rig.complete(lease(&held[0])).await, done(State::Completed));
    let answer = rig.claim_for(vec![slot(worker, &[lane], 3)], lane).await;
    assert_eq!((answer.claimed.len(), answer.refused), (1, vec![(0, SlotRefused::Full)]));
}

async fn a_slot_that_cannot_take_work_says_why_and_the_run_goes_to_the_next(rig: Rig) {
    let lane = rig.lane("ios").await;
    let ghost = new_worker("ghost").id;
    let (draining, offline, unfit) = (rig.worker("d").await, rig.worker("o").await, rig.worker("u").await);
    let full = rig.register(NewWorker { max_concurrent: 0, ..new_worker("f") }).await.id;
    rig.store.set_worker(draining, WorkerStatus::Draining, "upgrade").await.unwrap();
    rig.store.set_worker(offline, WorkerStatus::Offline, "bye").await.unwrap();
    let sick = baton_store::Beat {
        worker: unfit,
        health: Some(baton_store::Health::default()),
        unfit: Some("disk".into()),
        ttl_ms: None,
        leases: vec![],
    };
    rig.store.renew(vec![sick]).await.unwrap();
    let well = rig.worker("well").await;
    let order = rig.submit_all(vec![run(lane); 3]).await;
    let slots = [ghost, draining, offline, unfit, full, well].map(|worker| slot(worker, &[lane], 2)).to_vec();
    let mut answer = rig.claim_for(slots, lane).await;
    let got: Vec<_> = answer.claimed.iter().map(|claimed| (claimed.slot, claimed.run)).collect();
    assert_eq!(got, [(5, order[0]), (5, order[1])]);
    answer.refused.sort_by_key(|(slot, _)| *slot);
    let reasons = [SlotRefused::Unknown, SlotRefused::Draining, SlotRefused::Offline, SlotRefused::Unfit];
    let expected: Vec<_> = reasons.into_iter().chain([SlotRefused::Full]).enumerate().collect();
    assert_eq!(answer.refused, expected);
    assert_eq!(rig.record(order[2]).await.epoch, Epoch::new(0), "a refused slot must not use up an epoch");
}

async fn a_run_due_later_is_claimable_exactly_then(rig: Rig) {
    let lane = rig.lane("ios").await;
    let late = rig.submit(NewRun { due: Due::After(1_000), ..run(lane) }).await;
    let worker = rig.worker("a").await;
    rig.clock.advance(999);
    let answer = rig.claim_for(vec![slot(worker, &[lane], 5)], lane).await;
    assert_eq!((answer.claimed.len(), answer.next_in_ms), (0, Some(1)));
    // Submitted before the other becomes due, so it stands before it in the line.
    let early = rig.submit(run(lane)).await;
    rig.clock.advance(1);
    assert_eq!(rig.claim_ids(worker, lane, 5).await, [early, late]);
}

async fn a_claim_that_starts_and_leases(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (id, worker) = (rig.submit(run(lane)).await, rig.worker("a").await);
    rig.clock.advance(10);
    let slots = vec![ClaimSlot { start: true, lease_ms: Some(900_000), ..slot(worker, &[lane], 1) }];
    assert_eq!(rig.claim_for(slots, lane).await.claimed.len(), 1);
    let record = rig.record(id).await;
    assert_eq!((record.state, record.claimed_at), (State::Running, Some(START + 10)));
    assert_eq!((record.started_at, record.lease_until), (Some(START + 10), Some(START + 900_010)));
}

async fn a_lost_claim_answer_can_be_asked_for_again(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![keyed(lane, "k"); 6]).await;
    let worker = rig.worker("a").await;
    let numbered = |claim_no, start| vec![ClaimSlot { claim_no, start, ..slot(worker, &[lane], 2) }];
    let first = rig.claim_for(numbered(7, false), lane).await.claimed;
    let second = rig.claim_for(numbered(8, false), lane).await.claimed;
    let started = rig.claim_for(numbered(9, true), lane).await.claimed;
    assert_eq!(rig.store.claimed(worker, Some(7)).await.unwrap(), first);
    assert_eq!(rig.store.claimed(worker, Some(9)).await.unwrap(), started);
    assert_eq!(rig.store.claimed(worker, Some(10)).await.unwrap(), []);
    // Without a number: all that it has not started.
    let waiting: Vec<_> = first.iter().chain(&second).cloned().collect();
    assert_eq!(rig.store.claimed(worker, None).await.unwrap(), waiting);
    rig.start(lease(&first[0])).await;
    rig.complete(lease(&second[0])).await;
    assert_eq!(rig.store.claimed(worker, None).await.unwrap(), [first[1].clone(), second[1].clone()]);
    assert_eq!(rig.store.claimed(worker, Some(7)).await.unwrap(), first, "a started run is still part of its claim");
    assert_eq!(rig.store.claimed(new_worker("b").id, Some(7)).await.unwrap(), []);
}

async fn an_empty_lane_answers_nothing(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim_for(vec![slot(worker, &[lane], 5)], lane).await, ClaimAnswer::default());
    assert_eq!(rig.claim_for(vec![], lane).await, ClaimAnswer::default());
    rig.submit(run(lane)).await;
    assert_eq!(rig.claim_for(vec![slot(worker, &[lane], 0)], lane).await.claimed, []);
}

/// A server may remember how far it has read a line; what another one puts in before that must turn up all the same.
async fn what_another_server_returned_is_found(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let old = rig.submit(run(lane)).await;
    rig.clock.advance(60_000);
    let new = rig.submit(run(lane)).await;
    let worker = rig.worker("a").await;
    let held = rig.claim(worker, lane, 2).await;
    assert_eq!((held[0].run, held[1].run), (old, new));
    // The first server hands out a returned run from far down the line, then another one returns from its head.
    rig.give_back(lease(&held[1])).await;
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [new]);
    servers[1].give_back(vec![(lease(&held[0]), String::new())]).await.unwrap();
    for _ in 0..8 {
        rig.clock.advance(5_000);
        rig.beat(worker, &[]).await;
        rig.store.look(&[lane.lane]).await.unwrap();
    }
    assert_eq!(rig.claim_ids(worker, lane, 1).await, [old]);
}

fn ids(answer: &ClaimAnswer) -> Vec<RunId> {
    answer.claimed.iter().map(|claimed| claimed.run).collect()
}

async fn a_claim_of_large_inputs_is_cut_and_says_that_there_is_more(rig: Rig) {
    const INPUT: u64 = CLAIM_BYTES_MAX * 2 / 5;
    let (lane, workers) = (rig.lane("ios").await, [rig.worker("a").await, rig.worker("b").await]);
    let large = NewRun { input: Bytes::from(vec![b' '; INPUT as usize]), ..run(lane) };
    rig.submit_all(vec![large; 8]).await;
    let claim = async |slots: Vec<ClaimSlot>| {
        let answer = rig.claim_for(slots, lane).await;
        (answer.claimed.len(), answer.more)
    };
    // A few for one, for two, and many for one are three ways of claiming.
    assert_eq!(claim(vec![slot(workers[0], &[lane], 10)]).await, (3, true));
    assert_eq!(claim(workers.map(|worker| slot(worker, &[lane], 10)).to_vec()).await, (3, true));
    assert_eq!(claim(vec![slot(workers[1], &[lane], 90)]).await, (2, false));
}

fn one_slot(lane: Lane, worker: WorkerId, room: u32) -> ClaimRequest {
    ClaimRequest { queue: lane.queue, slots: vec![slot(worker, &[lane], room)], limit: room as usize, die: 7 }
}

async fn a_submitted_run_goes_to_a_worker_that_waits_in_the_same_go(rig: Rig) {
    let (lane, worker) = (rig.lane("ios").await, rig.worker("a").await);
    let runs = vec![submission(vec![run(lane)]), submission(vec![run(lane)])];
    let (answers, claimed) = rig.store.submit_and_claim(runs, one_slot(lane, worker, 1)).await.unwrap();
    let [first, second] = answers.iter().map(|one| one.as_ref().unwrap()[0].run).collect::<Vec<_>>()[..] else {
        panic!()
    };
    let claimed = claimed.unwrap().claimed;
    assert_eq!(
        claimed.iter().map(|one| (one.run, one.epoch, one.slot)).collect::<Vec<_>>(),
        [(first, claimed_epoch(1), 0)]
    );
    assert_eq!((rig.state(first).await, rig.state(second).await), (State::Assigned, State::Pending));
    assert_eq!(rig.shown(worker).await.active, 1);
    assert_eq!(rig.claim(worker, lane, 5).await.iter().map(|one| one.run).collect::<Vec<_>>(), [second]);
}

async fn a_run_that_cannot_be_handed_out_on_the_way_is_taken_in_all_the_same(rig: Rig) {
    let (lane, full) =
        (rig.lane("ios").await, rig.register(NewWorker { max_concurrent: 1, ..new_worker("full") }).await.id);
    let offer =
        |run: NewRun, worker| rig.store.submit_and_claim(vec![submission(vec![run])], one_slot(lane, worker, 1));
    let handed = |claimed: Option<ClaimAnswer>| claimed.map_or(0, |answer| answer.claimed.len());
    assert_eq!(handed(offer(run(lane), full).await.unwrap().1), 1);
    for not_now in [run(lane), keyed(lane, "team"), NewRun { due: Due::After(1_000), ..run(lane) }] {
        let (answers, claimed) = offer(not_now, full).await.unwrap();
        assert_eq!(rig.state(answers[0].as_ref().unwrap()[0].run).await, State::Pending);
        assert_eq!(handed(claimed), 0);
    }
    let (answers, claimed) = offer(run(lane), WorkerId::from_random(99)).await.unwrap();
    assert_eq!((answers[0].is_ok(), handed(claimed)), (true, 0));
    let free = rig.worker("free").await;
    rig.clock.advance(1_000);
    assert_eq!(rig.claim(free, lane, 10).await.len(), 4);
}

async fn who_waits_longer_goes_first_also_when_handed_out_on_the_way(rig: Rig) {
    let (lane, worker) = (rig.lane("ios").await, rig.worker("a").await);
    let older = rig.submit(run(lane)).await;
    rig.clock.advance(5);
    let urgent = NewRun { priority: 9, ..run(lane) };
    let offer = |run: NewRun| rig.store.submit_and_claim(vec![submission(vec![run])], one_slot(lane, worker, 1));
    // Whoever does not hand out on the way because somebody waits does so in the claim that follows.
    let (_, claimed) = offer(run(lane)).await.unwrap();
    let claimed = match claimed {
        Some(answer) => answer.claimed,
        None => rig.claim(worker, lane, 1).await,
    };
    assert_eq!(claimed.iter().map(|one| one.run).collect::<Vec<_>>(), [older]);
    let (answers, claimed) = offer(urgent).await.unwrap();
    let claimed = match claimed {
        Some(answer) => answer.claimed,
        None => rig.claim(worker, lane, 1).await,
    };
    assert_eq!(claimed[0].run, answers[0].as_ref().unwrap()[0].run);
}

async fn a_repeated_submit_is_not_handed_out_twice(rig: Rig) {
    let (lane, worker) = (rig.lane("ios").await, rig.worker("a").await);
    let offer =
        |body: u8| rig.store.submit_and_claim(vec![submission(vec![once(lane, "k", body)])], one_slot(lane, worker, 1));
    let (first, claimed) = offer(1).await.unwrap();
    assert_eq!(claimed.unwrap().claimed.len(), 1);
    let (again, claimed) = offer(1).await.unwrap();
    assert_eq!(again[0].as_ref().unwrap()[0].run, first[0].as_ref().unwrap()[0].run);
    assert_eq!(claimed.map_or(0, |answer| answer.claimed.len()), 0);
    let (other, claimed) = offer(2).await.unwrap();
    assert_eq!(
        (other[0].clone(), claimed.map_or(0, |answer| answer.claimed.len())),
        (Err(SubmitRefused::KeyReused(0)), 0)
    );
}
