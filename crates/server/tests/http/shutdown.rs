//! Stopping: polls are answered, calls in flight finish, new ones are refused.

use baton::proto::Claim;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{KEY, On, Server, eventually, on_both, rest, soon};

async fn waiting_polls_are_answered_empty(on: On) {
    let mut server = Server::start(on).await;
    let worker = server.worker("one").await;
    let polls = [server.parked(&worker).await, server.parked(&worker).await];
    server.stop();
    for poll in polls {
        assert!(soon(poll).await.is_empty());
    }
    server.stopped().await;
}

async fn calls_in_flight_finish_and_new_ones_are_refused(on: On) {
    let mut server = Server::start(on).await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // A submit whose body is still on its way when the server is told to stop.
    let mut stream = server.connect().await;
    let body = json!({"type": "ios"}).to_string();
    let head = format!("POST /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\nexpect: 100-continue\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes()).await.unwrap();
    // Being asked for the body proves that the call is in flight.
    let mut buffer = [0; 25];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut buffer).await.unwrap();
    assert_eq!(&buffer, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.stop();
    assert!(rest(&mut idle).await.starts_with("HTTP/1.1 200"), "an idle connection is closed at once");
    eventually("nobody is let in any more", async || TcpStream::connect(server.address).await.is_err()).await;
    stream.write_all(body.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    server.stopped().await;
}

async fn a_call_that_does_not_end_is_cut_off_in_time(on: On) {
    let mut server = Server::with(on, |settings| settings.shutdown_timeout_ms = 200).await;
    let mut stream = server.connect().await;
    let head = format!("POST /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: 9\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    eventually("it is connected", async || server.app.metrics.connections.get() == 1).await;
    server.stop();
    server.stopped().await;
}

/// A poll that comes in on an open connection while the server stops is answered, not parked.
async fn a_late_poll_is_not_parked(on: On) {
    let mut server = Server::start(on).await;
    let worker = server.worker("one").await;
    server.app.dispatcher.close();
    assert!(server.claims(&worker, &Claim { wait_ms: Some(60_000), ..Claim::default() }).await.is_empty());
    server.stop();
    server.stopped().await;
}

on_both!(
    waiting_polls_are_answered_empty,
    calls_in_flight_finish_and_new_ones_are_refused,
    a_call_that_does_not_end_is_cut_off_in_time,
    a_late_poll_is_not_parked,
);
