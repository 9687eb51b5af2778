//! SIGTERM: the server says goodbye to whoever waits, and goes.

use std::time::Duration;

use baton::Client;
use baton::proto::{NAMESPACE_DEFAULT, PauseQueue};
use baton_core::State;
use baton_testkit::{Baton, Process};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{BATON, Leases, QUEUE, Site, Store, job, submit};
use crate::verdict::assert_completed_once;
use crate::wait::eventually;

const POLLS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(30);

async fn a_stopped_server_answers_parked_polls_and_ends_well(store: Store) {
    let mut site = Site::start(store, Leases::LONG).await;
    let client = site.client();
    let mut polls = JoinSet::new();
    for _ in 0..POLLS {
        let hands = Hands::register(&client, 1).await;
        // Not repeated: what counts is the answer to this very poll.
        polls.spawn(async move { hands.claim_once(Duration::from_secs(60)).await });
    }
    let parked = format!("baton_polls_waiting {POLLS}");
    eventually("parked polls", async || {
        client.metrics().await.expect("it answers").lines().any(|line| line == parked).then_some(())
    })
    .await;
    // A paused queue keeps the polls parked although there is work.
    client.pause_queue(NAMESPACE_DEFAULT, QUEUE, &PauseQueue::default()).await.unwrap();
    let ids = submit(&client, vec![job(); 3]).await;

    let asked = Instant::now();
    let status = site.server.stop().await;
    let took = asked.elapsed();
    assert_eq!(status.code(), Some(0), "{}", site.server.process().output());
    assert!(took < Duration::from_secs(3), "it took {took:?}");
    for answer in polls.join_all().await {
        assert!(answer.expect("an answer, not a broken connection").is_empty());
    }

    site.server.restart().await;
    client.resume_queue(NAMESPACE_DEFAULT, QUEUE).await.unwrap();
    let hands = Hands::register(&client, 3).await;
    hands.complete(&hands.claim_all(3).await).await;
    assert_completed_once(&client, &ids).await;
}

/// As in the guides: no address and no key, which commands find in the data directory. A server that stops takes its address
/// away.
async fn what_must_not_be_lost_waits_for_the_server_of_this_machine(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let data = home.path().to_str().unwrap();
    let mut arguments = vec!["--data", data];
    arguments.extend(database.iter().flat_map(|database| ["--database", database.url()]));
    let mut server = Baton::serve(&arguments, &[]).await;
    let baton = |arguments: &[&str]| Process::spawn(BATON, arguments, [("BATON_DATA", data)]);
    let key = std::fs::read_to_string(home.path().join("admin.key")).unwrap();
    let client = Client::new(&server.url(), key.trim()).unwrap();
    let id = &submit(&client, vec![job()]).await[0];
    server.stop().await;
    let mut waiting = baton(&["run", "cancel", id]);
    waiting.wait_for_line("still trying, for 60 seconds", PATIENCE).await;
    let mut hasty = baton(&["run", "get", id]);
    assert_eq!(hasty.wait(PATIENCE).await.code(), Some(5), "{}", hasty.output());
    server.restart().await;
    assert!(waiting.wait(PATIENCE).await.success(), "{}", waiting.output());
    assert_eq!(client.run(id).await.unwrap().state, State::Cancelled);
    // Where no server has ever been, none is waited for: the wait would be longer than this test's.
    let nowhere = tempfile::tempdir().unwrap();
    let mut lost = Process::spawn(BATON, ["run", "cancel", id], [("BATON_DATA", nowhere.path().to_str().unwrap())]);
    assert_eq!(lost.wait(PATIENCE).await.code(), Some(5), "{}", lost.output());
}

on_both_stores!(
    a_stopped_server_answers_parked_polls_and_ends_well,
    what_must_not_be_lost_waits_for_the_server_of_this_machine,
);
