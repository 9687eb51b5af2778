//! An idle system is quiet, and a submit wakes one poll, not all.

use std::time::{Duration, Instant};

use baton::Client;
use baton::proto::{ClaimedRuns, Heartbeat};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{KEY, LONG_MS, On, PATIENCE, Server, eventually, on_both, worker};

/// Registers many workers.
async fn crowd(server: &Server, count: usize) -> Vec<String> {
    let mut registering = JoinSet::new();
    for number in 0..count {
        let client = server.client.clone();
        let shape = worker(&format!("w{number}"));
        registering.spawn(async move { client.register(&shape).await.unwrap().worker_id });
    }
    registering.join_all().await
}

/// One waiting claim for each worker, over few HTTP/2 connections: a thousand sockets are not the point.
fn park(server: &Server, workers: &[String]) -> JoinSet<ClaimedRuns> {
    let mut polls = JoinSet::new();
    for some in workers.chunks(250) {
        let client = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<Bytes>>();
        for worker in some {
            let uri = format!("http://{}/api/v1/workers/{worker}/claim", server.address);
            let body = Full::from(json!({"wait_ms": LONG_MS, "claim_no": 1, "start": true}).to_string());
            let request = Request::post(uri).header("x-api-key", KEY).body(body).unwrap();
            let answer = client.request(request);
            polls.spawn(async move {
                let body = answer.await.unwrap().into_body().collect().await.unwrap().to_bytes();
                serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}"))
            });
        }
    }
    polls
}

/// Waits until all polls are parked and nobody looks any more.
async fn settled(server: &Server, polls: usize) {
    eventually("all polls wait", async || server.app.dispatcher.waiting() == polls).await;
    let mut calls = u64::MAX;
    eventually("the claimer rests", async || {
        let before = std::mem::replace(&mut calls, server.app.metrics.claim.calls.get());
        before == calls && server.app.dispatcher.waiting() == polls
    })
    .await;
}

async fn one_submit_wakes_one_of_a_thousand_polls(on: On) {
    let server = Server::start(on).await;
    let workers = crowd(&server, 1_000).await;
    let mut polls = park(&server, &workers);
    settled(&server, 1_000).await;
    let (calls, statements) = (server.metric("baton_claim_calls_total").await, server.app.store.statements());
    let id = server.submit().await;
    let got = tokio::time::timeout(PATIENCE, polls.join_next()).await.expect("no poll was woken").unwrap().unwrap();
    assert_eq!(got.runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    settled(&server, 999).await;
    let (calls, statements) =
        (server.metric("baton_claim_calls_total").await - calls, server.app.store.statements() - statements);
    assert!(calls <= 2, "{calls} claims for one run");
    assert!(statements <= 40, "{statements} statements for one run and a thousand polls");
    // The others are answered, empty, when the server stops.
    server.stop();
    let others = polls.join_all().await;
    assert!(others.len() == 999 && others.iter().all(|answer| answer.runs.is_empty()));
}

async fn many_waiting_workers_cost_almost_nothing(on: On) {
    const WORKERS: usize = 200;
    let server = Server::real(on, |_| {}).await;
    let workers = crowd(&server, WORKERS).await;
    let polls = park(&server, &workers);
    settled(&server, WORKERS).await;
    let time = Duration::from_secs(3);
    let (before, beats, begun) = (server.app.store.statements(), server.app.metrics.renew.runs.get(), Instant::now());
    heartbeats(&server.client, &workers, time).await;
    let seconds = begun.elapsed().as_secs_f64();
    let beats = server.app.metrics.renew.runs.get() - beats;
    assert!(beats >= WORKERS as u64 / 2, "the heartbeats were sent: {beats}");
    let statements = server.app.store.statements() - before;
    let rate = statements as f64 / seconds;
    assert!(rate < 25.0, "{rate:.1} statements a second for {WORKERS} idle workers");
    drop(polls);
}

/// Every worker's heartbeats at the interval the server asks for, spread evenly, for this long.
async fn heartbeats(client: &Client, workers: &[String], time: Duration) {
    let interval = Duration::from_millis(5_000);
    let begun = Instant::now();
    let mut sending = JoinSet::new();
    for (number, worker) in workers.iter().cycle().enumerate() {
        let at = interval * number as u32 / workers.len() as u32;
        if at >= time {
            break;
        }
        tokio::time::sleep(at.saturating_sub(begun.elapsed())).await;
        let (client, worker) = (client.clone(), worker.clone());
        sending.spawn(async move { client.heartbeat(&worker, &Heartbeat::default()).await.unwrap() });
    }
    sending.join_all().await;
}

on_both!(one_submit_wakes_one_of_a_thousand_polls, many_waiting_workers_cost_almost_nothing);
