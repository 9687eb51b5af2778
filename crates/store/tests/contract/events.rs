//! What has happened, for those who listen.

use baton_core::{Reason, State};
use baton_store::{EventBatch, EventServer, OtherServers};
use bytes::Bytes;

use crate::rig::{Rig, contract, run};

contract!(
    batches_are_read_by_position,
    batches_that_are_old_or_too_many_are_forgotten,
    positions_of_several_servers_have_no_gaps_and_are_seen_in_order,
    positions_go_on_after_a_restart,
    positions_that_are_skipped_are_none_that_were_given_out,
    positions_that_are_skipped_do_not_count_as_events,
    servers_say_what_they_listen_for,
    a_server_that_is_not_heard_of_is_forgotten_once,
    facts_of_runs_say_where_they_stand,
);

fn batch(first: i64, last: i64, body: &'static str) -> EventBatch {
    EventBatch { first, last, body: Bytes::from_static(body.as_bytes()) }
}

fn server(name: &str, wants: u32, writes: u32) -> EventServer {
    EventServer { server: name.into(), wants, writes }
}

async fn batches_are_read_by_position(rig: Rig) {
    let empty = rig.store.events_after(0, 10).await.unwrap();
    assert_eq!((empty.batches, empty.last), (vec![], 0));
    assert_eq!(rig.store.write_events(3, Bytes::from_static(b"a")).await.unwrap(), 3);
    assert_eq!(rig.store.write_events(1, Bytes::from_static(b"b")).await.unwrap(), 4);
    assert_eq!(rig.store.write_events(2, Bytes::from_static(b"c")).await.unwrap(), 6);
    let (a, b, c) = (batch(1, 3, "a"), batch(4, 4, "b"), batch(5, 6, "c"));
    let cases = [
        (0, vec![a.clone(), b.clone(), c.clone()]),
        (1, vec![a.clone(), b.clone(), c.clone()]),
        (2, vec![a.clone(), b.clone(), c.clone()]),
        (3, vec![b.clone(), c.clone()]),
        (4, vec![c.clone()]),
        (5, vec![c.clone()]),
        (6, vec![]),
        (7, vec![]),
    ];
    for (position, expected) in cases {
        let page = rig.store.events_after(position, 10).await.unwrap();
        assert_eq!((page.batches, page.last), (expected, 6), "after {position}");
    }
    assert_eq!(rig.store.events_after(0, 2).await.unwrap().batches, [a, b], "at most two");
}

async fn batches_that_are_old_or_too_many_are_forgotten(rig: Rig) {
    for _ in 0..4 {
        rig.store.write_events(10, Bytes::from_static(b"x")).await.unwrap();
        rig.clock.advance(1_000);
    }
    assert_eq!(rig.store.forget_events(10_000, 1_000, 10).await.unwrap(), 0);
    assert_eq!(rig.store.forget_events(3_500, 1_000, 10).await.unwrap(), 1, "too old");
    assert_eq!(rig.store.forget_events(10_000, 20, 10).await.unwrap(), 1, "too far behind");
    assert_eq!(rig.store.forget_events(0, 0, 1).await.unwrap(), 1, "one at a time");
    let page = rig.store.events_after(0, 10).await.unwrap();
    assert_eq!((page.batches, page.last), (vec![batch(31, 40, "x")], 40));
}

async fn positions_of_several_servers_have_no_gaps_and_are_seen_in_order(rig: Rig) {
    const EACH: usize = 25;
    let mut writing = tokio::task::JoinSet::new();
    for server in rig.servers(4).await {
        writing.spawn(async move {
            for _ in 0..EACH {
                server.write_events(3, Bytes::from_static(b"x")).await.unwrap();
            }
        });
    }
    let (mut seen, all) = (0, (4 * EACH * 3) as i64);
    while seen < all {
        for batch in rig.store.events_after(seen, 7).await.unwrap().batches {
            assert_eq!(batch.first, seen + 1, "a reader has missed a batch that came later");
            seen = batch.last;
        }
    }
    writing.join_all().await;
    assert_eq!(rig.store.events_after(all, 7).await.unwrap().last, all);
}

async fn positions_go_on_after_a_restart(rig: Rig) {
    rig.store.write_events(3, Bytes::from_static(b"a")).await.unwrap();
    let rig = rig.reopen().await;
    assert_eq!(rig.store.write_events(1, Bytes::from_static(b"b")).await.unwrap(), 4);
    assert_eq!(rig.store.events_after(3, 10).await.unwrap().batches, [batch(4, 4, "b")]);
}

