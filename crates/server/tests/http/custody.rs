//! Who had a run, and what was refused afterwards: in its history, among events, and as custody.

use baton::EventFilter;
use baton::proto::{ClaimedRun, Heartbeat, HistoryEvent, LeaseOf, Time};
use baton_core::State;
use baton_server::service::custody::{self, Custody, HELD, LANES_MAX};
use baton_server::{Caller, Error};
use baton_store::{Clock, Scope};

use crate::events::Ear;
use crate::harness::{On, START, Server, complete, eventually, fail, give_back, on_both, refusal};

on_both!(
    a_late_write_is_in_history_events_and_custody,
    repeated_refusals_are_one_entry_with_a_count,
    a_heartbeat_for_a_lost_lease_is_on_record_once,
    leases_that_end_well_leave_no_refusal,
    a_held_lease_is_shown_with_its_last_heartbeat,
    custody_comes_in_pages,
    custody_of_another_namespace_is_unknown,
);

fn caller(namespace: Option<&str>) -> Caller {
    Caller { key_id: "test".into(), scopes: vec![Scope::Read], namespace: namespace.map(str::to_owned) }
}

async fn custody(server: &Server, run: &str) -> Custody {
    custody::of_run(&server.app, &caller(None), None, run.parse().unwrap(), None, LANES_MAX).await.unwrap()
}

/// The custody of a run, once so many writes were refused.
async fn refused(server: &Server, run: &str, count: u64) -> Custody {
    eventually("refusals are noted", async || custody(server, run).await.refused >= count).await;
    custody(server, run).await
}

async fn late(server: &Server, run: &str) -> Vec<HistoryEvent> {
    let history = server.client.history(run).await.unwrap().events;
    history.into_iter().filter(|event| event.event == "write_refused").collect()
}

/// A run that its first worker has lost and a second one has: who the workers are, and what they claimed.
async fn handed_over(server: &Server) -> [(String, ClaimedRun); 2] {
    let (first, lost) = server.held().await;
    server.clock.advance(server.settings.lease_ttl_ms as i64 + 1_001);
    eventually("the run is free", async || server.state(&lost.run_id).await == State::Pending).await;
    let second = server.worker("second").await;
    let claimed = server.claim(&second).await;
    assert_eq!((claimed.run_id.as_str(), claimed.epoch), (lost.run_id.as_str(), 2));
    [(first, lost), (second, claimed)]
}

async fn a_late_write_is_in_history_events_and_custody(on: On) {
    let server = Server::start(on).await;
    let filter = EventFilter { kinds: vec!["run.write_refused".into()], ..EventFilter::default() };
    let mut ear = Ear::open(&server, filter).await;
    let [(first, lost), (second, current)] = handed_over(&server).await;
    let id = lost.run_id.clone();
    assert_eq!(refusal(server.client.complete(&id, &complete(&lost.lease)).await), "409 lease_lost");
    let heard = ear.next().await;
    assert_eq!((heard.kind.as_str(), heard.run_id.as_deref()), ("run.write_refused", Some(id.as_str())));
    assert_eq!((heard.reason.as_deref(), heard.worker_id.as_deref()), (Some("complete"), Some(first.as_str())));
    server.client.complete(&id, &complete(&current.lease)).await.unwrap();
    // The run has ended; who comes now is refused for that reason, and is late all the same.
    assert_eq!(refusal(server.client.fail(&id, &fail(&lost.lease)).await), "409 ended");
    let found = refused(&server, &id, 2).await;
    let at = START + server.settings.lease_ttl_ms as i64 + 1_001;
    let [one, two] = found.lanes.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.epoch, one.end, one.worker_id.as_deref()), (1, "lost", Some(first.as_str())));
    assert_eq!(
        (one.worker_name.as_deref(), one.from, one.last_heartbeat),
        (Some("holder"), Time(START), Some(Time(START)))
    );
    assert_eq!((two.epoch, two.end, two.worker_id.as_deref()), (2, "completed", Some(second.as_str())));
    assert_eq!((two.last_heartbeat, two.refused.len()), (None, 0));
    let told: Vec<_> = one.refused.iter().map(|late| (late.verb, late.epoch, late.current_epoch, late.at)).collect();
    assert_eq!(told, [("complete", 1, 2, Time(at)), ("fail", 1, 2, Time(at))]);
    assert_eq!((found.leases, found.refused, found.before, found.state), (2, 2, None, State::Completed));
    let history = late(&server, &id).await;
    let told: Vec<_> = history.iter().map(|event| (event.reason.as_deref(), event.epoch)).collect();
    assert_eq!(told, [(Some("complete"), Some(1)), (Some("fail"), Some(1))]);
    assert_eq!(history[0].worker_id.as_deref(), Some(first.as_str()));
    let said = history[0].message.as_deref().unwrap();
    assert!(said.starts_with("complete was refused: epoch 1 was over, and the run was at epoch 2"), "{said}");
    assert_eq!(server.metric("baton_lease_refusals_total").await, 2);
}

