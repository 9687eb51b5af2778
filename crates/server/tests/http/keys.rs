//! /api/v1/keys and /api/v1/audit.

use baton::proto::{Claim, CreateKey, Heartbeat, PauseQueue, QueueLimits, RotateKey, Time};
use baton_store::{NewKey, Scope};
use serde_json::json;

use crate::harness::{KEY, On, START, Server, complete, eventually, on_both, refusal, run, worker};

fn key(scopes: &[&str], namespace: Option<&str>) -> CreateKey {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    CreateKey { name: "ci".into(), scopes, namespace: namespace.map(str::to_owned), expires_in_ms: None }
}

async fn a_key_is_shown_once_and_works_in_both_headers(on: On) {
    let server = Server::start(on).await;
    let answer = server.call("POST", "/api/v1/keys", r#"{"name":"ci","scopes":["read","read"]}"#).await;
    assert_eq!(answer.status, 201);
    let created = answer.json();
    let secret = created["key"].as_str().unwrap();
    assert!(secret.starts_with("bk_") && secret.len() >= 29, "{secret}");
    let list = server.call("GET", "/api/v1/keys", "").await;
    assert!(!String::from_utf8_lossy(&list.body).contains(secret), "never shown again");
    let listed = &list.json()["keys"][0];
    assert_eq!((&listed["id"], &listed["scopes"]), (&created["id"], &json!(["read"])));
    for (name, value) in [
        ("x-api-key", secret.to_owned()),
        ("authorization", format!("Bearer {secret}")),
        ("authorization", format!("bearer {secret}")),
    ] {
        let answer = server.send(server.request("GET", "/api/v1/runs").header(name, value), "").await;
        assert_eq!(answer.status, 200, "{name}");
    }
    for wrong in [
        json!({"name": "", "scopes": ["read"]}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["root"]}),
        json!({"name": "x", "scopes": ["read"], "namespace": ""}),
        json!({"name": "x"}),
    ] {
        assert_eq!(server.call("POST", "/api/v1/keys", wrong.to_string()).await.refusal(), "422 invalid", "{wrong}");
    }
}

async fn a_key_says_what_it_is(on: On) {
    let server = Server::start(on).await;
    let own = server.client.whoami().await.unwrap();
    assert_eq!((own.id.as_str(), own.scopes.as_slice()), ("settings", ["admin".to_owned()].as_slice()));
    assert_eq!((own.namespace, own.expires_at), (None, None));
    let wanted = CreateKey { expires_in_ms: Some(60_000), ..key(&["worker", "read"], Some("team")) };
    let created = server.client.create_key(&wanted).await.unwrap();
    let who = server.client_with(&created.key).whoami().await.unwrap();
    assert_eq!((who.id, who.name.as_str(), who.namespace.as_deref()), (created.id, "ci", Some("team")));
    assert_eq!((who.scopes, who.expires_at), (wanted.scopes, Some(Time(START + 60_000))));
    let nobody = server.send(server.request("GET", "/api/v1/whoami"), "").await;
    assert_eq!(nobody.refusal(), "401 no_credential");
}

