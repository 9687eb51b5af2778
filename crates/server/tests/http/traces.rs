//! Traces of runs, as a collector sees them.

use baton::proto::{Claim, SubmitBatch, SubmitRun};
use baton_testkit::{CollectedSpan, Collector, Reply};
use serde_json::json;

use crate::harness::{On, START, Server, complete, eventually, fail, on_both, run, started_claim};

on_both!(
    a_run_is_one_trace_from_its_submit_to_its_end,
    every_attempt_of_a_run_is_a_span,
    a_worker_that_is_lost_is_seen_in_the_trace,
    a_batch_has_a_trace_for_each_run,
    a_trace_that_is_not_one_is_ignored,
    the_submitter_decides_whether_it_is_sampled,
    without_a_collector_the_trace_is_passed_on,
    a_retry_is_a_trace_of_its_own_that_knows_the_first,
    spans_that_a_server_left_are_sent_by_another,
    nothing_waits_for_a_collector_that_is_gone,
    a_collector_that_is_busy_gets_spans_later,
    a_repeated_submit_may_have_another_trace,
    an_error_names_the_trace,
    no_payload_is_in_a_span,
);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn traced() -> SubmitRun {
    SubmitRun { traceparent: Some(traceparent("01")), tracestate: Some("vendor=1".into()), ..run() }
}

async fn server(on: On, collector: &Collector) -> Server {
    let url = collector.url().to_owned();
    Server::with(on, |settings| settings.otlp_endpoint = Some(url)).await
}

fn named<'a>(trace: &'a [CollectedSpan], name: &str) -> Vec<&'a CollectedSpan> {
    let mut found: Vec<_> = trace.iter().filter(|span| span.name == name).collect();
    found.sort_by_key(|span| (span.begin_ms, span.end_ms));
    found
}

/// One root, whose parent is the submitter's, and every other span hangs below it.
fn assert_whole(trace: &[CollectedSpan], submitter: &str) {
    let ids: Vec<&str> = trace.iter().map(|span| span.span_id.as_str()).collect();
    for span in trace {
        let resolves = span.parent == submitter || ids.contains(&span.parent.as_str());
        assert!(resolves, "{span:#?} has no parent in {trace:#?}");
        assert_eq!(ids.iter().filter(|id| **id == span.span_id).count(), 1, "{span:#?} is there with two contents");
        assert!(span.begin_ms <= span.end_ms);
    }
    assert_eq!(trace.iter().filter(|span| span.name.starts_with("run ")).count(), 1, "{trace:#?}");
}

async fn a_run_is_one_trace_from_its_submit_to_its_end(on: On) {
    let collector = Collector::start().await;
    let server = server(on, &collector).await;
    let body = json!({"queue": "builds", "type": "ios"}).to_string();
    let request = server.request("POST", "/api/v1/runs").header("x-api-key", crate::harness::KEY);
    let request = request.header("traceparent", traceparent("01")).header("tracestate", "vendor=1");
    let answer = server.send(request.header("content-type", "application/json"), body).await;
    assert_eq!(answer.status, 201);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.client.run(&id).await.unwrap().trace_id.as_deref(), Some(TRACE));
    server.clock.advance(1_000);
    let worker = server.worker("w").await;
    let claimed = server.claim(&worker).await;
    let place = claimed.traceparent.clone().unwrap();
    assert_eq!(claimed.tracestate.as_deref(), Some("vendor=1"));
    server.clock.advance(2_000);
    server.client.complete(&id, &complete(&claimed.lease)).await.unwrap();

    collector.until_named(TRACE, "POST /api/v1/runs", 1).await;
    let trace = collector.until_named(TRACE, "run ios", 1).await;
    assert_whole(&trace, PARENT);
    let [root, wait, attempt] = ["run ios", "wait", "process builds"].map(|name| named(&trace, name)[0]);
    let at = |ms: i64| (START + ms) as u64;
    assert_eq!((root.begin_ms, root.end_ms, root.parent.as_str()), (at(0), at(3_000), PARENT));
    assert_eq!((wait.begin_ms, wait.end_ms, &wait.parent), (at(0), at(1_000), &root.span_id));
    assert_eq!((attempt.begin_ms, attempt.end_ms, &attempt.parent), (at(1_000), at(3_000), &root.span_id));
    assert_eq!(place, format!("00-{TRACE}-{}-01", attempt.span_id), "the worker stands below its attempt");
    assert_eq!(named(&trace, "POST /api/v1/runs")[0].parent, PARENT);
    assert_eq!((root.state.as_str(), attempt.kind), ("vendor=1", 5));
    for (name, value) in [
        ("messaging.system", "baton"),
        ("messaging.destination.name", "builds"),
        ("messaging.message.id", id.as_str()),
        ("baton.worker.name", "w"),
        ("baton.worker.id", worker.as_str()),
        ("baton.epoch", "1"),
        ("baton.attempt", "1"),
        ("baton.reason", "completed"),
    ] {
        assert_eq!(attempt.attribute(name), value, "{name}");
    }
    assert_eq!((root.attribute("baton.state"), root.error.as_deref()), ("completed", None));
    assert_eq!(root.resource["service.name"], "baton");
    for name in ["service.version", "service.instance.id", "host.name"] {
        assert!(!root.resource[name].is_empty(), "{name}");
    }
    eventually("the spans are counted", async || server.metric("baton_spans_sent_total").await >= 4).await;
    eventually("the trace is closed", async || open_traces(&server).await.is_empty()).await;
}

