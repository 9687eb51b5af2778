//! A worker is its own key's: another one cannot act for it, and nobody can once that key is revoked.

use baton::proto::{API_KEY_HEADER, Claim, CreateKey, CreatedKey, Heartbeat};
use serde_json::json;

use crate::builds::rig::text;
use crate::harness::{KEY, On, Server, on_both, refusal, worker};

on_both!(
    another_key_cannot_act_for_a_worker,
    another_key_cannot_use_a_builders_token,
    what_a_revoked_key_registered_is_over,
);

async fn worker_key(server: &Server) -> CreatedKey {
    let wanted =
        CreateKey { name: "a worker's".into(), scopes: vec!["worker".into()], namespace: None, expires_in_ms: None };
    server.client.create_key(&wanted).await.unwrap()
}

async fn another_key_cannot_act_for_a_worker(on: On) {
    let server = Server::start(on).await;
    let (own, other) = (worker_key(&server).await.key, worker_key(&server).await.key);
    let (own, other) = (server.client_with(&own), server.client_with(&other));
    let id = own.register(&worker("mine")).await.unwrap().worker_id;
    let beat = Heartbeat::default();
    server.submit().await;
    assert_eq!(refusal(other.heartbeat(&id, &beat).await), "403 forbidden");
    assert_eq!(refusal(other.claim(&id, &Claim::default()).await), "403 forbidden");
    assert_eq!(refusal(other.deregister(&id).await), "403 forbidden");
    own.heartbeat(&id, &beat).await.unwrap();
    server.client.heartbeat(&id, &beat).await.expect("an administrator may");
    assert_eq!(own.claim(&id, &Claim::default()).await.unwrap().runs.len(), 1);
    assert_eq!(own.deregister(&id).await.unwrap().given_back, 1);
}

/// Registers a builder with this key, and has it take a build; returns the build, its job, and the newest token.
async fn held(server: &Server, key: &str) -> (String, serde_json::Value, String) {
    let (id, _) = server.submit_build().await;
    let wanted = json!({"name": "mine", "capabilities": {"platforms": ["ios"]}});
    let registered = server.post_with("/api/workers/register", &[(API_KEY_HEADER, key)], wanted).await.json();
    let shown = text(&registered["access_token"]);
    let polled = server.get_with("/api/workers/poll", &[(API_KEY_HEADER, key), ("x-worker-token", &shown)]).await;
    assert_eq!(polled.json()["job"]["id"], id.as_str());
    (id, polled.json()["job"].clone(), text(&polled.json()["access_token"]))
}

async fn another_key_cannot_use_a_builders_token(on: On) {
    let server = Server::start(on).await;
    let (own, other) = (worker_key(&server).await.key, worker_key(&server).await.key);
    let (id, _, token) = held(&server, &own).await;
    let foreign = [(API_KEY_HEADER, other.as_str()), ("x-worker-token", token.as_str())];
    assert_eq!(server.get_with("/api/workers/poll", &foreign).await.refusal(), "403 forbidden");
    assert_eq!(server.get_with(&format!("/api/builds/{id}/source"), &foreign).await.refusal(), "403 forbidden");
    let goodbye = server.post_with("/api/workers/unregister", &foreign, json!({})).await;
    assert_eq!(goodbye.refusal(), "403 forbidden");
    for key in [own.as_str(), KEY] {
        let good = [(API_KEY_HEADER, key), ("x-worker-token", token.as_str())];
        assert_eq!(server.get_with(&format!("/api/builds/{id}/source"), &good).await.status, 200);
    }
}

async fn what_a_revoked_key_registered_is_over(on: On) {
    let server = Server::start(on).await;
    let (own, other) = (worker_key(&server).await, worker_key(&server).await);
    let (id, job, token) = held(&server, &own.key).await;
    let path = format!("/api/builds/{id}/authenticate");
    let vm = text(&server.post_with(&path, &[], json!({"otp": job["otp"]})).await.json()["vm_token"]);
    let idle = server.client_with(&other.key).register(&worker("idle")).await.unwrap().worker_id;
    server.client.revoke_key(&own.id).await.unwrap();
    assert_eq!(server.build_status(&id).await, "pending", "its build went back");
    let source = format!("/api/builds/{id}/source");
    for key in [&own.key, &other.key] {
        let shown = [(API_KEY_HEADER, key.as_str()), ("x-worker-token", token.as_str())];
        let refused = server.get_with(&source, &shown).await;
        assert!(refused.status == 401 || refused.status == 403, "{refused:?}");
    }
    assert_eq!(server.get_with(&source, &[("x-vm-token", &vm)]).await.refusal(), "409 lease_lost");
    let beat = server.client_with(&other.key).heartbeat(&idle, &Heartbeat::default()).await.unwrap();
    assert_eq!(beat.status, "ONLINE", "workers of other keys go on");
}
