//! What operations do to runs, how fast, and what they leave alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use baton::RunFilter;
use baton::proto::{BulkFilter, CreateBulk, SubmitRun, Time};
use baton_core::State;
use serde_json::json;

use super::{cancel, on_queue, retry, tally};
use crate::harness::{On, START, Server, complete, eventually, on_both, refusal, run};

on_both!(
    a_dry_run_counts_what_is_then_cancelled,
    a_filter_finds_what_the_list_finds,
    what_makes_no_sense_is_refused,
    runs_that_are_submitted_later_are_left_alone,
    failed_runs_are_retried_once_and_what_that_made_is_left_alone,
    the_same_key_gives_the_same_operation,
    an_operation_is_stopped_in_the_middle,
    an_operation_is_no_faster_than_its_rate,
    an_operation_waits_for_room_in_the_queue,
    a_held_run_is_told_to_stop,
    builds_are_cancelled_and_retried_as_builds,
    ten_thousand_runs_are_cancelled,
);

async fn a_dry_run_counts_what_is_then_cancelled(on: On) {
    let server = Server::unhurried(on).await;
    let ids = server.submit_many(1_234, &on_queue("mail")).await;
    server.submit_many(5, &on_queue("other")).await;
    let ended = server.client.cancel(&ids[0]).await.unwrap();
    assert_eq!(ended.state, State::Cancelled);
    let counted = server.client.bulk_count(&cancel("mail")).await.unwrap();
    assert_eq!((counted.matched, counted.action.as_str()), (1_233, "cancel"));
    let newest: Vec<String> = ids.iter().rev().take(10).cloned().collect();
    assert_eq!(counted.sample, newest);
    assert_eq!(counted.filter.state, ["pending", "assigned", "running", "sleeping"], "those that are meant");
    assert_eq!(server.standing("mail").await, [("cancelled", 1), ("pending", 1_233)].into(), "nothing was changed");
    let done = server.carried_out(&cancel("mail")).await;
    assert_eq!((done.state.as_str(), done.matched, tally(&done)), ("completed", Some(1_233), (1_233, 0, 0)));
    assert_eq!(server.standing("mail").await, [("cancelled", 1_234)].into());
    assert_eq!(server.standing("other").await, [("pending", 5)].into());
    assert_eq!(server.metric("baton_cancel_total").await, 1_234);
    assert_eq!(server.metric("baton_bulk_runs_total{action=\"cancel\",outcome=\"done\"}").await, 1_233);
    let again = server.carried_out(&cancel("mail")).await;
    assert_eq!((again.matched, tally(&again)), (Some(0), (0, 0, 0)));
}

async fn a_filter_finds_what_the_list_finds(on: On) {
    let server = Server::unhurried(on).await;
    let mut at = BTreeMap::new();
    for (number, (queue, kind, key)) in
        [("mail", "send", None), ("mail", "send", Some("ada")), ("mail", "read", None), ("web", "send", Some("ada"))]
            .into_iter()
            .enumerate()
    {
        let run = SubmitRun { key: key.map(str::to_owned), ..SubmitRun::new(queue, kind) };
        at.insert(number, server.submit_many(10, &run).await);
        server.clock.advance(1_000);
    }
    let later = SubmitRun { delay_ms: Some(60_000), ..on_queue("mail") };
    server.submit_many(3, &later).await;
    let time = |ms: i64| Some(Time(START + ms));
    let held = server.client.register(&crate::harness::worker("w")).await.unwrap().worker_id;
    let all = BulkFilter::default();
    let cases = [
        (BulkFilter { queue: Some("mail".into()), ..all.clone() }, 33),
        (BulkFilter { kind: Some("send".into()), ..all.clone() }, 33),
        (BulkFilter { queue: Some("mail".into()), kind: Some("read".into()), ..all.clone() }, 10),
        (BulkFilter { key: Some("ada".into()), ..all.clone() }, 20),
        (BulkFilter { key: Some("ada".into()), queue: Some("web".into()), ..all.clone() }, 10),
        (BulkFilter { namespace: Some("default".into()), ..all.clone() }, 43),
        (BulkFilter { namespace: Some("nobody".into()), ..all.clone() }, 0),
        (BulkFilter { queue: Some("nobody".into()), ..all.clone() }, 0),
        (BulkFilter { submitted_after: time(1_000), submitted_before: time(3_000), ..all.clone() }, 20),
        (BulkFilter { submitted_before: time(1), ..all.clone() }, 10),
        (BulkFilter { worker: Some(held), ..all.clone() }, 0),
        (BulkFilter { id_suffix: Some(at[&0][3][28..].into()), ..all.clone() }, 1),
        (BulkFilter { queue: Some("web".into()), ..BulkFilter::in_states([State::Running, State::Sleeping]) }, 0),
        (BulkFilter { queue: Some("web".into()), ..BulkFilter::in_states([State::Pending]) }, 10),
    ];
    for (filter, matched) in &cases {
        let counted = server.client.bulk_count(&CreateBulk::new("cancel", filter.clone())).await.unwrap();
        assert_eq!(counted.matched, *matched, "{filter:?}");
        assert_eq!(counted.sample.len() as u64, (*matched).min(10), "{filter:?}");
    }
    let (filter, matched) = cases[8].clone();
    let done = server.carried_out(&CreateBulk::new("cancel", filter)).await;
    assert_eq!(tally(&done), (matched, 0, 0));
    for (number, state) in [(0, State::Pending), (1, State::Cancelled), (2, State::Cancelled), (3, State::Pending)] {
        assert_eq!(server.state(&at[&number][9]).await, state, "{number}");
    }
    let everything = CreateBulk { all: true, ..CreateBulk::new("cancel", BulkFilter::default()) };
    assert_eq!(tally(&server.carried_out(&everything).await), (23, 0, 0));
}