async fn repeated_refusals_are_one_entry_with_a_count(on: On) {
    let server = Server::start(on).await;
    let [(_, lost), (_, current)] = handed_over(&server).await;
    for _ in 0..300 {
        let answer = server.client.give_back(&lost.run_id, &give_back(&lost.lease)).await;
        assert_eq!(refusal(answer), "409 lease_lost");
    }
    let found = refused(&server, &lost.run_id, 300).await;
    assert_eq!((found.refused, found.lanes[0].refused.len(), found.lanes[0].refused[0].times), (300, 1, 300));
    assert_eq!(late(&server, &lost.run_id).await.len(), 1);
    assert_eq!(server.metric("baton_lease_refusals_dropped_total").await, 0);
    server.client.complete(&lost.run_id, &complete(&current.lease)).await.unwrap();
}

async fn a_heartbeat_for_a_lost_lease_is_on_record_once(on: On) {
    let server = Server::start(on).await;
    let [(first, lost), _] = handed_over(&server).await;
    let held = LeaseOf { run_id: lost.run_id.clone(), lease: lost.lease.clone(), stopping: false };
    let beat = Heartbeat { leases: vec![held], ..Heartbeat::default() };
    for _ in 0..3 {
        assert_eq!(refusal(server.client.heartbeat(&first, &beat).await), "409 worker_offline");
    }
    // A new start of the worker that still believes to have it.
    let again = server.worker("holder").await;
    assert_eq!(server.client.heartbeat(&again, &beat).await.unwrap().lost, [lost.run_id.as_str()]);
    let found = refused(&server, &lost.run_id, 4).await;
    let told: Vec<_> = found.lanes[0].refused.iter().map(|late| (late.verb, late.times)).collect();
    assert_eq!(told, [("renew", 4)]);
    assert_eq!(found.lanes[0].refused[0].worker_id.as_deref(), Some(first.as_str()));
}

async fn leases_that_end_well_leave_no_refusal(on: On) {
    let server = Server::start(on).await;
    let (worker, done) = server.held().await;
    for _ in 0..2 {
        server.client.complete(&done.run_id, &complete(&done.lease)).await.unwrap();
    }
    // A heartbeat that was on its way when the run was completed.
    let held = LeaseOf { run_id: done.run_id.clone(), lease: done.lease.clone(), stopping: false };
    let beat = Heartbeat { leases: vec![held], ..Heartbeat::default() };
    assert_eq!(server.client.heartbeat(&worker, &beat).await.unwrap().lost, [done.run_id.as_str()]);
    // What is noted later than that has been looked at when this is there.
    let [(_, lost), _] = handed_over(&server).await;
    assert_eq!(refusal(server.client.complete(&lost.run_id, &complete(&lost.lease)).await), "409 lease_lost");
    refused(&server, &lost.run_id, 1).await;
    let found = custody(&server, &done.run_id).await;
    assert_eq!((found.refused, found.lanes.len(), found.lanes[0].end), (0, 1, "completed"));
    assert!(late(&server, &done.run_id).await.is_empty());
}

