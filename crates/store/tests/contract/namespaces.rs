//! Namespaces: made, limited, disabled.

use baton_store::{Namespace, NamespaceChange, NamespaceLimits, NewWorker};

use crate::rig::{Rig, START, contract, new_worker};

contract!(
    a_namespace_is_made_once,
    changes_are_found_by_their_number,
    a_namespace_is_disabled_and_enabled,
    limits_are_set_and_cleared,
    payloads_are_sealed_from_the_start_or_later,
    a_worker_is_found_by_its_instance,
);

async fn a_namespace_is_made_once(rig: Rig) {
    let limits = NamespaceLimits { live_runs_max: Some(5), ..NamespaceLimits::default() };
    let (made, is_new) = rig.store.add_namespace("mobile", "apps", limits).await.unwrap();
    let expected = Namespace {
        name: "mobile".into(),
        description: "apps".into(),
        created_at: START,
        change_no: made.change_no,
        limits,
        ..Namespace::default()
    };
    assert_eq!((&made, is_new), (&expected, true));
    rig.clock.advance(1);
    let again = rig.store.add_namespace("mobile", "other", NamespaceLimits::default()).await.unwrap();
    assert_eq!(again, (expected.clone(), false));
    let rig = rig.reopen().await;
    let all = rig.store.namespaces(0).await.unwrap();
    assert_eq!(
        all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["default", "mobile"],
        "one is always there"
    );
    assert_eq!(all[1], expected);
}

async fn changes_are_found_by_their_number(rig: Rig) {
    let found = async |since: i64| {
        rig.store.namespaces(since).await.unwrap().into_iter().map(|one| one.name).collect::<Vec<_>>()
    };
    let (a, _) = rig.store.add_namespace("a", "", NamespaceLimits::default()).await.unwrap();
    let (b, _) = rig.store.add_namespace("b", "", NamespaceLimits::default()).await.unwrap();
    assert_eq!(found(0).await, ["a", "b", "default"]);
    assert_eq!(found(a.change_no).await, ["a", "b"]);
    assert_eq!(found(b.change_no).await, ["b"]);
    // Also when the clock was put back.
    rig.clock.advance(-1_000_000);
    let change = NamespaceChange { description: Some("x".into()), ..NamespaceChange::default() };
    let changed = rig.store.change_namespace("a", change).await.unwrap().unwrap();
    assert_eq!(found(b.change_no + 1).await, ["a"]);
    assert_eq!(found(changed.change_no + 1).await, [""; 0]);
}

async fn a_namespace_is_disabled_and_enabled(rig: Rig) {
    rig.store.add_namespace("a", "about", NamespaceLimits::default()).await.unwrap();
    let disable = |why: &str| NamespaceChange { disabled: Some(Some(why.into())), ..NamespaceChange::default() };
    rig.clock.advance(5);
    let disabled = rig.store.change_namespace("a", disable("they moved")).await.unwrap().unwrap();
    assert_eq!((disabled.disabled_at, disabled.disabled_reason.as_str()), (Some(START + 5), "they moved"));
    assert_eq!(disabled.description, "about");
    rig.clock.advance(5);
    let again = rig.store.change_namespace("a", disable("")).await.unwrap().unwrap();
    assert_eq!((again.disabled_at, again.disabled_reason.as_str()), (Some(START + 5), ""), "since the first time");
    let other = NamespaceChange { description: Some(String::new()), ..NamespaceChange::default() };
    let other = rig.store.change_namespace("a", other).await.unwrap().unwrap();
    assert_eq!((other.disabled_at, other.description.as_str()), (Some(START + 5), ""));
    let enable = NamespaceChange { disabled: Some(None), ..NamespaceChange::default() };
    let enabled = rig.store.change_namespace("a", enable.clone()).await.unwrap().unwrap();
    assert_eq!((enabled.disabled_at, enabled.disabled_reason.as_str()), (None, ""));
    assert_eq!(rig.store.change_namespace("b", enable).await.unwrap(), None);
}

async fn limits_are_set_and_cleared(rig: Rig) {
    rig.store.add_namespace("a", "", NamespaceLimits::default()).await.unwrap();
    let change = NamespaceChange {
        live_runs_max: Some(Some(1)),
        workers_max: Some(Some(u64::MAX)),
        schedules_max: Some(Some(0)),
        ..NamespaceChange::default()
    };
    let limits = rig.store.change_namespace("a", change).await.unwrap().unwrap().limits;
    assert_eq!((limits.live_runs_max, limits.schedules_max), (Some(1), Some(0)));
    assert_eq!(limits.workers_max, Some(i64::MAX as u64), "as large as a store can keep");
    let change = NamespaceChange { workers_max: Some(None), ..NamespaceChange::default() };
    let limits = rig.store.change_namespace("a", change).await.unwrap().unwrap().limits;
    assert_eq!((limits.live_runs_max, limits.workers_max, limits.schedules_max), (Some(1), None, Some(0)));
}

async fn payloads_are_sealed_from_the_start_or_later(rig: Rig) {
    let sealed = NamespaceLimits { seal_payloads: true, ..NamespaceLimits::default() };
    assert!(rig.store.add_namespace("a", "", sealed).await.unwrap().0.limits.seal_payloads);
    assert!(!rig.store.add_namespace("b", "", NamespaceLimits::default()).await.unwrap().0.limits.seal_payloads);
    let other = NamespaceChange { workers_max: Some(Some(1)), ..NamespaceChange::default() };
    assert!(rig.store.change_namespace("a", other).await.unwrap().unwrap().limits.seal_payloads, "it is left alone");
    for (name, seal) in [("a", false), ("b", true)] {
        let change = NamespaceChange { seal_payloads: Some(seal), ..NamespaceChange::default() };
        assert_eq!(rig.store.change_namespace(name, change).await.unwrap().unwrap().limits.seal_payloads, seal);
    }
    let listed: Vec<_> = rig.store.namespaces(0).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.limits.seal_payloads)).collect();
    assert_eq!(listed, [("a", false), ("b", true), ("default", false)]);
}

async fn a_worker_is_found_by_its_instance(rig: Rig) {
    let worker = NewWorker { instance: Some("of this start".into()), ..new_worker("w") };
    let id = rig.register(worker).await.id;
    assert_eq!(rig.store.worker_of_instance("of this start").await.unwrap(), Some(id));
    assert_eq!(rig.store.worker_of_instance("of another").await.unwrap(), None);
}
