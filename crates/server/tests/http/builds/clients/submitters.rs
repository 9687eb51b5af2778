//! What command lines send, and files in both directions.

use baton::proto::API_KEY_HEADER;
use serde_json::{Value, json};

use super::{machine, messages, status};
use crate::builds::rig::{Part, SOURCE, text};
use crate::harness::{KEY, On, Server, on_both};

on_both!(
    status_has_numbers_and_words_that_clients_know,
    a_list_has_the_names_that_clients_know,
    the_first_command_line_gets_an_array,
    a_log_begins_with_the_lines_of_the_server_and_is_whole,
    lines_with_raw_control_characters_are_kept,
    a_result_comes_in_any_order,
    a_result_that_nobody_can_use_leaves_nothing,
    parts_that_nobody_asked_for_are_passed_over,
    a_source_is_what_it_begins_with,
    downloads_before_the_end_are_refused,
    the_key_counts_where_both_are_shown,
    an_upload_that_fails_takes_no_build,
    nobody_is_read_who_has_not_shown_a_token_of_the_build,
);

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
