//! Tokens of builders: they change with every poll, and a lost answer locks nobody out.

use baton::proto::API_KEY_HEADER;

use serde_json::json;

use super::rig::{Part, text};
use crate::harness::{KEY, On, Server, on_both};

on_both!(
    tokens_rotate_and_the_one_before_is_good_until_the_new_one_is_used,
    an_old_token_revokes_its_builder,
    a_token_lives_ninety_seconds,
    a_poll_without_a_token_or_with_a_wrong_one,
    a_token_alone_is_enough_for_polls_and_builds,
    an_id_and_the_key_are_enough,
    an_id_alone_is_enough_only_where_a_setting_says_so,
);

async fn tokens_rotate_and_the_one_before_is_good_until_the_new_one_is_used(on: On) {
    let server = Server::start(on).await;
    let first = server.builder("one").await.token;
    let second = text(&server.poll_with(&first).await.json()["access_token"]);
    assert_ne!(first, second);
    // The answer was lost: the builder comes with the old one, and gets the same new one again.
    assert_eq!(text(&server.poll_with(&first).await.json()["access_token"]), second);
    let third = text(&server.poll_with(&second).await.json()["access_token"]);
    assert_eq!(text(&server.poll_with(&second).await.json()["access_token"]), third);
    assert_eq!(server.poll_with(&third).await.status, 200);
}

async fn an_old_token_revokes_its_builder(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let first = builder.token;
    let second = text(&server.poll_with(&first).await.json()["access_token"]);
    let third = text(&server.poll_with(&second).await.json()["access_token"]);
    assert_eq!(server.poll_with(&third).await.status, 200);
    assert_eq!(server.poll_with(&first).await.refusal(), "401 token_expired");
    assert_eq!(server.poll_with(&third).await.status, 401, "nobody knows who the thief is");
    assert_eq!(server.build_status(&id).await, "pending", "its build went back");
    let lines = server.client.audit_log(None, None).await.unwrap().lines;
    assert!(lines.iter().any(|line| line.action == "builder.revoked"));
    let again = serde_json::json!({"id": builder.id, "name": "holder", "capabilities": {"platforms": ["ios"]}});
    let answer = server.call("POST", "/api/workers/register", again.to_string()).await.json();
    assert_eq!(server.poll_with(&text(&answer["access_token"])).await.status, 200, "registering mends it");
}

async fn a_token_lives_ninety_seconds(on: On) {
    let server = Server::start(on).await;
    let mut builder = server.builder("one").await;
    server.clock.advance(89_000);
    builder.poll(&server).await;
    server.clock.advance(91_000);
    assert_eq!(server.poll_with(&builder.token).await.refusal(), "401 token_expired");
    let again = serde_json::json!({"id": builder.id, "name": "one", "capabilities": {"platforms": ["ios"]}});
    let answer = server.call("POST", "/api/workers/register", again.to_string()).await;
    assert_eq!(answer.json()["status"], "re-registered");
}

async fn a_poll_without_a_token_or_with_a_wrong_one(on: On) {
    let server = Server::start(on).await;
    let builder = server.builder("one").await;
    let poll = async |headers: &[(&str, &str)]| server.get_with("/api/workers/poll", headers).await;
    assert_eq!(poll(&[(API_KEY_HEADER, KEY)]).await.refusal(), "400 malformed");
    assert_eq!(poll(&[]).await.refusal(), "401 no_credential");
    let tokens = ["nonsense", "bw_", &builder.token[..builder.token.len() - 1]];
    for wrong in tokens {
        for key in [&[(API_KEY_HEADER, KEY)][..], &[(API_KEY_HEADER, "no key of ours")], &[]] {
            let headers = [key, &[("x-worker-token", wrong)]].concat();
            assert_eq!(poll(&headers).await.refusal(), "401 token_expired", "{headers:?}");
        }
    }
}

