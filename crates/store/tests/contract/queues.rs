//! Queues and lanes: names, settings, pause, rate, depth.

use baton_core::Millis;
use baton_store::{ClaimAnswer, Depth, Due, Lane, LaneDepth, Look, NewRun, QueueChange};

use crate::rig::{Rig, contract, keyed, lane_name, lease, run, slot};

contract!(
    a_lane_is_made_on_first_use_and_stays_the_same,
    lanes_made_concurrently_are_made_once,
    settings_change_one_by_one,
    a_paused_queue_hands_nothing_out_until_it_is_resumed,
    a_pause_ends_by_itself,
    a_rate_is_kept_over_time,
    depths_say_what_is_in_a_queue,
    depths_of_lanes_tell_types_apart,
    counting_stops_at_the_cap,
    a_look_tells_what_can_be_claimed,
    a_position_counts_those_before,
);

async fn set(rig: &Rig, change: QueueChange) -> baton_store::Queue {
    rig.store.set_queue("default", "builds", change).await.unwrap()
}

async fn pause(rig: &Rig, until: Option<Millis>) {
    set(rig, QueueChange { paused_until: Some(until), ..QueueChange::default() }).await;
}

async fn a_lane_is_made_on_first_use_and_stays_the_same(rig: Rig) {
    let names = [lane_name("b", "x"), lane_name("a", "x"), lane_name("b", "y"), lane_name("b", "x")];
    let lanes = rig.store.lanes(&names).await.unwrap();
    assert_eq!(lanes[0], lanes[3]);
    assert_eq!(lanes[0].queue, lanes[2].queue);
    assert_ne!(lanes[0].queue, lanes[1].queue);
    assert_ne!(lanes[0].lane, lanes[2].lane);
    assert_eq!(rig.store.lanes(&names).await.unwrap(), lanes);
    let foreign = baton_store::LaneName { namespace: "other".into(), ..lane_name("b", "x") };
    let foreign_lane = rig.store.lanes(std::slice::from_ref(&foreign)).await.unwrap()[0];
    assert_ne!((foreign_lane.queue, foreign_lane.lane), (lanes[0].queue, lanes[0].lane));
    let mut all = rig.store.all_lanes().await.unwrap();
    all.sort_by_key(|(_, lane)| lane.lane);
    let mut expected: Vec<_> = names.into_iter().zip(lanes).take(3).chain([(foreign, foreign_lane)]).collect();
    expected.sort_by_key(|(_, lane)| lane.lane);
    assert_eq!(all, expected);
    let named = |queues: Vec<baton_store::Queue>| queues.into_iter().map(|queue| queue.name).collect::<Vec<_>>();
    assert_eq!(named(rig.store.queues(Some("default")).await.unwrap()), ["a", "b"]);
    assert_eq!(named(rig.store.queues(Some("other")).await.unwrap()), ["b"]);
    assert_eq!(rig.store.queues(None).await.unwrap().len(), 3);
    assert_eq!(rig.store.lanes(&[]).await.unwrap(), []);
}

async fn lanes_made_concurrently_are_made_once(rig: Rig) {
    let mut tasks = Vec::new();
    for store in rig.servers(3).await.into_iter().cycle().take(9) {
        tasks.push(tokio::spawn(async move {
            let names: Vec<_> =
                (0..5).map(|index| lane_name(&format!("q{}", index % 2), &format!("k{index}"))).collect();
            store.lanes(&names).await.unwrap()
        }));
    }
    let mut answers: Vec<Vec<Lane>> = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(rig.store.all_lanes().await.unwrap().len(), 5);
}

async fn settings_change_one_by_one(rig: Rig) {
    let made = set(&rig, QueueChange { backlog_max: Some(Some(10)), ..QueueChange::default() }).await;
    assert_eq!((&*made.namespace, &*made.name, made.backlog_max), ("default", "builds", Some(10)));
    assert_eq!((made.paused_until, made.rate_per_second, made.key_limit), (None, None, None));
    let both = QueueChange { rate_per_second: Some(Some(2.5)), key_limit: Some(Some(3)), ..QueueChange::default() };
    let changed = set(&rig, both).await;
    assert_eq!((changed.id, changed.backlog_max), (made.id, Some(10)));
    assert_eq!((changed.rate_per_second, changed.key_limit), (Some(2.5), Some(3)));
    let cleared =
        QueueChange { rate_per_second: Some(None), paused_until: Some(Some(Millis::MAX)), ..Default::default() };
    let cleared = set(&rig, cleared).await;
    assert_eq!((cleared.rate_per_second, cleared.key_limit, cleared.paused_until), (None, Some(3), Some(Millis::MAX)));
    assert_eq!(set(&rig, QueueChange::default()).await, cleared);
    assert_eq!(rig.store.queues(None).await.unwrap(), [cleared]);
    assert_eq!(rig.lane("ios").await.queue, made.id);
}