async fn without_a_good_key_nothing_is_told(on: On) {
    let server = Server::start(on).await;
    let none = server.send(server.request("GET", "/api/v1/runs"), "").await;
    assert_eq!((none.refusal().as_str(), none.header("www-authenticate")), ("401 no_credential", "Bearer"));
    assert!(none.json()["error"].as_str().unwrap().contains("X-API-Key"), "the message names the header");
    let basic = server.request("GET", "/api/v1/runs").header("authorization", "Basic eDp5");
    assert_eq!(server.send(basic, "").await.refusal(), "401 no_credential");
    for wrong in ["x", "bk_00000000000000000000000000000000", &KEY[1..], &format!("{KEY}x")] {
        let answer = server.send(server.request("GET", "/api/v1/runs").header("x-api-key", wrong), "").await;
        assert_eq!(answer.refusal(), "403 bad_credential", "{wrong}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(wrong), "a key is never repeated");
    }
    assert_eq!(server.metric("baton_credential_refusals_total").await, 4);
    let log = server.client.audit_log(None, None).await.unwrap().lines;
    assert_eq!(log.iter().filter(|line| line.action == "credential.refused").count(), 4);
    assert!(log.iter().all(|line| line.actor == "127.0.0.1"), "{log:?}");
}

async fn a_revoked_key_is_refused_at_once(on: On) {
    let server = Server::start(on).await;
    let created = server.client.create_key(&key(&["submit"], None)).await.unwrap();
    let client = server.client_with(&created.key);
    client.submit(&run()).await.unwrap();
    for _ in 0..2 {
        server.client.revoke_key(&created.id).await.unwrap();
        assert_eq!(refusal(client.submit(&run()).await), "403 bad_credential");
    }
    assert!(server.client.keys().await.unwrap().keys[0].revoked_at.is_some());
    let answer = server.call("DELETE", &format!("/api/v1/keys/{}", created.id), "").await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(server.call("DELETE", "/api/v1/keys/key_x?force=true", "").await.refusal(), "404 not_found");
    assert_eq!(server.call("DELETE", "/api/v1/keys/key_x?force=yes", "").await.refusal(), "422 invalid");
    let document: serde_json::Value = serde_json::from_str(&server.client.openapi().await.unwrap()).unwrap();
    let described = &document["paths"]["/api/v1/keys/{id}"]["delete"];
    let mut parameters = described["parameters"].as_array().unwrap().iter();
    assert!(parameters.any(|parameter| parameter["name"] == "force" && parameter["in"] == "query"), "{described}");
    assert!(described["responses"]["409"].is_object(), "{described}");
}

async fn a_namespaces_admin_sees_and_makes_only_its_own_keys(on: On) {
    let server = Server::start(on).await;
    let root = server.client.create_key(&key(&["read"], None)).await.unwrap();
    let team = server.client_for(&["admin"], Some("team")).await;
    let own = team.create_key(&key(&["admin"], None)).await.unwrap();
    let listed = team.keys().await.unwrap().keys;
    assert_eq!(listed.len(), 2);
    assert!(
        listed.iter().all(|key| key.namespace.as_deref() == Some("team")),
        "a key never reaches further: {listed:?}"
    );
    assert_eq!(refusal(team.create_key(&key(&["read"], Some("default"))).await), "403 forbidden");
    assert_eq!(refusal(team.revoke_key(&root.id).await), "404 not_found");
    team.revoke_key(&own.id).await.unwrap();
    assert_eq!(refusal(team.audit_log(None, None).await), "403 forbidden");
    assert_eq!(server.client.keys().await.unwrap().keys.len(), 3);
}

async fn a_key_may_end_by_itself(on: On) {
    let server = Server::start(on).await;
    let short = CreateKey { expires_in_ms: Some(60_000), ..key(&["read"], None) };
    let created = server.client.create_key(&short).await.unwrap();
    let client = server.client_with(&created.key);
    client.queues(None).await.unwrap();
    server.clock.advance(60_000);
    server.app.keys.forget();
    assert_eq!(refusal(client.queues(None).await), "403 bad_credential");
    let shown = server.client.keys().await.unwrap().keys.remove(0);
    assert_eq!((shown.good, shown.expires_at.map(|at| at.0)), (false, Some(START + 60_000)));
    // Its time is over: only with a new one it gets a new secret.
    assert_eq!(refusal(server.client.rotate_key(&created.id, &RotateKey::default()).await), "409 conflict");
    let longer = RotateKey { expires_in_ms: Some(60_000), ..RotateKey::default() };
    let rotated = server.client.rotate_key(&created.id, &longer).await.unwrap();
    server.client_with(&rotated.key).queues(None).await.unwrap();
    for wrong in [json!({"expires_in_ms": 0}), json!({"expires_in_ms": u64::MAX}), json!({"overlap_ms": u64::MAX})] {
        let path = format!("/api/v1/keys/{}/rotate", created.id);
        assert_eq!(server.call("POST", &path, wrong.to_string()).await.refusal(), "422 invalid", "{wrong}");
    }
    let wrong = json!({"name": "x", "scopes": ["read"], "expires_in_ms": 0});
    assert_eq!(server.call("POST", "/api/v1/keys", wrong.to_string()).await.refusal(), "422 invalid");
}

/// A worker goes on with what it has, before and after it takes the new secret.
async fn a_key_is_rotated_under_load(on: On) {
    let server = Server::start(on).await;
    let created = server.client.create_key(&key(&["worker"], None)).await.unwrap();
    let before = server.client_with(&created.key);
    server.submit().await;
    let worker = before.register(&worker("mac")).await.unwrap().worker_id;
    let held = before.claim(&worker, &Claim::default()).await.unwrap().runs.remove(0);
    let overlap = RotateKey { overlap_ms: Some(1_000), ..RotateKey::default() };
    let rotated = server.client.rotate_key(&created.id, &overlap).await.unwrap();
    assert_eq!(rotated.id, created.id);
    let after = server.client_with(&rotated.key);
    before.heartbeat(&worker, &Heartbeat::default()).await.unwrap();
    after.heartbeat(&worker, &Heartbeat::default()).await.unwrap();
    server.clock.advance(1_000);
    server.app.keys.forget();
    assert_eq!(refusal(before.heartbeat(&worker, &Heartbeat::default()).await), "403 bad_credential");
    after.complete(&held.run_id, &complete(&held.lease)).await.unwrap();
    let line = server.client.audit_log(Some(20), None).await.unwrap().lines;
    let line = line.iter().find(|line| line.action == "key.rotate").unwrap();
    assert_eq!(
        (line.subject.as_str(), line.detail.as_str()),
        (created.id.as_str(), "ci: the secret before is good for another 1 s")
    );
    // A revocation ends both.
    server.client.revoke_key(&created.id).await.unwrap();
    assert_eq!(refusal(after.heartbeat(&worker, &Heartbeat::default()).await), "403 bad_credential");
    assert_eq!(refusal(server.client.rotate_key(&created.id, &overlap).await), "409 conflict");
    assert_eq!(refusal(server.client.rotate_key("key_none", &overlap).await), "404 not_found");
}

async fn it_is_shown_when_a_key_was_last_used(on: On) {
    let server = Server::start(on).await;
    let created = server.client.create_key(&key(&["read"], None)).await.unwrap();
    assert_eq!(server.client.keys().await.unwrap().keys[0].used_at, None);
    server.clock.advance(5);
    server.client_with(&created.key).queues(None).await.unwrap();
    eventually("its use is noted", async || {
        server.client.keys().await.unwrap().keys[0].used_at == Some(Time(START + 5))
    })
    .await;
}

async fn a_refusal_for_want_of_scope_is_written_down(on: On) {
    let server = Server::start(on).await;
    let weak = server.client.create_key(&key(&["read"], Some("team"))).await.unwrap();
    let before = server.client.audit_log(None, None).await.unwrap().lines.len();
    let ask = |method, path: &str, id: &str| {
        server.request(method, path).header("x-api-key", &weak.key).header("x-request-id", id)
    };
    // What it may do, and what is wrong in other ways, is not written down.
    assert_eq!(server.send(ask("GET", "/api/v1/runs?namespace=team", "fine"), "").await.status, 200);
    assert_eq!(server.send(ask("GET", "/api/v1/runs?namespace=team&limit=x", "wrong"), "").await.status, 422);
    let answer = server.send(ask("POST", "/api/v1/queues/builds/pause", "pause-7"), "{}").await;
    assert_eq!((answer.refusal().as_str(), answer.header("x-request-id")), ("403 forbidden", "pause-7"));
    let named = server.send(ask("GET", "/api/v1/runs?namespace=default", "x y"), "").await;
    let made_up = named.header("x-request-id").to_owned();
    assert!(named.status == 403 && made_up.len() == 16, "{named:?}");
    let mut lines = server.client.audit_log(None, None).await.unwrap().lines;
    lines.truncate(lines.len() - before);
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line.actor.as_str(), line.action.as_str(), line.subject.as_str(), line.request_id.as_deref()))
        .collect();
    let id = weak.id.as_str();
    let expected = [
        (id, "access.refused", "GET /api/v1/runs", Some(made_up.as_str())),
        (id, "access.refused", "POST /api/v1/queues/builds/pause", Some("pause-7")),
    ];
    assert_eq!(told, expected);
    assert!(lines.iter().all(|line| line.address.as_deref() == Some("127.0.0.1")), "{lines:?}");
    assert!(lines[1].detail.contains("lacks the scope"), "{lines:?}");
}