async fn open_traces(server: &Server) -> Vec<String> {
    let open = server.app.store.open_traces(None, 0, 100).await.unwrap();
    open.ended.iter().map(ToString::to_string).collect()
}

async fn every_attempt_of_a_run_is_a_span(on: On) {
    let collector = Collector::start().await;
    let server = server(on, &collector).await;
    let id = server.submit_run(&traced()).await;
    let worker = server.worker("w").await;
    let first = server.claim(&worker).await;
    server.client.fail(&id, &fail(&first.lease)).await.unwrap();
    let early = collector.until_named(TRACE, "process builds", 1).await;
    assert!(named(&early, "run ios").is_empty(), "an attempt is seen before the run has ended");
    server.clock.advance(60_000);
    let worker = server.worker("another").await;
    let second = server.claim(&worker).await;
    assert_ne!(first.traceparent, second.traceparent);
    server.client.complete(&id, &complete(&second.lease)).await.unwrap();
    let trace = collector.until_named(TRACE, "run ios", 1).await;
    assert_whole(&trace, PARENT);
    let attempts = named(&trace, "process builds");
    let said: Vec<_> = attempts.iter().map(|span| (span.attribute("baton.attempt"), span.error.as_deref())).collect();
    assert_eq!(said, [("1", Some("it broke")), ("2", None)]);
    assert_eq!(attempts[0].attribute("error.type"), "error");
    assert_eq!(named(&trace, "wait").len(), 2);
}

async fn a_worker_that_is_lost_is_seen_in_the_trace(on: On) {
    let collector = Collector::start().await;
    let server = server(on, &collector).await;
    server.submit_run(&traced()).await;
    let worker = server.worker("silent").await;
    server.claim(&worker).await;
    server.clock.advance(20_000);
    let trace = collector
        .until(|_| {
            let trace = collector.trace(TRACE);
            trace.iter().any(|span| span.attribute("baton.reason") == "worker_lost").then_some(trace)
        })
        .await;
    let lost = named(&trace, "process builds")[0];
    assert_eq!((lost.attribute("error.type"), lost.attribute("baton.worker.name")), ("worker_lost", "silent"));
    assert!(lost.error.is_some());
}

async fn a_batch_has_a_trace_for_each_run(on: On) {
    let collector = Collector::start().await;
    let server = server(on, &collector).await;
    let batch = SubmitBatch { runs: vec![traced(), run()] };
    let client = server.client.clone().with_trace(&format!("00-{}-{PARENT}-01", "a".repeat(32)), None);
    let submitted = client.submit_batch(&batch).await.unwrap();
    let mut traces = Vec::new();
    for one in &submitted.runs {
        traces.push(server.client.run(&one.id).await.unwrap().trace_id.unwrap());
    }
    assert_eq!(traces, [TRACE.to_owned(), "a".repeat(32)], "the header is for those that say nothing");
    let own = [server.submit().await, server.submit().await];
    let own = [server.client.run(&own[0]).await.unwrap().trace_id, server.client.run(&own[1]).await.unwrap().trace_id];
    assert!(own[0].is_some() && own[0] != own[1], "the server begins one where nobody did");
}

