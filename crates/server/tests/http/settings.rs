//! /api/v1/settings: what can be changed while the servers run, and that it holds.

use baton::proto::{ChangeSettings, SettingList, SettingView};
use baton_store::Clock;
use serde_json::{Value, json};

use crate::harness::{On, START, Server, eventually, on_both, refusal, run};

impl Server {
    /// Changes one setting, which must work.
    pub async fn set(&self, name: &str, value: Value) -> SettingView {
        let change = ChangeSettings { set: [(name.to_owned(), value)].into(), ..ChangeSettings::default() };
        one(&self.client.change_settings(&change).await.unwrap(), name)
    }

    async fn reset(&self, name: &str) -> SettingView {
        let change = ChangeSettings { reset: vec![name.to_owned()], ..ChangeSettings::default() };
        one(&self.client.change_settings(&change).await.unwrap(), name)
    }

    async fn setting(&self, name: &str) -> SettingView {
        one(&self.client.settings().await.unwrap(), name)
    }
}

fn one(list: &SettingList, name: &str) -> SettingView {
    list.settings.iter().find(|setting| setting.name == name).unwrap_or_else(|| panic!("no {name}")).clone()
}

async fn a_change_is_shown_beside_what_the_server_was_started_with(on: On) {
    let server = Server::with(on, |settings| {
        settings.build_stuck_ms = 77_000;
        settings.origins.insert("build_stuck_ms".into(), baton_server::Origin::File);
    })
    .await;
    let before = server.setting("build_stuck_ms").await;
    assert_eq!((&before.value, before.source.as_str(), before.changed_at), (&json!(77_000), "file", None));
    assert_eq!(server.setting("build_timeout_ms").await.source, "built in");
    server.clock.advance(1_000);
    let after = server.set("build_stuck_ms", json!(5_000)).await;
    assert_eq!((&after.value, after.source.as_str()), (&json!(5_000), "stored"));
    assert_eq!(after.changed_at.unwrap().0, START + 1_000);
    assert_eq!((&after.default, after.default_source.as_str()), (&json!(77_000), "file"));
    assert_eq!(server.setting("build_stuck_ms").await, after);
    assert_eq!(server.reset("build_stuck_ms").await, before);
    assert_eq!(server.reset("build_stuck_ms").await, before, "again is fine");
    let none = server.set("storage_bytes_max", json!(null)).await;
    assert_eq!((&none.value, none.source.as_str()), (&json!(null), "stored"), "none is a value, too");
}