async fn positions_that_are_skipped_are_none_that_were_given_out(rig: Rig) {
    rig.store.skip_events().await.unwrap();
    let begin = rig.store.write_events(5, Bytes::from_static(b"a")).await.unwrap() - 5;
    assert!(begin >= rig.now() * 1_000, "{begin}");
    rig.store.skip_events().await.unwrap();
    let again = rig.store.events_after(begin + 5, 10).await.unwrap();
    assert_eq!(again.batches, [batch(begin + 6, begin + 6, "")], "in the same moment it is one");
    rig.clock.advance(10);
    let mut skipping = tokio::task::JoinSet::new();
    for server in rig.servers(4).await {
        skipping.spawn(async move { server.skip_events().await.unwrap() });
    }
    skipping.join_all().await;
    let page = rig.store.events_after(begin, 10).await.unwrap();
    let mut position = begin;
    for batch in &page.batches {
        assert_eq!(batch.first, position + 1, "{page:?}");
        position = batch.last;
    }
    assert_eq!((page.batches.len(), page.last), (6, position));
    assert!(page.last >= rig.now() * 1_000);
}

async fn positions_that_are_skipped_do_not_count_as_events(rig: Rig) {
    rig.store.write_events(10, Bytes::from_static(b"x")).await.unwrap();
    rig.store.skip_events().await.unwrap();
    rig.store.write_events(10, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(rig.store.forget_events(10_000, 11, 10).await.unwrap(), 0);
    assert_eq!(rig.store.forget_events(10_000, 10, 10).await.unwrap(), 2, "the first and what was skipped");
    assert_eq!(rig.store.events_after(0, 10).await.unwrap().batches.len(), 1);
}

async fn servers_say_what_they_listen_for(rig: Rig) {
    assert_eq!(rig.store.event_servers("a").await.unwrap(), OtherServers::default());
    rig.store.keep_event_server(&server("a", 1, 7), 1_000).await.unwrap();
    rig.store.keep_event_server(&server("b", 2, 7), 1_000).await.unwrap();
    rig.store.keep_event_server(&server("c", 4, 7), 1_000).await.unwrap();
    assert_eq!(rig.store.event_servers("a").await.unwrap(), OtherServers { wants: 6, any_gone: false });
    rig.store.keep_event_server(&server("b", 0, 7), 1_000).await.unwrap();
    rig.store.keep_event_server(&server("c", 0, 0), 1_000).await.unwrap();
    assert_eq!(rig.store.event_servers("a").await.unwrap(), OtherServers::default());
    assert_eq!(rig.store.event_servers("b").await.unwrap(), OtherServers { wants: 1, any_gone: false });
}

async fn a_server_that_is_not_heard_of_is_forgotten_once(rig: Rig) {
    rig.store.keep_event_server(&server("a", 1, 3), 1_000).await.unwrap();
    rig.clock.advance(600);
    rig.store.keep_event_server(&server("b", 2, 3), 1_000).await.unwrap();
    rig.clock.advance(600);
    assert_eq!(rig.store.event_servers("b").await.unwrap(), OtherServers { wants: 0, any_gone: true });
    let mut forgetting = tokio::task::JoinSet::new();
    for server in rig.servers(4).await {
        forgetting.spawn(async move { server.forget_event_servers().await.unwrap() });
    }
    let mut forgotten = forgetting.join_all().await;
    forgotten.sort_unstable();
    assert_eq!(forgotten, [0, 0, 0, 3], "one of them says so");
    assert_eq!(rig.store.event_servers("a").await.unwrap(), OtherServers { wants: 2, any_gone: false });
}

async fn facts_of_runs_say_where_they_stand(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held(run(lane)).await;
    let waiting = rig.submit(run(lane)).await;
    let unknown = baton_core::RunId::new(1, 2, 3);
    let facts = rig.store.run_facts(&[waiting, unknown, held.run]).await.unwrap();
    let [Some(first), None, Some(second)] = facts.as_slice() else { panic!("{facts:?}") };
    assert_eq!((first.lane, first.state, first.worker, first.ended_at), (lane.lane, State::Pending, None, None));
    assert_eq!((second.state, second.worker, second.cancelling), (State::Assigned, Some(worker), false));
    rig.store.cancel(vec![waiting, held.run], 1_000).await.unwrap();
    let facts = rig.store.run_facts(&[waiting, held.run]).await.unwrap();
    let [Some(first), Some(second)] = facts.as_slice() else { panic!("{facts:?}") };
    assert_eq!((first.state, first.reason), (State::Cancelled, Some(Reason::Cancelled)));
    assert_eq!(first.ended_at, Some(rig.now()));
    assert_eq!((second.state, second.cancelling), (State::Assigned, true));
}
