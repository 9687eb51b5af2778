//! Schedules: made, changed, listed, found when they are due.

use baton_store::{NamespaceChange, NamespaceLimits, NewSchedule, Page, Schedule, ScheduleAnswer, ScheduleChange};

use crate::rig::{Rig, START, contract};

contract!(
    a_schedule_is_made_once,
    a_namespace_has_as_many_schedules_as_it_may,
    of_many_servers_the_limit_is_kept,
    schedules_are_listed_by_namespace_and_id,
    a_change_needs_the_revision_that_was_seen,
    a_deleted_schedule_is_gone_and_its_number_is_not_used_again,
    due_schedules_are_found_longest_due_first,
    schedules_survive_a_restart,
);

pub fn new_schedule(namespace: &str, id: &str) -> NewSchedule {
    NewSchedule {
        namespace: namespace.into(),
        id: id.into(),
        spec: "{\"a\":\"it's\"}".into(),
        note: "why".into(),
        is_paused: false,
        last_at: START,
        next_at: Some(START + 1_000),
    }
}

pub async fn made(rig: &Rig, new: NewSchedule) -> Schedule {
    match rig.store.add_schedule(new).await.unwrap() {
        ScheduleAnswer::Made(schedule) => schedule,
        other => panic!("not made: {other:?}"),
    }
}

async fn a_schedule_is_made_once(rig: Rig) {
    let first = made(&rig, new_schedule("default", "nightly")).await;
    assert_eq!((first.namespace.as_str(), first.id.as_str(), first.note.as_str()), ("default", "nightly", "why"));
    assert_eq!((first.spec.as_str(), first.is_paused), ("{\"a\":\"it's\"}", false));
    assert_eq!((first.created_at, first.last_at, first.next_at), (START, START, Some(START + 1_000)));
    assert_eq!(
        (first.last_fire, first.last_run, first.buffered_at, first.fired, first.left_out),
        (None, None, None, 0, 0)
    );
    let other = NewSchedule { spec: "{}".into(), ..new_schedule("default", "nightly") };
    assert_eq!(rig.store.add_schedule(other).await.unwrap(), ScheduleAnswer::Exists(first.clone()));
    assert_eq!(rig.store.schedule("default", "nightly").await.unwrap(), Some(first.clone()));
    assert_eq!(rig.store.schedule("elsewhere", "nightly").await.unwrap(), None);
    let elsewhere = made(&rig, new_schedule("elsewhere", "nightly")).await;
    assert_ne!(elsewhere.number, first.number);
}

async fn a_namespace_has_as_many_schedules_as_it_may(rig: Rig) {
    let limits = NamespaceLimits { schedules_max: Some(2), ..NamespaceLimits::default() };
    rig.store.add_namespace("small", "", limits).await.unwrap();
    let first = made(&rig, new_schedule("small", "a")).await;
    made(&rig, new_schedule("small", "b")).await;
    assert_eq!(rig.store.add_schedule(new_schedule("small", "c")).await.unwrap(), ScheduleAnswer::Full(2));
    assert_eq!(
        rig.store.add_schedule(new_schedule("small", "a")).await.unwrap(),
        ScheduleAnswer::Exists(first.clone()),
        "a repeated call takes no room"
    );
    made(&rig, new_schedule("large", "c")).await;
    assert!(rig.store.delete_schedule(first.number).await.unwrap());
    made(&rig, new_schedule("small", "c")).await;
    let more = NamespaceChange { schedules_max: Some(None), ..NamespaceChange::default() };
    rig.store.change_namespace("small", more).await.unwrap().unwrap();
    made(&rig, new_schedule("small", "d")).await;
    assert_eq!(rig.store.count_schedules(Some("small")).await.unwrap(), 3);
    assert_eq!(rig.store.count_schedules(None).await.unwrap(), 4);
}

async fn of_many_servers_the_limit_is_kept(rig: Rig) {
    let limits = NamespaceLimits { schedules_max: Some(3), ..NamespaceLimits::default() };
    rig.store.add_namespace("small", "", limits).await.unwrap();
    let mut making = tokio::task::JoinSet::new();
    for (number, server) in rig.servers(4).await.into_iter().cycle().take(12).enumerate() {
        making.spawn(async move { server.add_schedule(new_schedule("small", &number.to_string())).await.unwrap() });
    }
    let answers = making.join_all().await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, ScheduleAnswer::Made(_))).count(), 3);
    assert_eq!(answers.iter().filter(|answer| **answer == ScheduleAnswer::Full(3)).count(), 9);
}

