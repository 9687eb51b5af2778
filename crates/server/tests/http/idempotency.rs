//! A submit that is repeated does no harm.

use baton::proto::{SubmitBatch, SubmitRun};
use baton_core::State;

use crate::harness::{KEY, On, Server, complete, on_both, refusal, run};

fn once(key: &str) -> SubmitRun {
    SubmitRun { idempotency_key: Some(key.into()), ..run() }
}

async fn the_same_key_and_body_give_the_same_run(on: On) {
    let server = Server::start(on).await;
    let body = serde_json::to_vec(&once("k")).unwrap();
    let first = server.call("POST", "/api/v1/runs", body.clone()).await;
    let again = server.call("POST", "/api/v1/runs", body).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!((&first.json()["id"], &again.json()["created"]), (&again.json()["id"], &false.into()));
    // The header does the same as the field.
    let header = server.request("POST", "/api/v1/runs").header("x-api-key", KEY).header("Idempotency-Key", "k");
    let header = server.send(header, serde_json::to_vec(&run()).unwrap()).await;
    assert_eq!((header.status, &header.json()["id"]), (200, &first.json()["id"]));
    // The same key elsewhere is another key.
    let elsewhere = server.client.submit(&SubmitRun { namespace: "team".into(), ..once("k") }).await.unwrap();
    assert!(elsewhere.created);
}

async fn the_same_key_with_another_body_is_refused(on: On) {
    let server = Server::start(on).await;
    let first = server.submit_run(&once("k")).await;
    let other = SubmitRun { priority: Some(9), ..once("k") };
    assert_eq!(refusal(server.client.submit(&other).await), "422 idempotency_key_reused");
    assert_eq!(refusal(server.client.submit_once(&other, "k").await), "422 idempotency_key_reused");
    assert_eq!(server.client.submit(&once("k")).await.unwrap().id, first);
}

async fn a_repeated_submit_says_how_far_the_run_got(on: On) {
    let server = Server::start(on).await;
    let id = server.submit_run(&once("k")).await;
    let worker = server.worker("one").await;
    let claimed = server.claim(&worker).await;
    assert_eq!(server.client.submit(&once("k")).await.unwrap().state, State::Running);
    server.client.complete(&id, &complete(&claimed.lease)).await.unwrap();
    assert_eq!(server.client.submit(&once("k")).await.unwrap().state, State::Completed);
}

async fn many_submits_at_once_with_one_key_make_one_run(on: On) {
    let server = Server::start(on).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = server.client.clone();
            tokio::spawn(async move { client.submit(&once("k")).await.unwrap() })
        })
        .collect();
    let (mut ids, mut created) = (Vec::new(), 0);
    for call in calls {
        let answer = call.await.unwrap();
        created += usize::from(answer.created);
        ids.push(answer.id);
    }
    ids.dedup();
    assert_eq!((ids.len(), created), (1, 1));
}

async fn a_batch_may_be_repeated_and_is_refused_whole(on: On) {
    let server = Server::start(on).await;
    let batch = SubmitBatch { runs: vec![once("a"), once("b")] };
    let ids = async |batch: &SubmitBatch| -> Vec<(String, bool)> {
        let answer = server.client.submit_batch(batch).await.unwrap();
        answer.runs.into_iter().map(|run| (run.id, run.created)).collect()
    };
    let (first, again) = (ids(&batch).await, ids(&batch).await);
    assert!(first.iter().all(|(_, created)| *created) && again.iter().all(|(_, created)| !created));
    assert!(first.iter().zip(&again).all(|(first, again)| first.0 == again.0));
    let clash = SubmitBatch { runs: vec![once("c"), SubmitRun { priority: Some(1), ..once("b") }] };
    assert_eq!(refusal(server.client.submit_batch(&clash).await), "422 idempotency_key_reused");
    assert!(server.client.submit(&once("c")).await.unwrap().created, "nothing of the refused batch went in");
}

/// Sends the same call twice under one key; returns both answers.
async fn twice(server: &Server, path: &str, body: &str) -> [serde_json::Value; 2] {
    let send = async || {
        let request = server.request("POST", path).header("x-api-key", KEY).header("idempotency-key", "k");
        server.send(request, body.to_owned()).await
    };
    let (first, again) = (send().await, send().await);
    assert_eq!(first.status, 201);
    [first.json(), again.json()]
}

async fn the_header_counts_for_batches_and_retries_too(on: On) {
    let server = Server::start(on).await;
    let batch = serde_json::to_string(&SubmitBatch { runs: vec![run(); 3] }).unwrap();
    let [first, again] = twice(&server, "/api/v1/runs/batch", &batch).await;
    for index in 0..3 {
        assert_eq!(first["runs"][index]["id"], again["runs"][index]["id"]);
    }
    assert_ne!(first["runs"][0]["id"], first["runs"][1]["id"]);
    let ended = first["runs"][0]["id"].as_str().unwrap();
    server.client.cancel(ended).await.unwrap();
    let [first, again] = twice(&server, &format!("/api/v1/runs/{ended}/retry"), "").await;
    assert_eq!((&first["id"], &again["created"]), (&again["id"], &serde_json::json!(false)));
}

on_both!(
    the_header_counts_for_batches_and_retries_too,
    the_same_key_and_body_give_the_same_run,
    the_same_key_with_another_body_is_refused,
    a_repeated_submit_says_how_far_the_run_got,
    many_submits_at_once_with_one_key_make_one_run,
    a_batch_may_be_repeated_and_is_refused_whole,
);
