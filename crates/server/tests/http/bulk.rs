//! /api/v1/bulk

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use baton::proto::{BulkFilter, BulkView, CreateBulk, Event, SubmitBatch, SubmitRun, Time};
use baton::{Client, EventFilter, RunFilter};
use baton_core::{BulkState, RunId, State};
use baton_store::{BulkProgress, Page};
use serde_json::json;

use crate::events::Ear;
use crate::harness::{KEY, On, START, Server, complete, eventually, fail, on_both, refusal, run, started_claim};

on_both!(
    a_dry_run_counts_what_is_then_cancelled,
    a_filter_finds_what_the_list_finds,
    what_makes_no_sense_is_refused,
    runs_that_are_submitted_later_are_left_alone,
    failed_runs_are_retried_once_and_what_that_made_is_left_alone,
    the_same_key_gives_the_same_operation,
    an_operation_is_stopped_in_the_middle,
    an_operation_is_no_faster_than_its_rate,
    another_server_goes_on_where_one_died,
    a_server_that_died_after_it_retried_does_no_harm,
    an_operation_waits_for_room_in_the_queue,
    a_held_run_is_told_to_stop,
    builds_are_cancelled_and_retried_as_builds,
    ten_thousand_runs_are_cancelled,
    a_namespace_knows_nothing_of_the_operations_of_another,
    an_operation_over_all_namespaces_is_for_keys_that_are_good_for_all,
    a_namespace_has_so_many_operations,
    operations_are_listed_in_pages_and_have_tags,
    those_who_listen_hear_of_it_and_the_audit_log_has_two_lines,
    what_ended_long_ago_is_deleted,
);

fn filter(queue: &str) -> BulkFilter {
    BulkFilter { queue: Some(queue.into()), ..BulkFilter::default() }
}

fn cancel(queue: &str) -> CreateBulk {
    CreateBulk::new("cancel", filter(queue))
}

fn retry(queue: &str) -> CreateBulk {
    CreateBulk::new("retry", filter(queue))
}

fn on_queue(queue: &str) -> SubmitRun {
    SubmitRun::new(queue, "send")
}

impl Server {
    /// A server whose operations have no reason to wait.
    async fn unhurried(on: On) -> Server {
        Server::with(on, |settings| {
            settings.bulk_rate = 1_000_000.0;
            settings.bulk_rate_max = 1_000_000.0;
        })
        .await
    }

    async fn submit_many(&self, count: usize, run: &SubmitRun) -> Vec<String> {
        let mut ids = Vec::with_capacity(count);
        for begin in (0..count).step_by(1_000) {
            let batch = SubmitBatch { runs: vec![run.clone(); (count - begin).min(1_000)] };
            let submitted = self.client.submit_batch(&batch).await.unwrap();
            ids.extend(submitted.runs.into_iter().map(|run| run.id));
        }
        ids
    }

    /// Submits runs, and lets each fail for good.
    async fn submit_failed(&self, count: usize, queue: &str) -> Vec<String> {
        let retry = Some(baton_core::RetryPolicy { max_attempts: 1, ..Default::default() });
        let ids = self.submit_many(count, &SubmitRun { retry, ..on_queue(queue) }).await;
        let worker = json!({"name": "fails", "queues": [queue], "types": ["send"], "max_concurrent": count});
        let worker = self.client.register(&serde_json::from_value(worker).unwrap()).await.unwrap().worker_id;
        let claim = baton::proto::Claim { max: Some(count as u32), ..started_claim() };
        for held in self.claims(&worker, &claim).await {
            self.client.fail(&held.run_id, &fail(&held.lease)).await.unwrap();
        }
        ids
    }

    async fn begin(&self, wanted: &CreateBulk) -> BulkView {
        self.client.bulk_start(wanted, None).await.unwrap()
    }

    async fn ended(&self, id: &str) -> BulkView {
        let mut view = None;
        eventually("the operation ends", async || {
            let found = self.client.bulk(id).await.unwrap();
            let has_ended = found.is_ended();
            view = Some(found);
            has_ended
        })
        .await;
        view.unwrap()
    }

