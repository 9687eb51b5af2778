//! Tokens of builders: they change with every poll, and a lost answer locks nobody out.

use baton::proto::API_KEY_HEADER;

use super::rig::text;
use crate::harness::{KEY, On, Server, on_both};

on_both!(
    tokens_rotate_and_the_one_before_is_good_until_the_new_one_is_used,
    an_old_token_revokes_its_builder,
    a_token_lives_ninety_seconds,
    a_poll_without_a_token_or_with_a_wrong_one,
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
    assert_eq!(
        poll(&[("x-worker-token", &builder.token)]).await.refusal(),
        "401 no_credential",
        "the key is needed, too"
    );
    for wrong in ["nonsense", "bw_", &builder.token[..builder.token.len() - 1]] {
        assert_eq!(poll(&[(API_KEY_HEADER, KEY), ("x-worker-token", wrong)]).await.refusal(), "401 token_expired");
    }
}

async fn an_id_alone_is_enough_only_where_a_setting_says_so(on: On) {
    let strict = Server::start(on).await;
    let builder = strict.builder("one").await;
    let path = format!("/api/workers/poll?worker_id={}", builder.id);
    assert_eq!(strict.call("GET", &path, "").await.refusal(), "400 malformed");
    let lenient = Server::with(on, |settings| settings.builders_by_id = true).await;
    let builder = lenient.builder("one").await;
    let path = format!("/api/workers/poll?worker_id={}", builder.id);
    assert_eq!(lenient.call("GET", &path, "").await.status, 200);
    assert_eq!(lenient.call("GET", "/api/workers/poll?worker_id=nobody", "").await.refusal(), "404 unknown_worker");
}
