//! Each number of a worker's claims is answered once, whichever server is asked.

use std::sync::Arc;

use baton_core::{State, WorkerId};
use baton_store::{Asked, ClaimAnswer, ClaimRequest, ClaimSlot, Lane, SlotRefused, Store, Woken};

use crate::rig::{DIE, Rig, contract, lease, lease_of, run, slot, submission};

contract!(
    a_claim_asked_again_of_another_server_gets_the_same_runs,
    a_claim_asked_again_among_others_gets_the_same_runs,
    a_claim_asked_again_gets_the_same_runs_where_there_is_nothing_new,
    a_claim_that_was_answered_with_nothing_gets_nothing_any_more,
    a_run_on_its_way_in_is_not_for_a_claim_that_was_answered,
    a_number_may_be_used_again_by_who_asks_for_it,
    a_late_copy_of_an_old_claim_gets_nothing,
    several_claims_of_a_worker_are_answered_apart,
    without_a_number_what_was_not_started_comes_again,
    two_servers_answer_one_claim_once,
    a_claim_is_told_again_or_goes_back_but_not_both,
);

fn numbered(worker: WorkerId, lane: Lane, claim_no: i64) -> ClaimSlot {
    ClaimSlot { claim_no, ..slot(worker, &[lane], 1) }
}

fn asked(slot: ClaimSlot) -> ClaimSlot {
    ClaimSlot { asked_ms_ago: Some(0), ..slot }
}

async fn claim(store: &Arc<dyn Store>, lane: Lane, slots: Vec<ClaimSlot>) -> ClaimAnswer {
    store.claim(ClaimRequest { queue: lane.queue, slots, limit: 1_000, die: DIE }).await.unwrap()
}

async fn a_claim_asked_again_of_another_server_gets_the_same_runs(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let worker = rig.worker("a").await;
    let runs = rig.submit_all(vec![run(lane); 3]).await;
    let first = claim(&servers[0], lane, vec![asked(numbered(worker, lane, 3))]).await;
    assert_eq!((first.claimed[0].run, first.again.as_slice()), (runs[0], [].as_slice()));
    // Asked again at once, and by a poll that has waited there for long.
    for slot in [asked(numbered(worker, lane, 3)), numbered(worker, lane, 3)] {
        let again = claim(&servers[1], lane, vec![slot]).await;
        assert_eq!((again.claimed, again.again), (first.claimed.clone(), vec![0]));
    }
    let ask = |claim_no, ms_ago| Asked { worker, claim_no, ms_ago };
    let asked_for = vec![ask(3, 0), ask(4, 0), ask(0, 0), ask(0, 1)];
    let answered = servers[1].answered(asked_for).await.unwrap();
    assert_eq!(answered, [true, false, true, false]);
    let next = claim(&servers[1], lane, vec![asked(numbered(worker, lane, 4))]).await;
    assert_eq!((next.claimed[0].run, next.again.len()), (runs[1], 0));
    assert_eq!(rig.shown(worker).await.active, 2);
    // What it brought has ended: so has the claim.
    rig.complete(lease(&first.claimed[0])).await;
    let over = claim(&servers[1], lane, vec![asked(numbered(worker, lane, 3))]).await;
    assert_eq!((over.claimed.len(), over.refused), (0, vec![(0, SlotRefused::Answered)]));
}

async fn a_claim_asked_again_among_others_gets_the_same_runs(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let (one, two) = (rig.worker("a").await, rig.worker("b").await);
    let runs = rig.submit_all(vec![run(lane); 3]).await;
    let first = claim(&servers[0], lane, vec![numbered(one, lane, 1)]).await;
    for asks in [asked as fn(ClaimSlot) -> ClaimSlot, std::convert::identity] {
        let slots = vec![asks(numbered(one, lane, 1)), asks(numbered(two, lane, 1))];
        let answer = claim(&servers[1], lane, slots).await;
        let mut given: Vec<_> = answer.claimed.iter().map(|claimed| (claimed.slot, claimed.run)).collect();
        given.sort_unstable();
        assert_eq!(given, [(0, first.claimed[0].run), (1, runs[1])]);
        assert!(answer.again.contains(&0), "{answer:?}");
    }
    assert_eq!((rig.shown(one).await.active, rig.shown(two).await.active), (1, 1));
}

async fn a_claim_asked_again_gets_the_same_runs_where_there_is_nothing_new(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    rig.submit(run(lane)).await;
    let first = claim(&rig.store, lane, vec![numbered(worker, lane, 9)]).await;
    let other = rig.worker("b").await;
    for slots in [vec![numbered(worker, lane, 9)], vec![numbered(other, lane, 1), numbered(worker, lane, 9)]] {
        let slots: Vec<_> = slots.into_iter().map(asked).collect();
        let again = claim(&rig.store, lane, slots).await;
        assert_eq!((again.claimed.len(), again.claimed[0].run), (1, first.claimed[0].run));
    }
    // A worker that holds all it can is not too full for what it holds.
    let change = baton_store::QueueChange { paused_until: Some(Some(i64::MAX)), ..Default::default() };
    rig.store.set_queue("default", "builds", change).await.unwrap();
    let paused = claim(&rig.store, lane, vec![asked(numbered(worker, lane, 9))]).await;
    assert_eq!(paused.claimed.len(), 1, "nor is its queue too quiet");
}

