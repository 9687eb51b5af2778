//! Builders: names that outlive incarnations, and tokens that rotate.

use std::sync::Arc;

use baton_core::WorkerId;
use baton_store::{Builder, BuilderSet, Store, TokenAnswer, WorkerStatus};

use crate::rig::{Rig, START, contract, new_worker};

const TTL: i64 = 90_000;

contract!(
    a_builder_is_found_by_its_name,
    a_new_incarnation_replaces_the_old_one,
    a_name_belongs_to_the_key_that_registered_it,
    of_two_keys_at_once_one_gets_the_name,
    the_newest_token_is_good_and_rotates,
    a_lost_answer_does_not_lock_the_builder_out,
    a_token_is_dead_once_the_next_was_used,
    an_old_token_revokes_its_builder,
    a_used_token_is_good_again,
    tokens_expire,
    a_renewed_answer_renews_the_life,
    an_old_token_is_a_replay_even_when_it_expired,
    a_token_that_was_never_given_out_is_dead,
    two_polls_at_once_get_the_same_token,
    a_dead_token_and_a_good_one_at_once_end_revoked,
    builds_are_counted_over_incarnations,
    a_builder_goes_with_its_last_incarnation,
);

impl Rig {
    async fn set(&self, name: &str, worker: WorkerId) -> BuilderSet {
        self.store.set_builder("default", name, worker, Some("key"), TTL).await.unwrap().unwrap()
    }

    /// A new builder, and the number of its first token.
    async fn new_builder(&self) -> (WorkerId, i64) {
        let worker = self.worker("mac").await;
        (worker, self.set("mac", worker).await.token)
    }

    async fn poll(&self, worker: WorkerId, number: i64) -> TokenAnswer {
        self.store.token_shown(worker, number, Some(TTL)).await.unwrap()
    }

    async fn show(&self, worker: WorkerId, number: i64) -> TokenAnswer {
        self.store.token_shown(worker, number, None).await.unwrap()
    }

    async fn named(&self, name: &str) -> Builder {
        self.store.builder("default", name).await.unwrap().unwrap()
    }
}

/// The number of the token to give out.
fn next(answer: TokenAnswer) -> Option<i64> {
    match answer {
        TokenAnswer::Good { next, .. } => next,
        other => panic!("{other:?}"),
    }
}

async fn a_builder_is_found_by_its_name(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    let expected = Builder {
        name_id: "mac".into(),
        namespace: "default".into(),
        worker,
        key_id: Some("key".into()),
        token,
        token_used: false,
        token_until: START + TTL,
        registered_at: START,
        revoked_at: None,
        succeeded: 0,
        failed: 0,
    };
    assert_eq!(rig.store.builder("default", "mac").await.unwrap(), Some(expected));
    assert_eq!(rig.store.builder("other", "mac").await.unwrap(), None);
    assert_eq!(rig.store.builder("default", "other").await.unwrap(), None);
}

async fn a_new_incarnation_replaces_the_old_one(rig: Rig) {
    let (old, first) = rig.new_builder().await;
    let newest = next(rig.poll(old, first).await).unwrap();
    rig.clock.advance(10);
    let new = rig.worker("mac").await;
    let set = rig.set("mac", new).await;
    assert!(set.token > newest);
    assert_eq!(set.replaced, Some(old));
    assert_eq!(rig.poll(old, newest).await, TokenAnswer::Dead);
    assert_eq!(rig.poll(old, first).await, TokenAnswer::Dead);
    let builder = rig.named("mac").await;
    assert_eq!((builder.worker, builder.registered_at, builder.revoked_at), (new, START + 10, None));
    let second = next(rig.poll(new, set.token).await).unwrap();
    // The same incarnation again: no token from before is good any more, but showing one is no theft.
    let again = rig.set("mac", new).await;
    assert_eq!(again.replaced, None);
    for before in [set.token, second, again.token - 1] {
        let refused = rig.poll(new, before).await;
        assert!(matches!(refused, TokenAnswer::Expired | TokenAnswer::Dead), "{refused:?}");
    }
    assert_eq!(rig.named("mac").await.revoked_at, None);
    assert!(next(rig.poll(new, again.token).await).is_some());
}

