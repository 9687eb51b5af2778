//! Several results of one lease: one counts, and only whoever sent that one is told so. And what is no file at all.

use std::sync::Arc;

use baton::proto::API_KEY_HEADER;
use serde_json::json;

use super::rig::{Part, text};
use crate::harness::{Answer, KEY, On, PATIENCE, Server, on_both, talk};

on_both!(
    of_several_results_at_once_one_counts_and_the_others_are_told,
    of_several_results_of_a_machine_one_counts_and_the_others_are_told,
    an_empty_file_is_no_source_and_no_result,
    only_the_first_poll_of_a_lease_is_in_the_log,
    a_body_that_says_it_is_too_large_is_refused_before_it_comes,
);

const CONTENTS: [&[u8]; 4] = [b"AAAA", b"BBBB", b"CCCC", b"DDDD"];

/// One of them was taken, and it is the one that is kept.
async fn one_counts(server: &Server, id: &str, answers: Vec<(&'static [u8], Answer)>) -> &'static [u8] {
    let kept = server.call("GET", &format!("/api/builds/{id}/download"), "").await.body;
    for (content, answer) in &answers {
        match *content == &kept[..] {
            true => assert_eq!(answer.status, 200, "{answer:?}"),
            false => assert_eq!(answer.refusal(), "409 ended"),
        }
    }
    answers.iter().map(|(content, _)| *content).find(|content| *content == &kept[..]).expect("one of them is kept")
}

async fn of_several_results_at_once_one_counts_and_the_others_are_told(on: On) {
    let server = Arc::new(Server::start(on).await);
    for _ in 0..5 {
        let (id, builder) = server.held_build().await;
        let builder = Arc::new(builder);
        let mut uploads = tokio::task::JoinSet::new();
        for content in CONTENTS {
            let (server, builder, id) = (server.clone(), builder.clone(), id.clone());
            uploads.spawn(async move { (content, builder.upload(&server, &id, content).await) });
        }
        let answers = tokio::time::timeout(PATIENCE, uploads.join_all()).await.unwrap();
        let kept = one_counts(&server, &id, answers).await;
        assert_eq!(builder.upload(&server, &id, kept).await.status, 200, "the same again is fine");
        let parts: [Part<'_>; 2] = [("build_id", None, id.as_bytes()), ("success", None, b"true")];
        let bare = server.post_form("/api/workers/upload", &[("x-worker-token", &builder.token)], &parts).await;
        assert_eq!(bare.status, 200, "its lease has completed it: {bare:?}");
        server.collect().await;
        assert_eq!(&server.call("GET", &format!("/api/builds/{id}/download"), "").await.body[..], kept);
    }
}

async fn of_several_results_of_a_machine_one_counts_and_the_others_are_told(on: On) {
    let server = Arc::new(Server::start(on).await);
    for _ in 0..5 {
        let (id, _) = server.submit_build().await;
        let job = server.builder("host").await.poll(&server).await;
        let path = format!("/api/builds/{id}/authenticate");
        let vm = text(&server.post_with(&path, &[], json!({"otp": job["otp"]})).await.json()["vm_token"]);
        let mut uploads = tokio::task::JoinSet::new();
        for content in CONTENTS {
            let (server, vm, path) = (server.clone(), vm.clone(), format!("/api/builds/{id}/artifact"));
            uploads.spawn(async move {
                (content, server.send(server.request("POST", &path).header("x-vm-token", vm), content).await)
            });
        }
        let answers = tokio::time::timeout(PATIENCE, uploads.join_all()).await.unwrap();
        one_counts(&server, &id, answers).await;
    }
}

async fn an_empty_file_is_no_source_and_no_result(on: On) {
    let server = Server::start(on).await;
    let empty: [Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("app.zip"), b"")];
    assert_eq!(server.post_form("/api/builds", &[], &empty).await.refusal(), "400 malformed");
    assert!(server.stored_files().is_empty());
    let (id, builder) = server.held_build().await;
    assert_eq!(builder.upload(&server, &id, b"").await.refusal(), "400 malformed");
    let request = server.request("POST", &format!("/api/builds/{id}/artifact"));
    let request = request.header(API_KEY_HEADER, KEY).header("x-worker-token", &builder.token);
    assert_eq!(server.send(request, "").await.refusal(), "400 malformed");
    assert_eq!(server.stored_files().len(), 1, "only the source");
    assert_eq!(server.build_status(&id).await, "assigned", "nothing has changed");
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
}

async fn only_the_first_poll_of_a_lease_is_in_the_log(on: On) {
    let server = Server::start(on).await;
    let (id, mut builder) = server.held_build().await;
    let assigned = async || {
        let logs = server.call("GET", &format!("/api/builds/{id}/logs"), "").await.json()["logs"].clone();
        let lines = logs.as_array().unwrap().iter();
        lines.filter(|line| text(&line["message"]).starts_with("Build assigned to worker")).count()
    };
    for _ in 0..3 {
        assert_eq!(builder.poll(&server).await["id"], id.as_str());
    }
    assert_eq!(assigned().await, 1);
    server.post_with("/api/workers/abandon", &builder.headers(), json!({"build_id": id})).await;
    assert_eq!(builder.poll(&server).await["id"], id.as_str());
    assert_eq!(assigned().await, 2, "another lease");
}

async fn a_body_that_says_it_is_too_large_is_refused_before_it_comes(on: On) {
    let server = Server::with(on, |settings| settings.artifact_bytes_max = 1_000).await;
    let sum = "0".repeat(64);
    for (start, kind) in [
        ("POST /api/builds".to_owned(), "multipart/form-data; boundary=x"),
        (format!("PUT /api/v1/cache/{sum}"), "application/octet-stream"),
    ] {
        let head = format!(
            "{start} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{API_KEY_HEADER}: {KEY}\r\ncontent-type: {kind}\r\n\
             content-length: 900000000\r\n\r\n"
        );
        let answer = talk(&mut server.connect().await, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
    }
}