async fn what_makes_no_sense_is_refused(on: On) {
    let server = Server::start(on).await;
    let cases = [
        (json!({"filter": {"queue": "q"}}), "422 invalid", Some("action")),
        (json!({"action": "delete", "filter": {"queue": "q"}}), "422 invalid", Some("action")),
        (json!({"action": "cancel"}), "422 invalid", Some("filter")),
        (json!({"action": "cancel", "filter": {}}), "422 invalid", Some("filter")),
        (json!({"action": "cancel", "filter": {"tag": "x"}}), "422 invalid", Some("filter.tag")),
        (json!({"action": "retry", "filter": {"state": ["pending"]}}), "422 invalid", Some("filter.state")),
        (json!({"action": "retry", "filter": {"state": ["failed", "running"]}}), "422 invalid", Some("filter.state")),
        (json!({"action": "cancel", "filter": {"state": ["completed"]}}), "422 invalid", Some("filter.state")),
        (json!({"action": "cancel", "filter": {"state": ["lost"]}}), "422 invalid", Some("filter.state")),
        (json!({"action": "cancel", "filter": {"queue": ""}}), "422 invalid", Some("filter.queue")),
        (json!({"action": "cancel", "filter": {"key": "a\nb"}}), "422 invalid", Some("filter.key")),
        (json!({"action": "cancel", "filter": {"worker": "w"}}), "422 invalid", Some("filter.worker")),
        (json!({"action": "cancel", "filter": {"id_suffix": "xyz"}}), "422 invalid", Some("filter.id_suffix")),
        (
            json!({"action": "cancel", "filter": {
                "submitted_after": "2026-01-02T00:00:00Z", "submitted_before": "2026-01-01T00:00:00Z"}}),
            "422 invalid",
            Some("filter.submitted_before"),
        ),
        (
            json!({"action": "cancel", "filter": {"queue": "q"}, "rate_per_second": 0}),
            "422 invalid",
            Some("rate_per_second"),
        ),
        (
            json!({"action": "cancel", "filter": {"queue": "q"}, "rate_per_second": -1}),
            "422 invalid",
            Some("rate_per_second"),
        ),
        (
            json!({"action": "cancel", "filter": {"queue": "q"}, "rate_per_second": 10_001}),
            "422 invalid",
            Some("rate_per_second"),
        ),
        (json!({"action": "cancel", "filter": {"queue": "q"}, "reason": "a\u{0}b"}), "422 invalid", Some("reason")),
    ];
    for (body, expected, field) in cases {
        let answer = server.call("POST", "/api/v1/bulk", body.to_string()).await;
        assert_eq!(answer.refusal(), expected, "{body}");
        assert_eq!(answer.json()["field"].as_str(), field, "{body}: {answer:?}");
    }
    for (method, path) in [("GET", "/api/v1/bulk/made-up"), ("POST", "/api/v1/bulk/made-up/stop")] {
        assert_eq!(server.call(method, path, "").await.refusal(), "404 not_found");
    }
    assert_eq!(server.call("GET", "/api/v1/bulk?state=done", "").await.refusal(), "422 invalid");
    assert_eq!(server.client.bulks(None, None, None, None).await.unwrap().operations, []);
}

