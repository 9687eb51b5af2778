//! `baton schedule` and `baton namespace`.

use serde_json::json;

use super::Person;
use crate::on_both_stores;
use crate::site::Store;

async fn schedules_from_the_command_line(store: Store) {
    let person = Person::new(store).await;
    let create = [
        "schedule",
        "create",
        "nightly",
        "--cron",
        "30 2 * * MON-FRI",
        "--time-zone",
        "Europe/Berlin",
        "--type",
        "report",
        "--queue",
        "q",
        "--input",
        "{\"a\":1}",
        "--overlap",
        "skip",
        "--jitter",
        "2s",
        "--max-catchup",
        "5",
        "--note",
        "why",
    ];
    let made = person.json(&create).await;
    assert_eq!(
        (&made["id"], &made["time_zone"], &made["overlap"]),
        (&json!("nightly"), &json!("Europe/Berlin"), &json!("skip"))
    );
    assert_eq!(
        (&made["jitter_ms"], &made["max_catchup"], &made["run"]["input"]),
        (&json!(2_000), &json!(5), &json!({"a": 1}))
    );
    let listed = person.baton(&["schedule", "list"]).await.ok();
    assert!(listed.lines().nth(1).unwrap().contains("nightly") && listed.contains("30 2 * * MON-FRI"), "{listed}");
    let shown = person.baton(&["schedule", "get", "nightly"]).await.ok();
    assert!(shown.contains("why") && shown.contains("Europe/Berlin") && shown.contains("next"), "{shown}");
    assert_eq!(person.json(&["schedule", "pause", "nightly", "--note", "later"]).await["paused"], true);
    let run = person.baton(&["schedule", "trigger", "nightly", "--idempotency-key", "k"]).await.ok();
    assert_eq!(person.baton(&["schedule", "trigger", "nightly", "--idempotency-key", "k"]).await.ok(), run);
    assert_eq!(person.json(&["run", "get", &run]).await["type"], "report");
    let range = ["schedule", "backfill", "nightly", "--from", "2025-01-06T00:00:00Z", "--to", "2025-01-12T00:00:00Z"];
    assert_eq!(person.baton(&range).await.ok(), "5 started, 0 had started before");
    assert_eq!(person.json(&range).await, json!({"started": 0, "existed": 5}));
    let fires = person.baton(&["schedule", "runs", "nightly"]).await.ok();
    assert!(
        fires.contains(&run[30..]) && fires.matches("backfilled").count() == 5 && fires.contains("triggered"),
        "{fires}"
    );
    let next = person.json(&["schedule", "next", "nightly", "--count", "3"]).await;
    assert_eq!(next["fires"].as_array().unwrap().len(), 3);
    let next = person.baton(&["schedule", "next", "nightly"]).await;
    assert!(next.code == 0 && next.err.contains("nightly is paused"), "{next:?}");
    let update = ["schedule", "update", "nightly", "--cron", "0 6 1W * *", "--queue", "r", "--workflow", "true"];
    let changed = person.json(&update).await;
    assert_eq!(
        (&changed["cron"], &changed["run"]["queue"], &changed["run"]["workflow"], &changed["paused"]),
        (&json!("0 6 1W * *"), &json!("r"), &json!(true), &json!(true))
    );
    let kept = (&changed["run"]["input"], &changed["run"]["type"], &changed["overlap"], &changed["note"]);
    assert_eq!(kept, (&json!({"a": 1}), &json!("report"), &json!("skip"), &json!("later")), "what was not given");
    let changed = person.json(&["schedule", "update", "nightly", "--note", "now", "--max-catchup", "6"]).await;
    assert_eq!((&changed["note"], &changed["run"]["queue"]), (&json!("now"), &json!("r")));
    let wrong = person.baton(&["schedule", "update", "nightly", "--cron", "61 * * * *"]).await;
    assert!(wrong.code == 4 && wrong.err.contains("--cron is wrong in the field minute"), "{wrong:?}");
    assert_eq!(person.baton(&["schedule", "update", "nightly"]).await.code, 2, "nothing to change");
    assert_eq!(person.baton(&["schedule", "update", "none", "--note", "x"]).await.code, 3);
    assert_eq!(person.json(&["schedule", "resume", "nightly"]).await["paused"], false);
    person.baton(&["schedule", "delete", "nightly"]).await.ok();
    assert_eq!(person.baton(&["schedule", "get", "nightly"]).await.code, 3);
    let wrong = person.baton(&["schedule", "create", "x", "--cron", "61 * * * *", "--type", "t"]).await;
    assert!(wrong.code == 4 && wrong.err.contains("--cron is wrong in the field minute"), "{wrong:?}");
    let wrong = person.baton(&["schedule", "create", "x", "--cron", "@daily", "--type", ""]).await;
    assert!(wrong.err.contains("--type must not be empty"), "{wrong:?}");
    // A rule alone needs no server, and can be tried out.
    let next = person
        .baton(&["schedule", "next", "--cron", "0 0 12 1 1 * 2090-2091", "--time-zone", "Asia/Kolkata"])
        .await
        .ok();
    assert_eq!(next, "2090-01-01T06:30:00.000Z\n2091-01-01T06:30:00.000Z");
    let wrong = person.baton(&["schedule", "next", "--cron", "0 0 32 * *"]).await;
    assert!(wrong.code == 2 && wrong.err.contains("day of month"), "{wrong:?}");
}

async fn namespaces_from_the_command_line(store: Store) {
    let person = Person::new(store).await;
    let made = person.json(&["namespace", "create", "mobile", "--description", "apps", "--live-runs", "1"]).await;
    assert_eq!((&made["name"], &made["live_runs_max"]), (&json!("mobile"), &json!(1)));
    person.baton(&["run", "submit", "t", "--namespace", "mobile"]).await.ok();
    let full = person.baton(&["run", "submit", "t", "--namespace", "mobile"]).await;
    assert!(full.code == 4 && full.err.contains("1 live runs"), "{full:?}");
    let changed = person.json(&["namespace", "limits", "mobile", "--live-runs", "none", "--schedules", "2"]).await;
    assert_eq!((changed.get("live_runs_max"), &changed["schedules_max"]), (None, &json!(2)));
    let disabled = person.baton(&["namespace", "disable", "mobile", "--reason", "they moved"]).await.ok();
    assert!(disabled.contains("they moved"), "{disabled}");
    let refused = person.baton(&["run", "submit", "t", "--namespace", "mobile"]).await;
    assert!(refused.code == 4 && refused.err.contains("the namespace mobile is disabled"), "{refused:?}");
    assert_eq!(person.json(&["namespace", "enable", "mobile"]).await["disabled"], false);
    person.baton(&["run", "submit", "t", "--namespace", "mobile"]).await.ok();
    let listed = person.baton(&["namespace", "list"]).await.ok();
    assert!(listed.contains("default") && listed.contains("mobile"), "{listed}");
    assert_eq!(person.baton(&["namespace", "get", "none"]).await.code, 3);
    let wrong = person.baton(&["namespace", "limits", "mobile", "--workers", "0"]).await;
    assert!(wrong.code == 4 && wrong.err.contains("--workers must be at least 1"), "{wrong:?}");
    assert_eq!(person.baton(&["namespace", "limits", "mobile"]).await.code, 2);
}

on_both_stores!(schedules_from_the_command_line, namespaces_from_the_command_line);
