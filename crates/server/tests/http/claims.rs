//! /api/v1/workers/{id}/claim: waiting, waking, and answers that got lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use baton::proto::{Claim, Heartbeat, LeaseOf, QueueLimits, SubmitBatch, SubmitRun};
use baton_core::State;
use baton_server::{Caller, service};
use baton_store::{Clock, Scope};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::harness::{
    KEY, LONG_MS, On, START, Server, complete, eventually, give_back, on_both, refusal, run, soon, started_claim,
};

async fn a_waiting_claim_is_woken_by_a_submit(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    let poll = server.parked(&worker).await;
    let id = server.submit().await;
    let claimed = soon(poll).await;
    assert_eq!(claimed.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    assert_eq!((claimed[0].epoch, claimed[0].attempt, claimed[0].queue.as_str()), (1, 1, "builds"));
    assert_eq!(server.state(&id).await, State::Running, "it asked for the run to be started");
}

async fn a_claim_without_work_ends_with_its_wait(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    assert!(server.claims(&worker, &Claim::default()).await.is_empty());
    assert!(server.claims(&worker, &Claim { wait_ms: Some(20), ..Claim::default() }).await.is_empty());
    assert_eq!(server.app.dispatcher.waiting(), 0);
}

async fn a_waiting_claim_is_woken_when_a_run_becomes_due(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    let poll = server.parked(&worker).await;
    let id = server.submit_run(&SubmitRun { delay_ms: Some(5_000), ..run() }).await;
    server.clock.advance(4_000);
    assert_eq!(server.state(&id).await, State::Pending);
    server.clock.advance(1_100);
    assert_eq!(soon(poll).await[0].run_id, id);
}

async fn a_claim_repeated_with_its_number_gives_the_same_runs(on: On) {
    let server = Server::start(on).await;
    let batch = SubmitBatch { runs: vec![run(); 4] };
    server.client.submit_batch(&batch).await.unwrap();
    let worker = server.worker("one").await;
    let claim = |number| Claim { max: Some(2), claim_no: Some(number), ..Claim::default() };
    let leases = async |number| -> Vec<String> {
        server.claims(&worker, &claim(number)).await.into_iter().map(|run| run.lease).collect()
    };
    let first = leases(1).await;
    assert_eq!(first.len(), 2);
    let mut again = leases(1).await;
    again.sort();
    let mut sorted = first.clone();
    sorted.sort();
    assert_eq!(again, sorted);
    let second = leases(2).await;
    assert!(second.len() == 2 && second.iter().all(|lease| !first.contains(lease)));
    assert_eq!(leases(2).await.len(), 2);
    assert!(leases(3).await.is_empty());
}

async fn a_repeated_claim_leaves_out_what_is_done(on: On) {
    let server = Server::start(on).await;
    server.client.submit_batch(&SubmitBatch { runs: vec![run(); 2] }).await.unwrap();
    let worker = server.worker("one").await;
    let claim = Claim { max: Some(2), claim_no: Some(1), ..Claim::default() };
    let runs = server.claims(&worker, &claim).await;
    server.client.complete(&runs[0].run_id, &complete(&runs[0].lease)).await.unwrap();
    let again = server.claims(&worker, &claim).await;
    assert_eq!(again.iter().map(|run| &run.lease).collect::<Vec<_>>(), [&runs[1].lease]);
}

/// The answer was lost, and the worker does not ask again (or asks a server that does not know of it).
async fn what_a_worker_does_not_know_of_goes_back(on: On) {
    let server = Server::start(on).await;
    let (worker, other) = (server.worker("one").await, server.worker("two").await);
    server.client.submit_batch(&SubmitBatch { runs: vec![run(); 2] }).await.unwrap();
    let claim = |number| Claim { claim_no: Some(number), start: true, ..Claim::default() };
    let known = server.claims(&worker, &claim(1)).await.remove(0);
    let lost = server.claims(&worker, &claim(2)).await.remove(0);
    let beat = |all| Heartbeat {
        leases: vec![LeaseOf { run_id: known.run_id.clone(), lease: known.lease.clone(), stopping: false }],
        all,
        ..Heartbeat::default()
    };
    server.client.heartbeat(&worker, &beat(true)).await.unwrap();
    assert_eq!(server.state(&lost.run_id).await, State::Running, "its answer may still be on its way");
    server.clock.advance(server.app.settings.lease_ttl_ms as i64 - 1);
    server.client.heartbeat(&worker, &beat(true)).await.unwrap();
    server.clock.advance(2);
    server.client.heartbeat(&worker, &beat(false)).await.unwrap();
    assert_eq!(server.state(&lost.run_id).await, State::Running, "the worker did not say that it named all");
    server.client.heartbeat(&worker, &beat(true)).await.unwrap();
    assert_eq!(server.state(&lost.run_id).await, State::Pending);
    assert_eq!(server.state(&known.run_id).await, State::Running);
    let again = server.claims(&other, &claim(1)).await.remove(0);
    assert_eq!((again.run_id, again.epoch), (lost.run_id, lost.epoch + 1));
}

async fn without_a_number_unstarted_runs_come_again(on: On) {
    let server = Server::start(on).await;
    let first = server.submit().await;
    let second = server.submit().await;
    let worker = server.worker("one").await;
    let claim = async || server.claims(&worker, &Claim::default()).await.pop().unwrap();
    let (one, again) = (claim().await, claim().await);
    assert_eq!((one.run_id.as_str(), &again.lease), (first.as_str(), &one.lease), "nobody said that it was started");
    let leases = vec![LeaseOf { run_id: one.run_id.clone(), lease: one.lease, stopping: false }];
    server.client.heartbeat(&worker, &Heartbeat { leases, ..Heartbeat::default() }).await.unwrap();
    assert_eq!(server.state(&one.run_id).await, State::Running, "naming a lease is a sign of work");
    assert_eq!(claim().await.run_id, second);
}

/// The client went away while its claim waited: the next run must not go to nobody.
async fn a_poll_that_hung_up_gets_nothing(on: On) {
    let server = Server::start(on).await;
    let (gone, alive) = (server.worker("gone").await, server.worker("alive").await);
    let mut stream = server.connect().await;
    let body = json!({"wait_ms": LONG_MS}).to_string();
    let head = format!("POST /api/v1/workers/{gone}/claim HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    eventually("the poll waits", async || server.app.dispatcher.waiting() == 1).await;
    drop(stream);
    eventually("the poll is gone", async || server.app.dispatcher.waiting() == 0).await;
    let poll = server.parked(&alive).await;
    let id = server.submit().await;
    assert_eq!(soon(poll).await[0].run_id, id);
}

#[derive(Default)]
struct Rung(AtomicBool);

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The connection may break in the moment between the claim's answer and its being sent. The run is the worker's then,
/// its heartbeats keep it, and only a repeated claim can find it.
async fn a_claim_dropped_with_its_answer_is_found_again(on: On) {
    let server = Server::start(on).await;
    let caller = Caller { key_id: "test".into(), scopes: vec![Scope::Admin], namespace: None };
    for claim_no in [Some(7), None] {
        let worker = server.worker("one").await;
        let claim = Claim { wait_ms: Some(LONG_MS), claim_no, ..Claim::default() };
        let id = worker.parse().unwrap();
        let mut poll = Box::pin(service::claim::many(&server.app, &caller, id, claim.clone()));
        let rung = Arc::new(Rung::default());
        let waker = Waker::from(rung.clone());
        // Until it is parked, every wake-up is only a step on the way.
        while server.app.dispatcher.waiting() == 0 {
            assert!(poll.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            tokio::task::yield_now().await;
        }
        let _ = poll.as_mut().poll(&mut Context::from_waker(&waker));
        rung.0.store(false, Ordering::SeqCst);
        let run = server.submit().await;
        eventually("the answer is there", async || rung.0.load(Ordering::SeqCst)).await;
        assert_eq!(server.state(&run).await, State::Assigned);
        drop(poll);
        let again = server.claims(&worker, &claim).await;
        assert_eq!((again[0].run_id.as_str(), again[0].epoch), (run.as_str(), 1), "{claim_no:?}");
    }
}

async fn a_worker_gets_only_what_it_can_do(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    let android = server.submit_run(&SubmitRun::new("builds", "android")).await;
    server.submit_run(&SubmitRun::new("other", "ios")).await;
    let ios = server.submit().await;
    assert_eq!(server.claim(&worker).await.run_id, ios, "what it cannot do is not in the way");
    assert!(server.claims(&worker, &Claim { max: Some(9), ..Claim::default() }).await.len() <= 1);
    assert_eq!(server.state(&android).await, State::Pending);
    for wrong in [json!({"types": ["android"]}), json!({"queue": "other"}), json!({"most": 1}), json!({"max": -1})] {
        let path = format!("/api/v1/workers/{worker}/claim");
        assert_eq!(server.call("POST", &path, wrong.to_string()).await.refusal(), "422 invalid", "{wrong}");
    }
}

async fn a_worker_gets_no_more_than_it_has_room_for(on: On) {
    let server = Server::start(on).await;
    server.client.submit_batch(&SubmitBatch { runs: vec![run(); 20] }).await.unwrap();
    let worker = server.worker("one").await;
    let all = || Claim { max: Some(1_000), ..started_claim() };
    let held = server.claims(&worker, &all()).await;
    assert_eq!(held.len(), 10, "its max_concurrent");
    assert_eq!(refusal(server.client.claim(&worker, &all()).await), "409 worker_full");
    server.client.complete(&held[0].run_id, &complete(&held[0].lease)).await.unwrap();
    assert_eq!(server.claims(&worker, &all()).await.len(), 1);
}

async fn order_is_priority_then_submission(on: On) {
    let server = Server::start(on).await;
    let mut expected = Vec::new();
    for priority in [5, 9, 0, 5, 9] {
        expected.push((priority, server.submit_run(&SubmitRun { priority: Some(priority), ..run() }).await));
    }
    expected.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    let worker = server.worker("one").await;
    let mut got = Vec::new();
    for _ in 0..5 {
        got.push(server.claim(&worker).await.run_id);
    }
    assert_eq!(got, expected.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
}

async fn what_is_freed_wakes_who_waits(on: On) {
    let server = Server::start(on).await;
    let limits = QueueLimits { key_limit: Some(Some(1)), ..QueueLimits::default() };
    server.client.limit_queue("default", "builds", &limits).await.unwrap();
    let keyed = SubmitRun { key: Some("app".into()), ..run() };
    let first = server.submit_run(&keyed).await;
    let second = server.submit_run(&keyed).await;
    let (one, two) = (server.worker("one").await, server.worker("two").await);
    let held = server.claim(&one).await;
    assert_eq!(held.run_id, first);
    let poll = server.parked(&two).await;
    server.client.complete(&held.run_id, &complete(&held.lease)).await.unwrap();
    let unblocked = soon(poll).await.pop().unwrap();
    assert_eq!(unblocked.run_id, second, "the key has room again");
    let poll = server.parked(&one).await;
    server.client.give_back(&second, &give_back(&unblocked.lease)).await.unwrap();
    assert_eq!(soon(poll).await[0].run_id, second);
}

on_both!(
    a_waiting_claim_is_woken_by_a_submit,
    a_claim_without_work_ends_with_its_wait,
    a_waiting_claim_is_woken_when_a_run_becomes_due,
    a_claim_repeated_with_its_number_gives_the_same_runs,
    a_repeated_claim_leaves_out_what_is_done,
    what_a_worker_does_not_know_of_goes_back,
    without_a_number_unstarted_runs_come_again,
    a_poll_that_hung_up_gets_nothing,
    a_claim_dropped_with_its_answer_is_found_again,
    a_worker_gets_only_what_it_can_do,
    a_worker_gets_no_more_than_it_has_room_for,
    order_is_priority_then_submission,
    what_is_freed_wakes_who_waits,
);

/// A server that hears of a worker for the first time does not know how long ago its last sign of life was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_on_another_server_is_a_sign_of_life() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let here = Server::on_database(database.url(), clock.clone()).await;
    let there = Server::on_database(database.url(), clock.clone()).await;
    here.submit().await;
    let worker = here.worker("one").await;
    let claim = Claim { claim_no: Some(1), ..Claim::default() };
    let lease = here.claims(&worker, &claim).await.remove(0).lease;
    let ttl_ms = here.app.settings.lease_ttl_ms as i64;
    clock.advance(ttl_ms - 1);
    assert_eq!(there.claims(&worker, &claim).await.remove(0).lease, lease);
    let known = there.app.store.worker(worker.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(known.lease_until, START + ttl_ms - 1 + ttl_ms);
}

/// Two servers on one database: work that comes in here wakes who waits there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submit_on_one_server_wakes_a_claim_on_another() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let here = Server::on_database(database.url(), clock.clone()).await;
    let there = Server::on_database(database.url(), clock).await;
    let worker = there.worker("one").await;
    let poll = there.parked(&worker).await;
    let id = here.submit().await;
    let claimed = soon(poll).await.pop().unwrap();
    assert_eq!(claimed.run_id, id);
    // The lease is good on every server.
    assert_eq!(here.client.complete(&id, &complete(&claimed.lease)).await.unwrap().state, State::Completed);
}
