//! `kill -9` of PostgreSQL under a running server.

use baton_core::State;
use baton_testkit::Postgres;

use crate::hands::Hands;
use crate::site::Gate;
use crate::site::{Leases, client, job, serve, submit, worker};
use crate::stream::{Stream, assert_first_in_first_out, ids};
use crate::verdict::{assert_completed_once, wait_for_count};

const HELD: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_postgres_is_waited_for_and_nothing_is_lost() {
    let postgres = Postgres::durable().await;
    let database = postgres.new_database().await;
    let home = tempfile::tempdir().unwrap();
    let mut server = serve(home.path(), Some(database.url()), Leases::SHORT).await;
    let (client, gate) = (client(&server.url()), Gate::in_directory(home.path()));
    let held = submit(&client, vec![job(); HELD]).await;
    let worker = worker(&server.url(), HELD as u32, &gate.command());
    wait_for_count(&client, State::Running, HELD as u64).await;
    let hands = Hands::register(&client, 1_000).await;

    let stream = Stream::start(&client, 16, 40);
    stream.flows().await;
    postgres.kill9();
    stream.assert_unfinished();
    stream.is_told_to_wait().await;
    client.healthz().await.expect("the server itself lives");
    assert!(client.readyz().await.is_err(), "ready without a store");
    // Away for longer than a lease lives: nobody could be heard, so nobody may be called silent.
    tokio::time::sleep(Leases::SHORT.ttl + Leases::SHORT.heartbeat).await;
    postgres.start_again().await;
    stream.flows_again().await;
    let submitted = stream.finish().await;

    let claimed = hands.claim_all(submitted.len()).await;
    assert_first_in_first_out(&submitted, claimed.iter().map(|run| run.run_id.as_str()));
    hands.complete(&claimed).await;
    gate.open();
    wait_for_count(&client, State::Completed, (submitted.len() + HELD) as u64).await;
    assert!(server.process().ended().is_none());
    let all: Vec<String> = held.iter().cloned().chain(ids(&submitted)).collect();
    for ended in assert_completed_once(&client, &all).await {
        assert_eq!(ended.run.epoch, 1, "a live worker lost {ended:?}; it printed:\n{}", worker.output());
    }
    assert_eq!(hands.complaints(), Vec::<String>::new());
}
