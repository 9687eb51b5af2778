//! A pool with idle runners, for tests that look into one store.

use std::collections::BTreeMap;

use baton_core::Epoch;
use baton_core::pools::{Limits, OrderId, PoolSpec, RunnerId, Signal, Usage, Wanted};

use crate::{
    NewOrder, NewPool, NewPoolClaim, OpenAnswer, OrderAnswer, PoolAnswer, PoolClaim, PoolExpiry, PoolNo, Pools,
    RunnerRef, RunnerSignal, SignalAnswer, TakeRules,
};

pub(crate) fn rules() -> TakeRules {
    TakeRules { limits: Limits::default(), release_ms: 60_000, is_held: false }
}

pub(crate) fn expiry() -> PoolExpiry {
    PoolExpiry { release_ms: 60_000, silent_ms: 30_000, abandoned_ms: 600_000, is_deaf: false, limit: 100 }
}

/// A pool with idle runners, whose identifiers are in order.
pub(crate) async fn pool_with(store: &dyn Pools, idle: u128) -> (PoolNo, Vec<RunnerId>) {
    let spec = PoolSpec {
        provider: "local".into(),
        options: BTreeMap::new(),
        cpu: 1,
        memory_mib: 1,
        types: vec![],
        usage: Usage::OnDemand,
        spot_fallback: false,
        min_idle: 0,
        min_idle_rules: vec![],
        max_size: 10,
        idle_ms: 1,
        runtime_ms: 1_000,
    };
    let new = NewPool { namespace: "default".into(), name: "linux".into(), spec };
    let PoolAnswer::Made(pool) = store.add_pool(new).await.unwrap() else { panic!("not made") };
    let runners: Vec<RunnerId> = (1..=idle).map(RunnerId::from_random).collect();
    let order = NewOrder {
        pool: pool.number,
        order: OrderId::from_random(1),
        runners: runners.clone(),
        usage: Usage::OnDemand,
        types: Vec::new(),
        create_ms: 60_000,
        ask_ms: 60_000,
    };
    assert!(matches!(store.order_runners(order).await.unwrap(), OrderAnswer::Ordered(_)));
    let up = |runner: &RunnerId| RunnerSignal {
        runner: RunnerRef { runner: *runner, epoch: Epoch::new(0) },
        signal: Signal::Ready,
        run_id: None,
        detail: String::new(),
        was_unheard: false,
    };
    let answers = store.signal_runners(runners.iter().map(up).collect()).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, SignalAnswer::Noted(_))));
    (pool.number, runners)
}

pub(crate) async fn open(store: &dyn Pools, pool: PoolNo, run_id: &str) -> PoolClaim {
    let claim = NewPoolClaim {
        pool,
        run_id: run_id.into(),
        fingerprint: [0; 16],
        count: 1,
        wanted: Wanted::default(),
        priority: 5,
        owner: run_id.into(),
        runtime_ms: 1_000,
        wait_ms: 60_000,
        waiting_max: 1_000,
    };
    match store.open_claim(claim).await.unwrap() {
        OpenAnswer::Opened(claim) => claim,
        other => panic!("not opened: {other:?}"),
    }
}
