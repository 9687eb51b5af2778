//! The installation's secret: generations, wrapped, changed by one server at a time.

use baton_store::{SecretsChange, WrappedSecret};

use crate::rig::{Rig, START, contract};

contract!(
    of_many_servers_that_start_at_once_one_makes_the_secret,
    a_generation_is_added_and_tokens_of_those_before_end,
    a_generation_that_is_wrapped_anew_is_as_old_as_before,
    a_change_against_secrets_that_are_gone_changes_nothing,
    a_plain_secret_is_erased_and_not_left_in_the_files,
    all_generations_can_be_discarded,
);

fn write(generation: u32, wrapped: &str, key_id: &str) -> (u32, Vec<u8>, String) {
    (generation, wrapped.as_bytes().to_vec(), key_id.into())
}

fn first(wrapped: &str) -> SecretsChange {
    SecretsChange { write: vec![write(1, wrapped, "mk_a")], ..SecretsChange::default() }
}

fn kept(generation: u32, wrapped: &str, key_id: &str, made_at: i64, tokens_until: Option<i64>) -> WrappedSecret {
    WrappedSecret { generation, wrapped: wrapped.into(), key_id: key_id.into(), made_at, tokens_until }
}

async fn of_many_servers_that_start_at_once_one_makes_the_secret(rig: Rig) {
    let mut starting = tokio::task::JoinSet::new();
    for (index, store) in rig.servers(4).await.into_iter().cycle().take(8).enumerate() {
        starting.spawn(async move {
            let seen = store.secrets().await.unwrap();
            let own = SecretsChange { installation: Some(format!("of {index}")), ..first(&format!("by {index}")) };
            let has_won = seen.generations.is_empty() && store.change_secrets(&seen, own).await.unwrap();
            (has_won, store.secrets().await.unwrap())
        });
    }
    let answers = starting.join_all().await;
    assert_eq!(answers.iter().filter(|(has_won, _)| *has_won).count(), 1);
    let (_, agreed) = &answers[0];
    assert!(answers.iter().all(|(_, seen)| seen == agreed), "{answers:?}");
    let number = agreed.generations[0].wrapped.last().map(|digit| char::from(*digit));
    assert_eq!(agreed.installation.as_ref().and_then(|name| name.chars().last()), number, "all of one, or nothing");
    assert_eq!(&rig.reopen().await.store.secrets().await.unwrap(), agreed);
}

async fn a_generation_is_added_and_tokens_of_those_before_end(rig: Rig) {
    let none = rig.store.secrets().await.unwrap();
    assert_eq!((none.plain, &none.installation, none.generations.len(), none.now), (None, &None, 0, START));
    assert!(rig.store.change_secrets(&none, first("one")).await.unwrap());
    for (number, overlap_ms) in [(2, 1_000), (3, 100_000)] {
        rig.clock.advance(10);
        let seen = rig.store.secrets().await.unwrap();
        let write = vec![write(number, "next", "mk_a")];
        let change = SecretsChange { write, overlap_ms: Some(overlap_ms), ..SecretsChange::default() };
        assert!(rig.store.change_secrets(&seen, change).await.unwrap());
    }
    let stored = rig.store.secrets().await.unwrap();
    assert_eq!(
        stored.generations,
        [
            kept(1, "one", "mk_a", START, Some(START + 10 + 1_000)),
            kept(2, "next", "mk_a", START + 10, Some(START + 20 + 100_000)),
            kept(3, "next", "mk_a", START + 20, None),
        ],
        "what ends before is not made longer"
    );
    assert_eq!(stored.now, START + 20);
}

async fn a_generation_that_is_wrapped_anew_is_as_old_as_before(rig: Rig) {
    let none = rig.store.secrets().await.unwrap();
    let installation = Some("a1b2".to_owned());
    let both = vec![write(0, "old", "mk_a"), write(1, "one", "mk_a")];
    let change = SecretsChange { write: both, overlap_ms: Some(50), installation, ..SecretsChange::default() };
    assert!(rig.store.change_secrets(&none, change).await.unwrap());
    rig.clock.advance(7);
    let seen = rig.store.secrets().await.unwrap();
    let again = vec![write(0, "old again", "mk_b"), write(1, "one again", "mk_b")];
    let change = SecretsChange { write: again, installation: Some("other".into()), ..SecretsChange::default() };
    assert!(rig.store.change_secrets(&seen, change).await.unwrap());
    let stored = rig.store.secrets().await.unwrap();
    let expected = [kept(0, "old again", "mk_b", START, Some(START + 50)), kept(1, "one again", "mk_b", START, None)];
    assert_eq!((stored.generations, stored.installation.as_deref()), (expected.to_vec(), Some("a1b2")));
}

async fn a_change_against_secrets_that_are_gone_changes_nothing(rig: Rig) {
    let none = rig.store.secrets().await.unwrap();
    assert!(rig.store.change_secrets(&none, first("one")).await.unwrap());
    assert!(!rig.store.change_secrets(&none, first("another")).await.unwrap());
    let seen = rig.store.secrets().await.unwrap();
    assert!(rig.store.change_secrets(&seen, first("wrapped anew")).await.unwrap());
    let discard = SecretsChange { discard: true, ..SecretsChange::default() };
    assert!(!rig.store.change_secrets(&seen, discard).await.unwrap());
    let stored = rig.store.secrets().await.unwrap();
    assert_eq!(stored.generations, [kept(1, "wrapped anew", "mk_a", START, None)]);
}

async fn a_plain_secret_is_erased_and_not_left_in_the_files(rig: Rig) {
    let secret = std::array::from_fn(|index| 0x80 | index as u8);
    rig.plant_plain_secret(secret).await;
    let has_it = |bytes: Vec<u8>| bytes.windows(secret.len()).any(|window| window == secret);
    assert!(has_it(rig.bytes().await), "this test can find it");
    let seen = rig.store.secrets().await.unwrap();
    assert_eq!(seen.plain, Some(secret));
    let change = SecretsChange { installation: Some("a1b2".into()), ..first("one") };
    assert!(rig.store.change_secrets(&seen, change).await.unwrap());
    let stored = rig.store.secrets().await.unwrap();
    assert_eq!((stored.plain, stored.installation.as_deref(), stored.generations.len()), (None, Some("a1b2"), 1));
    assert!(!has_it(rig.bytes().await));
    let rig = rig.reopen().await;
    assert!(!has_it(rig.bytes().await));
    assert_eq!(rig.store.secrets().await.unwrap(), stored);
}

async fn all_generations_can_be_discarded(rig: Rig) {
    let none = rig.store.secrets().await.unwrap();
    let change = SecretsChange { installation: Some("a1b2".into()), ..first("one") };
    assert!(rig.store.change_secrets(&none, change).await.unwrap());
    let seen = rig.store.secrets().await.unwrap();
    let write = vec![write(2, "two", "mk_b")];
    let change = SecretsChange { discard: true, write, overlap_ms: Some(0), ..SecretsChange::default() };
    assert!(rig.store.change_secrets(&seen, change).await.unwrap());
    let stored = rig.store.secrets().await.unwrap();
    assert_eq!(stored.generations, [kept(2, "two", "mk_b", START, None)]);
    assert_eq!(stored.installation.as_deref(), Some("a1b2"), "its machines stay its own");
}