async fn a_paused_queue_hands_nothing_out_until_it_is_resumed(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (id, worker) = (rig.submit(run(lane)).await, rig.worker("a").await);
    pause(&rig, Some(Millis::MAX)).await;
    assert_eq!(rig.claim_for(vec![slot(worker, &[lane], 5)], lane).await, ClaimAnswer::default());
    rig.clock.advance(1 << 40);
    rig.store.renew(vec![]).await.unwrap();
    assert_eq!(rig.claim(worker, lane, 5).await, []);
    pause(&rig, None).await;
    assert_eq!(rig.claim_ids(worker, lane, 5).await, [id]);
}

async fn a_pause_ends_by_itself(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (id, worker) = (rig.submit(run(lane)).await, rig.worker("a").await);
    pause(&rig, Some(rig.now() + 1_000)).await;
    rig.clock.advance(400);
    let answer = rig.claim_for(vec![slot(worker, &[lane], 5)], lane).await;
    assert_eq!((answer.claimed.len(), answer.next_in_ms), (0, Some(600)));
    rig.clock.advance(599);
    assert_eq!(rig.claim(worker, lane, 5).await, []);
    rig.clock.advance(1);
    assert_eq!(rig.claim_ids(worker, lane, 5).await, [id]);
}

async fn a_rate_is_kept_over_time(rig: Rig) {
    let lane = rig.lane("ios").await;
    set(&rig, QueueChange { rate_per_second: Some(Some(2.0)), ..QueueChange::default() }).await;
    rig.submit_all(vec![run(lane); 20]).await;
    let worker = rig.worker("a").await;
    let answer = rig.claim_for(vec![slot(worker, &[lane], 10)], lane).await;
    assert_eq!((answer.claimed.len(), answer.next_in_ms), (2, Some(500)), "a new bucket is full, and then it drips");
    assert_eq!(rig.claim(worker, lane, 10).await, []);
    rig.clock.advance(500);
    assert_eq!(rig.claim(worker, lane, 10).await.len(), 1);
    // A claim that takes nothing costs nothing.
    rig.clock.advance(1_000);
    let nobody = crate::rig::new_worker("x").id;
    assert_eq!(rig.claim(nobody, lane, 10).await, []);
    assert_eq!(rig.claim(worker, lane, 10).await.len(), 2);
    let mut handed_out = 5;
    for _ in 0..20 {
        rig.clock.advance(100);
        handed_out += rig.claim(worker, lane, 10).await.len();
    }
    assert_eq!(handed_out, 5 + 4, "2 seconds at 2 a second");
    set(&rig, QueueChange { rate_per_second: Some(None), ..QueueChange::default() }).await;
    assert_eq!(rig.claim(worker, lane, 100).await.len(), 11);
}

async fn depths_say_what_is_in_a_queue(rig: Rig) {
    let (lane, other) = (rig.lane("ios").await, rig.lane("android").await);
    let empty = rig.lane_on("empty", "ios").await;
    set(&rig, QueueChange { key_limit: Some(Some(1)), ..QueueChange::default() }).await;
    rig.submit_all(vec![NewRun { priority: 9, ..run(lane) }; 2]).await;
    let worker = rig.worker("a").await;
    let held: Vec<_> = rig.claim(worker, lane, 2).await.iter().map(lease).collect();
    rig.sleep(held[1], Due::After(10_000)).await;
    rig.submit_all(vec![keyed(lane, "k"), keyed(lane, "k"), run(other), run(other)]).await;
    rig.clock.advance(3);
    // One of the key is held, one is blocked: blocked runs wait in the queue, too.
    assert_eq!(rig.claim(worker, lane, 9).await.len(), 1);
    let soon = NewRun { due: Due::After(500), ..run(lane) };
    rig.submit_all(vec![soon, NewRun { due: Due::After(5_000), ..run(other) }]).await;
    let queues = [empty.queue, lane.queue];
    let depths = |cap| rig.store.depths(&queues, cap);
    let expected = Depth { queue: lane.queue, ready: 3, scheduled: 2, held: 2, sleeping: 1, oldest_ms: Some(3) };
    assert_eq!(depths(100).await.unwrap(), [Depth { queue: empty.queue, ..Depth::default() }, expected]);
    rig.clock.advance(497);
    let expected = Depth { oldest_ms: Some(500), ..expected };
    assert_eq!(depths(100).await.unwrap()[1], expected);
    rig.clock.advance(3);
    // Due, though nobody has claimed since: it counts as claimable all the same.
    let expected = Depth { ready: 4, scheduled: 1, oldest_ms: Some(503), ..expected };
    assert_eq!(depths(100).await.unwrap()[1], expected);
    rig.clock.advance(60_000);
    let expected = Depth { ready: 6, scheduled: 0, sleeping: 0, oldest_ms: Some(60_503), ..expected };
    assert_eq!(depths(100).await.unwrap()[1], expected);
    assert_eq!(rig.store.depths(&[], 100).await.unwrap(), []);
}

