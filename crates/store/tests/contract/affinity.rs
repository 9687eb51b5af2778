//! Warm caches: preferred, never waited for.

use baton_core::WorkerId;
use baton_store::{ClaimSlot, Lane, NewRun};

use crate::rig::{Rig, contract, lease, run, slot};

contract!(
    the_worker_that_last_finished_the_key_is_preferred,
    a_run_never_waits_for_its_preferred_worker,
    the_preference_survives_a_restart_of_the_worker,
    a_warm_cache_does_not_jump_the_line,
    a_cache_that_was_warm_long_ago_is_forgotten,
);

async fn the_worker_that_last_finished_the_key_is_preferred(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (cold, warm) = (rig.worker("cold").await, rig.worker("warm").await);
    finish(&rig, lane, warm, "warm").await;
    rig.submit(warmed(lane)).await;
    let answer = rig.claim_for(vec![named(cold, "cold", lane), named(warm, "warm", lane)], lane).await;
    assert_eq!(answer.claimed.iter().map(|claimed| claimed.slot).collect::<Vec<_>>(), [1]);
    // The newest finisher counts.
    finish(&rig, lane, cold, "cold").await;
    rig.submit(warmed(lane)).await;
    let answer = rig.claim_for(vec![named(warm, "warm", lane), named(cold, "cold", lane)], lane).await;
    assert_eq!(answer.claimed.iter().map(|claimed| claimed.slot).collect::<Vec<_>>(), [1]);
}

async fn a_run_never_waits_for_its_preferred_worker(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (cold, warm) = (rig.worker("cold").await, rig.worker("warm").await);
    finish(&rig, lane, warm, "warm").await;
    let id = rig.submit(warmed(lane)).await;
    let answer = rig.claim_for(vec![named(cold, "cold", lane)], lane).await;
    assert_eq!(answer.claimed.iter().map(|claimed| claimed.run).collect::<Vec<_>>(), [id]);
}

async fn the_preference_survives_a_restart_of_the_worker(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (cold, warm) = (rig.worker("cold").await, rig.worker("warm").await);
    finish(&rig, lane, warm, "warm").await;
    let reborn = rig.worker("warm").await;
    rig.submit(warmed(lane)).await;
    let answer = rig.claim_for(vec![named(cold, "cold", lane), named(reborn, "warm", lane)], lane).await;
    assert_eq!(answer.claimed.iter().map(|claimed| claimed.slot).collect::<Vec<_>>(), [1]);
}

async fn a_cache_that_was_warm_long_ago_is_forgotten(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (cold, warm) = (rig.worker("cold").await, rig.worker("warm").await);
    finish(&rig, lane, warm, "warm").await;
    rig.clock.advance(1_000);
    let served = async || {
        rig.submit(warmed(lane)).await;
        let answer = rig.claim_for(vec![named(cold, "cold", lane), named(warm, "warm", lane)], lane).await;
        answer.claimed[0].slot
    };
    rig.store.retain(1_000, 1 << 40, 1 << 40, 10).await.unwrap();
    assert_eq!(served().await, 1);
    rig.store.retain(999, 1 << 40, 1 << 40, 10).await.unwrap();
    assert_eq!(served().await, 0);
}

async fn a_warm_cache_does_not_jump_the_line(rig: Rig) {
    let (ios, android) = (rig.lane("ios").await, rig.lane("android").await);
    let warm = rig.worker("warm").await;
    finish(&rig, android, warm, "warm").await;
    let urgent = rig.submit(NewRun { priority: 9, ..run(ios) }).await;
    rig.submit(warmed(android)).await;
    let only = ClaimSlot { name: "warm".into(), ..slot(warm, &[ios, android], 1) };
    let answer = rig.claim_for(vec![only], ios).await;
    assert_eq!(answer.claimed.iter().map(|claimed| claimed.run).collect::<Vec<_>>(), [urgent]);
}

/// Has this worker finish a run with the affinity key.
async fn finish(rig: &Rig, lane: Lane, worker: WorkerId, name: &str) {
    rig.submit(warmed(lane)).await;
    let claimed = rig.claim_for(vec![named(worker, name, lane)], lane).await.claimed;
    rig.complete(lease(&claimed[0])).await;
}

fn warmed(lane: Lane) -> NewRun {
    NewRun { affinity: Some("app".into()), ..run(lane) }
}

fn named(worker: WorkerId, name: &str, lane: Lane) -> ClaimSlot {
    ClaimSlot { name: name.into(), ..slot(worker, &[lane], 1) }
}
