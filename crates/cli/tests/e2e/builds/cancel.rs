//! How soon a build learns that somebody cancelled it.

use std::time::{Duration, Instant};

use baton::proto::BuildStatus;

use super::{Yard, endless, processes, wait_until_gone};
use crate::on_both_stores;
use crate::site::{Leases, Store};

/// A worker with nothing to report says so this seldom: who is told only then is told too late.
const SELDOM: Leases = Leases::of_ms(600_000, 200_000);
/// Nothing but the cancel itself happens within this time.
const SOON: Duration = Duration::from_secs(20);

async fn a_cancelled_build_is_dead_at_once(store: Store) {
    let yard = Yard::new(store, SELDOM).await;
    let running = yard.path("running");
    let worker = yard.worker("one", &["--recipe", &endless(&running)]);
    let id = yard.submit_detached().await;
    let pids = processes(&running).await;
    let begun = Instant::now();
    yard.client().cancel_build(&id).await.unwrap();
    wait_until_gone(&pids).await;
    let took = begun.elapsed();
    println!("dead after {took:?}");
    assert!(took < SOON, "it took {took:?}; the worker: {}", worker.output());
    yard.wait_for(&id, BuildStatus::Cancelled).await;
    assert!(begun.elapsed() < SOON, "it was over after {:?}", begun.elapsed());
}

/// The second one is told while the first still comes to its end.
async fn one_after_the_other_is_cancelled_at_once(store: Store) {
    let yard = Yard::new(store, SELDOM).await;
    let place = yard.path("running");
    std::fs::create_dir(&place).unwrap();
    // It needs a moment to stop, which it is given.
    let recipe = format!(
        "trap 'while [ ! -e \"{0}/go\" ]; do sleep 0.05; done; exit 1' TERM; \
         touch '{0}'/$BATON_BUILD_ID; while :; do sleep 0.05; done",
        place.display()
    );
    let worker = yard.worker("one", &["--recipe", &recipe, "--concurrency", "2"]);
    let (first, second) = (yard.submit_detached().await, yard.submit_detached().await);
    for id in [&first, &second] {
        crate::wait::eventually("a build at work", async || place.join(id).exists().then_some(())).await;
    }
    let begun = Instant::now();
    for id in [&first, &second] {
        yard.client().cancel_build(id).await.unwrap();
        let stopping = format!("stopping run_id={id}");
        worker.wait_for_line(&stopping, SOON).await;
    }
    std::fs::write(place.join("go"), "").unwrap();
    for id in [&first, &second] {
        yard.wait_for(id, BuildStatus::Cancelled).await;
    }
    assert!(begun.elapsed() < SOON, "it was over after {:?}", begun.elapsed());
}

on_both_stores!(a_cancelled_build_is_dead_at_once, one_after_the_other_is_cancelled_at_once);
