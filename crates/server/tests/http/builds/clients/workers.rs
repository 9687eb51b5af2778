//! What workers and their machines send.

use baton::proto::API_KEY_HEADER;
use serde_json::{Value, json};

use super::{machine, messages, status};
use crate::builds::rig::{Builder, Part, text};
use crate::harness::{KEY, On, Server, on_both};

on_both!(
    a_build_that_nobody_was_handed_is_ended_by_the_worker_that_built_it,
    a_build_that_was_handed_out_before_is_not,
    a_worker_repeats_what_its_machine_has_said,
    progress_and_measurements_are_seen,
    measurements_are_signs_of_life,
    a_watcher_waits_for_its_machine_and_keeps_it_alive,
    a_worker_that_names_no_platform_builds_for_all,
    unknown_workers_are_refused,
    a_worker_is_shown_as_people_think_of_it,
    a_worker_that_is_gone_stores_nothing,
    other_tenants_are_not_named,
);

async fn a_build_that_nobody_was_handed_is_ended_by_the_worker_that_built_it(on: On) {
    let server = Server::start(on).await;
    // It has as much to do as it can, and a second one besides.
    let (_, builder) = server.held_build().await;
    let (id, _) = server.submit_build().await;
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
    assert_eq!(server.build_status(&id).await, "completed");
    let (id, _) = server.submit_build().await;
    let failed = json!({"build_id": id, "error": "it broke"});
    assert_eq!(server.post_with("/api/workers/fail", &builder.headers(), failed).await.status, 200);
    assert_eq!(server.build_status(&id).await, "failed");
    let (android, _) = server.submit_build_with(&[("platform", None, b"android")]).await;
    assert_eq!(builder.upload(&server, &android, b"done").await.refusal(), "403 forbidden", "it cannot do this one");
    assert_eq!(server.build_status(&android).await, "pending");
}

async fn a_build_that_was_handed_out_before_is_not(on: On) {
    let server = Server::start(on).await;
    let (id, first) = server.held_build().await;
    let second = server.builder("second").await;
    assert_eq!(second.upload(&server, &id, b"mine").await.refusal(), "403 forbidden", "somebody has it");
    let given_back = json!({"build_id": id, "reason": "no disk"});
    assert_eq!(server.post_with("/api/workers/abandon", &first.headers(), given_back).await.status, 200);
    for builder in [&first, &second] {
        let refused = builder.upload(&server, &id, b"late").await;
        assert!(matches!(refused.status, 403 | 409), "{refused:?}");
    }
    assert_eq!(server.build_status(&id).await, "pending");
}