async fn what_makes_no_sense_is_refused_and_changes_nothing(on: On) {
    let server = Server::start(on).await;
    server.set("build_stuck_ms", json!(5_000)).await;
    let before = server.client.settings().await.unwrap();
    let refused = [
        (json!({"set": {"build_stuck_ms": 9_000, "lease_ttl_ms": 6_000}}), "heartbeat_interval_ms"),
        (json!({"set": {"build_stuck_ms": 9_000, "of_tomorrow": 1}}), "no setting of_tomorrow"),
        (json!({"set": {"listen": "127.0.0.1:1"}}), "where the server is started"),
        (json!({"set": {"build_stuck_ms": "soon"}}), "whole number"),
        (json!({"set": {"build_stuck_ms": -1}}), "whole number"),
        (json!({"set": {"build_stuck_ms": null}}), "whole number"),
        (json!({"set": {"build_heartbeat_timeout_ms": 9_223_372_036_854_775_807_u64}}), "at most"),
        (json!({"set": {"build_heartbeat_timeout_ms": 0}}), "build_poll_after_ms"),
        (json!({"set": {"health_cpu_max": 7}}), "0 to 1"),
        (json!({"set": {"build_platforms": " , "}}), "at least one platform"),
        (json!({"set": {"retention_audit_ms": 0}}), "retention_audit_ms_min"),
        (json!({"set": {"retention_audit_ms": 29 * 86_400_000_u64}}), "at least 2592000000"),
        (json!({"reset": ["of_tomorrow"]}), "no setting of_tomorrow"),
        (json!({"set": {"build_stuck_ms": 1}, "reset": ["build_stuck_ms"]}), "set or reset"),
        (json!({}), "nothing to change"),
    ];
    for (change, why) in refused {
        let answer = server.call("PATCH", "/api/v1/settings", change.to_string()).await;
        assert_eq!(answer.refusal(), "422 invalid", "{change}");
        assert!(answer.json()["error"].as_str().unwrap().contains(why), "{change}: {answer:?}");
    }
    let misspelt = server.call("PATCH", "/api/v1/settings", r#"{"sett":{}}"#).await;
    assert!(matches!(misspelt.status, 400 | 422), "{misspelt:?}");
    assert_eq!(server.client.settings().await.unwrap(), before);
}

async fn settings_are_for_administrators_of_everything_and_every_change_is_written_down(on: On) {
    let server = Server::start(on).await;
    let change = ChangeSettings { set: [("build_stuck_ms".to_owned(), json!(1))].into(), ..ChangeSettings::default() };
    for (scopes, namespace) in [(["submit"], None), (["worker"], None), (["read"], None), (["admin"], Some("team"))] {
        let client = server.client_for(&scopes, namespace).await;
        assert_eq!(refusal(client.settings().await), "403 forbidden", "{scopes:?}");
        assert_eq!(refusal(client.change_settings(&change).await), "403 forbidden", "{scopes:?}");
    }
    let both = ChangeSettings { reset: vec!["build_timeout_ms".into()], ..change };
    server.client.change_settings(&both).await.unwrap();
    let lines = server.client.audit_log(Some(2), None).await.unwrap().lines;
    let said: Vec<_> = lines.iter().map(|line| (&*line.action, &*line.subject, &*line.detail)).collect();
    assert_eq!(said, [("setting.reset", "build_timeout_ms", ""), ("setting.set", "build_stuck_ms", "1")]);
}

/// However the settings came to say less, what is younger than the floor stays.
async fn nobody_erases_the_audit_log(on: On) {
    let day = 86_400_000;
    let server = Server::with(on, |settings| settings.retention_audit_ms = 0).await;
    server.set("build_stuck_ms", json!(77)).await;
    let is_there = async || {
        let lines = server.client.audit_log(None, None).await.unwrap().lines;
        lines.iter().any(|line| line.subject == "build_stuck_ms")
    };
    let retained = async || {
        let passes = || server.app.loops.all().get("retention").map_or(0, |report| report.passes);
        let before = passes();
        eventually("retention has passed twice", async || {
            server.clock.advance(60_000);
            passes() > before + 1
        })
        .await;
    };
    server.clock.advance(20 * day);
    retained().await;
    assert!(is_there().await);
    server.clock.advance(11 * day);
    retained().await;
    assert!(!is_there().await, "what is older goes");
}

async fn a_shorter_heartbeat_timeout_holds_for_a_builder_that_is_known(on: On) {
    let server = Server::start(on).await;
    let (id, mut builder) = server.held_build().await;
    let mut silent = server.builder("silent").await;
    silent.poll(&server).await;
    server.set("build_heartbeat_timeout_ms", json!(20_000)).await;
    builder.poll(&server).await;
    server.clock.advance(19_000);
    builder.poll(&server).await;
    server.clock.advance(19_000);
    builder.poll(&server).await;
    assert_eq!(server.build_status(&id).await, "assigned", "it is heard of often enough");
    server.clock.advance(21_000);
    eventually("the reaper takes it back", async || server.build_status(&id).await == "pending").await;
    assert_eq!(
        silent.poll(&server).await["id"],
        id.as_str(),
        "nothing was heard of the other since, so it has its old time"
    );
}

async fn a_longer_heartbeat_timeout_holds_for_a_builder_that_is_known(on: On) {
    let server = Server::with(on, |settings| settings.build_heartbeat_timeout_ms = 20_000).await;
    let (id, mut builder) = server.held_build().await;
    server.set("build_heartbeat_timeout_ms", json!(3_600_000)).await;
    builder.poll(&server).await;
    let passes = server.app.loops.all().get("reaper").map_or(0, |report| report.passes);
    server.clock.advance(3_000_000);
    eventually("the reaper has passed", async || {
        server.clock.advance(500);
        server.app.loops.all().get("reaper").is_some_and(|report| report.passes > passes + 2)
    })
    .await;
    assert_eq!(server.build_status(&id).await, "assigned");
}

async fn new_timeouts_are_told_to_workers_that_register(on: On) {
    let server = Server::start(on).await;
    let shape = baton::proto::RegisterWorker { instance: Some("one".into()), ..crate::harness::worker("w") };
    let first = server.client.register(&shape).await.unwrap();
    assert_eq!((first.lease_ttl_ms, first.heartbeat_interval_ms), (15_000, 5_000));
    let longer = json!({"lease_ttl_ms": 120_000, "heartbeat_interval_ms": 60_000});
    let change = ChangeSettings { set: serde_json::from_value(longer).unwrap(), ..ChangeSettings::default() };
    server.client.change_settings(&change).await.unwrap();
    // The answer to the first call was lost, as far as the worker knows: it is told the new interval, and its lease is as long.
    let again = server.client.register(&shape).await.unwrap();
    assert_eq!(again.worker_id, first.worker_id);
    assert_eq!((again.lease_ttl_ms, again.heartbeat_interval_ms), (120_000, 60_000));
    let shown = server.client.worker(&first.worker_id).await.unwrap();
    assert_eq!(shown.lease_until.0 - START, 120_000);
}

async fn the_limit_of_builds_that_wait_changes_at_once(on: On) {
    let server = Server::start(on).await;
    assert_eq!(server.setting("build_backlog_max").await.value, json!(1_000));
    server.submit_build().await;
    assert_eq!(server.client.queue("default", "builds").await.unwrap().backlog_max, 1_000);
    server.set("build_backlog_max", json!(1)).await;
    assert_eq!(server.client.queue("default", "builds").await.unwrap().backlog_max, 1);
    let parts: [crate::builds::rig::Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), b"PK")];
    let full = server.post_form("/api/builds", &[], &parts).await;
    assert_eq!(full.refusal(), "503 queue_full");
    server.submit_run(&baton::proto::SubmitRun { queue: "other".into(), ..run() }).await;
    server.set("build_backlog_max", json!(2)).await;
    server.submit_build().await;
    assert_eq!(server.post_form("/api/builds", &[], &parts).await.refusal(), "503 queue_full");
}

