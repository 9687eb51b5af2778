//! Runs whose input or output is too large for a row.

use std::path::PathBuf;

use baton::proto::{Claim, SubmitBatch, SubmitRun};
use baton_core::payload::REFERENCE_BYTES;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::io::AsyncWriteExt;

use crate::harness::{KEY, On, Server, complete, on_both, rest, run};

const MIB: usize = 1 << 20;

on_both!(
    a_large_run_goes_there_and_back,
    a_body_that_does_not_say_its_length_may_be_as_large,
    a_payload_beyond_the_limit_is_refused_and_stores_nothing,
    a_batch_may_have_several_large_ones_and_a_claim_brings_few_at_once,
    a_claim_whose_answer_was_lost_brings_large_inputs_again,
    a_retried_run_has_the_input_of_the_first,
    other_calls_may_not_be_that_large,
);

fn large(bytes: usize) -> SubmitRun {
    SubmitRun { input: Some(to_raw_value(&"x".repeat(bytes - 2)).unwrap()), ..run() }
}

fn stored(server: &Server) -> usize {
    let folder = PathBuf::from(server.settings.storage()).join("payloads");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

async fn a_large_run_goes_there_and_back(on: On) {
    let server = Server::start(on).await;
    let wanted = SubmitRun { idempotency_key: Some("once".into()), ..large(10 * MIB) };
    let submitted = server.client.submit(&wanted).await.unwrap();
    assert_eq!(server.client.submit(&wanted).await.unwrap().id, submitted.id);
    assert_eq!(stored(&server), 1, "the repeated call stores nothing");
    let worker = server.worker("one").await;
    let claimed = server.claim(&worker).await;
    assert_eq!(claimed.input.unwrap().get().len(), 10 * MIB);
    let mut done = complete(&claimed.lease);
    done.output = Some(to_raw_value(&"y".repeat(20 * MIB - 2)).unwrap());
    server.client.complete(&claimed.run_id, &done).await.unwrap();
    let shown = server.client.run(&submitted.id).await.unwrap();
    assert!(shown.output.unwrap().get() == done.output.unwrap().get());
    assert_eq!(shown.input.unwrap().get().len(), 10 * MIB);
    let record = server.app.store.run(submitted.id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((record.input.len(), record.output.unwrap().len()), (REFERENCE_BYTES, REFERENCE_BYTES));
    let listed = server.call("GET", "/api/v1/runs", "").await;
    assert!(listed.status == 200 && listed.body.len() < 10_000, "lists have no payloads");
}

async fn a_body_that_does_not_say_its_length_may_be_as_large(on: On) {
    let server = Server::start(on).await;
    let (mut read, mut write) = server.connect().await.into_split();
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let body = serde_json::to_vec(&large(9 * MIB)).unwrap();
    let sending = tokio::spawn(async move {
        write.write_all(head.as_bytes()).await.unwrap();
        for part in body.chunks(MIB) {
            write.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await.unwrap();
            write.write_all(part).await.unwrap();
            write.write_all(b"\r\n").await.unwrap();
        }
        write.write_all(b"0\r\n\r\n").await.unwrap();
        write
    });
    let mut answer = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut read, &mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 201 "), "{}", String::from_utf8_lossy(&answer));
    drop(sending.await.unwrap());
    assert_eq!(stored(&server), 1);
}

async fn a_payload_beyond_the_limit_is_refused_and_stores_nothing(on: On) {
    let server = Server::with(on, |settings| {
        settings.payload_inline_bytes_max = 1_000;
        settings.payload_bytes_max = 10_000;
    })
    .await;
    let refused = server.call("POST", "/api/v1/runs", serde_json::to_vec(&large(10_001)).unwrap()).await;
    assert_eq!(refused.refusal(), "413 too_large");
    assert!(refused.json()["error"].as_str().unwrap().contains("10000 bytes"));
    // All or none.
    let batch = SubmitBatch { runs: vec![large(9_000), large(10_001)] };
    let refused = server.call("POST", "/api/v1/runs/batch", serde_json::to_vec(&batch).unwrap()).await;
    assert_eq!(refused.refusal(), "413 too_large");
    let (_, claimed) = server.held().await;
    let path = format!("/api/v1/runs/{}/complete", claimed.run_id);
    let body = json!({"lease": claimed.lease, "output": "x".repeat(10_000)}).to_string();
    assert_eq!(server.call("POST", &path, body).await.refusal(), "413 too_large");
    assert_eq!(stored(&server), 0);
    let body = json!({"lease": claimed.lease, "output": "x".repeat(9_000)}).to_string();
    assert_eq!(server.call("POST", &path, body).await.status, 200);
    assert_eq!(stored(&server), 1);
}

async fn a_batch_may_have_several_large_ones_and_a_claim_brings_few_at_once(on: On) {
    let server = Server::start(on).await;
    server.client.submit_batch(&SubmitBatch { runs: vec![large(15 * MIB); 4] }).await.unwrap();
    assert_eq!(stored(&server), 4);
    let worker = server.worker("one").await;
    let wanted = |claim_no| Claim { max: Some(4), claim_no: Some(claim_no), ..Claim::default() };
    // 32 MiB, and the one that goes beyond.
    assert_eq!(server.claims(&worker, &wanted(1)).await.len(), 3);
    assert_eq!(server.claims(&worker, &wanted(2)).await.len(), 1);
}

async fn a_claim_whose_answer_was_lost_brings_large_inputs_again(on: On) {
    let server = Server::with(on, |settings| settings.payload_inline_bytes_max = 1_000).await;
    server.client.submit(&large(5_000)).await.unwrap();
    let worker = server.worker("one").await;
    let wanted = Claim { claim_no: Some(1), ..Claim::default() };
    let first = server.claims(&worker, &wanted).await;
    let again = server.claims(&worker, &wanted).await;
    assert_eq!((first[0].lease.as_str(), again.len()), (again[0].lease.as_str(), 1));
    assert_eq!(again[0].input.as_ref().unwrap().get().len(), 5_000);
}

async fn a_retried_run_has_the_input_of_the_first(on: On) {
    let server = Server::with(on, |settings| settings.payload_inline_bytes_max = 1_000).await;
    let first = server.client.submit(&large(5_000)).await.unwrap();
    server.client.cancel(&first.id).await.unwrap();
    let again = server.client.retry(&first.id).await.unwrap();
    let shown = server.client.run(&again.id).await.unwrap();
    assert_eq!(shown.input.unwrap().get().len(), 5_000);
    assert_eq!(stored(&server), 1, "both have the same");
}

async fn other_calls_may_not_be_that_large(on: On) {
    let server = Server::start(on).await;
    let mut stream = server.connect().await;
    let head =
        format!("POST /api/v1/workers HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: 5000000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 413 "));
}
