//! Promises about time, on the real clock: how soon work is picked up, and when it is taken back.

use std::time::{Duration, Instant};

use baton::proto::{Claim, Heartbeat, SubmitRun};
use baton_core::State;

use crate::harness::{On, Server, eventually, on_both, run, soon};

const TTL_MS: u64 = 1_500;

async fn short_leases(on: On) -> Server {
    Server::real(on, |settings| {
        settings.lease_ttl_ms = TTL_MS;
        settings.heartbeat_interval_ms = 300;
    })
    .await
}

/// The best of a few: a busy machine may be late at any time, a server that only looks now and then is always.
async fn a_delayed_run_is_claimed_within_50_ms_of_being_due(on: On) {
    let server = Server::real(on, |_| {}).await;
    let worker = server.worker("one").await;
    let mut best = i64::MAX;
    for delay_ms in [130, 170, 210, 250] {
        let poll = server.parked(&worker).await;
        let id = server.submit_run(&SubmitRun { delay_ms: Some(delay_ms), ..run() }).await;
        let claimed = soon(poll).await.pop().unwrap();
        assert_eq!(claimed.run_id, id);
        let run = server.client.run(&id).await.unwrap();
        let late = run.claimed_at.unwrap().0 - run.due_at.0;
        assert!(late >= 0, "claimed {late} ms after it was due");
        best = best.min(late);
        server.client.complete(&id, &crate::harness::complete(&claimed.lease)).await.unwrap();
    }
    assert!(best < 50, "the fastest was claimed {best} ms after it was due");
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
    let living = keep_alive(&server, &other);
    // The server must have heard long enough to call anybody dead; only then is the promise measured.
    let hears_ms = 2 * server.settings.heartbeat_interval_ms + 1_000;
    eventually("it has heard for long enough", async || server.app.hearing.since(hears_ms)).await;
    let before = Instant::now();
    let (_, claimed) = server.held().await;
    let after = Instant::now();
    let poll = server.parked(&other).await;
    let again = soon(poll).await.pop().unwrap();
    let (least, most) = (after.elapsed(), before.elapsed());
    assert_eq!((again.run_id.as_str(), again.epoch), (claimed.run_id.as_str(), 2));
    assert!(least <= Duration::from_millis(TTL_MS + 1_000), "took {least:?}");
    assert!(most >= Duration::from_millis(TTL_MS), "taken from a worker that was still alive: {most:?}");
    living.abort();
}

async fn a_live_workers_run_is_never_taken(on: On) {
    let server = short_leases(on).await;
    let (holder, claimed) = server.held().await;
    let other = server.worker("other").await;
    let living = [keep_alive(&server, &holder), keep_alive(&server, &other)];
    // Three leases long somebody else waits for exactly this run.
    let wait = Claim { wait_ms: Some(3 * TTL_MS), ..Claim::default() };
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
