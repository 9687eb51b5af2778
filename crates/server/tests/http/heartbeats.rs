//! Heartbeats that wait for news. None of them is answered because its time is over, unless it says so: that would take longer than any
//! test waits.

use baton::proto::{ClaimedRun, HealthReport, Heartbeat, HeartbeatAnswer, LeaseOf, Time};
use baton::{Client, ClientError};
use baton_server::Settings;
use baton_store::Clock;
use tokio::task::JoinHandle;

use crate::harness::{KEY, LONG_MS, On, PATIENCE, START, Server, eventually, on_both, refusal, soon};

/// Longer than a test waits, even four fifths of it.
fn slow(settings: &mut Settings) {
    settings.heartbeat_interval_ms = 2 * LONG_MS;
    settings.lease_ttl_ms = 6 * LONG_MS;
}

fn waiting_for(runs: &[(&ClaimedRun, bool)]) -> Heartbeat {
    let lease = |(run, stopping): &(&ClaimedRun, bool)| LeaseOf {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        stopping: *stopping,
    };
    Heartbeat { leases: runs.iter().map(lease).collect(), wait_ms: Some(LONG_MS), ..Heartbeat::default() }
}

type Waiting = JoinHandle<Result<HeartbeatAnswer, ClientError>>;

/// Sends a heartbeat, and returns once it waits: its leases have been renewed.
async fn parked(server: &Server, worker: &str, beat: Heartbeat) -> Waiting {
    let before = server.client.worker(worker).await.unwrap().lease_until;
    server.clock.advance(1);
    let (client, id) = (server.client.clone(), worker.to_owned());
    let waiting = tokio::spawn(async move { client.heartbeat(&id, &beat).await });
    eventually("the heartbeat has renewed the leases", async || {
        server.client.worker(worker).await.unwrap().lease_until > before
    })
    .await;
    waiting
}

/// The answer to a heartbeat that has no reason to wait.
async fn at_once(server: &Server, worker: &str, beat: &Heartbeat) -> HeartbeatAnswer {
    tokio::time::timeout(PATIENCE, server.client.heartbeat(worker, beat)).await.expect("it waits").unwrap()
}

async fn a_cancel_is_heard_at_once(on: On) {
    let server = Server::with(on, slow).await;
    let (worker, run) = server.held().await;
    server.submit().await;
    let other = server.claim(&worker).await;
    let waiting = parked(&server, &worker, waiting_for(&[(&run, false), (&other, false)])).await;
    server.client.cancel(&run.run_id).await.unwrap();
    let answer = soon(waiting).await.unwrap();
    assert_eq!((answer.cancelling, answer.lost), (vec![run.run_id.clone()], vec![]));
    // What was cancelled before it came is said at once, and what the worker knows already is not said over and over.
    let said = at_once(&server, &worker, &waiting_for(&[(&run, false)])).await;
    assert_eq!(said.cancelling, std::slice::from_ref(&run.run_id));
    let waiting = parked(&server, &worker, waiting_for(&[(&run, true), (&other, false)])).await;
    server.client.cancel(&other.run_id).await.unwrap();
    let mut cancelling = soon(waiting).await.unwrap().cancelling;
    cancelling.sort_unstable();
    let mut both = [run.run_id, other.run_id];
    both.sort_unstable();
    assert_eq!(cancelling, both);
}

/// A run that came after the heartbeat was sent: the worker has to send another one, which names it.
async fn a_cancel_of_a_run_it_does_not_name_ends_the_wait(on: On) {
    let server = Server::with(on, slow).await;
    let worker = server.worker("one").await;
    let waiting = parked(&server, &worker, waiting_for(&[])).await;
    server.submit().await;
    let run = server.claim(&worker).await;
    server.client.cancel(&run.run_id).await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().cancelling, std::slice::from_ref(&run.run_id));
    let said = at_once(&server, &worker, &waiting_for(&[(&run, false)])).await;
    assert_eq!(said.cancelling, [run.run_id]);
}

async fn a_drain_and_the_end_are_heard_at_once(on: On) {
    let server = Server::with(on, slow).await;
    let (worker, run) = server.held().await;
    let waiting = parked(&server, &worker, waiting_for(&[(&run, false)])).await;
    server.client.drain(&worker).await.unwrap();
    assert!(soon(waiting).await.unwrap().should_drain);
    // A worker that drains waits for news like any other.
    let waiting = parked(&server, &worker, waiting_for(&[(&run, false)])).await;
    server.client.force_offline(&worker).await.unwrap();
    let heard = match soon(waiting).await {
        // News of the drain comes again through the database, and may come as late as this.
        Ok(drains) if drains.should_drain => server.client.heartbeat(&worker, &waiting_for(&[(&run, false)])).await,
        other => other,
    };
    assert_eq!(refusal(heard), "409 worker_offline");
}

async fn a_heartbeat_waits_no_longer_than_it_may(on: On) {
    let server = Server::with(on, |settings| {
        settings.heartbeat_interval_ms = 50;
        settings.lease_ttl_ms = 10_000;
    })
    .await;
    let offered = server.client.register(&crate::harness::worker("one")).await.unwrap();
    assert_eq!(offered.heartbeat_wait_ms, 40);
    let answer = server.client.heartbeat(&offered.worker_id, &waiting_for(&[])).await.unwrap();
    assert_eq!((answer.lease_until, answer.should_drain), (Time(START + 10_000), false));
}

async fn a_server_that_stops_answers_them(on: On) {
    let mut server = Server::with(on, slow).await;
    let (worker, run) = server.held().await;
    let waiting = parked(&server, &worker, waiting_for(&[(&run, false)])).await;
    server.stop();
    let answer = soon(waiting).await.unwrap();
    assert_eq!((answer.status.as_str(), answer.cancelling.len()), ("ONLINE", 0));
    server.stopped().await;
}

async fn a_worker_that_wants_no_work_gets_none_and_says_why(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    server.submit().await;
    let tired = Heartbeat { unfit: Some("its disk is full".into()), ..Heartbeat::default() };
    assert_eq!(server.client.heartbeat(&worker, &tired).await.unwrap().unfit.as_deref(), Some("its disk is full"));
    assert_eq!(server.client.worker(&worker).await.unwrap().unfit.as_deref(), Some("its disk is full"));
    assert_eq!(refusal(server.client.claim(&worker, &Default::default()).await), "409 worker_unfit");
    let well = Heartbeat { health: Some(HealthReport::default()), ..Heartbeat::default() };
    assert_eq!(server.client.heartbeat(&worker, &well).await.unwrap().unfit, None);
    server.claim(&worker).await;
}

on_both!(
    a_cancel_is_heard_at_once,
    a_cancel_of_a_run_it_does_not_name_ends_the_wait,
    a_drain_and_the_end_are_heard_at_once,
    a_heartbeat_waits_no_longer_than_it_may,
    a_server_that_stops_answers_them,
    a_worker_that_wants_no_work_gets_none_and_says_why,
);

/// The worker waits at one server, and somebody cancels at another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_is_heard_at_another_server() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let here = Server::on_database_with(database.url(), clock.clone(), slow).await;
    let there = Server::on_database_with(database.url(), clock, slow).await;
    let (worker, run) = here.held().await;
    let waiting = parked(&here, &worker, waiting_for(&[(&run, false)])).await;
    let elsewhere = Client::new(&format!("http://{}", there.address), KEY).unwrap();
    elsewhere.cancel(&run.run_id).await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().cancelling, [run.run_id]);
}
