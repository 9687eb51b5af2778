//! The life of a pool of local machines, one of whose agents falls.

use baton::proto::{ChangePool, CreatePool, OpenClaim};
use baton_core::pools::ClaimState;

use super::ATTEMPTS;
use crate::runner_pools::ground::Ground;
use crate::site::Store;

const POOL: &str = "linux";

/// Sends a pool once around for each point, with an agent that falls there.
pub async fn every_point(store: Store, points: Vec<&'static str>) {
    let mut ground = Ground::new(store).await;
    let (falls, fails) = (ground.home.path().join("falls"), ground.home.path().join("fails"));
    let mut pool = CreatePool { min_idle: 2, max_size: Some(6), idle_ms: Some(200), ..CreatePool::new(POOL) };
    let register = format!("if rm '{}' 2>/dev/null; then exit 1; fi", fails.display());
    pool.options.insert("agent.crash_file".into(), falls.display().to_string());
    pool.options.insert("agent.register_hook".into(), register);
    ground.create(&pool).await;
    ground.settled(POOL, 2).await;
    for point in points {
        if point == "agent.said_failed" {
            std::fs::write(&fails, "").expect("our own directory");
        }
        std::fs::write(&falls, point).expect("our own directory");
        for attempt in 0..ATTEMPTS {
            around(&mut ground, &format!("{point}-{attempt}")).await;
            if !falls.exists() {
                break;
            }
        }
        assert!(!falls.exists(), "nobody comes to the point {point}");
    }
    ground.delete(POOL).await;
}

/// A machine comes, two are claimed and released, and one goes.
async fn around(ground: &mut Ground, run: &str) {
    let keep = |min_idle| ChangePool { min_idle: Some(min_idle), ..ChangePool::default() };
    ground.change(POOL, keep(3)).await;
    ground.settled(POOL, 3).await;
    let claim = ground.claim(POOL, &OpenClaim::new(run, 2)).await;
    assert_eq!((claim.state, claim.count), (ClaimState::Ready, 2), "{run}: {claim:?}");
    let released = ground.release(POOL, run).await;
    assert_eq!(released.state, ClaimState::Released, "{run}: {released:?}");
    ground.settled(POOL, 3).await;
    ground.change(POOL, keep(2)).await;
    ground.settled(POOL, 2).await;
}