async fn a_name_belongs_to_the_key_that_registered_it(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    let thief = rig.worker("thief").await;
    for key in [Some("another"), None] {
        assert_eq!(rig.store.set_builder("default", "mac", thief, key, TTL).await.unwrap(), None);
    }
    assert_eq!(rig.named("mac").await.worker, worker);
    assert!(next(rig.poll(worker, token).await).is_some());
    // Elsewhere the name is free.
    assert!(rig.store.set_builder("other", "mac", thief, Some("another"), TTL).await.unwrap().is_some());
}

async fn of_two_keys_at_once_one_gets_the_name(rig: Rig) {
    let servers = rig.servers(2).await;
    for round in 0..10 {
        let mut tasks = Vec::new();
        for (number, store) in servers.iter().cloned().enumerate() {
            let (worker, name) = (rig.worker("mac").await, format!("mac-{round}"));
            tasks.push(tokio::spawn(async move {
                let key = format!("key-{number}");
                store.set_builder("default", &name, worker, Some(&key), TTL).await.unwrap().is_some()
            }));
        }
        let mut won = 0;
        for task in tasks {
            won += u32::from(task.await.unwrap());
        }
        assert_eq!(won, 1);
    }
}

async fn the_newest_token_is_good_and_rotates(rig: Rig) {
    let (worker, mut token) = rig.new_builder().await;
    for _ in 0..5 {
        rig.clock.advance(1_000);
        let TokenAnswer::Good { builder, next } = rig.poll(worker, token).await else { panic!("refused") };
        assert_eq!(next, Some(token + 1));
        assert_eq!((builder.token, builder.token_used, builder.token_until), (token + 1, false, rig.now() + TTL));
        assert_eq!(builder, rig.named("mac").await);
        token += 1;
    }
}

async fn a_lost_answer_does_not_lock_the_builder_out(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    for _ in 0..5 {
        assert_eq!(next(rig.poll(worker, token).await), Some(token + 1));
    }
    assert_eq!(next(rig.poll(worker, token + 1).await), Some(token + 2));
    // Two answers in a row cannot both have been lost and used.
    assert_eq!(rig.poll(worker, token).await, TokenAnswer::Replayed);
}

async fn a_token_is_dead_once_the_next_was_used(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    rig.poll(worker, token).await;
    assert_eq!(next(rig.show(worker, token).await), None, "good while the next is unused");
    assert!(!rig.named("mac").await.token_used);
    assert_eq!(next(rig.show(worker, token + 1).await), None);
    assert!(rig.named("mac").await.token_used);
    assert_eq!(rig.show(worker, token).await, TokenAnswer::Replayed);
}

async fn an_old_token_revokes_its_builder(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    for number in token..token + 3 {
        rig.poll(worker, number).await;
    }
    rig.clock.advance(5);
    assert_eq!(rig.poll(worker, token).await, TokenAnswer::Replayed);
    assert_eq!(rig.named("mac").await.revoked_at, Some(START + 5));
    rig.clock.advance(5);
    for number in [token, token + 2, token + 3] {
        assert_eq!(rig.poll(worker, number).await, TokenAnswer::Dead);
        assert_eq!(rig.show(worker, number).await, TokenAnswer::Dead);
    }
    assert_eq!(rig.named("mac").await.revoked_at, Some(START + 5), "the first time counts");
    let new = rig.worker("mac").await;
    let set = rig.set("mac", new).await;
    assert!(next(rig.poll(new, set.token).await).is_some(), "registering again helps");
}

async fn a_used_token_is_good_again(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    for _ in 0..3 {
        assert_eq!(next(rig.show(worker, token).await), None);
    }
    assert_eq!(next(rig.poll(worker, token).await), Some(token + 1));
}

async fn tokens_expire(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    rig.clock.advance(TTL);
    assert_eq!(next(rig.show(worker, token).await), None);
    rig.clock.advance(1);
    let before = rig.named("mac").await;
    assert_eq!(rig.poll(worker, token).await, TokenAnswer::Expired);
    assert_eq!(rig.named("mac").await, before, "nothing changes");
    assert_eq!(next(rig.show(worker, token).await), None, "good for what it builds, however long that takes");
    assert_eq!(rig.poll(worker, token).await, TokenAnswer::Expired);
}

