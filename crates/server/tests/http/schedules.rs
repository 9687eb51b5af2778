//! /api/v1/schedules: what people ask for.

use baton::Client;
use baton::proto::{
    BackfillSchedule, ChangeSchedule, CreateSchedule, PauseSchedule, ScheduledRun, Time, TriggerSchedule,
};
use baton_core::State;
use baton_core::schedule::Overlap;
use serde_json::{Value, json};

use crate::harness::{On, START, Server, eventually, on_both, refusal};

/// The first whole minute after where clocks begin (which is 20 seconds past one).
const MINUTE: i64 = START - START % 60_000 + 60_000;

fn every_minute(id: &str) -> CreateSchedule {
    CreateSchedule {
        namespace: "default".into(),
        id: id.into(),
        cron: "* * * * *".into(),
        time_zone: None,
        jitter_ms: None,
        max_catchup: None,
        overlap: None,
        run: ScheduledRun::new("builds", "ios"),
        paused: false,
        note: String::new(),
    }
}

/// Fire and what became of it, oldest first.
async fn history(client: &Client, id: &str) -> Vec<(i64, String)> {
    let fires = client.schedule_runs("default", id, Some(1_000), None).await.unwrap().fires;
    fires.into_iter().rev().map(|fire| (fire.fire_at.0, fire.what)).collect()
}

async fn fired(server: &Server, id: &str, count: u64) {
    eventually("the schedule fires", async || server.client.schedule("default", id).await.unwrap().fired == count)
        .await;
}

async fn a_schedule_is_made_shown_and_deleted(on: On) {
    let server = Server::start(on).await;
    let wanted = json!({
        "id": "nightly", "cron": "30 2 * * MON-FRI", "time_zone": "Europe/Berlin", "jitter_ms": 5, "max_catchup": 7, "overlap": "buffer_one",
        "run": {"type": "report", "queue": "q", "input": {"a": [1]}, "priority": 9, "run_timeout_ms": 60000}, "note": "why",
    });
    let made = server.call("POST", "/api/v1/schedules", wanted.to_string()).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    for field in ["id", "cron", "time_zone", "jitter_ms", "max_catchup", "overlap", "note"] {
        assert_eq!(made[field], wanted[field], "{field}");
    }
    assert_eq!((&made["run"]["input"], &made["run"]["type"]), (&json!({"a": [1]}), &json!("report")));
    assert_eq!((&made["paused"], &made["fired"], &made["namespace"]), (&json!(false), &json!(0), &json!("default")));
    // START is a Tuesday evening in Berlin.
    assert_eq!(made["next_fires"][0], "2023-11-15T01:30:00.000Z");
    let again = server.call("POST", "/api/v1/schedules", wanted.to_string()).await;
    assert_eq!((again.status, again.json()), (200, made.clone()), "a repeated call gets the same answer");
    let mut other = wanted.clone();
    other["cron"] = json!("@daily");
    assert_eq!(server.call("POST", "/api/v1/schedules", other.to_string()).await.refusal(), "409 conflict");
    assert_eq!(server.call("GET", "/api/v1/schedules/nightly", "").await.json(), made);
    let next = server.call("GET", "/api/v1/schedules/nightly/next?count=2", "").await.json();
    assert_eq!(next["fires"], json!(["2023-11-15T01:30:00.000Z", "2023-11-16T01:30:00.000Z"]));
    assert_eq!(server.call("DELETE", "/api/v1/schedules/nightly", "").await.status, 204);
    for (method, path) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/trigger"),
        ("GET", "/runs"),
        ("GET", "/next"),
    ] {
        let answer = server.call(method, &format!("/api/v1/schedules/nightly{path}"), "").await;
        assert_eq!(answer.refusal(), "404 not_found", "{method} {path}");
    }
}

