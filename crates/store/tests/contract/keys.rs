//! API keys and the audit log.

use baton_store::{AuditEntry, Key, NewKey, Page, Rotation, Scope};

use crate::rig::{Rig, START, contract, hash_of};

contract!(
    a_key_is_found_by_its_hash,
    the_same_key_is_added_once,
    a_revoked_key_stays_revoked,
    a_key_ends_when_its_time_is_over,
    a_rotated_key_has_two_secrets_for_a_while,
    a_key_remembers_when_it_was_used,
    the_audit_log_is_read_in_pages_either_way,
);

fn new_key(id: &str) -> NewKey {
    NewKey {
        id: id.into(),
        hash: hash_of(id),
        name: format!("{id}'s key"),
        scopes: vec![Scope::Submit, Scope::Read],
        namespace: Some("default".into()),
        lives_ms: None,
    }
}

async fn a_key_is_found_by_its_hash(rig: Rig) {
    assert!(rig.store.add_key(new_key("one")).await.unwrap());
    rig.clock.advance(5);
    let admin = NewKey { scopes: vec![Scope::Admin], namespace: None, ..new_key("two") };
    assert!(rig.store.add_key(admin).await.unwrap());
    let found = rig.store.key(&hash_of("one")).await.unwrap().unwrap();
    let expected = Key {
        id: "one".into(),
        name: "one's key".into(),
        scopes: vec![Scope::Submit, Scope::Read],
        namespace: Some("default".into()),
        created_at: START,
        revoked_at: None,
        expires_at: None,
        used_at: None,
        old_until: None,
        is_over: false,
    };
    assert_eq!(found, expected);
    assert_eq!(rig.store.key(&hash_of("three")).await.unwrap(), None);
    let all = rig.store.keys().await.unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], expected);
    assert_eq!((&*all[1].id, &all[1].scopes[..], &all[1].namespace), ("two", &[Scope::Admin][..], &None));
}

async fn the_same_key_is_added_once(rig: Rig) {
    assert!(rig.store.add_key(new_key("one")).await.unwrap());
    assert!(!rig.store.add_key(new_key("one")).await.unwrap());
    // The same credential under another name is the same key, and keeps what it was given first.
    let renamed = NewKey { id: "other".into(), scopes: vec![Scope::Admin], ..new_key("one") };
    assert!(!rig.store.add_key(renamed).await.unwrap());
    let keys = rig.store.keys().await.unwrap();
    assert_eq!((keys.len(), &*keys[0].id, keys[0].scopes.len()), (1, "one", 2));
}

async fn a_revoked_key_stays_revoked(rig: Rig) {
    rig.store.add_key(new_key("one")).await.unwrap();
    assert!(!rig.store.revoke_key("two").await.unwrap());
    rig.clock.advance(10);
    assert!(rig.store.revoke_key("one").await.unwrap());
    rig.clock.advance(10);
    assert!(rig.store.revoke_key("one").await.unwrap());
    // Adding it again does not bring it back.
    assert!(!rig.store.add_key(new_key("one")).await.unwrap());
    let found = rig.store.key(&hash_of("one")).await.unwrap().unwrap();
    assert_eq!(found.revoked_at, Some(START + 10));
    assert_eq!(rig.store.keys().await.unwrap(), [found]);
}

async fn a_key_ends_when_its_time_is_over(rig: Rig) {
    rig.store.add_key(NewKey { lives_ms: Some(100), ..new_key("one") }).await.unwrap();
    rig.store.add_key(new_key("two")).await.unwrap();
    let found = async || rig.store.key(&hash_of("one")).await.unwrap().unwrap();
    assert_eq!((found().await.expires_at, found().await.is_over), (Some(START + 100), false));
    rig.clock.advance(99);
    assert!(!found().await.is_over);
    rig.clock.advance(1);
    assert!(found().await.is_over);
    let all = rig.store.keys().await.unwrap();
    assert_eq!(all.iter().map(|key| (&*key.id, key.is_over)).collect::<Vec<_>>(), [("one", true), ("two", false)]);
}

