//! Connections: keep-alive, HTTP/2, and clients that are slow or silent. The store does not matter here.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{On, PATIENCE, Server, eventually, rest, soon, talk};

const HEALTHZ: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

/// Sends a request and reads its answer, which has a body of a known length; the connection stays open.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(br#"{"status":"ok"}"#) {
        let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("no answer came").unwrap();
        answer.push(byte);
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let server = Server::start(On::Sqlite).await;
    let mut stream = server.connect().await;
    for _ in 0..3 {
        assert!(ask(&mut stream, HEALTHZ).await.starts_with("HTTP/1.1 200 OK"));
    }
    // Two at once, without waiting for the first answer.
    let both = [HEALTHZ, &b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"[..]].concat();
    let answers = talk(&mut stream, &both).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    eventually("the connection is not counted any more", async || server.app.metrics.connections.get() == 0).await;
}

#[tokio::test]
async fn http_2_works_with_prior_knowledge() {
    let server = Server::start(On::Sqlite).await;
    let client = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Empty<Bytes>>();
    let uri: http::Uri = format!("http://{}/healthz", server.address).parse().unwrap();
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(client.get(uri.clone()))).collect();
    for call in calls {
        let answer = soon(call).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    }
}

#[tokio::test]
async fn what_is_not_http_is_turned_away() {
    let server = Server::start(On::Sqlite).await;
    for nonsense in [&b"hello\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET /healthz HTTP/9.9\r\n\r\n"] {
        let answer = talk(&mut server.connect().await, nonsense).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert_eq!(server.call("GET", "/healthz", "").await.status, 200);
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off() {
    let server = Server::with(On::Sqlite, |settings| settings.header_timeout_ms = 200).await;
    let mut stream = server.connect().await;
    let begun = Instant::now();
    assert_eq!(talk(&mut stream, b"GET /healthz HTTP/1.1\r\nhost:").await, "");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    // Also when it is not the first on its connection.
    let mut stream = server.connect().await;
    ask(&mut stream, HEALTHZ).await;
    assert_eq!(talk(&mut stream, b"GET /healthz HT").await, "");
}

/// A client that sends a byte now and then, so that it is never silent for long.
#[tokio::test]
async fn a_head_that_trickles_is_cut_off() {
    let server = Server::with(On::Sqlite, |settings| settings.header_timeout_ms = 300).await;
    let (mut read, mut write) = server.connect().await.into_split();
    write.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").await.unwrap();
    let trickle = tokio::spawn(async move {
        while write.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut nothing = Vec::new();
    // An end or a reset: either way it is over, and no answer came.
    let _ = tokio::time::timeout(PATIENCE, read.read_to_end(&mut nothing)).await.expect("it was not cut off");
    assert!(nothing.is_empty());
    trickle.abort();
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let server = Server::with(On::Sqlite, |settings| settings.idle_timeout_ms = 200).await;
    let begun = Instant::now();
    // One that never says a word, one between two requests, and one that speaks HTTP/2 and asks nothing.
    let mut mute = server.connect().await;
    let mut between = server.connect().await;
    ask(&mut between, HEALTHZ).await;
    let mut http2 = server.connect().await;
    http2.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    assert_eq!(rest(&mut mute).await, "");
    assert_eq!(rest(&mut between).await, "");
    rest(&mut http2).await;
    assert!(begun.elapsed() >= Duration::from_millis(200));
    eventually("no connection is left", async || server.app.metrics.connections.get() == 0).await;
}

/// A request that is being worked on is not idle, however long it takes.
#[tokio::test]
async fn a_waiting_claim_is_not_a_silent_connection() {
    let server = Server::with(On::Sqlite, |settings| {
        settings.idle_timeout_ms = 100;
        settings.header_timeout_ms = 100;
    })
    .await;
    let worker = server.worker("one").await;
    let poll = server.parked(&worker).await;
    let begun = Instant::now();
    let mut other = server.connect().await;
    // A silent connection opened later is closed first: its limit has passed for the claim's as well.
    rest(&mut other).await;
    assert!(begun.elapsed() >= Duration::from_millis(100));
    server.submit().await;
    assert_eq!(soon(poll).await.len(), 1);
}

#[tokio::test]
async fn beyond_the_most_connections_others_wait_their_turn() {
    let server = Server::with(On::Sqlite, |settings| settings.connections_max = 2).await;
    let mut first = server.connect().await;
    ask(&mut first, HEALTHZ).await;
    let mut second = server.connect().await;
    ask(&mut second, HEALTHZ).await;
    let mut third = server.connect().await;
    third.write_all(HEALTHZ).await.unwrap();
    ask(&mut second, HEALTHZ).await;
    let early = tokio::time::timeout(Duration::from_millis(100), third.read_u8()).await;
    assert!(early.is_err(), "a third connection is served");
    drop(first);
    assert!(ask(&mut third, b"").await.starts_with("HTTP/1.1 200"));
}
