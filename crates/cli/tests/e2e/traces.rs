//! A trace stays whole when the worker and the server are killed, also between the end of the run and its last span.

use std::collections::BTreeSet;

use baton_core::State;
use baton_testkit::{CollectedSpan, Collector};

use crate::on_both_stores;
use crate::site::{Leases, Store, client, job, serve_with, worker};
use crate::wait::eventually;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn a_trace_survives_kills_of_worker_and_server(store: Store) {
    let collector = Collector::start().await;
    let home = tempfile::tempdir().unwrap();
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let url = database.as_ref().map(|database| database.url());
    // By the variable that OpenTelemetry has for it.
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let mut server = serve_with(home.path(), url, Leases::SHORT, &settings).await;
    let calls = client(&server.url());
    let submitter = calls.clone().with_trace(&format!("00-{TRACE}-{PARENT}-01"), None);
    let id = submitter.submit(&job()).await.unwrap().id;
    let state = async || calls.run(&id).await.ok().map(|run| run.state);

    let mut first = worker(&server.url(), 1, "sleep 600");
    eventually("the first attempt", async || (state().await == Some(State::Running)).then_some(())).await;
    first.sigkill();
    let lost = |span: &CollectedSpan| span.attribute("baton.reason") == "worker_lost";
    collector.until(|spans| spans.iter().any(lost).then_some(())).await;
    server.restart().await;

    let _second = worker(&server.url(), 1, "printf '\"%s\"' \"$TRACEPARENT\"");
    eventually("the end", async || (state().await == Some(State::Completed)).then_some(())).await;
    // Its spans may be on their way, or not even made.
    server.restart().await;

    let trace = collector.until_named(TRACE, "run job", 1).await;
    let ids: BTreeSet<&str> = trace.iter().map(|span| span.span_id.as_str()).collect();
    assert_eq!(ids.len(), trace.len(), "a span came with two contents: {trace:#?}");
    for span in &trace {
        assert!(span.parent == PARENT || ids.contains(span.parent.as_str()), "{span:#?} has no parent in {trace:#?}");
    }
    let roots: Vec<_> = trace.iter().filter(|span| span.name.starts_with("run ")).collect();
    let attempts: Vec<_> = trace.iter().filter(|span| span.name.starts_with("process ")).collect();
    assert_eq!((roots.len(), attempts.len()), (1, 2), "{trace:#?}");
    assert!(attempts.iter().all(|attempt| attempt.parent == roots[0].span_id));
    let run = calls.run(&id).await.unwrap();
    let place = serde_json::from_str::<String>(run.output.unwrap().get()).unwrap();
    let completed = attempts.iter().find(|span| span.attribute("baton.reason") == "completed").unwrap();
    assert_eq!(place, format!("00-{TRACE}-{}-01", completed.span_id), "the command knows its place");
    assert_eq!(roots[0].end_ms, run.ended_at.unwrap().0 as u64);
    assert_eq!(run.trace_id.as_deref(), Some(TRACE));
}

on_both_stores!(a_trace_survives_kills_of_worker_and_server);