async fn a_rotated_key_has_two_secrets_for_a_while(rig: Rig) {
    rig.store.add_key(NewKey { lives_ms: Some(1_000), ..new_key("one") }).await.unwrap();
    rig.store.add_key(new_key("two")).await.unwrap();
    let to = |secret: &str, overlap_ms, lives_ms| Rotation { hash: hash_of(secret), overlap_ms, lives_ms };
    let found = async |secret: &str| rig.store.key(&hash_of(secret)).await.unwrap().map(|key| (key.id, key.is_over));
    let one = |is_over| Some(("one".to_owned(), is_over));
    assert!(rig.store.rotate_key("one", to("second", 50, None)).await.unwrap());
    assert!(!rig.store.rotate_key("nobody", to("other", 50, None)).await.unwrap());
    assert_eq!((found("one").await, found("second").await), (one(false), one(false)));
    assert!(!rig.store.add_key(NewKey { id: "thief".into(), ..new_key("one") }).await.unwrap(), "it is still in use");
    rig.clock.advance(50);
    assert_eq!((found("one").await, found("second").await), (one(true), one(false)));
    let shown = rig.store.keys().await.unwrap().remove(0);
    assert_eq!((shown.expires_at, shown.old_until, shown.is_over), (Some(START + 1_000), Some(START + 50), false));
    // Once more: the first is forgotten, and the key lives longer.
    assert!(rig.store.rotate_key("one", to("third", 50, Some(5_000))).await.unwrap());
    assert_eq!((found("one").await, found("second").await, found("third").await), (None, one(false), one(false)));
    assert_eq!(rig.store.keys().await.unwrap()[0].expires_at, Some(START + 50 + 5_000));
    // A secret whose time is over stays so when its key gets another.
    rig.clock.advance(5_000);
    assert!(rig.store.rotate_key("one", to("late", 50, Some(5_000))).await.unwrap());
    assert_eq!((found("third").await, found("late").await), (one(true), one(false)));
    // One that is revoked has no secret any more, and gets none.
    rig.store.revoke_key("one").await.unwrap();
    assert!(!rig.store.rotate_key("one", to("fourth", 50, None)).await.unwrap());
    assert!(rig.store.key(&hash_of("late")).await.unwrap().unwrap().revoked_at.is_some());
}

async fn a_key_remembers_when_it_was_used(rig: Rig) {
    rig.store.add_key(new_key("one")).await.unwrap();
    rig.clock.advance(7);
    rig.store.touch_key("one").await.unwrap();
    rig.store.touch_key("nobody").await.unwrap();
    assert_eq!(rig.store.keys().await.unwrap()[0].used_at, Some(START + 7));
}

async fn the_audit_log_is_read_in_pages_either_way(rig: Rig) {
    let line = |number: usize| AuditEntry {
        actor: "key".into(),
        action: "cancel".into(),
        subject: format!("run {number}"),
        detail: "it's \"odd\"".into(),
        namespace: number.is_multiple_of(2).then(|| "default".into()),
        address: number.is_multiple_of(3).then(|| "2001:db8::1".into()),
        request_id: Some(format!("request {number}")),
    };
    assert_eq!(rig.store.audit(vec![]).await.unwrap(), []);
    let mut written = rig.store.audit((0..3).map(line).collect()).await.unwrap();
    rig.clock.advance(5);
    written.extend(rig.store.audit((3..7).map(line).collect()).await.unwrap());
    let entries: Vec<_> = written.iter().map(|record| (record.at, record.entry.clone())).collect();
    let expected: Vec<_> = (0..7).map(|number| (START + if number < 3 { 0 } else { 5 }, line(number))).collect();
    assert_eq!(entries, expected);
    for oldest_first in [true, false] {
        let (mut got, mut after) = (Vec::new(), None);
        loop {
            let page = rig.store.audit_log(Page { after, limit: 3 }, oldest_first).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            got.extend(page);
        }
        assert_eq!(got, written);
        assert!(got.is_sorted_by(|left, right| (left.id < right.id) == oldest_first));
        written.reverse();
    }
}