async fn a_claim_that_was_answered_with_nothing_gets_nothing_any_more(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let worker = rig.worker("a").await;
    let claims = vec![(worker, 5), (worker, 7)];
    assert_eq!(servers[1].answer_claims(claims.clone()).await.unwrap(), [true, true]);
    assert_eq!(servers[0].answer_claims(claims).await.unwrap(), [false, false]);
    let submitted = rig.submit_all(vec![run(lane); 2]).await;
    let late = claim(&servers[0], lane, vec![numbered(worker, lane, 5)]).await;
    assert_eq!((late.claimed.len(), late.refused), (0, vec![(0, SlotRefused::Answered)]));
    let other = rig.worker("b").await;
    let late = claim(&servers[0], lane, vec![numbered(worker, lane, 7), numbered(other, lane, 7)]).await;
    assert_eq!(late.claimed.iter().map(|one| (one.slot, one.run)).collect::<Vec<_>>(), [(1, submitted[0])]);
    // Another claim of the same worker waits at another queue, and was not answered.
    let waits = claim(&servers[0], lane, vec![numbered(worker, lane, 6)]).await;
    assert_eq!(waits.claimed[0].run, submitted[1]);
    assert_eq!(servers[1].answer_claims(vec![(worker, 6)]).await.unwrap(), [false]);
    assert_eq!(servers[1].claimed(worker, Some(6)).await.unwrap()[0].run, submitted[1]);
}

async fn a_run_on_its_way_in_is_not_for_a_claim_that_was_answered(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    rig.store.answer_claims(vec![(worker, 2)]).await.unwrap();
    for (claim_no, count) in [(2, 0), (3, 1)] {
        let slots = vec![numbered(worker, lane, claim_no)];
        let request = ClaimRequest { queue: lane.queue, slots, limit: 1, die: DIE };
        let (_, answer) = rig.store.submit_and_claim(vec![submission(vec![run(lane)])], request).await.unwrap();
        let claimed = answer.map_or(0, |answer| answer.claimed.len());
        assert_eq!(claimed, count, "claim {claim_no}");
        // So that nothing else stands in the lane.
        claim(&rig.store, lane, vec![slot(worker, &[lane], 9)]).await;
    }
    assert_eq!(rig.store.answer_claims(vec![(worker, 3)]).await.unwrap(), [false]);
}

async fn a_number_may_be_used_again_by_who_asks_for_it(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    rig.store.answer_claims(vec![(worker, 1), (worker, 200)]).await.unwrap();
    let submitted = rig.submit_all(vec![run(lane); 2]).await;
    for (number, expected) in [(200, submitted[0]), (1, submitted[1])] {
        assert_eq!(claim(&rig.store, lane, vec![numbered(worker, lane, number)]).await.claimed.len(), 0);
        assert_eq!(rig.store.reopen_claim(worker, number, number == 1).await.unwrap(), []);
        let got = claim(&rig.store, lane, vec![asked(numbered(worker, lane, number))]).await.claimed;
        assert_eq!(got.iter().map(|one| one.run).collect::<Vec<_>>(), [expected]);
    }
    // Nothing to do for one that was not answered, or a worker that is not there.
    rig.store.reopen_claim(worker, 300, false).await.unwrap();
    rig.store.reopen_claim(crate::rig::new_worker("nobody").id, 1, false).await.unwrap();
    // What is held of it after all is the answer.
    assert_eq!(rig.store.reopen_claim(worker, 1, false).await.unwrap()[0].run, submitted[1]);
}

/// The network may deliver a call long after its caller has given it up and was answered elsewhere.
async fn a_late_copy_of_an_old_claim_gets_nothing(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    rig.store.answer_claims(vec![(worker, 5), (worker, 6)]).await.unwrap();
    let waiting = rig.submit_all(vec![run(lane)]).await[0];
    assert_eq!(rig.store.reopen_claim(worker, 5, false).await.unwrap(), []);
    assert_eq!(claim(&rig.store, lane, vec![asked(numbered(worker, lane, 5))]).await.claimed.len(), 0);
    let next = claim(&rig.store, lane, vec![numbered(worker, lane, 7)]).await.claimed;
    assert_eq!(next.iter().map(|one| one.run).collect::<Vec<_>>(), [waiting]);
}

