//! `kill -9` of a worker that holds many runs.

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, Site, Store, job, submit};
use crate::verdict::assert_completed_once;
use crate::wait::eventually;

const RUNS: usize = 40;

async fn a_killed_workers_runs_are_claimable_again_in_time(store: Store) {
    let site = Site::start(store, Leases::SHORT).await;
    let client = site.client();
    let ids = submit(&client, vec![job(); RUNS]).await;
    let commands = site.home.path().join("commands");
    let mut victim = site.worker(RUNS as u32, &format!("echo $$ >> '{}'; exec sleep 600", commands.display()));
    let pids = eventually("all commands at work", async || {
        let pids = std::fs::read_to_string(&commands).ok()?;
        (pids.lines().count() == RUNS).then_some(pids)
    })
    .await;
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
    // Elsewhere than on Linux nobody tells a command that its worker is gone.
    #[cfg(target_os = "linux")]
    eventually("the end of the commands", async || (!pids.lines().any(is_alive)).then_some(())).await;
}

#[cfg(target_os = "linux")]
fn is_alive(pid: &str) -> bool {
    // What has ended and was not yet waited for has an empty command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

on_both_stores!(a_killed_workers_runs_are_claimable_again_in_time);
