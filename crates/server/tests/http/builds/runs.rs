//! /api/builds: submitting, listing, cancelling, retrying.

use baton::proto::API_KEY_HEADER;
use serde_json::{Value, json};

use super::rig::{Part, SOURCE, form, text};
use crate::harness::{KEY, On, Server, on_both};

on_both!(
    a_build_goes_from_submit_to_download,
    submitting_needs_a_key_a_platform_and_a_source,
    the_same_key_and_the_same_files_give_the_same_build,
    a_full_queue_says_so_in_the_words_of_the_protocol,
    builds_are_listed_filtered_and_counted,
    a_build_token_opens_its_build_and_no_other,
    a_waiting_build_is_cancelled_at_once_and_a_held_one_is_stopped,
    a_retry_makes_a_new_build_of_the_same_source,
    builds_leave_by_priority_and_then_in_order,
    a_refused_submit_leaves_no_file,
);

async fn a_build_goes_from_submit_to_download(on: On) {
    let server = Server::start(on).await;
    let (id, token) = server.submit_build().await;
    assert_eq!(server.build_status(&id).await, "pending");
    let mut builder = server.builder("mac mini").await;
    let job = builder.poll(&server).await;
    assert_eq!((job["id"].as_str(), job["platform"].as_str()), (Some(id.as_str()), Some("ios")));
    assert_eq!((job["certs_url"].clone(), job["baseImageId"].clone()), (Value::Null, Value::Null));
    assert_eq!(server.build_status(&id).await, "assigned");
    let source = server.get_with(&text(&job["source_url"]), &builder.headers()).await;
    assert_eq!((source.status, &source.body[..]), (200, SOURCE));
    assert_eq!(source.header("content-type"), "application/zip");
    assert_eq!(server.build_status(&id).await, "building");
    let early = server.get_with(&format!("/api/builds/{id}/download"), &[("x-build-token", &token)]).await;
    assert_eq!(early.refusal(), "400 malformed");
    let answer = builder.upload(&server, &id, b"an app").await;
    assert_eq!((answer.status, answer.json()["success"].clone()), (200, json!(true)));
    let shown = server.get_with(&format!("/api/builds/{id}"), &[("x-build-token", &token)]).await.json();
    assert_eq!((shown["status"].as_str(), shown["worker_id"].as_str()), (Some("completed"), Some(builder.id.as_str())));
    let files = shown["files"].as_array().unwrap();
    assert_eq!(files.iter().map(|file| text(&file["name"])).collect::<Vec<_>>(), ["app.zip", "app.ipa"]);
    for path in ["download", "download/result"] {
        let result = server.get_with(&format!("/api/builds/{id}/{path}"), &[("x-build-token", &token)]).await;
        assert_eq!((result.status, &result.body[..]), (200, &b"an app"[..]));
        assert!(result.header("content-disposition").contains("app.ipa"));
    }
    let source = server.get_with(&format!("/api/builds/{id}/download/source"), &[("x-build-token", &token)]).await;
    assert_eq!(&source.body[..], SOURCE);
}

