//! Keys: how many of one may be held at once, and whose turn it is.

use std::collections::HashSet;

use baton_core::State;
use baton_store::{ClaimRequest, Completion, Due, Lane, NewRun, QueueChange, Woken};

use crate::rig::{Rig, TTL_MS, contract, done, error, keyed, lease, run, slot};

contract!(
    keys_take_turns_whatever_their_backlog,
    runs_without_a_key_keep_their_order_beside_keyed_ones,
    a_full_key_lets_others_pass,
    every_way_a_lease_ends_makes_room_for_the_next,
    a_key_limit_holds_under_concurrency,
    a_key_limit_is_per_queue,
    a_long_line_of_a_full_key_hides_nobody,
    a_raised_limit_is_seen_after_unblocking,
    a_cleared_limit_frees_all,
    runs_held_by_key_are_counted,
);

async fn limit(rig: &Rig, most: Option<u32>) {
    let change = QueueChange { key_limit: Some(most), ..QueueChange::default() };
    rig.store.set_queue("default", "builds", change).await.unwrap();
}

async fn keys_take_turns_whatever_their_backlog(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![keyed(lane, "big"); 4]).await;
    rig.clock.advance(5_000);
    rig.submit_all(vec![keyed(lane, "small"); 2]).await;
    let worker = rig.worker("a").await;
    let turns: Vec<_> = rig.claim(worker, lane, 9).await.into_iter().map(|one| one.key.unwrap()).collect();
    assert_eq!(turns, ["big", "big", "small", "big", "small", "big"]);
}

async fn runs_without_a_key_keep_their_order_beside_keyed_ones(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mut plain = Vec::new();
    for _ in 0..5 {
        plain.push(rig.submit(run(lane)).await);
        rig.submit(keyed(lane, "k")).await;
        rig.clock.advance(1);
    }
    let worker = rig.worker("a").await;
    let got = rig.claim(worker, lane, 20).await;
    assert_eq!(got.len(), 10);
    let order: Vec<_> = got.iter().filter(|one| one.key.is_none()).map(|one| one.run).collect();
    assert_eq!(order, plain);
    let keyed: Vec<_> = got.iter().filter(|one| one.key.is_some()).map(|one| one.run).collect();
    assert!(keyed.is_sorted());
}

async fn a_full_key_lets_others_pass(rig: Rig) {
    let lane = rig.lane("ios").await;
    limit(&rig, Some(2)).await;
    let busy = rig.submit_all(vec![keyed(lane, "busy"); 4]).await;
    rig.clock.advance(10);
    let (other, plain) = (rig.submit(keyed(lane, "other")).await, rig.submit(run(lane)).await);
    let worker = rig.worker("a").await;
    let mut got = rig.claim_ids(worker, lane, 10).await;
    got.sort();
    assert_eq!(got, [busy[0], busy[1], other, plain]);
    let blocked: Vec<_> =
        [rig.record(busy[2]).await, rig.record(busy[3]).await].iter().map(|one| one.blocked).collect();
    assert_eq!(blocked, [true, true]);
    assert!(!rig.record(busy[0]).await.blocked);
    assert_eq!(rig.claim(worker, lane, 10).await, []);
    // A blocked run can be cancelled like any other that nobody holds.
    assert_eq!(rig.cancel(busy[3], 0).await, done(State::Cancelled));
}

async fn every_way_a_lease_ends_makes_room_for_the_next(rig: Rig) {
    let lane = rig.lane("ios").await;
    limit(&rig, Some(1)).await;
    for way in ["complete", "fail", "give back", "sleep", "lost", "cancel"] {
        let ids = rig.submit_all(vec![keyed(lane, way); 2]).await;
        let worker = rig.worker("a").await;
        let held = rig.claim(worker, lane, 5).await;
        assert_eq!(held.iter().map(|one| one.run).collect::<Vec<_>>(), ids[..1], "{way}");
        let lease = lease(&held[0]);
        let woken = match way {
            "complete" => rig.store.complete(vec![Completion { lease, output: None }]).await.unwrap().woken,
            "fail" => rig.store.fail(vec![(lease, error())], 0.5).await.unwrap().woken,
            "give back" => rig.store.give_back(vec![(lease, String::new())]).await.unwrap().woken,
            "sleep" => rig.store.sleep(vec![(lease, Due::After(1_000))]).await.unwrap().woken,
            "lost" => {
                rig.clock.advance(TTL_MS + 1);
                rig.reap().await.woken
            }
            _ => {
                rig.cancel(lease.run, 0).await;
                rig.clock.advance(1);
                rig.reap().await.woken
            }
        };
        assert_eq!(woken.lanes, [lane.lane], "{way} has to wake those who wait for the key");
        let worker = rig.worker("b").await;
        let next = rig.claim(worker, lane, 5).await;
        assert_eq!(next.len(), 1, "{way}: the key has room for one");
        assert!(next[0].run == ids[1] || next[0].run == ids[0], "{way}");
        rig.clock.advance(60_000);
        for id in ids {
            rig.cancel(id, 0).await;
        }
        rig.clock.advance(1);
        rig.reap().await;
    }
}

