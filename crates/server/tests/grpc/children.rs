//! Workflows that start workflows.

use baton_proto::v1::{MessageKind, RunState, StepKind};
use baton_proto::{ChangeNamespace, v1};
use tonic::Code;

use crate::harness::{On, eventually, on_both};
use crate::rig::{Rig, field, order, refusal, suspension};

fn child(run: &v1::PollActivityResponse, position: u32) -> v1::StartChildRequest {
    let start = v1::StartWorkflowRequest { workflow_type: "child".into(), input: "1".into(), ..Default::default() };
    v1::StartChildRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        position,
        name: "deliver".into(),
        start: Some(start),
    }
}

async fn a_parent_hears_of_the_end_of_its_child(on: On) {
    let mut rig = Rig::start(on).await;
    let (worker, run) = rig.held().await;
    let started = rig.client.start_child(child(&run, 0)).await.unwrap().into_inner().run_id;
    let again = rig.client.start_child(child(&run, 0)).await.unwrap().into_inner().run_id;
    assert_eq!(again, started, "the position is the child's key");
    let shown = rig.get(&started).await;
    assert_eq!((&shown.parent_run_id, shown.task_queue.as_str()), (&run.run_id, "orders"));
    assert!(rig.client.suspend(suspension(&run, 0)).await.unwrap().into_inner().suspended);
    let held = rig.poll(&worker).await;
    assert_eq!(held.run_id, started);
    rig.complete(&held, r#""delivered""#).await;
    let id = run.run_id.clone();
    let mut reader = rig.client.clone();
    eventually("the parent wakes", async || {
        let get = v1::GetWorkflowRunRequest { run_id: id.clone() };
        // It sleeps until it is woken, and is claimable then.
        reader.get_workflow_run(get).await.unwrap().into_inner().due_at.unwrap().seconds < 2_000_000_000
    })
    .await;
    let parent = rig.poll(&worker).await;
    assert_eq!((&parent.run_id, parent.steps[0].kind()), (&run.run_id, StepKind::Child));
    assert_eq!(parent.steps[0].child_run_id, started);
    let message = &parent.messages[0];
    assert_eq!((message.kind(), &message.name, message.position), (MessageKind::Child, &started, 0));
    assert_eq!((message.state(), &message.payload[..]), (RunState::Completed, &br#""delivered""#[..]));
}

async fn the_end_of_a_parent_cancels_its_children(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let started = rig.client.start_child(child(&run, 0)).await.unwrap().into_inner().run_id;
    rig.complete(&run, "").await;
    let mut reader = rig.client.clone();
    eventually("the child is cancelled", async || {
        let get = v1::GetWorkflowRunRequest { run_id: started.clone() };
        reader.get_workflow_run(get).await.unwrap().into_inner().state() == RunState::Cancelled
    })
    .await;
}

async fn what_is_wrong_with_a_child_is_named(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let mut keyed = child(&run, 0);
    keyed.start.as_mut().unwrap().idempotency_key = Some("k".into());
    assert_eq!(field(rig.client.start_child(keyed).await), "start.idempotency_key");
    let nothing = v1::StartChildRequest { start: None, ..child(&run, 0) };
    assert_eq!(field(rig.client.start_child(nothing).await), "start");
    let mut elsewhere = child(&run, 0);
    elsewhere.start.as_mut().unwrap().namespace_id = "other".into();
    let mut worker = rig.client_for(&["worker"], None).await;
    assert_eq!(refusal(worker.start_child(elsewhere).await).0, Code::PermissionDenied);
    assert!(worker.start_child(child(&run, 0)).await.is_ok(), "in its own namespace the lease is enough");
    rig.complete_step(&run, 1, "s", "1").await;
    assert_eq!(refusal(rig.client.start_child(child(&run, 1)).await), (Code::FailedPrecondition, "DIVERGED".into()));
}

/// Parents that wait for room would keep the room they wait for.
async fn children_are_taken_where_nothing_else_is(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let limits = ChangeNamespace { live_runs_max: Some(Some(1)), ..ChangeNamespace::default() };
    rig.server.client.change_namespace("default", &limits).await.unwrap();
    let refused = refusal(rig.client.start_workflow(order()).await);
    assert_eq!(refused, (Code::ResourceExhausted, "NAMESPACE_LIMIT".into()));
    let first = rig.client.start_child(child(&run, 0)).await.unwrap().into_inner().run_id;
    rig.server.client.disable_namespace("default", "maintenance").await.unwrap();
    assert_eq!(refusal(rig.client.start_workflow(order()).await).1, "NAMESPACE_DISABLED");
    let again = rig.client.start_child(child(&run, 0)).await.unwrap().into_inner().run_id;
    assert_eq!(again, first);
    rig.client.start_child(child(&run, 1)).await.unwrap();
}

async fn a_child_elsewhere_is_found_again_where_nothing_new_is_taken(on: On) {
    let mut rig = Rig::start(on).await;
    let (_, run) = rig.held().await;
    let elsewhere = |position| {
        let mut child = child(&run, position);
        child.start.as_mut().unwrap().namespace_id = "elsewhere".into();
        child
    };
    let first = rig.client.start_child(elsewhere(3)).await.unwrap().into_inner().run_id;
    rig.server.client.disable_namespace("elsewhere", "maintenance").await.unwrap();
    assert_eq!(rig.client.start_child(elsewhere(3)).await.unwrap().into_inner().run_id, first);
    assert_eq!(refusal(rig.client.start_child(elsewhere(4)).await).1, "NAMESPACE_DISABLED");
}

on_both!(
    children_are_taken_where_nothing_else_is,
    a_child_elsewhere_is_found_again_where_nothing_new_is_taken,
    a_parent_hears_of_the_end_of_its_child,
    the_end_of_a_parent_cancels_its_children,
    what_is_wrong_with_a_child_is_named,
);
