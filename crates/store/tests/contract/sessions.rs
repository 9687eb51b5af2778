//! Sessions of the dashboard, and links that begin one.

use baton_core::token::Hash;
use baton_store::{
    NewKey, NewSession, NewSigninLink, Rotation, SESSIONS_MAX, SIGNIN_LINKS_MAX, Scope, Session, SessionHolder,
    SessionRef,
};
use uuid::Uuid;

use crate::rig::{Rig, START, contract, hash_of};

contract!(
    a_session_is_found_by_its_token,
    a_session_ends_by_itself_and_when_nobody_comes,
    a_session_may_do_what_its_key_may_do_now,
    a_session_ends_with_the_secret_it_was_begun_with,
    a_token_is_replaced_and_the_one_before_stays_good_for_a_moment,
    a_new_token_that_was_lost_on_its_way_is_replaced,
    the_sessions_of_a_key_end_together,
    a_key_has_so_many_sessions_and_links_at_most,
    a_link_is_used_once,
    sessions_that_are_over_are_deleted,
);

const IDLE: i64 = 1_000;
const LIFE: i64 = 5_000;

fn holder(key: &str) -> SessionHolder {
    SessionHolder { key_id: key.into(), key_hash: Some(hash_of(key)) }
}

fn new_session(number: u128, key: &str) -> NewSession {
    NewSession {
        id: Uuid::from_u128(number),
        token: hash_of(&format!("token {number}")),
        holder: holder(key),
        lives_ms: LIFE,
    }
}

fn new_link(number: usize, key: &str) -> NewSigninLink {
    NewSigninLink { token: hash_of(&format!("link {number}")), holder: holder(key), lives_ms: 100 }
}

async fn with_key(rig: &Rig, id: &str, lives_ms: Option<i64>) {
    let key = NewKey {
        id: id.into(),
        hash: hash_of(id),
        name: id.into(),
        scopes: vec![Scope::Submit, Scope::Read],
        namespace: Some("team".into()),
        lives_ms,
    };
    assert!(rig.store.add_key(key).await.unwrap());
}

async fn by_token(rig: &Rig, token: &str) -> Option<Session> {
    rig.store.session(SessionRef::Token(hash_of(token)), IDLE).await.unwrap()
}

async fn by_id(rig: &Rig, number: u128) -> Option<Session> {
    rig.store.session(SessionRef::Id(Uuid::from_u128(number)), IDLE).await.unwrap()
}

async fn a_session_is_found_by_its_token(rig: Rig) {
    with_key(&rig, "one", None).await;
    rig.store.add_session(new_session(1, "one")).await.unwrap();
    rig.clock.advance(7);
    let expected = Session {
        id: Uuid::from_u128(1),
        holder: holder("one"),
        made_at: START,
        seen_at: START,
        rotated_at: START,
        is_newest: true,
        is_unused: false,
        key: Some((vec![Scope::Submit, Scope::Read], Some("team".into()))),
        now: START + 7,
    };
    assert_eq!(by_token(&rig, "token 1").await, Some(expected.clone()));
    assert_eq!(by_id(&rig, 1).await, Some(Session { is_newest: false, ..expected }));
    assert_eq!((by_token(&rig, "token 2").await, by_id(&rig, 2).await), (None, None));
    // Nobody else has its token.
    assert!(rig.store.add_session(NewSession { id: Uuid::from_u128(2), ..new_session(1, "one") }).await.is_err());
    // A session without a key is the caller's to judge.
    rig.store.add_session(new_session(3, "nobody")).await.unwrap();
    assert_eq!(by_token(&rig, "token 3").await.unwrap().key, None);
    let certain = SessionHolder { key_id: "nobody".into(), key_hash: None };
    rig.store.add_session(NewSession { holder: certain, ..new_session(4, "") }).await.unwrap();
    assert_eq!(by_token(&rig, "token 4").await.unwrap().key, None);
}

async fn a_session_ends_by_itself_and_when_nobody_comes(rig: Rig) {
    with_key(&rig, "one", None).await;
    for number in [1, 2] {
        rig.store.add_session(new_session(number, "one")).await.unwrap();
    }
    rig.clock.advance(IDLE - 1);
    rig.store.touch_session(Uuid::from_u128(1), Some(hash_of("token 1")), 50).await.unwrap();
    assert_eq!(by_token(&rig, "token 1").await.unwrap().seen_at, START + IDLE - 1);
    rig.clock.advance(1);
    assert!(by_token(&rig, "token 1").await.is_some());
    assert_eq!((by_token(&rig, "token 2").await, by_id(&rig, 2).await), (None, None));
    for _ in 0..4 {
        rig.store.touch_session(Uuid::from_u128(1), None, 50).await.unwrap();
        rig.clock.advance(IDLE - 1);
    }
    assert!(by_id(&rig, 1).await.is_some());
    rig.store.touch_session(Uuid::from_u128(1), None, 50).await.unwrap();
    rig.clock.advance(4);
    assert_eq!((by_token(&rig, "token 1").await, by_id(&rig, 1).await), (None, None));
}

