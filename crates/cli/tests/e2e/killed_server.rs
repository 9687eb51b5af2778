//! `kill -9` of the server in the middle of a stream of submits.

use std::time::Duration;

use baton_core::State;
use tokio::time::Instant;

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, Site, Store, job, submit};
use crate::stream::{Stream, assert_first_in_first_out, ids};
use crate::verdict::{assert_completed_once, wait_for_count};

const HELD: usize = 4;

async fn a_killed_server_loses_nothing_it_acknowledged(store: Store) {
    let mut site = Site::start(store, Leases::SHORT).await;
    let (client, gate) = (site.client(), site.gate());
    let held = submit(&client, vec![job(); HELD]).await;
    let worker = site.worker(HELD as u32, &gate.command());
    wait_for_count(&client, State::Running, HELD as u64).await;

    let stream = Stream::start(&client, 16, 40);
    stream.flows().await;
    site.server.kill9();
    stream.assert_unfinished();
    // Away for longer than a lease lives: nobody could be heard, so nobody may be called silent.
    tokio::time::sleep(Leases::SHORT.ttl + Leases::SHORT.heartbeat).await;
    site.server.restart().await;
    let ready = Instant::now();
    let hands = Hands::register(&client, 1_000).await;
    let first = hands.claim(1, Duration::from_secs(2)).await;
    assert_eq!(first.len(), 1, "what is pending can be claimed");
    assert!(ready.elapsed() < Duration::from_secs(2), "the first claim took {:?}", ready.elapsed());

    let submitted = stream.finish().await;
    let mut claimed = first;
    claimed.extend(hands.claim_all(submitted.len() - 1).await);
    assert_first_in_first_out(&submitted, claimed.iter().map(|run| run.run_id.as_str()));
    hands.complete(&claimed).await;
    gate.open();
    wait_for_count(&client, State::Completed, (submitted.len() + HELD) as u64).await;

    let all: Vec<String> = held.iter().cloned().chain(ids(&submitted)).collect();
    for ended in assert_completed_once(&client, &all).await {
        assert_eq!(ended.run.epoch, 1, "a live worker lost {ended:?}; it printed:\n{}", worker.output());
    }
    assert_eq!(hands.complaints(), Vec::<String>::new());
}

on_both_stores!(a_killed_server_loses_nothing_it_acknowledged);
