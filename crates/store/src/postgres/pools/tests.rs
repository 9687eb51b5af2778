//! What is PostgreSQL's own about pools; what every store promises is in the contract suite.

use std::sync::Arc;
use std::time::Duration;

use baton_core::pools::RunnerState;
use baton_testkit::Database;
use tokio_postgres::{Client, NoTls};

use crate::pool_rules::sample::{expiry, open, pool_with, rules};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::{Clock, Pools};

async fn store_and_client() -> (Database, Arc<PostgresStore>, Client) {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(1_700_000_000_000);
    let store = PostgresStore::connect(database.url(), clock, PostgresOptions::default()).await.unwrap();
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    (database, Arc::new(store), client)
}

/// Until somebody waits for a lock.
async fn until_stuck<T: std::fmt::Debug>(client: &Client, waiting: &tokio::task::JoinHandle<T>) {
    let stuck = "select count(*) from pg_locks where not granted";
    while client.query_one(stuck, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(!waiting.is_finished(), "it did not wait");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_somebody_holds_is_passed_over_and_waited_for_when_there_is_no_other() {
    let (_database, store, client) = store_and_client().await;
    let (pool, runners) = pool_with(store.as_ref(), 2).await;
    client.batch_execute("begin").await.unwrap();
    client.execute("select 1 from runners where runner_id = $1 for update", &[&runners[0].0]).await.unwrap();

    let taken = |answer: crate::TakeAnswer| answer.taken.iter().map(|one| one.runner.runner).collect::<Vec<_>>();
    open(store.as_ref(), pool, "one").await;
    let passed_over = taken(store.take_runners(pool, rules()).await.unwrap());
    assert_eq!(passed_over, [runners[1]]);

    open(store.as_ref(), pool, "two").await;
    let taker = Arc::clone(&store);
    let waiting = tokio::spawn(async move { taker.take_runners(pool, rules()).await.unwrap() });
    until_stuck(&client, &waiting).await;
    client.batch_execute("commit").await.unwrap();
    assert_eq!(taken(waiting.await.unwrap()), [runners[0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_ends_while_runners_are_chosen_for_it_gets_none() {
    let (_database, store, client) = store_and_client().await;
    let (pool, runners) = pool_with(store.as_ref(), 1).await;
    let ending = open(store.as_ref(), pool, "ends").await;
    let next = open(store.as_ref(), pool, "waits").await;
    // Somebody is about to end it: to others it waits until that is written.
    client.batch_execute("begin").await.unwrap();
    client.execute("update pool_claims set state = 2 where claim_no = $1", &[&ending.number]).await.unwrap();
    let taker = Arc::clone(&store);
    let waiting = tokio::spawn(async move { taker.take_runners(pool, rules()).await.unwrap() });
    until_stuck(&client, &waiting).await;
    client.batch_execute("commit").await.unwrap();
    let taken = waiting.await.unwrap().taken;
    assert_eq!((taken.len(), taken[0].claim, taken[0].runner.runner), (1, next.number, runners[0]), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_of_a_claim_that_has_ended_is_given_back() {
    let (_database, store, client) = store_and_client().await;
    let (pool, runners) = pool_with(store.as_ref(), 1).await;
    let claim = open(store.as_ref(), pool, "one").await;
    assert_eq!(store.take_runners(pool, rules()).await.unwrap().taken.len(), 1);
    assert_eq!(store.expire_pools(expiry()).await.unwrap().runners, [], "its claim waits");
    client.execute("update pool_claims set state = 2 where claim_no = $1", &[&claim.number]).await.unwrap();
    assert_eq!(store.expire_pools(expiry()).await.unwrap().runners.len(), 1);
    let runner = store.runner(runners[0]).await.unwrap().unwrap();
    assert_eq!((runner.rules.state, runner.rules.owner), (RunnerState::Releasing, None));
}