async fn submitting_needs_a_key_a_platform_and_a_source(on: On) {
    let server = Server::start(on).await;
    let good: [Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), SOURCE)];
    let kind = format!("multipart/form-data; boundary={}", super::rig::BOUNDARY);
    let without_key = server.request("POST", "/api/builds").header("content-type", &kind);
    let answer = server.send(without_key, form(&good)).await;
    assert_eq!(answer.refusal(), "401 no_credential");
    assert!(answer.json()["error"].as_str().unwrap().contains("X-API-Key"), "{answer:?}");
    let wrong_key = server.request("POST", "/api/builds").header("content-type", &kind);
    let answer = server.send(wrong_key.header(API_KEY_HEADER, "bk_somebody_elses_key_000"), form(&good)).await;
    assert_eq!(answer.refusal(), "403 bad_credential");
    let refused: [(&[Part<'_>], &str); 5] = [
        (&[("source", Some("a.zip"), SOURCE)], "400 malformed"),
        (&[("platform", None, b"toaster"), ("source", Some("a.zip"), SOURCE)], "400 malformed"),
        (&[("platform", None, b"ios")], "400 malformed"),
        (&[("platform", None, b"ios"), ("priority", None, b"10"), ("source", Some("a.zip"), SOURCE)], "422 invalid"),
        (&[("platform", None, b"ios"), ("source", None, SOURCE), ("source", None, SOURCE)], "400 malformed"),
    ];
    for (parts, expected) in refused {
        assert_eq!(server.post_form("/api/builds/submit", &[], parts).await.refusal(), expected, "{parts:?}");
    }
    let json = server.call("POST", "/api/builds", "{\"platform\":\"ios\"}").await;
    assert_eq!(json.refusal(), "400 malformed");
    let cut = &form(&good)[..60];
    let request = server.request("POST", "/api/builds").header("content-type", &kind).header(API_KEY_HEADER, KEY);
    assert_eq!(server.send(request, cut.to_vec()).await.refusal(), "400 malformed");
    assert_eq!(server.call("GET", "/api/builds", "").await.json()["total"], 0);
}

async fn the_same_key_and_the_same_files_give_the_same_build(on: On) {
    let server = Server::start(on).await;
    let submit = async |source: &[u8]| {
        let parts: [Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), source)];
        server.post_form("/api/builds", &[("idempotency-key", "once")], &parts).await
    };
    let (first, again, other) = (submit(b"one").await, submit(b"one").await, submit(b"two").await);
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    assert_eq!(other.refusal(), "422 idempotency_key_reused");
    assert_eq!(server.call("GET", "/api/builds", "").await.json()["total"], 1);
}

async fn a_full_queue_says_so_in_the_words_of_the_protocol(on: On) {
    let server = Server::with(on, |settings| settings.build_backlog_max = 1).await;
    server.submit_build().await;
    let parts: [Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), SOURCE)];
    let full = server.post_form("/api/builds", &[], &parts).await;
    assert_eq!(full.refusal(), "503 queue_full");
    assert_eq!(full.json()["error"], "Build queue full, try again later");
    assert!(full.header("retry-after").parse::<u64>().unwrap() > 0);
}