/// They are answered as ever, and do not fill the log.
async fn a_flood_of_refusals_is_written_down_in_part(on: On) {
    let server = Server::start(on).await;
    let weak = server.client.create_key(&key(&["read"], None)).await.unwrap();
    let client = server.client_with(&weak.key);
    for _ in 0..200 {
        assert_eq!(refusal(client.audit_log(None, None).await), "403 forbidden");
    }
    let lines = server.client.audit_log(Some(1_000), None).await.unwrap().lines;
    let refusals = lines.iter().filter(|line| line.action == "access.refused").count();
    assert!((1..150).contains(&refusals), "{refusals}");
}

async fn cancels_and_retries_are_written_down(on: On) {
    let server = Server::start(on).await;
    let id = server.submit().await;
    server.client.cancel(&id).await.unwrap();
    let again = server.client.retry(&id).await.unwrap();
    let lines = server.client.audit_log(Some(2), None).await.unwrap().lines;
    let told: Vec<_> = lines.iter().map(|line| (line.action.as_str(), line.subject.as_str())).collect();
    assert_eq!(told, [("run.retry", id.as_str()), ("run.cancel", id.as_str())]);
    assert_eq!((lines[1].detail.as_str(), lines[1].namespace.as_deref()), ("cancelled", Some("default")));
    assert_eq!(lines[0].detail, format!("as {}", again.id));
    let newer = server.client.audit_log_after(lines[1].id, Some(5)).await.unwrap();
    assert_eq!((newer.lines, newer.next_cursor), (vec![lines[0].clone()], None));
}

