//! /api/v1/queues: depth, pause, resume, limits.

use baton::proto::{Claim, PauseQueue, QueueLimits, SleepRun, SubmitRun, Time};
use serde_json::json;

use crate::harness::{On, START, Server, on_both, refusal, run, soon};

const NEVER: Time = Time(i64::MAX);

async fn depth_counts_what_waits_is_held_and_sleeps(on: On) {
    let server = Server::start(on).await;
    let (worker, _) = server.held().await;
    server.submit().await;
    let sleeper = server.claim(&worker).await;
    let sleep = SleepRun { lease: sleeper.lease.clone(), ms: Some(60_000), until: None };
    server.client.sleep(&sleeper.run_id, &sleep).await.unwrap();
    server.submit().await;
    server.submit().await;
    server.submit_run(&SubmitRun { delay_ms: Some(60_000), ..run() }).await;
    server.clock.advance(250);
    let queue = server.client.queue("default", "builds").await.unwrap();
    assert_eq!((queue.ready, queue.scheduled, queue.held, queue.sleeping), (2, 1, 1, 1));
    assert_eq!((queue.oldest_ms, queue.paused, queue.backlog_max), (Some(250), false, 1_000));
    assert_eq!(server.client.queues(None).await.unwrap().queues, [queue]);
}

async fn a_queue_nobody_named_is_not_found(on: On) {
    let server = Server::start(on).await;
    assert_eq!(refusal(server.client.queue("default", "x").await), "404 not_found");
    assert!(server.client.queues(None).await.unwrap().queues.is_empty());
    assert_eq!(server.call("GET", "/api/v1/queues?name=x", "").await.refusal(), "422 invalid");
}

async fn queues_and_keys_come_in_pages(on: On) {
    let server = Server::start(on).await;
    for queue in ["c", "a", "b"] {
        server.submit_run(&SubmitRun::new(queue, "x")).await;
    }
    for (what, name) in [("queues", "name"), ("keys", "id")] {
        for key in ["one", "two"].iter().filter(|_| what == "keys") {
            let key = json!({"name": key, "scopes": ["read"]}).to_string();
            assert_eq!(server.call("POST", "/api/v1/keys", key).await.status, 201);
        }
        let whole = server.call("GET", &format!("/api/v1/{what}"), "").await.json();
        assert!(whole.get("next_cursor").is_none(), "{whole}");
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = server.call("GET", &format!("/api/v1/{what}?limit=1{cursor}"), "").await.json();
            assert_eq!(page[what].as_array().unwrap().len(), 1, "{page}");
            found.push(page[what][0][name].clone());
            let Some(next) = page.get("next_cursor") else { break };
            cursor = format!("&cursor={}", next.as_str().unwrap());
        }
        let all: Vec<_> = whole[what].as_array().unwrap().iter().map(|entry| entry[name].clone()).collect();
        assert!(all.len() >= 2 && found == all, "{found:?} instead of {all:?}");
        for wrong in ["limit=0", "limit=1001", "cursor=no-such-entry"] {
            assert_eq!(server.call("GET", &format!("/api/v1/{what}?{wrong}"), "").await.refusal(), "422 invalid");
        }
    }
}

async fn queues_are_listed_by_namespace(on: On) {
    let server = Server::start(on).await;
    server.submit().await;
    server.submit_run(&SubmitRun { namespace: "team".into(), ..SubmitRun::new("tests", "a") }).await;
    let names = async |namespace: Option<&str>| -> Vec<(String, String)> {
        let queues = server.client.queues(namespace).await.unwrap().queues;
        queues.into_iter().map(|queue| (queue.namespace, queue.name)).collect()
    };
    let (one, two) = (("default".into(), "builds".into()), ("team".to_owned(), "tests".to_owned()));
    assert_eq!(names(None).await, [one, two.clone()]);
    assert_eq!(names(Some("team")).await, [two]);
    assert!(names(Some("nobody")).await.is_empty());
}

async fn a_paused_queue_hands_out_nothing_until_it_is_resumed(on: On) {
    let server = Server::start(on).await;
    let paused = server.client.pause_queue("default", "builds", &PauseQueue::default()).await.unwrap();
    assert_eq!((paused.paused, paused.paused_until), (true, Some(NEVER)));
    let id = server.submit().await;
    let worker = server.worker("one").await;
    assert!(server.claims(&worker, &Claim::default()).await.is_empty());
    let poll = server.parked(&worker).await;
    let resumed = server.client.resume_queue("default", "builds").await.unwrap();
    assert_eq!((resumed.paused, resumed.paused_until), (false, None));
    assert_eq!(soon(poll).await[0].run_id, id);
}