async fn a_key_limit_holds_under_concurrency(rig: Rig) {
    let lanes = [rig.lane("ios").await, rig.lane("android").await];
    limit(&rig, Some(2)).await;
    for index in 0..60 {
        rig.submit(keyed(lanes[index % 2], ["a", "b", "c"][index % 3])).await;
    }
    let mut tasks = Vec::new();
    for (index, store) in rig.servers(3).await.into_iter().cycle().take(9).enumerate() {
        let worker = rig.worker(&format!("w{index}")).await;
        let queue = lanes[0].queue;
        tasks.push(tokio::spawn(async move {
            let (mut done, mut most) = (HashSet::new(), 0);
            for _ in 0..25 {
                let request = ClaimRequest { queue, slots: vec![slot(worker, &lanes, 3)], limit: 3, die: 7 };
                let claimed = store.claim(request).await.unwrap().claimed;
                for key in ["a", "b", "c"] {
                    most = most.max(store.key_held(queue, key).await.unwrap());
                }
                for one in claimed {
                    done.insert(one.run);
                    store.complete(vec![Completion { lease: lease(&one), output: None }]).await.unwrap();
                }
            }
            (done, most)
        }));
    }
    let mut all = HashSet::new();
    for task in tasks {
        let (done, most) = task.await.unwrap();
        assert!(most <= 2, "{most} runs of one key were held at once");
        all.extend(done);
    }
    // Whatever is left can still be had: nothing is stuck.
    let worker = rig.worker("last").await;
    for _ in 0..60 {
        rig.store.unblock(100).await.unwrap();
        for one in rig.claim_for(vec![slot(worker, &lanes, 9)], lanes[0]).await.claimed {
            all.insert(one.run);
            rig.complete(lease(&one)).await;
        }
    }
    assert_eq!(all.len(), 60);
}

async fn a_key_limit_is_per_queue(rig: Rig) {
    let (here, there) = (rig.lane("ios").await, rig.lane_on("other", "ios").await);
    limit(&rig, Some(1)).await;
    rig.submit_all(vec![keyed(here, "k"), keyed(here, "k"), keyed(there, "k"), keyed(there, "k")]).await;
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim(worker, here, 5).await.len(), 1);
    assert_eq!(rig.claim(worker, there, 5).await.len(), 2);
}

async fn a_long_line_of_a_full_key_hides_nobody(rig: Rig) {
    let lane = rig.lane("ios").await;
    limit(&rig, Some(1)).await;
    rig.submit_all(vec![NewRun { priority: 9, ..keyed(lane, "busy") }; 300]).await;
    let behind = rig.submit(run(lane)).await;
    let worker = rig.worker("a").await;
    let mut got = Vec::new();
    // Bounded work per claim: it may ask to be called again, but it must get there.
    for _ in 0..100 {
        let answer = rig.claim_for(vec![slot(worker, &[lane], 2 - got.len() as u32)], lane).await;
        got.extend(answer.claimed.iter().map(|one| one.run));
        if got.len() == 2 || !answer.more {
            break;
        }
    }
    assert!(got.len() == 2 && got.contains(&behind), "{got:?}");
}

async fn a_raised_limit_is_seen_after_unblocking(rig: Rig) {
    let lane = rig.lane("ios").await;
    limit(&rig, Some(1)).await;
    rig.submit_all(vec![keyed(lane, "k"); 5]).await;
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim(worker, lane, 9).await.len(), 1);
    assert_eq!(rig.store.unblock(100).await.unwrap(), Woken::default(), "there is no room yet");
    limit(&rig, Some(3)).await;
    assert_eq!(rig.store.unblock(100).await.unwrap(), Woken { lanes: vec![lane.lane], ..Woken::default() });
    assert_eq!(rig.claim(worker, lane, 9).await.len(), 2);
    assert_eq!(rig.store.key_held(lane.queue, "k").await.unwrap(), 3);
}

async fn a_cleared_limit_frees_all(rig: Rig) {
    let lane = rig.lane("ios").await;
    limit(&rig, Some(1)).await;
    rig.submit_all(vec![keyed(lane, "k"); 5]).await;
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim(worker, lane, 9).await.len(), 1);
    limit(&rig, None).await;
    rig.store.unblock(100).await.unwrap();
    assert_eq!(rig.claim(worker, lane, 9).await.len(), 4);
}

async fn runs_held_by_key_are_counted(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![keyed(lane, "a"), keyed(lane, "a"), keyed(lane, "b"), run(lane)]).await;
    let held = |lane: Lane, key: &'static str| {
        let store = rig.store.clone();
        async move { store.key_held(lane.queue, key).await.unwrap() }
    };
    assert_eq!(held(lane, "a").await, 0);
    let worker = rig.worker("a").await;
    let claimed = rig.claim(worker, lane, 9).await;
    assert_eq!((held(lane, "a").await, held(lane, "b").await, held(lane, "c").await), (2, 1, 0));
    let one = claimed.iter().find(|one| one.key.as_deref() == Some("a")).unwrap();
    rig.complete(lease(one)).await;
    assert_eq!(held(lane, "a").await, 1);
}
