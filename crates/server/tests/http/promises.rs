//! Promises about time, on the real clock: how soon work is picked up, and when it is taken back.

use std::time::{Duration, Instant};

use baton::proto::{Claim, Heartbeat, SubmitRun};
use baton_core::State;

use crate::harness::{On, Server, on_both, run, soon};

const TTL_MS: u64 = 1_000;

async fn short_leases(on: On) -> Server {
    Server::real(on, |settings| {
        settings.lease_ttl_ms = TTL_MS;
        settings.heartbeat_interval_ms = 300;
    })
    .await
}

async fn a_delayed_run_is_claimed_within_50_ms_of_being_due(on: On) {
    let server = Server::real(on, |_| {}).await;
    let worker = server.worker("one").await;
    for delay_ms in [150, 400] {
        let poll = server.parked(&worker).await;
        let id = server.submit_run(&SubmitRun { delay_ms: Some(delay_ms), ..run() }).await;
        let claimed = soon(poll).await;
        assert_eq!(claimed[0].run_id, id);
        let run = server.client.run(&id).await.unwrap();
        let late = run.claimed_at.unwrap().0 - run.due_at.0;
        assert!((0..50).contains(&late), "claimed {late} ms after it was due");
        server.client.complete(&id, &crate::harness::complete(&claimed[0].lease)).await.unwrap();
    }
}

async fn a_submit_reaches_a_waiting_worker_within_milliseconds(on: On) {
    let server = Server::real(on, |_| {}).await;
    let worker = server.worker("one").await;
    let mut best = i64::MAX;
    for _ in 0..5 {
        let poll = server.parked(&worker).await;
        let id = server.submit().await;
        let claimed = soon(poll).await.pop().unwrap();
        let run = server.client.run(&id).await.unwrap();
        best = best.min(run.claimed_at.unwrap().0 - run.submitted_at.0);
        server.client.complete(&id, &crate::harness::complete(&claimed.lease)).await.unwrap();
    }
    assert!(best < 100, "the fastest of five took {best} ms");
}

async fn a_dead_workers_run_is_claimable_within_its_lease_and_a_second(on: On) {
    let server = short_leases(on).await;
    let other = server.worker("other").await;
    // The server must have heard long enough to call anybody dead; only then is the promise measured.
    let ready = Duration::from_millis(server.settings.heartbeat_interval_ms + 1_000);
    let living = keep_alive(&server, &other);
    tokio::time::sleep(ready).await;
    let (_, claimed) = server.held().await;
    let last_sign = Instant::now();
    let poll = server.parked(&other).await;
    let again = soon(poll).await.pop().unwrap();
    let took = last_sign.elapsed();
    assert_eq!((again.run_id.as_str(), again.epoch), (claimed.run_id.as_str(), 2));
    assert!(took <= Duration::from_millis(TTL_MS + 1_000), "took {took:?}");
    assert!(took >= Duration::from_millis(TTL_MS - 100), "taken from a worker that was still alive: {took:?}");
    living.abort();
}

async fn a_live_workers_run_is_never_taken(on: On) {
    let server = short_leases(on).await;
    let (holder, claimed) = server.held().await;
    let other = server.worker("other").await;
    let living = [keep_alive(&server, &holder), keep_alive(&server, &other)];
    // Four leases long somebody else waits for exactly this run.
    let wait = Claim { wait_ms: Some(4 * TTL_MS), ..Claim::default() };
    assert!(server.claims(&other, &wait).await.is_empty());
    let run = server.client.run(&claimed.run_id).await.unwrap();
    assert_eq!((run.state, run.epoch, run.losses), (State::Running, 1, 0));
    living.iter().for_each(tokio::task::JoinHandle::abort);
}

fn keep_alive(server: &Server, worker: &str) -> tokio::task::JoinHandle<()> {
    let (client, worker) = (server.client.clone(), worker.to_owned());
    tokio::spawn(async move {
        loop {
            client.heartbeat(&worker, &Heartbeat::default()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
}

on_both!(
    a_delayed_run_is_claimed_within_50_ms_of_being_due,
    a_submit_reaches_a_waiting_worker_within_milliseconds,
    a_dead_workers_run_is_claimable_within_its_lease_and_a_second,
    a_live_workers_run_is_never_taken,
);
