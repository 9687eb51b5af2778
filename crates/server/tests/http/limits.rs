//! Limits on size, time and rate: 408, 413, 429, 503.

use std::time::{Duration, Instant};

use baton::proto::{QueueLimits, SubmitBatch, SubmitRun};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{KEY, On, PATIENCE, Server, complete, eventually, on_both, refusal, rest, run, talk};

/// The head of a submit, up to what describes its body.
fn head(key: &str) -> String {
    format!("POST /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n")
}

/// As small as they can be: what a call says besides its payload always fits.
fn small_bodies(settings: &mut baton_server::Settings) {
    settings.body_bytes_max = 1_000;
    settings.payload_bytes_max = 1_000;
}

async fn a_body_that_says_it_is_too_large_is_not_read(on: On) {
    let server = Server::with(on, small_bodies).await;
    let limit = server.settings.payload_body_bytes_max();
    let mut stream = server.connect().await;
    // Not a byte of the body is sent: the answer comes all the same.
    let sent = format!("{}content-length: {}\r\n\r\n", head(KEY), limit + 1);
    let answer = talk(&mut stream, sent.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains(r#""code":"too_large""#), "{answer}");
    assert!(answer.contains(&format!("{limit} bytes")), "{answer}");
    let fits = format!(r#"{{"type":"ios","input":"{}"}}"#, "x".repeat(900));
    assert_eq!(server.call("POST", "/api/v1/runs", fits).await.status, 201);
}

async fn a_body_that_turns_out_too_large_is_cut_off(on: On) {
    let server = Server::with(on, small_bodies).await;
    let mut stream = server.connect().await;
    let chunk = format!("200\r\n{}\r\n", "x".repeat(512));
    let chunks = server.settings.payload_body_bytes_max() / 512 + 1;
    let sent = format!("{}transfer-encoding: chunked\r\n\r\n{}", head(KEY), chunk.repeat(chunks));
    // The end of the body never comes.
    let answer = talk(&mut stream, sent.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

async fn batches_may_be_larger_and_have_their_own_limit(on: On) {
    let server = Server::with(on, |settings| {
        small_bodies(settings);
        settings.batch_bytes_max = 100_000;
    })
    .await;
    let batch = |count| serde_json::to_vec(&SubmitBatch { runs: vec![run(); count] }).unwrap();
    assert_eq!(server.call("POST", "/api/v1/runs/batch", batch(1_000)).await.status, 201);
    assert_eq!(server.call("POST", "/api/v1/runs/batch", batch(5_000)).await.refusal(), "413 too_large");
}

async fn inputs_and_outputs_have_a_limit(on: On) {
    let server = Server::with(on, |settings| settings.payload_bytes_max = 100).await;
    let large = "x".repeat(99);
    let body = json!({"type": "ios", "input": large}).to_string();
    assert_eq!(server.call("POST", "/api/v1/runs", body).await.refusal(), "413 too_large");
    let (_, claimed) = server.held().await;
    let body = json!({"lease": claimed.lease, "output": large}).to_string();
    let path = format!("/api/v1/runs/{}/complete", claimed.run_id);
    assert_eq!(server.call("POST", &path, body).await.refusal(), "413 too_large");
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
}

async fn nobodys_body_is_read_without_a_key(on: On) {
    let server = Server::start(on).await;
    for (key, expected) in [("", "401"), ("wrong", "403")] {
        let mut stream = server.connect().await;
        let head = if key.is_empty() { head("x").replace("x-api-key: x\r\n", "") } else { head(key) };
        let answer = talk(&mut stream, format!("{head}content-length: 1000\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{answer}");
    }
}

async fn a_body_that_does_not_come_is_not_waited_for(on: On) {
    let server = Server::with(on, |settings| settings.body_timeout_ms = 200).await;
    let mut stream = server.connect().await;
    let begun = Instant::now();
    let answer = talk(&mut stream, format!("{}content-length: 1000\r\n\r\n{{", head(KEY)).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains(r#""code":"too_slow""#), "{answer}");
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

/// One byte now and then keeps no body open: the limit is on the whole of it.
async fn a_body_that_trickles_is_cut_off(on: On) {
    let server = Server::with(on, |settings| settings.body_timeout_ms = 300).await;
    let (mut read, mut write) = server.connect().await.into_split();
    write.write_all(format!("{}content-length: 100000\r\n\r\n", head(KEY)).as_bytes()).await.unwrap();
    let trickle = tokio::spawn(async move {
        while write.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut answer = vec![0; 12];
    tokio::time::timeout(PATIENCE, read.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, b"HTTP/1.1 408");
    trickle.abort();
}

async fn a_full_queue_says_when_to_come_back(on: On) {
    let server = Server::start(on).await;
    let limits = QueueLimits { backlog_max: Some(Some(3)), ..QueueLimits::default() };
    server.client.limit_queue("default", "builds", &limits).await.unwrap();
    let two = serde_json::to_vec(&SubmitBatch { runs: vec![run(); 2] }).unwrap();
    assert_eq!(server.call("POST", "/api/v1/runs/batch", two.clone()).await.status, 201);
    let full = server.call("POST", "/api/v1/runs/batch", two).await;
    assert_eq!(full.refusal(), "503 queue_full", "all or nothing");
    assert!(full.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert!(full.json()["error"].as_str().unwrap().contains("builds"));
    server.submit().await;
    assert_eq!(refusal(server.client.submit(&run()).await), "503 queue_full");
    // What is held does not wait, so there is room again.
    let worker = server.worker("one").await;
    server.claim(&worker).await;
    server.submit().await;
    assert_eq!(refusal(server.client.submit(&run()).await), "503 queue_full");
    server.client.submit(&baton::proto::SubmitRun::new("other", "ios")).await.unwrap();
}

async fn a_repeated_submit_gets_its_answer_from_a_full_queue_too(on: On) {
    let server = Server::with(on, |settings| settings.build_backlog_max = 1).await;
    let keyed = |key: &str| SubmitRun { idempotency_key: Some(key.into()), ..run() };
    let first = server.client.submit(&keyed("a")).await.unwrap();
    assert_eq!(server.client.submit(&keyed("a")).await.unwrap().id, first.id);
    assert_eq!(refusal(server.client.submit(&keyed("b")).await), "503 queue_full");
    let other = SubmitRun { priority: Some(1), ..keyed("a") };
    assert_eq!(refusal(server.client.submit(&other).await), "422 idempotency_key_reused");
}

async fn a_burst_of_submits_never_overfills_a_queue(on: On) {
    let server = Server::with(on, |settings| settings.build_backlog_max = 50).await;
    let calls: Vec<_> = (0..120)
        .map(|_| {
            let client = server.client.clone();
            tokio::spawn(async move { client.submit(&run()).await.is_ok() })
        })
        .collect();
    let mut taken = 0;
    for call in calls {
        taken += u64::from(call.await.unwrap());
    }
    let waiting = async || server.client.queue("default", "builds").await.unwrap().ready;
    assert!(taken <= 50 && taken == waiting().await, "{taken}");
    // While much is in flight a queue may seem full a little too early; what is left can still be filled.
    while server.client.submit(&run()).await.is_ok() {}
    assert_eq!(waiting().await, 50);
}

async fn a_key_that_asks_too_often_is_told_to_slow_down(on: On) {
    let server = Server::with(on, |settings| settings.requests_per_second = 5).await;
    let mut slowed = None;
    for _ in 0..50 {
        let answer = server.call("GET", "/api/v1/keys", "").await;
        if answer.status != 200 {
            slowed = Some(answer);
            break;
        }
    }
    let slowed = slowed.expect("fifty requests at once are more than five a second");
    assert_eq!((slowed.refusal().as_str(), slowed.header("retry-after")), ("429 too_many_requests", "1"));
    eventually("it may go on", async || server.call("GET", "/api/v1/keys", "").await.status == 200).await;
}

async fn whoever_guesses_keys_is_slowed_down_and_others_are_not(on: On) {
    let server = Server::with(on, |settings| settings.refusals_per_second = 3).await;
    let mut answers = Vec::new();
    for guess in 0..30 {
        let request = server.request("GET", "/api/v1/runs").header("x-api-key", format!("bk_guess_{guess}"));
        answers.push(server.send(request, "").await.refusal());
    }
    assert_eq!(answers[0], "403 bad_credential");
    assert!(answers.contains(&"429 too_many_requests".to_owned()), "{answers:?}");
    assert_eq!(server.call("GET", "/api/v1/runs", "").await.status, 200);
    // The audit log is not a way to fill the disk.
    let refused = answers.iter().filter(|answer| answer.starts_with("403")).count();
    let lines = server.client.audit_log(None, None).await.unwrap().lines;
    assert_eq!(lines.len(), refused);
}

/// Somebody behind the same address makes keys up. A key that is good, and that this server has not
/// seen yet, gets in all the same.
async fn made_up_keys_do_not_keep_good_ones_out(on: On) {
    let server = Server::with(on, |settings| settings.refusals_per_second = 1).await;
    let mut good = Vec::new();
    for _ in 0..20 {
        good.push(server.client_for(&["read"], None).await);
    }
    let guesses: Vec<_> = (0..200)
        .map(|guess| {
            let client = server.client_with(&format!("bk_guess_{guess}_of_many"));
            tokio::spawn(async move { refusal(client.audit_log(None, None).await) })
        })
        .collect();
    let calls: Vec<_> =
        good.into_iter().map(|client| tokio::spawn(async move { client.queues(None).await.map(drop) })).collect();
    for call in calls {
        call.await.unwrap().expect("a good key");
    }
    let mut slowed = 0;
    for guess in guesses {
        let refusal = guess.await.unwrap();
        assert!(["403 bad_credential", "429 too_many_requests"].contains(&refusal.as_str()), "{refusal}");
        slowed += usize::from(refusal.starts_with("429"));
    }
    assert!(slowed > 100, "{slowed}");
}

/// Bodies that are announced and never come fill the share of their key, and nobody else's.
async fn bodies_that_never_come_leave_room_for_those_of_others(on: On) {
    let server = Server::with(on, |settings| settings.bodies_bytes_max = 1_000_000).await;
    let other = server.client_for(&["submit"], None).await;
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect().await;
        stream.write_all(format!("{}content-length: 100000\r\n\r\n{{", head(KEY)).as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let input = serde_json::value::to_raw_value(&"x".repeat(100_000)).unwrap();
    let large = SubmitRun { input: Some(input), ..run() };
    let submitted = tokio::time::timeout(Duration::from_secs(3), other.submit(&large)).await;
    submitted.expect("it waits for bodies of others").unwrap();
}

async fn payloads_may_not_be_nested_without_end(on: On) {
    let server = Server::start(on).await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let submit = async |input: &str| {
        let body = format!(r#"{{"queue":"deep","type":"ios","input":{input}}}"#);
        server.call("POST", "/api/v1/runs", body).await
    };
    assert_eq!(submit(&nested(128)).await.status, 201);
    for depth in [129, 1_500, 2_000_000] {
        let refused = submit(&nested(depth)).await;
        assert_eq!(refused.refusal(), "422 invalid", "{depth}");
        assert!(refused.json()["error"].as_str().unwrap().contains("payload_depth_max"));
    }
    assert_eq!(submit(&format!("{:?}", "[".repeat(1_000))).await.status, 201, "that is a text");
    let batch = format!(r#"{{"runs":[{{"queue":"deep","type":"ios","input":{}}}]}}"#, nested(129));
    assert_eq!(server.call("POST", "/api/v1/runs/batch", batch).await.refusal(), "422 invalid");
    let (_, claimed) = server.held().await;
    let output = format!(r#"{{"lease":"{}","output":{}}}"#, claimed.lease, nested(129));
    let path = format!("/api/v1/runs/{}/complete", claimed.run_id);
    assert_eq!(server.call("POST", &path, output).await.refusal(), "422 invalid");
    let schedule =
        format!(r#"{{"id":"deep","cron":"0 0 * * *","run":{{"queue":"q","type":"a","input":{}}}}}"#, nested(129));
    assert_eq!(server.call("POST", "/api/v1/schedules", schedule).await.refusal(), "422 invalid");
}

async fn a_head_that_is_too_large_is_refused(on: On) {
    let server = Server::start(on).await;
    let mut stream = server.connect().await;
    let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-large: {}\r\n\r\n", "x".repeat(100_000));
    // The server may close before it has read all, so that sending fails.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

on_both!(
    a_body_that_says_it_is_too_large_is_not_read,
    a_body_that_turns_out_too_large_is_cut_off,
    batches_may_be_larger_and_have_their_own_limit,
    inputs_and_outputs_have_a_limit,
    nobodys_body_is_read_without_a_key,
    a_body_that_does_not_come_is_not_waited_for,
    a_body_that_trickles_is_cut_off,
    a_full_queue_says_when_to_come_back,
    a_burst_of_submits_never_overfills_a_queue,
    a_repeated_submit_gets_its_answer_from_a_full_queue_too,
    a_key_that_asks_too_often_is_told_to_slow_down,
    whoever_guesses_keys_is_slowed_down_and_others_are_not,
    made_up_keys_do_not_keep_good_ones_out,
    bodies_that_never_come_leave_room_for_those_of_others,
    payloads_may_not_be_nested_without_end,
    a_head_that_is_too_large_is_refused,
);
