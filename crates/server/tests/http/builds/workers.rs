//! /api/workers: registering, polling, ending builds.

use baton::proto::API_KEY_HEADER;
use serde_json::{Value, json};

use super::rig::{Part, text};
use crate::harness::{On, PATIENCE, Server, on_both};

on_both!(
    registering_wants_good_fields,
    a_known_id_comes_back_as_a_new_incarnation,
    another_key_cannot_take_over_a_builder,
    a_builder_that_still_works_keeps_its_builds,
    ten_builders_race_for_one_build,
    a_builder_gets_only_its_platforms_and_no_more_than_it_can_do,
    a_lost_poll_answer_brings_the_same_build_again,
    a_builder_that_says_goodbye_gives_its_builds_back,
    an_abandoned_build_goes_to_the_next,
    a_silent_builder_loses_its_builds_and_its_late_result_is_refused,
    repeating_an_upload_is_fine_and_another_file_is_not,
    a_foreign_builder_cannot_end_a_build,
    a_completed_build_never_becomes_failed,
    a_builder_is_counted,
);

async fn registering_wants_good_fields(on: On) {
    let server = Server::start(on).await;
    let register = async |body: Value| server.call("POST", "/api/workers/register", body.to_string()).await;
    for missing in [json!({"name": "a"}), json!({"capabilities": {"platforms": ["ios"]}}), json!({})] {
        assert_eq!(register(missing.clone()).await.refusal(), "400 malformed", "{missing}");
    }
    for wrong in [
        json!({"name": "", "capabilities": {"platforms": ["ios"]}}),
        json!({"name": "a", "capabilities": {"platforms": ["ios"], "maxConcurrentBuilds": 0}}),
        json!({"name": 7, "capabilities": {"platforms": ["ios"]}}),
    ] {
        assert_eq!(register(wrong.clone()).await.refusal(), "422 invalid", "{wrong}");
    }
    let own =
        register(json!({"id": "mac-1", "name": "Mac", "capabilities": {"platforms": ["ios"], "xcode": "26"}})).await;
    assert_eq!((own.status, own.json()["id"].clone()), (200, json!("mac-1")), "an unknown id is taken as given");
    assert_eq!(own.json()["message"], "Worker registered successfully");
}

async fn a_known_id_comes_back_as_a_new_incarnation(on: On) {
    let server = Server::start(on).await;
    let (id, old) = server.held_build().await;
    let again = json!({"id": old.id, "name": "holder", "capabilities": {"platforms": ["ios"]}});
    let answer = server.call("POST", "/api/workers/register", again.to_string()).await;
    assert_eq!((answer.status, answer.json()["status"].clone()), (200, json!("re-registered")));
    assert_eq!(server.poll_with(&old.token).await.refusal(), "401 token_expired", "the old token is dead");
    assert_eq!(server.build_status(&id).await, "pending", "what it held went back");
    let polled = server.poll_with(&text(&answer.json()["access_token"])).await;
    assert_eq!(polled.json()["job"]["id"], id.as_str());
    let lines = server.client.audit_log(None, None).await.unwrap().lines;
    assert!(lines.iter().any(|line| line.action == "builder.registered_again"));
}

async fn another_key_cannot_take_over_a_builder(on: On) {
    let server = Server::start(on).await;
    let builder = server.builder("one").await;
    let wanted = baton::proto::CreateKey {
        name: "other".into(),
        scopes: vec!["worker".into()],
        namespace: None,
        expires_in_ms: None,
    };
    let other = server.client.create_key(&wanted).await.unwrap().key;
    let again = json!({"id": builder.id, "name": "one", "capabilities": {"platforms": ["ios"]}});
    let answer = server.post_with("/api/workers/register", &[(API_KEY_HEADER, &other)], again).await;
    assert_eq!(answer.refusal(), "403 forbidden");
    assert_eq!(server.poll_with(&builder.token).await.status, 200, "nothing has changed");
    let lines = server.client.audit_log(None, None).await.unwrap().lines;
    assert!(lines.iter().any(|line| line.action == "builder.refused" && line.subject == builder.id));
}

async fn a_builder_that_still_works_keeps_its_builds(on: On) {
    let server = Server::start(on).await;
    let (id, old) = server.held_build().await;
    let again =
        json!({"id": old.id, "name": "holder", "capabilities": {"platforms": ["ios"]}, "active_build_count": 1});
    let answer = server.call("POST", "/api/workers/register", again.to_string()).await.json();
    assert_eq!(answer["status"], "re-registered");
    assert_eq!(server.poll_with(&old.token).await.refusal(), "401 token_expired");
    let builder = super::rig::Builder { id: old.id, token: text(&answer["access_token"]) };
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
    assert_eq!(server.build_status(&id).await, "completed");
}

async fn ten_builders_race_for_one_build(on: On) {
    let server = std::sync::Arc::new(Server::start(on).await);
    let (id, _) = server.submit_build().await;
    let mut polls = tokio::task::JoinSet::new();
    for index in 0..10 {
        let mut builder = server.builder(&format!("builder {index}")).await;
        let server = server.clone();
        polls.spawn(async move { builder.poll(&server).await });
    }
    let jobs = tokio::time::timeout(PATIENCE, polls.join_all()).await.unwrap();
    let got: Vec<_> = jobs.iter().filter(|job| !job.is_null()).collect();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0]["id"], id.as_str());
}

