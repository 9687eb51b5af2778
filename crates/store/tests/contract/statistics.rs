//! Numbers as series.

use baton_core::statistics::{DAY, HOUR, MINUTE, STEP};
use baton_core::{LeaseEnd, Millis, Reason, State};
use baton_store::{NewStatistics, Settled, StatisticsFilter, StoredStatistics, WorkerStatus};
use bytes::Bytes;

use crate::rig::{Rig, START, contract, error, run};

contract!(
    a_block_is_written_once_however_often_its_server_tries,
    blocks_are_found_by_their_time_and_their_resolution,
    a_block_takes_the_place_of_others_only_while_all_are_there,
    of_two_servers_that_put_blocks_together_one_does,
    a_block_that_was_put_together_is_not_written_again,
    old_blocks_and_servers_are_forgotten,
    workers_are_counted_by_namespace_and_status,
    what_became_of_runs_is_told_with_their_lanes,
);

fn block(at: Millis, step_ms: Millis, body: &'static str) -> NewStatistics {
    NewStatistics { at, step_ms, body: Bytes::from_static(body.as_bytes()) }
}

fn all(step_ms_max: Millis) -> StatisticsFilter {
    StatisticsFilter { from: 0, before: Millis::MAX, step_ms_max }
}

async fn read(rig: &Rig, filter: StatisticsFilter) -> Vec<StoredStatistics> {
    rig.store.statistics(filter, 100).await.unwrap()
}

async fn bodies(rig: &Rig, filter: StatisticsFilter) -> Vec<String> {
    let found = read(rig, filter).await;
    found.iter().map(|block| String::from_utf8_lossy(&block.body).into_owned()).collect()
}

async fn a_block_is_written_once_however_often_its_server_tries(rig: Rig) {
    assert_eq!(rig.store.write_statistics("a", 1, block(START, STEP, "first")).await.unwrap(), START);
    for _ in 0..3 {
        rig.store.write_statistics("a", 1, block(START, STEP, "first")).await.unwrap();
    }
    rig.store.write_statistics("b", 1, block(START, STEP, "of another")).await.unwrap();
    rig.store.write_statistics("a", 3, block(START + MINUTE, STEP, "one was lost before")).await.unwrap();
    let found = read(&rig, all(STEP)).await;
    let told: Vec<_> = found.iter().map(|block| (block.server.as_str(), block.seq, block.at, block.step_ms)).collect();
    assert_eq!(told, [("a", 1, START, STEP), ("b", 1, START, STEP), ("a", 3, START + MINUTE, STEP)]);
    assert!(found.windows(2).all(|two| two[0].number < two[1].number));
    let rig = rig.reopen().await;
    rig.store.write_statistics("a", 3, block(START, STEP, "again")).await.unwrap();
    assert_eq!(bodies(&rig, all(STEP)).await, ["first", "of another", "one was lost before"]);
}

async fn blocks_are_found_by_their_time_and_their_resolution(rig: Rig) {
    let blocks = [(0, STEP, "s0"), (1, STEP, "s1"), (2, MINUTE, "m2"), (3, HOUR, "h3")];
    for (seq, (minute, step_ms, body)) in (1..).zip(blocks) {
        rig.store.write_statistics("a", seq, block(START + minute * MINUTE, step_ms, body)).await.unwrap();
    }
    let of = |from: Millis, before: Millis, step_ms_max| StatisticsFilter {
        from: START + from * MINUTE,
        before: START + before * MINUTE,
        step_ms_max,
    };
    assert_eq!(bodies(&rig, of(0, 10, STEP)).await, ["s0", "s1"]);
    assert_eq!(bodies(&rig, of(0, 10, HOUR)).await, ["s0", "s1", "m2", "h3"]);
    assert_eq!(bodies(&rig, of(1, 3, HOUR)).await, ["s1", "m2"]);
    assert_eq!(rig.store.statistics(of(0, 10, HOUR), 2).await.unwrap().len(), 2);
    for (filter, oldest) in [(of(0, 10, STEP), Some(0)), (of(2, 10, HOUR), Some(2)), (of(2, 10, STEP), None)] {
        let oldest = oldest.map(|minute| START + minute * MINUTE);
        assert_eq!(rig.store.oldest_statistics(filter).await.unwrap(), oldest);
    }
}

