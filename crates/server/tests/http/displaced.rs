//! A worker that asks again with the same number over a new connection. Its old one looks alive to the server: the network went
//! away without a word. What it waits for goes to where it listens.

use baton::proto::{Claim, ClaimedRun, ClaimedRuns};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::harness::{KEY, LONG_MS, On, PATIENCE, Server, complete, eventually, on_both, soon};
use crate::lossy_store::LossyStore;

const CLAIM_NO: u64 = 7;

/// Sends a claim over a connection of its own, which stays open.
async fn ask(server: &Server, worker: &str) -> TcpStream {
    let mut stream = server.connect().await;
    let body = json!({"wait_ms": LONG_MS, "claim_no": CLAIM_NO, "start": true}).to_string();
    let head = format!("POST /api/v1/workers/{worker}/claim HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    stream
}

/// The same claim over another connection.
fn ask_again(server: &Server, worker: &str) -> JoinHandle<Vec<ClaimedRun>> {
    let (client, worker) = (server.client.clone(), worker.to_owned());
    let claim = Claim { wait_ms: Some(LONG_MS), claim_no: Some(CLAIM_NO), start: true, ..Claim::default() };
    tokio::spawn(async move { client.claim(&worker, &claim).await.unwrap().runs })
}

/// The answer that comes over a connection, which stays open.
async fn answer(stream: &mut TcpStream) -> ClaimedRuns {
    let mut text = Vec::new();
    while !text.ends_with(b"}") {
        let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("no answer came").unwrap();
        text.push(byte);
    }
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{text}");
    serde_json::from_str(body).unwrap()
}

async fn a_claim_made_again_takes_the_place_of_the_one_that_waits(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("one").await;
    let mut old = ask(&server, &worker).await;
    eventually("the claim waits", async || server.app.dispatcher.waiting() == 1).await;
    let new = ask_again(&server, &worker);
    assert!(answer(&mut old).await.runs.is_empty(), "the old one is sent away");
    eventually("the new one waits", async || server.app.dispatcher.waiting() == 1).await;
    let (first, second) = (server.submit().await, server.submit().await);
    let claimed = soon(new).await;
    assert_eq!(claimed.iter().map(|run| (run.run_id.as_str(), run.epoch)).collect::<Vec<_>>(), [(first.as_str(), 1)]);
    server.client.complete(&first, &complete(&claimed[0].lease)).await.unwrap();
    // Nothing went to the old one: the other run is there for whoever asks next.
    assert_eq!(server.claim(&worker).await.run_id, second);
}

async fn a_claim_made_again_gets_what_the_first_brings_from_the_store(on: On) {
    let mut between = None;
    let server = Server::over(on, |store| between.insert(LossyStore::before(store)).clone()).await;
    let store = between.unwrap();
    let worker = server.worker("one").await;
    let run = server.submit().await;
    let calls = server.app.metrics.claim.calls.get();
    let held_up = store.hold_claims_up().await;
    let mut old = ask(&server, &worker).await;
    eventually("the claim is at the store", async || server.app.metrics.claim.calls.get() > calls).await;
    let new = ask_again(&server, &worker);
    eventually("the new one waits", async || server.app.dispatcher.waiting() == 1).await;
    drop(held_up);
    let claimed = soon(new).await;
    assert_eq!(claimed.iter().map(|run| (run.run_id.as_str(), run.epoch)).collect::<Vec<_>>(), [(run.as_str(), 1)]);
    assert!(answer(&mut old).await.runs.is_empty());
}

/// The first call is carried out, and its answer on its way when its caller gives up and asks
/// again. What the second call was told of must not be put back because nobody waits for the first.
async fn what_a_repeated_claim_was_told_of_is_not_taken_away(on: On) {
    let mut between = None;
    let server = Server::over(on, |store| between.insert(LossyStore::before(store)).clone()).await;
    let store = between.unwrap();
    let worker = server.worker("one").await;
    let run = server.submit().await;
    let held_up = store.hold_answers_up().await;
    let old = ask(&server, &worker).await;
    eventually("the claim is carried out", async || store.claims_carried_out() > 0).await;
    drop(old);
    let claimed = soon(ask_again(&server, &worker)).await;
    assert_eq!(claimed.iter().map(|run| (run.run_id.as_str(), run.epoch)).collect::<Vec<_>>(), [(run.as_str(), 1)]);
    drop(held_up);
    // The first poll has been answered once another one is served behind it.
    let (other, second) = (server.worker("two").await, server.submit().await);
    assert_eq!(server.claim(&other).await.run_id, second);
    server.client.complete(&run, &complete(&claimed[0].lease)).await.expect("the lease is the worker's");
}

/// Nobody asks again: then the runs go back, and a late repetition finds nothing of them.
async fn what_nobody_heard_of_goes_back(on: On) {
    let mut between = None;
    let server = Server::over(on, |store| between.insert(LossyStore::before(store)).clone()).await;
    let store = between.unwrap();
    let worker = server.worker("one").await;
    let run = server.submit().await;
    let held_up = store.hold_answers_up().await;
    let connections = server.app.metrics.connections.get();
    let old = ask(&server, &worker).await;
    eventually("the claim is carried out", async || store.claims_carried_out() > 0).await;
    drop(old);
    eventually("its connection is closed", async || server.app.metrics.connections.get() == connections).await;
    drop(held_up);
    let other = server.worker("two").await;
    let patient = Claim { wait_ms: Some(LONG_MS), ..Claim::default() };
    assert_eq!(server.claims(&other, &patient).await[0].run_id, run);
    let second = server.submit().await;
    let late = soon(ask_again(&server, &worker)).await;
    assert_eq!(late.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), [second.as_str()]);
}

on_both!(
    what_a_repeated_claim_was_told_of_is_not_taken_away,
    what_nobody_heard_of_goes_back,
    a_claim_made_again_takes_the_place_of_the_one_that_waits,
    a_claim_made_again_gets_what_the_first_brings_from_the_store,
);