async fn schedules_are_listed_by_namespace_and_id(rig: Rig) {
    for (namespace, id) in [("b", "one"), ("a", "two"), ("a", "one"), ("b", "three")] {
        made(&rig, new_schedule(namespace, id)).await;
    }
    let names =
        |all: Vec<Schedule>| all.into_iter().map(|one| format!("{}/{}", one.namespace, one.id)).collect::<Vec<_>>();
    let page = |after: Option<(&str, &str)>, limit| {
        let after = after.map(|(namespace, id)| (namespace.to_owned(), id.to_owned()));
        Page { after, limit }
    };
    let first = rig.store.schedules(None, page(None, 3)).await.unwrap();
    assert_eq!(names(first), ["a/one", "a/two", "b/one"]);
    let rest = rig.store.schedules(None, page(Some(("b", "one")), 3)).await.unwrap();
    assert_eq!(names(rest), ["b/three"]);
    let own = rig.store.schedules(Some("b"), page(None, 10)).await.unwrap();
    assert_eq!(names(own), ["b/one", "b/three"]);
    assert_eq!(names(rig.store.schedules(Some("c"), page(None, 10)).await.unwrap()), [""; 0]);
}

async fn a_change_needs_the_revision_that_was_seen(rig: Rig) {
    let first = made(&rig, new_schedule("default", "a")).await;
    let paused =
        ScheduleChange { is_paused: true, next_at: None, note: "why not".into(), ..ScheduleChange::of(&first) };
    let second = rig.store.change_schedule(first.number, first.revision, paused.clone()).await.unwrap().unwrap();
    assert_eq!((second.is_paused, second.next_at, second.note.as_str()), (true, None, "why not"));
    assert!(second.revision > first.revision);
    assert_eq!(
        rig.store.change_schedule(first.number, first.revision, ScheduleChange::of(&first)).await.unwrap(),
        None
    );
    let other = ScheduleChange { spec: "{}".into(), last_at: 5, next_at: Some(6), buffered_at: Some(4), ..paused };
    let third = rig.store.change_schedule(first.number, second.revision, other).await.unwrap().unwrap();
    assert_eq!((third.spec.as_str(), third.last_at, third.next_at, third.buffered_at), ("{}", 5, Some(6), Some(4)));
    assert_eq!(rig.store.schedule("default", "a").await.unwrap(), Some(third));
    assert_eq!(rig.store.change_schedule(first.number + 1, 1, ScheduleChange::of(&first)).await.unwrap(), None);
}

async fn a_deleted_schedule_is_gone_and_its_number_is_not_used_again(rig: Rig) {
    let first = made(&rig, new_schedule("default", "a")).await;
    assert!(rig.store.delete_schedule(first.number).await.unwrap());
    assert!(!rig.store.delete_schedule(first.number).await.unwrap());
    assert_eq!(rig.store.schedule("default", "a").await.unwrap(), None);
    let second = made(&rig, new_schedule("default", "a")).await;
    assert!(second.number > first.number);
}

async fn due_schedules_are_found_longest_due_first(rig: Rig) {
    let none = rig.store.due_schedules(10).await.unwrap();
    assert_eq!((none.now, none.due.len(), none.next_at, none.is_waiting), (START, 0, None, false));
    for (id, next_at) in [("c", Some(START + 30)), ("a", Some(START + 10)), ("b", Some(START + 20)), ("never", None)] {
        made(&rig, NewSchedule { next_at, ..new_schedule("default", id) }).await;
    }
    assert_eq!(rig.store.due_schedules(10).await.unwrap().next_at, Some(START + 10));
    rig.clock.advance(25);
    let found = rig.store.due_schedules(10).await.unwrap();
    assert_eq!(found.due.iter().map(|due| due.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((found.now, found.next_at), (START + 25, Some(START + 30)));
    let one = rig.store.due_schedules(1).await.unwrap();
    assert_eq!(one.due.iter().map(|due| due.id.as_str()).collect::<Vec<_>>(), ["a"]);
}

async fn schedules_survive_a_restart(rig: Rig) {
    let first = made(&rig, new_schedule("default", "a")).await;
    let rig = rig.reopen().await;
    assert_eq!(rig.store.schedule("default", "a").await.unwrap(), Some(first));
}
