//! What the command lines, workers and machines of Expo Free Agent send, and what they demand of
//! the answers.

use baton::proto::API_KEY_HEADER;
use serde_json::{Value, json};

use super::rig::{Part, SOURCE, text};
use crate::harness::{KEY, On, Server, on_both};

on_both!(
    status_has_numbers_and_words_that_clients_know,
    a_list_has_the_names_that_clients_know,
    the_first_command_line_gets_an_array,
    a_log_begins_with_the_lines_of_the_server_and_is_whole,
    lines_with_raw_control_characters_are_kept,
    a_result_comes_in_any_order,
    a_result_that_nobody_can_use_leaves_nothing,
    a_build_that_nobody_was_handed_is_ended_by_whoever_built_it,
    a_build_that_was_handed_out_before_is_not,
    a_worker_repeats_what_its_machine_has_said,
    progress_and_measurements_are_seen,
    measurements_are_signs_of_life,
    a_watcher_waits_for_its_machine_and_keeps_it_alive,
    a_worker_that_names_no_platform_builds_for_all,
    unknown_workers_are_refused,
    parts_that_nobody_asked_for_are_passed_over,
    a_source_is_what_it_begins_with,
    downloads_before_the_end_are_refused,
    the_key_counts_where_both_are_shown,
    a_worker_is_shown_as_people_think_of_it,
    an_upload_that_fails_takes_no_build,
    nobody_is_read_who_has_not_shown_a_token_of_the_build,
    a_worker_that_is_gone_stores_nothing,
    other_tenants_are_not_named,
);

async fn status(server: &Server, id: &str) -> Value {
    server.call("GET", &format!("/api/builds/{id}/status"), "").await.json()
}

/// The token of a machine that builds it.
async fn machine(server: &Server, id: &str, builder: &super::rig::Builder) -> String {
    // Its password comes with the job, which a poll brings again until it is begun.
    let polled = server.call("GET", &format!("/api/workers/poll?worker_id={}", builder.id), "").await.json();
    let otp = json!({"otp": polled["job"]["otp"]});
    text(&server.post_with(&format!("/api/builds/{id}/authenticate"), &[], otp).await.json()["vm_token"])
}

async fn messages(server: &Server, id: &str) -> Vec<String> {
    let logs = server.call("GET", &format!("/api/builds/{id}/logs"), "").await.json();
    assert_eq!(logs["build_id"], id);
    let lines = logs["logs"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["build_id"] == id && line["timestamp"].is_string()), "{logs}");
    lines.iter().map(|line| text(&line["message"])).collect()
}

async fn status_has_numbers_and_words_that_clients_know(on: On) {
    let server = Server::start(on).await;
    let (id, token) = server.submit_build().await;
    let fresh = server.get_with(&format!("/api/builds/{id}/status"), &[("x-build-token", &token)]).await.json();
    let now = server.clock.fixed().unwrap();
    assert_eq!(
        fresh,
        json!({
            "id": id, "status": "pending", "platform": "ios", "worker_id": null, "submitted_at": now, "started_at": null,
            "completed_at": null, "error_message": null, "progress": null, "queue_position": 1,
        })
    );
    let mut builder = server.builder("one").await;
    builder.poll(&server).await;
    assert_eq!(status(&server, &id).await["status"], "assigned");
    server.get_with(&format!("/api/builds/{id}/source"), &builder.headers()).await;
    let begun = status(&server, &id).await;
    assert_eq!((&begun["status"], &begun["worker_id"]), (&json!("building"), &json!(builder.id)));
    assert!(begun["started_at"].is_i64(), "{begun}");
    let active = server.call("GET", "/api/builds/active", "").await.json();
    assert_eq!(active["builds"][0]["started_at"], begun["started_at"]);
    builder.upload(&server, &id, b"done").await;
    let ended = status(&server, &id).await;
    assert!(ended["completed_at"].is_i64() && ended["status"] == "completed", "{ended}");

    let (id, _) = server.submit_build().await;
    server.call("POST", &format!("/api/builds/{id}/cancel"), "").await;
    let cancelled = status(&server, &id).await;
    assert_eq!(cancelled["status"], "failed", "they know no other word for it");
    assert_eq!(cancelled["error_message"], "Build cancelled by user");
    assert_eq!(server.call("GET", &format!("/api/builds/{id}"), "").await.json()["status"], "cancelled");
}