async fn every_administrative_act_is_written_down(on: On) {
    let server = Server::start(on).await;
    let created = server.client.create_key(&key(&["admin"], None)).await.unwrap();
    let admin = server.client_with(&created.key);
    let worker = server.worker("mac").await;
    admin.drain(&worker).await.unwrap();
    admin.force_offline(&worker).await.unwrap();
    admin.pause_queue("default", "builds", &PauseQueue::default()).await.unwrap();
    admin.resume_queue("default", "builds").await.unwrap();
    let limits = QueueLimits { key_limit: Some(Some(3)), ..QueueLimits::default() };
    admin.limit_queue("default", "builds", &limits).await.unwrap();
    admin.revoke_key(&created.id).await.unwrap();
    let mut lines = Vec::new();
    let mut cursor = None;
    loop {
        let page = server.client.audit_log(Some(3), cursor.as_deref()).await.unwrap();
        lines.extend(page.lines);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    lines.reverse();
    let told: Vec<_> =
        lines.iter().map(|line| (line.actor.as_str(), line.action.as_str(), line.subject.as_str())).collect();
    let (by, key_id) = (created.id.as_str(), created.id.as_str());
    assert_eq!(
        told,
        [
            ("settings", "key.create", key_id),
            (by, "worker.drain", worker.as_str()),
            (by, "worker.offline", worker.as_str()),
            (by, "queue.pause", "builds"),
            (by, "queue.resume", "builds"),
            (by, "queue.limit", "builds"),
            (by, "key.revoke", key_id),
        ]
    );
    assert!(lines[5].detail.contains("key_limit") && lines[0].detail.contains("admin"));
    assert!(lines.iter().all(|line| !line.detail.contains(&created.key)));
    for wrong in ["limit=0", "cursor=x", "actor=me"] {
        let answer = server.call("GET", &format!("/api/v1/audit?{wrong}"), "").await;
        assert_eq!(answer.refusal(), "422 invalid", "{wrong}");
    }
}

on_both!(
    a_key_says_what_it_is,
    a_key_that_the_store_knows_keeps_its_scopes,
    a_key_is_shown_once_and_works_in_both_headers,
    without_a_good_key_nothing_is_told,
    a_revoked_key_is_refused_at_once,
    a_namespaces_admin_sees_and_makes_only_its_own_keys,
    a_refusal_for_want_of_scope_is_written_down,
    a_flood_of_refusals_is_written_down_in_part,
    cancels_and_retries_are_written_down,
    a_key_may_end_by_itself,
    a_key_is_rotated_under_load,
    it_is_shown_when_a_key_was_last_used,
    every_administrative_act_is_written_down,
);

async fn a_key_that_the_store_knows_keeps_its_scopes(on: On) {
    let server = Server::start(on).await;
    server.submit().await;
    let weak = NewKey {
        id: "weak".into(),
        hash: baton_core::token::hash(KEY),
        name: "weak".into(),
        scopes: vec![Scope::Read],
        namespace: None,
        lives_ms: None,
    };
    server.app.store.add_key(weak).await.unwrap();
    server.app.keys.forget();
    assert_eq!(refusal(server.client.submit(&run()).await), "403 forbidden");
}
