//! `kill -9` of a worker that holds many runs.

use baton_core::State;

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, Site, Store, job, submit};
use crate::verdict::{assert_completed_once, wait_for_count};

const RUNS: usize = 40;

async fn a_killed_workers_runs_are_claimable_again_in_time(store: Store) {
    let site = Site::start(store, Leases::SHORT).await;
    let client = site.client();
    let ids = submit(&client, vec![job(); RUNS]).await;
    let mut victim = site.worker(RUNS as u32, "exec sleep 600");
    wait_for_count(&client, State::Running, RUNS as u64).await;
    let holder = client.run(&ids[0]).await.unwrap().worker_id.expect("somebody holds it");

    // The poll of the successor is parked when the victim falls, so it measures when the runs can be had.
    let successor = Hands::register(&client, RUNS as u32).await;
    let (_, taken) = tokio::join!(async { victim.sigkill() }, successor.claim_all(RUNS));

    assert!(taken.iter().all(|run| run.epoch == 2), "{taken:?}");
    successor.complete(&taken).await;
    let fallen = client.worker(&holder).await.unwrap();
    assert_eq!(fallen.status, "OFFLINE");
    let longest = Leases::SHORT.ttl.as_millis() as i64 + 1_000;
    for ended in assert_completed_once(&client, &ids).await {
        assert_eq!((ended.run.epoch, ended.run.losses, ended.run.failures), (2, 1, 0));
        assert_eq!(ended.run.worker_id.as_deref(), Some(successor.id()));
        // Both moments are on the store's clock, so a slow test does not count.
        let silent = ended.claimed_at(2) - fallen.seen_at.0;
        assert!(silent <= longest, "claimed {silent} ms after the last sign of life, {longest} are promised");
    }
    assert_eq!(successor.complaints(), Vec::<String>::new());
}

on_both_stores!(a_killed_workers_runs_are_claimable_again_in_time);
