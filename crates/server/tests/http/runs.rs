//! /api/v1/runs: submit, batch, list, get, history, cancel, retry.

use std::time::Duration;

use baton::RunFilter;
use baton::proto::{SubmitBatch, SubmitRun, Time};
use baton_core::{Reason, State};
use serde_json::{Value, json};

use crate::harness::{LONG_MS, On, START, Server, complete, eventually, fail, on_both, refusal, run, soon};

const UNKNOWN: &str = "00000000-0000-7000-8000-000000000000";

async fn a_run_reads_back_as_it_was_submitted(on: On) {
    let server = Server::start(on).await;
    let body = json!({"queue": "builds", "type": "ios", "input": {"b": 1, "a": [2, null]}, "priority": 7, "delay_ms": 500,
        "key": "app", "affinity": "cache"});
    let answer = server.call("POST", "/api/v1/runs", body.to_string()).await;
    assert_eq!((answer.status, answer.header("content-type")), (201, "application/json"));
    let submitted = answer.json();
    assert_eq!((&submitted["state"], &submitted["created"]), (&json!("pending"), &json!(true)));
    let run = server.client.run(submitted["id"].as_str().unwrap()).await.unwrap();
    assert_eq!((run.namespace.as_str(), run.queue.as_str(), run.kind.as_str()), ("default", "builds", "ios"));
    assert_eq!((run.state, run.priority, run.epoch), (State::Pending, 7, 0));
    assert_eq!((run.key.as_deref(), run.affinity.as_deref()), (Some("app"), Some("cache")));
    assert_eq!((run.submitted_at, run.due_at), (Time(START), Time(START + 500)));
    assert_eq!(run.input.unwrap().get(), r#"{"a":[2,null],"b":1}"#);
    assert!(!String::from_utf8_lossy(&answer.body).contains(": "), "JSON is compact");
}

async fn what_is_wrong_with_a_submit_is_said(on: On) {
    let server = Server::start(on).await;
    let long = "x".repeat(201);
    for (body, expected, word) in [
        ("{".into(), "400 malformed", "JSON"),
        ("{\"type\": \"a\"} x".into(), "400 malformed", "JSON"),
        (String::new(), "422 invalid", "type"),
        ("[]".into(), "422 invalid", "object"),
        (json!({"type": "a", "colour": "red"}).to_string(), "422 invalid", "colour"),
        (json!({"type": 1}).to_string(), "422 invalid", "string"),
        (json!({"type": ""}).to_string(), "422 invalid", "empty"),
        (json!({"type": long}).to_string(), "422 invalid", "200"),
        (json!({"type": "a\u{0}"}).to_string(), "422 invalid", "control"),
        (json!({"type": "a", "queue": ""}).to_string(), "422 invalid", "queue"),
        (json!({"type": "a", "namespace": ""}).to_string(), "422 invalid", "namespace"),
        (json!({"type": "a", "key": "\n"}).to_string(), "422 invalid", "key"),
        (json!({"type": "a", "idempotency_key": ""}).to_string(), "422 invalid", "idempotency_key"),
        (json!({"type": "a", "priority": 10}).to_string(), "422 invalid", "priority"),
        (json!({"type": "a", "priority": -1}).to_string(), "422 invalid", "-1"),
        (json!({"type": "a", "delay_ms": u64::MAX}).to_string(), "422 invalid", "100 years"),
        (json!({"type": "a", "due_at": "never"}).to_string(), "422 invalid", "100 years"),
        (json!({"type": "a", "due_at": "yesterday"}).to_string(), "422 invalid", "RFC 3339"),
        (json!({"type": "a", "delay_ms": 1, "due_at": "2030-01-01T00:00:00Z"}).to_string(), "422 invalid", "not both"),
        (json!({"type": "a", "retry": {"max_attempts": 0}}).to_string(), "422 invalid", "max_attempts"),
        (json!({"type": "a", "retry": {"tries": 3}}).to_string(), "422 invalid", "tries"),
        (json!({"type": "a", "retry": {"non_retryable": ["\u{0}"]}}).to_string(), "422 invalid", "non_retryable"),
        (json!({"type": "a", "timeout_ms": 0}).to_string(), "422 invalid", "timeout_ms"),
        (json!({"type": "a", "max_losses": u32::MAX}).to_string(), "422 invalid", "max_losses"),
    ] {
        let answer = server.call("POST", "/api/v1/runs", body.clone()).await;
        assert_eq!(answer.refusal(), expected, "{body}");
        assert!(answer.json()["error"].as_str().unwrap().contains(word), "{body}: {answer:?}");
    }
    let form = server.request("POST", "/api/v1/runs").header("x-api-key", crate::harness::KEY);
    let answer = server.send(form.header("content-type", "multipart/form-data; boundary=x"), "--x--").await;
    assert_eq!(answer.refusal(), "400 malformed");
    assert_eq!(server.client.runs(&RunFilter { total: true, ..RunFilter::default() }).await.unwrap().total, Some(0));
}

/// JSON may hold anything in its strings; a store that cannot keep a byte must not turn that into a failure of ours.
async fn any_json_goes_in_and_comes_out(on: On) {
    let server = Server::start(on).await;
    let odd = r#"{"nul":"\u0000","pair":"\ud83d\ude00","deep":[[[[1e400]]]],"dup":1,"dup":2}"#;
    let body = format!(r#"{{"queue":"builds","type":"ios","input":{odd}}}"#);
    let answer = server.call("POST", "/api/v1/runs", body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.client.run(&id).await.unwrap().input.unwrap().get(), odd);
    let worker = server.worker("one").await;
    let claimed = server.claim(&worker).await;
    assert_eq!(claimed.input.as_ref().unwrap().get(), odd);
    let done = format!(r#"{{"lease":"{}","output":{odd}}}"#, claimed.lease);
    assert_eq!(server.call("POST", &format!("/api/v1/runs/{id}/complete"), done).await.status, 200);
    assert_eq!(server.client.run(&id).await.unwrap().output.unwrap().get(), odd);
}

async fn a_batch_goes_in_whole_or_not_at_all(on: On) {
    let server = Server::start(on).await;
    let good = SubmitBatch { runs: (0..300).map(|n| SubmitRun { priority: Some((n % 10) as u8), ..run() }).collect() };
    let taken = server.client.submit_batch(&good).await.unwrap().runs;
    assert_eq!(taken.len(), 300);
    for (index, run) in taken.iter().enumerate().step_by(97) {
        assert_eq!(usize::from(server.client.run(&run.id).await.unwrap().priority), index % 10, "answers are in order");
    }
    let mut bad = good.clone();
    bad.runs[217].priority = Some(99);
    let answer = server.call("POST", "/api/v1/runs/batch", serde_json::to_vec(&bad).unwrap()).await;
    assert_eq!(answer.refusal(), "422 invalid");
    assert!(answer.json()["error"].as_str().unwrap().starts_with("runs[217].priority"), "{answer:?}");
    for wrong in [json!({"runs": []}), json!({}), json!({"runs": [{"type": "a"}], "x": 1}), json!({"runs": {}})] {
        let answer = server.call("POST", "/api/v1/runs/batch", wrong.to_string()).await;
        assert_eq!(answer.refusal(), "422 invalid", "{wrong}");
    }
    let many = format!(r#"{{"runs":[{}]}}"#, vec![r#"{"type":"a"}"#; 10_001].join(","));
    assert_eq!(server.call("POST", "/api/v1/runs/batch", many).await.refusal(), "422 invalid");
    let all = server.client.runs(&RunFilter { total: true, limit: Some(1), ..RunFilter::default() }).await.unwrap();
    assert_eq!(all.total, Some(300));
}

async fn pages_hold_every_run_once_and_newest_first(on: On) {
    let server = Server::start(on).await;
    let mut expected = Vec::new();
    for _ in 0..7 {
        expected.insert(0, server.submit().await);
    }
    let mut filter = RunFilter { limit: Some(3), total: true, ..RunFilter::default() };
    let (mut seen, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let page = server.client.runs(&filter).await.unwrap();
        assert_eq!(page.total, Some(7));
        assert!(page.runs.iter().all(|run| run.input.is_none()), "lists are without payloads");
        sizes.push(page.runs.len());
        seen.extend(page.runs.into_iter().map(|run| run.id));
        // What comes in meanwhile is newer than the first page, and moves nothing.
        if sizes.len() == 1 {
            server.client.cancel(&server.submit_run(&SubmitRun::new("other", "ios")).await).await.unwrap();
            filter.queue = Some("builds".into());
        }
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!((seen, sizes), (expected, vec![3, 3, 1]));
    for wrong in ["limit=0", "limit=1001", "limit=x", "cursor=x", "state=lost", "worker=x", "total=2", "colour=red"] {
        let answer = server.call("GET", &format!("/api/v1/runs?{wrong}"), "").await;
        let expected = if wrong == "worker=x" { "404 unknown_worker" } else { "422 invalid" };
        assert_eq!(answer.refusal(), expected, "{wrong}");
    }
}

async fn filters_find_what_they_say(on: On) {
    let server = Server::start(on).await;
    let (worker, claimed) = server.held().await;
    let keyed = server.submit_run(&SubmitRun { key: Some("k".into()), ..SubmitRun::new("other", "android") }).await;
    let foreign = SubmitRun { namespace: "team".into(), ..run() };
    let foreign = server.submit_run(&foreign).await;
    let find = async |filter: RunFilter| -> Vec<String> {
        server.client.runs(&filter).await.unwrap().runs.into_iter().map(|run| run.id).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(find(RunFilter { queue: some("other"), ..RunFilter::default() }).await, [keyed.as_str()]);
    assert_eq!(find(RunFilter { kind: some("android"), ..RunFilter::default() }).await, [keyed.as_str()]);
    assert_eq!(find(RunFilter { key: some("k"), ..RunFilter::default() }).await, [keyed]);
    assert_eq!(find(RunFilter { namespace: some("team"), ..RunFilter::default() }).await, [foreign]);
    let running = RunFilter { state: Some(State::Running), ..RunFilter::default() };
    assert_eq!(find(running).await, [claimed.run_id.as_str()]);
    let several = RunFilter { states: vec![State::Running, State::Failed], ..RunFilter::default() };
    assert_eq!(find(several).await, find(RunFilter { state: Some(State::Running), ..RunFilter::default() }).await);
    let own = RunFilter { worker: Some(worker), ..RunFilter::default() };
    assert_eq!(find(own.clone()).await, [claimed.run_id.as_str()]);
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    assert_eq!(find(own).await, [claimed.run_id], "it held the run at its end");
    assert!(find(RunFilter { queue: some("nobody's"), ..RunFilter::default() }).await.is_empty());
}

async fn runs_are_found_by_states_times_and_last_digits(on: On) {
    let server = Server::start(on).await;
    let first = server.submit().await;
    server.clock.advance(60_000);
    let second = server.submit().await;
    server.client.cancel(&first).await.unwrap();
    let find = async |query: &str| -> Vec<String> {
        let page = server.call("GET", &format!("/api/v1/runs?{query}"), "").await.json();
        page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    let both = [second.clone(), first.clone()];
    for query in ["state=pending,cancelled", "state=pending&state=cancelled", "state=pending&limit=9&state=cancelled"] {
        assert_eq!(find(query).await, both, "{query}");
    }
    assert_eq!(find("state=failed,cancelled").await, [first.as_str()]);
    let between = Time(START + 30_000);
    assert_eq!(find(&format!("submitted_after={between}")).await, [second.as_str()]);
    assert_eq!(find(&format!("submitted_before={between}")).await, [first.as_str()]);
    assert!(find(&format!("submitted_before={between}&state=pending")).await.is_empty());
    assert_eq!(find(&format!("id_suffix={}", &second[second.len() - 6..])).await, [second.as_str()]);
    assert!(find(&format!("id_suffix={}&queue=other", &second[second.len() - 6..])).await.is_empty());
    assert_eq!(find(&format!("id_prefix={second}")).await, [second.as_str()]);
    assert_eq!(find(&format!("id_prefix={}", second.replace('-', "").to_uppercase())).await, [second.as_str()]);
    assert_eq!(find(&format!("id_prefix={}", &second[..4])).await, [second.as_str(), first.as_str()]);
    assert_eq!(find(&format!("id_prefix={}&submitted_before={between}", &second[..4])).await, [first.as_str()]);
    assert!(find("id_prefix=ffff").await.is_empty());
    for wrong in [
        "id_suffix=abc",
        "id_suffix=0123456789abc",
        "id_suffix=wxyz",
        "id_prefix=019",
        "id_prefix=019g",
        "state=pending,lost",
        "submitted_after=x",
    ] {
        let answer = server.call("GET", &format!("/api/v1/runs?{wrong}"), "").await;
        assert_eq!(answer.refusal(), "422 invalid", "{wrong}");
    }
    // A key of another namespace finds nothing by the digits, as if the run were not there.
    let key = json!({"name": "x", "scopes": ["read"], "namespace": "team"}).to_string();
    let key = server.call("POST", "/api/v1/keys", key).await.json()["key"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/runs?id_suffix={}", &second[second.len() - 6..]);
    let answer = server.send(server.request("GET", &path).header("x-api-key", key), "").await;
    assert_eq!(answer.json()["runs"], json!([]));
}

async fn ids_that_name_nothing_are_not_found(on: On) {
    let server = Server::start(on).await;
    let calls = [("GET", ""), ("GET", "/history"), ("GET", "/explain"), ("POST", "/cancel"), ("POST", "/retry")];
    for id in [UNKNOWN, "x", "1", "..", "%C3%A9", "00000000-0000-0000-0000-00000000000g"] {
        for (method, verb) in calls {
            let path = format!("/api/v1/runs/{id}{verb}");
            assert_eq!(server.call(method, &path, "").await.refusal(), "404 not_found", "{method} {path}");
        }
        let path = format!("/api/v1/workers/{id}");
        assert_eq!(server.call("GET", &path, "").await.refusal(), "404 unknown_worker", "{path}");
    }
    for id in ["%00", "%ff"] {
        for path in ["/api/v1/runs", "/api/v1/workers", "/api/v1/queues"] {
            let answer = server.call("GET", &format!("{path}/{id}"), "").await;
            assert_eq!(answer.refusal(), "400 malformed", "{path}/{id}");
        }
    }
}

/// PostgreSQL refuses NUL in text: that must be our refusal, not its failure.
async fn a_nul_byte_in_a_question_is_no_failure_of_ours(on: On) {
    let server = Server::start(on).await;
    for path in [
        "/api/v1/runs?key=%00",
        "/api/v1/runs?queue=%00",
        "/api/v1/runs?namespace=%00",
        "/api/v1/workers?queue=%00",
        "/api/v1/workers?namespace=%00",
        "/api/v1/queues?namespace=%00",
        "/api/v1/queues/x?namespace=%00",
    ] {
        let answer = server.call("GET", path, "").await;
        assert_eq!(answer.refusal(), "422 invalid", "{path}");
    }
}

async fn history_tells_what_happened_in_order(on: On) {
    let server = Server::start(on).await;
    let (worker, claimed) = server.held().await;
    server.clock.advance(10);
    server.client.fail(&claimed.run_id, &fail(&claimed.lease)).await.unwrap();
    server.clock.advance(5_000);
    let again = server.claim(&worker).await;
    server.clock.advance(10);
    server.client.complete(&again.run_id, &complete(&again.lease)).await.unwrap();
    let history = server.client.history(&claimed.run_id).await.unwrap().events;
    let told: Vec<_> =
        history.iter().map(|event| (event.event.as_str(), event.epoch, event.reason.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("submitted", None, None),
            ("claimed", Some(1), None),
            ("started", Some(1), None),
            ("lease_ended", Some(1), Some("failed")),
            ("claimed", Some(2), None),
            ("started", Some(2), None),
            ("lease_ended", Some(2), Some("completed")),
            ("completed", None, None),
        ]
    );
    assert_eq!(history[3].message.as_deref(), Some("it broke"));
    assert_eq!((history[1].worker_id.as_ref(), history[3].at), (Some(&worker), Time(START + 10)));
    assert!(history.is_sorted_by_key(|event| event.at));
}

async fn a_wait_for_a_run_ends_with_the_run(on: On) {
    let server = Server::start(on).await;
    let (_, claimed) = server.held().await;
    let waiting = tokio::spawn({
        let (client, id) = (server.client.clone(), claimed.run_id.clone());
        async move { client.wait_for_run(&id, Duration::from_millis(LONG_MS)).await.unwrap() }
    });
    let still = server.client.wait_for_run(&claimed.run_id, Duration::from_millis(1)).await.unwrap();
    assert_eq!(still.state, State::Running, "a wait that is over says where the run stands");
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    assert_eq!(soon(waiting).await.state, State::Completed);
    let unknown = server.client.wait_for_run(UNKNOWN, Duration::from_millis(LONG_MS)).await;
    assert_eq!(refusal(unknown), "404 not_found");
}

async fn cancel_is_immediate_for_a_run_nobody_holds(on: On) {
    let server = Server::start(on).await;
    let id = server.submit().await;
    for _ in 0..2 {
        let answer = server.client.cancel(&id).await.unwrap();
        assert_eq!((answer.state, answer.cancelling), (State::Cancelled, false), "again gives the same answer");
    }
    assert_eq!(server.client.run(&id).await.unwrap().reason, Some(Reason::Cancelled));
    let (_, claimed) = server.held().await;
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    assert_eq!(refusal(server.client.cancel(&claimed.run_id).await), "409 ended");
}

async fn a_held_run_is_cancelled_for_good_after_the_grace_time(on: On) {
    let server = Server::with(on, |settings| settings.cancel_grace_ms = 4_000).await;
    let (_, claimed) = server.held().await;
    for _ in 0..2 {
        let answer = server.client.cancel(&claimed.run_id).await.unwrap();
        assert_eq!((answer.state, answer.cancelling), (State::Running, true));
    }
    assert_eq!(server.client.run(&claimed.run_id).await.unwrap().cancel_by, Some(Time(START + 4_000)));
    let last = server.client.history(&claimed.run_id).await.unwrap().events.pop().unwrap();
    assert_eq!((last.event.as_str(), last.at, last.epoch), ("cancel_by", Time(START + 4_000), Some(1)));
    assert!(last.worker_id.is_some() && last.message.unwrap().contains("asked to cancel"));
    assert!(server.client.explain(&claimed.run_id).await.unwrap().summary.contains("asked to cancel"));
    server.clock.advance(4_001);
    eventually("the run is cancelled", async || server.state(&claimed.run_id).await == State::Cancelled).await;
    assert_eq!(refusal(server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await), "409 ended");
    let history = server.client.history(&claimed.run_id).await.unwrap().events;
    let told: Vec<_> = history.iter().map(|event| (event.event.as_str(), event.reason.as_deref())).collect();
    assert_eq!(told[told.len() - 2..], [("lease_ended", Some("cancelled")), ("cancelled", Some("cancelled"))]);
}

async fn retry_makes_a_new_run_of_one_that_ended(on: On) {
    let server = Server::start(on).await;
    let first = SubmitRun { key: Some("k".into()), priority: Some(8), ..run() };
    let body: Value = serde_json::to_value(&first).unwrap();
    let mut body = body.as_object().unwrap().clone();
    body.insert("input".into(), json!({"a": 1}));
    let id = server.call("POST", "/api/v1/runs", Value::from(body).to_string()).await.json()["id"].clone();
    let id = id.as_str().unwrap();
    assert_eq!(refusal(server.client.retry(id).await), "422 invalid", "it has not ended");
    server.client.cancel(id).await.unwrap();
    let answer = server.call("POST", &format!("/api/v1/runs/{id}/retry"), "").await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.json()["retry_of"], id);
    let again = server.client.run(answer.json()["id"].as_str().unwrap()).await.unwrap();
    assert_eq!((again.state, again.priority, again.key.as_deref()), (State::Pending, 8, Some("k")));
    assert_eq!((again.retry_of.as_deref(), again.input.unwrap().get()), (Some(id), r#"{"a":1}"#));
    assert_eq!(server.state(id).await, State::Cancelled, "the old one stays as it is");
}

on_both!(
    a_run_reads_back_as_it_was_submitted,
    what_is_wrong_with_a_submit_is_said,
    any_json_goes_in_and_comes_out,
    a_batch_goes_in_whole_or_not_at_all,
    pages_hold_every_run_once_and_newest_first,
    filters_find_what_they_say,
    runs_are_found_by_states_times_and_last_digits,
    ids_that_name_nothing_are_not_found,
    a_nul_byte_in_a_question_is_no_failure_of_ours,
    history_tells_what_happened_in_order,
    a_wait_for_a_run_ends_with_the_run,
    cancel_is_immediate_for_a_run_nobody_holds,
    a_held_run_is_cancelled_for_good_after_the_grace_time,
    retry_makes_a_new_run_of_one_that_ended,
);