async fn a_list_has_the_names_that_clients_know(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    builder.upload(&server, &id, b"done").await;
    let (waiting, _) = server.submit_build().await;
    let page = server.call("GET", "/api/builds", "").await.json();
    assert_eq!((&page["total"], &page["next_cursor"]), (&json!(2), &Value::Null));
    let [newest, oldest] = page["builds"].as_array().unwrap().as_slice() else { panic!("{page}") };
    assert_eq!(newest["id"], waiting);
    assert!(newest["createdAt"].as_str().unwrap().ends_with('Z'), "{newest}");
    assert_eq!(newest.get("completedAt"), None, "null would not do");
    assert_eq!(oldest["completedAt"], oldest["completed_at"]);
}

async fn the_first_command_line_gets_an_array(on: On) {
    let server = Server::start(on).await;
    let (id, _) = server.submit_build().await;
    let list = async |path: &str, agent: &str| {
        server.get_with(path, &[(API_KEY_HEADER, KEY), ("user-agent", agent)]).await.json()
    };
    for agent in ["node", "Bun/1.3.0"] {
        let array = list("/api/builds", agent).await;
        assert_eq!((array[0]["id"].clone(), array[0]["status"].clone()), (json!(id), json!("pending")));
        assert_eq!(list("/api/builds?limit=5", agent).await["total"], 1, "whoever sends a query knows pages");
    }
    assert_eq!(list("/api/builds", "curl/8.0").await["total"], 1);
}

async fn a_log_begins_with_the_lines_of_the_server_and_is_whole(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    for part in 0..3 {
        let logs: Vec<_> =
            (0..1_000).map(|line| json!({"level": "info", "message": format!("{part}.{line}")})).collect();
        let added =
            server.post_with(&format!("/api/builds/{id}/logs"), &builder.headers(), json!({"logs": logs})).await;
        assert_eq!(added.json()["count"], 1_000);
    }
    builder.upload(&server, &id, b"done").await;
    let all = messages(&server, &id).await;
    assert_eq!(all[0], "Build submitted");
    assert!(all.contains(&"Build assigned to worker holder (attempt 1)".to_owned()));
    assert_eq!(all.last().unwrap(), "Build completed successfully");
    assert_eq!(all.len(), 3_003, "a follower counts them");
    let page = server.call("GET", &format!("/api/builds/{id}/logs?limit=2&after=1"), "").await.json();
    assert_eq!(page["logs"].as_array().unwrap().len(), 2);

    let again = server.call("POST", &format!("/api/builds/{id}/retry"), "").await.json();
    let second = text(&again["id"]);
    assert_eq!(messages(&server, &second).await, [format!("Build submitted (retry of {id})")]);
    assert_eq!(messages(&server, &id).await.last().unwrap(), &format!("Retried as build {second}"));
    let third = server.call("POST", &format!("/api/builds/{second}/retry"), "").await;
    assert_eq!(third.status, 201, "whatever became of it");
    let mut other = server.builder("other").await;
    other.poll(&server).await;
    let failed = json!({"build_id": second, "error": "no signing key"});
    assert_eq!(server.post_with("/api/workers/fail", &other.headers(), failed).await.status, 200);
    assert_eq!(messages(&server, &second).await.last().unwrap(), "Build failed: no signing key");
}

async fn lines_with_raw_control_characters_are_kept(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let add = async |body: &str| {
        let path = format!("/api/builds/{id}/logs");
        server.with_headers("POST", &path, &builder.headers(), body).await
    };
    let raw = "{\"logs\": [\n{\"level\": \"info\", \"message\": \"\u{1b}[32mdone\u{1b}[0m\r\tok \\\"quoted\\\"\"}]}";
    assert_eq!(add(raw).await.status, 200);
    assert!(messages(&server, &id).await.contains(&"\u{1b}[32mdone\u{1b}[0m\r\tok \"quoted\"".to_owned()));
    for wrong in ["{\"logs\": 7}", "{\"level\": \"info\"}", "{\"message\": \"\u{1b}", "nothing"] {
        assert_eq!(add(wrong).await.refusal(), "400 malformed", "{wrong}");
    }
}