async fn what_makes_no_sense_is_refused_and_named(on: On) {
    let server = Server::start(on).await;
    let good = json!({"id": "a", "cron": "* * * * *", "run": {"type": "t"}});
    let with = |field: &str, value: Value| {
        let mut wrong = good.clone();
        match field.split_once('.') {
            Some((outer, inner)) => wrong[outer][inner] = value,
            None => wrong[field] = value,
        }
        wrong.to_string()
    };
    for (field, value, said) in [
        ("cron", json!("61 * * * *"), "field minute"),
        ("cron", json!("* * * *"), "4 fields"),
        ("cron", json!("0 0 0 1 1 * 2001"), "no time after now"),
        ("time_zone", json!("Mars/Base"), "no time zone"),
        ("id", json!(""), "id must not be empty"),
        ("namespace", json!("a\u{1}"), "namespace must not contain"),
        ("jitter_ms", json!(999_999_999), "jitter_ms"),
        ("max_catchup", json!(0), "max_catchup"),
        ("overlap", json!("queue"), "overlap"),
        ("run.type", json!(""), "run.type must not be empty"),
        ("run.priority", json!(10), "run.priority"),
        ("run.run_timeout_ms", json!(0), "run.run_timeout_ms"),
        ("run.retry", json!({"max_attempts": 0}), "run.retry.max_attempts"),
        ("run.idempotency_key", json!("k"), "idempotency_key"),
        ("cronn", json!(1), "cronn"),
    ] {
        let answer = server.call("POST", "/api/v1/schedules", with(field, value)).await;
        assert_eq!(answer.refusal(), "422 invalid", "{field}");
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(said) || said == "overlap" && error.contains("variant"), "{field}: {error}");
    }
    let large = with("run.input", json!("x".repeat(300_000)));
    assert_eq!(server.call("POST", "/api/v1/schedules", large).await.refusal(), "413 too_large");
    assert_eq!(server.client.schedules(None, None, None).await.unwrap().schedules.len(), 0);
}

async fn schedules_are_listed_in_pages_and_each_key_sees_its_own(on: On) {
    let server = Server::start(on).await;
    for (namespace, id) in [("mobile", "a"), ("default", "b"), ("mobile", "c")] {
        let paused = id == "c";
        let schedule = CreateSchedule { namespace: namespace.into(), paused, ..every_minute(id) };
        server.client.create_schedule(&schedule).await.unwrap();
    }
    let ids = |page: &baton::proto::SchedulePage| page.schedules.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let first = server.client.schedules(None, Some(2), None).await.unwrap();
    assert_eq!(ids(&first), ["b", "a"]);
    let rest = server.client.schedules(None, Some(2), first.next_cursor.as_deref()).await.unwrap();
    assert_eq!((ids(&rest), rest.next_cursor), (vec!["c".to_owned()], None), "paused ones are listed, too");
    assert_eq!(server.call("GET", "/api/v1/schedules?total=true&limit=1", "").await.json()["total"], 3);
    assert_eq!(server.call("GET", "/api/v1/schedules?cursor=x", "").await.refusal(), "422 invalid");
    let own = server.client_for(&["submit"], Some("mobile")).await;
    assert_eq!(ids(&own.schedules(None, None, None).await.unwrap()), ["a", "c"]);
    assert_eq!(refusal(own.schedules(Some("default"), None, None).await), "403 forbidden");
    assert_eq!(refusal(own.schedule("default", "b").await), "403 forbidden");
    assert_eq!(refusal(own.delete_schedule("default", "b").await), "403 forbidden");
    assert_eq!(refusal(own.trigger_schedule("default", "b", &TriggerSchedule::default()).await), "403 forbidden");
    assert_eq!(refusal(own.create_schedule(&every_minute("x")).await), "403 forbidden");
    own.trigger_schedule("mobile", "a", &TriggerSchedule::default()).await.unwrap();
    let reader = server.client_for(&["read"], None).await;
    assert_eq!(refusal(reader.pause_schedule("default", "b", &PauseSchedule::default()).await), "403 forbidden");
    assert_eq!(reader.schedule("default", "b").await.unwrap().id, "b");
}

async fn a_paused_schedule_misses_its_fires(on: On) {
    let server = Server::start(on).await;
    server.client.create_schedule(&every_minute("a")).await.unwrap();
    server.clock.advance(MINUTE - START);
    fired(&server, "a", 1).await;
    let pause = PauseSchedule { note: Some("a migration".into()) };
    let paused = server.client.pause_schedule("default", "a", &pause).await.unwrap();
    assert_eq!((paused.paused, paused.note.as_str(), paused.next_fires.len()), (true, "a migration", 0));
    assert_eq!(
        server.client.pause_schedule("default", "a", &PauseSchedule::default()).await.unwrap().note,
        "a migration"
    );
    assert_eq!(server.client.next_fires("default", "a", None).await.unwrap().fires.len(), 10);
    server.clock.advance(10 * 60_000);
    let resumed = server.client.resume_schedule("default", "a").await.unwrap();
    assert_eq!((resumed.paused, resumed.fired), (false, 1));
    assert_eq!(resumed.next_fires[0], Time(MINUTE + 11 * 60_000));
    server.clock.advance(60_000);
    fired(&server, "a", 2).await;
    let again = server.client.resume_schedule("default", "a").await.unwrap();
    assert_eq!(again.fired, 2, "to resume what is not paused changes nothing");
    assert_eq!(
        history(&server.client, "a").await.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        [MINUTE, MINUTE + 11 * 60_000]
    );
}

