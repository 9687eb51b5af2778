//! /api/v1/runs/{id}/explain: every reason there is.

use baton::proto::{Explanation, PauseQueue, QueueLimits, SubmitRun, Time};
use baton_core::State;
use serde_json::json;

use crate::harness::{On, START, Server, complete, on_both, run};

fn codes(explanation: &Explanation) -> Vec<&str> {
    explanation.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

/// A worker with one place.
async fn narrow(server: &Server) -> String {
    let worker = json!({"name": "narrow", "queues": ["builds"], "types": ["ios"], "max_concurrent": 1});
    server.client.register(&serde_json::from_value(worker).unwrap()).await.unwrap().worker_id
}

async fn what_keeps_a_run_waiting_is_said(on: On) {
    let server = Server::start(on).await;
    let explain = async |id: &str| server.client.explain(id).await.unwrap();
    let id = server.submit().await;
    let lonely = explain(&id).await;
    assert_eq!((codes(&lonely), lonely.position), (vec!["no_worker"], Some(0)));
    assert!(lonely.summary.contains("builds") && lonely.summary.contains("ios"), "{}", lonely.summary);

    let worker = narrow(&server).await;
    assert_eq!(codes(&explain(&id).await), Vec::<&str>::new());

    let later = server.submit_run(&SubmitRun { delay_ms: Some(60_000), ..run() }).await;
    let later = explain(&later).await;
    assert_eq!((codes(&later), later.position), (vec!["due_later"], None));
    assert!(later.summary.contains("60000 ms"), "{}", later.summary);

    let second = server.submit().await;
    let behind = explain(&second).await;
    assert_eq!((codes(&behind), behind.position), (vec!["position"], Some(1)));

    let limits = QueueLimits { rate_per_second: Some(Some(2.0)), ..QueueLimits::default() };
    server.client.limit_queue("default", "builds", &limits).await.unwrap();
    assert_eq!(codes(&explain(&second).await), ["rate_limit", "position"]);
    let none = QueueLimits { rate_per_second: Some(None), ..QueueLimits::default() };
    server.client.limit_queue("default", "builds", &none).await.unwrap();

    server.client.pause_queue("default", "builds", &PauseQueue::default()).await.unwrap();
    let paused = explain(&id).await;
    assert_eq!(codes(&paused), ["queue_paused"]);
    assert!(paused.summary.contains("somebody resumes it"), "{}", paused.summary);
    server.client.resume_queue("default", "builds").await.unwrap();

    server.claim(&worker).await;
    assert_eq!(codes(&explain(&second).await), ["all_busy"]);
}

async fn a_key_that_has_its_share_is_a_reason(on: On) {
    let server = Server::start(on).await;
    let limits = QueueLimits { key_limit: Some(Some(1)), ..QueueLimits::default() };
    server.client.limit_queue("default", "builds", &limits).await.unwrap();
    let keyed = SubmitRun { key: Some("app".into()), ..run() };
    server.submit_run(&keyed).await;
    let second = server.submit_run(&keyed).await;
    let worker = server.worker("one").await;
    server.claim(&worker).await;
    assert!(server.claims(&worker, &baton::proto::Claim::default()).await.is_empty());
    let blocked = server.client.explain(&second).await.unwrap();
    assert!(codes(&blocked).contains(&"key_limit"), "{blocked:?}");
    assert!(blocked.summary.contains("app"), "{}", blocked.summary);
}

async fn the_holder_of_a_run_is_named(on: On) {
    let server = Server::start(on).await;
    let (worker, claimed) = server.held().await;
    let held = server.client.explain(&claimed.run_id).await.unwrap();
    assert_eq!((held.state, codes(&held)), (State::Running, vec![]));
    let holder = held.holder.unwrap();
    assert_eq!((holder.worker_id, holder.worker_name.as_str(), holder.epoch), (worker, "holder", 1));
    assert_eq!(holder.lease_until, Time(START + server.settings.lease_ttl_ms as i64));
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    let ended = server.client.explain(&claimed.run_id).await.unwrap();
    assert!(ended.holder.is_none() && ended.summary.contains("completed"), "{}", ended.summary);
}

on_both!(what_keeps_a_run_waiting_is_said, a_key_that_has_its_share_is_a_reason, the_holder_of_a_run_is_named);