async fn runs_that_are_submitted_later_are_left_alone(on: On) {
    let server = Server::start(on).await;
    server.submit_many(20, &on_queue("mail")).await;
    let operation = server.begin(&CreateBulk { rate_per_second: Some(1.0), ..cancel("mail") }).await;
    let later = server.submit_many(20, &on_queue("mail")).await;
    eventually("the rest", async || {
        server.clock.advance(1_000);
        server.client.bulk(&operation.id).await.unwrap().is_ended()
    })
    .await;
    let done = server.client.bulk(&operation.id).await.unwrap();
    assert_eq!((done.matched, tally(&done)), (Some(20), (20, 0, 0)));
    assert_eq!(server.standing("mail").await, [("cancelled", 20), ("pending", 20)].into());
    assert_eq!(server.state(&later[0]).await, State::Pending);
}

async fn failed_runs_are_retried_once_and_what_that_made_is_left_alone(on: On) {
    let server = Server::unhurried(on).await;
    let failed = server.submit_failed(120, "mail").await;
    server.submit_many(3, &on_queue("mail")).await;
    let done = server.carried_out(&retry("mail")).await;
    assert_eq!((done.state.as_str(), done.matched, tally(&done)), ("completed", Some(120), (120, 0, 0)));
    assert_eq!(server.standing("mail").await, [("failed", 120), ("pending", 123)].into());
    let page =
        RunFilter { queue: Some("mail".into()), state: Some(State::Pending), limit: Some(200), ..RunFilter::default() };
    let again = server.client.runs(&page).await.unwrap().runs;
    let originals: BTreeSet<String> = again.into_iter().filter_map(|run| run.retry_of).collect();
    assert_eq!(originals, failed.into_iter().collect(), "each was retried once");
    // Another operation retries them again, as another call of the single verb would.
    assert_eq!(tally(&server.carried_out(&retry("mail")).await), (120, 0, 0));
    assert_eq!(server.standing("mail").await["pending"], 243);
    // What completed or was cancelled is retried where somebody says so.
    let others =
        BulkFilter { queue: Some("mail".into()), ..BulkFilter::in_states([State::Completed, State::Cancelled]) };
    let counted = server.client.bulk_count(&CreateBulk::new("retry", others)).await.unwrap();
    assert_eq!(counted.matched, 0);
}

async fn the_same_key_gives_the_same_operation(on: On) {
    let server = Server::unhurried(on).await;
    server.submit_failed(10, "mail").await;
    let first = server.client.bulk_start(&retry("mail"), Some("k")).await.unwrap();
    server.ended(&first.id).await;
    let again = server.client.bulk_start(&retry("mail"), Some("k")).await.unwrap();
    assert_eq!((&again.id, again.state.as_str()), (&first.id, "completed"));
    assert_eq!(server.standing("mail").await, [("failed", 10), ("pending", 10)].into());
    let other = server.client.bulk_start(&cancel("mail"), Some("k")).await;
    assert_eq!(refusal(other), "422 idempotency_key_reused");
    let of_team = server.client_for(&["submit"], Some("team")).await;
    let theirs = of_team.bulk_start(&retry("mail"), Some("k")).await.unwrap();
    assert_ne!(theirs.id, first.id, "keys are of their namespace");
}

async fn an_operation_is_stopped_in_the_middle(on: On) {
    let server = Server::start(on).await;
    server.submit_many(100, &on_queue("mail")).await;
    let operation = server.begin(&CreateBulk { rate_per_second: Some(10.0), ..cancel("mail") }).await;
    server.waits(&operation.id, 10).await;
    let stopping = server.client.bulk_stop(&operation.id).await.unwrap();
    assert!(stopping.stopping || stopping.is_ended(), "{stopping:?}");
    let stopped = server.ended(&operation.id).await;
    assert_eq!((stopped.state.as_str(), stopped.matched, tally(&stopped)), ("stopped", Some(100), (10, 0, 0)));
    assert!(!stopped.stopping && stopped.ended_at.is_some());
    server.clock.advance(60_000);
    assert_eq!(server.client.bulk_stop(&operation.id).await.unwrap(), stopped, "again is harmless");
    assert_eq!(server.standing("mail").await, [("cancelled", 10), ("pending", 90)].into());
    let log = server.call("GET", "/api/v1/audit", "").await.json();
    let actions: Vec<&str> =
        log["lines"].as_array().unwrap().iter().filter_map(|line| line["action"].as_str()).collect();
    assert_eq!(actions.iter().filter(|action| **action == "bulk.stop").count(), 1, "{actions:?}");
    let audited = actions.iter().filter(|action| action.starts_with("run.")).count();
    assert_eq!(audited, 0, "no line for each run");
}