async fn a_result_comes_in_any_order(on: On) {
    let server = Server::start(on).await;
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1], [1, 0, 3, 2]] {
        let (id, builder) = server.held_build().await;
        let parts: [Part<'_>; 4] = [
            ("result", Some("app.ipa"), b"the result"),
            ("build_id", None, id.as_bytes()),
            ("worker_id", None, builder.id.as_bytes()),
            ("success", None, b"true"),
        ];
        let parts = order.map(|index| parts[index]);
        // Nothing but the key, and the worker's id in the form.
        let uploaded = server.post_form("/api/workers/upload", &[], &parts).await;
        assert_eq!((uploaded.status, uploaded.json()["status"].clone()), (200, json!("success")), "{order:?}");
        let again = server.post_form("/api/workers/upload", &[], &parts).await;
        assert_eq!(again.status, 200, "the answer was lost: {order:?} {again:?}");
        assert!(status(&server, &id).await["started_at"].is_i64(), "whoever ends it has begun it");
        let fetched = server.call("GET", &format!("/api/builds/{id}/download"), "").await;
        assert_eq!(fetched.body, b"the result".as_slice());
        assert!(fetched.header("content-disposition").contains("app.ipa"));
    }
    server.collect().await;
    assert_eq!(server.stored_files().len(), 8, "four sources and four results: nothing is left of repetitions");
}

async fn a_result_that_nobody_can_use_leaves_nothing(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let file: Part<'_> = ("result", Some("app.ipa"), b"the result");
    let (build, nobody): (Part<'_>, Part<'_>) = (("build_id", None, id.as_bytes()), ("build_id", None, b"nonsense"));
    let (success, failure): (Part<'_>, Part<'_>) = (("success", None, b"true"), ("success", None, b"false"));
    let worker: Part<'_> = ("worker_id", None, builder.id.as_bytes());
    let stranger = server.builder("stranger").await;
    let other: Part<'_> = ("worker_id", None, stranger.id.as_bytes());
    for (parts, refusal) in [
        (vec![file, success, worker], "400 malformed"),
        (vec![file, build, worker], "400 malformed"),
        (vec![file, build, success], "401 no_credential"),
        (vec![file, nobody, success, worker], "404 unknown_build"),
        (vec![file, build, success, other], "403 forbidden"),
        (vec![file, file, build, success, worker], "400 malformed"),
    ] {
        let refused = server.post_form("/api/workers/upload", &[], &parts).await;
        assert_eq!(refused.status.to_string(), refusal[..3], "{parts:?}: {refused:?}");
        assert_eq!(server.stored_files().len(), 1, "the source alone: {parts:?}");
    }
    assert_eq!(server.build_status(&id).await, "assigned", "nothing has changed");
    let ended = server.post_form("/api/workers/upload", &[], &[file, build, failure, worker]).await;
    assert_eq!((ended.status, ended.json()["status"].clone()), (200, json!("failed")));
    assert_eq!(server.stored_files().len(), 1);
    let late = server.post_form("/api/workers/upload", &[], &[file, build, success, worker]).await;
    assert_eq!(late.status, 409, "{late:?}");
    assert_eq!(server.stored_files().len(), 1);
}