async fn a_block_takes_the_place_of_others_only_while_all_are_there(rig: Rig) {
    for seq in 1..=3 {
        rig.store.write_statistics("a", seq, block(START, STEP, "fine")).await.unwrap();
    }
    let numbers: Vec<i64> = read(&rig, all(STEP)).await.iter().map(|block| block.number).collect();
    assert!(rig.store.merge_statistics(&numbers[..2], block(START, MINUTE, "coarse")).await.unwrap());
    let found = read(&rig, all(HOUR)).await;
    let told: Vec<_> = found.iter().map(|block| (block.server.as_str(), block.seq, block.step_ms)).collect();
    assert_eq!(told, [("a", 3, STEP), ("", 0, MINUTE)]);
    // The answer was lost, or another server has done it.
    assert!(!rig.store.merge_statistics(&numbers[..2], block(START, MINUTE, "again")).await.unwrap());
    assert!(!rig.store.merge_statistics(&numbers, block(START, MINUTE, "more")).await.unwrap());
    assert_eq!(bodies(&rig, all(HOUR)).await, ["fine", "coarse"], "nothing has changed");
}

async fn of_two_servers_that_put_blocks_together_one_does(rig: Rig) {
    for seq in 1..=20 {
        rig.store.write_statistics("a", seq, block(START, STEP, "fine")).await.unwrap();
    }
    let numbers: Vec<i64> = read(&rig, all(STEP)).await.iter().map(|block| block.number).collect();
    let merges = rig.servers(4).await.into_iter().enumerate().map(|(index, store)| {
        let mut numbers = numbers.clone();
        if index % 2 == 1 {
            numbers.reverse();
        }
        tokio::spawn(async move { store.merge_statistics(&numbers, block(START, MINUTE, "coarse")).await })
    });
    let mut done = 0;
    for merge in merges.collect::<Vec<_>>() {
        // One that waited for another in a circle is told to try again, and then finds that it is done.
        done += i32::from(merge.await.unwrap().unwrap_or(false));
    }
    assert_eq!((done, bodies(&rig, all(HOUR)).await), (1, vec!["coarse".to_owned()]));
}

async fn a_block_that_was_put_together_is_not_written_again(rig: Rig) {
    rig.store.write_statistics("a", 1, block(START, STEP, "fine")).await.unwrap();
    let numbers: Vec<i64> = read(&rig, all(STEP)).await.iter().map(|block| block.number).collect();
    assert!(rig.store.merge_statistics(&numbers, block(START, MINUTE, "coarse")).await.unwrap());
    // Its server never heard that it was written.
    rig.store.write_statistics("a", 1, block(START, STEP, "fine")).await.unwrap();
    assert_eq!(bodies(&rig, all(HOUR)).await, ["coarse"]);
}

async fn old_blocks_and_servers_are_forgotten(rig: Rig) {
    for seq in 1..=3 {
        rig.store.write_statistics("old", seq, block(START + seq * MINUTE, STEP, "old")).await.unwrap();
    }
    rig.clock.advance(DAY);
    rig.store.write_statistics("new", 1, block(START + DAY, STEP, "new")).await.unwrap();
    assert_eq!(rig.store.forget_statistics(START, 10).await.unwrap(), 0);
    assert_eq!(rig.store.forget_statistics(START + HOUR, 2).await.unwrap(), 2, "at most two");
    assert_eq!(rig.store.forget_statistics(START + HOUR, 2).await.unwrap(), 1);
    assert_eq!(bodies(&rig, all(HOUR)).await, ["new"]);
    // Nobody remembers what the old server has written; the new one is known.
    rig.store.write_statistics("old", 1, block(START + DAY, STEP, "begins again")).await.unwrap();
    rig.store.write_statistics("new", 1, block(START + DAY, STEP, "again")).await.unwrap();
    assert_eq!(bodies(&rig, all(HOUR)).await, ["new", "begins again"]);
}