async fn a_session_may_do_what_its_key_may_do_now(rig: Rig) {
    with_key(&rig, "one", Some(300)).await;
    with_key(&rig, "two", None).await;
    rig.store.add_session(new_session(1, "one")).await.unwrap();
    rig.store.add_session(new_session(2, "two")).await.unwrap();
    assert!(by_token(&rig, "token 1").await.unwrap().key.is_some());
    rig.clock.advance(300);
    assert_eq!(by_token(&rig, "token 1").await.unwrap().key, None);
    assert!(by_id(&rig, 2).await.unwrap().key.is_some());
    rig.store.revoke_key("two").await.unwrap();
    assert_eq!(by_id(&rig, 2).await.unwrap().key, None);
}

async fn a_session_ends_with_the_secret_it_was_begun_with(rig: Rig) {
    with_key(&rig, "one", None).await;
    rig.store.add_session(new_session(1, "one")).await.unwrap();
    let whole = SessionHolder { key_id: "one".into(), key_hash: None };
    rig.store.add_session(NewSession { holder: whole, ..new_session(2, "one") }).await.unwrap();
    let rotation = Rotation { hash: hash_of("another"), overlap_ms: 100, lives_ms: None };
    assert!(rig.store.rotate_key("one", rotation).await.unwrap());
    rig.clock.advance(99);
    assert!(by_token(&rig, "token 1").await.unwrap().key.is_some());
    rig.clock.advance(1);
    assert_eq!(by_token(&rig, "token 1").await.unwrap().key, None);
    assert!(by_token(&rig, "token 2").await.unwrap().key.is_some(), "it was begun without a secret");
}

async fn a_token_is_replaced_and_the_one_before_stays_good_for_a_moment(rig: Rig) {
    with_key(&rig, "one", None).await;
    let id = Uuid::from_u128(1);
    rig.store.add_session(new_session(1, "one")).await.unwrap();
    let to = |from: &str, to: &str| rig.store.rotate_session(id, hash_of(from), hash_of(to), 60);
    assert!(!to("token 1", "second").await.unwrap(), "it is new");
    rig.clock.advance(60);
    assert!(!to("else", "second").await.unwrap());
    assert!(to("token 1", "second").await.unwrap());
    assert!(!to("token 1", "third").await.unwrap(), "another tab was faster");
    let old = by_token(&rig, "token 1").await.unwrap();
    assert_eq!((old.is_newest, old.is_unused, old.rotated_at), (false, true, START + 60));
    // A caller that shows the old one again learns nothing of the new one.
    rig.store.touch_session(id, Some(hash_of("token 1")), 30).await.unwrap();
    rig.clock.advance(59);
    assert!(by_token(&rig, "token 1").await.unwrap().is_unused);
    let new = by_token(&rig, "second").await.unwrap();
    assert!(new.is_newest && new.is_unused);
    rig.store.touch_session(id, Some(hash_of("second")), 30).await.unwrap();
    rig.clock.advance(29);
    rig.store.touch_session(id, Some(hash_of("second")), 30).await.unwrap();
    assert!(!by_token(&rig, "token 1").await.unwrap().is_unused);
    rig.clock.advance(1);
    assert_eq!(by_token(&rig, "token 1").await, None);
    assert!(!to("token 1", "third").await.unwrap(), "it is no token any more");
    assert!(by_token(&rig, "second").await.unwrap().is_newest);
    assert!(to("second", "third").await.unwrap());
    assert!(by_token(&rig, "third").await.is_some());
}

async fn a_new_token_that_was_lost_on_its_way_is_replaced(rig: Rig) {
    with_key(&rig, "one", None).await;
    let id = Uuid::from_u128(1);
    rig.store.add_session(new_session(1, "one")).await.unwrap();
    let to = |from: &str, to: &str| rig.store.rotate_session(id, hash_of(from), hash_of(to), 60);
    rig.clock.advance(60);
    assert!(to("token 1", "lost").await.unwrap());
    rig.clock.advance(60);
    assert!(to("token 1", "second").await.unwrap());
    assert_eq!(by_token(&rig, "lost").await, None);
    assert!(by_token(&rig, "token 1").await.is_some());
    assert!(by_token(&rig, "second").await.unwrap().is_newest);
}