async fn depths_of_lanes_tell_types_apart(rig: Rig) {
    let (lane, other) = (rig.lane("ios").await, rig.lane("android").await);
    let (empty, elsewhere) = (rig.lane("none").await, rig.lane_on("elsewhere", "ios").await);
    set(&rig, QueueChange { key_limit: Some(Some(1)), ..QueueChange::default() }).await;
    rig.submit_all(vec![keyed(lane, "k"), keyed(lane, "k"), keyed(other, "k"), run(other)]).await;
    rig.submit_all(vec![NewRun { due: Due::After(500), ..run(elsewhere) }]).await;
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim(worker, lane, 9).await.len(), 1, "the others wait for their key");
    rig.clock.advance(7);
    let depths = |cap| {
        let lanes = [empty.lane, other.lane, lane.lane, elsewhere.lane];
        let store = rig.store.clone();
        async move { store.lane_depths(&lanes, cap).await.unwrap() }
    };
    let of = |lane: Lane, ready, oldest_ms| LaneDepth { lane: lane.lane, ready, oldest_ms };
    let expected = [of(empty, 0, None), of(other, 2, Some(7)), of(lane, 1, Some(7)), of(elsewhere, 0, None)];
    assert_eq!(depths(100).await, expected);
    assert_eq!(depths(1).await[1].ready, 1, "counting stops at the cap");
    rig.clock.advance(600);
    assert_eq!(depths(100).await[3], of(elsewhere, 1, Some(107)), "due, though nobody has claimed since");
    assert_eq!(rig.store.lane_depths(&[], 100).await.unwrap(), []);
}

async fn counting_stops_at_the_cap(rig: Rig) {
    let lane = rig.lane("ios").await;
    rig.submit_all(vec![run(lane); 30]).await;
    let ready = rig.store.depths(&[lane.queue], 10).await.unwrap()[0].ready;
    assert!((10..30).contains(&ready), "{ready}");
    assert_eq!(rig.store.depths(&[lane.queue], 30).await.unwrap()[0].ready, 30);
}

async fn a_look_tells_what_can_be_claimed(rig: Rig) {
    let (ready, later, none) = (rig.lane("a").await, rig.lane("b").await, rig.lane("c").await);
    let both = rig.lane("d").await;
    let paused = rig.lane_on("paused", "a").await;
    let change = QueueChange { paused_until: Some(Some(Millis::MAX)), ..QueueChange::default() };
    rig.store.set_queue("default", "paused", change).await.unwrap();
    let after = |lane, ms| NewRun { due: Due::After(ms), ..run(lane) };
    rig.submit_all(vec![run(ready), after(later, 700), after(later, 200), run(both), after(both, 300), run(paused)])
        .await;
    let lanes = [ready, later, none, both, paused].map(|lane| lane.lane);
    let look = |look: Look| {
        let (mut ready, mut later) = (look.ready, look.later);
        ready.sort_unstable();
        later.sort_unstable();
        (ready, later)
    };
    let seen = look(rig.store.look(&lanes).await.unwrap());
    assert_eq!(seen, (vec![ready.lane, both.lane], vec![(later.lane, 200), (both.lane, 300)]));
    rig.clock.advance(250);
    let seen = look(rig.store.look(&lanes).await.unwrap());
    assert_eq!(seen, (vec![ready.lane, later.lane, both.lane], vec![(later.lane, 450), (both.lane, 50)]));
    assert_eq!(look(rig.store.look(&[none.lane]).await.unwrap()), (vec![], vec![]));
}

async fn a_position_counts_those_before(rig: Rig) {
    let (lane, other) = (rig.lane("ios").await, rig.lane("android").await);
    let elsewhere = rig.lane_on("other", "ios").await;
    rig.submit_all(vec![run(elsewhere); 3]).await;
    let order = rig.submit_all(vec![run(lane), run(other), run(lane), run(lane)]).await;
    let position = |run, cap| {
        let store = rig.store.clone();
        async move { store.position(run, cap).await.unwrap() }
    };
    assert_eq!(position(order[0], 100).await, Some(0));
    assert_eq!(position(order[3], 100).await, Some(3), "every type of the queue stands in one line");
    assert_eq!(position(order[3], 2).await, Some(2));
    let urgent = rig.submit(NewRun { priority: 9, ..run(lane) }).await;
    assert_eq!((position(urgent, 100).await, position(order[3], 100).await), (Some(0), Some(4)));
    let worker = rig.worker("a").await;
    assert_eq!(rig.claim_ids(worker, lane, 2).await, [urgent, order[0]]);
    assert_eq!(position(order[3], 100).await, Some(2));
    assert_eq!(position(urgent, 100).await, None, "a held run stands in no line");
    assert_eq!(position(baton_core::RunId::new(1, 1, 1), 100).await, None);
}
