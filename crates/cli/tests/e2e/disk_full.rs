//! A full disk under SQLite. The server runs with its files on a small file system of its own, which only it can see.

use std::time::Duration;

use baton::proto::SubmitRun;
use baton::{Client, ClientError};
use baton_core::State;
use serde_json::value::to_raw_value;

use crate::hands::Hands;
use crate::site::{BATON, Gate, Leases, client, job, submit, worker};
use crate::small_disk::{Ballast, SmallDisk};
use crate::verdict::{assert_completed_once, wait_for_count};
use crate::wait::eventually;

const HELD: usize = 4;

fn large_job(number: usize) -> SubmitRun {
    let input = to_raw_value(&"x".repeat(16_384)).expect("text is JSON");
    SubmitRun { idempotency_key: Some(format!("large-{number}")), input: Some(input), ..job() }
}

/// Submits until the server refuses, and returns what it acknowledged and the refusal.
async fn submit_until_refused(client: &Client) -> (Vec<String>, ClientError) {
    let mut ids = Vec::new();
    loop {
        match client.submit(&large_job(ids.len())).await {
            Ok(submitted) => ids.push(submitted.id),
            Err(refusal) => return (ids, refusal),
        }
        assert!(ids.len() < 10_000, "the disk does not get full");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_and_passes() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("disk");
    let disk = SmallDisk::at(data.clone(), "16m");
    let listen = format!("127.0.0.1:{}", baton_testkit::free_port());
    let arguments = ["serve", "--listen", &listen, "--data", data.to_str().expect("temporary paths are text")];
    let mut server = disk.spawn(BATON, arguments, Leases::SHORT.settings());
    let url = format!("http://{listen}");
    let (client, gate) = (client(&url), Gate::in_directory(home.path()));
    let started = tokio::time::Instant::now();
    while client.readyz().await.is_err() {
        assert!(server.ended().is_none(), "no server on a small disk:\n{}", server.output());
        assert!(started.elapsed() < Duration::from_secs(30), "it is not ready:\n{}", server.output());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let held = submit(&client, vec![job(); HELD]).await;
    let worker = worker(&url, HELD as u32, &gate.command());
    wait_for_count(&client, State::Running, HELD as u64).await;
    let ballast = Ballast::fill(&disk.seen_by(&server));
    let (acknowledged, refusal) = submit_until_refused(&client).await;
    assert!(matches!(&refusal, ClientError::Refused { status: 507, code, .. } if code == "disk_full"), "{refusal:?}");
    client.healthz().await.expect("the server lives");
    eventually("a server that is not ready", async || client.readyz().await.err()).await;
    for id in held.iter().chain(&acknowledged) {
        client.run(id).await.expect("what was acknowledged can be read");
    }
    // Full for longer than a lease lives: nobody could be heard, so nobody may be called silent.
    tokio::time::sleep(Leases::SHORT.ttl + 2 * Leases::SHORT.heartbeat).await;

    ballast.remove();
    let next = large_job(acknowledged.len());
    let refused_before =
        eventually("a submit after there is room again", async || client.submit(&next).await.ok()).await;
    let mut all = held.clone();
    all.extend(acknowledged);
    all.push(refused_before.id);
    let hands = Hands::register(&client, 1_000).await;
    for run in hands.claim_all(all.len() - HELD).await {
        hands.complete(&[run]).await;
    }
    gate.open();
    wait_for_count(&client, State::Completed, all.len() as u64).await;
    assert!(server.ended().is_none(), "{}", server.output());
    for ended in assert_completed_once(&client, &all).await {
        assert_eq!(ended.run.epoch, 1, "a live worker lost {ended:?}; it printed:\n{}", worker.output());
    }
}