async fn a_trace_that_is_not_one_is_ignored(on: On) {
    let server = Server::start(on).await;
    for wrong in ["", "00-x", &traceparent("01").to_uppercase(), &format!("00-{}-{PARENT}-01", "0".repeat(32))] {
        let id = server.submit_run(&SubmitRun { traceparent: Some(wrong.to_owned()), ..run() }).await;
        assert_eq!(server.client.run(&id).await.unwrap().trace_id, None, "{wrong:?}");
    }
    let worker = server.worker("w").await;
    assert_eq!(server.claim(&worker).await.traceparent, None);
}

async fn the_submitter_decides_whether_it_is_sampled(on: On) {
    let collector = Collector::start().await;
    let url = collector.url().to_owned();
    let server = Server::with(on, |settings| {
        settings.otlp_endpoint = Some(url);
        settings.otlp_sample_ratio = 0.0;
    })
    .await;
    let worker = server.worker("w").await;
    let unsampled = SubmitRun { traceparent: Some(traceparent("00")), ..run() };
    let mut claimed = Vec::new();
    for run in [unsampled, run(), traced()] {
        server.submit_run(&run).await;
        let one = server.claim(&worker).await;
        server.client.complete(&one.run_id, &complete(&one.lease)).await.unwrap();
        claimed.push(one);
    }
    assert_eq!(claimed[0].traceparent, Some(traceparent("00")), "it is passed on as it came");
    assert_eq!(claimed[1].traceparent, None);
    let trace = collector.until_named(TRACE, "run ios", 1).await;
    assert_eq!(named(&trace, "run ios")[0].attribute("baton.run.id"), claimed[2].run_id);
    assert!(collector.spans().iter().all(|span| span.trace_id == TRACE && span.attribute("baton.epoch") == "1"));
    assert_eq!(named(&trace, "process builds").len(), 1);
}

async fn without_a_collector_the_trace_is_passed_on(on: On) {
    let server = Server::start(on).await;
    let id = server.submit_run(&traced()).await;
    assert_eq!(server.client.run(&id).await.unwrap().trace_id.as_deref(), Some(TRACE));
    let worker = server.worker("w").await;
    let claim = Claim { max: Some(1), ..started_claim() };
    let claimed = server.claims(&worker, &claim).await.pop().unwrap();
    assert_eq!(claimed.traceparent, Some(traceparent("01")), "there is no span of the server between");
    let again = server.claims(&worker, &claim).await.pop().unwrap();
    assert_eq!(again.traceparent, claimed.traceparent, "a lost answer comes again with it");
    assert!(open_traces(&server).await.is_empty());
}

async fn a_retry_is_a_trace_of_its_own_that_knows_the_first(on: On) {
    let collector = Collector::start().await;
    let server = server(on, &collector).await;
    let id = server.submit_run(&traced()).await;
    server.client.cancel(&id).await.unwrap();
    let again = server.client.retry(&id).await.unwrap().id;
    let trace_id = server.client.run(&again).await.unwrap().trace_id.unwrap();
    assert_ne!(trace_id, TRACE);
    server.client.cancel(&again).await.unwrap();
    let first = collector.until_named(TRACE, "run ios", 1).await;
    let second = collector.until_named(&trace_id, "run ios", 1).await;
    let link = (TRACE.to_owned(), named(&first, "run ios")[0].span_id.clone());
    assert_eq!(named(&second, "run ios")[0].links, [link]);
    assert_eq!(named(&second, "run ios")[0].attribute("baton.retry_of"), id);
    assert_eq!(named(&second, "run ios")[0].attribute("baton.state"), "cancelled");
}