async fn builds_are_listed_filtered_and_counted(on: On) {
    let server = Server::start(on).await;
    let (first, _) = server.submit_build().await;
    let (second, _) = server.submit_build().await;
    server.submit_build_with(&[("platform", None, b"android")]).await;
    let mut builder = server.builder("one").await;
    assert_eq!(builder.poll(&server).await["id"], first.as_str());
    let list = async |query: &str| server.call("GET", &format!("/api/builds{query}"), "").await.json();
    let ids = |page: &Value| page["builds"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect::<Vec<_>>();
    assert_eq!(list("").await["total"], 3);
    assert_eq!(ids(&list("?status=pending&platform=ios").await), [second.as_str()]);
    assert_eq!(ids(&list(&format!("?worker_id={}", builder.id)).await), [first.as_str()]);
    let page = list("?limit=2").await;
    let rest = list(&format!("?limit=2&cursor={}", text(&page["next_cursor"]))).await;
    assert_eq!((ids(&page).len(), ids(&rest)), (2, vec![first.clone()]));
    let active = server.call("GET", "/api/builds/active", "").await.json();
    assert_eq!(ids(&active), [first.as_str()]);
    let counts = server.call("GET", "/api/builds/statistics", "").await.json();
    assert_eq!(
        (counts["pending"].clone(), counts["assigned"].clone(), counts["total"].clone()),
        (json!(2), json!(1), json!(3))
    );
    assert_eq!(server.call("GET", "/api/builds?status=sideways", "").await.status, 422);
}

async fn a_build_token_opens_its_build_and_no_other(on: On) {
    let server = Server::start(on).await;
    let ((first, token), (second, _)) = (server.submit_build().await, server.submit_build().await);
    let get =
        async |id: &str, headers: &[(&str, &str)]| server.get_with(&format!("/api/builds/{id}/status"), headers).await;
    assert_eq!(get(&first, &[("x-build-token", &token)]).await.status, 200);
    assert_eq!(get(&second, &[("x-build-token", &token)]).await.refusal(), "403 bad_credential");
    assert_eq!(get(&first, &[]).await.refusal(), "401 no_credential");
    assert_eq!(get("nonsense", &[(API_KEY_HEADER, KEY)]).await.refusal(), "404 not_found");
}

async fn a_waiting_build_is_cancelled_at_once_and_a_held_one_is_stopped(on: On) {
    let server = Server::start(on).await;
    let (waiting, token) = server.submit_build().await;
    let cancel = async |id: &str, token: &str| {
        server.post_with(&format!("/api/builds/{id}/cancel"), &[("x-build-token", token)], json!({})).await
    };
    assert_eq!(cancel(&waiting, &token).await.json(), json!({"success": true, "status": "cancelled"}));
    assert_eq!(cancel(&waiting, &token).await.status, 200, "again is fine");
    let (held, token) = server.submit_build().await;
    let mut builder = server.builder("one").await;
    assert_eq!(builder.poll(&server).await["id"], held.as_str());
    assert_eq!(cancel(&held, &token).await.json()["success"], true);
    let beat = server.post_with("/api/workers/heartbeat", &builder.headers(), json!({"build_id": held})).await;
    assert_eq!(beat.refusal(), "409 cancelling", "the builder is told to stop");
    let answer =
        server.post_with("/api/workers/fail", &builder.headers(), json!({"build_id": held, "error": "stopped"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(server.build_status(&held).await, "cancelled");
}

async fn a_retry_makes_a_new_build_of_the_same_source(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let retry = async |key: &str| {
        server
            .post_with(
                &format!("/api/builds/{id}/retry"),
                &[(API_KEY_HEADER, KEY), ("idempotency-key", key)],
                json!({}),
            )
            .await
    };
    server.post_with("/api/workers/fail", &builder.headers(), json!({"build_id": id, "error": "no luck"})).await;
    let shown = server.call("GET", &format!("/api/builds/{id}"), "").await.json();
    assert_eq!((shown["status"].clone(), shown["error_message"].clone()), (json!("failed"), json!("no luck")));
    let again = retry("k").await.json();
    assert_eq!((again["original_build_id"].as_str(), again["status"].as_str()), (Some(id.as_str()), Some("pending")));
    assert_eq!(retry("k").await.json()["id"], again["id"], "the same key gives the same build");
    let mut builder = server.builder("second").await;
    let job = builder.poll(&server).await;
    assert_eq!(job["id"], again["id"]);
    let source = server.get_with(&text(&job["source_url"]), &builder.headers()).await;
    assert_eq!(&source.body[..], SOURCE);
}

async fn builds_leave_by_priority_and_then_in_order(on: On) {
    let server = Server::start(on).await;
    let (first, _) = server.submit_build().await;
    let (second, _) = server.submit_build().await;
    let (urgent, _) = server.submit_build_with(&[("priority", None, b"9")]).await;
    let mut builder = server.builder_for("one", 3).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        let id = text(&builder.poll(&server).await["id"]);
        server.post_with("/api/workers/heartbeat", &builder.headers(), json!({"build_id": id})).await;
        order.push(id);
    }
    assert_eq!(order, [urgent, first, second]);
}

async fn a_refused_submit_leaves_no_file(on: On) {
    let server = Server::start(on).await;
    let parts: [Part<'_>; 2] = [("platform", None, b"toaster"), ("source", Some("a.zip"), SOURCE)];
    assert_eq!(server.post_form("/api/builds", &[], &parts).await.refusal(), "400 malformed");
    let wrong_sum = [("x-checksum-sha256", "0000000000000000000000000000000000000000000000000000000000000000")];
    let good: [Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), SOURCE)];
    assert_eq!(server.post_form("/api/builds", &wrong_sum, &good).await.refusal(), "400 malformed");
    assert_eq!(server.stored_files(), Vec::<String>::new());
}
