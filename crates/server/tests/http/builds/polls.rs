//! How often builders may poll.

use baton::proto::API_KEY_HEADER;
use serde_json::json;

use crate::harness::{KEY, On, Server, on_both};

async fn a_builder_in_a_tight_loop_is_told_to_slow_down(on: On) {
    let server = Server::start(on).await;
    let (mut eager, mut calm) = (server.builder("eager").await, server.builder("calm").await);
    for _ in 0..10 {
        assert!(eager.poll(&server).await.is_null());
    }
    let refused = server.poll_with(&eager.token).await;
    assert_eq!((refused.refusal().as_str(), refused.header("retry-after")), ("429 too_many_requests", "1"));
    assert!(calm.poll(&server).await.is_null(), "another one is not meant");
    for _ in 0..100 {
        assert_eq!(server.poll_with(&eager.token).await.status, 429, "and nothing is made worse by asking");
    }
    server.clock.advance(500);
    assert!(eager.poll(&server).await.is_null(), "the token it had is still good");
    assert_eq!(server.poll_with(&eager.token).await.status, 429);
}

async fn a_builder_that_keeps_the_pause_it_is_told_is_never_refused(on: On) {
    let server = Server::start(on).await;
    let mut builder = server.builder("calm").await;
    for _ in 0..60 {
        builder.poll(&server).await;
        server.clock.advance(server.settings.build_poll_after_ms as i64);
    }
}

async fn polls_that_bring_work_are_not_counted(on: On) {
    let server = Server::start(on).await;
    let mut builder = server.builder_for("roomy", 30).await;
    for _ in 0..25 {
        let (id, _) = server.submit_build().await;
        let job = builder.poll(&server).await;
        assert_eq!(job["id"], id.as_str());
        // Fetching the source starts it, so that the next poll brings the next one.
        let source = format!("/api/builds/{id}/source");
        assert_eq!(server.get_with(&source, &builder.headers()).await.status, 200);
    }
}

async fn builders_of_a_key_are_counted_together_and_generously(on: On) {
    let server = Server::with(on, |settings| settings.build_polls_burst = 1).await;
    let pending = async || server.get_with("/api/v1/builds/pending", &[(API_KEY_HEADER, KEY)]).await;
    for _ in 0..50 {
        assert_eq!(pending().await.status, 204);
    }
    let refused = pending().await;
    assert_eq!((refused.refusal().as_str(), refused.header("retry-after")), ("429 too_many_requests", "1"));
    let worker =
        server.call("POST", "/api/v1/keys", json!({"name": "x", "scopes": ["worker"]}).to_string()).await.json();
    let other = [(API_KEY_HEADER, worker["key"].as_str().unwrap())];
    assert_eq!(server.get_with("/api/v1/builds/pending", &other).await.status, 204);
    server.clock.advance(10);
    assert_eq!(pending().await.status, 204);
    assert_eq!(pending().await.status, 429);
    server.set("build_polls_per_second", json!(0)).await;
    assert_eq!(pending().await.status, 204, "no limit is no limit, at once");
}

async fn a_builder_that_polls_by_its_id_is_counted_as_well(on: On) {
    let server = Server::start(on).await;
    let builder = server.builder("eager").await;
    let path = format!("/api/workers/poll?worker_id={}", builder.id);
    for _ in 0..10 {
        assert_eq!(server.call("GET", &path, "").await.status, 200);
    }
    assert_eq!(server.call("GET", &path, "").await.refusal(), "429 too_many_requests");
}

on_both!(
    a_builder_in_a_tight_loop_is_told_to_slow_down,
    a_builder_that_keeps_the_pause_it_is_told_is_never_refused,
    polls_that_bring_work_are_not_counted,
    builders_of_a_key_are_counted_together_and_generously,
    a_builder_that_polls_by_its_id_is_counted_as_well,
);