    /// Waits until an operation has acted on so many runs, and nobody looks at it before the clock moves.
    async fn waits(&self, id: &str, done: u64) -> baton_store::BulkOperation {
        let mut found = None;
        eventually("the operation waits for its rate", async || {
            let looked = self.app.store.bulk(id.parse().unwrap()).await.unwrap().unwrap();
            assert!(looked.progress.tally.done <= done, "faster than its rate: {looked:?}");
            let is_so = looked.progress.tally.done == done && looked.due_at > self.clock.local();
            found = Some(looked);
            is_so
        })
        .await;
        found.unwrap()
    }

    async fn carried_out(&self, wanted: &CreateBulk) -> BulkView {
        self.ended(&self.begin(wanted).await.id).await
    }

    /// How many runs of a queue are in each state.
    async fn standing(&self, queue: &str) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for state in State::ALL {
            let filter =
                RunFilter { queue: Some(queue.into()), states: vec![state], total: true, ..RunFilter::default() };
            let count = self.client.runs(&filter).await.unwrap().total.unwrap();
            if count > 0 {
                all.insert(state.as_str(), count);
            }
        }
        all
    }
}

fn tally(view: &BulkView) -> (u64, u64, u64) {
    (view.done, view.skipped, view.failed)
}

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

/// An operation that has acted on one run and waits for its rate, as another server sees it.
async fn slow(server: &Server, wanted: CreateBulk) -> baton_store::BulkOperation {
    let operation = server.begin(&CreateBulk { rate_per_second: Some(0.001), ..wanted }).await;
    server.waits(&operation.id, 1).await
}

/// Does as a server does that plans runs, and dies.
async fn plan_and_die(
    server: &Server,
    seen: &baton_store::BulkOperation,
    count: usize,
    states: Vec<State>,
) -> Vec<RunId> {
    let filter = baton_store::RunFilter { states, before: Some(seen.id.as_bound()), ..Default::default() };
    let page = Page { after: seen.progress.cursor, limit: count };
    let planned = server.app.store.find_runs(&filter, page).await.unwrap();
    let progress = BulkProgress { planned: planned.clone(), cursor: planned.last().copied(), ..seen.progress.clone() };
    let saved = server.app.store.save_bulk(seen.id, seen.version, &progress, BulkState::Running, 10_000).await.unwrap();
    assert!(saved.is_some(), "nobody else had a turn");
    planned
}

async fn another_server_goes_on_where_one_died(on: On) {
    let server = Server::start(on).await;
    // Where the store can be shared there is a second server.
    let second = match on {
        On::Sqlite => None,
        On::Postgres => {
            let url = server.settings.database_url.as_deref().unwrap();
            Some(Server::on_database(url, server.clock.clone()).await)
        }
    };
    server.submit_many(20, &on_queue("mail")).await;
    let seen = slow(&server, cancel("mail")).await;
    let planned = plan_and_die(&server, &seen, 5, vec![State::Pending]).await;
    server.app.store.cancel(planned[..2].to_vec(), 0).await.unwrap();
    server.clock.advance(9_999);
    let id = seen.id.to_string();
    assert_eq!(server.client.bulk(&id).await.unwrap().done, 1, "it may live");
    // Nobody has told this server of the turn that began before its time: it looks by itself.
    server.clock.advance(60_000);
    eventually("somebody else goes on", async || server.client.bulk(&id).await.unwrap().done == 6).await;
    assert_eq!(server.standing("mail").await, [("cancelled", 6), ("pending", 14)].into());
    // A server that was only slow comes too late, and changes nothing.
    let late = server.app.store.save_bulk(seen.id, seen.version + 1, &seen.progress, BulkState::Running, 0).await;
    assert_eq!(late.unwrap(), None);
    let through = second.as_ref().unwrap_or(&server);
    through.client.bulk_stop(&id).await.unwrap();
    assert_eq!(tally(&through.ended(&id).await), (6, 0, 0));
}