async fn spans_that_a_server_left_are_sent_by_another(on: On) {
    let collector = Collector::start().await;
    let server = server(on, &collector).await;
    let id = server.submit_run(&traced()).await;
    let worker = server.worker("w").await;
    let claimed = server.claim(&worker).await;
    // As by a server that dies right after its commit: nobody of this one hears of it.
    let run: baton_core::RunId = id.parse().unwrap();
    let held = server.app.store.claimed(worker.parse().unwrap(), None).await.unwrap();
    assert!(held.is_empty(), "it was started");
    let epoch = server.app.store.run(run).await.unwrap().unwrap().epoch;
    let lease = baton_store::LeaseRef { run, epoch };
    let done = baton_store::Completion { lease, output: None };
    server.app.store.complete(vec![done]).await.unwrap();
    assert_eq!(open_traces(&server).await, [id]);
    server.clock.advance(60_000);
    let trace = collector.until_named(TRACE, "run ios", 1).await;
    assert_whole(&trace, PARENT);
    let attempt = named(&trace, "process builds")[0];
    assert_eq!(claimed.traceparent, Some(format!("00-{TRACE}-{}-01", attempt.span_id)));
    assert_eq!(attempt.end_ms, START as u64, "it says when it ended, not when that was sent");
    eventually("the trace is closed", async || open_traces(&server).await.is_empty()).await;
}

async fn nothing_waits_for_a_collector_that_is_gone(on: On) {
    let nowhere = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let server = Server::with(on, |settings| settings.otlp_endpoint = Some(nowhere)).await;
    let worker = server.worker("w").await;
    for _ in 0..20 {
        server.submit().await;
        let claimed = server.claim(&worker).await;
        server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    }
    eventually("it was tried again", async || server.metric("baton_span_retries_total").await > 0).await;
    assert!(server.metric("baton_spans_queued").await > 0);
    assert_eq!(server.metric("baton_spans_sent_total").await, 0);
}

async fn a_collector_that_is_busy_gets_spans_later(on: On) {
    let collector = Collector::start().await;
    collector.reply([Reply::Refuse(503), Reply::Refuse(503)]);
    let url = collector.url().to_owned();
    let server = Server::with(on, |settings| {
        settings.otlp_endpoint = Some(url);
        settings.otlp_protocol = Some("grpc".into());
        settings.otlp_headers = Some("x-team=a%20secret".into());
    })
    .await;
    let id = server.submit_run(&traced()).await;
    server.client.cancel(&id).await.unwrap();
    let trace = collector.until_named(TRACE, "run ios", 1).await;
    assert_eq!(trace.len(), 1, "a run that nobody claimed is one span");
    assert_eq!(server.metric("baton_span_retries_total").await, 2);
    assert!(collector.headers().iter().all(|headers| headers["x-team"] == "a secret"));
}

async fn a_repeated_submit_may_have_another_trace(on: On) {
    let server = Server::start(on).await;
    let once = SubmitRun { idempotency_key: Some("k".into()), ..traced() };
    let first = server.client.submit(&once).await.unwrap();
    let other = SubmitRun { traceparent: Some(format!("00-{}-{PARENT}-01", "b".repeat(32))), ..once };
    let second = server.client.submit(&other).await.unwrap();
    assert_eq!((&second.id, second.created), (&first.id, false));
    assert_eq!(server.client.run(&first.id).await.unwrap().trace_id.as_deref(), Some(TRACE));
}

async fn an_error_names_the_trace(on: On) {
    let server = Server::start(on).await;
    let request = server.request("GET", "/api/v1/runs/none").header("x-api-key", crate::harness::KEY);
    let answer = server.send(request.header("traceparent", traceparent("01")), "").await;
    assert_eq!((answer.status, answer.json()["trace_id"].as_str()), (404, Some(TRACE)));
    let answer = server.call("GET", "/api/v1/runs/none", "").await;
    assert!(answer.json().get("trace_id").is_none());
}

async fn no_payload_is_in_a_span(on: On) {
    const CANARY: &str = "canary-c0ffee";
    let collector = Collector::start().await;
    let server = server(on, &collector).await;
    let payload = serde_json::value::to_raw_value(CANARY).unwrap();
    let id = server.submit_run(&SubmitRun { input: Some(payload.clone()), ..traced() }).await;
    let worker = server.worker("w").await;
    let claimed = server.claim(&worker).await;
    let done = baton::proto::CompleteRun { output: Some(payload), ..complete(&claimed.lease) };
    server.client.complete(&id, &done).await.unwrap();
    collector.until_named(TRACE, "run ios", 1).await;
    let bytes = collector.bytes();
    let has = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
    assert!(has(&id) && !has(CANARY) && !has(&claimed.lease) && !has(crate::harness::KEY));
}
