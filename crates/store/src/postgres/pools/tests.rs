//! What is PostgreSQL's own about pools; what every store promises is in the contract suite.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_core::Epoch;
use baton_core::pools::{Limits, OrderId, PoolSpec, RunnerId, Signal, Usage, Wanted};
use tokio_postgres::NoTls;

use crate::postgres::{PostgresOptions, PostgresStore};
use crate::{
    Clock, NewOrder, NewPool, NewPoolClaim, OrderAnswer, PoolAnswer, PoolNo, Pools, RunnerRef, RunnerSignal,
    SignalAnswer, TakeRules,
};

const RULES: fn() -> TakeRules = || TakeRules { limits: Limits::default(), release_ms: 60_000 };

/// A pool with idle runners, whose identifiers are in order.
async fn pool_with(store: &PostgresStore, idle: u128) -> (PoolNo, Vec<RunnerId>) {
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
        create_ms: 60_000,
        ask_ms: 60_000,
    };
    assert!(matches!(store.order_runners(order).await.unwrap(), OrderAnswer::Ordered(_)));
    let up = |runner: &RunnerId| RunnerSignal {
        runner: RunnerRef { runner: *runner, epoch: Epoch(0) },
        signal: Signal::Ready,
        run_id: None,
        detail: String::new(),
    };
    let answers = store.signal_runners(runners.iter().map(up).collect()).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, SignalAnswer::Noted(_))));
    (pool.number, runners)
}

async fn open(store: &PostgresStore, pool: PoolNo, run_id: &str) {
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
    };
    store.open_claim(claim).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_somebody_holds_is_passed_over_and_waited_for_when_there_is_no_other() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(1_700_000_000_000);
    let options = PostgresOptions::default();
    let store = Arc::new(PostgresStore::connect(database.url(), clock, options).await.unwrap());
    let (pool, runners) = pool_with(&store, 2).await;

    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("begin").await.unwrap();
    client.execute("select 1 from runners where runner_id = $1 for update", &[&runners[0].0]).await.unwrap();

    let taken = |answer: crate::TakeAnswer| answer.taken.iter().map(|one| one.runner.runner).collect::<Vec<_>>();
    open(&store, pool, "one").await;
    let passed_over = taken(store.take_runners(pool, RULES()).await.unwrap());
    assert_eq!(passed_over, [runners[1]]);

    open(&store, pool, "two").await;
    let taker = Arc::clone(&store);
    let waiting = tokio::spawn(async move { taker.take_runners(pool, RULES()).await.unwrap() });
    let stuck = "select count(*) from pg_locks where not granted";
    while client.query_one(stuck, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(!waiting.is_finished(), "it did not wait: {:?}", waiting.await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.batch_execute("commit").await.unwrap();
    assert_eq!(taken(waiting.await.unwrap()), [runners[0]]);
}