async fn a_server_that_died_after_it_retried_does_no_harm(on: On) {
    let server = Server::start(on).await;
    server.submit_failed(12, "mail").await;
    let seen = slow(&server, retry("mail")).await;
    let planned = plan_and_die(&server, &seen, 5, vec![State::Failed]).await;
    // It got as far as three of them. The key is the one that the single verb would have made of operation and run.
    for run in &planned[..3] {
        let record = server.app.store.run(*run).await.unwrap().unwrap();
        let key = format!("retry\u{1f}{run}\u{1f}bulk\u{1f}{}", seen.id);
        let queue = server.app.lanes.queue_of(record.lane).unwrap();
        let again = baton_store::NewRun {
            lane: baton_store::Lane { lane: record.lane, queue },
            priority: record.priority,
            due: baton_store::Due::Now,
            key: None,
            affinity: None,
            idempotency: Some(baton_store::Idempotency { key, fingerprint: [0; 16] }),
            options: None,
            retry_of: Some(*run),
            trace: None,
            input: record.input,
        };
        let submission = baton_store::Submission { runs: vec![again], dice: vec![5] };
        server.app.store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
    }
    server.clock.advance(60_000);
    let id = seen.id.to_string();
    eventually("the server goes on", async || server.client.bulk(&id).await.unwrap().done == 6).await;
    let page = RunFilter { queue: Some("mail".into()), state: Some(State::Pending), ..RunFilter::default() };
    let again: Vec<_> =
        server.client.runs(&page).await.unwrap().runs.into_iter().filter_map(|run| run.retry_of).collect();
    assert_eq!(again.len(), 6);
    assert_eq!(again.iter().collect::<BTreeSet<_>>().len(), 6, "none of them twice");
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

async fn a_namespace_knows_nothing_of_the_operations_of_another(on: On) {
    let server = Server::unhurried(on).await;
    server.submit_many(5, &on_queue("mail")).await;
    let team = server.client_for(&["submit"], Some("team")).await;
    let reader = server.client_for(&["read"], Some("default")).await;
    team.submit(&SubmitRun { namespace: "team".into(), ..on_queue("mail") }).await.unwrap();
    // Of a foreign namespace there is nothing to be found, and one that is named is refused.
    assert_eq!(team.bulk_count(&cancel("mail")).await.unwrap().matched, 1);
    let named = CreateBulk::new("cancel", BulkFilter { namespace: Some("default".into()), ..BulkFilter::default() });
    assert_eq!(refusal(team.bulk_count(&named).await), "403 forbidden");
    assert_eq!(refusal(reader.bulk_count(&cancel("mail")).await), "403 forbidden");
    let all = CreateBulk { all: true, ..CreateBulk::new("cancel", BulkFilter::default()) };
    let theirs = team.bulk_start(&all, None).await.unwrap();
    assert_eq!(theirs.namespace.as_deref(), Some("team"));
    assert_eq!(tally(&server.ended(&theirs.id).await), (1, 0, 0));
    assert_eq!(server.standing("mail").await["pending"], 5);
    let ours = server.begin(&named).await;
    for client in [&team] {
        assert_eq!(refusal(client.bulk(&ours.id).await), "404 not_found");
        assert_eq!(refusal(client.bulk_stop(&ours.id).await), "404 not_found");
        let listed = client.bulks(None, None, None, None).await.unwrap().operations;
        assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&theirs.id]);
    }
    assert_eq!(reader.bulk(&ours.id).await.unwrap().id, ours.id);
    assert_eq!(refusal(reader.bulk_stop(&ours.id).await), "403 forbidden");
    assert_eq!(refusal(reader.bulk(&theirs.id).await), "404 not_found");
}

async fn an_operation_over_all_namespaces_is_for_keys_that_are_good_for_all(on: On) {
    let server = Server::unhurried(on).await;
    for namespace in ["default", "team"] {
        let run = SubmitRun { namespace: namespace.into(), ..on_queue("mail") };
        server.submit_many(3, &run).await;
    }
    let done = server.carried_out(&cancel("mail")).await;
    assert_eq!((done.namespace.as_deref(), tally(&done)), (None, (6, 0, 0)));
    let team: Client = server.client_for(&["admin"], Some("team")).await;
    assert_eq!(refusal(team.bulk(&done.id).await), "404 not_found", "it reaches beyond");
    assert_eq!(team.bulks(None, None, None, None).await.unwrap().operations, []);
}