async fn the_sessions_of_a_key_end_together(rig: Rig) {
    with_key(&rig, "one", None).await;
    with_key(&rig, "two", None).await;
    for (number, key) in [(1, "one"), (2, "one"), (3, "two"), (4, "one")] {
        rig.store.add_session(new_session(number, key)).await.unwrap();
    }
    rig.store.add_signin_link(new_link(1, "one")).await.unwrap();
    rig.store.add_signin_link(new_link(2, "two")).await.unwrap();
    assert!(rig.store.end_session(Uuid::from_u128(1)).await.unwrap());
    assert!(!rig.store.end_session(Uuid::from_u128(1)).await.unwrap());
    assert_eq!(by_token(&rig, "token 1").await, None);
    assert!(by_token(&rig, "token 2").await.is_some());
    assert_eq!(rig.store.end_sessions("one").await.unwrap(), 2);
    assert_eq!(rig.store.end_sessions("one").await.unwrap(), 0);
    assert_eq!((by_token(&rig, "token 2").await, by_id(&rig, 4).await), (None, None));
    assert!(by_token(&rig, "token 3").await.is_some());
    assert_eq!(rig.store.use_signin_link(&hash_of("link 1")).await.unwrap(), None);
    assert_eq!(rig.store.use_signin_link(&hash_of("link 2")).await.unwrap(), Some(holder("two")));
}

async fn a_key_has_so_many_sessions_and_links_at_most(rig: Rig) {
    let most = SESSIONS_MAX as u128;
    rig.store.add_session(new_session(0, "other")).await.unwrap();
    for number in 1..=most + 1 {
        rig.store.add_session(new_session(number, "one")).await.unwrap();
        rig.clock.advance(1);
        // The first one stays in use.
        rig.store.touch_session(Uuid::from_u128(1), None, 50).await.unwrap();
    }
    for (number, is_there) in [(0, true), (1, true), (2, false), (3, true), (most, true), (most + 1, true)] {
        assert_eq!(by_id(&rig, number).await.is_some(), is_there, "{number}");
    }
    for number in 0..=SIGNIN_LINKS_MAX {
        rig.store.add_signin_link(new_link(number, "one")).await.unwrap();
        rig.clock.advance(1);
    }
    assert_eq!(rig.store.use_signin_link(&hash_of("link 0")).await.unwrap(), None);
    assert!(rig.store.use_signin_link(&hash_of("link 1")).await.unwrap().is_some());
}

async fn a_link_is_used_once(rig: Rig) {
    assert_eq!(rig.store.add_signin_link(new_link(1, "one")).await.unwrap(), START + 100);
    rig.store.add_signin_link(new_link(2, "one")).await.unwrap();
    let certain = SessionHolder { key_id: "two".into(), key_hash: None };
    rig.store.add_signin_link(NewSigninLink { holder: certain.clone(), ..new_link(3, "") }).await.unwrap();
    let used = async |token: Hash| rig.store.use_signin_link(&token).await.unwrap();
    assert_eq!(used(hash_of("link 4")).await, None);
    rig.clock.advance(99);
    let both = tokio::join!(used(hash_of("link 1")), used(hash_of("link 1")));
    assert!(matches!(both, (Some(_), None) | (None, Some(_))), "{both:?}");
    assert_eq!(used(hash_of("link 1")).await, None);
    assert_eq!(used(hash_of("link 3")).await, Some(certain));
    rig.clock.advance(1);
    assert_eq!(used(hash_of("link 2")).await, None);
}

async fn sessions_that_are_over_are_deleted(rig: Rig) {
    for number in 1..=4 {
        rig.store.add_session(new_session(number, "one")).await.unwrap();
    }
    rig.store.add_signin_link(new_link(1, "one")).await.unwrap();
    assert_eq!(rig.store.forget_sessions(IDLE, 10).await.unwrap(), 0);
    rig.clock.advance(100);
    assert_eq!(rig.store.forget_sessions(IDLE, 10).await.unwrap(), 1);
    rig.clock.advance(IDLE - 101);
    rig.store.touch_session(Uuid::from_u128(4), None, 50).await.unwrap();
    rig.clock.advance(1);
    assert_eq!(rig.store.forget_sessions(IDLE, 2).await.unwrap(), 2);
    assert_eq!(rig.store.forget_sessions(IDLE, 2).await.unwrap(), 1);
    assert_eq!(rig.store.forget_sessions(IDLE, 2).await.unwrap(), 0);
    assert!(by_id(&rig, 4).await.is_some());
    rig.clock.advance(LIFE - IDLE);
    assert_eq!(rig.store.forget_sessions(LIFE, 2).await.unwrap(), 1);
}
