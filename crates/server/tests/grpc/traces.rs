//! Traces of workflows over gRPC, for workers in any language.

use baton_proto::v1;
use baton_testkit::Collector;
use tonic::Request;

use crate::harness::{On, on_both};
use crate::rig::{Rig, order, suspension};

on_both!(
    a_workflow_is_part_of_the_callers_trace,
    a_child_is_part_of_its_parents_trace,
    what_goes_on_as_new_knows_what_it_goes_on_from,
    an_error_names_the_trace,
);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn recording(on: On, collector: &Collector) -> Rig {
    let url = collector.url().to_owned();
    Rig::with(on, |settings| settings.otlp_endpoint = Some(url)).await
}

fn traced() -> v1::StartWorkflowRequest {
    v1::StartWorkflowRequest { traceparent: TRACEPARENT.into(), tracestate: "vendor=1".into(), ..order() }
}

async fn a_workflow_is_part_of_the_callers_trace(on: On) {
    let mut rig = Rig::start(on).await;
    let mut said = Request::new(order());
    said.metadata_mut().insert("traceparent", TRACEPARENT.parse().unwrap());
    let by_metadata = rig.client.start_workflow(said).await.unwrap().into_inner().run_id;
    assert_eq!(rig.get(&by_metadata).await.trace_id, TRACE);
    let worker = rig.worker().await;
    let held = rig.poll(&worker).await;
    assert_eq!(held.traceparent, TRACEPARENT, "nothing is recorded: it is passed on");
    rig.complete(&held, "1").await;

    let once = v1::StartWorkflowRequest { idempotency_key: Some("k".into()), ..traced() };
    let first = rig.client.start_workflow(once.clone()).await.unwrap().into_inner();
    let other = v1::StartWorkflowRequest { traceparent: String::new(), ..once };
    let second = rig.client.start_workflow(other).await.unwrap().into_inner();
    assert_eq!((second.run_id, second.existed), (first.run_id, true), "the trace is not part of what was said");
    let held = rig.poll(&worker).await;
    assert_eq!((held.traceparent.as_str(), held.tracestate.as_str()), (TRACEPARENT, "vendor=1"));
    let wrong = v1::StartWorkflowRequest { traceparent: "00-nothing".into(), ..order() };
    let run = rig.client.start_workflow(wrong).await.unwrap().into_inner().run_id;
    assert_eq!(rig.get(&run).await.trace_id, "");
}

async fn a_child_is_part_of_its_parents_trace(on: On) {
    let collector = Collector::start().await;
    let mut rig = recording(on, &collector).await;
    rig.client.start_workflow(traced()).await.unwrap();
    let worker = rig.worker().await;
    let parent = rig.poll(&worker).await;
    let start = v1::StartWorkflowRequest { workflow_type: "child".into(), ..Default::default() };
    let child = v1::StartChildRequest {
        run_id: parent.run_id.clone(),
        lease: parent.lease.clone(),
        position: 0,
        name: "deliver".into(),
        start: Some(start),
    };
    let child = rig.client.start_child(child).await.unwrap().into_inner().run_id;
    assert_eq!(rig.get(&child).await.trace_id, TRACE);
    assert!(rig.client.suspend(suspension(&parent, 0)).await.unwrap().into_inner().suspended);
    let held = rig.poll(&worker).await;
    assert_eq!(held.run_id, child);
    rig.complete(&held, "1").await;
    let mut trace = collector.until_named(TRACE, "run child", 1).await;
    trace.extend(collector.until_named(TRACE, "process orders", 2).await);
    let root = trace.iter().find(|span| span.name == "run child").unwrap();
    let parents: Vec<&str> = parent.traceparent.split('-').collect();
    assert_eq!(root.parent, parents[2], "it hangs below the attempt that started it");
}

async fn what_goes_on_as_new_knows_what_it_goes_on_from(on: On) {
    let collector = Collector::start().await;
    let mut rig = recording(on, &collector).await;
    let first = rig.client.start_workflow(traced()).await.unwrap().into_inner().run_id;
    let worker = rig.worker().await;
    let held = rig.poll(&worker).await;
    let going_on =
        v1::ContinueAsNewRequest { run_id: held.run_id.clone(), lease: held.lease.clone(), ..Default::default() };
    rig.client.continue_as_new(going_on).await.unwrap();
    let next = rig.poll(&worker).await;
    assert_ne!(next.run_id, first);
    rig.complete(&next, "1").await;
    let trace_id = rig.get(&next.run_id).await.trace_id;
    assert!(trace_id != TRACE && !trace_id.is_empty());
    let kind = rig.get(&first).await.workflow_type;
    let [before, after] = [TRACE, trace_id.as_str()];
    let root = format!("run {kind}");
    let first = collector.until_named(before, &root, 1).await.into_iter().find(|span| span.name == root).unwrap();
    let second = collector.until_named(after, &root, 1).await.into_iter().find(|span| span.name == root).unwrap();
    assert_eq!(second.links, [(TRACE.to_owned(), first.span_id)]);
}

async fn an_error_names_the_trace(on: On) {
    use tonic_types::StatusExt;
    let mut rig = Rig::start(on).await;
    let mut said = Request::new(v1::GetWorkflowRunRequest { run_id: "none".into() });
    said.metadata_mut().insert("traceparent", TRACEPARENT.parse().unwrap());
    let refused = rig.client.get_workflow_run(said).await.unwrap_err();
    assert_eq!(refused.get_details_error_info().unwrap().metadata["trace_id"], TRACE);
}