async fn a_builder_gets_only_its_platforms_and_no_more_than_it_can_do(on: On) {
    let server = Server::start(on).await;
    let (android, _) = server.submit_build_with(&[("platform", None, b"android")]).await;
    let (first, _) = server.submit_build().await;
    server.submit_build().await;
    let mut builder = server.builder("one").await;
    assert_eq!(builder.poll(&server).await["id"], first.as_str());
    server.post_with("/api/workers/heartbeat", &builder.headers(), json!({"build_id": first})).await;
    assert_eq!(builder.poll(&server).await, Value::Null, "it has as much as it can do");
    assert_eq!(server.build_status(&android).await, "pending");
}

async fn a_lost_poll_answer_brings_the_same_build_again(on: On) {
    let server = Server::start(on).await;
    let (id, _) = server.submit_build().await;
    let builder = server.builder_for("one", 2).await;
    // The answer never arrives: neither the build nor the new token.
    assert_eq!(server.poll_with(&builder.token).await.json()["job"]["id"], id.as_str());
    let again = server.poll_with(&builder.token).await;
    assert_eq!((again.status, again.json()["job"]["id"].as_str()), (200, Some(id.as_str())));
}

async fn a_builder_that_says_goodbye_gives_its_builds_back(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let answer = server.post_with("/api/workers/unregister", &builder.headers(), json!({})).await;
    assert_eq!(answer.json(), json!({"success": true, "builds_reassigned": 1}));
    assert_eq!(server.build_status(&id).await, "pending");
    assert_eq!(
        server.poll_with(&builder.token).await.refusal(),
        "404 unknown_worker",
        "it is gone, and may register again"
    );
    let mut next = server.builder("next").await;
    assert_eq!(next.poll(&server).await["id"], id.as_str());
}

async fn an_abandoned_build_goes_to_the_next(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let answer = server
        .post_with("/api/workers/abandon", &builder.headers(), json!({"build_id": id, "reason": "no disk"}))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut next = server.builder("next").await;
    assert_eq!(next.poll(&server).await["id"], id.as_str());
    assert_eq!(builder.upload(&server, &id, b"late").await.refusal(), "403 forbidden");
}

async fn a_silent_builder_loses_its_builds_and_its_late_result_is_refused(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let before = server.stored_files();
    server.clock.advance(server.settings.build_heartbeat_timeout_ms as i64 + 10_000);
    crate::harness::eventually("the reaper takes it back", async || server.build_status(&id).await == "pending").await;
    let late = builder.upload(&server, &id, b"late").await;
    assert!(late.status == 403 || late.status == 401 || late.status == 409, "{late:?}");
    assert_eq!(server.stored_files(), before, "nothing of it is left");
    assert_eq!(server.build_status(&id).await, "pending");
}

async fn repeating_an_upload_is_fine_and_another_file_is_not(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
    assert_eq!(builder.upload(&server, &id, b"other").await.refusal(), "409 ended");
    assert_eq!(&server.call("GET", &format!("/api/builds/{id}/download"), "").await.body[..], b"done");
    assert_eq!(server.stored_files().len(), 2, "the source and one result");
}

async fn a_foreign_builder_cannot_end_a_build(on: On) {
    let server = Server::start(on).await;
    let (id, _holder) = server.held_build().await;
    let other = server.builder("other").await;
    assert_eq!(other.upload(&server, &id, b"mine").await.refusal(), "403 forbidden");
    let about = json!({"build_id": id, "error": "x", "reason": "x"});
    for verb in ["fail", "abandon", "heartbeat"] {
        let answer = server.post_with(&format!("/api/workers/{verb}"), &other.headers(), about.clone()).await;
        assert_eq!(answer.refusal(), "403 forbidden", "{verb}");
    }
    assert_eq!(server.build_status(&id).await, "assigned");
}

async fn a_completed_build_never_becomes_failed(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
    let fail = server.post_with("/api/workers/fail", &builder.headers(), json!({"build_id": id, "error": "x"})).await;
    assert_eq!(fail.refusal(), "409 ended");
    let parts: [Part<'_>; 2] = [("build_id", None, id.as_bytes()), ("success", None, b"false")];
    let answer = server.post_form("/api/workers/result", &[("x-worker-token", &builder.token)], &parts).await;
    assert_eq!(answer.refusal(), "409 ended");
    assert_eq!(server.build_status(&id).await, "completed");
}

async fn a_builder_is_counted(on: On) {
    let server = Server::start(on).await;
    let (first, mut builder) = server.held_build().await;
    builder.upload(&server, &first, b"done").await;
    let (second, _) = server.submit_build().await;
    assert_eq!(builder.poll(&server).await["id"], second.as_str());
    server.post_with("/api/workers/fail", &builder.headers(), json!({"build_id": second, "error": "no"})).await;
    server.clock.advance(5_000);
    let stats = server.call("GET", &format!("/api/workers/{}/stats", builder.id), "").await.json();
    let expected = json!({
        "totalBuilds": 2, "successfulBuilds": 1, "failedBuilds": 1, "workerName": "holder", "status": "idle", "uptime": "5s",
    });
    assert_eq!(stats, expected);
    assert_eq!(server.call("GET", "/api/workers/nobody/stats", "").await.refusal(), "404 unknown_worker");
}
