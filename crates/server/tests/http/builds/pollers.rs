//! A poll never says "nothing" while something fits: however many ask at the same moment, each gets
//! one.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton::proto::{API_KEY_HEADER, Claim};
use serde_json::json;
use tokio::sync::Barrier;

use super::rig::{Builder, text};
use crate::harness::{KEY, On, Server, on_both, run, worker};

on_both!(
    every_builder_that_polls_at_once_gets_a_build,
    every_polling_builder_that_asks_at_once_gets_a_build,
    every_worker_that_claims_at_once_gets_a_run,
    a_build_for_others_is_not_in_the_way,
    an_idle_poll_is_told_when_to_come_back,
);

const CROWDS: [usize; 3] = [3, 20, 200];

async fn crowded(on: On) -> Arc<Server> {
    Arc::new(Server::real(on, |settings| settings.build_polls_burst = 1_000).await)
}

/// Has as many ask at the same moment as there is work, and returns what they got.
async fn all_at_once<T: Send + 'static>(asks: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let start = Arc::new(Barrier::new(asks.len()));
    let tasks: Vec<_> = asks
        .into_iter()
        .map(|ask| {
            let start = start.clone();
            tokio::spawn(async move {
                start.wait().await;
                ask.await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

fn assert_all_different(crowd: usize, got: &[Option<String>]) {
    let different: BTreeSet<_> = got.iter().flatten().collect();
    let empty = got.iter().filter(|one| one.is_none()).count();
    assert_eq!((different.len(), empty), (crowd, 0), "of {crowd} polls with as many builds waiting");
}

async fn every_builder_that_polls_at_once_gets_a_build(on: On) {
    let server = crowded(on).await;
    for crowd in CROWDS {
        let mut asks = Vec::new();
        for number in 0..crowd {
            server.submit_build().await;
            let (server, mut builder) = (server.clone(), server.builder(&format!("{crowd}.{number}")).await);
            asks.push(async move { builder.poll(&server).await["id"].as_str().map(str::to_owned) });
        }
        assert_all_different(crowd, &all_at_once(asks).await);
    }
}

async fn every_polling_builder_that_asks_at_once_gets_a_build(on: On) {
    let server = crowded(on).await;
    let build = json!({
        "project_slug": "shop", "version": "1", "source_url": "https://git.example/shop.git", "ref": "main",
        "docker_image": "rust:1"
    });
    for crowd in CROWDS {
        for _ in 0..crowd {
            assert_eq!(server.call("POST", "/api/v1/builds", build.to_string()).await.status, 201);
        }
        let asks = (0..crowd).map(|_| {
            let server = server.clone();
            async move {
                let answer = server.get_with("/api/v1/builds/pending", &[(API_KEY_HEADER, KEY)]).await;
                (answer.status == 200).then(|| text(&answer.json()["id"]))
            }
        });
        assert_all_different(crowd, &all_at_once(asks.collect()).await);
    }
}

async fn every_worker_that_claims_at_once_gets_a_run(on: On) {
    let server = crowded(on).await;
    for crowd in CROWDS {
        let mut asks = Vec::new();
        for number in 0..crowd {
            server.submit_run(&run()).await;
            let id = server.client.register(&worker(&format!("{crowd}.{number}"))).await.unwrap().worker_id;
            let server = server.clone();
            let claim = Claim { wait_ms: Some(0), ..Claim::default() };
            asks.push(async move { server.claims(&id, &claim).await.pop().map(|run| run.run_id) });
        }
        assert_all_different(crowd, &all_at_once(asks).await);
    }
}

async fn a_build_for_others_is_not_in_the_way(on: On) {
    let server = crowded(on).await;
    server.submit_build_with(&[("platform", None, b"android")]).await;
    let (id, _) = server.submit_build().await;
    let mut builder: Builder = server.builder("one").await;
    let answer = server.poll_with(&builder.token).await.json();
    assert_eq!((answer["job"]["id"].clone(), answer["queue"]["pending"].clone()), (json!(id), json!(1)));
    assert_eq!(answer["poll_after_ms"], 1_000, "there is more");
    builder.token = text(&answer["access_token"]);
    assert_eq!(builder.upload(&server, &id, b"done").await.status, 200);
    let nothing = server.poll_with(&builder.token).await.json();
    assert_eq!((nothing["job"].clone(), nothing["poll_after_ms"].clone()), (json!(null), json!(5_000)));
}

async fn an_idle_poll_is_told_when_to_come_back(on: On) {
    let server = Server::start(on).await;
    let pending = async || server.get_with("/api/v1/builds/pending", &[(API_KEY_HEADER, KEY)]).await;
    let nothing = pending().await;
    assert_eq!((nothing.status, nothing.header("retry-after")), (204, "5"));
    server.set("build_polls_per_second", json!(0)).await;
    // A crowd, as far as this server can tell: it is told to come less often.
    for _ in 0..2_000 {
        assert_eq!(pending().await.status, 204);
    }
    server.clock.advance(5_000);
    pending().await;
    assert_eq!(pending().await.header("retry-after"), "11");
}
