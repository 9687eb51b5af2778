//! SIGTERM: the server says goodbye to whoever waits, and goes.

use std::time::Duration;

use baton::proto::{NAMESPACE_DEFAULT, PauseQueue};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, QUEUE, Site, Store, job, submit};
use crate::verdict::assert_completed_once;
use crate::wait::eventually;

const POLLS: usize = 20;

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

on_both_stores!(a_stopped_server_answers_parked_polls_and_ends_well);