async fn a_held_lease_is_shown_with_its_last_heartbeat(on: On) {
    let server = Server::start(on).await;
    let waiting = server.submit().await;
    assert_eq!(custody(&server, &waiting).await.lanes, []);
    let worker = server.worker("holder").await;
    server.claim(&worker).await;
    server.clock.advance(2_000);
    server.client.heartbeat(&worker, &Heartbeat::default()).await.unwrap();
    let found = custody(&server, &waiting).await;
    let [lane] = found.lanes.as_slice() else { panic!("{found:?}") };
    let until = START + 2_000 + server.settings.lease_ttl_ms as i64;
    assert_eq!((lane.end, lane.to, lane.last_heartbeat), (HELD, None, Some(Time(START + 2_000))));
    assert_eq!((lane.lease_until, found.leases, found.epoch), (Some(Time(until)), 1, 1));
}

async fn custody_comes_in_pages(on: On) {
    let server = Server::start(on).await;
    let (worker, mut newest) = server.held().await;
    let claims = 120;
    for _ in 1..claims {
        server.client.give_back(&newest.run_id, &give_back(&newest.lease)).await.unwrap();
        newest = server.claim(&worker).await;
    }
    let page = async |before| {
        let found =
            custody::of_run(&server.app, &caller(None), None, newest.run_id.parse().unwrap(), before, 100).await;
        let found = found.unwrap();
        let epochs: Vec<u32> = found.lanes.iter().map(|lane| lane.epoch).collect();
        (epochs, found.before, found.leases)
    };
    let all = u64::from(claims);
    assert_eq!(page(None).await, ((21..=claims).collect(), Some(21), all));
    assert_eq!(page(Some(21)).await, ((1..=20).collect(), None, all));
}

async fn custody_of_another_namespace_is_unknown(on: On) {
    let server = Server::start(on).await;
    let (_, held) = server.held().await;
    let run = held.run_id.parse().unwrap();
    let of = async |own: Option<&str>, asked: Option<&str>| {
        custody::of_run(&server.app, &caller(own), asked, run, None, 1).await
    };
    assert!(of(None, Some("default")).await.is_ok() && of(Some("default"), None).await.is_ok());
    for (own, asked) in [(Some("shop"), None), (Some("shop"), Some("shop")), (None, Some("shop"))] {
        assert!(matches!(of(own, asked).await, Err(Error::NotFound { what: "run", .. })), "{own:?} {asked:?}");
    }
    let worker = Caller { scopes: vec![Scope::Worker], ..caller(None) };
    let refused = custody::of_run(&server.app, &worker, None, run, None, 1).await;
    assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_just_before_a_stop_is_noted() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let mut server = Server::on_database(database.url(), clock.clone()).await;
    let [(_, lost), _] = handed_over(&server).await;
    assert_eq!(refusal(server.client.complete(&lost.run_id, &complete(&lost.lease)).await), "409 lease_lost");
    server.stop();
    server.stopped().await;
    let next = Server::on_database(database.url(), clock).await;
    assert_eq!(custody(&next, &lost.run_id).await.refused, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_refuses_is_seen_here() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let here = Server::on_database(database.url(), clock.clone()).await;
    let there = Server::on_database(database.url(), clock).await;
    let [(_, lost), (_, current)] = handed_over(&here).await;
    for server in [&here, &there] {
        assert_eq!(refusal(server.client.complete(&lost.run_id, &complete(&lost.lease)).await), "409 lease_lost");
    }
    there.client.complete(&lost.run_id, &complete(&current.lease)).await.unwrap();
    let found = refused(&here, &lost.run_id, 2).await;
    assert_eq!((found.lanes[0].refused.len(), found.lanes[0].refused[0].times), (1, 2));
    assert_eq!(late(&there, &lost.run_id).await.len(), 1);
}
