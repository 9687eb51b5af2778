//! Clients that ask and do not take, over HTTP/2 and gRPC: they cost little, and nobody else
//! anything.

use std::time::Duration;

use baton::proto::SubmitRun;
use baton_testkit::http2::{self, RST_STREAM, WINDOW_UPDATE};
use serde_json::value::to_raw_value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{KEY, On, PATIENCE, Server, eventually, on_both, run, soon};

/// Submits a run with a large input.
async fn large_run(server: &Server, bytes: usize) -> String {
    let input = to_raw_value(&"x".repeat(bytes)).unwrap();
    server.client.submit(&SubmitRun { input: Some(input), ..run() }).await.unwrap().id
}

/// A connection on which every stream begins without a window.
async fn without_window(server: &Server) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(&http2::preface(0)).await.unwrap();
    stream
}

/// Reads until a frame of this kind comes for this stream.
async fn until(stream: &mut TcpStream, kind: u8, number: u32) -> Vec<u8> {
    loop {
        let next = tokio::time::timeout(PATIENCE, http2::next(stream)).await.expect("no such frame came");
        let (found, of, payload) = next.expect("the connection is open");
        if (found, of) == (kind, number) {
            return payload;
        }
    }
}

async fn a_stream_that_takes_nothing_is_reset_alone(on: On) {
    let server = Server::with(on, |settings| settings.write_timeout_ms = 300).await;
    let run = large_run(&server, 100_000).await;
    let mut stream = without_window(&server).await;
    stream.write_all(&http2::get(&format!("/api/v1/runs/{run}"), KEY, 1)).await.unwrap();
    stream.write_all(&http2::get("/openapi.json", KEY, 3)).await.unwrap();
    stream.write_all(&http2::call("GetWorkflowRun", &run, KEY, 5)).await.unwrap();
    let mut reset = Vec::new();
    while reset.len() < 3 {
        let next = tokio::time::timeout(PATIENCE, http2::next(&mut stream)).await.expect("not all are reset");
        let (kind, number, _) = next.unwrap();
        if kind == RST_STREAM {
            reset.push(number);
        }
    }
    reset.sort_unstable();
    assert_eq!(reset, [1, 3, 5]);
    // The connection goes on, for those that take what they ask for.
    stream.write_all(&http2::get("/healthz", KEY, 7)).await.unwrap();
    stream.write_all(&http2::frame(WINDOW_UPDATE, 0, 7, &1_000_u32.to_be_bytes())).await.unwrap();
    assert_eq!(until(&mut stream, http2::DATA, 7).await, br#"{"status":"ok"}"#);
}

async fn a_stream_that_is_taken_slowly_is_sent_to_its_end(on: On) {
    let server = Server::with(on, |settings| settings.write_timeout_ms = 1_000).await;
    let run = large_run(&server, 100_000).await;
    let mut stream = without_window(&server).await;
    stream.write_all(&http2::get(&format!("/api/v1/runs/{run}"), KEY, 1)).await.unwrap();
    let mut taken = Vec::new();
    while !taken.ends_with(b"}") {
        for number in [0, 1] {
            stream.write_all(&http2::frame(WINDOW_UPDATE, 0, number, &20_000_u32.to_be_bytes())).await.unwrap();
        }
        taken.extend(until(&mut stream, http2::DATA, 1).await);
    }
    let seen: serde_json::Value = serde_json::from_slice(&taken).unwrap();
    assert_eq!(seen["input"].as_str().unwrap().len(), 100_000);
}

/// One connection asks for far more than its share. What does not fit is not made, and refused in
/// the end; others notice nothing.
async fn answers_that_nobody_takes_have_a_limit(on: On) {
    let server = Server::with(on, |settings| settings.answers_bytes_max = 8 << 20).await;
    let run = large_run(&server, 200_000).await;
    let path = format!("/api/v1/runs/{run}");
    let mut greedy = without_window(&server).await;
    for number in 0..100 {
        greedy.write_all(&http2::get(&path, KEY, 2 * number + 1)).await.unwrap();
    }
    let refused = async || {
        let label = r#"method="GET",route="/api/v1/runs/{id}",status="503""#;
        let metrics = server.app.metrics.text();
        metrics.lines().find(|line| line.contains(label)).and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
    };
    // The same key on another connection.
    for _ in 0..10 {
        let seen = tokio::time::timeout(Duration::from_secs(3), server.client.run(&run)).await;
        assert_eq!(seen.expect("it waits for the others").unwrap().input.unwrap().get().len(), 200_002);
    }
    eventually("what has no room is refused", async || refused().await.unwrap_or(0) >= 90).await;
    assert!(refused().await.unwrap() < 100, "some had room");
    // Whoever goes away gives back what it had.
    drop(greedy);
    assert_eq!(server.client.run(&run).await.unwrap().id, run);
}

/// Every stream costs the client one frame to open and one to reset.
async fn a_client_that_resets_what_it_asked_for_is_cut_off(on: On) {
    let server = Server::start(on).await;
    let run = server.submit().await;
    let mut stream = server.connect().await;
    stream.write_all(&http2::preface(65_535)).await.unwrap();
    let path = format!("/api/v1/runs/{run}?wait_ms=50000");
    let (mut reading, mut writing) = stream.into_split();
    let flood = tokio::spawn(async move {
        for number in 0..100_000 {
            let mut bytes = http2::get(&path, KEY, 2 * number + 1);
            bytes.extend(http2::frame(RST_STREAM, 0, 2 * number + 1, &8_u32.to_be_bytes()));
            if writing.write_all(&bytes).await.is_err() {
                return;
            }
        }
        panic!("it may go on for ever");
    });
    let mut sink = tokio::io::sink();
    let ended = tokio::io::copy(&mut reading, &mut sink);
    let _ = tokio::time::timeout(PATIENCE, ended).await.expect("it is not cut off");
    soon(flood).await;
    assert_eq!(server.call("GET", "/healthz", "").await.status, 200);
}

/// Opens and then resets so many streams on a new connection. True if it is served after that.
async fn is_served_after_resets(server: &Server, run: &str, count: u32) -> bool {
    let mut stream = server.connect().await;
    stream.write_all(&http2::preface(65_535)).await.unwrap();
    let path = format!("/api/v1/runs/{run}?wait_ms=50000");
    for number in 0..count {
        stream.write_all(&http2::get(&path, KEY, 2 * number + 1)).await.unwrap();
    }
    // When this one is answered, the others are being waited for.
    stream.write_all(&http2::get("/healthz", KEY, 1_999)).await.unwrap();
    until(&mut stream, http2::DATA, 1_999).await;
    // Whoever is cut off may find out while it writes.
    for number in 0..count {
        let _ = stream.write_all(&http2::frame(RST_STREAM, 0, 2 * number + 1, &8_u32.to_be_bytes())).await;
    }
    let _ = stream.write_all(&http2::get("/healthz", KEY, 2_001)).await;
    loop {
        let next = tokio::time::timeout(PATIENCE, http2::next(&mut stream)).await.expect("neither served nor cut off");
        match next {
            Ok((http2::DATA, 2_001, body)) => {
                assert_eq!(body, br#"{"status":"ok"}"#);
                return true;
            }
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

/// Workers that hang up with a thousand claims waiting reset them all, and are no attackers.
async fn a_client_that_hangs_up_on_many_calls_is_not_cut_off(on: On) {
    let server = Server::start(on).await;
    let run = server.submit().await;
    assert!(is_served_after_resets(&server, &run, 900).await);
}

/// How many connections reset 900 streams each before one is cut off.
async fn connections_until_cut_off(server: &Server, run: &str) -> u32 {
    let mut connections = 0;
    while is_served_after_resets(server, run, 900).await {
        connections += 1;
        assert!(connections < 50, "a new connection may reset as many again");
    }
    connections
}

/// An attacker that is cut off comes back on a new connection.
async fn resets_are_counted_for_the_address_and_those_who_reset_little_are_served(on: On) {
    let server = Server::start(on).await;
    let run = server.submit().await;
    let connections = connections_until_cut_off(&server, &run).await;
    assert!(connections >= 4, "cut off after {connections}");
    // Sooner than at first: what it may reset comes back little by little.
    let again = connections_until_cut_off(&server, &run).await;
    assert!(again < connections, "cut off after {connections}, and then after {again}");
    assert!(is_served_after_resets(&server, &run, 50).await);
}

async fn headers_that_never_end_are_cut_off(on: On) {
    let server = Server::start(on).await;
    let mut stream = server.connect().await;
    stream.write_all(&http2::preface(65_535)).await.unwrap();
    stream.write_all(&http2::frame(http2::HEADERS, 0, 1, &http2::headers(&[(":method", "GET")]))).await.unwrap();
    let more = http2::frame(http2::CONTINUATION, 0, 1, &http2::headers(&[("x-more", &"x".repeat(16_000))]));
    let flood = async {
        for _ in 0..10_000 {
            if stream.write_all(&more).await.is_err() {
                return;
            }
        }
        panic!("it may go on for ever");
    };
    tokio::time::timeout(PATIENCE, flood).await.expect("it is not cut off");
}

on_both!(
    a_stream_that_takes_nothing_is_reset_alone,
    a_stream_that_is_taken_slowly_is_sent_to_its_end,
    answers_that_nobody_takes_have_a_limit,
    a_client_that_resets_what_it_asked_for_is_cut_off,
    a_client_that_hangs_up_on_many_calls_is_not_cut_off,
    resets_are_counted_for_the_address_and_those_who_reset_little_are_served,
    headers_that_never_end_are_cut_off,
);