async fn an_operation_is_no_faster_than_its_rate(on: On) {
    let server = Server::start(on).await;
    server.submit_many(200, &on_queue("mail")).await;
    let operation = server.begin(&CreateBulk { rate_per_second: Some(20.0), ..cancel("mail") }).await;
    // The clock stands still, and so does the operation after a second's worth.
    server.waits(&operation.id, 20).await;
    for second in 1..=8_u64 {
        server.clock.advance(1_000);
        server.waits(&operation.id, 20 + 20 * second).await;
    }
    server.clock.advance(1_000);
    assert_eq!(tally(&server.ended(&operation.id).await), (200, 0, 0));
}

async fn an_operation_waits_for_room_in_the_queue(on: On) {
    let server = Server::unhurried(on).await;
    server.submit_failed(30, "mail").await;
    server
        .client
        .limit_queue("default", "mail", &serde_json::from_value(json!({"backlog_max": 10})).unwrap())
        .await
        .unwrap();
    let operation = server.begin(&retry("mail")).await;
    eventually("as many as there is room for", async || {
        let view = server.client.bulk(&operation.id).await.unwrap();
        view.done == 10 && view.waits_for.is_some_and(|why| why.contains("mail is full"))
    })
    .await;
    server
        .client
        .limit_queue("default", "mail", &serde_json::from_value(json!({"backlog_max": 1000})).unwrap())
        .await
        .unwrap();
    eventually("the rest", async || {
        server.clock.advance(1_000);
        server.client.bulk(&operation.id).await.unwrap().is_ended()
    })
    .await;
    let done = server.client.bulk(&operation.id).await.unwrap();
    assert_eq!((done.state.as_str(), tally(&done), done.waits_for), ("completed", (30, 0, 0), None));
    assert_eq!(server.standing("mail").await, [("failed", 30), ("pending", 30)].into());
}

async fn a_held_run_is_told_to_stop(on: On) {
    let server = Server::unhurried(on).await;
    let (_, held) = server.held().await;
    let finished = server.submit_run(&run()).await;
    let lease = server.claim(&server.worker("other").await).await.lease;
    server.client.complete(&finished, &complete(&lease)).await.unwrap();
    let cancelled = server.carried_out(&cancel("builds")).await;
    assert_eq!((cancelled.matched, tally(&cancelled)), (Some(1), (1, 0, 0)));
    let shown = server.client.run(&held.run_id).await.unwrap();
    assert_eq!((shown.state, shown.cancel_by), (State::Running, Some(Time(START + 30_000))));
    eventually("its grace is over", async || {
        server.clock.advance(1_000);
        server.state(&held.run_id).await == State::Cancelled
    })
    .await;
}

async fn builds_are_cancelled_and_retried_as_builds(on: On) {
    let server = Server::unhurried(on).await;
    let (build, _) = server.submit_build().await;
    let stranger = server.submit().await;
    let done = server.carried_out(&cancel("builds")).await;
    assert_eq!(tally(&done), (2, 0, 0));
    let log = server.call("GET", &format!("/api/builds/{build}/logs"), "").await;
    let log = String::from_utf8_lossy(&log.body).into_owned();
    assert!(log.contains("Build cancelled"), "{log}");
    let cancelled = BulkFilter { queue: Some("builds".into()), ..BulkFilter::in_states([State::Cancelled]) };
    let done = server.carried_out(&CreateBulk::new("retry", cancelled)).await;
    assert_eq!(tally(&done), (2, 0, 0), "{done:?}");
    let page = RunFilter { queue: Some("builds".into()), state: Some(State::Pending), ..RunFilter::default() };
    let mut again = BTreeMap::new();
    for run in server.client.runs(&page).await.unwrap().runs {
        again.insert(run.retry_of.unwrap(), run.id);
    }
    assert_eq!(server.call("GET", &format!("/api/builds/{}", again[&build]), "").await.status, 200, "it is a build");
    assert_eq!(server.call("GET", &format!("/api/builds/{}", again[&stranger]), "").await.status, 404, "it is none");
}

async fn ten_thousand_runs_are_cancelled(on: On) {
    let server = Server::unhurried(on).await;
    server.submit_many(10_000, &on_queue("mail")).await;
    let counted = server.client.bulk_count(&cancel("mail")).await.unwrap();
    assert_eq!(counted.matched, 10_000);
    let begun = server.begin(&cancel("mail")).await;
    // A busy machine needs longer than other tests may take.
    let (mut done, until) = (begun, Instant::now() + Duration::from_secs(120));
    while !done.is_ended() {
        assert!(Instant::now() < until, "too slow: {done:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        done = server.client.bulk(&done.id).await.unwrap();
    }
    assert_eq!((done.matched, tally(&done)), (Some(10_000), (10_000, 0, 0)));
    assert_eq!(server.standing("mail").await, [("cancelled", 10_000)].into());
}
