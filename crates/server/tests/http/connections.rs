//! Connections: keep-alive, HTTP/2, and clients that are slow or silent. The store does not matter here.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{KEY, On, PATIENCE, Server, eventually, rest, soon, talk};

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

/// Nobody waits while a connection sits idle: the oldest of those is closed.
#[tokio::test]
async fn beyond_the_most_connections_the_oldest_idle_one_makes_room() {
    let server = Server::with(On::Sqlite, |settings| settings.connections_max = 2).await;
    let worker = server.worker("one").await;
    eventually("the client's own connection is idle", async || server.app.metrics.connections.get() == 1).await;
    let mut first = server.connect().await;
    ask(&mut first, HEALTHZ).await;
    // Takes the place of the client's.
    let mut second = server.connect().await;
    ask(&mut second, HEALTHZ).await;
    let mut third = server.connect().await;
    ask(&mut third, HEALTHZ).await;
    assert_eq!(rest(&mut first).await, "", "the oldest is closed");
    ask(&mut second, HEALTHZ).await;
    // One that is asked something is not idle.
    let claim = format!(
        "POST /api/v1/workers/{worker}/claim HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: 17\r\n\r\n{{\"wait_ms\":50000}}"
    );
    for stream in [&mut second, &mut third] {
        stream.write_all(claim.as_bytes()).await.unwrap();
    }
    eventually("both wait", async || server.app.dispatcher.waiting() == 2).await;
    let mut fourth = server.connect().await;
    assert_eq!(rest(&mut fourth).await, "", "there is no room for another");
    assert_eq!(server.app.metrics.connections_refused.get(), 1);
}

#[tokio::test]
async fn one_address_leaves_room_for_others() {
    let server = Server::with(On::Sqlite, |settings| {
        settings.connections_max = 10;
        settings.connections_per_address_max = 4;
    })
    .await;
    let mut crowd = Vec::new();
    for _ in 0..20 {
        let mut stream = from(&server, "127.0.0.2").await;
        ask(&mut stream, HEALTHZ).await;
        crowd.push(stream);
    }
    eventually("only the newest are left", async || server.app.metrics.connections.get() == 4).await;
    assert_eq!(rest(&mut crowd[0]).await, "");
    ask(&mut crowd[19], HEALTHZ).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut stream = from(&server, "127.0.0.3").await;
        ask(&mut stream, HEALTHZ).await;
        others.push(stream);
    }
    ask(&mut crowd[19], HEALTHZ).await;
}

/// A connection from another address of this machine.
async fn from(server: &Server, address: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test]
async fn requests_without_a_credential_are_limited_by_address() {
    let server = Server::with(On::Sqlite, |settings| settings.unauthenticated_per_second = 5).await;
    let mut stream = from(&server, "127.0.0.2").await;
    let close = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answers = talk(&mut stream, &[HEALTHZ.repeat(20), close.to_vec()].concat()).await;
    assert!(answers.contains("HTTP/1.1 429 ") && answers.contains("too_many_requests"), "{answers}");
    assert!((5..15).contains(&answers.matches("HTTP/1.1 200 ").count()), "{answers}");
    // Neither others nor those who have a key are slowed down.
    assert_eq!(server.send(server.request("GET", "/healthz"), "").await.status, 200);
    let with_key = format!("GET /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\nconnection: close\r\n\r\n");
    let answer = talk(&mut from(&server, "127.0.0.2").await, with_key.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn requests_at_once_are_limited_by_address() {
    let server = Server::with(On::Sqlite, |settings| settings.requests_per_address_max = 1).await;
    let worker = server.worker("one").await;
    let _poll = server.parked(&worker).await;
    let answer = server.send(server.request("GET", "/healthz"), "").await;
    assert_eq!((answer.refusal().as_str(), answer.header("retry-after")), ("429 too_many_requests", "1"));
    let answer = talk(&mut from(&server, "127.0.0.2").await, CLOSE).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

const CLOSE: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_trusted_proxy_speaks_for_many_and_others_for_themselves() {
    let server = Server::with(On::Sqlite, |settings| {
        settings.trusted_proxies = "127.0.0.9".into();
        settings.unauthenticated_per_second = 1;
        settings.connections_per_address_max = 1;
    })
    .await;
    let spoken_for = |client: &str| {
        format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-forwarded-for: {client}\r\nconnection: close\r\n\r\n")
    };
    let mut kept = Vec::new();
    for number in 1..=5 {
        // The proxy's connections have no limit of their own, and each of its clients has one.
        let mut idle = from(&server, "127.0.0.9").await;
        ask(
            &mut idle,
            format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.{}\r\n\r\n", 100 + number).as_bytes(),
        )
        .await;
        kept.push(idle);
        let mut stream = from(&server, "127.0.0.9").await;
        let answer = talk(&mut stream, spoken_for(&format!("192.0.2.{number}")).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    for stream in &mut kept {
        ask(stream, b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-worker-id: x\r\n\r\n").await;
    }
    let answer = talk(&mut from(&server, "127.0.0.9").await, spoken_for("192.0.2.1").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "the same client again: {answer}");
    // Whoever is no proxy is not believed.
    let first = talk(&mut from(&server, "127.0.0.8").await, spoken_for("192.0.2.50").as_bytes()).await;
    let second = talk(&mut from(&server, "127.0.0.8").await, spoken_for("192.0.2.51").as_bytes()).await;
    assert!(first.starts_with("HTTP/1.1 200 ") && second.starts_with("HTTP/1.1 429 "), "{first} {second}");
    // What is written down is the address of the client.
    let request = "GET /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: wrong\r\nforwarded: for=192.0.2.77\r\nconnection: close\r\n\r\n";
    talk(&mut from(&server, "127.0.0.9").await, request.as_bytes()).await;
    let lines = server.client.audit_log(None, None).await.unwrap().lines;
    assert!(lines.iter().any(|line| line.actor == "192.0.2.77"), "{lines:?}");
}

#[tokio::test]
async fn a_request_that_says_its_length_in_two_ways_is_refused() {
    let server = Server::start(On::Sqlite).await;
    let body = "2f\r\n{\"queue\":\"q\",\"type\":\"a\",\"input\":[1,2,3,4,5,6,7]}\r\n0\r\n\r\n";
    for both in ["content-length: 5\r\ntransfer-encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5"] {
        let request = format!("POST /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n{both}\r\n\r\n{body}");
        let mut stream = server.connect().await;
        // After one that is fine, and followed by one that must not be answered.
        let sent = [HEALTHZ, request.as_bytes(), HEALTHZ].concat();
        let answers = talk(&mut stream, &sent).await;
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{answers}");
        assert!(answers.contains("HTTP/1.1 400 "), "{answers}");
    }
    assert_eq!(server.client.runs(&baton::RunFilter::default()).await.unwrap().runs.len(), 0);
}