async fn a_namespace_has_so_many_operations(on: On) {
    let server = Server::start(on).await;
    server.submit_many(2, &on_queue("mail")).await;
    let of = |namespace: &str| CreateBulk {
        rate_per_second: Some(0.001),
        ..CreateBulk::new("cancel", BulkFilter { namespace: Some(namespace.into()), ..filter("mail") })
    };
    let first = server.begin(&of("default")).await;
    eventually("it waits for its rate", async || server.client.bulk(&first.id).await.unwrap().done == 1).await;
    // Those that find nothing end, and make room; this one does not.
    for _ in 0..30 {
        let other = server.begin(&of("team")).await;
        server.ended(&other.id).await;
    }
    for _ in 1..20 {
        // Each has one run to wait for that nobody can act on.
        server.submit_many(2, &on_queue("mail")).await;
        let next = server.begin(&of("default")).await;
        eventually("it waits, too", async || server.client.bulk(&next.id).await.unwrap().done == 1).await;
    }
    assert_eq!(refusal(server.client.bulk_start(&of("default"), None).await), "429 namespace_limit");
    assert_eq!(server.client.bulk_count(&of("default")).await.unwrap().action, "cancel", "counting is free");
    server.client.bulk_stop(&first.id).await.unwrap();
    server.ended(&first.id).await;
    server.begin(&of("default")).await;
}

async fn operations_are_listed_in_pages_and_have_tags(on: On) {
    let server = Server::unhurried(on).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, server.carried_out(&cancel("mail")).await.id);
    }
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = server.client.bulks(None, Some("completed"), Some(2), cursor.as_deref()).await.unwrap();
        listed.extend(page.operations.into_iter().map(|one| one.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids);
    assert_eq!(server.client.bulks(None, Some("running"), None, None).await.unwrap().operations, []);
    let path = format!("/api/v1/bulk/{}", ids[0]);
    let tag = server.call("GET", &path, "").await.header("etag").to_owned();
    let request = server.request("GET", &path).header("x-api-key", KEY).header("if-none-match", &tag);
    assert_eq!(server.send(request, "").await.status, 304);
}

async fn those_who_listen_hear_of_it_and_the_audit_log_has_two_lines(on: On) {
    let server = Server::unhurried(on).await;
    server.submit_many(700, &on_queue("mail")).await;
    let of_default =
        EventFilter { namespace: Some("default".into()), kinds: vec!["bulk".into()], ..EventFilter::default() };
    let mut ear = Ear::open(&server, of_default).await;
    let wanted = CreateBulk {
        reason: Some("the wrong template".into()),
        ..CreateBulk::new("cancel", BulkFilter { namespace: Some("default".into()), ..filter("mail") })
    };
    let begun = Instant::now();
    let operation = server.begin(&wanted).await;
    let mut heard: Vec<Event> = vec![ear.next().await];
    while heard.last().is_some_and(|event| event.state.as_deref() == Some("running")) {
        heard.push(ear.next().await);
    }
    assert!(heard.len() as u64 <= 3 + begun.elapsed().as_secs(), "start, end, and once a second in between: {heard:?}");
    assert!(heard.iter().all(|event| event.kind == "bulk.changed" && event.namespace.as_deref() == Some("default")));
    let (first, last) = (heard[0].bulk.clone().unwrap(), heard.last().unwrap().bulk.clone().unwrap());
    assert_eq!((first.id.as_str(), first.done, first.matched), (operation.id.as_str(), 0, None));
    assert_eq!((last.done, last.matched, last.action.as_str()), (700, Some(700), "cancel"));
    let log = server.call("GET", "/api/v1/audit", "").await.json();
    let lines: Vec<_> = log["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["subject"] == operation.id.as_str())
        .map(|line| (line["action"].as_str().unwrap(), line["detail"].as_str().unwrap()))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], ("bulk.end", "completed: 700 done, 0 skipped, 0 failed of 700 matched"));
    assert!(lines[1].0 == "bulk.start" && lines[1].1.contains("the wrong template"), "{lines:?}");
}

async fn what_ended_long_ago_is_deleted(on: On) {
    let server = Server::with(on, |settings| settings.retention_runs_ms = 60_000).await;
    let done = server.carried_out(&cancel("mail")).await;
    assert_eq!(done.state, "completed");
    let id = done.id.clone();
    eventually("retention comes by", async || {
        server.clock.advance(30_000);
        server.client.bulk(&id).await.is_err()
    })
    .await;
    assert_eq!(refusal(server.client.bulk(&id).await), "404 not_found");
}
