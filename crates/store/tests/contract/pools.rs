//! Pools: made, changed, listed, deleted.

use baton_core::pools::RunnerState;
use baton_core::pools::claim::ClaimReason;
use baton_store::{ClaimFilter, NewPool, OpenAnswer, OrderAnswer, Page, Pool, PoolAnswer};

use crate::pools_rig::{PoolRig, expiry, new_claim, new_order, spec};
use crate::rig::{Rig, START, contract};

contract!(
    a_pool_is_made_once,
    pools_are_listed_by_namespace_and_name,
    a_change_of_a_pool_needs_the_revision_that_was_seen,
    a_pool_that_is_deleted_takes_nothing_new_and_goes_when_it_is_empty,
    pools_and_claims_survive_a_restart,
);

fn new_pool(namespace: &str, name: &str) -> NewPool {
    NewPool { namespace: namespace.into(), name: name.into(), spec: spec(3) }
}

async fn made(rig: &Rig, new: NewPool) -> Pool {
    match rig.store.add_pool(new).await.unwrap() {
        PoolAnswer::Made(pool) => pool,
        other => panic!("not made: {other:?}"),
    }
}

async fn a_pool_is_made_once(rig: Rig) {
    let first = made(&rig, new_pool("default", "linux")).await;
    assert_eq!((first.namespace.as_str(), first.name.as_str(), &first.spec), ("default", "linux", &spec(3)));
    assert_eq!((first.created_at, first.deleting_at, first.error.as_deref()), (START, None, None));
    let other = NewPool { spec: spec(9), ..new_pool("default", "linux") };
    assert_eq!(rig.store.add_pool(other).await.unwrap(), PoolAnswer::Exists(first.clone()));
    assert_eq!(rig.store.pool("default", "linux").await.unwrap(), Some(first.clone()));
    assert_eq!(rig.store.pool("elsewhere", "linux").await.unwrap(), None);
    assert_ne!(made(&rig, new_pool("elsewhere", "linux")).await.number, first.number);
}

async fn pools_are_listed_by_namespace_and_name(rig: Rig) {
    for (namespace, name) in [("b", "one"), ("a", "two"), ("a", "one"), ("b", "three")] {
        made(&rig, new_pool(namespace, name)).await;
    }
    let names =
        |all: Vec<Pool>| all.into_iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect::<Vec<_>>();
    let page = |after: Option<(&str, &str)>, limit| {
        let after = after.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        Page { after, limit }
    };
    assert_eq!(names(rig.store.pools(None, page(None, 3)).await.unwrap()), ["a/one", "a/two", "b/one"]);
    assert_eq!(names(rig.store.pools(None, page(Some(("b", "one")), 3)).await.unwrap()), ["b/three"]);
    assert_eq!(names(rig.store.pools(Some("b"), page(None, 10)).await.unwrap()), ["b/one", "b/three"]);
    assert_eq!(names(rig.store.pools(Some("c"), page(None, 10)).await.unwrap()), [""; 0]);
}

async fn a_change_of_a_pool_needs_the_revision_that_was_seen(rig: Rig) {
    let first = made(&rig, new_pool("default", "linux")).await;
    let second = rig.store.change_pool(first.number, first.revision, spec(7)).await.unwrap().unwrap();
    assert_eq!(second.spec, spec(7));
    assert!(second.revision > first.revision);
    assert_eq!(rig.store.change_pool(first.number, first.revision, spec(8)).await.unwrap(), None);
    assert_eq!(rig.store.pool("default", "linux").await.unwrap(), Some(second.clone()));
    rig.store.delete_pool(first.number).await.unwrap().unwrap();
    assert_eq!(
        rig.store.change_pool(first.number, second.revision, spec(8)).await.unwrap(),
        None,
        "it is being deleted"
    );
}

async fn a_pool_that_is_deleted_takes_nothing_new_and_goes_when_it_is_empty(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(1).await;
    let (claim, runners) = pool.ready("busy", 1).await;
    let waiting = pool.open("waiting", 2).await;
    let deleted = pool.store().delete_pool(pool.number()).await.unwrap().unwrap();
    assert_eq!(deleted.deleting_at, Some(START));
    pool.later(1_000);
    let again = pool.store().delete_pool(pool.number()).await.unwrap().unwrap();
    assert_eq!(again.deleting_at, Some(START), "it is deleted once");

    let refused = pool.store().open_claim(new_claim(pool.number(), "late", 1)).await.unwrap();
    assert_eq!(refused, OpenAnswer::NoPool);
    let known = pool.store().open_claim(new_claim(pool.number(), "busy", 1)).await.unwrap();
    assert_eq!(known, OpenAnswer::Known(claim.clone()), "a repeated call gets its answer");
    assert_eq!(pool.store().order_runners(new_order(pool.number(), 1)).await.unwrap(), OrderAnswer::NoPool);
    let expired = pool.store().expire_pools(expiry()).await.unwrap();
    let ended: Vec<_> = expired.claims.iter().map(|claim| (claim.number, claim.reason)).collect();
    assert_eq!(ended, [(waiting.number, Some(ClaimReason::PoolDeleted))], "whoever works may finish");
    assert_eq!(pool.state(runners[0].runner).await, RunnerState::Running);

    assert_eq!(pool.store().retain_pools(0, 100).await.unwrap().pools, 0);
    let stock = pool.store().pool_stock(pool.number()).await.unwrap().unwrap();
    assert_eq!((stock.stock.running, stock.pool.deleting_at), (1, Some(START)));
    pool.store().release_claim(claim.number, 1_000).await.unwrap();
    pool.later(1_001);
    let expired = pool.store().expire_pools(expiry()).await.unwrap();
    assert_eq!(expired.runners.len(), 1);
    assert_eq!(pool.store().retain_pools(0, 100).await.unwrap().pools, 0, "a machine may still be there");
    pool.store().note_gone(vec![runners[0].runner]).await.unwrap();
    assert_eq!(pool.store().retain_pools(0, 100).await.unwrap().pools, 1);
    assert_eq!(pool.store().pool("default", "linux").await.unwrap(), None);
    assert_eq!(pool.store().delete_pool(pool.number()).await.unwrap(), None);
    assert_eq!(pool.store().pool_stats(pool.number()).await.unwrap().totals.len(), 0);
    let next = made(&pool.rig, new_pool("default", "linux")).await;
    assert_ne!(next.number, pool.number());
}

async fn pools_and_claims_survive_a_restart(rig: Rig) {
    let pool = PoolRig::new(rig, 5).await;
    pool.idle(2).await;
    let (claim, runners) = pool.ready("one", 2).await;
    let before = pool.runner(runners[0].runner).await;
    let PoolRig { rig, pool } = pool;
    let rig = rig.reopen().await;
    let again = PoolRig { rig, pool };
    assert_eq!(again.store().pool("default", "linux").await.unwrap().as_ref(), Some(&again.pool));
    assert_eq!(again.store().pool_claim(again.number(), "one").await.unwrap(), Some(claim.clone()));
    let listed = again.store().pool_claims(ClaimFilter::default(), Page { after: None, limit: 10 }).await.unwrap();
    assert_eq!(listed, [claim]);
    assert_eq!(again.runner(runners[0].runner).await, before);
}