async fn a_worker_repeats_what_its_machine_has_said(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let machine = machine(&server, &id, &builder).await;
    let vm = [("x-vm-token", machine.as_str())];
    let artifact = format!("/api/builds/{id}/artifact");
    assert_eq!(server.with_headers("POST", &artifact, &vm, "the result").await.status, 200);
    // The worker does not know yet that the build is over.
    let beat = server.post_with(&format!("/api/builds/{id}/heartbeat?worker_id={}", builder.id), &vm, json!({})).await;
    assert_eq!((beat.status, beat.json()["status"].clone()), (200, json!("ok")));
    let parts: [Part<'_>; 3] =
        [("build_id", None, id.as_bytes()), ("worker_id", None, builder.id.as_bytes()), ("success", None, b"true")];
    assert_eq!(server.post_form("/api/workers/upload", &[], &parts).await.status, 200);
    let parts = [parts[0], parts[1], ("success", None, b"false".as_slice())];
    assert_eq!(server.post_form("/api/workers/upload", &[], &parts).await.status, 409, "it has ended otherwise");
    assert_eq!(server.build_status(&id).await, "completed");
}

async fn progress_and_measurements_are_seen(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/heartbeat?worker_id={}", builder.id);
    for progress in [10.0, 62.5, 62.5, 250.0] {
        let beat = server.post_with(&path, &[(API_KEY_HEADER, KEY)], json!({"progress": progress})).await;
        assert_eq!((beat.status, beat.json()["timestamp"].is_i64()), (200, true), "{beat:?}");
    }
    assert_eq!(status(&server, &id).await["progress"], 100.0);
    let said = messages(&server, &id).await;
    let said: Vec<_> = said.iter().filter(|line| line.starts_with("Build progress")).collect();
    assert_eq!(said, ["Build progress: 10%", "Build progress: 62.5%", "Build progress: 100%"]);
    assert_eq!(
        server.post_with(&format!("/api/builds/{id}/heartbeat"), &[(API_KEY_HEADER, KEY)], json!({})).await.status,
        401
    );

    let telemetry = format!("/api/builds/{id}/telemetry");
    for event in [
        json!({"type": "heartbeat", "timestamp": "2026-01-01T00:00:00Z", "data": {"stage": "linking", "metrics": {"cpu_percent": 40, "memory_mb": 512}}}),
        json!({"cpu": 0.5, "memory": 0.25}),
        json!({"type": "cpu_snapshot", "data": {"cpu_percent": -3, "memory_mb": 1e12}}),
        json!({"type": "monitor_started", "data": {}}),
    ] {
        let kept = server.post_with(&telemetry, &builder.headers(), event).await;
        assert_eq!((kept.status, kept.json()["status"].clone()), (200, json!("ok")));
    }
    assert_eq!(messages(&server, &id).await.last().unwrap(), "VM telemetry: monitor_started");
    let all = server.call("GET", &telemetry, "").await.json()["telemetry"].clone();
    let shown: Vec<_> =
        all.as_array().unwrap().iter().map(|one| (&one["cpu"], &one["memory"], &one["memory_mb"])).collect();
    let none = Value::Null;
    assert_eq!(
        shown,
        [(&json!(40.0), &none, &json!(512.0)), (&json!(0.5), &json!(0.25), &none)],
        "what cannot be true is not kept"
    );
}

async fn measurements_are_signs_of_life(on: On) {
    let server = Server::start(on).await;
    assert_eq!(server.settings.build_heartbeat_timeout_ms, 300_000);
    let (id, builder) = server.held_build().await;
    for _ in 0..4 {
        server.clock.advance(200_000);
        let headers = [(API_KEY_HEADER, KEY), ("x-worker-id", builder.id.as_str())];
        let kept =
            server.post_with(&format!("/api/builds/{id}/telemetry"), &headers, json!({"type": "x", "data": {}})).await;
        assert_eq!(kept.status, 200);
    }
    let passes = || server.app.loops.all().get("reaper").map_or(0, |report| report.passes);
    let before = passes();
    crate::harness::eventually("the reaper has passed", async || {
        server.clock.advance(1_000);
        passes() > before + 2
    })
    .await;
    assert_eq!(server.build_status(&id).await, "building");
}

async fn a_watcher_waits_for_its_machine_and_keeps_it_alive(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/vm-status");
    assert_eq!(server.get_with(&path, &[]).await.refusal(), "401 no_credential");
    let wait = async || server.get_with(&path, &[(API_KEY_HEADER, KEY)]).await.json();
    assert_eq!((wait().await["vm_ready"].clone(), wait().await.get("vm_token").cloned()), (json!(false), None));
    let machine = machine(&server, &id, &builder).await;
    let vm = [("x-vm-token", machine.as_str())];
    assert_eq!(server.post_with(&format!("/api/builds/{id}/vm-ready"), &vm, json!({})).await.status, 200);
    let ready = wait().await;
    assert!(ready["vm_ready"] == true && ready["vm_ready_at"].is_string(), "{ready}");
    let watcher = text(&ready["vm_token"]);
    let watcher = [("x-vm-token", watcher.as_str())];
    let beat = server.post_with(&format!("/api/builds/{id}/heartbeat"), &watcher, json!({"progress": 5})).await;
    assert_eq!(beat.status, 200);
    for secret in ["certs", "certs-secure", "source"] {
        let refused = server.get_with(&format!("/api/builds/{id}/{secret}"), &watcher).await;
        assert_eq!(refused.status, 403, "{secret}: it is good for heartbeats and nothing else");
    }
}

async fn a_worker_that_names_no_platform_builds_for_all(on: On) {
    let server = Server::start(on).await;
    for capabilities in [json!({}), json!({"platform": "darwin", "cpuCores": 8}), json!({"platforms": []})] {
        let (ios, _) = server.submit_build().await;
        let (android, _) = server.submit_build_with(&[("platform", None, b"android")]).await;
        let wanted = json!({"name": "test-worker", "capabilities": capabilities});
        let registered = server.call("POST", "/api/workers/register", wanted.to_string()).await;
        assert_eq!((registered.status, registered.json()["status"].clone()), (200, json!("registered")));
        let mut builder =
            Builder { id: text(&registered.json()["id"]), token: text(&registered.json()["access_token"]) };
        for id in [ios, android] {
            assert_eq!(builder.poll(&server).await["id"], id, "one at a time, in their order");
            assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
        }
    }
}

async fn unknown_workers_are_refused(on: On) {
    let server = Server::start(on).await;
    let (id, _) = server.held_build().await;
    let headers = [(API_KEY_HEADER, KEY), ("x-worker-id", "nobody")];
    for path in ["source", "certs"] {
        assert_eq!(server.get_with(&format!("/api/builds/{id}/{path}"), &headers).await.refusal(), "403 forbidden");
    }
    for path in ["logs", "telemetry"] {
        let refused = server.post_with(&format!("/api/builds/{id}/{path}"), &headers, json!({"message": "x"})).await;
        assert_eq!(refused.refusal(), "403 forbidden");
    }
    let wrong = server.get_with("/api/builds", &[(API_KEY_HEADER, "no key of ours")]).await;
    assert!(wrong.status == 403 && text(&wrong.json()["error"]).contains("Invalid API key"), "{wrong:?}");
}

async fn a_worker_is_shown_as_people_think_of_it(on: On) {
    let server = Server::start(on).await;
    let builder = server.builder("mac").await;
    let stats = async || server.call("GET", &format!("/api/workers/{}/stats", builder.id), "").await.json();
    server.clock.advance(83_000);
    let idle = stats().await;
    assert_eq!(
        (&idle["status"], &idle["uptime"], &idle["workerName"]),
        (&json!("idle"), &json!("1m 23s"), &json!("mac"))
    );
    server.submit_build().await;
    let path = format!("/api/workers/poll?worker_id={}", builder.id);
    assert_eq!(server.call("GET", &path, "").await.status, 200);
    assert_eq!(stats().await["status"], "building");
    server.post_with("/api/workers/unregister", &[(API_KEY_HEADER, KEY)], json!({"worker_id": builder.id})).await;
    assert_eq!((stats().await["status"].clone(), stats().await["uptime"].clone()), (json!("offline"), json!("0s")));
}

async fn a_worker_that_is_gone_stores_nothing(on: On) {
    let server = Server::start(on).await;
    let builder = server.builder("one").await;
    server.post_with("/api/workers/unregister", &builder.headers(), json!({})).await;
    let parts: [Part<'_>; 2] = [("result", Some("a.ipa"), b"late"), ("success", None, b"true")];
    let refused = server.post_bare_form("/api/workers/upload", &[("x-worker-token", &builder.token)], &parts).await;
    assert_eq!((refused.refusal().as_str(), server.stored_files().len()), ("409 worker_offline", 0));
}

async fn other_tenants_are_not_named(on: On) {
    let server = Server::start(on).await;
    let wanted = json!({"name": "x", "scopes": ["submit", "worker"], "namespace": "beta"});
    server.call("POST", "/api/v1/namespaces", json!({"name": "beta"}).to_string()).await;
    let key = text(&server.call("POST", "/api/v1/keys", wanted.to_string()).await.json()["key"]);
    let (id, token) = server.submit_build().await;
    let foreign = [(API_KEY_HEADER, key.as_str())];
    for path in ["", "/status", "/logs", "/download", "/telemetry", "/vm-status"] {
        let refused = server.get_with(&format!("/api/builds/{id}{path}"), &foreign).await;
        assert_eq!(refused.status, 404, "{path}: {refused:?}");
    }
    let both = [(API_KEY_HEADER, key.as_str()), ("x-build-token", token.as_str())];
    assert_eq!(server.get_with(&format!("/api/builds/{id}/status"), &both).await.status, 200, "the token is good");
}