async fn several_claims_of_a_worker_are_answered_apart(rig: Rig) {
    let lane = rig.lane("ios").await;
    let worker = rig.worker("a").await;
    rig.submit_all(vec![run(lane); 3]).await;
    let mut waiting: Vec<i64> = vec![1, 2, 3];
    let mut got = Vec::new();
    while !waiting.is_empty() {
        let slots = waiting.iter().map(|number| asked(numbered(worker, lane, *number))).collect();
        let answer = claim(&rig.store, lane, slots).await;
        assert!(!answer.claimed.is_empty() && answer.again.is_empty(), "{answer:?}");
        assert!(
            answer.more || answer.claimed.len() == waiting.len(),
            "those that were left out are told to come again"
        );
        let numbers: Vec<i64> = answer.claimed.iter().map(|one| waiting[one.slot]).collect();
        got.extend(answer.claimed.iter().map(|one| one.run));
        waiting.retain(|number| !numbers.contains(number));
    }
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 3);
    for number in 1..=3 {
        assert_eq!(rig.store.claimed(worker, Some(number)).await.unwrap().len(), 1, "claim {number}");
    }
}

async fn without_a_number_what_was_not_started_comes_again(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let worker = rig.worker("a").await;
    let submitted = rig.submit_all(vec![run(lane); 3]).await;
    let first = claim(&servers[0], lane, vec![slot(worker, &[lane], 1)]).await.claimed;
    rig.clock.advance(100);
    let ask_since = |ms| vec![ClaimSlot { asked_ms_ago: Some(ms), ..slot(worker, &[lane], 1) }];
    let again = claim(&servers[1], lane, ask_since(50)).await;
    assert_eq!((again.claimed, again.again), (first.clone(), vec![0]));
    // A poll that began to wait before the run was handed to another one of its worker is another
    // poll.
    let other = claim(&servers[1], lane, ask_since(101)).await.claimed;
    assert_eq!(other.iter().map(|one| one.run).collect::<Vec<_>>(), [submitted[1]]);
    rig.start(lease(&first[0])).await;
    rig.start(lease(&other[0])).await;
    let next = claim(&servers[1], lane, ask_since(0)).await.claimed;
    assert_eq!(next.iter().map(|one| one.run).collect::<Vec<_>>(), [submitted[2]], "started runs are not lost");
}

/// The same claim waits at two servers, and both are served at the same moment.
async fn two_servers_answer_one_claim_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let worker = rig.worker("a").await;
    for number in 1..=40 {
        rig.submit_all(vec![run(lane); 2]).await;
        let ask =
            |store: Arc<dyn Store>| async move { claim(&store, lane, vec![numbered(worker, lane, number)]).await };
        let (one, two) = tokio::join!(tokio::spawn(ask(servers[0].clone())), tokio::spawn(ask(servers[1].clone())));
        let held = rig.store.claimed(worker, Some(number)).await.unwrap();
        assert_eq!(held.len(), 1, "claim {number} was answered twice");
        for answer in [one.unwrap(), two.unwrap()] {
            assert!(answer.claimed.iter().all(|one| one.run == held[0].run), "{answer:?}");
        }
        rig.complete(lease(&held[0])).await;
        // The other run goes to a claim that nobody repeats.
        for left in claim(&servers[0], lane, vec![slot(worker, &[lane], 5)]).await.claimed {
            rig.complete(lease(&left)).await;
        }
    }
}

async fn a_claim_is_told_again_or_goes_back_but_not_both(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    let worker = rig.worker("a").await;
    let submitted = rig.submit_all(vec![run(lane); 3]).await;
    // By number, and without one.
    for (number, slot) in [(Some(1), numbered(worker, lane, 1)), (None, slot(worker, &[lane], 1))] {
        let told = lease(&claim(&servers[0], lane, vec![slot]).await.claimed[0]);
        assert_eq!(servers[1].repeat_claim(worker, number).await.unwrap()[0].run, told.run);
        let woken = servers[0].give_back_unheard(vec![told], "gone").await.unwrap();
        assert_eq!((woken, rig.state(told.run).await), (Woken::default(), State::Assigned), "somebody was told");
        rig.start(told).await;
    }
    let second = lease(&claim(&servers[0], lane, vec![numbered(worker, lane, 2)]).await.claimed[0]);
    let woken = servers[0].give_back_unheard(vec![lease_of(second.run, 9), second], "gone").await.unwrap();
    assert_eq!((woken.lanes, rig.state(second.run).await), (vec![lane.lane], State::Pending));
    for number in [Some(2), None] {
        assert_eq!(servers[1].repeat_claim(worker, number).await.unwrap(), [], "it has gone back");
    }
    let again = claim(&servers[1], lane, vec![asked(numbered(worker, lane, 2))]).await;
    assert_eq!((again.claimed.len(), again.refused), (0, vec![(0, SlotRefused::Answered)]));
    // Whoever asks with the number again begins again.
    servers[1].reopen_claim(worker, 2, true).await.unwrap();
    assert_eq!(claim(&servers[1], lane, vec![asked(numbered(worker, lane, 2))]).await.claimed, [], "it is not old");
    servers[1].reopen_claim(worker, 2, false).await.unwrap();
    let third = claim(&servers[1], lane, vec![asked(numbered(worker, lane, 2))]).await.claimed;
    assert_eq!(third[0].run, submitted[2]);
    assert_eq!(servers[0].repeat_claim(worker, Some(2)).await.unwrap(), third);
    assert_eq!(servers[0].repeat_claim(worker, Some(9)).await.unwrap(), [], "there is nothing to tell");
}