async fn a_renewed_answer_renews_the_life(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    rig.poll(worker, token).await;
    rig.clock.advance(TTL - 1);
    assert_eq!(next(rig.poll(worker, token).await), Some(token + 1));
    rig.clock.advance(TTL - 1);
    assert_eq!(next(rig.show(worker, token + 1).await), None);
    // Showing one without asking for the next does not.
    rig.clock.advance(2);
    assert_eq!(rig.poll(worker, token + 1).await, TokenAnswer::Expired);
}

async fn an_old_token_is_a_replay_even_when_it_expired(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    rig.poll(worker, token).await;
    rig.poll(worker, token + 1).await;
    rig.clock.advance(10 * TTL);
    assert_eq!(rig.poll(worker, token + 1).await, TokenAnswer::Expired);
    assert_eq!(rig.poll(worker, token).await, TokenAnswer::Replayed);
    assert_eq!(rig.poll(worker, token + 2).await, TokenAnswer::Dead);
}

async fn a_token_that_was_never_given_out_is_dead(rig: Rig) {
    let (worker, token) = rig.new_builder().await;
    assert_eq!(rig.poll(worker, token + 1).await, TokenAnswer::Dead);
    assert!(next(rig.poll(worker, token).await).is_some(), "nothing changed");
    assert_eq!(rig.poll(WorkerId::from_random(5), 1).await, TokenAnswer::Unknown);
    // A worker that is no builder.
    assert_eq!(rig.poll(rig.worker("plain").await, 1).await, TokenAnswer::Dead);
}

async fn two_polls_at_once_get_the_same_token(rig: Rig) {
    let servers = rig.servers(2).await;
    let (worker, mut token) = rig.new_builder().await;
    for _ in 0..20 {
        let mut polls = Vec::new();
        for store in &servers {
            let store = Arc::clone(store);
            polls.push(tokio::spawn(async move { store.token_shown(worker, token, Some(TTL)).await.unwrap() }));
        }
        for poll in polls {
            assert_eq!(next(poll.await.unwrap()), Some(token + 1));
        }
        token += 1;
    }
}

async fn a_dead_token_and_a_good_one_at_once_end_revoked(rig: Rig) {
    let servers = rig.servers(2).await;
    let (worker, mut token) = rig.new_builder().await;
    for _ in 0..10 {
        rig.poll(worker, token).await;
        rig.poll(worker, token + 1).await;
        let shown = |store: Arc<dyn Store>, number| {
            tokio::spawn(async move { store.token_shown(worker, number, Some(TTL)).await.unwrap() })
        };
        let (dead, good) = (shown(servers[0].clone(), token), shown(servers[1].clone(), token + 2));
        assert_eq!(dead.await.unwrap(), TokenAnswer::Replayed);
        let good = good.await.unwrap();
        assert!(matches!(good, TokenAnswer::Good { .. } | TokenAnswer::Dead), "{good:?}");
        assert!(rig.named("mac").await.revoked_at.is_some());
        token = rig.set("mac", worker).await.token;
    }
}

async fn builds_are_counted_over_incarnations(rig: Rig) {
    let (worker, _) = rig.new_builder().await;
    rig.store.count_for_builder(worker, true).await.unwrap();
    rig.store.count_for_builder(worker, false).await.unwrap();
    let new = rig.worker("mac").await;
    rig.set("mac", new).await;
    rig.store.count_for_builder(new, true).await.unwrap();
    rig.store.count_for_builder(worker, true).await.unwrap();
    let builder = rig.named("mac").await;
    assert_eq!((builder.succeeded, builder.failed), (2, 1));
}

async fn a_builder_goes_with_its_last_incarnation(rig: Rig) {
    const NEVER: i64 = 1 << 50;
    let (old, _) = rig.new_builder().await;
    let new = rig.register(new_worker("mac")).await.id;
    rig.set("mac", new).await;
    rig.store.set_worker(old, WorkerStatus::Offline, "replaced").await.unwrap();
    rig.clock.advance(1_001);
    assert_eq!(rig.store.retain(NEVER, 1_000, NEVER, 10).await.unwrap().workers, 1);
    assert!(rig.store.builder("default", "mac").await.unwrap().is_some());
    rig.store.set_worker(new, WorkerStatus::Offline, "bye").await.unwrap();
    rig.clock.advance(1_001);
    assert_eq!(rig.store.retain(NEVER, 1_000, NEVER, 10).await.unwrap().workers, 1);
    assert_eq!(rig.store.builder("default", "mac").await.unwrap(), None);
}
