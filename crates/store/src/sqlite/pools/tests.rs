//! What only a look into the file can bring about; what every store promises is in the contract suite.

use baton_core::pools::RunnerState;
use rusqlite::params;

use crate::pool_rules::sample::{expiry, open, pool_with, rules};
use crate::sqlite::SqliteStore;
use crate::{Clock, Pools};

#[tokio::test]
async fn a_runner_of_a_claim_that_has_ended_is_given_back() {
    let store = SqliteStore::open_in_memory(Clock::manual(1_700_000_000_000)).unwrap();
    let (pool, runners) = pool_with(&store, 1).await;
    let claim = open(&store, pool, "one").await;
    assert_eq!(store.take_runners(pool, rules()).await.unwrap().taken.len(), 1);
    assert_eq!(store.expire_pools(expiry()).await.unwrap().runners, [], "its claim waits");
    let end = "update pool_claims set state = 2 where claim_no = ?1";
    store.write(move |sql| sql.execute(end, params![claim.number])).await.unwrap();
    assert_eq!(store.expire_pools(expiry()).await.unwrap().runners.len(), 1);
    let runner = store.runner(runners[0]).await.unwrap().unwrap();
    assert_eq!((runner.rules.state, runner.rules.owner), (RunnerState::Releasing, None));
}
