//! Logs of builds.

use baton::proto::API_KEY_HEADER;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::rig::text;
use crate::harness::{KEY, LONG_MS, On, PATIENCE, Server, on_both};

on_both!(
    lines_are_kept_in_order_and_read_in_pages,
    lines_that_come_again_are_kept_once,
    odd_bytes_do_no_harm,
    a_log_has_an_end_and_says_so,
    a_page_waits_for_lines,
    a_stream_follows_until_the_build_has_ended,
    only_the_holder_writes,
);

fn messages(page: &Value) -> Vec<String> {
    page["logs"].as_array().unwrap().iter().map(|line| text(&line["message"])).collect()
}

async fn lines_are_kept_in_order_and_read_in_pages(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/logs");
    let many: Vec<_> = (0..5).map(|number| json!({"level": "info", "message": format!("line {number}")})).collect();
    assert_eq!(server.post_with(&path, &builder.headers(), json!({"logs": many})).await.status, 200);
    assert_eq!(server.post_with(&path, &builder.headers(), json!({"message": "one more"})).await.status, 200);
    let all = server.call("GET", &path, "").await.json();
    assert_eq!(messages(&all)[..2], ["Build submitted", "Build assigned to worker holder (attempt 1)"]);
    assert_eq!(messages(&all)[2..], ["line 0", "line 1", "line 2", "line 3", "line 4", "one more"]);
    let page = server.call("GET", &format!("{path}?after=2&limit=2"), "").await.json();
    assert_eq!(messages(&page), ["line 0", "line 1"]);
    assert!(page["logs"][0]["timestamp"].is_string() && page["logs"][0]["level"] == "info");
    assert_eq!(server.call("GET", &format!("{path}?limit=0"), "").await.refusal(), "422 invalid");
}

/// The answer to an append was lost, and its sender sends it again.
async fn lines_that_come_again_are_kept_once(on: On) {
    let server = Server::start(on).await;
    let (id, _) = server.submit_build().await;
    let worker = server.client.register(&crate::harness::worker("native")).await.unwrap().worker_id;
    let run = server.claim(&worker).await;
    let (path, headers) = (format!("/api/builds/{id}/logs"), [(API_KEY_HEADER, KEY), ("x-lease", run.lease.as_str())]);
    let add = async |first: Option<u64>, lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| json!({"message": line})).collect();
        let body = match first {
            Some(first) => json!({"logs": lines, "first_line": first}),
            None => json!({"logs": lines}),
        };
        server.post_with(&path, &headers, body).await
    };
    for (first, lines) in [(1, ["a", "b"]), (1, ["a", "b"]), (2, ["b", "c"])] {
        assert_eq!(add(Some(first), &lines).await.status, 200);
    }
    assert_eq!(add(Some(5), &["e"]).await.refusal(), "409 conflict", "a line is missing");
    assert_eq!(add(Some(0), &["a"]).await.refusal(), "422 invalid");
    // Who does not count gets what it asks for, as ever.
    for _ in 0..2 {
        assert_eq!(add(None, &["again"]).await.status, 200);
    }
    assert_eq!(
        messages(&server.call("GET", &path, "").await.json()),
        ["Build submitted", "a", "b", "c", "again", "again"]
    );
}

async fn odd_bytes_do_no_harm(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/logs");
    let odd = "nul \u{0} bell \u{7} emoji \u{1f980} replacement \u{fffd}";
    assert_eq!(server.post_with(&path, &builder.headers(), json!({"message": odd})).await.status, 200);
    let kept = messages(&server.call("GET", &format!("{path}?after=2"), "").await.json());
    assert_eq!(kept, [odd]);
}

async fn a_log_has_an_end_and_says_so(on: On) {
    let server = Server::with(on, |settings| settings.build_log_bytes_max = 2_000).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/logs");
    for _ in 0..5 {
        let line = json!({"message": "x".repeat(700)});
        assert_eq!(server.post_with(&path, &builder.headers(), line).await.status, 200);
    }
    let kept = messages(&server.call("GET", &path, "").await.json());
    assert!(kept.len() < 7 && kept.last().unwrap().contains("2000"), "{kept:?}");
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200, "the build goes on");
}

async fn a_page_waits_for_lines(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/logs");
    let waiting = {
        let url = format!("{path}?after=2&wait_ms={LONG_MS}");
        let request = server.request("GET", &url).header(API_KEY_HEADER, KEY);
        server.send(request, "")
    };
    let said = async {
        tokio::task::yield_now().await;
        server.post_with(&path, &builder.headers(), json!({"message": "at last"})).await
    };
    let (page, _) = tokio::time::timeout(PATIENCE, async { tokio::join!(waiting, said) }).await.unwrap();
    assert_eq!(messages(&page.json()), ["at last"]);
}

async fn a_stream_follows_until_the_build_has_ended(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/logs");
    let mut stream = server.connect().await;
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = String::new();
    let mut until = async |word: &str| {
        let mut buffer = [0; 4096];
        while !seen.contains(word) {
            let read =
                tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.expect("the stream is silent").unwrap();
            assert!(read > 0, "the stream ended before {word}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    until("Build assigned to worker").await;
    server.post_with(&path, &builder.headers(), json!({"message": "first words"})).await;
    until("first words").await;
    builder.upload(&server, &id, b"done").await;
    until("event: end").await;
    assert!(seen.contains("Build completed successfully"), "{seen}");
    assert!(seen.contains("content-type: text/event-stream") && seen.contains("id: 3"), "{seen}");
    // Whoever was cut off goes on after what it saw last.
    let again = server.request("GET", &path).header(API_KEY_HEADER, KEY).header("accept", "text/event-stream");
    let rest = server.send(again.header("last-event-id", "2"), "").await;
    let rest = String::from_utf8_lossy(&rest.body).into_owned();
    assert!(rest.starts_with("id: 3\n") && rest.contains("first words") && !rest.contains("assigned"), "{rest}");
}

async fn only_the_holder_writes(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = format!("/api/builds/{id}/logs");
    let line = json!({"message": "x"});
    assert_eq!(server.post_with(&path, &[(API_KEY_HEADER, KEY)], line.clone()).await.refusal(), "401 no_credential");
    let other = server.builder("other").await;
    assert_eq!(server.post_with(&path, &other.headers(), line.clone()).await.refusal(), "403 forbidden");
    builder.upload(&server, &id, b"done").await;
    assert_eq!(server.post_with(&path, &builder.headers(), line).await.refusal(), "409 ended");
}