async fn a_run_is_started_by_hand_once_for_each_key(on: On) {
    let server = Server::start(on).await;
    let schedule = CreateSchedule { paused: true, overlap: Some(Overlap::Skip), ..every_minute("a") };
    server.client.create_schedule(&schedule).await.unwrap();
    let trigger = |key: Option<&str>| TriggerSchedule { idempotency_key: key.map(str::to_owned) };
    let first = server.client.trigger_schedule("default", "a", &trigger(Some("k"))).await.unwrap();
    let again = server.client.trigger_schedule("default", "a", &trigger(Some("k"))).await.unwrap();
    assert_eq!((again.run_id == first.run_id, first.created, again.created), (true, true, false));
    let other = server.client.trigger_schedule("default", "a", &trigger(None)).await.unwrap();
    assert_ne!(other.run_id, first.run_id, "whatever the rule and the policy say");
    assert_eq!(server.state(&first.run_id).await, State::Pending);
    assert_eq!(history(&server.client, "a").await, [(START, "triggered".into()), (START, "triggered".into())]);
    assert_eq!(server.client.schedule("default", "a").await.unwrap().fired, 2);
    assert_eq!(refusal(server.client.trigger_schedule("default", "a", &trigger(Some(""))).await), "422 invalid");
}

async fn a_range_that_has_passed_is_made_up_for_once(on: On) {
    let server = Server::start(on).await;
    server.client.create_schedule(&every_minute("a")).await.unwrap();
    server.clock.advance(MINUTE - START);
    fired(&server, "a", 1).await;
    let range = BackfillSchedule { from: Time(MINUTE - 3 * 60_000), to: Time(MINUTE) };
    let filled = server.client.backfill_schedule("default", "a", &range).await.unwrap();
    assert_eq!((filled.started, filled.existed), (3, 1), "both ends belong to it, and one had fired by itself");
    let again = server.client.backfill_schedule("default", "a", &range).await.unwrap();
    assert_eq!((again.started, again.existed), (0, 4));
    let kinds: Vec<_> = history(&server.client, "a").await.into_iter().map(|(_, what)| what).collect();
    assert_eq!(kinds, ["started", "backfilled", "backfilled", "backfilled"]);
    for (from, to) in [(MINUTE, MINUTE - 1), (MINUTE, MINUTE + 3_600_000), (MINUTE - 86_400_000 * 30, MINUTE)] {
        let range = BackfillSchedule { from: Time(from), to: Time(to) };
        assert_eq!(refusal(server.client.backfill_schedule("default", "a", &range).await), "422 invalid");
    }
    assert_eq!(server.client.runs(&Default::default()).await.unwrap().runs.len(), 4);
}

async fn a_new_rule_holds_from_now_on(on: On) {
    let server = Server::start(on).await;
    server.client.create_schedule(&every_minute("a")).await.unwrap();
    let change =
        ChangeSchedule { cron: Some("@hourly".into()), note: Some("less".into()), ..ChangeSchedule::default() };
    let changed = server.client.change_schedule("default", "a", &change).await.unwrap();
    assert_eq!((changed.cron.as_str(), changed.note.as_str(), changed.run.kind.as_str()), ("@hourly", "less", "ios"));
    let hour = START - START % 3_600_000 + 3_600_000;
    assert_eq!(changed.next_fires[0], Time(hour));
    server.clock.advance(hour - START);
    fired(&server, "a", 1).await;
    assert_eq!(history(&server.client, "a").await, [(hour, "started".into())]);
    let run = ChangeSchedule { run: Some(ScheduledRun::new("builds", "android")), ..ChangeSchedule::default() };
    assert_eq!(server.client.change_schedule("default", "a", &run).await.unwrap().run.kind, "android");
    let wrong = ChangeSchedule { cron: Some("x".into()), ..ChangeSchedule::default() };
    assert_eq!(refusal(server.client.change_schedule("default", "a", &wrong).await), "422 invalid");
    assert_eq!(refusal(server.client.change_schedule("default", "b", &run).await), "404 not_found");
}

on_both!(
    a_schedule_is_made_shown_and_deleted,
    what_makes_no_sense_is_refused_and_named,
    schedules_are_listed_in_pages_and_each_key_sees_its_own,
    a_paused_schedule_misses_its_fires,
    a_run_is_started_by_hand_once_for_each_key,
    a_range_that_has_passed_is_made_up_for_once,
    a_new_rule_holds_from_now_on,
);