async fn platforms_quotas_and_limits_of_keys_change_at_once(on: On) {
    let server = Server::start(on).await;
    server.set("build_platforms", json!("amiga")).await;
    let amiga: [crate::builds::rig::Part<'_>; 2] = [("platform", None, b"amiga"), ("source", Some("a.zip"), b"PK")];
    assert_eq!(server.post_form("/api/builds", &[], &amiga).await.status, 201);
    server.set("storage_bytes_max", json!(1)).await;
    assert_eq!(server.post_form("/api/builds", &[], &amiga).await.refusal(), "507 quota_reached");
    server.reset("storage_bytes_max").await;
    assert_eq!(server.post_form("/api/builds", &[], &amiga).await.status, 201);
    let reader = server.client_for(&["read"], None).await;
    server.set("requests_per_second", json!(1)).await;
    let mut refused = false;
    for _ in 0..50 {
        refused |= reader.queues(None).await.is_err();
    }
    assert!(refused, "fifty calls take less than fifty seconds");
}

on_both!(
    a_change_is_shown_beside_what_the_server_was_started_with,
    what_makes_no_sense_is_refused_and_changes_nothing,
    settings_are_for_administrators_of_everything_and_every_change_is_written_down,
    a_shorter_heartbeat_timeout_holds_for_a_builder_that_is_known,
    a_longer_heartbeat_timeout_holds_for_a_builder_that_is_known,
    new_timeouts_are_told_to_workers_that_register,
    the_limit_of_builds_that_wait_changes_at_once,
    platforms_quotas_and_limits_of_keys_change_at_once,
    nobody_erases_the_audit_log,
);

mod postgres_only {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_change_reaches_the_other_servers_and_those_that_start_later() {
        let database = baton_testkit::database().await;
        let one = Server::on_database(database.url(), Clock::Real).await;
        let other = Server::on_database(database.url(), Clock::Real).await;
        one.set("build_stuck_ms", json!(4_321)).await;
        // Not asked for over the wire: that would make it look.
        eventually("the other has it", async || other.app.current().build_stuck_ms == 4_321).await;
        let third = Server::on_database(database.url(), Clock::Real).await;
        assert_eq!(third.app.current().build_stuck_ms, 4_321);
        other.reset("build_stuck_ms").await;
        eventually("the first has it", async || one.app.current().build_stuck_ms == 1_800_000).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn changes_on_two_servers_that_do_not_go_together_are_not_both_made() {
        let database = baton_testkit::database().await;
        let one = Server::on_database(database.url(), Clock::Real).await;
        let other = Server::on_database(database.url(), Clock::Real).await;
        for _ in 0..10 {
            let shorter = json!({"lease_ttl_ms": 12_000});
            let longer = json!({"heartbeat_interval_ms": 7_500});
            let change =
                |set: Value| ChangeSettings { set: serde_json::from_value(set).unwrap(), ..Default::default() };
            let (shorter, longer) = (change(shorter), change(longer));
            let (first, second) =
                tokio::join!(one.client.change_settings(&shorter), other.client.change_settings(&longer));
            assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
            let back = ChangeSettings {
                reset: vec!["lease_ttl_ms".into(), "heartbeat_interval_ms".into()],
                ..ChangeSettings::default()
            };
            one.client.change_settings(&back).await.unwrap();
        }
    }
}