/// Nothing but the token: that is what the newer worker of Expo Free Agent sends.
async fn a_token_alone_is_enough_for_polls_and_builds(on: On) {
    let server = Server::start(on).await;
    let (id, _) = server.submit_build().await;
    let first = server.builder("one").await.token;
    let polled = server.get_with("/api/workers/poll", &[("x-worker-token", &first)]).await;
    assert_eq!((polled.status, text(&polled.json()["job"]["id"])), (200, id.clone()));
    let token = text(&polled.json()["access_token"]);
    // A build takes longer than a token is good for polls, and an empty or a wrong key spoils
    // nothing.
    server.clock.advance(200_000);
    let headers = [(API_KEY_HEADER, ""), ("x-worker-token", token.as_str())];
    assert_eq!(server.get_with(&format!("/api/builds/{id}/source"), &headers).await.status, 200);
    let parts: [Part<'_>; 3] =
        [("result", Some("app.ipa"), b"done"), ("build_id", None, id.as_bytes()), ("success", None, b"true")];
    let headers = [(API_KEY_HEADER, "no key of ours"), ("x-worker-token", token.as_str())];
    let uploaded = server.post_bare_form("/api/workers/upload", &headers, &parts).await;
    assert_eq!((uploaded.status, server.build_status(&id).await.as_str()), (200, "completed"));
    assert_eq!(
        server.get_with("/api/workers/poll", &[("x-worker-token", &token)]).await.refusal(),
        "401 token_expired"
    );
}

async fn an_id_and_the_key_are_enough(on: On) {
    let server = Server::start(on).await;
    let builder = server.builder("one").await;
    let path = format!("/api/workers/poll?worker_id={}", builder.id);
    let polled = server.call("GET", &path, "").await;
    assert_eq!(
        (polled.status, text(&polled.json()["access_token"])),
        (200, builder.token.clone()),
        "it is not changed"
    );
    assert_eq!(server.call("GET", "/api/workers/poll?worker_id=nobody", "").await.refusal(), "404 unknown_worker");
    let wanted = baton::proto::CreateKey {
        name: "other".into(),
        scopes: vec!["worker".into()],
        namespace: None,
        expires_in_ms: None,
    };
    let other = server.client.create_key(&wanted).await.unwrap().key;
    assert_eq!(server.get_with(&path, &[(API_KEY_HEADER, &other)]).await.refusal(), "403 forbidden");
}

async fn an_id_alone_is_enough_only_where_a_setting_says_so(on: On) {
    let strict = Server::start(on).await;
    let path = format!("/api/workers/poll?worker_id={}", strict.builder("one").await.id);
    assert_eq!(strict.get_with(&path, &[]).await.refusal(), "401 no_credential");
    assert_eq!(strict.post_with("/api/workers/register", &[], json!({})).await.refusal(), "401 no_credential");

    let open = Server::with(on, |settings| settings.expo_legacy_auth = true).await;
    let (id, _) = open.submit_build().await;
    let registered = open.post_with("/api/workers/register", &[], json!({"name": "m", "capabilities": {}})).await;
    let worker = text(&registered.json()["id"]);
    let polled = open.get_with(&format!("/api/workers/poll?worker_id={worker}"), &[]).await;
    assert_eq!((polled.status, text(&polled.json()["job"]["id"])), (200, id.clone()));
    let headers = [("x-worker-id", worker.as_str()), ("x-build-id", id.as_str())];
    let event = json!({"type": "cpu_snapshot", "data": {"cpu_percent": 12.5, "memory_mb": 2048}});
    assert_eq!(open.post_with(&format!("/api/builds/{id}/telemetry"), &headers, event).await.status, 200);
    assert_eq!(open.get_with(&format!("/api/builds/{id}/source"), &headers).await.status, 200);
    let waited = open.get_with(&format!("/api/builds/{id}/vm-status"), &[]).await;
    assert_eq!((waited.status, waited.json()["vm_ready"].clone()), (200, json!(false)));
    // One that registered with a key is nobody else's, but for measurements.
    let (held, keyed) = open.held_build().await;
    let named = [("x-worker-id", keyed.id.as_str())];
    for path in ["source", "certs", "certs-secure"] {
        assert_eq!(open.get_with(&format!("/api/builds/{held}/{path}"), &named).await.status, 403, "{path}");
    }
    let path = format!("/api/workers/poll?worker_id={}", keyed.id);
    assert_eq!(open.get_with(&path, &[]).await.refusal(), "403 forbidden", "nor is its token");
    let gone = open.post_with("/api/workers/unregister", &[], json!({"worker_id": keyed.id})).await;
    assert_eq!(gone.refusal(), "403 forbidden");
    let event = json!({"type": "cpu_snapshot", "data": {"cpu_percent": 1}});
    assert_eq!(open.post_with(&format!("/api/builds/{held}/telemetry"), &named, event.clone()).await.status, 200);
    assert_eq!(
        open.post_with(&format!("/api/builds/{id}/telemetry"), &named, event).await.status,
        403,
        "not its build"
    );
    let sneaky = [(API_KEY_HEADER, "no key of ours"), ("x-vm-token", "x")];
    assert_eq!(
        open.post_with("/api/workers/register", &sneaky, json!({"name": "m", "capabilities": {}})).await.status,
        401
    );
    for (method, path) in [("GET", "/api/builds".to_owned()), ("POST", format!("/api/builds/{id}/cancel"))] {
        let refused = open.with_headers(method, &path, &[], "").await;
        assert_eq!(refused.status, 401, "{path}: workers are let in, and nobody else");
    }
    // Whoever came in through the setting goes with it.
    let token = text(&registered.json()["access_token"]);
    assert_eq!(open.get_with("/api/workers/poll", &[("x-worker-token", &token)]).await.status, 200);
    open.set("expo_legacy_auth", json!(false)).await;
    assert_eq!(open.get_with("/api/workers/poll", &[("x-worker-token", &token)]).await.refusal(), "401 token_expired");
}
