//! Traces of workflows, across the server and the Rust worker.

use std::time::Duration;

use baton::{Context, RetryPolicy, StepError, WorkflowError};
use baton_testkit::{CollectedSpan, Collector};

use crate::harness::{On, Server, on_both};
use crate::site::{Counter, Site, Working, within};

on_both!(a_workflow_is_one_trace_across_server_and_worker, a_worker_that_is_killed_leaves_a_whole_trace);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn site(on: On, collector: &Collector) -> Site {
    let url = collector.url().to_owned();
    let server = Server::real(on, |settings| {
        settings.otlp_endpoint = Some(url);
        settings.lease_ttl_ms = 1_500;
        settings.heartbeat_interval_ms = 300;
    });
    Site::of(server.await).await
}

fn named<'a>(trace: &'a [CollectedSpan], name: &str) -> Vec<&'a CollectedSpan> {
    let mut found: Vec<_> = trace.iter().filter(|span| span.name == name).collect();
    found.sort_by_key(|span| (span.begin_ms, span.end_ms));
    found
}

fn assert_whole(trace: &[CollectedSpan]) {
    let ids: Vec<&str> = trace.iter().map(|span| span.span_id.as_str()).collect();
    for span in trace {
        let resolves = span.parent == PARENT || ids.contains(&span.parent.as_str());
        assert!(resolves, "{span:#?} has no parent in {trace:#?}");
        assert_eq!(ids.iter().filter(|id| **id == span.span_id).count(), 1, "{span:#?} is there with two contents");
    }
}

async fn a_workflow_is_one_trace_across_server_and_worker(on: On) {
    let collector = Collector::start().await;
    let site = site(on, &collector).await;
    let tries = Counter::default();
    let mut worker = site.builder(site.server.address).name("w1").otlp_endpoint(collector.url()).build().await.unwrap();
    worker.register("order", move |ctx: Context, (): ()| {
        let tries = tries.clone();
        async move {
            let policy = RetryPolicy::attempts(3).first_interval(Duration::from_millis(10)).jitter(0.0);
            let charge = || async {
                match tries.up() {
                    1 => Err(StepError::new("declined").code("declined")),
                    _ => Ok(()),
                }
            };
            ctx.step("charge", charge).retry(policy).await?;
            ctx.sleep(Duration::from_millis(300)).await?;
            let child: String = ctx.child("child", &()).await?;
            Ok::<_, WorkflowError>((ctx.traceparent().unwrap_or_default(), child))
        }
    });
    worker.register("child", |ctx: Context, (): ()| async move {
        Ok::<_, WorkflowError>(ctx.traceparent().unwrap_or_default())
    });
    let working = Working::begin(worker);
    let client = site.client.clone().with_trace(&format!("00-{TRACE}-{PARENT}-01"), None);
    let handle = client.start("order", &()).queue(crate::site::QUEUE).await.unwrap();
    let (place, childs): (String, String) = within(handle.result()).await.unwrap();
    assert!(place.contains(TRACE) && childs.contains(TRACE) && place != childs);
    working.stop().await;

    collector.until_named(TRACE, "run order", 1).await;
    collector.until_named(TRACE, "execute order", 1).await;
    let trace = collector.until_named(TRACE, "run child", 1).await;
    assert_whole(&trace);
    let [root, child] = ["run order", "run child"].map(|name| named(&trace, name)[0]);
    assert_eq!(root.parent, PARENT);
    let attempts = named(&trace, "process orders");
    let of = |run: &str| attempts.iter().filter(|span| span.attribute("baton.run.id") == run).collect::<Vec<_>>();
    let own = of(handle.run_id());
    assert!(!own.is_empty() && own.iter().all(|attempt| attempt.parent == root.span_id));
    assert!(own.iter().any(|attempt| attempt.span_id == child.parent), "the child hangs below its parent's attempt");
    let steps = named(&trace, "step charge");
    let said: Vec<_> = steps.iter().map(|step| (step.attribute("baton.step.attempt"), step.error.as_deref())).collect();
    assert_eq!(said, [("1", Some("declined")), ("2", None)], "{steps:#?}");
    assert_eq!(steps[0].attribute("error.type"), "declined");
    assert!(steps.iter().all(|step| own.iter().any(|attempt| attempt.span_id == step.parent)));
    let sleep = trace.iter().find(|span| span.attribute("baton.step.kind") == "sleep").expect("the sleep");
    assert!(sleep.end_ms - sleep.begin_ms >= 290, "{sleep:#?}");
    assert_eq!(trace.iter().filter(|span| span.attribute("baton.step.kind") == "child").count(), 1);
    let executed = named(&trace, "execute step charge");
    assert_eq!(executed.len(), 2);
    assert!(executed.iter().all(|span| span.resource["service.name"] == "baton-worker"));
    assert_eq!(named(&trace, "execute child").len(), 1);
}

async fn a_worker_that_is_killed_leaves_a_whole_trace(on: On) {
    let collector = Collector::start().await;
    let site = site(on, &collector).await;
    let mut first = site.builder(site.server.address).otlp_endpoint(collector.url()).build().await.unwrap();
    let begun = Counter::default();
    let counter = begun.clone();
    first.register("order", move |ctx: Context, (): ()| {
        let counter = counter.clone();
        async move {
            ctx.step("one", || async { Ok(1) }).await?;
            let stuck = || async {
                counter.up();
                std::future::pending::<Result<u32, StepError>>().await
            };
            ctx.step("two", stuck).await
        }
    });
    let killed = Working::begin(first);
    let client = site.client.clone().with_trace(&format!("00-{TRACE}-{PARENT}-01"), None);
    let handle = client.start("order", &()).queue(crate::site::QUEUE).await.unwrap();
    within(async {
        while begun.get() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    killed.kill();
    let mut second = site.worker().await;
    second.register("order", |ctx: Context, (): ()| async move {
        let one = ctx.step("one", || async { Ok(1) }).await?;
        let two: u32 = ctx.step("two", || async { Ok(2) }).await?;
        Ok::<u32, WorkflowError>(one + two)
    });
    let working = Working::begin(second);
    assert_eq!(within(handle.result::<u32>()).await.unwrap(), 3);
    let trace = collector.until_named(TRACE, "run order", 1).await;
    working.stop().await;
    assert_whole(&trace);
    let ends: Vec<_> = named(&trace, "process orders").iter().map(|span| span.attribute("baton.reason")).collect();
    assert_eq!(ends, ["worker_lost", "completed"]);
    assert_eq!(named(&trace, "step one").len(), 1, "what was remembered is not executed again");
}