async fn a_pause_ends_by_itself_and_wakes_who_waits(on: On) {
    let server = Server::start(on).await;
    let id = server.submit().await;
    let worker = server.worker("one").await;
    for pause in
        [PauseQueue { for_ms: Some(4_000), until: None }, PauseQueue { until: Some(Time(START + 4_000)), for_ms: None }]
    {
        let paused = server.client.pause_queue("default", "builds", &pause).await.unwrap();
        assert_eq!(paused.paused_until, Some(Time(START + 4_000)));
    }
    assert!(server.claims(&worker, &Claim::default()).await.is_empty());
    let poll = server.parked(&worker).await;
    // The wait is measured from when the claimer looked, which may be a moment after the pause was asked for.
    server.clock.advance(4_100);
    assert_eq!(soon(poll).await[0].run_id, id);
    assert!(!server.client.queue("default", "builds").await.unwrap().paused);
    for wrong in [
        json!({"until": "2001-01-01T00:00:00Z"}),
        json!({"until": "2999-01-01T00:00:00Z", "for_ms": 1}),
        json!({"until": "soon"}),
        json!({"minutes": 1}),
    ] {
        let answer = server.call("POST", "/api/v1/queues/builds/pause", wrong.to_string()).await;
        assert_eq!(answer.refusal(), "422 invalid", "{wrong}");
    }
}

async fn limits_change_one_by_one_and_null_clears(on: On) {
    let server = Server::start(on).await;
    let set = async |body: serde_json::Value| {
        let answer = server.call("PATCH", "/api/v1/queues/builds", body.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let queue: baton::proto::QueueView = serde_json::from_slice(&answer.body).unwrap();
        (queue.backlog_max, queue.rate_per_second, queue.key_limit)
    };
    assert_eq!(set(json!({"backlog_max": 10})).await, (10, None, None));
    assert_eq!(set(json!({"rate_per_second": 0.5, "key_limit": 2})).await, (10, Some(0.5), Some(2)));
    assert_eq!(set(json!({})).await, (10, Some(0.5), Some(2)));
    assert_eq!(set(json!({"backlog_max": null, "key_limit": null})).await, (1_000, Some(0.5), None));
    for wrong in [
        json!({"rate_per_second": 0}),
        json!({"rate_per_second": -1}),
        json!({"rate_per_second": 1e9}),
        json!({"key_limit": 0}),
        json!({"backlog_max": u64::MAX}),
        json!({"backlog_max": "many"}),
        json!({"depth": 1}),
    ] {
        let answer = server.call("PATCH", "/api/v1/queues/builds", wrong.to_string()).await;
        assert_eq!(answer.refusal(), "422 invalid", "{wrong}");
    }
    assert_eq!(server.call("PATCH", "/api/v1/queues/%0A", "{}").await.refusal(), "422 invalid");
}

async fn a_rate_spreads_runs_over_time(on: On) {
    let server = Server::start(on).await;
    let limits = QueueLimits { rate_per_second: Some(Some(1.0)), ..QueueLimits::default() };
    server.client.limit_queue("default", "builds", &limits).await.unwrap();
    let (first, second) = (server.submit().await, server.submit().await);
    let worker = server.worker("one").await;
    assert_eq!(server.claim(&worker).await.run_id, first);
    let poll = server.parked(&worker).await;
    server.clock.advance(500);
    assert_eq!(server.state(&second).await, baton_core::State::Pending);
    server.clock.advance(600);
    assert_eq!(soon(poll).await[0].run_id, second);
}

/// A rate so small that the next run would come after the end of time.
async fn the_smallest_rate_breaks_nothing(on: On) {
    let server = Server::start(on).await;
    let limits = QueueLimits { rate_per_second: Some(Some(1e-300)), ..QueueLimits::default() };
    server.client.limit_queue("default", "builds", &limits).await.unwrap();
    server.submit().await;
    let second = server.submit().await;
    let worker = server.worker("one").await;
    server.claim(&worker).await;
    assert!(server.claims(&worker, &Claim::default()).await.is_empty());
    assert!(server.client.explain(&second).await.unwrap().reasons.iter().any(|reason| reason.code == "rate_limit"));
}

on_both!(
    depth_counts_what_waits_is_held_and_sleeps,
    a_queue_nobody_named_is_not_found,
    queues_and_keys_come_in_pages,
    queues_are_listed_by_namespace,
    a_paused_queue_hands_out_nothing_until_it_is_resumed,
    a_pause_ends_by_itself_and_wakes_who_waits,
    limits_change_one_by_one_and_null_clears,
    a_rate_spreads_runs_over_time,
    the_smallest_rate_breaks_nothing,
);
