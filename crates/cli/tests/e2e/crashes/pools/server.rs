//! The life of a pool of local machines, with a server that falls once.

use std::collections::BTreeSet;

use baton::proto::{ChangePool, ClaimView, CreatePool, OpenClaim};
use baton_core::pools::{ClaimReason, ClaimState};

use super::ATTEMPTS;
use crate::runner_pools::ground::{self, Ground};
use crate::site::Store;

const MIN_IDLE: u32 = 2;
const MAX_SIZE: u32 = 5;

/// A part of that life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// The pool is made, and gets its idle machines.
    Create,
    /// A run claims those and one more.
    Claim,
    /// Another run wants more than there can be.
    Impossible,
    /// A run stays longer than it may, and another one gives back what it has.
    Release,
    /// The pool is to keep no machines.
    Shrink,
}

/// Tells the story once for each point, with a server that falls there in one act.
pub async fn every_point(store: Store, falls_in: Act, points: &'static [&'static str]) {
    let mut ground = Ground::new(store).await;
    for point in points {
        for attempt in 0..ATTEMPTS {
            tell(&mut ground, falls_in, point, attempt).await;
            if ground.has_fallen() {
                break;
            }
        }
        assert!(ground.has_fallen(), "nobody comes to the point {point} in the act {falls_in:?}");
    }
}

async fn tell(ground: &mut Ground, falls_in: Act, point: &str, attempt: usize) {
    let arm = |act: Act| (act == falls_in).then_some(point);
    let pool = &format!("{}-{attempt}", point.replace(['.', ':'], "-"));
    let new = CreatePool { min_idle: MIN_IDLE, max_size: Some(MAX_SIZE), idle_ms: Some(200), ..CreatePool::new(pool) };
    ground.serve(arm(Act::Create)).await;
    ground.create(&new).await;
    ground.settled(pool, 2).await;

    ground.serve(arm(Act::Claim)).await;
    let wanted = OpenClaim::new("first", 3);
    let claim = ground.claim(pool, &wanted).await;
    assert_eq!(claim.state, ClaimState::Ready, "killed at {point}: {claim:?}");
    let again = ground.claim(pool, &wanted).await;
    assert_eq!(machines(&again), machines(&claim), "killed at {point}: the same run has the same machines");
    assert_eq!(machines(&claim).len(), 3);
    assert!(machines(&claim).is_subset(&ground::agents(ground.home.path())), "killed at {point}: {claim:?}");

    // It takes the two that may still be there and waits for a third, until there may be no third.
    ground.serve(arm(Act::Impossible)).await;
    let more = OpenClaim::new("more", 3);
    ground.open(pool, &more).await;
    ground.change(pool, ChangePool { max_size: Some(MIN_IDLE), ..ChangePool::default() }).await;
    let failed = ground.until_not_waiting(pool, "more").await;
    assert_eq!((failed.state, failed.reason), (ClaimState::Failed, Some(ClaimReason::Impossible)), "{failed:?}");
    ground.change(pool, ChangePool { max_size: Some(MAX_SIZE), ..ChangePool::default() }).await;

    // What has failed can be had under another name once there is room.
    ground.serve(arm(Act::Release)).await;
    let late = OpenClaim { max_runtime_ms: Some(300), ..OpenClaim::new("late", 1) };
    let filled = ground.claim(pool, &late).await;
    assert!(matches!(filled.state, ClaimState::Ready | ClaimState::Released), "killed at {point}: {filled:?}");
    let over = ground.until_ended(pool, "late").await;
    assert_eq!(over.reason, Some(ClaimReason::RuntimeOver), "killed at {point}: {over:?}");
    for _ in 0..2 {
        let released = ground.release(pool, "first").await;
        assert_eq!((released.state, released.reason), (ClaimState::Released, Some(ClaimReason::Done)), "{released:?}");
    }
    ground.settled(pool, 2).await;

    ground.serve(arm(Act::Shrink)).await;
    ground.change(pool, ChangePool { min_idle: Some(0), ..ChangePool::default() }).await;
    ground.settled(pool, 0).await;
    ground.delete(pool).await;
    ground.serve(None).await;
}

fn machines(claim: &ClaimView) -> BTreeSet<String> {
    claim.runners.iter().filter_map(|runner| runner.machine_id.clone()).collect()
}