async fn a_build_that_nobody_was_handed_is_ended_by_whoever_built_it(on: On) {
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
            super::rig::Builder { id: text(&registered.json()["id"]), token: text(&registered.json()["access_token"]) };
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

async fn parts_that_nobody_asked_for_are_passed_over(on: On) {
    let server = Server::start(on).await;
    let profile = vec![0xff; 200_000];
    let more: [Part<'_>; 2] = [("profile", Some("x.mobileprovision"), &profile), ("appleId", None, b"a@example.org")];
    server.submit_build_with(&more).await;
    let refused = server.post_form("/api/builds", &[], &[("platform", None, b"ios")]).await;
    assert!(refused.status == 400 && text(&refused.json()["error"]).contains("Source file required"), "{refused:?}");
    for platform in [&[][..], &[("platform", None, b"toaster".as_slice())]] {
        let parts = [&[("source", Some("a.zip"), SOURCE)], platform].concat();
        let refused = server.post_form("/api/builds/submit", &[], &parts).await;
        assert!(refused.status == 400 && text(&refused.json()["error"]).contains("platform"), "{refused:?}");
    }
}

async fn a_source_is_what_it_begins_with(on: On) {
    let server = Server::start(on).await;
    for (name, bytes, expected) in [
        ("project.tar.gz", SOURCE, "application/zip"),
        ("app.zip", SOURCE, "application/zip"),
        ("project.tar.gz", b"\x1f\x8b rest".as_slice(), "application/gzip"),
        ("project", b"text", "application/octet-stream"),
        ("project", b"P", "application/octet-stream"),
    ] {
        let parts: [Part<'_>; 2] = [("source", Some(name), bytes), ("platform", None, b"ios")];
        let id = text(&server.post_form("/api/builds/submit", &[], &parts).await.json()["id"]);
        let fetched = server.call("GET", &format!("/api/builds/{id}/download/source"), "").await;
        assert_eq!((fetched.header("content-type"), fetched.body.as_ref()), (expected, bytes), "{name}");
    }
}

async fn downloads_before_the_end_are_refused(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let fetch = async |path: &str| server.call("GET", &format!("/api/builds/{id}/{path}"), "").await;
    let early = fetch("download").await;
    assert!(early.status == 400 && text(&early.json()["error"]).contains("Build not completed"), "{early:?}");
    assert_eq!(fetch("download/nonsense").await.status, 400);
    let parts: [Part<'_>; 4] = [
        ("result", None, b"the result"),
        ("build_id", None, id.as_bytes()),
        ("worker_id", None, builder.id.as_bytes()),
        ("success", None, b"true"),
    ];
    assert_eq!(server.post_form("/api/workers/result", &[], &parts).await.status, 200);
    assert!(fetch("download").await.header("content-disposition").contains(&format!("{id}.ipa")));

    let (id, builder) = server.held_build().await;
    let parts: [Part<'_>; 2] = [("build_id", None, id.as_bytes()), ("success", None, b"true")];
    assert_eq!(
        server.post_form("/api/workers/upload", &[("x-worker-token", &builder.token)], &parts).await.status,
        200
    );
    assert_eq!(server.call("GET", &format!("/api/builds/{id}/download"), "").await.status, 404, "there is no file");
}

async fn the_key_counts_where_both_are_shown(on: On) {
    let server = Server::start(on).await;
    let (id, token) = server.submit_build().await;
    let path = format!("/api/builds/{id}/status");
    let see = async |key: &str, token: &str| {
        server.get_with(&path, &[(API_KEY_HEADER, key), ("x-build-token", token)]).await.status
    };
    assert_eq!(see(KEY, "nonsense").await, 200);
    assert_eq!(see("no key of ours", &token).await, 200);
    assert_eq!(see("no key of ours", "nonsense").await, 403);
    let wanted = baton::proto::CreateKey {
        name: "w".into(),
        scopes: vec!["worker".into()],
        namespace: None,
        expires_in_ms: None,
    };
    let worker = server.client.create_key(&wanted).await.unwrap().key;
    assert_eq!((see(&worker, &token).await, see(&worker, "nonsense").await), (200, 403), "that key reads nothing");
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

async fn an_upload_that_fails_takes_no_build(on: On) {
    let server = Server::start(on).await;
    let (id, _) = server.submit_build().await;
    let mut builder = server.builder("one").await;
    let headers = [("x-worker-token", builder.token.as_str())];
    let build: Part<'_> = ("build_id", None, id.as_bytes());
    for parts in [
        &[build, ("success", None, b"true"), ("result", Some("a.ipa"), b"")][..],
        &[build, ("result", Some("a.ipa"), b"no word about success")],
    ] {
        assert_eq!(server.post_form("/api/workers/upload", &headers, parts).await.status, 400);
        assert_eq!((server.build_status(&id).await.as_str(), server.stored_files().len()), ("pending", 1));
    }
    assert_eq!(builder.poll(&server).await["id"], id, "it is there for whoever polls");
}

async fn nobody_is_read_who_has_not_shown_a_token_of_the_build(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let (other, _) = server.submit_build().await;
    let machine = machine(&server, &id, &builder).await;
    for token in [("x-vm-token", "x"), ("x-lease", "x"), ("x-vm-token", machine.as_str())] {
        for path in [format!("/api/builds/{other}/logs"), "/api/workers/fail".to_owned()] {
            // Nothing comes after the head: whoever waits for the body waits for ever.
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: x\r\n{}: {}\r\ncontent-length: 1000\r\n\r\n", token.0, token.1);
            let mut stream = server.connect().await;
            let answer = crate::harness::talk(&mut stream, head.as_bytes()).await;
            // A lease wants a key beside it.
            let wanted = if token.0 == "x-lease" && path.ends_with("/logs") { 401 } else { 403 };
            assert!(answer.starts_with(&format!("HTTP/1.1 {wanted}")), "{path} {token:?}: {answer}");
        }
    }
    let nul = json!({"build_id": id, "worker_id": "a\0b"});
    assert_eq!(
        server.post_with("/api/workers/heartbeat", &[(API_KEY_HEADER, KEY)], nul).await.refusal(),
        "403 forbidden"
    );
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