async fn workers_are_counted_by_namespace_and_status(rig: Rig) {
    assert_eq!(rig.store.worker_counts(10).await.unwrap(), []);
    let mut drained = None;
    for name in ["a", "b", "c"] {
        drained = Some(rig.worker(name).await);
    }
    rig.store.set_worker(drained.unwrap(), WorkerStatus::Draining, "").await.unwrap();
    let other = baton_store::NewWorker { namespace: "another".into(), ..crate::rig::new_worker("d") };
    let gone = rig.register(other).await.id;
    rig.store.set_worker(gone, WorkerStatus::Offline, "").await.unwrap();
    let counts = rig.store.worker_counts(10).await.unwrap();
    let told: Vec<_> = counts.iter().map(|count| (count.namespace.as_str(), count.status, count.count)).collect();
    let expected = [
        ("another", WorkerStatus::Offline, 1),
        ("default", WorkerStatus::Online, 2),
        ("default", WorkerStatus::Draining, 1),
    ];
    assert_eq!(told, expected);
    assert_eq!(rig.store.worker_counts(1).await.unwrap().len(), 1);
}

async fn what_became_of_runs_is_told_with_their_lanes(rig: Rig) {
    let lane = rig.lane("ios").await;
    let settled = |state, end, reason, held_ms| vec![Settled { lane: lane.lane, state, end, reason, held_ms }];
    let (_, lease) = rig.held(run(lane)).await;
    rig.clock.advance(700);
    let done = rig.store.complete(vec![baton_store::Completion { lease, output: None }]).await.unwrap();
    assert_eq!(done.woken.settled, settled(State::Completed, Some(LeaseEnd::Completed), None, Some(700)));
    // Again: it was told.
    let again = rig.store.complete(vec![baton_store::Completion { lease, output: None }]).await.unwrap();
    assert_eq!(again.woken.settled, []);

    let (worker, lease) = rig.held(run(lane)).await;
    rig.clock.advance(300);
    let back = rig.store.give_back(vec![(lease, String::new())]).await.unwrap();
    assert_eq!(back.woken.settled, settled(State::Pending, Some(LeaseEnd::GivenBack), None, Some(300)));
    let claimed = rig.claim(worker, lane, 1).await;
    let failure = baton_core::Failure { retryable: false, ..error() };
    let failed = rig.store.fail(vec![(crate::rig::lease(&claimed[0]), failure)], 0.5).await.unwrap();
    assert_eq!(failed.woken.settled, settled(State::Failed, Some(LeaseEnd::Failed), Some(Reason::Error), Some(0)));

    let waiting = rig.submit(run(lane)).await;
    let cancelled = rig.store.cancel(vec![waiting], 0).await.unwrap();
    assert_eq!(cancelled.woken.settled, settled(State::Cancelled, None, Some(Reason::Cancelled), None));

    let (worker, _) = rig.held(run(lane)).await;
    let offline = rig.store.set_worker(worker, WorkerStatus::Offline, "").await.unwrap().unwrap();
    assert_eq!(offline.woken.settled, settled(State::Pending, Some(LeaseEnd::GivenBack), None, Some(0)));
    let silent = rig.worker("silent").await;
    assert_eq!(rig.claim(silent, lane, 1).await.len(), 1);
    rig.clock.advance(crate::rig::TTL_MS + 1);
    let lost = rig.reap().await;
    let held_ms = Some(crate::rig::TTL_MS + 1);
    assert_eq!(lost.woken.settled, settled(State::Pending, Some(LeaseEnd::Lost), None, held_ms));
}
